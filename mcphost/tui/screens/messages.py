"""Messages screen: the JSON-RPC messages exchanged with one server, for developers of servers."""

import re
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.errors import MalformedMessage, UsageError
from mcphost.message_log import MAX_MESSAGES, LoggedMessage
from mcphost.protocol.jsonrpc import (
    JsonRpcErrorResponse,
    JsonRpcNotification,
    JsonRpcRequest,
    parse_message,
    split_batch,
)
from mcphost.threads import run_in_thread
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host

UPDATE_SECONDS = 0.5
"""Seconds after which new messages are listed, no matter how many arrive."""

_METHOD = re.compile(rb'"method"\s{0,5}:\s{0,5}"([^"\\]{1,100})"')
_ARROWS = {"sent": "→", "received": "←"}
_DIRECTIONS = {"sent": N_("sent to the server"), "received": N_("received from the server")}


class MessagesScreen(ListScreen):
    """List of the newest messages exchanged with one server, newest first; opening it begins to log them.

    JSON is indented, secrets are removed, and long messages are cut. HTTP headers are not logged.
    """

    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("r", N_("restart the server"), "screen.restart"),)
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.restart"})
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "restart", show=False, id="messages-restart")]

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__()
        self.host = host
        self._server = server
        self._newest: LoggedMessage | None = None
        self._shown: LoggedMessage | None = None
        title = _("Messages of {server}").format(server=clean_line(server, 60))
        self.TITLE_TEXT = title  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]

    def empty_text(self) -> str:
        """Return sentences that say when messages will be logged, and how to restart the server now."""
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
        for one in reversed(messages):
            text, is_problem = _describe_message(one)
            style = "$error" if is_problem else "$accent"
            rows.append(ListRow(one, text, _format_time(one), _ARROWS[one.direction], style))
        return rows

    def show_details(self, row: ListRow) -> None:
        """Show a message as indented JSON, or as it was if it is not valid JSON.

        A message that is already shown stays where the user scrolled to.
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


def _describe_message(message: LoggedMessage) -> tuple[str, bool]:
    """Return the method and the id of a request, or the kind and the id of another message.

    The second value says whether the message is an error or no message at all.
    """
    if message.cut_bytes:
        named = _METHOD.search(message.data)
        return (clean_line(named[1].decode(errors="replace"), 100) if named else _("a long message")), False
    try:
        if message.data.lstrip().startswith(b"["):
            return _("batch of {count}").format(count=sum(1 for _member in split_batch(message.data))), False
        parsed = parse_message(message.data)
    except MalformedMessage:
        return _("not a JSON-RPC message"), True
    match parsed:
        case JsonRpcRequest():
            text = f"{parsed.method} #{parsed.id}"
        case JsonRpcNotification():
            text = parsed.method
        case JsonRpcErrorResponse():
            text = _("error {code} #{id}").format(code=parsed.error.code, id=parsed.id)
        case _:
            text = _("result #{id}").format(id=parsed.id)
    return clean_line(text, 100), isinstance(parsed, JsonRpcErrorResponse)
