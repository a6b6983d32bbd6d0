"""The tools of one server: what each says of itself, and whether the model is told of it; switch one on or off."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from mcphost.errors import McpHostError
from mcphost.host.views import ServerView
from mcphost.protocol.tools import Tool
from mcphost.tui.screens.browser import Browser, Row, facts
from mcphost.tui.screens.resources import pretty
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host


def claims(tool: Tool) -> str:
    """What the server says the tool does, in words."""
    said = tool.annotations
    if said is None:
        return ""
    words = (
        (said.read_only_hint, "only reads", "writes"),
        (said.destructive_hint, "destroys", "destroys nothing"),
        (said.open_world_hint, "reaches the outside", "stays inside"),
    )
    return ", ".join(yes if value else no for value, yes, no in words if value is not None)


class Tools(Browser):
    """All of them, those that are off marked."""

    TITLE_TEXT: ClassVar[str] = "Tools"
    EMPTY: ClassVar[str] = "This server lists no tools, or is not connected. They appear here as soon as it lists some."
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("space", "switch on or off", "screen.switch"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "switch", show=False)]

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__()
        self.host = host
        self.server = server

    @property
    def _view(self) -> ServerView:
        return self.host.server(self.server)

    def load(self) -> Sequence[Row]:
        view = self._view
        out: list[Row] = []
        for tool in view.catalog.tools:
            words = (tool.description or tool.title or "").strip().split("\n")[0]
            if tool.name in view.off:
                out.append(Row(tool, tool.name, f"off · {words}" if words else "off", "○", "$muted"))
            elif tool.name in view.held:
                out.append(Row(tool, tool.name, f"held back · {words}" if words else "held back", "▲", "$warning"))
            else:
                out.append(Row(tool, tool.name, words, "●", "$success"))
        return out

    def _state(self, view: ServerView, tool: Tool) -> str:
        if tool.name in view.off:
            by_file = self.host.switches.off(view.config, tool.name) == "file"
            return f'no: "disabledTools" in {view.config.file}' if by_file else "no: you switched it off"
        return "no: it changed and is held back" if tool.name in view.held else "yes"

    def highlighted(self, row: Row) -> None:
        tool: Tool = row.value
        known = [
            ("tool", tool.name),
            ("title", tool.title or ""),
            ("server", self.server),
            ("the model has it", self._state(self._view, tool)),
            ("it claims", claims(tool)),
        ]
        self.icon(tool.icons)
        self.about(facts(known))
        schema = pretty(bytes(tool.input_schema).decode("utf-8", "replace"), "json")
        self.query_one(LongText).show(f"{tool.description or ''}\n\nits arguments:\n{schema}".strip())

    def chosen(self, row: Row) -> None:
        self.action_switch()

    def action_switch(self) -> None:
        """Switch the one under the cursor on or off, also for later runs."""
        if row := self.current():
            self.run_worker(partial(self._switch, row.value.name), group="switch")

    async def _switch(self, tool: str) -> None:
        try:
            await self.host.switch_tool(self.server, tool, on=tool in self._view.off)
        except McpHostError as error:
            self.notify(str(error), severity="warning", markup=False)
