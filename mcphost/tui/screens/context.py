"""Screen (`/context`) that shows what fills the context window and which tool definitions are sent."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from mcphost.host.builtin_tool_names import SEARCH_TOOLS
from mcphost.pluralize import translate_count
from mcphost.translation import N_, _, join_list
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screen_text import clean_line, pad_cells
from mcphost.tui.screens.instructions import PROJECT_INSTRUCTIONS_OFF
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.conversation.context_report import ContextReport, ContextTool
    from mcphost.host.conversation.tool_selection import Preference
    from mcphost.host.host import Host

_BAR_CELLS = 10
_MAX_SHOWN = 200
_MIN_LINE, _MARGIN = 40, 3
_MAX_SYSTEM_CHARS = 40_000
_CHOICES: dict[str, str] = {
    "auto": N_("automatic"),
    "pinned": N_("always sent"),
    "deferred": N_("found by search"),
}


class ContextRow(NamedTuple):
    """Row for a part of the context window.

    `kind` is a `TokenShare.kind`, "all" for the whole request, or "free" for the unused part of the window.
    `server` is the server whose tool definitions the part contains, or "" for other parts.
    """

    kind: str
    server: str = ""
    tokens: int = 0


class ContextScreen(ListScreen):
    """List of the parts of the next model request with their sizes; the details name the largest tools."""

    TITLE_TEXT: ClassVar[str] = N_("Context")
    EMPTY_TEXT: ClassVar[str] = N_("Measuring what the next request would contain…")
    _SERVER_KEYS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("p", N_("always send"), "screen.prefer('pinned')"),
        ("d", N_("leave to search"), "screen.prefer('deferred')"),
        ("a", N_("automatic"), "screen.prefer('auto')"),
    )
    DEFAULT_CSS = """
    ContextScreen EntryList, ContextScreen #side { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "prefer('pinned')", show=False, id="context-pin"),
        Binding("d", "prefer('deferred')", show=False, id="context-defer"),
        Binding("a", "prefer('auto')", show=False, id="context-auto"),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self.report: ContextReport | None = None
        self._shown_width = 0  # for which names in the details are truncated

    def on_mount(self) -> None:
        """Start counting the tokens of the next request, and update the details whenever their width changes."""
        super().on_mount()
        self.watch(self.query_one(LongText), "virtual_size", self._fit_details, init=False)
        self.measure()

    def handle_server_change(self) -> None:
        """Count the tokens again, because a server's tools may have changed."""
        self.measure()

    def measure(self) -> None:
        """Count the tokens of the next request in the background, then show the result."""
        self.run_worker(self._measure, group="measure", exclusive=True)

    async def _measure(self) -> None:
        self.report = await self.host.context.measure()
        self.reload()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each part of the context window."""
        report = self.report
        if report is None:
            return ()
        free = ContextRow("free", tokens=max(0, report.window - report.total))
        rows = [ContextRow("all", tokens=report.total), *_list_parts(report)]
        shown = [ListRow(row, _title(row), _describe(row, report), "●", _mark_style(row)) for row in rows]
        return [*shown, ListRow(free, _("Free"), _describe(free, report), "○", "$faint")]

    def legend(self) -> Content:
        """Return an explanation of the bars and their colors, in the same order as in the top bar's meter."""
        if self.report is None:
            return Content("")
        kinds = ((_("tools"), "$accent"), (_("results"), "$success"), (_("messages"), "$muted"))
        marks = [Content.assemble(("●", style), (f" {name}", "$muted")) for name, style in kinds]
        return Content("  ").join([Content.styled(_("share of the window:"), "$muted"), *marks])

    def render_row(self, row: ListRow) -> Content:
        """Render a part as one line: a symbol, a bar that shows its share of the context window, and its name."""
        report, part = self.report, row.value
        if report is None:
            return super().render_row(row)
        filled, share = _count_cells(part.tokens, report.window), _format_share(part.tokens, report.window)
        has_bar = not is_reader(self)
        return Content.assemble(
            (f" {row.mark} ", row.mark_style),
            ("━" * filled if has_bar else "", row.mark_style),
            ("─" * (_BAR_CELLS - filled) if has_bar else "", "$faint"),
            (f" {share}  ", "$muted"),
            clean_line(row.title, 60),
            (f"  {_describe_omission(part, report)}", "$muted"),
        )

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        keys = super()._key_bar_items()
        return (*self._SERVER_KEYS, *keys) if self._current_server() else keys

    def _current_server(self) -> str:
        row = self.current_row() if self.is_mounted else None
        return row.value.server if row is not None and row.value.kind == "definitions" else ""

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the details of the highlighted part, and the keys that act on it."""
        super().on_option_list_option_highlighted(event)
        self.update_key_bar()

    def show_details(self, row: ListRow) -> None:
        """Show the contents of a part of the context window, such as a server's tools, largest first."""
        report, part = self.report, row.value
        if report is None:
            return
        # A wrapped name could imitate another line.
        self._shown_width = self._details_width
        pairs, text = _describe_details(report, part, self._shown_width)
        self.show_about(clean_pairs([(name, value) for name, value in pairs if value]))
        self.query_one(LongText).show(text)

    @property
    def _details_width(self) -> int:
        """The width of a line of the details in cells; before the first layout, it is derived from the screen width."""
        return max(_MIN_LINE, (self.query_one(LongText).size.width or self.size.width) - _MARGIN)

    def _fit_details(self) -> None:
        """Show the details again if their width has changed, because tool names are truncated to this width."""
        if self._details_width != self._shown_width and (row := self.current_row()):
            self.show_details(row)

    def action_prefer(self, preference: "Preference") -> None:
        """Set when the definitions of the selected server's tools are sent to the model.

        *preference* is "pinned" (with each request), "deferred" (once the model has searched for them) or "auto".
        """
        if server := self._current_server():
            self.host.context.tools.prefer(server, "", preference)
            self.measure()


