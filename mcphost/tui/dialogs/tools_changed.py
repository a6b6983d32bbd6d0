"""Dialog for reviewing tool definitions that a server has changed, with a diff for each tool."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button

from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges, ToolChange
from mcphost.host.servers.definition_diff import DIFFERENCE_NOTES
from mcphost.host.servers.description_warnings import find_description_warnings
from mcphost.translation import N_, _, join_list, ngettext, translate_sentence
from mcphost.tui.dialogs.call_view import describe_warnings
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import Section, TextViewRequested
from mcphost.tui.widgets.key_values import KeyValueList, render_diff_lines

_MAX_LINES = 400
"""Maximum diff lines to show for one tool; more would make layout slow."""
_MAX_LINE_LENGTH = 4_000
MAX_DIFF_CHARACTERS = 20_000
"""Maximum characters to show of the diff for one tool; the rest is in the viewer, which lays out only visible rows."""

_SESSION_NOTE = N_(
    "\nYour own mcp.json watches the files of this server. s keeps its changes until mcphost quits, without asking; "
    "its earlier permissions go on. F7 lists this and revokes it."
)


def render_definition_diff(change: ToolChange) -> KeyValueList:
    """Render the diff of a tool's definition, with "+" or "-" before each changed line."""
    shown = _render_first_lines(change)
    if len(change.difference) > len(shown):
        more = len(change.difference) - len(shown)
        note = ngettext("  … {more:,} more line: v shows all", "  … {more:,} more lines: v shows all", more)
        shown.append(note.format(more=more))
    return render_diff_lines(shown, id="sent")


def _render_first_lines(change: ToolChange) -> list[str]:
    """Return the first lines of the diff, sanitized.

    The total length of the lines is at most MAX_DIFF_CHARACTERS characters.
    """
    shown: list[str] = []
    room = MAX_DIFF_CHARACTERS
    for line in map(_translate_note, change.difference[:_MAX_LINES]):
        kept = line[:2] + clean_line(line[2:], _MAX_LINE_LENGTH)
        room -= len(kept)
        if room < 0:
            break
        shown.append(kept)
    return shown


def _translate_note(line: str) -> str:
    """Translate a line of a diff into the user's language if mcphost wrote the line, such as "… and more".

    A line that quotes the server is returned unchanged.
    """
    if line in DIFFERENCE_NOTES:
        return translate_sentence(line)
    # A line that quotes the server begins with the path of the value.
    return line[:2] + translate_sentence(line[2:]) if line[2:].startswith("… and more: ") else line


def _describe_new_warnings(change: ToolChange) -> list[str]:
    """Return a line for each kind of suspicious phrase in the new definition that the old one did not have."""
    old, new = (
        find_description_warnings(line[2:] for line in change.difference if line[:1] in (mark, " ")) for mark in "-+"
    )
    known = {warning.text for warning in old}
    return describe_warnings(warning for warning in new if warning.text not in known)


def _is_truncated(change: ToolChange) -> bool:
    is_whole = len(_render_first_lines(change)) == len(change.difference)
    return not is_whole or any(len(line) > _MAX_LINE_LENGTH for line in change.difference)


