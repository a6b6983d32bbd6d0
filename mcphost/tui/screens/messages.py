"""Messages screen: the JSON-RPC messages exchanged with one server, for developers of servers."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.errors import MalformedMessage, UsageError
from mcphost.message_log import MAX_MESSAGES, LoggedMessage
from mcphost.protocol.jsonrpc import (
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    RequestId,
    parse_message,
    split_batch,
)
from mcphost.threads import run_in_thread
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widget_messages import CopyRequested
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host

UPDATE_SECONDS = 0.5
"""Seconds after which new messages are listed, no matter how many arrive."""

_METHOD = re.compile(rb'"method"\s{0,5}:\s{0,5}"([^"\\]{1,100})"')
_RESPONSE_HEAD = re.compile(
    rb'\s{0,5}\{\s{0,5}"jsonrpc"\s{0,5}:\s{0,5}"2\.0"\s{0,5},\s{0,5}"id"\s{0,5}:\s{0,5}'
    rb'(?:(\d{1,18})|"([^"\\]{1,100})")\s{0,5},\s{0,5}"(?:result|error)"'
)
"""The beginning of a response that is too long to be parsed."""

_ARROWS = {"sent": "→", "received": "←"}
_DIRECTIONS = {"sent": N_("sent to the server"), "received": N_("received from the server")}


class MessagesScreen(ListScreen):
    """List of the newest messages exchanged with one server, newest first; opening it starts logging them.

    JSON is indented, secrets are removed, and long messages are truncated. HTTP headers are not logged.
    """

    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("r", N_("restart the server"), "screen.restart"),
        ("c", N_("copy"), "screen.copy"),
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.restart"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "restart", show=False, id="messages-restart"),
        Binding("c", "copy", show=False, id="messages-copy"),
    ]

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__()
        self.host = host
        self._server = server
        self._newest: LoggedMessage | None = None
        self._shown: LoggedMessage | None = None
        title = _("Messages of {server}").format(server=clean_line(server, 60))
        self.TITLE_TEXT = title  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]

    def empty_text(self) -> str:
        """Return a text that explains when messages will be logged, and how to restart the server now."""
        said = _(
            "The messages of the server are logged from its next start on: the newest {count}, only until mcphost "
            "ends. {{messages-restart}} restarts the server now."
        )
        return keys_in_use(self).fill(said.format(count=MAX_MESSAGES))

    def on_mount(self) -> None:
        """Show the logged messages, and keep the list up to date."""
        super().on_mount()
        self.set_interval(UPDATE_SECONDS, self._update)

    def _list_messages(self) -> tuple[LoggedMessage, ...]:
        try:
            return self.host.servers.log_messages(self._server).messages()
        except UsageError:  # the server was removed
            return ()

    def _update(self) -> None:
        messages = self._list_messages()
        newest = messages[-1] if messages else None
        if newest is not self._newest:
            self.reload()

    def identify(self, row: ListRow) -> object:
        """Return the number of the entry's message."""
        return row.value.number

    def load(self) -> Sequence[ListRow]:
        """Return a row for each message, with its direction, its method or kind, its id and its time."""
        messages = self._list_messages()
        self._newest = messages[-1] if messages else None
        rows: list[ListRow] = []
        parsed = {one.number: _parse(one) for one in messages}
        answered = _find_answered(messages, parsed)
        for one in reversed(messages):
            text, is_problem = _describe_message(one, parsed[one.number], answered.get(one.number))
            style = "$error" if is_problem else "$accent"
            rows.append(ListRow(one, text, _format_time(one), _ARROWS[one.direction], style))
        return rows

    def show_details(self, row: ListRow) -> None:
        """Show a message as indented JSON, or unchanged if it is not valid JSON.

        If the message is already shown, do nothing, so that the scroll position is kept.
        """
        message: LoggedMessage = row.value
        current = self.current_row()
        if message is self._shown or current is None or current.value is not message:
            return
        self._shown, rest = message, message.cut_bytes
        pairs = [
            (_("direction"), _(_DIRECTIONS[message.direction])),
            (_("time"), _format_time(message)),
            (_("size"), _("{bytes:,} bytes").format(bytes=message.size)),
            (_("not shown"), _("{bytes:,} bytes").format(bytes=rest) if rest else ""),
        ]
        self.show_about(clean_pairs(pairs))
        self.run_worker(partial(self._show_text, message), group="text", exclusive=True)

    async def _show_text(self, message: LoggedMessage) -> None:
        text = await run_in_thread(partial(message.to_text, indent=2))
        self.query_one(LongText).show(text, language="json")

    def action_copy(self) -> None:
        """Copy the selected text or, if nothing is selected, the message under the cursor as it is shown."""
        if chosen := self.get_selected_text():
            self.post_message(CopyRequested(chosen))
        elif (row := self.current_row()) is not None:
            self.run_worker(partial(self._copy_message, row.value), group="copy", exclusive=True)

    async def _copy_message(self, message: LoggedMessage) -> None:
        self.post_message(CopyRequested(await run_in_thread(partial(message.to_text, indent=2))))

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

    def handle_server_change(self) -> None:
        """Do nothing, because the list is updated by a timer."""