def _list_parts(report: "ContextReport") -> list[ContextRow]:
    """Return the parts of the request: instructions, each server's tools, and other parts by kind."""
    tokens: dict[str, int] = defaultdict(int)
    servers: dict[str, int] = {tool.server: 0 for tool in report.tools if tool.server}
    for share in report.shares:
        if share.kind == "definitions":
            servers[share.server] = servers.get(share.server, 0) + share.tokens
        else:
            tokens[share.kind] += share.tokens
    ordered = sorted(servers.items(), key=lambda item: (-item[1], item[0]))
    return [
        ContextRow("system", tokens=tokens["system"]),
        *(ContextRow("definitions", server, count) for server, count in ordered),
        *(ContextRow(kind, tokens=tokens[kind]) for kind in ("attachments", "results", "messages")),
    ]


def _title(row: ContextRow) -> str:
    titles = {
        "all": _("Next request"),
        "system": _("System prompt"),
        "definitions": _("Tools of {server}").format(server=row.server or "mcphost"),
        "attachments": _("Attachments"),
        "results": _("Tool results"),
        "messages": _("Messages"),
    }
    return titles[row.kind]


def _mark_style(row: ContextRow) -> str:
    styles = {"all": "$text", "results": "$success", "attachments": "$success", "messages": "$muted"}
    return styles.get(row.kind, "$accent")


def _describe(row: ContextRow, report: "ContextReport") -> str:
    tokens = _("{tokens:,} tokens").format(tokens=row.tokens)
    return " · ".join(filter(None, (tokens, _describe_omission(row, report))))


def _describe_omission(row: ContextRow, report: "ContextReport") -> str:
    """Describe what the request omits from a part, or return "" if the part is complete.

    For example, some of a server's tool definitions may be omitted.
    """
    if row.kind == "system":
        return "" if report.uses_project_instructions else _("project AGENTS.md off")
    tools = [tool for tool in report.tools if tool.server == row.server] if row.kind == "definitions" else []
    sent = sum(tool.is_sent for tool in tools)
    return _("{sent} of {tools_count} sent").format(sent=sent, tools_count=len(tools)) if sent < len(tools) else ""


def _count_cells(tokens: int, window: int) -> int:
    """Return how many cells of the bar to fill for *tokens* in a context window of *window* tokens.

    At least one cell is filled, unless *tokens* is 0.
    """
    return min(_BAR_CELLS, max(1 if tokens else 0, round(_BAR_CELLS * tokens / window)))


def _format_share(tokens: int, window: int) -> str:
    share = tokens / window
    return " <1%" if 0 < share < 0.005 else f"{share:>4.0%}"


