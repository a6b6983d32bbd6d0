"""Dialogs that ask whether to trust a server or a project's files, and show exactly what would be used."""

import shlex
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from mcphost.config.description_lines import translate_line, translate_pair
from mcphost.config.project_texts import split_lines
from mcphost.host.questions.questions import (
    DoNotTrust,
    ShownText,
    TrustAlways,
    TrustOnce,
    TrustProject,
    TrustServer,
    TrustVerdict,
)
from mcphost.sanitize import sanitize
from mcphost.translation import N_, _, join_list, ngettext, translate_sentence
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widget_messages import Section, TextViewRequested
from mcphost.tui.widgets.key_values import KeyValueList, QuotedPart, QuotedText, render_diff_lines

_MAX_COMMAND_LINE = 50


def _quote_value(text: str) -> str:
    """Sanitize the text as a single line; add quotation marks if it is empty or starts or ends with whitespace."""
    shown = clean(text).replace("\n", "⏎")
    return f'"{shown}"' if not text or text != text.strip() else shown


def _format_command(command: Sequence[str]) -> str:
    """Quote the words of a command for display.

    A long command has one word per line, so that its arguments can be told apart.
    """
    words = [clean(shlex.quote(word)).replace("\n", "⏎") for word in command]
    return ("\n" if sum(map(len, words)) > _MAX_COMMAND_LINE else " ").join(words)


_MAX_LINES = 400
"""Maximum lines of each text in the dialog; more would make layout slow."""
_MAX_LINE_LENGTH, _MAX_CHARACTERS = 4_000, 20_000
"""Maximum characters of one line of a diff in the dialog, and of all lines of the diff together."""


def _render_changes(lines: Sequence[str]) -> list[Content | Widget]:
    """Return a heading and the first lines of a diff, followed by the number of lines that are not shown."""
    shown = _first_changes(lines)
    if (more := len(lines) - len(shown)) > 0:
        shown.append(f"  {_count_more(more)}")
    return [Content.styled(_("▲ Changed since you approved it:"), "bold $warning"), render_diff_lines(shown)]


def _first_changes(lines: Sequence[str]) -> list[str]:
    shown: list[str] = []
    room = _MAX_CHARACTERS
    for line in lines[:_MAX_LINES]:
        kept = line[:2] + clean(line[2:] if len(line) <= _MAX_LINE_LENGTH else f"{line[2:_MAX_LINE_LENGTH]}…")
        room -= len(kept)
        if room < 0:
            break
        shown.append(kept)
    return shown


def _are_changes_cut(lines: Sequence[str]) -> bool:
    return len(_first_changes(lines)) < len(lines) or any(len(line) > _MAX_LINE_LENGTH for line in lines)


def _count_more(more: int) -> str:
    return ngettext("… {more:,} more line: v shows all", "… {more:,} more lines: v shows all", more).format(more=more)


