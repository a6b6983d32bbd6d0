"""`mcphost pipe`: the whole Host for programs, one JSON object a line in, one a line out."""

import logging
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import MalformedMessage, McpHostError, UsageError
from mcphost.headless.line_io import MAX_LINE_BYTES, LineWriter, OversizedLine, read_lines
from mcphost.headless.pipe_commands import PipeCommands, TurnFailed
from mcphost.headless.question_answers import PipeFrontend
from mcphost.host.events import HostEvent, ServerLog, ToolProgress
from mcphost.host.host import Host
from mcphost.serialization import encode, loads

DRAIN_SECONDS = 10
"""How long commands that still run may take after the input ended."""
_FLUSH_SECONDS = 2
_log = logging.getLogger(__name__)


class PipeServer:
    """Commands in, results and events out, over two descriptors. Made inside the event loop."""

    def __init__(self, host: Host, frontend: PipeFrontend, *, stdin: int = 0, stdout: int = 1) -> None:
        self._host = host
        self._frontend = frontend
        self._stdin = stdin
        self._writer = LineWriter(stdout)
        self._events = host.events.subscribe()
        self._running_ids: set[str | int] = set()
        self._idle = anyio.Event()
        self._dropped_events = 0
        self._handlers = PipeCommands(host, frontend, self._emit).handlers
        frontend.set_emit(self._emit)

    async def run(self) -> int:
        """Serve until `quit` or the end of the input; returns the exit code. The host is entered, not started.

        At the end of the input open questions are refused, and commands that still run get ten seconds, unless
        nobody reads the output any more; `quit` ends them at once. Each command has its result by then.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._forward_events)
                tasks.start_soon(self._watch_reader, tasks.cancel_scope)
                self._host.start()
                quit_asked = await self._read_commands(tasks)
                self._frontend.refuse_all()
                if not quit_asked:
                    await self._wait_for_commands()
                tasks.cancel_scope.cancel()
        finally:
            self._write_pending_events()
            self._writer.close()
            with anyio.move_on_after(_FLUSH_SECONDS, shield=True):
                await self._writer.finished.wait()
        return 0

    # -- in
    async def _read_commands(self, tasks: TaskGroup) -> bool:
        """Take commands; True for `quit`, False for the end of the input."""
        async for line in read_lines(self._stdin):
            if isinstance(line, OversizedLine):
                self._report_bad_line(None, f"The line is over {MAX_LINE_BYTES // 1_000_000} MB.")
                continue
            if not line.strip():
                continue
            command = self._parse(line)
            if command is None:
                continue
            ident, do, message = command
            if do == "quit":
                self._write_result(ident, {}, 0)
                return True
            if do == "wait":
                await self._wait(ident, message)
                continue
            self._running_ids.add(ident)
            tasks.start_soon(self._run_command, ident, do, message)
        return False

    def _parse(self, line: bytes) -> tuple[Any, str, dict[str, Any]] | None:
        try:
            value = loads(line, "line")
        except MalformedMessage as error:
            self._report_bad_line(None, error.message)
            return None
        if not isinstance(value, dict):
            self._report_bad_line(None, "The line is not a JSON object.")
            return None
        message = cast("dict[str, Any]", value)
        ident, do = message.get("id"), message.get("do")
        if isinstance(ident, bool) or not isinstance(ident, int | str | None):
            self._report_bad_line(None, "An id is text or a whole number.")
        elif not isinstance(do, str):
            self._report_bad_line(ident, 'The line has no "do".')
        elif do not in self._handlers and do not in {"quit", "wait"}:
            unknown = UsageError(
                f"There is no command {do[:60]!r}.", f"There are: {', '.join(self._handlers)}, wait, quit."
            )
            self._report_bad_line(ident, str(unknown))
            if ident is not None and ident not in self._running_ids:
                self._write_error(ident, unknown)  # whoever waits for a result of this id gets one
        elif ident is not None and ident in self._running_ids:
            self._report_bad_line(ident, f"A command with the id {ident!r} is running.")
        else:
            return ident, do, message
        return None

    async def _run_command(self, ident: Any, name: str, message: dict[str, Any]) -> None:
        try:
            result, code = await self._handlers[name](message)
        except McpHostError as error:
            self._write_error(ident, error)
        except anyio.get_cancelled_exc_class():
            self._write_error(ident, _InterruptError("mcphost ended before the command was done."))
            raise
        except Exception:  # noqa: BLE001
            # The boundary of a command: a bug in one must not take the others with it.
            _log.exception("pipe command %s", name)
            self._write_error(ident, McpHostError("mcphost crashed.", "The log has the details."))
        else:
            self._write_result(ident, result, code)
        finally:
            self._running_ids.discard(ident)
            if not self._running_ids:
                self._idle.set()

    async def _wait(self, ident: Any, message: dict[str, Any]) -> None:
        """Nothing more is read meanwhile: that is what it is for."""
        seconds = message.get("seconds", 0)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 3600:
            self._write_error(ident, UsageError('"seconds" is a number from 0 to 3600.'))
            return
        await anyio.sleep(seconds)
        self._write_result(ident, {}, 0)

    async def _wait_for_commands(self) -> None:
        """The input ended: let running commands finish, for a while, as long as somebody reads."""
        with anyio.move_on_after(DRAIN_SECONDS):
            while self._running_ids and not self._writer.is_reader_closed():
                self._idle = anyio.Event()
                with anyio.move_on_after(0.1):
                    await self._idle.wait()

    # -- out
    async def _forward_events(self) -> None:
        async for event in self._events:
            self._write_event(event)  # never awaits, so that a result cannot overtake what happened before it

    async def _watch_reader(self, scope: anyio.CancelScope) -> None:
        await self._writer.finished.wait()  # before we closed it, so nobody reads any more
        scope.cancel()

    def _write_event(self, event: HostEvent) -> None:
        if self._writer.is_full and isinstance(event, ServerLog | ToolProgress):
            self._dropped_events += 1
            return
        if self._dropped_events and not self._writer.is_full:
            count, self._dropped_events = self._dropped_events, 0
            self._emit({"event": "error", "message": f"{count} log and progress events were left out: read faster."})
        self._writer.put(encode(event))

    def _write_pending_events(self) -> None:
        for event in self._events.drain():
            self._write_event(event)

    def _emit(self, event: dict[str, Any]) -> None:
        self._write_pending_events()
        self._writer.put(encode(event))

    def _write_result(self, ident: Any, result: Any, code: int) -> None:
        self._emit({"event": "result", "id": ident, "ok": True, "exit": code, "result": result})

    def _write_error(self, ident: Any, error: McpHostError) -> None:
        code = error.code if isinstance(error, TurnFailed | _InterruptError) else error.exit_code
        kind = {3: "config", 7: "model"}.get(code, error.kind) if isinstance(error, TurnFailed) else error.kind
        told = {"kind": kind, "message": error.message, "hint": error.hint}
        self._emit({"event": "result", "id": ident, "ok": False, "exit": code, "error": told})

    def _report_bad_line(self, ident: Any, text: str) -> None:
        self._emit({"event": "error", "id": ident, "message": text})


class _InterruptError(McpHostError):
    kind = "interrupted"
    code = 130
