"""Announcements for screen readers: a line of text about the latest event, at the top of every screen."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from textual.content import Content
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import OptionList, Static

from mcphost.translation import N_, _, join_list, ngettext, translate_sentence
from mcphost.tui.input_guard import Guarded
from mcphost.tui.key_table import KeyTable
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.entry_list import Entries

if TYPE_CHECKING:
    from mcphost.host import events
    from mcphost.tui.dialogs.dialog import AnyDialog

READER_CSS = """
#box, QuestionCard { border: blank $warning; }
#box Input, #box TextArea, #box ChoiceList, #box TristateCheckbox, #box ReadOnlyValue { outline: none !important; }
CommandPalette #--input, CommandPalette CommandList { border: blank; }
* { scrollbar-visibility: hidden; }
ModalScreen { background: $background; }
"""
"""Styles that hide what a screen reader would needlessly read aloud: frames, scrollbars and text behind questions."""

_MAX_LENGTH = 300
_SHOW_CURSOR = "\x1b[?25h"
_OUTCOMES = {
    "ok": N_("done"), "error": N_("error"), "declined": N_("denied"), "failed": N_("failed"), "stopped": N_("stopped"),
}  # fmt: skip
_SERVER_STATES = {
    "ready": N_("ready"),
    "failed": N_("failed"),
    "sign_in": N_("sign-in needed"),
    "stopped": N_("stopped"),
    "untrusted": N_("not approved"),
    "silent": N_("not answering"),
    "unreachable": N_("unreachable"),
}
_TURN_ENDS = {
    "done": N_("The answer is complete."),
    "stopped": N_("The answer was stopped."),
    "failed": N_("The answer failed."),
    "rounds": N_("The answer stopped at the tool round limit."),
    "budget": N_("The answer stopped at its cost limit."),
}


class AnnouncingApp(Protocol):
    """The part of the app's interface that Announcer uses."""

    cursor_position: Offset
    key_table: KeyTable

    @property
    def screen(self) -> Screen[Any]:
        """The screen on top of the screen stack."""
        ...

    @property
    def terminal(self) -> Any:
        """The app's terminal driver, or None before the app runs."""
        ...


class AnnouncementLine(Widget):
    """Widget that shows the newest announcement in the first row of a screen."""

    DEFAULT_CSS = "AnnouncementLine { dock: top; height: 1; background: $surface; color: $text; padding: 0 1; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def show(self, text: str) -> None:
        """Show *text* in place of the previous announcement."""
        if text != self.text:
            self.text = text
            self.refresh()

    def render(self) -> Content:
        """Return the announcement, truncated to the width of the row."""
        return Content(self.text).truncate(max(1, self.size.width - 2), ellipsis=True)


