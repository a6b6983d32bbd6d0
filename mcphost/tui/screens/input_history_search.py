"""Screen that searches the user's earlier messages in all conversations while the user types.

The selected message is put into the composer.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from mcphost.errors import McpHostError
from mcphost.local_time import format_moment
from mcphost.pluralize import translate_count
from mcphost.store.message_search import EarlierPrompt, EarlierPrompts
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.screens.history import SEARCH_DELAY
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host

_TITLE_CHARS = 400


class InputHistoryScreen(ListScreen):
    """List of the user's earlier messages without duplicates, newest first.

    Its result is the text of the selected message, or None if the user cancels. Only the newest messages are listed at
    first; a search also finds older ones.
    """

    DEFAULT_CSS = "InputHistoryScreen #head { height: auto; max-height: 3; }"
    AUTO_FOCUS: ClassVar[str] = "#search"
    TITLE_TEXT: ClassVar[str] = N_("Earlier messages")
    EMPTY_TEXT: ClassVar[str] = N_("No messages yet. Messages that you send in any conversation appear here.")
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("enter", N_("put into the message"), "screen.choose"),)

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._found: EarlierPrompts | None = None  # None until the first messages have been read
        self._searched_text = ""
        self._is_chosen = False  # whether Enter was pressed before the search for the typed text had ended
        self._search_timer: Timer | None = None

    def on_mount(self) -> None:
        """Show the search syntax in the empty search line; the base class then reads the newest messages."""
        self.query_one("#search", Input).placeholder = _('Search your messages: words, "a phrase", -word, after:7d')
        self.show_about(Content.styled(_("Reading…"), "$muted"))

    def handle_server_change(self) -> None:
        """Do nothing, because messages do not depend on the servers."""

    def load(self) -> Sequence[ListRow]:
        """Return a row for each message that the latest search found."""
        found = () if self._found is None else self._found.prompts
        return [
            ListRow(one, one.text.strip()[:_TITLE_CHARS], f"{format_moment(one.at)} · {one.title or _('(untitled)')}")
            for one in found
        ]

    def filter(self, text: str) -> None:
        """Search for *text* once the user pauses typing, or immediately if there are no search results yet."""
        self._is_chosen = False
        if self._search_timer is not None:
            self._search_timer.stop()
        if self._found is None:
            self._start_search(text)
        else:
            self._search_timer = self.set_timer(SEARCH_DELAY, partial(self._start_search, text))

    def _start_search(self, text: str) -> None:
        self.run_worker(partial(self._search, text), group="search", exclusive=True)

    async def _search(self, text: str) -> None:
        try:
            self._found = await self.host.history.find_prompts(text)
        except McpHostError as error:
            self._found = EarlierPrompts(notes=(str(error),))
        self._searched_text = text
        self.entries = self.visible_rows = list(self.load())
        self._show_rows(self._found, is_search=bool(text.strip()))
        if self._is_chosen and self.visible_rows:
            self.open_row(self.visible_rows[0])

    def _show_rows(self, found: EarlierPrompts, *, is_search: bool) -> None:
        count = translate_count(len(found.prompts), "message") if found.prompts else ""
        older = _(", the newest; search for older ones") if found.has_more and not is_search else ""
        older = older or (_(", the newest; add words for older ones") if found.has_more else "")
        head = Content.assemble(
            (_(self.TITLE_TEXT), "bold $accent"),
            (f"  {count}{older}  ", "$faint"),
            (" ".join(map(translate_sentence, found.notes)), "$warning"),
        )
        self.query_one("#head", Static).update(head)
        self.set_class(not self.entries and not is_search, "empty")
        self.update_key_bar()
        entries = self.list_widget
        entries.show_entries(list(map(self.render_row, self.visible_rows)))
        if self.visible_rows:
            entries.cursor = 0
            return
        if is_search:
            entries.show_message(Content.styled(_(" Nothing found."), "$muted"))
        self.show_about(Content("") if is_search else Content.styled(_(self.EMPTY_TEXT), "$muted"))
        self.query_one(LongText).show("")

    def show_details(self, row: ListRow) -> None:
        """Show when and in which conversation the message was sent, and its full text."""
        prompt: EarlierPrompt = row.value
        self.show_about(clean_pairs([(_("sent"), format_moment(prompt.at)), (_("conversation"), prompt.title)]))
        self.query_one(LongText).show(prompt.text)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Choose the message under the cursor.

        If a search is still pending, choose its first match once it ends.
        """
        event.stop()
        if event.value == self._searched_text:
            self.action_choose()
        else:
            self._is_chosen = True

    def open_row(self, row: ListRow) -> None:
        """Dismiss the screen with the text of this message; tell the host which parts of the text came from servers."""
        self.host.history.note_prompt(row.value)
        self.dismiss(row.value.text)
