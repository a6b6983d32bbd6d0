"""Messages screen for server developers: the JSON-RPC messages and HTTP exchanges with one server."""

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import anyio.to_thread
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from mcphost.errors import McpHostError, UsageError
from mcphost.host.message_log_export import export_json_lines
from mcphost.http_log import Headers, LoggedExchange, LoggedOAuthRequest, show_headers, show_names
from mcphost.message_log import MAX_MESSAGES, LoggedMessage
from mcphost.pluralize import translate_count
from mcphost.threads import run_in_thread
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs, describe_error
from mcphost.tui.screens.message_rows import (
    FILTER_HELP,
    DescribedEntry,
    EntryDescriber,
    MessageFilter,
    describe_outcome,
    describe_sign_in,
    format_duration,
    format_time,
    parse_filter,
)
from mcphost.tui.screens.save_file import SaveFileForm, resolve_file_name, write_new_file
from mcphost.tui.widget_messages import CopyRequested, Section, TextViewRequested
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.host.servers.logged_requests import RecordedToolCall

UPDATE_SECONDS = 0.5
"""Seconds after which new messages are listed, no matter how many arrive."""

_ARROWS = {"sent": "→", "received": "←"}
_EXCHANGE_MARK = "⇄"
_DIRECTIONS = {"sent": N_("sent to the server"), "received": N_("received from the server")}
_VIEWS = ("", N_("messages only"), N_("HTTP only"))
_MAX_SHOWN_NAMES = 500
_MAX_NAME = 60


