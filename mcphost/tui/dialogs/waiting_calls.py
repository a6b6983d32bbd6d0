"""Dialog that lists the tool calls waiting for approval, so that the user can open, deny or allow them."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, OptionList
from textual.widgets.option_list import Option

from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import ApproveTool
from mcphost.serialization import Struct
from mcphost.translation import N_, _, join_list, ngettext
from mcphost.tui.dialogs.call_view import summarize_arguments
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.tool_consent import CallReview
from mcphost.tui.screen_text import clean_line

_MAX_ARGUMENTS_LENGTH = 200


class WaitingCall(NamedTuple):
    """A tool call in the list of waiting calls; `key` identifies the call.

    `review` is None until the user opens the call.
    """

    key: str
    question: ApproveTool
    review: CallReview | None

    @property
    def is_read(self) -> bool:
        """Whether the user has been shown everything that would be sent to the server."""
        return self.review is not None and self.review.is_complete


class RefuseAll(Struct, frozen=True):
    """Answer that refuses every call in the list."""


class AllowAll(Struct, frozen=True):
    """Answer that allows each of the calls identified by `keys` once.

    The user has read all of these calls to the end.
    """

    keys: tuple[str, ...]


class OpenOne(Struct, frozen=True):
    """Answer that opens the dialog for the call identified by `key`."""

    key: str


class DenyOne(Struct, frozen=True):
    """Answer that denies only the call identified by `key`."""

    key: str


ListVerdict = RefuseAll | AllowAll | OpenOne | DenyOne


class WaitingCallsQuestion(Question[ListVerdict], frozen=True, kw_only=True):
    """Question about all tool calls that are waiting for approval.

    Only the TUI asks this question, so other frontends need not support it.
    """

    KIND: ClassVar[str] = "waiting_calls"

    def refusal(self) -> ListVerdict:
        """Return the answer that refuses every call in the list."""
        return RefuseAll()


class WaitingCallsDialog(Dialog[ListVerdict]):
    """Dialog with the list of tool calls that are waiting for approval.

    The list has the focus, so that Enter opens the highlighted call. To deny all calls, the user must press Escape or
    the "Deny all" button twice.

    Calls may be added and removed while the dialog is open; the cursor stays on the same call.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Deny all")),
        ("open", N_("Open")),
        ("deny", N_("Deny this one")),
        ("allow_all", N_("Allow all once")),
    )
    KEYS: ClassVar[str] = N_("↑↓ choose · enter open · d deny this one · esc twice deny all")
    ALL_READ_KEYS: ClassVar[str] = N_("↑↓ choose · enter open · d deny · A allow all once · esc twice deny all")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("o", "open", show=False),
        Binding("d", "deny", show=False),
        Binding("A", "allow_all", show=False),
        Binding("a,s", "explain", show=False),
    ]
    DEFAULT_CSS = """
    WaitingCallsDialog OptionList { height: auto; border: none; background: $panel; padding: 0; text-wrap: nowrap;
                              text-overflow: ellipsis; scrollbar-size-vertical: 1; }
    WaitingCallsDialog OptionList:focus { border: none; }
    WaitingCallsDialog OptionList > .option-list--option-highlighted {
        background: $block-cursor-background; color: $text; text-style: bold;
    }
    """

    def __init__(self, entries: Sequence[WaitingCall], cursor: str = "") -> None:
        super().__init__(WaitingCallsQuestion(server="", why=_("No call runs until you allow it.")))
        self._entries = list(entries)
        self._cursor = self._selected_key = cursor
        self._has_warned_of_denial = False

    def show_next_question(self, title: str) -> None:
        """Mention another waiting question above the list; *title* is the question's title, or "" if there is none."""
        why = _("No call runs until you allow it.")
        if title:
            why = _("{why} Also waiting: {title}").format(why=why, title=title)
        if why != self.question.why:
            self.update_reason(why)

    def headline(self) -> str:
        """Return the title, which states how many calls are waiting and how many of them are unread."""
        unread = sum(not entry.is_read for entry in self._entries)
        words = _("{unread} not read yet").format(unread=unread) if unread else _("all were read to the end")
        return _("{entries_count} calls are waiting · {words}").format(entries_count=len(self._entries), words=words)

    def preview(self) -> str:
        """Return the server and tool of each call for the card shown while the dialog is minimized."""
        return join_list(f"{entry.question.server} · {entry.question.tool}" for entry in self._entries)

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body, which is the list of calls."""
        options = OptionList(
            *(Option(_render_entry(entry), id=entry.key) for entry in self._entries), id="calls", markup=False
        )
        return [options]

    def on_mount(self) -> None:
        """Place the cursor on the call whose key was passed as `cursor`, and show the available actions.

        If this call is not in the list, place the cursor on the first one.
        """
        self.query_one("#body").can_focus = False
        self._option_list.highlighted = self._index_of_key(self._cursor)
        self._update_actions()

    def focus_first(self) -> None:
        """Focus the list of calls."""
        self._option_list.focus()

    async def process_key(self, key: str) -> bool:
        """Run the action of a key; return False if the key has no action.

        Escape, or Enter on the "Deny all" button, first shows a warning; pressing either of them again denies all
        calls. Any other key removes the warning.
        """
        denies_all = key == "escape" or (key == "enter" and self.focused is self.query_one("#refuse"))
        if not denies_all and self._has_warned_of_denial:
            self._has_warned_of_denial = False
            self.update_remaining()
        return await super().process_key(key)

    @property
    def _option_list(self) -> OptionList:
        return self.query_one(OptionList)

    def _index_of_key(self, key: str) -> int:
        return next((number for number, entry in enumerate(self._entries) if entry.key == key), 0)

    @property
    def cursor(self) -> str:
        """The `key` of the call under the cursor, or "" if the list is empty."""
        at = self._option_list.highlighted
        return self._entries[at].key if at is not None and at < len(self._entries) else ""

    @property
    def next_cursor(self) -> str:
        """The `key` of the call on which to place the cursor when the list is opened again, or "" if there is none.

        This is the next unread call after the one that the user opened or denied; the search wraps around at the end of
        the list.
        """
        at = self._index_of_key(self._selected_key)
        later = [*self._entries[at + 1 :], *self._entries[:at]]
        return next((entry.key for entry in later if not entry.is_read), "")

    def show_calls(self, entries: Sequence[WaitingCall]) -> None:
        """Update the list to contain only the calls in *entries*; new calls go to its end.

        The cursor stays on the same call, or in the same row if this call was removed.
        """
        if not self.is_attached:
            self._entries = list(entries)
            return
        calls, kept, at = self._option_list, self.cursor, self._option_list.highlighted or 0
        now = {entry.key for entry in entries}
        before = {entry.key for entry in self._entries}
        for entry in self._entries:
            if entry.key not in now:
                calls.remove_option(entry.key)
        for entry in entries:
            if entry.key not in before:
                calls.add_option(Option(_render_entry(entry), id=entry.key))
        self._entries = [entry for entry in entries if entry.key in before]
        self._entries += [entry for entry in entries if entry.key not in before]
        if self._entries:
            calls.highlighted = self._index_of_key(kept) if kept in now else min(at, len(self._entries) - 1)
        self._update_actions()

    def _update_actions(self) -> None:
        offered = all(entry.is_read for entry in self._entries)
        button = self.query_one("#allow_all", Button)
        button.display = offered
        self.show_key_hints(self.ALL_READ_KEYS if offered else self.KEYS)
        self.query_one("#box").border_title = Content(self.headline())
        self.fit()

    def fit(self) -> None:
        """Limit the height of the list so that the buttons stay visible."""
        super().fit()
        rows = self.query_one("#body").styles.max_height
        self._option_list.styles.max_height = rows.value if rows is not None else 10

    # -- actions

    def action_line(self, by: int) -> None:
        """Move the cursor to the next call if *by* is positive, and otherwise to the previous one.

        While a button has the focus, only move the focus back to the list.
        """
        if not self._option_list.has_focus:
            self._option_list.focus()
            return
        (self._option_list.action_cursor_down if by > 0 else self._option_list.action_cursor_up)()

    def action_page(self, by: int) -> None:
        """Move the cursor one page down if *by* is positive, and otherwise one page up."""
        (self._option_list.action_page_down if by > 0 else self._option_list.action_page_up)()

    def action_edge(self, which: int) -> None:
        """Move the cursor to the last call if *which* is positive, and otherwise to the first one."""
        (self._option_list.action_last if which > 0 else self._option_list.action_first)()

    def action_leave(self) -> None:
        """Deny all calls if Escape is pressed twice; the first press only shows a warning."""
        count = len(self._entries)
        self._deny_all(
            ngettext(
                "press esc again to deny {count} waiting call", "press esc again to deny all {count} calls", count
            ).format(count=count)
        )

    def action_refuse(self) -> None:
        """Deny all calls if the button is pressed twice; the first press only shows a warning."""
        count = len(self._entries)
        self._deny_all(
            ngettext(
                "press the button again to deny {count} waiting call",
                "press the button again to deny all {count} calls",
                count,
            ).format(count=count)
        )

    def _deny_all(self, warning: str) -> None:
        """Deny all calls if the user has already been warned; otherwise, show *warning*."""
        if self._has_warned_of_denial:
            self.dismiss(RefuseAll())
            return
        self._has_warned_of_denial = True
        self.show_hint(warning)

    def action_open(self) -> None:
        """Open the dialog for the call under the cursor."""
        if self.cursor:
            self._selected_key = self.cursor
            self.dismiss(OpenOne(self._selected_key))

    def action_deny(self) -> None:
        """Deny the call under the cursor."""
        if self.cursor:
            self._selected_key = self.cursor
            self.dismiss(DenyOne(self._selected_key))

    def action_allow_all(self) -> None:
        """Allow every call in the list once, if the user has read all of them to the end."""
        if not all(entry.is_read for entry in self._entries):
            self.show_hint(_("read each call to its end first: enter opens it"))
        elif self._entries:
            self.dismiss(AllowAll(tuple(entry.key for entry in self._entries)))

    def action_explain(self) -> None:
        """Show a hint that the user must open a call before allowing it.

        This is the action of the keys that allow a call in the call's own dialog.
        """
        self.show_hint(_("nothing was allowed: open the call with enter first"))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open a call's dialog when its row is clicked or Enter is pressed on it."""
        event.stop()
        self.action_open()


def _render_entry(entry: WaitingCall) -> Content:
    question = entry.question
    mark = (_("✓ read    "), "$success") if entry.is_read else (_("○ not read"), "$warning")
    arguments = entry.review.arguments if entry.review else question.arguments
    return Content.assemble(
        mark,
        # In 80 columns there is room for the start of the arguments, which distinguishes calls of the same tool.
        (f"  {clean_line(question.server, 16)} · ", "$muted"),
        (clean_line(question.tool, 26), "bold"),
        (f"  {clean_line(summarize_arguments(arguments, _MAX_ARGUMENTS_LENGTH), _MAX_ARGUMENTS_LENGTH)}", "$muted"),
    )