def _describe_details(report: "ContextReport", part: ContextRow, width: int) -> tuple[list[tuple[str, str]], str]:
    """Return name-value pairs about a part of the context window, and a longer text with its contents.

    Lines of the text that contain a tool's name are truncated to *width* terminal cells.
    """
    match part.kind:
        case "all" | "free":
            return _describe_window(report), _format_largest(report, width)
        case "system":
            shown = report.system[:_MAX_SYSTEM_CHARS]
            rest = len(report.system) - len(shown)
            project = "" if report.uses_project_instructions else _(PROJECT_INSTRUCTIONS_OFF)
            pairs = [(_("tokens"), f"{part.tokens:,}"), (_("project's instructions"), project)]
            return pairs, _("{shown}\n… {rest:,} more characters").format(shown=shown, rest=rest) if rest else shown
        case "definitions":
            tools = [tool for tool in report.tools if tool.server == part.server]
            choices = {tool.preference for tool in tools}
            pairs = [
                (
                    _("sent"),
                    _("{count} of {tools}").format(
                        count=sum(tool.is_sent for tool in tools), tools=translate_count(len(tools), "tool")
                    ),
                ),
                (
                    _("tokens"),
                    _("{tokens:,} of {count:,}").format(tokens=part.tokens, count=sum(tool.tokens for tool in tools)),
                ),
                (
                    _("always sent"),
                    translate_count(pinned, "tool")
                    if 0 < (pinned := sum(tool.preference == "pinned" for tool in tools)) < len(tools)
                    else "",
                ),
                (_("choice"), join_list(sorted(_(_CHOICES[one]) for one in choices)) if part.server else ""),
            ]
            return pairs, "\n".join(_format_tool(tool, width) for tool in tools[:_MAX_SHOWN])
        case _:
            pairs = [
                (_("tokens"), f"{part.tokens:,}"),
                (_("messages"), f"{report.messages:,}" if part.kind == "messages" else ""),
                (
                    _("summarized"),
                    _("{summarized:,} earlier messages").format(summarized=report.summarized)
                    if part.kind == "messages"
                    else "",
                ),
                (_("in short form"), translate_count(report.shortened, "result") if part.kind == "results" else ""),
            ]
            if not report.summarized:
                pairs = [pair for pair in pairs if pair[0] != "summarized"]
            return pairs, _format_parts(report, part.kind, width)


def _describe_window(report: "ContextReport") -> list[tuple[str, str]]:
    deferred = sum(not tool.is_sent for tool in report.tools)
    return [
        (_("model"), report.model or _("none")),
        (
            _("window"),
            _("{window:,} tokens{text}").format(window=report.window, text=_(", assumed") if report.is_assumed else ""),
        ),
        (_("set it"), _("context_window under [model]") if report.is_assumed else ""),
        (_("next request"), _("about {total:,} tokens + your message").format(total=report.total)),
        (
            _("last counted"),
            _("{counted:,} tokens by the provider").format(counted=report.counted) if report.counted else "",
        ),
        (
            _("found by search"),
            _("{tools}, with {search_tools}").format(tools=translate_count(deferred, "tool"), search_tools=SEARCH_TOOLS)
            if deferred
            else "",
        ),
        (_("in short form"), translate_count(report.shortened, "older or long result") if report.shortened else ""),
        (
            _("summarized"),
            _("{summarized:,} earlier messages").format(summarized=report.summarized) if report.summarized else "",
        ),
    ]


def _format_largest(report: "ContextReport", width: int) -> str:
    """List the tools whose definitions and results need the most tokens; return "" if there are none.

    Tool names are truncated so that each line fits in *width* terminal cells.
    """
    tokens: dict[str, int] = defaultdict(int)
    for tool in report.tools:
        if tool.is_sent:
            tokens[_tool_name(tool.server, tool.name)] += tool.tokens
    for share in report.shares:
        if share.kind == "results":
            tokens[_tool_name(share.server, share.tool)] += share.tokens
    if not tokens:
        return ""
    lines = _format_lines(tokens, report.window, width)
    return "\n".join([_("Largest tools, with their results:"), *lines])


def _format_parts(report: "ContextReport", kind: str, width: int) -> str:
    tokens: dict[str, int] = defaultdict(int)
    for share in report.shares:
        if share.kind == kind and kind != "messages":
            name = _tool_name(share.server, share.tool) if share.tool else share.server or _("your files")
            tokens[name] += share.tokens
    return "\n".join(_format_lines(tokens, report.window, width))


def _format_lines(tokens: dict[str, int], window: int, width: int) -> list[str]:
    ordered = sorted(tokens.items(), key=lambda item: -item[1])[:_MAX_SHOWN]
    return [_cut(f"{count:>9,} {_format_share(count, window)}  ", name, width) for name, count in ordered]


def _format_tool(tool: "ContextTool", width: int) -> str:
    state = _("always sent") if tool.preference == "pinned" else _("sent") if tool.is_sent else _("by search")
    return _cut(f"{tool.tokens:>9,}  {pad_cells(state, 11)}  ", tool.name, width)


def _cut(start: str, name: str, width: int) -> str:
    """Return *start* followed by *name*; truncate *name* if the line exceeds *width* terminal cells."""
    return f"{start}{Content(clean_line(name, 200)).truncate(width - len(start), ellipsis=True).plain}"


def _tool_name(server: str, tool: str) -> str:
    return f"{server} · {tool}" if server else tool
