"""`mcphost pipe`: the whole Host for programs, one JSON object a line in, one a line out."""

import logging
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import MalformedMessage, McpHostError, UsageError
from mcphost.headless.line_io import LINE_LIMIT, TooLong, Writer, read_lines
from mcphost.headless.pipe_commands import Commands, TurnFailed
from mcphost.headless.question_answers import PipeFront
from mcphost.host.events import HostEvent, ServerLog, ToolProgress
from mcphost.host.host import Host
from mcphost.serialization import encode, loads

LAST_SECONDS = 10
"""How long commands that still run may take after the input ended."""
_FLUSH_SECONDS = 2
_log = logging.getLogger(__name__)


class Pipe:
    """Commands in, results and events out, over two descriptors. Made inside the event loop."""

    def __init__(self, host: Host, front: PipeFront, *, stdin: int = 0, stdout: int = 1) -> None:
        self._host = host
        self._front = front
        self._stdin = stdin
        self._out = Writer(stdout)
        self._feed = host.subscribe()
        self._running: set[str | int] = set()
        self._idle = anyio.Event()
        self._left_out = 0
        self._do = Commands(host, front, self._emit).named
        front.connect(self._emit)

    async def run(self) -> int:
        """Serve until `quit` or the end of the input; returns the exit code. The host is entered, not started.

        At the end of the input open questions are refused, and commands that still run get ten seconds, unless
        nobody reads the output any more; `quit` ends them at once. Each command has its result by then.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pump)
                tasks.start_soon(self._watch_reader, tasks.cancel_scope)
                self._host.start()
                quit_asked = await self._read(tasks)
                self._front.refuse_all()
                if not quit_asked:
                    await self._last()
                tasks.cancel_scope.cancel()
        finally:
            self._drain()
            self._out.close()
            with anyio.move_on_after(_FLUSH_SECONDS, shield=True):
                await self._out.ended.wait()
        return 0

    # -- in
    async def _read(self, tasks: TaskGroup) -> bool:
        """Take commands; True for `quit`, False for the end of the input."""
        async for line in read_lines(self._stdin):
            if isinstance(line, TooLong):
                self._bad_line(None, f"The line is over {LINE_LIMIT // 1_000_000} MB.")
                continue
            if not line.strip():
                continue
            command = self._parse(line)
            if command is None:
                continue
            ident, do, message = command
            if do == "quit":
                self._result(ident, {}, 0)
                return True
            if do == "wait":
                await self._wait(ident, message)
                continue
            self._running.add(ident)
            tasks.start_soon(self._command, ident, do, message)
        return False

    def _parse(self, line: bytes) -> tuple[Any, str, dict[str, Any]] | None:
        try:
            value = loads(line, "line")
        except MalformedMessage as error:
            self._bad_line(None, error.message)
            return None
        if not isinstance(value, dict):
            self._bad_line(None, "The line is not a JSON object.")
            return None
        message = cast("dict[str, Any]", value)
        ident, do = message.get("id"), message.get("do")
        if isinstance(ident, bool) or not isinstance(ident, int | str | None):
            self._bad_line(None, "An id is text or a whole number.")
        elif not isinstance(do, str):
            self._bad_line(ident, 'The line has no "do".')
        elif do not in self._do and do not in {"quit", "wait"}:
            unknown = UsageError(f"There is no command {do[:60]!r}.", f"There are: {', '.join(self._do)}, wait, quit.")
            self._bad_line(ident, str(unknown))
            if ident is not None and ident not in self._running:
                self._failure(ident, unknown)  # whoever waits for a result of this id gets one
        elif ident is not None and ident in self._running:
            self._bad_line(ident, f"A command with the id {ident!r} is running.")
        else:
            return ident, do, message
        return None

    async def _command(self, ident: Any, do: str, message: dict[str, Any]) -> None:
        try:
            result, code = await self._do[do](message)
        except McpHostError as error:
            self._failure(ident, error)
        except anyio.get_cancelled_exc_class():
            self._failure(ident, _Interrupted("mcphost ended before the command was done."))
            raise
        except Exception:  # noqa: BLE001
            # The boundary of a command: a bug in one must not take the others with it.
            _log.exception("pipe command %s", do)
            self._failure(ident, McpHostError("mcphost made a mistake.", "The log has the details."))
        else:
            self._result(ident, result, code)
        finally:
            self._running.discard(ident)
            if not self._running:
                self._idle.set()

    async def _wait(self, ident: Any, message: dict[str, Any]) -> None:
        """Nothing more is read meanwhile: that is what it is for."""
        seconds = message.get("seconds", 0)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 3600:
            self._failure(ident, UsageError('"seconds" is a number from 0 to 3600.'))
            return
        await anyio.sleep(seconds)
        self._result(ident, {}, 0)

    async def _last(self) -> None:
        """The input ended: let running commands finish, for a while, as long as somebody reads."""
        with anyio.move_on_after(LAST_SECONDS):
            while self._running and not self._out.reader_left():
                self._idle = anyio.Event()
                with anyio.move_on_after(0.1):
                    await self._idle.wait()

    # -- out
    async def _pump(self) -> None:
        async for event in self._feed:
            self._event(event)  # never awaits, so that a result cannot overtake what happened before it

    async def _watch_reader(self, scope: anyio.CancelScope) -> None:
        await self._out.ended.wait()  # before we closed it, so nobody reads any more
        scope.cancel()

    def _event(self, event: HostEvent) -> None:
        if self._out.full and isinstance(event, ServerLog | ToolProgress):
            self._left_out += 1
            return
        if self._left_out and not self._out.full:
            count, self._left_out = self._left_out, 0
            self._emit({"event": "error", "message": f"{count} log and progress events were left out: read faster."})
        self._out.put(encode(event))

    def _drain(self) -> None:
        for event in self._feed.drain():
            self._event(event)

    def _emit(self, event: dict[str, Any]) -> None:
        self._drain()
        self._out.put(encode(event))

    def _result(self, ident: Any, result: Any, code: int) -> None:
        self._emit({"event": "result", "id": ident, "ok": True, "exit": code, "result": result})

    def _failure(self, ident: Any, error: McpHostError) -> None:
        code = error.code if isinstance(error, TurnFailed | _Interrupted) else error.exit_code
        kind = {3: "config", 7: "model"}.get(code, error.kind) if isinstance(error, TurnFailed) else error.kind
        told = {"kind": kind, "message": error.message, "hint": error.hint}
        self._emit({"event": "result", "id": ident, "ok": False, "exit": code, "error": told})

    def _bad_line(self, ident: Any, text: str) -> None:
        self._emit({"event": "error", "id": ident, "message": text})


class _Interrupted(McpHostError):
    kind = "interrupted"
    code = 130
