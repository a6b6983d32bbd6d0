"""Dialogs to approve, edit or deny a tool call, and to continue a turn that reached the limit on tool rounds."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from mcphost.config.rule_syntax import exact_pattern
from mcphost.config.rules import Rule
from mcphost.host.argument_origins import ArgumentOrigin
from mcphost.host.consent.call_readability import has_hidden_characters, once_only_reason
from mcphost.host.origins.argument_copies import ArgumentTexts
from mcphost.host.questions.questions import (
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    ContinueTurn,
    Deny,
    ToolVerdict,
)
from mcphost.host.servers.description_warnings import warn_about_definition
from mcphost.local_time import format_moment
from mcphost.sanitize import mark_unusual_spaces
from mcphost.serialization import replace
from mcphost.translation import N_, _, ngettext, translate_sentence
from mcphost.tui.dialogs.call_view import (
    NO_GUARANTEE,
    describe_annotations,
    describe_warnings,
    is_same_json,
    prepare_argument_sections,
    render_call,
    summarize_arguments,
)
from mcphost.tui.dialogs.copied_text import CopyMarker, render_origins
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.file_diff import FileDiffRequested, TextDiff, diff_replacements, find_file_write, render_code
from mcphost.tui.screen_text import account_title, clean, clean_line
from mcphost.tui.widget_messages import Section, TextViewRequested
from mcphost.tui.widgets.key_values import KeyValueList, quote_statement, render_diff_lines
from mcphost.tui.widgets.text_inputs import OrderedInput
from mcphost.unicode_forms import describe_name_risk

_MAX_DESCRIPTION_LENGTH = 4_000
_MAX_HEADLINE_LENGTH = 56
_MAX_PREVIEW_LENGTH = 300
_MAX_COMPARED_LENGTH = 200


class CallReview:
    """The user's edits of a tool call's arguments, and how far the user has read the arguments.

    Both are kept when the user returns from the call's dialog to the list of waiting calls.

    - `is_end_shown` is set once the user has scrolled the dialog to the end.
    - `is_fully_shown` is set once the user has read the arguments to the end in the full-screen viewer. This is
      required only if the dialog omits some of their text.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.original_arguments = arguments
        self.arguments = arguments
        self.is_end_shown = False
        self.is_fully_shown = False

    @property
    def is_edited(self) -> bool:
        """Whether the user changed the arguments."""
        return not is_same_json(self.arguments, self.original_arguments)

    def edit(self, arguments: dict[str, Any]) -> bool:
        """Replace the arguments and reset the reading progress; return False if the arguments are unchanged."""
        if is_same_json(arguments, self.arguments):
            return False
        self.arguments = arguments
        self.is_end_shown = self.is_fully_shown = False
        return True

    @property
    def is_complete(self) -> bool:
        """Whether the user has been shown everything that would be sent to the server."""
        return self.is_end_shown and (
            self.is_fully_shown or not render_call(self.arguments, self.original_arguments).omitted_characters
        )