class _TrustDialog(Dialog[TrustVerdict]):
    """Base class for dialogs that ask whether to trust a server or files; the `v` key opens the viewer.

    If the dialog has no room for some of the text that the user would approve, the user must read it in the viewer
    before approving.
    """

    APPROVING: ClassVar[frozenset[str]] = frozenset({"once", "always"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("s", "once", show=False),
        Binding("A", "always", show=False),
        Binding("v", "view", show=False),
    ]
    _is_viewed = False

    def is_cut(self) -> bool:
        """Return whether the dialog omits some text; if so, the user must read the text in the viewer."""
        raise NotImplementedError

    def sections(self) -> tuple[Section, ...]:
        """Return the sections to show in the viewer; if there are none, the viewer does not open."""
        raise NotImplementedError

    def reminder(self) -> str:
        """Return a reminder to read in the viewer what the dialog omits, or "" if there is nothing left to read."""
        is_unread = not self._is_viewed and self.is_cut()
        return _("not everything is shown here: read it with v, to the end") if is_unread else ""

    def action_view(self) -> None:
        """Open the `sections` in the full-screen viewer; the dialog stays open behind it."""

        def seen() -> None:
            self._is_viewed = True
            self.update_remaining()

        if sections := self.sections():
            self.post_message(TextViewRequested(self.headline(), "", seen, sections=sections))

    def action_refuse(self) -> None:
        """Close the dialog without trusting the server or the files."""
        self.dismiss(DoNotTrust())

    def action_once(self) -> None:
        """Use the server or the files for this session."""
        self.approve("once", TrustOnce())

    def action_always(self) -> None:
        """Use the server or the files in this and later sessions, until the approved content changes."""
        self.approve("always", TrustAlways())


class TrustServerDialog(_TrustDialog):
    """Dialog that asks whether mcphost may start a server or connect to it."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Do not use")),
        ("once", N_("This session")),
        ("always", N_("Always")),
    )
    KEYS: ClassVar[str] = N_("esc/d do not use · s this session · A always")
    CUT_KEYS: ClassVar[str] = N_("esc/d do not use · s this session · A always · v view")

    def __init__(self, question: TrustServer) -> None:
        super().__init__(question)
        self.details = question
        self._changes = tuple(map(translate_line, question.changed))
        if self.is_cut():
            self.key_line = self.CUT_KEYS

    def is_cut(self) -> bool:
        """Return whether the changes since the last approval are too long for the dialog."""
        return _are_changes_cut(self._changes)

    def sections(self) -> tuple[Section, ...]:
        """Return the changes since the last approval as a section, or () if the dialog shows all of them."""
        if not self.is_cut():
            return ()
        return (Section(_("▲ Changed since you approved it:"), "\n".join(self._changes)),)

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Use the server {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the command or the URL for the card shown while the dialog is minimized."""
        return shlex.join(self.details.command) or self.details.url

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: changes since the last approval, warnings, the command or URL, and the settings."""
        asked = self.details
        pairs: list[tuple[str, str]] = []
        out: list[Content | Widget] = []
        if self._changes:  # first, because they are the reason for the question
            out += [*_render_changes(self._changes), Content("")]
        out += [Content.styled(f"▲ {clean(translate_sentence(one))}", "bold $warning") for one in asked.warnings]
        if asked.trusts_claims:
            words = _("▲ Your mcp.json sets trustAnnotations for it: tools that it calls read-only run without asking.")
            out.append(Content.styled(words, "$warning"))
        out += [Content("")] if asked.warnings or asked.trusts_claims else []
        if asked.command:
            out.append(Content(_("It starts this program on your machine, with your user privileges:")))
            pairs.append((_("command"), _format_command(asked.command)))
            if asked.cwd:
                pairs.append((_("folder"), clean(asked.cwd)))
            if asked.env_file:
                pairs.append((_("env file"), clean(asked.env_file)))
        if asked.url:
            out.append(Content(_("It sends what you and the model give it to this address:")))
            pairs.append((_("address"), clean(asked.url)))
            if asked.ca_file:
                pairs.append((_("CA file"), clean(asked.ca_file)))
        if asked.file:
            pairs.append((_("configured in"), clean(asked.file)))
        out.append(Content(""))
        out.append(KeyValueList(pairs, marks_wrapping=True))
        for heading, values in (
            (_("Current values of its references:"), asked.expansion),
            (_("It gets these environment variables:"), asked.environment),
            (_("It gets these headers:"), asked.headers),
            (_("Its sign-in settings:"), asked.sign_in),
        ):
            if values:
                # Names are in a separate column, so that a long value that wraps cannot imitate the next name.
                named = [(_quote_value(name), _quote_value(text)) for name, text in values.items()]
                out += [Content(f"\n{heading}"), KeyValueList(named)]
        if asked.restrictions:
            named = [(clean(what), clean(value)) for what, value in map(translate_pair, asked.restrictions)]
            out += [Content(_("\nIts restrictions:")), KeyValueList(named)]
        rid = keys_in_use(self).fill(_("{servers}: {servers-disable} disables it, {servers-remove} removes it."))
        out.append(
            Content.styled(
                _("\nApproval applies to exactly this; if it changes, you are asked again. Each tool call still asks.")
                + f" {rid}",
                "$faint",
            )
        )
        return out


_HEADLINES = {
    "instructions": N_("Follow the instructions of this project?"),
    "command": N_("Use this command of the project?"),
    "hooks": N_("Run the hooks of this project?"),
}
_HIDDEN = N_("▲ It has hidden or deceptive characters, marked like ‹U+200B›; the model does not get them as they are.")
_FILES = N_("▲ It does not apply to the files that these commands run, which can change without a new approval.")


class TrustProjectDialog(_TrustDialog):
    """Dialog that asks whether mcphost may use certain files of a project.

    The `v` key opens the files in the viewer.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Do not use")),
        ("once", N_("This session")),
        ("always", N_("Until it changes")),
    )
    KEYS: ClassVar[str] = N_("esc/d do not use · s this session · A until it changes · v view")

    def __init__(self, question: TrustProject) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title, which states what the files would be used for."""
        return _(_HEADLINES.get(self.details.purpose, N_("Use these files of the project?")))

    def preview(self) -> str:
        """Return the names of the files for the card shown while the dialog is minimized."""
        return join_list(one.path for one in self.details.texts)

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: each file's name and text, or the changes since the file was last approved."""
        out: list[Content | Widget] = []
        for one in self.details.texts:
            out += [Content("")] if out else []
            out += _render_hooks(one) + _render_text(one)
        out.append(
            Content.styled(_("\nApproval applies to exactly this text; if it changes, you are asked again."), "$faint")
        )
        if self.details.purpose == "hooks":
            out.append(Content.styled(_(_FILES), "bold $warning"))
        return out

    def is_cut(self) -> bool:
        """Return whether the text of a file, or the changes to it, are too long for the dialog."""
        return any(
            _are_changes_cut(one.changed) if one.changed else len(split_lines(one.text)) > _MAX_LINES
            for one in self.details.texts
        )

    def sections(self) -> tuple[Section, ...]:
        """Return the whole text of each file."""
        return tuple(Section(f"── {clean_line(one.path, 200)}", one.text) for one in self.details.texts)


def _render_hooks(one: ShownText) -> list[Content | Widget]:
    """Render a list of the programs that a hooks file starts.

    Escape sequences and long strings can make the text of the file misleading, so the programs are listed separately.
    """
    if not one.hooks:
        return []
    pairs: list[tuple[str, str]] = []
    for hook in one.hooks:
        pairs.append((hook.event, _format_command(hook.command)))
        pairs += [("match", _quote_value(rule)) for rule in hook.match]
    heading = Content(_("This file starts these programs on your machine, with your user privileges:"))
    return [heading, KeyValueList(pairs, marks_wrapping=True), Content("")]


def _render_text(one: ShownText) -> list[Content | Widget]:
    out: list[Content | Widget] = [Content.styled(clean(one.path), "bold $text")]
    if sanitize(one.text) != one.text.replace("\r\n", "\n"):
        out.append(Content.styled(_(_HIDDEN), "bold $warning"))
    if one.changed:
        return [*out, *_render_changes(one.changed)]
    lines = split_lines(one.text)
    out.append(QuotedText([QuotedPart(clean("\n".join(lines[:_MAX_LINES])))]))
    if (more := len(lines) - _MAX_LINES) > 0:
        out.append(Content.styled(_count_more(more), "$warning"))
    return out
