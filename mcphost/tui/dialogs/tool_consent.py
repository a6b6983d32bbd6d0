"""Approve, edit, deny or widen one tool call; everything that will be sent is on it, complete, and was seen first."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from mcphost.config.confusable_names import name_danger
from mcphost.config.rules import Rule, exact
from mcphost.host.questions.questions import (
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    Deny,
    ToolVerdict,
)
from mcphost.sanitize import literal
from mcphost.serialization import replace
from mcphost.tui.dialogs.call_view import claims, first_line, hides, same, sections, shown_call
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.file_diff import Difference, FileWanted, replacements, target
from mcphost.tui.messages import Section, TextWanted
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.code_text import code_content
from mcphost.tui.widgets.key_values import Pairs, differences
from mcphost.tui.widgets.ordered_input import TextLine

_DESCRIBED = 4_000
_HEADLINE = 56
_PREVIEWED = 300


class Reading:
    """How far one call was read, and what was edited; it outlives the dialog when the user goes back to the list."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.asked = arguments
        self.arguments = arguments
        self.end_shown = False
        self.whole_shown = False

    @property
    def edited(self) -> bool:
        """Whether the user changed what the model asked for."""
        return not same(self.arguments, self.asked)

    def edit(self, arguments: dict[str, Any]) -> bool:
        """Other arguments, to be read anew; whether they are others."""
        if same(arguments, self.arguments):
            return False
        self.arguments = arguments
        self.end_shown = self.whole_shown = False
        return True

    @property
    def is_done(self) -> bool:
        """Whether everything that would be sent was on the screen."""
        return self.end_shown and (self.whole_shown or not shown_call(self.arguments, self.asked).left_out)


