"""Each server's state, revision, capabilities, offers and log; restart one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.host.views import ServerView
from mcphost.tui.screens.browser import Browser, Row, facts
from mcphost.tui.widgets.longtext import LongText
from mcphost.tui.widgets.server_list import STATES

if TYPE_CHECKING:
    from mcphost.host.host import Host


# In the form that other hosts use; a command that is said here must exist.
NO_SERVERS = (
    "No servers are configured.\n\nWrite them into mcp.json (mcphost doctor says where it belongs), or into .mcp.json "
    'of a project:\n\n{"mcpServers": {"files": {\n   "command": "npx",\n   "args": ["-y", '
    '"@modelcontextprotocol/server-filesystem", "."]}}}\n\nThen start mcphost again. Or try: mcphost demo'
)


def capabilities(view: ServerView) -> str:
    """What the server says it offers, in words."""
    if view.facts is None:
        return ""
    given = view.facts.capabilities
    words = [
        name + (" (tells of changes)" if item.list_changed else "")
        for name, item in (("tools", given.tools), ("resources", given.resources), ("prompts", given.prompts))
        if item is not None
    ]
    words.extend(
        name
        for name, raw in (("logging", given.logging), ("completions", given.completions), ("tasks", given.tasks))
        if bytes(raw)
    )
    return ", ".join(words) or "nothing"


def offers(view: ServerView) -> str:
    """Its tools with their descriptions, what it tells the model, then what went wrong, then the log."""
    lines: list[str] = []
    for tool in view.catalog.tools:
        lines.append(f"{tool.name}")
        first = (tool.description or "").strip().split("\n")[0]
        if first:
            lines.append(f"    {first[:300]}")
    if view.facts is not None and view.facts.instructions:
        lines += ["", "Its instructions, of which the model is told as much as fits:"]
        lines += [f"    {line}" for line in view.facts.instructions.splitlines()[:200]]
    if view.catalog.left_out:
        lines += ["", "Left out:", *(f"    {reason}" for reason in view.catalog.left_out)]
    lines += ["", "Log:"]
    lines += [f"    {entry.source} {entry.level}  {entry.text}" for entry in view.log] or ["    nothing yet"]
    return "\n".join(lines)


class Servers(Browser):
    """All configured servers."""

    TITLE_TEXT: ClassVar[str] = "Servers"
    EMPTY: ClassVar[str] = NO_SERVERS
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("r", "start again", "screen.restart"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "restart", show=False)]

    def __init__(self, host: "Host", start: str = "") -> None:
        super().__init__()
        self.host = host
        self.start = start

    def on_mount(self) -> None:
        super().on_mount()
        names = [row.title for row in self.shown]
        if self.start in names:
            from textual.widgets import OptionList

            self.query_one("#entries", OptionList).highlighted = names.index(self.start)

    def load(self) -> Sequence[Row]:
        out: list[Row] = []
        for view in self.host.servers():
            mark, word, style = STATES.get(view.state, STATES["waiting"])
            count = f"{len(view.catalog.tools)} tools" if view.state == "ready" else word
            out.append(Row(view.name, view.name, f"{count}  {view.detail}", mark, style))
        return out

    def highlighted(self, row: Row) -> None:
        view = self.host.server(row.value)
        known = view.facts
        config = view.config
        state = STATES.get(view.state, STATES["waiting"])[1] or "ready"
        self.about(
            facts(
                [
                    ("state", f"{state}  {view.detail}".strip()),
                    ("next", "r asks you again" if view.state in ("untrusted", "sign_in") else view.hint),
                    (
                        "runs" if config.is_stdio else "address",
                        " ".join(config.argv) if config.is_stdio else config.url,
                    ),
                    ("says it is", f"{known.info.title or known.info.name} {known.info.version}" if known else ""),
                    ("about itself", (known.info.description or "") if known else ""),
                    ("website", (known.info.website_url or "") if known else ""),
                    ("speaks", f"{known.revision} ({known.era})" if known else ""),
                    ("offers", capabilities(view)),
                    (
                        "lists",
                        f"{len(view.catalog.tools)} tools, {len(view.catalog.resources)} resources, "
                        f"{len(view.catalog.prompts)} prompts",
                    ),
                    ("counted", ", ".join(f"{what}: {number}" for what, number in view.counts.items())),
                    ("from", config.file),
                ]
            )
        )
        self.query_one(LongText).show(offers(view))

    def action_restart(self) -> None:
        """Close the connection and open it again."""
        if row := self.current():
            self.host.restart(row.value)
            self.about(Content(f"Restarting {row.title}…"))
