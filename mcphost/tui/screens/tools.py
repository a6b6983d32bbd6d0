"""Tools screen (F3, then t) for viewing and calling the tools of one server.

The user can also turn each tool on or off.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import anyio
import anyio.to_thread
from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.errors import McpHostError
from mcphost.host.server_views import ServerView, estimate_definition_tokens
from mcphost.host.servers.description_warnings import warn_about_definition
from mcphost.local_time import format_moment
from mcphost.protocol.tools import Tool
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.chat.manual_calls import ManualCall
from mcphost.tui.dialogs.call_view import NO_GUARANTEE, describe_warnings
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs, describe_error
from mcphost.tui.screens.resources import format_text
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.consent.grants import GrantStatus
    from mcphost.host.host import Host

_MAX_CALLS_READ = 500
_MAX_GRANTS_SHOWN = 5


def describe_annotations(tool: Tool) -> str:
    """Return the server's unverified claims about a tool, such as "read-only", or "" if there are none."""
    said = tool.annotations
    if said is None:
        return ""
    words = (
        (said.read_only_hint, _("read-only"), _("writes")),
        (said.destructive_hint, _("destroys"), _("non-destructive")),
        (said.open_world_hint, _("outside access"), _("no outside access")),
    )
    return join_list(yes if value else no for value, yes, no in words if value is not None)


def _find_suspicious(tools: Sequence[Tool]) -> frozenset[str]:
    """Return the names of the tools whose definition has a suspicious phrase."""
    return frozenset(tool.name for tool in tools if warn_about_definition(tool.description, tool.input_schema))