class ToolConsent(Dialog[ToolVerdict]):
    """May this tool run with these arguments?"""

    NAMES_ACCOUNT: ClassVar[bool] = False
    NAMES_WHOLE: ClassVar[bool] = False
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Deny"),
        ("reason", "Deny with reason"),
        ("once", "Allow once"),
        ("session", "Allow this session"),
        ("always", "Always…"),
    )
    AGREEING: ClassVar[frozenset[str]] = frozenset({"once", "session", "always"})
    OPENING: ClassVar[frozenset[str]] = frozenset({"reason"})
    REASON_KEYS: ClassVar[str] = "enter denies with this reason · esc goes back"
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
    ToolConsent #reason-text { border: none; height: 1; background: $surface; padding: 0 1; }
    """

    def __init__(self, question: ApproveTool) -> None:
        super().__init__(question)
        self.asked = question
        self.reading = Reading(question.arguments)
        self.shown = shown_call(self.reading.arguments, self.reading.asked)
        self._in_list = False
        self._file: Difference | None = None

    def keep(self, kept: Any) -> Reading:
        """How far it was read already, and what was edited."""
        if isinstance(kept, Reading):
            self.reading, self.was_read = kept, kept.end_shown
        return self.reading

    def offer_list(self, *, several: bool) -> None:
        self._in_list = several
        if self.is_attached and not self.query("#extra.shown"):
            self.show_keys(self.keys())

    def action_list(self) -> None:
        """Decide later: back to the list of calls that wait."""
        if self._in_list:
            self.dismiss(cast("ToolVerdict", self.LATER))

    def headline(self) -> str:
        return f"{literal(self.asked.server)} wants to run {literal(self.asked.tool)}"

    def preview(self) -> str:
        words = first_line(self.reading.arguments, _PREVIEWED) or "no arguments"
        return f"{self.asked.tool}: {words}" if len(self.headline()) > _HEADLINE else words

    # -- what is on it

    def body(self) -> Sequence[Content | Widget]:
        self.shown = shown_call(self.reading.arguments, self.reading.asked)
        out: list[Content | Widget] = [*self._notes()]
        if pairs := self._names():
            out.append(Pairs(pairs))
        out += self._differences()
        sent: list[tuple[str, str | Content]] = [*self.shown.pairs] or [("", "It takes no arguments.")]
        for at, language in self.shown.codes.items():
            sent[at] = (sent[at][0], code_content(str(sent[at][1]), language))
        out.append(Pairs(sent, styles=self.shown.styles, id="sent"))
        if self._hides:
            words = "▲ Hidden or control characters are shown as marks. Such a call is allowed once at most."
            out.append(Content.styled(words, "$warning"))
        return [*out, *self._said()]

    def _differences(self) -> Iterator[Content | Widget]:
        """What the call would change, as far as that is known: before what is sent, which stays complete."""
        for found in (*replacements(self.reading.arguments), *filter(None, (self._file,))):
            yield Content.styled(found.title, "$muted")
            if found.rows:
                yield differences(found.rows)
            yield Content("")

    def on_mount(self) -> None:
        """Compare the call with the file that it names."""
        self._compare()

    def _compare(self) -> None:
        wanted = target(self.asked, self.reading.arguments)
        if wanted is None:
            return

        async def compared(found: Difference) -> None:
            now = target(self.asked, self.reading.arguments)
            # With a line open for a reason, the text above must not move.
            if now == wanted and self.is_there and not self.query("#extra.shown"):
                self._file = found
                await self.show_body()

        self.post_message(FileWanted(wanted, compared))

    def _notes(self) -> list[Content]:
        question = self.asked
        out: list[Content] = []
        if danger := name_danger(question.server):
            out.append(Content.styled(f"▲ The server {danger}", "bold $warning"))
        if question.drifted:
            words = "▲ The server changed this tool since you allowed it. Read it as if it were new."
            out.append(Content.styled(words, "bold $warning"))
        elif question.first_use:
            out.append(Content.styled("first use of this tool", "$warning"))
        if question.fault:
            out.append(Content.styled(f"▲ {clean(question.fault)}", "bold $error"))
        if self.reading.edited:
            words = f"edited by you: {self.shown.changes} · allowed once, or by a rule"
            out.append(Content.styled(words, "$accent"))
        return out

    def _names(self) -> list[tuple[str, str]]:
        """The account, and the names where the title has no room for them."""
        pairs: list[tuple[str, str]] = []
        if len(self.headline()) > _HEADLINE:
            server, tool = literal(self.asked.server), literal(self.asked.tool)
            pairs += [("server", clean_line(server, 400)), ("tool", clean_line(tool, 400))]
        if self.asked.account:
            pairs.append(("account", clean_line(self.asked.account, 200)))
        return [*pairs, ("", "")] if pairs else []

    def _said(self) -> list[Content]:
        """What the server says of the tool: after what is sent, and never as our own words."""
        question = self.asked
        told = claims(question.claims)
        said = f"The server claims: {told}" if told else "The server claims nothing about what this tool does"
        out = [Content.assemble("\n", (said, "$text"), ("   (a claim, not checked)" if told else "", "$faint"))]
        if question.description:
            words = clean(question.description[:_DESCRIBED])
            rest = len(question.description) - _DESCRIBED
            more = f"\n… {rest:,} more characters of the description: v shows all of it" if rest > 0 else ""
            said = ("The server describes it as: ", "$faint"), (words, "$muted"), (more, "$warning")
            out.append(Content.assemble(*said))
        if question.claims.title:
            out.append(Content.styled(f'The server titles it "{clean_line(question.claims.title, 120)}"', "$faint"))
        return out

    @property
    def _hides(self) -> bool:
        return self.shown.hidden or hides(self.asked.tool) or hides(self.asked.server)

    # -- what may be chosen

    def withheld(self, ident: str) -> str:
        if ident not in self.AGREEING:
            return ""
        if self.query("#extra.shown") or not self.is_active:
            # A key that was typed before the line or the page over it opened, and is meant for that.
            return "something else is open: esc goes back"
        if unread := super().withheld(ident):
            return unread
        if unread := self.reminder():
            return unread
        return self._kept_out(ident)

    def reminder(self) -> str:
        if not self.shown.left_out or self.reading.whole_shown:
            return ""
        return f"{self.shown.left_out:,} characters are left out here: read them with v, to the end"

    def _kept_out(self, ident: str) -> str:
        """Why such a call never has that answer."""
        if ident != "once" and self._hides:
            return "calls with hidden characters can be allowed once only"
        if ident == "session" and self.reading.edited:
            return "an edited call is allowed once, or by a rule"
        return ""

    def show_locks(self) -> None:
        """Buttons and keys say what can be chosen now."""
        self.reading.end_shown = self.reading.end_shown or self.was_read
        for ident in ("session", "always"):
            self.query_one(f"#{ident}").display = not self._kept_out(ident)
        super().show_locks()
        if not self.query("#extra.shown"):
            self.show_keys(self.keys())

    def keys(self) -> str:
        """What can be chosen now."""
        words = ["esc/d deny", "r reason"]
        if self.withheld("once"):
            words.append("a once: not yet")
        else:
            known = {"once": "a once", "session": "s session", "always": "A always"}
            words += [text for ident, text in known.items() if not self._kept_out(ident)]
        if self.asked.editable:
            words.append("e edit")
        return " · ".join([*words, "v all", *(["l list"] if self._in_list else [])])

    # -- the parts that open

    def extra(self) -> ComposeResult:
        yield TextLine(
            placeholder="Why not? The model reads this. Enter denies, esc goes back.", id="reason-text", compact=True
        )

    def action_refuse(self) -> None:
        """Deny; from an open input, go back to the buttons first."""
        if not self.close_extra():
            self.dismiss(Deny())

    def action_reason(self) -> None:
        """Ask for a reason that the model reads."""
        self.open_extra("reason-text", self.REASON_KEYS)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The reason is given."""
        event.stop()
        self.dismiss(Deny(reason=event.value.strip()))

    def action_once(self) -> None:
        """Run it this time, with the arguments shown."""
        self.agree("once", AllowOnce(arguments=self.reading.arguments if self.reading.edited else None))

    def action_session(self) -> None:
        """Run it now and until mcphost ends."""
        self.agree("session", AllowSession())

    def action_always(self) -> None:
        """Say which calls run from now on: this tool, to begin with, while server and tool stay what they are."""
        if self.withheld("always"):
            self.agree("always", AllowAlways())
            return
        from mcphost.tui.dialogs.rule_builder import RuleBuilder

        asked = replace(self.asked, arguments=self.reading.arguments)
        self.app.push_screen(RuleBuilder(asked), self._by_rule)  # pyright: ignore[reportUnknownMemberType]

    def _by_rule(self, rule: Rule | None) -> None:
        if rule is not None:
            plain = rule == Rule(server=self.asked.server, tool=exact(self.asked.tool))
            if self.reading.edited:
                self.agree("always", AllowRule(rule, self.reading.arguments))
            else:
                self.agree("always", AllowAlways() if plain else AllowRule(rule))

    def action_view(self) -> None:
        """Every argument, whole, on a page of its own; the question waits under it."""

        def seen() -> None:
            self.reading.whole_shown = True
            self.show_locks()

        title = f"{self.asked.server} · {self.asked.tool}"
        shown = sections(self.reading.arguments)
        if len(self.asked.description) > _DESCRIBED:
            shown = (*shown, Section("── how the server describes the tool", self.asked.description))
        self.post_message(TextWanted(title, "It takes no arguments.", seen, sections=shown))

    def action_edit(self) -> None:
        """Edit the arguments; where they cannot be edited, nothing."""
        if self.asked.editable and not self.query("#extra.shown"):
            from mcphost.tui.dialogs.edit_arguments import EditArguments

            editor = EditArguments(self.asked, self.reading.arguments)
            self.app.push_screen(editor, self._edited)  # pyright: ignore[reportUnknownMemberType]

    async def _edited(self, arguments: dict[str, Any] | None) -> None:
        """Show the edited arguments as they will be sent; they are to be read like the first ones."""
        if arguments is not None and self.reading.edit(arguments):
            self._file = None
            await self.show_body()
            self._compare()