class Announcer:
    """Announcer of state changes and questions for screen readers, as lines of text.

    While a question is waiting, each announcement also names the key that opens it.
    """

    def __init__(self, app: AnnouncingApp) -> None:
        self._app = app
        self._waiting = 0
        self._card: AnyDialog | None = None
        self._entered: AnyDialog | None = None
        self._activity = N_("Ready.")
        self._is_about_screen = False
        self._hidden_line = ""
        self.text = ""
        """The newest announcement."""

    @property
    def event_handlers(self) -> "dict[type[events.AnyEvent], Callable[[Any], None]]":
        """The handlers for the host events that are announced, keyed by event type."""
        from mcphost.host import events

        return {
            events.TurnStarted: self._handle_turn_start,
            events.ServersAwaited: lambda event: self.announce(
                _("Starting {servers}.").format(servers=join_list(event.servers[:3]))
            ),
            events.ModelRetrying: lambda event: self.announce(
                _("{reason} Trying again.").format(reason=translate_sentence(event.reason))
            ),
            events.ToolStarted: lambda event: self.announce(
                _("Running {call_name}.").format(call_name=_call_name(event))
            ),
            events.ToolFinished: lambda event: self.announce(f"{_call_name(event)}: {_(_OUTCOMES[event.outcome])}."),
            events.ToolBackgrounded: lambda event: self.announce(
                _("{call_name}: in the background.").format(call_name=_call_name(event))
            ),
            events.TurnFinished: self._handle_turn_end,
            events.NoticeEvent: lambda event: self.announce(event.text),
            events.ServerState: self._handle_server_state,
            events.AutoApprovalChanged: self._handle_auto_approval,
        }

    def _handle_turn_start(self, _unused: "events.TurnStarted") -> None:
        self._activity = N_("Answering.")
        self.announce(_(self._activity))

    def _handle_turn_end(self, event: "events.TurnFinished") -> None:
        self._activity = N_("Ready.")
        self.announce(f"{_(_TURN_ENDS[event.outcome])} {event.error}")

    def _handle_server_state(self, event: "events.ServerState") -> None:
        if state := _(_SERVER_STATES.get(event.state, "")):
            self.announce(_("Server {server}: {state}.").format(server=clean_line(event.server, 40), state=state))

    def _handle_auto_approval(self, event: "events.AutoApprovalChanged") -> None:
        if not event.on:
            self.announce(_("Auto-approve is off."))
        elif event.calls_left == event.calls:  # any other event means that a call was approved
            self.announce(_("Auto-approve is on."))

    def announce(self, text: str) -> None:
        """Show *text* as a single line in place of the previous announcement."""
        self._is_about_screen = False
        self.text = clean_line(text.strip(), _MAX_LENGTH)
        self.show_on(self._app.screen)

    def show_waiting(self, count: int) -> None:
        """Set the number of waiting questions, which is shown after the current and later announcements."""
        if count != self._waiting:
            self._waiting = count
            self.show_on(self._app.screen)

    def announce_question(self, dialog: "AnyDialog", *, is_open: bool) -> None:
        """Announce a question that has opened or, if *is_open* is false, a question that is minimized to a card.

        For a card, the announcement names the key that opens the question. For an open question, it names the keys that
        answer and decline it, as far as these keys work at the moment.
        """
        title, _unused, place = dialog.card_texts()
        way = _("{answer} answers, Escape refuses.") if is_open else _("It is waiting: {answer} opens it.")
        self._entered = dialog if is_open and dialog.guard.is_entered else None
        if self._entered is not None:
            way = "" if dialog.is_field_focused else _("Escape refuses.")
        told = _("Question: {title}") if title.endswith(("?", "？")) else _("Question: {title}.")
        self.announce(
            " ".join(filter(None, (told.format(title=title), place and f"{place}.", self._app.key_table.fill(way))))
        )
        self._is_about_screen = is_open

    def announce_card(self, dialog: "AnyDialog | None") -> None:
        """Announce *dialog*, the question that is minimized to a card, unless this has been done already.

        *dialog* is None if no question is minimized.
        """
        if dialog is not None and dialog is not self._card:
            self.announce_question(dialog, is_open=False)
        self._card = dialog

    def follow_focus(self, widget: Widget) -> None:
        """Move the terminal's cursor to the focused widget; in a list, move it to the highlighted entry."""
        if (terminal := self._app.terminal) is not None:
            terminal.write(_SHOW_CURSOR)
        screen = self._app.screen
        if isinstance(screen, Guarded) and screen.guard.is_entered and self._is_about_screen:
            self.announce_question(screen, is_open=True)  # type: ignore[arg-type]
        widget.call_after_refresh(self._move_cursor, widget)  # the widget may be about to move

    def follow_highlight(self, entries: OptionList, prompt: object) -> None:
        """Move the cursor to the highlighted entry of a list; if the list does not have the focus, announce the entry.

        *prompt* is the text of the entry.
        """
        if entries.has_focus:
            self.follow_focus(entries)
        else:
            lines = str(prompt).split("\n")
            self.announce(". ".join(" ".join(line.split()) for line in lines if line.strip()))

    def _move_cursor(self, widget: Widget) -> None:
        if self._app.screen.focused is widget:
            at: Offset | None = getattr(widget, "cursor_screen_offset", None)
            if at is None:
                at = widget.content_region.offset
                if isinstance(widget, OptionList) and widget.highlighted is not None:
                    line = widget.cursor_line if isinstance(widget, Entries) else widget.highlighted
                    at += Offset(0, max(0, line - round(widget.scroll_offset.y)))
            self._app.cursor_position = at
            line_above = getattr(widget, "hidden_cursor_line", "")
            if line_above and line_above != self._hidden_line:
                self.announce(line_above)
            self._hidden_line = line_above

    def announce_screen(self, screen: Screen[Any]) -> None:
        """Announce the title of the screen that is now on top, or the question if the screen shows one.

        The chat has no title. When the user returns to it, the announcement of the page or question that was closed is
        replaced with the latest state, for example that the model is answering.
        """
        if isinstance(screen, Guarded):
            self.announce_question(screen, is_open=True)  # type: ignore[arg-type]
            return
        heads = [str(one.render()) for one in screen.query("#head")]
        titles = [str(box.border_title) for box in screen.query("#box") if box.border_title]
        self.show_on(screen)
        others = [str(one.render()) for one in screen.query(Static)] if screen.is_modal else []
        if title := next(iter((*heads, *titles, *others)), ""):
            self.announce(_("{strip}. Escape goes back.").format(strip=title.strip()))
            self._is_about_screen = True
        elif self._is_about_screen:
            self.announce(_(self._activity))
        if screen.focused is not None:
            screen.call_after_refresh(self.follow_focus, screen.focused)  # the announcement moves everything down

    def show_on(self, screen: Screen[Any]) -> None:
        """Show the newest announcement in the first row of a screen."""
        if not screen.is_attached:
            return
        shown = self.text
        count = self._waiting - isinstance(screen, Guarded)  # the open question does not wait
        if count > 0 and not shown.startswith(_("Question")):
            waiting = ngettext("{count} question waits: {key}.", "{count} questions wait: {key}.", count)
            key = self._app.key_table.long("answer")
            shown = f"{shown} {waiting.format(count=count, key=key)}"
        lines = list(screen.query(AnnouncementLine))
        if lines:
            lines[0].show(shown)
        else:
            screen.mount(AnnouncementLine(shown))


def _call_name(event: Any) -> str:
    return " ".join(clean_line(one, 60) for one in (event.server, event.tool) if one)
