"""`mcphost pipe`: the whole Host for programs, one JSON object a line in, one a line out."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from mcphost.data import encode, loads
from mcphost.errors import MalformedMessage, McpHostError, UsageError
from mcphost.headless import documents
from mcphost.headless.answers import PipeFront
from mcphost.headless.lines import LINE_LIMIT, TooLong, Writer, read_lines
from mcphost.headless.run import settle
from mcphost.host.events import HostEvent, ServerLog, ToolProgress
from mcphost.host.host import Host
from mcphost.protocol.completion import PromptRef, TemplateRef

LAST_SECONDS = 10
"""How long commands that still run may take after the input ended."""
SETTLE_SECONDS = 10
"""How long a message waits for servers that are still connecting, or for the answer about one not yet approved."""
_FLUSH_SECONDS = 2
_log = logging.getLogger(__name__)


class Pipe:
    """Commands in, results and events out, over two descriptors. Made inside the event loop."""

    def __init__(self, host: Host, front: PipeFront, *, stdin: int = 0, stdout: int = 1) -> None:
        self._host = host
        self._front = front
        self._stdin = stdin
        self._out = Writer(stdout)
        self._feed = host.events()
        self._running: set[str | int] = set()
        self._idle = anyio.Event()
        self._left_out = 0
        self._do: dict[str, Callable[[dict[str, Any]], Awaitable[tuple[Any, int]]]] = {
            "connect": self._connect,
            "login": self._login,
            "list": self._list,
            "call": self._call,
            "read": self._read_resource,
            "prompt": self._prompt,
            "complete": self._complete,
            "skill": self._skill,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "log_level": self._log_level,
            "send": self._send,
            "stop": self._stop,
            "answer": self._answer,
        }
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

    # -- commands
    async def _connect(self, message: dict[str, Any]) -> tuple[Any, int]:
        name = _text(message, "server")
        if self._host.server(name).state in ("failed", "stopped", "untrusted", "sign_in"):
            self._host.restart(name)
        return documents.server(await self._host.ready(name)), 0

    async def _login(self, message: dict[str, Any]) -> tuple[Any, int]:
        return documents.server(await self._host.login(_text(message, "server"))), 0

    async def _list(self, message: dict[str, Any]) -> tuple[Any, int]:
        kind = message.get("kind", "tools")
        if kind not in documents.KINDS:
            raise UsageError(f'"kind" is one of {", ".join(documents.KINDS)}.')
        name = _text(message, "server")
        if message.get("refresh") is True:
            await self._host.features.refresh(name)
        view = await self._host.ready(name)
        return {kind: documents.offers(view, kind)}, 0

    async def _call(self, message: dict[str, Any]) -> tuple[Any, int]:
        called = await self._host.call_tool(
            _text(message, "server"), _text(message, "tool"), _object(message, "arguments")
        )
        return documents.outcome(called), documents.exit_code(called)

    async def _read_resource(self, message: dict[str, Any]) -> tuple[Any, int]:
        """By `uri`, or by `template` and the `values` for its variables."""
        server, features = _text(message, "server"), self._host.features
        values = _texts(message, "values")
        uri = features.expand(_text(message, "template"), values) if "template" in message else _text(message, "uri")
        read = await features.read(server, uri, fresh=message.get("refresh") is True)
        return {"uri": uri, **documents.contents(read)}, 0

    async def _prompt(self, message: dict[str, Any]) -> tuple[Any, int]:
        arguments = _texts(message, "arguments")
        filled = await self._host.get_prompt(_text(message, "server"), _text(message, "name"), arguments)
        return documents.filled(filled), 0

    async def _skill(self, message: dict[str, Any]) -> tuple[Any, int]:
        """By `skill`, a name or an address; with `file` one of its files."""
        server, skills = _text(message, "server"), self._host.features.skills
        skill = await skills.find(server, _text(message, "skill"))
        content = await skills.load(server, skill)
        if "file" in message:
            content = await skills.read(server, skill, _text(message, "file"))
        return documents.skill(content), 0

    async def _complete(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Of an argument of a `prompt`, or of a variable of a `template`; `arguments` is what is filled in already."""
        if ("prompt" in message) == ("template" in message):
            raise UsageError('Give either "prompt" with its name or "template" with its text.')
        prompt = "prompt" in message
        ref = PromptRef(_text(message, "prompt")) if prompt else TemplateRef(_text(message, "template"))
        value = message.get("value", "")
        if not isinstance(value, str):
            raise UsageError('"value" is not text.')
        found = await self._host.features.complete(
            _text(message, "server"), ref, _text(message, "argument"), value, _texts(message, "arguments")
        )
        return documents.completion(found), 0

    async def _subscribe(self, message: dict[str, Any]) -> tuple[Any, int]:
        await self._host.features.subscribe(_text(message, "server"), _text(message, "uri"))
        return {}, 0

    async def _unsubscribe(self, message: dict[str, Any]) -> tuple[Any, int]:
        was = await self._host.features.unsubscribe(_text(message, "server"), _text(message, "uri"))
        return {"was_subscribed": was}, 0

    async def _log_level(self, message: dict[str, Any]) -> tuple[Any, int]:
        """`level` is empty for none."""
        level = message.get("level")
        if not isinstance(level, str):
            raise UsageError('"level" is missing, or is not text.')
        await self._host.features.set_log_level(_text(message, "server"), level)
        return {}, 0

    async def _send(self, message: dict[str, Any]) -> tuple[Any, int]:
        text = _text(message, "text")
        # A program's first message may follow its start at once; the model should see the tools it was started with.
        with anyio.move_on_after(SETTLE_SECONDS):
            await settle(self._host)
        result = await self._host.send(text)
        if result.error:
            raise _Failed(result.error, result.hint, result.exit_code)
        return {"outcome": result.outcome, "text": result.text, "declined": result.declined}, result.exit_code

    async def _stop(self, message: dict[str, Any]) -> tuple[Any, int]:
        return {"stopped": self._host.stop()}, 0

    async def _answer(self, message: dict[str, Any]) -> tuple[Any, int]:
        try:
            self._front.answer(_text(message, "question"), message.get("answer"))
        except UsageError as error:
            self._emit({"event": "error", "question": message.get("question"), "message": str(error)})
            raise
        return {}, 0

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
        for event in self._feed.take():
            self._event(event)

    def _emit(self, event: dict[str, Any]) -> None:
        self._drain()
        self._out.put(encode(event))

    def _result(self, ident: Any, result: Any, code: int) -> None:
        self._emit({"event": "result", "id": ident, "ok": True, "exit": code, "result": result})

    def _failure(self, ident: Any, error: McpHostError) -> None:
        code = error.code if isinstance(error, _Failed | _Interrupted) else error.exit_code
        kind = {3: "config", 7: "model"}.get(code, error.kind) if isinstance(error, _Failed) else error.kind
        told = {"kind": kind, "message": error.message, "hint": error.hint}
        self._emit({"event": "result", "id": ident, "ok": False, "exit": code, "error": told})

    def _bad_line(self, ident: Any, text: str) -> None:
        self._emit({"event": "error", "id": ident, "message": text})


class _Interrupted(McpHostError):
    kind = "interrupted"
    code = 130


class _Failed(McpHostError):
    """A turn that failed, by its exit code."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(message, hint)
        self.code = code


def _text(message: dict[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f'"{key}" is missing, or is not text.')
    return value


def _texts(message: dict[str, Any], key: str) -> dict[str, str]:
    values = _object(message, key)
    if not all(isinstance(value, str) for value in values.values()):
        raise UsageError(f'The values of "{key}" are texts.')
    return cast("dict[str, str]", values)


def _object(message: dict[str, Any], key: str) -> dict[str, Any]:
    value = message.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f'"{key}" is not an object.')
    return cast("dict[str, Any]", value)
