"""The stdio transport: newline-delimited JSON over the standard input and output of a server process."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcphost.errors import ConnectionLost, MalformedMessage, StartupError, UnreadInputError
from mcphost.log import log_file
from mcphost.transport.channel import Channel
from mcphost.transport.line_reader import MESSAGE_LIMIT, LineReader
from mcphost.transport.multiplexer import Multiplexer
from mcphost.transport.process import ServerProcess, build_environment
from mcphost.transport.watchdog import Watchdog

if TYPE_CHECKING:
    from mcphost.message_log import MessageLog


class StdioConnector:
    """Connector that starts the command *argv* and communicates through its standard streams.

    *environment* is added to the variables that the process may inherit.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: str = "",
        *,
        on_stderr: Callable[[str], None],
        warn: Callable[[str], None],
        message_limit: int = MESSAGE_LIMIT,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._name = name
        self._watchdog = watchdog
        self._argv = tuple(argv)
        self._environment = dict(environment)
        self._cwd = cwd
        self._on_stderr = on_stderr
        self._warn = warn
        self._message_limit = message_limit
        self.message_log: MessageLog | None = None
        """The log to which messages are added, or None if they are not logged; set it before `connect`."""

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Channel]:
        """Start the process; leaving the block stops its process group. Raises StartupError."""
        child: ServerProcess

        def stop_at(error: MalformedMessage) -> None:
            mux.connection_lost(ConnectionLost(f"The server {self._name!r} sent a {error.message}, server stopped."))
            child.kill()

        def end(how: str) -> None:
            how = how.removesuffix(".")  # the last line of the error output may be a sentence
            error = (UnreadInputError if child.is_input_unread else ConnectionLost)(
                f"The server {self._name!r} ({self._argv[0]}) {how}.",
                f"Its error output is in {log_file()}" if child.has_error_output else "",
                server=self._name,
            )
            reader.call_when_empty(lambda: mux.connection_lost(error))

        child = ServerProcess(self._name, self._on_stderr, end)
        log = self.message_log
        mux = Multiplexer(
            child.write if log is None else log.log_sent(child.write),
            child.wait_writable,
            self._warn,
            self._name,
            is_drained=child.is_drained,
            may_have_been_read=child.has_taken_input,
            write_now=child.write_now if log is None else log.log_sent(child.write_now),
        )
        reader = LineReader(
            mux.receive_line if log is None else log.log_received(mux.receive_line),
            child.pause_output,
            child.resume_output,
            mux.receive_line_in_steps if log is None else log.log_received_in_steps(mux.receive_line_in_steps),
            limit=self._message_limit,
            filter_lines=mux.filter_flood,
            on_malformed=stop_at,
        )
        child.on_output = reader.feed
        try:
            await ServerProcess.start(self._argv, build_environment(self._environment), self._cwd, child)
        except StartupError as error:
            raise StartupError(
                f"The server {self._name!r} did not start. {error.message}", error.hint, server=self._name
            ) from error
        try:
            if self._watchdog is not None:
                await self._watchdog.watch(child.pid)
            yield mux
        finally:
            mux.connection_lost(ConnectionLost(f"The connection to {self._name!r} was closed.", server=self._name))
            reader.clear()
            await child.stop()
            if self._watchdog is not None:
                self._watchdog.unwatch(child.pid)