class MessagesScreen(ListScreen):
    """List of the newest messages and HTTP exchanges with one server, newest first; opening it starts logging them.

    JSON is indented, secrets are removed, and long messages are truncated. The search line also accepts filters, such
    as "status:401".
    """

    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("open"), "screen.open"),
        ("v", N_("messages or HTTP"), "screen.next_view"),
        ("s", N_("send again"), "screen.send_again"),
        ("c", N_("copy"), "screen.copy"),
        ("y", N_("copy as curl"), "screen.copy_curl"),
        ("k", N_("copy as call"), "screen.copy_call"),
        ("w", N_("save"), "screen.save"),
        ("r", N_("restart"), "screen.restart"),
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.restart"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "restart", show=False, id="messages-restart"),
        Binding("c", "copy", show=False, id="messages-copy"),
        Binding("v", "next_view", show=False, id="messages-view"),
        Binding("s", "send_again", show=False, id="messages-send-again"),
        Binding("y", "copy_curl", show=False, id="messages-copy-curl"),
        Binding("k", "copy_call", show=False, id="messages-copy-call"),
        Binding("w", "save", show=False, id="messages-save"),
    ]

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__()
        self.host = host
        self._server = server
        self._describer = EntryDescriber()
        self._filter = MessageFilter()
        self._view = 0
        self._has_exchanges = False
        self._revision = -1
        self._shown: tuple[int, int] | None = None
        title = _("Messages of {server}").format(server=clean_line(server, 60))
        self.TITLE_TEXT = title  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]

    def empty_text(self) -> str:
        """Return text that explains when messages are logged, and which key restarts the server."""
        said = _(
            "The server's messages are logged from its next start on: the newest {count}, and only until mcphost "
            "quits. {{messages-restart}} restarts the server now."
        )
        return keys_in_use(self).fill(said.format(count=MAX_MESSAGES))

    def legend(self) -> Content:
        """Return a label that states which kind of entries is listed, or empty content if all are listed."""
        view = _VIEWS[self._view]
        return Content.styled(f"  {_(view)}", "$accent") if view else Content("")

    # -- the list
    def on_mount(self) -> None:
        """Show the logged messages, and keep the list up to date."""
        super().on_mount()
        self.query_one("#search", Input).placeholder = _("Search, or method:tools/call error slow:500 …")
        self.set_interval(UPDATE_SECONDS, self._update)

    def _update(self) -> None:
        try:
            revision = self.host.servers.log_messages(self._server).revision
        except UsageError:  # the server was removed
            revision = -1
        if revision != self._revision:
            self.reload()

    def identify(self, row: ListRow) -> object:
        """Return the number of the entry."""
        return _entry_of(row).number

    def load(self) -> Sequence[ListRow]:
        """Return a row for each message and exchange, with its label and its time."""
        try:
            log = self.host.servers.log_messages(self._server)
        except UsageError:  # the server was removed
            self._revision = -1
            return []
        self._revision = log.revision
        exchanges = log.exchanges()
        self._has_exchanges = bool(exchanges)
        described = self._describer.describe(log.messages(), exchanges)
        return [_list_row(one) for one in described if self._is_in_view(one)]

    def _is_in_view(self, one: DescribedEntry) -> bool:
        return self._view == 0 or isinstance(one.entry, LoggedExchange) == (self._view == 2)

    def action_next_view(self) -> None:
        """List only the messages, then only the HTTP exchanges, then everything again."""
        if self._has_exchanges or self._view:
            self._view = (self._view + 1) % len(_VIEWS)
            self.reload()
        else:
            self.notify(_("HTTP is logged for servers that are reached by URL."), markup=False)

    def filter(self, text: str) -> None:
        """List the entries that pass the filters and contain the words in *text*; report misspelt filters."""
        self._filter = parse_filter(text, self._labels()) if text.strip() else MessageFilter()
        super().filter(text)
        if not self.visible_rows:
            self._shown = None
        if self._filter.problem:
            hint = Content.styled(f"\n\n{_(FILTER_HELP)}", "$muted")
            self.show_about(Content.assemble((self._filter.problem, "$warning"), hint))

    def _labels(self) -> list[str]:
        return [f"{row.title} {row.detail}".lower() for row in self.entries]

    def _find_matches(self, words: Sequence[str]) -> list[ListRow]:
        del words  # parsed with the filters
        labels = self._labels()
        return [row for row, text in zip(self.entries, labels, strict=True) if self._filter.passes(row.value, text)]

    def handle_server_change(self) -> None:
        """Do nothing, because the list is updated by a timer."""

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        """Return a (key, label, action) tuple for each key that works for the selected entry."""
        row = self.current_row() if self.visible_rows else None  # the list does not exist yet in `compose`
        unusable: set[str] = set()
        if not self._has_exchanges:
            unusable.add("screen.next_view")
        if row is not None:
            entry, method = _entry_of(row), row.value.method
            is_sent = entry.direction == "sent" if isinstance(entry, LoggedMessage) else bool(method)
            if not is_sent:
                unusable.add("screen.send_again")
            if method != "tools/call" or not is_sent:
                unusable.add("screen.copy_call")
            if self._find_exchange(entry) is None:
                unusable.add("screen.copy_curl")
        return tuple(key for key in super()._key_bar_items() if key[2] not in unusable)

    # -- details
    def show_details(self, row: ListRow) -> None:
        """Show a message as indented JSON, or the status and the headers of an HTTP exchange.

        If the entry is already shown and has not changed, do nothing, so that the scroll position is kept.
        """
        entry, current = _entry_of(row), self.current_row()
        key = (entry.number, entry.revision if isinstance(entry, LoggedExchange) else 0)
        if key == self._shown or current is None or _entry_of(current) is not entry:
            return
        self._shown = key
        self.update_key_bar()
        if isinstance(entry, LoggedMessage):
            rest = entry.cut_bytes
            pairs = [
                (_("direction"), _(_DIRECTIONS[entry.direction])),
                (_("time"), format_time(entry)),
                (_("size"), _("{bytes:,} bytes").format(bytes=entry.size)),
                (_("not shown"), _("{bytes:,} bytes").format(bytes=rest) if rest else ""),
            ]
            self.show_about(clean_pairs(pairs))
        self.run_worker(partial(self._show_text, entry), group="text", exclusive=True)

    async def _show_text(self, entry: LoggedMessage | LoggedExchange) -> None:
        view = self.query_one(LongText)
        if isinstance(entry, LoggedMessage):
            view.show(await run_in_thread(partial(entry.to_text, indent=2)), language="json")
            return
        sections = await run_in_thread(partial(_exchange_sections, entry))
        self.show_about(clean_pairs(await run_in_thread(partial(_exchange_pairs, entry))))
        view.show("", sections)

    def open_row(self, row: ListRow) -> None:
        """Open the entry in the viewer: a message, or an HTTP request with its headers and body."""
        self.run_worker(partial(self._open, row), group="open", exclusive=True)

    async def _open(self, row: ListRow) -> None:
        entry = _entry_of(row)
        if isinstance(entry, LoggedExchange):
            sections = await run_in_thread(partial(_exchange_sections, entry, with_body=True))
            self.post_message(TextViewRequested(row.title, "", sections=sections))
        else:
            text = await run_in_thread(partial(entry.to_text, indent=2))
            self.post_message(TextViewRequested(row.title, text, language="json"))

    def action_open(self) -> None:
        """Open the selected entry in the viewer."""
        if row := self.current_row():
            self.open_row(row)

    # -- copies and files
    def action_copy(self) -> None:
        """Copy the selected text or, if nothing is selected, the entry under the cursor as it is shown."""
        if chosen := self.get_selected_text():
            self.post_message(CopyRequested(chosen))
        elif (row := self.current_row()) is not None:
            self.run_worker(partial(self._copy_entry, row), group="copy", exclusive=True)

    async def _copy_entry(self, row: ListRow) -> None:
        entry = _entry_of(row)
        if isinstance(entry, LoggedMessage):
            text = await run_in_thread(partial(entry.to_text, indent=2))
        else:
            sections = await run_in_thread(partial(_exchange_sections, entry, with_body=True))
            text = "\n\n".join([row.title, *(f"{one.heading}\n{one.text}" for one in sections)])
        self.post_message(CopyRequested(text))

    def action_copy_curl(self) -> None:
        """Copy a curl command that repeats the HTTP request, with shell variables for secrets."""
        row = self.current_row()
        exchange = self._find_exchange(_entry_of(row)) if row else None
        if exchange is None:
            self.notify(_("This entry is not an HTTP request that mcphost sent."), severity="warning", markup=False)
        else:
            self.run_worker(partial(self._copy_curl, exchange), group="copy", exclusive=True)

    async def _copy_curl(self, exchange: LoggedExchange) -> None:
        from mcphost.host.message_log_export import make_curl_command

        try:
            self._copy_command(*await run_in_thread(partial(make_curl_command, exchange)))
        except UsageError as error:
            self._warn(error)

    def action_copy_call(self) -> None:
        """Copy the `mcphost call` command for the selected tool call, with shell variables for secrets."""
        if (row := self.current_row()) is not None:
            self.run_worker(partial(self._copy_call, row), group="copy", exclusive=True)

    async def _copy_call(self, row: ListRow) -> None:
        try:
            message = _message_of(_entry_of(row))
            self._copy_command(*await run_in_thread(partial(_make_call_command, self._server, message)))
        except UsageError as error:
            self._warn(error)

    def _copy_command(self, command: str, variables: tuple[str, ...]) -> None:
        names = join_list(f"${name}" for name in variables)[:_MAX_SHOWN_NAMES]
        said = _("Copied. Set {names} before you run it: secrets are not copied.").format(names=names)
        self.post_message(CopyRequested(command, said if variables else _("Copied.")))

    def action_save(self) -> None:
        """Ask for a file name, and save the entries that pass the filter, oldest first."""
        if found := self._find_matches(()):
            form = SaveMessagesForm(self._server, [_entry_of(row) for row in reversed(found)])
            self.app.push_screen(form)  # pyright: ignore[reportUnknownMemberType]

    # -- sending again
    def action_send_again(self) -> None:
        """Send the selected request again; for a tool call, open a form that contains the call's arguments."""
        if (row := self.current_row()) is not None:
            self.run_worker(partial(self._send_again, _message_of(_entry_of(row))), group="replay", exclusive=True)

    async def _send_again(self, message: LoggedMessage) -> None:
        from mcphost.host.servers.logged_requests import RecordedToolCall, read_request

        try:
            request = await run_in_thread(partial(read_request, message))
            if not isinstance(request, RecordedToolCall):
                await self.host.features.send_again(self._server, request)
                self.notify(_("Sent again: the result is in the list."), markup=False, timeout=4)
            elif self.is_current:  # otherwise, the user has opened something else in the meantime
                self._open_call_form(request)
        except UsageError as error:
            self._warn(error)
        except McpHostError as error:
            self.notify(describe_error(error, self), severity="warning", markup=False)

    def _open_call_form(self, call: "RecordedToolCall") -> None:
        from mcphost.tui.chat.manual_calls import ManualCall
        from mcphost.tui.dialogs.edit_arguments import CallToolDialog

        view = self.host.servers.view(self._server)
        tool = next((one for one in view.catalog.tools if one.name == call.tool), None)
        name = clean_line(call.tool, 60)
        if tool is None or call.tool in view.quarantined:
            said = _("{name} changed and is quarantined.") if tool else _("The server has no tool named {name} now.")
            self.notify(said.format(name=name), severity="warning", markup=False)
            return

        def leave(arguments: dict[str, Any] | None) -> None:
            if arguments is not None:
                self.dismiss(ManualCall(self._server, call.tool, arguments))

        names = clean_line(join_list(call.masked), _MAX_SHOWN_NAMES)
        notice = _("The log masks secrets: type the value of {names}.").format(names=names) if names else ""
        self.app.push_screen(CallToolDialog(self._server, tool, call.arguments, notice=notice), leave)  # pyright: ignore[reportUnknownMemberType]

    def _warn(self, error: UsageError) -> None:
        text = " ".join(filter(None, (translate_sentence(error.message), translate_sentence(error.hint))))
        self.notify(text, severity="warning", markup=False)

    def _find_exchange(self, entry: LoggedMessage | LoggedExchange) -> LoggedExchange | None:
        """Return the HTTP request that carried a message to the server, or *entry* if it is itself an HTTP exchange.

        Return None for a received message, or if no exchange is found.
        """
        if isinstance(entry, LoggedExchange):
            return entry
        if entry.direction == "received" or not self._has_exchanges:
            return None
        exchanges = self.host.servers.log_messages(self._server).exchanges()
        return next((one for one in exchanges if one.number > entry.number and one.body == entry.data), None)

    def action_restart(self) -> None:
        """Restart the server, so that its first messages are logged as well."""
        try:
            config = self.host.servers.view(self._server).config
            if config.disabled or config.excluded_by:
                enabling = keys_in_use(self).fill(_("Enable it: {servers}, then {servers-disable}."))
                self.show_about(Content(enabling))
                return
            self.host.servers.restart(self._server)
        except UsageError as error:
            self.notify(translate_sentence(error.message), severity="warning", markup=False)
            return
        self._shown = None
        self.show_about(Content(_("Restarting {title}…").format(title=clean_line(self._server, 60))))