def _format_time(message: LoggedMessage) -> str:
    milliseconds = int(message.at * 1_000) % 1_000
    return f"{time.strftime('%H:%M:%S', time.localtime(message.at))}.{milliseconds:03}"


def _parse(message: LoggedMessage) -> JsonRpcMessage | int | None:
    """Return the parsed message, the number of messages in a batch, or None if it is cut or no JSON-RPC message."""
    if message.cut_bytes:
        return None
    try:
        if message.data.lstrip().startswith(b"["):
            return sum(1 for _member in split_batch(message.data))
        return parse_message(message.data)
    except MalformedMessage:
        return None


class _Answered(NamedTuple):
    """The request that a message answers; `id` is the id of both."""

    request: LoggedMessage
    method: str
    id: RequestId


def _find_answered(
    messages: Iterable[LoggedMessage], parsed: Mapping[int, JsonRpcMessage | int | None]
) -> dict[int, _Answered]:
    """Return the logged request that each response answers, by the number of the response.

    *messages* must be ordered by time. A request is answered once, and by the other side. A response that is cut is
    recognized by its beginning.
    """
    waiting: dict[tuple[str, RequestId], _Answered] = {}
    found: dict[int, _Answered] = {}
    for message in messages:
        answered: RequestId | None = None
        match parsed[message.number]:
            case JsonRpcRequest(id=number, method=method):
                waiting[message.direction, number] = _Answered(message, method, number)
            case JsonRpcResponse(id=number) | JsonRpcErrorResponse(id=number):
                answered = number
            case None if head := _RESPONSE_HEAD.match(message.data):
                answered = int(head[1]) if head[1] else head[2].decode(errors="replace")
            case _:
                pass
        other = "sent" if message.direction == "received" else "received"
        if answered is not None and (request := waiting.pop((other, answered), None)) is not None:
            found[message.number] = request
    return found


def _format_duration(seconds: float) -> str:
    if seconds >= 1:
        return _("{seconds:.1f} s").format(seconds=seconds)
    return _("{count} ms").format(count=max(0, round(seconds * 1000)))


def _describe_message(
    message: LoggedMessage, parsed: JsonRpcMessage | int | None, answered: _Answered | None
) -> tuple[str, bool]:
    """Return a label for a message, and whether it is an error.

    The label is the method and id of a request, or the kind and id of another message. Data that is not a JSON-RPC
    message counts as an error.
    """
    is_error = isinstance(parsed, JsonRpcErrorResponse)
    if answered is not None:
        text = _("error {code} of {method} · {time} · #{id}") if is_error else _("result of {method} · {time} · #{id}")
        text = text.format(
            code=parsed.error.code if isinstance(parsed, JsonRpcErrorResponse) else "",
            method=clean_line(answered.method, 60),
            time=_format_duration(message.at - answered.request.at),
            id=answered.id,
        )
        return clean_line(text, 120), is_error
    match parsed:
        case None if message.cut_bytes:
            named = _METHOD.search(message.data)
            text = named[1].decode(errors="replace") if named else _("a long message")
        case None:
            return _("not a JSON-RPC message"), True
        case int():
            text = _("batch of {count}").format(count=parsed)
        case JsonRpcRequest():
            text = f"{parsed.method} #{parsed.id}"
        case JsonRpcNotification():
            text = parsed.method
        case JsonRpcErrorResponse():
            text = _("error {code} #{id}").format(code=parsed.error.code, id=parsed.id)
        case _:
            text = _("result #{id}").format(id=parsed.id)
    return clean_line(text, 100), is_error
