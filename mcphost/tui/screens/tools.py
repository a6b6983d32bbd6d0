"""Tools of one server: annotations, and whether the model may use each; toggle one."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from mcphost.errors import McpHostError
from mcphost.host.views import ServerView
from mcphost.protocol.tools import Tool
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.screens.resources import format_text
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host


def describe_annotations(tool: Tool) -> str:
    """Return the server's annotations of a tool as text."""
    said = tool.annotations
    if said is None:
        return ""
    words = (
        (said.read_only_hint, "read-only", "writes"),
        (said.destructive_hint, "destroys", "non-destructive"),
        (said.open_world_hint, "outside access", "no outside access"),
    )
    return ", ".join(yes if value else no for value, yes, no in words if value is not None)


class ToolsScreen(ListScreen):
    """All tools of the server; disabled ones are marked."""

    TITLE_TEXT: ClassVar[str] = "Tools"
    EMPTY_TEXT: ClassVar[str] = (
        "This server lists no tools, or is not connected. They appear here as soon as it lists some."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("space", "toggle", "screen.toggle_tool"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "toggle_tool", show=False)]

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__()
        self.host = host
        self.server = server

    @property
    def _server_view(self) -> ServerView:
        return self.host.servers.view(self.server)

    def load(self) -> Sequence[ListRow]:
        """Return the tools."""
        view = self._server_view
        out: list[ListRow] = []
        for tool in view.catalog.tools:
            words = (tool.description or tool.title or "").strip().split("\n")[0]
            if tool.name in view.disabled_tools:
                out.append(ListRow(tool, tool.name, f"off · {words}" if words else "off", "○", "$muted"))
            elif tool.name in view.quarantined:
                out.append(
                    ListRow(tool, tool.name, f"quarantined · {words}" if words else "quarantined", "▲", "$warning")
                )
            else:
                out.append(ListRow(tool, tool.name, words, "●", "$success"))
        return out

    def _describe_availability(self, view: ServerView, tool: Tool) -> str:
        if tool.name in view.disabled_tools:
            by_file = self.host.tool_toggles.disabled_by(view.config, tool.name) == "file"
            return f'no: "disabledTools" in {view.config.file}' if by_file else "no: turned off by you"
        return "no: quarantined after a change" if tool.name in view.quarantined else "yes"

    def show_details(self, row: ListRow) -> None:
        """Show description, annotations and schema of a tool."""
        tool: Tool = row.value
        known = [
            ("tool", tool.name),
            ("title", tool.title or ""),
            ("server", self.server),
            ("enabled", self._describe_availability(self._server_view, tool)),
            ("annotations", describe_annotations(tool)),
        ]
        self.show_icon(tool.icons)
        self.show_about(clean_pairs(known))
        schema = format_text(bytes(tool.input_schema).decode("utf-8", "replace"), "json")
        self.query_one(LongText).show(f"{tool.description or ''}\n\narguments:\n{schema}".strip())

    def open_row(self, row: ListRow) -> None:
        """Toggle the tool."""
        self.action_toggle_tool()

    def action_toggle_tool(self) -> None:
        """Toggle the selected tool, also for later runs."""
        if row := self.current_row():
            self.run_worker(partial(self._toggle_tool, row.value.name), group="switch")

    async def _toggle_tool(self, tool: str) -> None:
        try:
            await self.host.servers.set_tool_enabled(
                self.server, tool, enabled=tool in self._server_view.disabled_tools
            )
        except McpHostError as error:
            self.notify(str(error), severity="warning", markup=False)