def _entry_of(row: ListRow) -> LoggedMessage | LoggedExchange:
    return cast("DescribedEntry", row.value).entry


def _message_of(entry: LoggedMessage | LoggedExchange) -> LoggedMessage:
    """Return *entry* if it is a message; for an HTTP exchange, return the body of the request as a message."""
    if isinstance(entry, LoggedMessage):
        return entry
    return LoggedMessage(entry.number, entry.at, "sent", entry.body, entry.request_size, entry.mask)


def _make_call_command(server: str, message: LoggedMessage) -> tuple[str, tuple[str, ...]]:
    from mcphost.host.message_log_export import make_call_command
    from mcphost.host.servers.logged_requests import read_tool_call

    call = read_tool_call(message)
    return make_call_command(server, call.tool, call.recorded, message.mask)


def _list_row(one: DescribedEntry) -> ListRow:
    mark = _ARROWS[one.entry.direction] if isinstance(one.entry, LoggedMessage) else _EXCHANGE_MARK
    return ListRow(one, one.title, format_time(one.entry), mark, "$error" if one.is_problem else "$accent")


def _exchange_pairs(exchange: LoggedExchange) -> list[tuple[str, str]]:
    """Return the details of an HTTP exchange as name-value pairs, the most important ones first."""
    challenge = "; ".join(value for name, value in exchange.response_headers if name == "www-authenticate")
    shown = show_headers((("www-authenticate", challenge),))[0][1] if challenge else ""
    head, whole = exchange.head_seconds, exchange.seconds
    return [
        (_("request"), f"{exchange.verb} {exchange.shown_url()}"),
        (_("status"), str(exchange.status) if exchange.status else ""),
        (_("outcome"), describe_outcome(exchange)),
        (_("challenge"), shown),
        (_("message"), exchange.rpc_method),
        (_("belongs to"), describe_sign_in(exchange)),
        (_("error"), exchange.oauth_error if isinstance(exchange, LoggedOAuthRequest) else ""),
        (_("time"), format_time(exchange)),
        (_("response after"), "" if head is None else format_duration(head)),
        (_("ended after"), "" if whole is None else format_duration(whole)),
        (_("content type"), exchange.content_type),
        (_("sent"), _("{bytes:,} bytes").format(bytes=exchange.request_size)),
        (_("received"), _("{bytes:,} bytes").format(bytes=exchange.response_size)),
        (
            _("not shown"),
            _("{count} headers").format(count=exchange.omitted_headers) if exchange.omitted_headers else "",
        ),
    ]


