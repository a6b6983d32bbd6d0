"""Earlier conversations: find one, go on with it."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from mcphost.errors import McpHostError
from mcphost.host.views import ConversationInfo
from mcphost.pluralize import counted
from mcphost.tui.screens.browser import Browser, Row, facts

if TYPE_CHECKING:
    from mcphost.host.host import Host


def when(seconds: float) -> str:
    """A time in the user's own zone."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}" if seconds else ""


def _about(info: ConversationInfo) -> str:
    return f"{when(info.updated)} · {counted(info.messages, 'message')} · {info.model}"


class History(Browser):
    """Stored conversations, newest first; ends with an id."""

    TITLE_TEXT: ClassVar[str] = "History"
    EMPTY: ClassVar[str] = "No conversations yet. Everything you say is kept here as you go."
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("enter", "open", "screen.choose"),)

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._infos: tuple[ConversationInfo, ...] = ()
        self.add_class("bare")  # nothing to read but what is known of it

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._read)

    async def _read(self) -> None:
        try:
            self._infos = await self.host.conversations()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self.reload()

    def load(self) -> Sequence[Row]:
        return [
            Row(
                info,
                info.title or "(untitled)",
                _about(info),
            )
            for info in self._infos
        ]

    def highlighted(self, row: Row) -> None:
        info: ConversationInfo = row.value
        self.about(
            facts(
                [
                    ("title", info.title),
                    ("begun", when(info.created)),
                    ("last", when(info.updated)),
                    ("messages", str(info.messages)),
                    ("model", info.model),
                    ("id", info.id),
                ]
            )
        )

    def action_choose(self) -> None:
        """Open the one under the cursor."""
        if row := self.current():
            self.chosen(row)

    def chosen(self, row: Row) -> None:
        self.dismiss(row.value.id)
