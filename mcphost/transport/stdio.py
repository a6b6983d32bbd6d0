"""A server as a child process: newline-delimited JSON on its standard streams, its error output kept apart."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from mcphost.errors import CannotStart, ConnectionLost, InputNotRead, MalformedMessage
from mcphost.log import log_file
from mcphost.transport.channel import Channel
from mcphost.transport.line_splitter import MESSAGE_LIMIT, LineReader
from mcphost.transport.multiplexer import Mux
from mcphost.transport.process import Child, child_environment
from mcphost.transport.throttle import Backlog
from mcphost.transport.watchdog import Guardian


class StdioDialer:
    """Starts `argv` anew for each dial; `environment` comes on top of the inherited allow-list."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        folder: str = "",
        *,
        on_stderr: Callable[[str], None],
        warn: Callable[[str], None],
        message_limit: int = MESSAGE_LIMIT,
        guardian: Guardian | None = None,
    ) -> None:
        self._name = name
        self._guardian = guardian
        self._argv = tuple(argv)
        self._environment = dict(environment)
        self._folder = folder
        self._on_stderr = on_stderr
        self._warn = warn
        self._limit = message_limit

    @asynccontextmanager
    async def dial(self) -> AsyncGenerator[Channel]:
        """Start the child; leaving the block stops its whole process group. Raises CannotStart."""
        reader = LineReader(self._limit)
        child: Child

        def output(data: bytes) -> None:
            try:
                lines = reader.feed(data)
            except MalformedMessage as error:
                mux.lost(ConnectionLost(f"The server {self._name!r} sent a {error.message}, server stopped."))
                child.kill()
                return
            backlog.add(mux.worth_reading(lines))

        def end(how: str) -> None:
            error = (InputNotRead if child.is_input_unread else ConnectionLost)(
                f"The server {self._name!r} ({self._argv[0]}) {how}.",
                f"Its error output is in {log_file()}",
                server=self._name,
            )
            backlog.afterwards(lambda: mux.lost(error))

        child = Child(self._name, output, self._on_stderr, end)
        mux = Mux(
            child.write,
            child.ready,
            self._warn,
            self._name,
            drained=child.is_drained,
            write_at_once=child.write_at_once,
        )
        backlog = Backlog(mux.received, child.pause_output, child.resume_output, mux.receiving)
        try:
            await Child.start(self._argv, child_environment(self._environment), self._folder, child)
        except CannotStart as error:
            raise CannotStart(
                f"The server {self._name!r} did not start. {error.message}", error.hint, server=self._name
            ) from error
        try:
            if self._guardian is not None:
                await self._guardian.watch(child.pid)
            yield mux
        finally:
            mux.lost(ConnectionLost(f"The connection to {self._name!r} was closed.", server=self._name))
            backlog.clear()
            await child.stop()
            if self._guardian is not None:
                self._guardian.forget(child.pid)