def _exchange_sections(exchange: LoggedExchange, *, with_body: bool = False) -> list[Section]:
    """Return the headers of the request and the response and, if *with_body* is true, the request body.

    For an OAuth request, the names of the parameters are included instead of the body.
    """
    sections = [
        Section(_("Request headers"), _format_headers(exchange.request_headers)),
        Section(_("Response headers"), _format_headers(exchange.response_headers)),
    ]
    if isinstance(exchange, LoggedOAuthRequest):
        names = [_format_names(exchange.parameters), _format_names(exchange.response_parameters)]
        sections.insert(1, Section(_("Request parameters, without values"), names[0]))
        sections.append(Section(_("Response parameters, without values"), names[1]))
    elif with_body:
        sections.insert(1, Section(_("Request body"), _message_of(exchange).to_text(indent=2)))
    return [section for section in sections if section.text]


def _format_names(names: Sequence[str]) -> str:
    return "\n".join(clean_line(name, 100) for name in show_names(names))


def _format_headers(headers: Headers) -> str:
    # A line break in a value would look like another header.
    return "\n".join(clean_line(f"{name}: {value}", 2_200) for name, value in show_headers(headers))


class SaveMessagesForm(SaveFileForm):
    """Form that writes log entries without secrets to a new file that only the user can read."""

    def __init__(self, server: str, entries: Sequence[LoggedMessage | LoggedExchange]) -> None:
        """Create a form for *entries*, which are written in the given order."""
        super().__init__()
        self._server, self._entries = server, tuple(entries)

    def headline(self) -> str:
        """Return the title."""
        return _("Save the messages")

    def description(self) -> str:
        """Return a line with the number of entries and the format."""
        count = translate_count(len(self._entries), "row")
        return clean_line(
            _("{count} of {server}, as JSON Lines without secrets").format(count=count, server=self._server)
        )

    def suggest_name(self) -> str:
        """Return a file name derived from the server's name."""
        name = re.sub(r"[^\w.-]+", "-", self._server).strip("-.")[:_MAX_NAME]
        return f"{name or 'server'}-messages.jsonl"

    async def write(self, name: str) -> str:
        """Write the entries to the file *name* and return a message to show. Raises UsageError if that fails."""
        text = await anyio.to_thread.run_sync(export_json_lines, self._entries)
        content = text.encode("utf-8", "replace")
        return await anyio.to_thread.run_sync(write_new_file, resolve_file_name(name), content)