class ToolConsentDialog(Dialog[ToolVerdict]):
    """Dialog that asks whether a tool call may run, and lets the user edit its arguments first."""

    SHOW_ACCOUNT: ClassVar[bool] = False
    REPEAT_LONG_TITLE: ClassVar[bool] = False
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Deny")),
        ("reason", N_("Deny with reason")),
        ("once", N_("Allow once")),
        ("session", N_("Allow this session")),
        ("always", N_("Always…")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"once", "session", "always"})
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"reason"})
    REASON_KEYS: ClassVar[str] = N_("enter deny with this reason · esc back")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("r", "reason", show=False, priority=True),
        Binding("a", "once", show=False),
        Binding("s", "session", show=False),
        Binding("A", "always", show=False),
        Binding("e", "edit", show=False),
        Binding("v", "view", show=False),
        Binding("l", "list", show=False),
    ]
    DEFAULT_CSS = """
    ToolConsentDialog #reason-text { border: none; height: 1; background: $surface; padding: 0 1; }
    """

    def __init__(self, question: ApproveTool) -> None:
        super().__init__(question)
        self.details = question
        self.review = CallReview(question.arguments)
        self.call_view = render_call(self.review.arguments, self.review.original_arguments)
        self._has_list = False
        self._file_diff: TextDiff | None = None

    def restore_review(self, review: Any) -> CallReview:
        """Continue *review*, the earlier review of this call, if there was one; return the review in use."""
        if isinstance(review, CallReview):
            self.review, self.is_read = review, review.is_end_shown
        return self.review

    def set_list_available(self, *, is_available: bool) -> None:
        """Set whether the user can go back to the list of waiting calls, and update the key hints."""
        self._has_list = is_available
        if self.is_attached and not self.query("#extra.shown"):
            self.show_key_hints(self.key_hints())

    def action_list(self) -> None:
        """Return to the list of waiting calls without answering the question about this call."""
        if self._has_list:
            self.dismiss(cast("ToolVerdict", self.POSTPONED))

    def headline(self) -> str:
        """Return the title, which names the server and the tool."""
        words = _("Reuse the recorded result of {server} · {tool}?") if self.details.recorded_at else ""
        return (words or _("Run {server} · {tool}?")).format(
            server=mark_unusual_spaces(self.details.server), tool=mark_unusual_spaces(self.details.tool)
        )

    def preview(self) -> str:
        """Return the arguments for the card shown while the dialog is minimized.

        The tool's name comes first if the title is too long to show it.
        """
        words = summarize_arguments(self.review.arguments, _MAX_PREVIEW_LENGTH) or _("no arguments")
        return f"{self.details.tool}: {words}" if len(self.headline()) > _MAX_HEADLINE_LENGTH else words

    # -- content

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body: warnings, diffs, the arguments, and the server's claims about the tool."""
        self.call_view = render_call(self.review.arguments, self.review.original_arguments)
        origins = self._origins()
        out: list[Content | Widget] = [*self._notes(origins)]
        if pairs := self._name_pairs():
            out.append(KeyValueList(pairs))
        out += self._diff_widgets()
        sent: list[tuple[str, str | Content]] = [*self.call_view.pairs] or [("", _("It takes no arguments."))]
        for at, language in self.call_view.languages.items():
            sent[at] = (sent[at][0], render_code(str(sent[at][1]), language))
        marker = CopyMarker(self.review.arguments, origins) if origins else None
        if marker is not None:
            sent = [(name, self._mark_copies(at, value, marker)) for at, (name, value) in enumerate(sent)]
        out.append(KeyValueList(sent, styles=self.call_view.styles, id="sent"))
        if marker is not None and marker.is_incomplete:
            out.append(Content.styled(_("▲ Not all of the copied text is highlighted."), "$warning"))
        return [*out, *self._server_statements()]

    def _origins(self) -> tuple[ArgumentOrigin, ...]:
        """Return the origins of the text in the arguments that was copied from servers or files.

        Copied text that the user has changed since then is not included.
        """
        if not self.review.is_edited:
            return self.details.origins
        if not self.details.origins:
            return ()
        original, now = ArgumentTexts(self.review.original_arguments), ArgumentTexts(self.review.arguments)
        return tuple(
            origin
            for origin in self.details.origins
            if list(original.copied_parts(origin)) == list(now.copied_parts(origin))
        )

    def _mark_copies(self, at: int, value: str | Content, marker: CopyMarker) -> str | Content:
        """Highlight the text in an argument's displayed *value* that was copied from servers or files.

        *at* is the index of the argument among the displayed pairs, and *marker* finds the copied text. If no text was
        copied, *value* is returned unchanged.
        """
        if at not in self.call_view.paths:
            return value
        plain = (
            value if isinstance(value, Content) else Content.styled(value, self.call_view.styles.get(at, ("", ""))[1])
        )
        marked = marker.mark(plain, self.call_view.paths[at])
        return value if marked is plain else marked

    def _diff_widgets(self) -> Iterator[Content | Widget]:
        """Yield diffs for the text that the call would replace, and for the file that it would overwrite.

        A diff for replaced text compares arguments such as `old_string` and `new_string`. The diffs are shown in
        addition to the arguments.
        """
        for diff in (*diff_replacements(self.review.arguments), *filter(None, (self._file_diff,))):
            yield Content.styled(diff.title, "$muted")
            if diff.rows:
                yield render_diff_lines(diff.rows)
            yield Content("")

    def on_mount(self) -> None:
        """Request a diff between the new text and the file that the call would overwrite, if it overwrites one."""
        self._request_file_diff()

    def _request_file_diff(self) -> None:
        wanted = find_file_write(self.details, self.review.arguments)
        if wanted is None:
            return

        async def compared(diff: TextDiff) -> None:
            now = find_file_write(self.details, self.review.arguments)
            # While the input for a reason is open, the text above must not move.
            if now == wanted and self.is_open and not self.query("#extra.shown"):
                self._file_diff = diff
                await self.show_body()

        self.post_message(FileDiffRequested(wanted, compared))

    def _notes(self, origins: Sequence[ArgumentOrigin]) -> list[Content]:
        question = self.details
        out: list[Content] = []
        if self._has_hidden_characters:
            # First, because it explains why two of the buttons are missing.
            words = (
                _("▲ Hidden or control characters are shown as marks. Such a call can only be allowed once.")
                if self.call_view.readability.is_checked
                else _("▲ Too large to check for hidden characters. Such a call can only be allowed once.")
            )
            out.append(Content.styled(words, "$warning"))
        if self.call_view.readability.has_unusual_names:
            words = _("▲ Unusual names of arguments are shown in quotes. Such a call can only be allowed once.")
            out.append(Content.styled(words, "$warning"))
        if danger := describe_name_risk(question.server):
            out.append(
                Content.styled(_("▲ The server {danger}").format(danger=translate_sentence(danger)), "bold $warning")
            )
        if danger := describe_name_risk(question.tool[:_MAX_COMPARED_LENGTH]):
            out.append(
                Content.styled(_("▲ The tool {danger}").format(danger=translate_sentence(danger)), "bold $warning")
            )
        warnings = describe_warnings(warn_about_definition(question.description, question.schema))
        out += [Content.styled(line, "bold $warning") for line in warnings]
        if warnings:
            out.append(Content.styled(_(NO_GUARANTEE), "$faint"))
        if question.recorded_at:
            words = _(
                "The tool will not be called: the model gets the result from {moment} again. The permission for that "
                "call has ended."
            )
            out.append(Content.styled(words.format(moment=format_moment(question.recorded_at)), "$warning"))
        if question.has_changed:
            words = _("▲ The server changed this tool since you allowed it. Review it again.")
            out.append(Content.styled(words, "bold $warning"))
        elif question.has_server_changed:
            words = _("Your permission does not apply: the server is now started or reached in another way.")
            out.append(Content.styled(words, "$warning"))
        elif question.first_use:
            out.append(Content.styled(_("first use in this session"), "$warning"))
        if question.arguments_error:
            out.append(Content.styled(f"▲ {clean(question.arguments_error)}", "bold $error"))
        out += render_origins(
            origins,
            is_complete=question.are_origins_complete,
            omitted=question.omitted_origins,
            media=question.media_origins,
        )
        if self.review.is_edited:
            words = _("edited by you: {changes} · allow it once, or always by a rule (A)").format(
                changes=self.call_view.changes
            )
            out.append(Content.styled(words, "$accent"))
        return out

    def _name_pairs(self) -> list[tuple[str, str]]:
        """Return name-value pairs: the account and, if they do not fit into the title, the server and the tool."""
        pairs: list[tuple[str, str]] = []
        if len(self.headline()) > _MAX_HEADLINE_LENGTH:
            server, tool = mark_unusual_spaces(self.details.server), mark_unusual_spaces(self.details.tool)
            pairs += [(_("server"), clean_line(server, 400)), (_("tool"), clean_line(tool, 400))]
        if self.details.account:
            pairs.append((_("account"), clean_line(account_title(self.details.account), 200)))
        return [*pairs, ("", "")] if pairs else []

    def _server_statements(self) -> Iterator[Content | Widget]:
        """Yield the tool's annotations, description and title, labeled as unverified claims by the server."""
        question = self.details
        told = describe_annotations(question.claims)
        said = (
            _("The server claims: {told}").format(told=told)
            if told
            else _("The server claims nothing about what this tool does")
        )
        yield Content.assemble("\n", (said, "$text"), (_("   (a claim, not checked)") if told else "", "$faint"))
        if question.description:
            words = clean(question.description[:_MAX_DESCRIPTION_LENGTH])
            rest = len(question.description) - _MAX_DESCRIPTION_LENGTH
            yield quote_statement(_("The server's description:"), words, "$muted")
            if rest > 0:
                more = _("… {rest:,} more characters of the description: v shows all of it").format(rest=rest)
                yield Content.styled(more, "$warning")
        if question.claims.title:
            yield quote_statement(_("The server's title for it:"), clean_line(question.claims.title, 120), "$muted")

    @property
    def _has_hidden_characters(self) -> bool:
        return (
            self.call_view.readability.has_hidden_characters
            or has_hidden_characters(self.details.tool)
            or has_hidden_characters(self.details.server)
        )

    # -- enabled answers

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled."""
        if button_id not in self.APPROVING:
            return ""
        if self.query("#extra.shown") or not self.is_active:
            # The key was meant for the input or screen that was just opening.
            return _("something else is open: esc goes back")
        return self.unmet_condition(button_id)

    def unmet_condition(self, button_id: str) -> str:
        """Return the reason why an approving button's key does not work yet, or "" if it works.

        For all other buttons, return "". Unlike `disabled_reason`, this method ignores whether an input or another
        screen is open.
        """
        if button_id not in self.APPROVING:
            return ""
        return super().disabled_reason(button_id) or self._excluded_reason(button_id)

    def reminder(self) -> str:
        """Return a reminder to read the arguments that the dialog does not show, or "" if all have been read."""
        if not self.call_view.omitted_characters or self.review.is_fully_shown:
            return ""
        return _("{omitted_characters:,} characters are not shown here: read them with v, to the end").format(
            omitted_characters=self.call_view.omitted_characters
        )

    def _excluded_reason(self, button_id: str) -> str:
        """Return the reason why a button is not offered for this call, or "" if it is offered.

        For example, some buttons are not offered if the arguments contain hidden characters.
        """
        if button_id != "once" and self.details.recorded_at:
            return _("a recorded result is reused only once")
        call = self.call_view.readability
        if button_id != "once" and (reason := once_only_reason(self.details.server, self.details.tool, call)):
            return _(reason)
        if button_id == "session" and self.review.is_edited:
            return _("an edited call is allowed once, or by a rule")
        return ""

    def update_locked_buttons(self) -> None:
        """Hide the buttons not offered for this call, update which ones look disabled, and update the key hints."""
        self.review.is_end_shown = self.review.is_end_shown or self.is_read
        for button_id in ("session", "always"):
            self.query_one(f"#{button_id}").display = not self._excluded_reason(button_id)
        super().update_locked_buttons()
        if not self.query("#extra.shown"):
            self.show_key_hints(self.key_hints())

    def on_screen_resume(self) -> None:
        """Enable the buttons again after the viewer, the editor or the rule builder has been closed."""
        if self.is_mounted:
            self.update_locked_buttons()

    def key_hints(self) -> str:
        """Return the key hints for the answers that are offered for this call."""
        words = [_("esc/d deny"), _("r reason")]
        known = {"once": _("a once"), "session": _("s session"), "always": _("A always")}
        words += [text for button_id, text in known.items() if not self._excluded_reason(button_id)]
        if self.details.editable:
            words.append(_("e edit"))
        return " · ".join([*words, _("v all"), *([_("l list")] if self._has_list else [])])

    # -- answers

    def compose_extra(self) -> ComposeResult:
        """Yield the input for the reason for denying the call, which is hidden until an action opens it."""
        yield OrderedInput(
            placeholder=_("Why not? The model reads this. Enter denies, esc goes back."), id="reason-text", compact=True
        )

    def action_refuse(self) -> None:
        """Deny the call; if the input for a reason is open, only close it."""
        if not self.close_extra():
            self.dismiss(Deny())

    def action_reason(self) -> None:
        """Open the input for the reason for denying the call; the reason is sent to the model."""
        self.open_extra("reason-text", self.REASON_KEYS)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Deny the call and send the entered reason to the model."""
        event.stop()
        self.dismiss(Deny(reason=event.value.strip()))

    def action_once(self) -> None:
        """Allow this call with the arguments shown."""
        self.approve("once", AllowOnce(arguments=self.review.arguments if self.review.is_edited else None))

    def action_session(self) -> None:
        """Allow the tool for this session."""
        self.approve("session", AllowSession())

    def action_always(self) -> None:
        """Open the rule builder with a rule for this call; if the Always button is disabled, show the reason.

        A skill is allowed without opening the rule builder, because the user cannot choose the conditions of its rule:
        the rule always refers to the skill's files and their content.
        """
        if self.disabled_reason("always") or self.details.skill:
            self.approve("always", AllowAlways())
            return
        from mcphost.tui.dialogs.rule_builder import RuleBuilderDialog

        asked = replace(self.details, arguments=self.review.arguments)
        self.app.push_screen(RuleBuilderDialog(asked), self._apply_rule)  # pyright: ignore[reportUnknownMemberType]

    def _apply_rule(self, rule: Rule | None) -> None:
        if rule is not None:
            plain = rule == Rule(server=self.details.server, tool=exact_pattern(self.details.tool))
            if self.review.is_edited:
                self.approve("always", AllowRule(rule, self.review.arguments))
            else:
                self.approve("always", AllowAlways() if plain else AllowRule(rule))

    async def action_view(self) -> None:
        """Open all arguments, untruncated, in the full-screen viewer; the dialog stays open behind it."""
        arguments = self.review.arguments

        def seen() -> None:
            if self.review.arguments is arguments:
                self.review.is_fully_shown = True
                self.update_locked_buttons()

        title = f"{self.details.server} · {self.details.tool}"
        shown = await prepare_argument_sections(arguments)
        if not self.is_open or self.app.screen is not self:  # pyright: ignore[reportUnknownMemberType]
            return  # closed, or covered by another screen, while the sections were prepared
        if len(self.details.description) > _MAX_DESCRIPTION_LENGTH:
            shown = (*shown, Section(_("── how the server describes the tool"), self.details.description))
        self.post_message(TextViewRequested(title, _("It takes no arguments."), seen, sections=shown))

    def action_edit(self) -> None:
        """Open the dialog for editing the arguments if they may be edited.

        Do nothing while the input for a reason is open.
        """
        if self.details.editable and not self.query("#extra.shown"):
            from mcphost.tui.dialogs.edit_arguments import EditArgumentsDialog, describe_excess

            editor = EditArgumentsDialog(
                self.details.server, self.details.tool, self.details.schema, self.review.arguments
            )
            if editor.is_json and (excess := describe_excess(self.review.arguments)):
                self.show_hint(excess)
                return
            editor.on_dismissed = self._await_edits
            self.app.push_screen(editor, self.apply_edits)  # pyright: ignore[reportUnknownMemberType]

    def _await_edits(self, arguments: dict[str, Any] | None) -> None:
        """Ignore all keys until `apply_edits` has shown the edited arguments; *arguments* is not used.

        Otherwise, a key pressed before that could approve the arguments as they were before the edit.
        """
        del arguments
        self.guard.hide()

    async def apply_edits(self, arguments: dict[str, Any] | None) -> None:
        """Show the edited arguments, which the user must read to the end again before approving the call.

        If *arguments* are None or unchanged, only accept keys again.
        """
        if not self.is_open:
            return
        if arguments is not None and self.review.edit(arguments):
            self._file_diff = None
            await self.show_body()
            self._request_file_diff()
        else:
            self.accept_keys()


