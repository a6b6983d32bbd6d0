"""History screen (F6): find and reopen an earlier conversation."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from mcphost.errors import McpHostError
from mcphost.pluralize import pluralize
from mcphost.store.conversations import ConversationInfo
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs

if TYPE_CHECKING:
    from mcphost.host.host import Host


def format_time(seconds: float) -> str:
    """Format a Unix timestamp in seconds as local date and time, to the minute; return "" for 0."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}" if seconds else ""


def _describe(info: ConversationInfo) -> str:
    return f"{format_time(info.updated)} · {pluralize(info.messages, 'message')} · {info.model}"


class HistoryScreen(ListScreen):
    """List of stored conversations, newest first; its result is the id of the conversation to open, or None."""

    TITLE_TEXT: ClassVar[str] = "History"
    EMPTY_TEXT: ClassVar[str] = "No conversations yet. They are saved here as you go."
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("enter", "open", "screen.choose"),)

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._conversations: tuple[ConversationInfo, ...] = ()
        self.add_class("bare")  # an entry has no text beyond its details

    def on_mount(self) -> None:
        """Load the stored conversations."""
        super().on_mount()
        self.run_worker(self._load_conversations)

    async def _load_conversations(self) -> None:
        try:
            self._conversations = await self.host.conversation.list_stored()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self.reload()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each stored conversation."""
        return [
            ListRow(
                info,
                info.title or "(untitled)",
                _describe(info),
            )
            for info in self._conversations
        ]

    def show_details(self, row: ListRow) -> None:
        """Show the title, model, times and number of messages of a conversation."""
        info: ConversationInfo = row.value
        self.show_about(
            clean_pairs(
                [
                    ("title", info.title),
                    ("started", format_time(info.created)),
                    ("updated", format_time(info.updated)),
                    ("messages", str(info.messages)),
                    ("model", info.model),
                    ("id", info.id),
                ]
            )
        )

    def action_choose(self) -> None:
        """Open the selected conversation."""
        if row := self.current_row():
            self.open_row(row)

    def open_row(self, row: ListRow) -> None:
        """Close the screen with the id of the conversation to open."""
        self.dismiss(row.value.id)