class ToolsScreen(ListScreen):
    """List of the tools of one server, with marks on disabled and quarantined tools.

    Its result is a tool call that the user entered in a form, or None if the user did not enter one.
    """

    TITLE_TEXT: ClassVar[str] = N_("Tools")
    EMPTY_TEXT: ClassVar[str] = N_(
        "This server lists no tools, or is not connected. They appear here as soon as it lists some."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("call"), "screen.call"),
        ("space", N_("on/off"), "screen.toggle_tool"),
        ("p", N_("always send"), "app.pin_tool"),
        ("g", N_("permissions"), "screen.grants"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "toggle_tool", show=False, id="tools-toggle"),
        Binding("p", "app.pin_tool", show=False, id="tools-pin"),
        Binding("g", "grants", show=False, id="tools-permissions"),
    ]

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__()
        self.host = host
        self.server = server
        self.TITLE_TEXT = _("Tools of {server}").format(server=server)  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]
        self._last_calls: dict[str, int] | None = None
        self._is_complete = False
        """Whether all audit log rows about the server's tools have been read, not only the latest."""

        self._grants: tuple[GrantStatus, ...] = ()
        self._examined_tools: Sequence[Tool] = ()
        self._suspicious: frozenset[str] = frozenset()
        """Names of the tools whose definition has a suspicious phrase."""

    def on_screen_resume(self) -> None:  # Textual also calls the base class's
        """Load each tool's last call and permissions, which may have changed while another screen was open."""
        self.run_worker(self._load_usage, group="usage", exclusive=True)
        self.run_worker(self._examine_tools, group="examine", exclusive=True)

    def handle_server_change(self) -> None:
        """Reload the list, and examine the definitions of the tools again if they have changed."""
        super().handle_server_change()
        self.run_worker(self._examine_tools, group="examine", exclusive=True)

    async def _examine_tools(self) -> None:
        """Mark the tools whose definitions have suspicious phrases; another thread examines the definitions."""
        tools = self._server_view.catalog.tools
        if tools is not self._examined_tools:
            before = self._suspicious
            self._suspicious = await anyio.to_thread.run_sync(_find_suspicious, tools, abandon_on_cancel=True)
            self._examined_tools = tools
            if self._suspicious != before:
                self.reload()

    async def _load_usage(self) -> None:
        from mcphost.store.audit_reader import AuditFilter

        try:
            rows = await self.host.audit.read_page(AuditFilter(server=self.server, kind="tool"), _MAX_CALLS_READ)
            self._grants = await self.host.grants.list_grants(server=self.server)
        except McpHostError as error:
            self.notify(describe_error(error, self), severity="warning", markup=False)
            return
        self._is_complete = len(rows) < _MAX_CALLS_READ
        self._last_calls = {row.subject: row.at // 1_000_000 for row in reversed(rows) if row.event == "started"}
        if row := self.current_row():
            self.show_details(row)

    @property
    def _server_view(self) -> ServerView:
        return self.host.servers.view(self.server)

    def load(self) -> Sequence[ListRow]:
        """Return a row for each tool, with the first line of its description."""
        view = self._server_view
        out: list[ListRow] = []
        for tool in view.catalog.tools:
            words = (tool.description or tool.title or "").strip().split("\n")[0]
            if tool.name in view.disabled_tools:
                out.append(
                    ListRow(
                        tool, tool.name, _("off · {words}").format(words=words) if words else _("off"), "○", "$muted"
                    )
                )
            elif tool.name in view.quarantined:
                out.append(
                    ListRow(
                        tool,
                        tool.name,
                        _("quarantined · {words}").format(words=words) if words else _("quarantined"),
                        "▲",
                        "$warning",
                    )
                )
            else:
                is_pinned = bool(self.host.context.tools.pinned_by(self.server, tool.name))
                is_suspicious = tool.name in self._suspicious
                labels = (_("suspicious description") * is_suspicious, _("always sent") * is_pinned, words)
                mark, style = ("▲", "$warning") if is_suspicious else ("●", "$success")
                out.append(ListRow(tool, tool.name, " · ".join(filter(None, labels)), mark, style))
        return out

    def _describe_sending(self, tool: str) -> str:
        """Describe when the tool's definition is sent to the model, for example "always: pinned by you"."""
        return {
            "user": _("always: pinned by you"),
            "setting": _('always: "pinned_tools" in config.toml'),
            "": _("only after a search if there are many tools"),
        }[self.host.context.tools.pinned_by(self.server, tool)]

    def _describe_availability(self, view: ServerView, tool: Tool) -> str:
        if tool.name in view.disabled_tools:
            by_file = self.host.tool_toggles.disabled_by(view.config, tool.name) == "file"
            return (
                _('no: "disabledTools" in {file}').format(file=view.config.file)
                if by_file
                else _("no: turned off by you")
            )
        return _("no: quarantined after a change") if tool.name in view.quarantined else _("yes")

    def show_details(self, row: ListRow) -> None:
        """Show the description, annotations, input schema, last call and permissions of a tool."""
        tool: Tool = row.value
        known = [
            (_("tool"), tool.name),
            (_("title"), tool.title or ""),
            (_("server"), self.server),
            (_("enabled"), self._describe_availability(self._server_view, tool)),
            (_("sent"), self._describe_sending(tool.name)),
            (_("annotations"), describe_annotations(tool)),
            (
                _("costs"),
                _("about {estimate_definition_tokens:,} tokens in each request").format(
                    estimate_definition_tokens=estimate_definition_tokens(tool)
                ),
            ),
            (_("last called"), self._describe_last_call(tool.name)),
            (_("permissions"), self._describe_grants(tool.name)),
        ]
        self.show_icon(tool.icons)
        first, *others = clean_pairs(known)
        warnings = "\n".join(describe_warnings(warn_about_definition(tool.description, tool.input_schema)))
        marks = Content.assemble((warnings, "$warning"), f"\n{_(NO_GUARANTEE)}")
        self.show_about([first, *([(_("warnings"), marks)] if warnings else ()), *others])
        schema = format_text(bytes(tool.input_schema).decode("utf-8", "replace"), "json")
        self.query_one(LongText).show(f"{tool.description or ''}\n\n{_('arguments:')}\n{schema}".strip())

    def _describe_last_call(self, tool: str) -> str:
        if self._last_calls is None:
            return ""
        at = self._last_calls.get(tool)
        if at:
            return format_moment(at)
        return (
            _("not called yet")
            if self._is_complete
            else _("not among the latest {max_calls_read} records").format(max_calls_read=_MAX_CALLS_READ)
        )

    def _describe_grants(self, tool: str) -> str:
        texts = [
            one.grant.text
            if one.state == "counts"
            else _("{rule} (not now: {why})").format(rule=one.grant.text, why=translate_sentence(one.why))
            for one in self._grants
            if one.grant.rule.covers(self.server, tool)
        ]
        shown = join_list(texts[:_MAX_GRANTS_SHOWN])
        return (
            _("{shown} and {texts_count} more").format(shown=shown, texts_count=len(texts) - _MAX_GRANTS_SHOWN)
            if len(texts) > _MAX_GRANTS_SHOWN
            else shown
        )

    def action_grants(self) -> None:
        """Open the permissions screen for this server."""
        from mcphost.tui.screens.grants import GrantsScreen

        self.app.push_screen(GrantsScreen(self.host, self.server))  # pyright: ignore[reportUnknownMemberType]

    def open_row(self, row: ListRow) -> None:
        """Open a form in which the user can enter arguments and call the tool."""
        from mcphost.tui.dialogs.edit_arguments import CallToolDialog

        if self.app.screen is not self:  # pyright: ignore[reportUnknownMemberType]
            return  # a second click came before the form that the first one opens
        tool: Tool = row.value
        if tool.name in self._server_view.quarantined:
            self.notify(
                _("{name} changed and is quarantined.").format(name=tool.name), severity="warning", markup=False
            )
            return

        def leave(arguments: dict[str, Any] | None) -> None:
            if arguments is not None:
                self.dismiss(ManualCall(self.server, tool.name, arguments))

        self.app.push_screen(CallToolDialog(self.server, tool), leave)  # pyright: ignore[reportUnknownMemberType]

    def action_call(self) -> None:
        """Open a form in which the user can enter arguments and call the selected tool."""
        if row := self.current_row():
            self.open_row(row)

    def pin_selected(self) -> None:
        """Pin the selected tool, or unpin it if it is already pinned; the setting is kept for later runs.

        The definition of a pinned tool is included in each request to the model.
        """
        if row := self.current_row():
            self.run_worker(partial(self._pin_tool, row.value.name), group="pin")

    async def _pin_tool(self, tool: str) -> None:
        tools = self.host.context.tools
        if tools.pinned_by(self.server, tool) == "setting":
            self.notify(
                _('It is in "pinned_tools" of config.toml; remove it there, then restart mcphost.'),
                severity="warning",
                markup=False,
            )
            return
        await tools.pin(self.server, tool, pinned=not tools.pinned_by(self.server, tool))
        if self.is_attached:
            self.reload()

    def action_toggle_tool(self) -> None:
        """Turn the selected tool on or off, for this run and later ones."""
        if row := self.current_row():
            self.run_worker(partial(self._toggle_tool, row.value.name), group="switch")

    async def _toggle_tool(self, tool: str) -> None:
        try:
            await self.host.servers.set_tool_enabled(
                self.server, tool, enabled=tool in self._server_view.disabled_tools
            )
        except McpHostError as error:
            self.notify(str(error), severity="warning", markup=False)