class ContinueTurnDialog(Dialog[bool]):
    """Dialog that asks whether the model may continue a turn that reached the limit on tool rounds.

    In each round, the model requests tool calls and receives their results.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", N_("Stop here")), ("continue", N_("Go on")))
    KEYS: ClassVar[str] = N_("esc/d stop here · g go on")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("g", "continue", show=False),
    ]

    def __init__(self, question: ContinueTurn) -> None:
        super().__init__(question)
        self.rounds = question.rounds

    def headline(self) -> str:
        """Return the dialog's title."""
        return _("Continue?")

    def preview(self) -> str:
        """Return the number of tool rounds so far, for the card shown while the dialog is minimized."""
        return ngettext(
            "The model asked for tools {rounds} time in this turn.",
            "The model asked for tools {rounds} times in this turn.",
            self.rounds,
        ).format(rounds=self.rounds)

    def body(self) -> list[Content]:
        """Return the dialog's body: the number of tool rounds so far, and how many more would be allowed."""
        return [
            Content(
                ngettext(
                    "The model asked for tools {rounds} time in this turn. It may be stuck, or the task is long. Going "
                    "on allows up to {rounds} more round; every call is still subject to your approval.",
                    "The model asked for tools {rounds} times in this turn. It may be stuck, or the task "
                    "is long. Going on allows up to {rounds} more rounds; every call is still subject to "
                    "your approval.",
                    self.rounds,
                ).format(rounds=self.rounds)
            )
        ]

    def action_continue(self) -> None:
        """Continue the turn, and allow as many additional tool rounds as have already run."""
        self.dismiss(True)