class ReviewToolChangesDialog(Dialog[AcceptToolChanges]):
    """Dialog that asks which changed tools to accept; all other changed tools stay in quarantine.

    A quarantined tool is hidden from the model and cannot be called.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Quarantine all")),
        ("accept_one", N_("Keep this one")),
        ("done", N_("Quarantine the rest")),
        ("accept_all", N_("Keep all")),
        ("accept_session", N_("Keep its changes this session")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"accept_one", "accept_all", "accept_session"})
    ONE_KEYS: ClassVar[str] = N_("esc quarantine it · k keep it · v view")
    KEYS: ClassVar[str] = N_("esc quarantine all · k keep · n/p next · f quarantine the rest · K keep all · v view")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "accept_one", show=False),
        Binding("f", "done", show=False),
        Binding("K", "accept_all", show=False),
        Binding("s", "accept_session", show=False),
        Binding("n", "step(1)", show=False),
        Binding("p", "step(-1)", show=False),
        Binding("v", "view", show=False),
    ]

    def __init__(self, question: ReviewToolChanges) -> None:
        super().__init__(question)
        self.details = question
        self.index = 0
        self.accepted: list[str] = []
        self._read_indexes: set[int] = set()
        self._fully_shown_indexes: set[int] = set()
        self._is_body_ready = True

    def headline(self) -> str:
        """Return the title, which contains the name of the server and the name or number of the changed tools."""
        count = len(self.details.changes)
        what = _("{count} of its tools").format(count=count) if count > 1 else self.details.changes[0].tool
        return _("{server} changed {what}").format(server=self.details.server, what=what)

    def preview(self) -> str:
        """Return the names of the changed tools for the card shown while the dialog is minimized."""
        return join_list(change.tool for change in self.details.changes)

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the diff of one tool and an explanation of quarantine."""
        change = self.details.changes[self.index]
        count = len(self.details.changes)
        place = _("   {index} of {count}").format(index=self.index + 1, count=count) if count > 1 else ""
        mark = _("  ✓ kept") if change.tool in self.accepted else ""
        return [
            Content.assemble(
                (clean_line(change.tool, 120), "bold $text"), (place, "$faint"), (mark, "$success"), ("\n", "")
            ),
            *(Content.styled(line, "bold $warning") for line in _describe_new_warnings(change)),
            render_definition_diff(change),
            Content.styled(
                _(
                    "\nBefore (-) and after (+). A quarantined tool is hidden from the model and cannot "
                    "be called; its earlier permissions apply again only when you keep it."
                ),
                "$faint",
            ),
            *([Content.styled(_(_SESSION_NOTE), "$faint")] if self.details.offers_session else []),
        ]

    def on_mount(self) -> None:
        """Hide the buttons that do not apply; if only one tool has changed, relabel the remaining ones."""
        super().on_mount()
        if len(self.details.changes) == 1:
            for button_id in ("#done", "#accept_all"):
                self.query_one(button_id).display = False
            self.query_one("#refuse", Button).label = _("Quarantine it")
            self.query_one("#accept_one", Button).label = _("Keep it")
        hints = _(self.ONE_KEYS if len(self.details.changes) == 1 else self.KEYS)
        if self.details.offers_session:
            hints = f"{hints} · {_('s keep this session')}"
        else:
            self.query_one("#accept_session").display = False
        self.show_key_hints(hints)

    # -- reading state

    def update_remaining(self) -> None:
        """Show how many lines remain to be read; do nothing while the next tool's diff is being mounted."""
        # While another change is being mounted, the layout is still that of the previous change.
        if self._is_body_ready:
            super().update_remaining()

    def _update_read_state(self) -> None:
        if self._is_body_ready:
            super()._update_read_state()

    def update_locked_buttons(self) -> None:
        """Record whether the displayed diff was read to the end; then update which buttons look disabled."""
        if self.is_read and (
            self.index in self._fully_shown_indexes or not _is_truncated(self.details.changes[self.index])
        ):
            self._read_indexes.add(self.index)
        super().update_locked_buttons()

    def reminder(self) -> str:
        """Return a reminder to read the rest of the diff in the viewer, or "" if there is nothing left to read."""
        if self.index in self._fully_shown_indexes or not _is_truncated(self.details.changes[self.index]):
            return ""
        return _("not everything is shown here: read it with v, to the end")

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled."""
        unread = len(self.details.changes) - len(self._read_indexes)
        if button_id in ("accept_all", "accept_session") and unread:
            return _("{unread} of them not read yet: n shows the next").format(unread=unread)
        return super().disabled_reason(button_id)

    def action_view(self) -> None:
        """Open the complete diff of the displayed tool in the full-screen viewer; the dialog stays open behind it."""
        place, change = self.index, self.details.changes[self.index]

        def seen() -> None:
            self._fully_shown_indexes.add(place)
            self.update_remaining()

        shown = Section(
            _("── how {tool} changed").format(tool=change.tool), "\n".join(map(_translate_note, change.difference))
        )
        self.post_message(TextViewRequested(f"{self.details.server} · {change.tool}", "", seen, sections=(shown,)))

    # -- answers

    def action_done(self) -> None:
        """Dismiss the dialog with the tools that the user accepted; the other changed tools stay in quarantine."""
        self.dismiss(AcceptToolChanges(tuple(self.accepted)))

    def action_accept_all(self) -> None:
        """Accept the changes to all tools, if the user has read every diff."""
        self.approve("accept_all", AcceptToolChanges(tuple(one.tool for one in self.details.changes)))

    def action_accept_session(self) -> None:
        """Accept all changes, and the server's later changes in this session, if the user has read every diff."""
        if self.details.offers_session:
            tools = tuple(one.tool for one in self.details.changes)
            self.approve("accept_session", AcceptToolChanges(tools, for_session=True))

    async def action_accept_one(self) -> None:
        """Accept the displayed change or, if it was already accepted, undo that; then show the next change.

        The dialog closes once all changes are accepted.
        """
        tool = self.details.changes[self.index].tool
        if why := self.disabled_reason("accept_one"):
            self.show_hint(why)
            return
        self.accepted.remove(tool) if tool in self.accepted else self.accepted.append(tool)
        if len(self.accepted) == len(self.details.changes):
            self.dismiss(AcceptToolChanges(tuple(self.accepted)))
        else:
            await self.action_step(1)

    async def action_step(self, by: int) -> None:
        """Show the next (1) or previous (-1) changed tool, wrapping around at the ends."""
        self._is_body_ready = False
        self.index = (self.index + by) % len(self.details.changes)
        self.is_read = self.index in self._read_indexes
        body = self.query_one("#body")
        await body.remove_children()
        await body.mount(*self._body_widgets())
        body.scroll_to(y=0, animate=False)
        self.fit()
        self.call_after_refresh(self._handle_body_ready)

    def _handle_body_ready(self) -> None:
        self._is_body_ready = True
        self.update_remaining()
