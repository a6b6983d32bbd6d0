"""The demo MCP server: `python -m mcphost.demo.server` speaks both eras over stdio, on the standard library only.

Independent of our client on purpose: it reads and writes its own JSON, so the two cannot share a mistake. Nothing of
mcphost or of a third party is imported here beyond its tools, which keeps its start under 100 ms.
"""

import contextlib
import json
import queue
import secrets
import sys
import threading
from typing import Any, cast

from mcphost.demo import requests
from mcphost.demo.tools import PROMPTS, RESOURCES, SLOW, Mistake, Room, Stopped, checked, prompt, read
from mcphost.demo.tools import TOOLS as OWN_TOOLS

TOOLS = [*OWN_TOOLS, *requests.TOOLS]

STATELESS = ("2026-07-28",)
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_META = "io.modelcontextprotocol/"
_INFO = {"name": "mcphost-demo", "title": "mcphost demo", "version": "1.0.0"}
_CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
_INSTRUCTIONS = (
    "Arithmetic, notes kept in memory, a slow count, dice, and tools that ask the user or the model back. "
    "Use add and multiply for every sum."
)
_LINE_LIMIT = 4_000_000
_FRESH_MS = 60_000


class Rejected(Exception):
    """A JSON-RPC error: code, message and data."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Server:
    """One client on stdin and stdout. Requests are read on the main thread; the slow tool on threads of its own."""

    def __init__(self) -> None:
        self._room = Room()
        self._out = threading.Lock()
        self._running: dict[Any, threading.Event] = {}
        self._revision = ""  # of the handshake
        self._stateless = False
        self._client: dict[str, Any] = {}  # what the client of a handshake declared
        self._replies: dict[str, queue.SimpleQueue[dict[str, Any]]] = {}
        self._page: requests.Page | None = None

    def serve(self) -> None:
        """Answer until the input ends; calls that still run are told to stop."""
        lines = sys.stdin.buffer
        while line := lines.readline(_LINE_LIMIT):
            if not line.endswith(b"\n") and len(line) >= _LINE_LIMIT:
                self._error(None, Rejected(-32700, "The line is too long."))
                while line and not line.endswith(b"\n"):
                    line = lines.readline(_LINE_LIMIT)
            elif line.strip():
                self._take(line)
        for stop in list(self._running.values()):
            stop.set()

    def _take(self, line: bytes) -> None:
        try:
            message = cast("object", json.loads(line))
        except (ValueError, RecursionError):
            self._error(None, Rejected(-32700, "Not JSON."))
            return
        members: list[Any] = [message]
        if isinstance(message, list) and self._revision == "2025-03-26":  # batches exist in that revision only
            members = cast("list[Any]", message) or members
        for member in members:
            self._one(_object(member))

    def _one(self, message: dict[str, Any] | None) -> None:
        if message is None or message.get("jsonrpc") != "2.0":
            self._error(None, Rejected(-32600, 'Not a message with "jsonrpc": "2.0".'))
            return
        ident, method = message.get("id"), message.get("method")
        params = _object(message.get("params", {}))
        if not isinstance(method, str):
            box = self._replies.pop(ident, None) if isinstance(ident, str) else None
            if box is not None:
                box.put(message)
            elif "result" not in message and "error" not in message:
                self._error(None, Rejected(-32600, "A request has a method."))
            return
        if "id" not in message:
            self._notice(method, params or {})
            return
        if isinstance(ident, bool) or not isinstance(ident, int | str):
            self._error(None, Rejected(-32600, "An id is a text or a whole number."))
            return
        try:
            if params is None:
                raise Rejected(-32602, "params is an object.")
            modern = self._era(method, params)
            if method == "tools/call":
                self._start_call(ident, params, modern)
            else:
                self._answer(ident, self._plain(method, params, modern), modern)
        except Rejected as error:
            self._error(ident, error)

    def _era(self, method: str, params: dict[str, Any]) -> bool:
        """Whether the request is of the stateless era, by what it carries. Raises Rejected."""
        meta = _object(params.get("_meta")) or {}
        version = meta.get(f"{_META}protocolVersion")
        if version is not None and method != "initialize":
            if version not in STATELESS:
                supported = {"supported": [*STATELESS, *HANDSHAKE], "requested": version}
                raise Rejected(-32022, "Unsupported protocol version", supported)
            if _object(meta.get(f"{_META}clientCapabilities")) is None:
                raise Rejected(-32602, f"params._meta needs {_META}clientCapabilities, an object.")
            self._stateless = True
            return True
        if method == "initialize":
            if self._stateless:
                # Both probes arrived: the era that was answered first stays.
                raise Rejected(
                    -32022,
                    "Unsupported protocol version",
                    {
                        "supported": list(STATELESS),
                        "requested": params.get("protocolVersion"),
                    },
                )
        elif method == "server/discover" or (not self._revision and method != "ping"):
            raise Rejected(-32602, f"params._meta needs {_META}protocolVersion, or send initialize first.")
        return False

    def _plain(self, method: str, params: dict[str, Any], modern: bool) -> dict[str, Any]:
        """The result of everything but a tool call. Raises Rejected."""
        match method:
            case "initialize" if not modern:
                return self._initialize(params)
            case "ping" if not modern:
                return {}
            case "server/discover" if modern:
                return self._kept(
                    {
                        "supportedVersions": [*STATELESS, *HANDSHAKE],
                        "capabilities": _CAPABILITIES,
                        "instructions": _INSTRUCTIONS,
                    },
                    modern,
                )
            case "tools/list":
                return self._kept({"tools": TOOLS}, modern)
            case "resources/list":
                return self._kept({"resources": RESOURCES}, modern)
            case "resources/templates/list":
                return self._kept({"resourceTemplates": []}, modern)
            case "prompts/list":
                return self._kept({"prompts": PROMPTS}, modern)
            case "resources/read":
                return self._read(params, modern)
            case "prompts/get":
                return self._prompt(params)
            case _:
                raise Rejected(-32601, f"There is no method {method[:100]!r}.")

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise Rejected(-32602, "initialize needs protocolVersion, a text.")
        self._revision = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
        self._client = _object(params.get("capabilities")) or {}
        return {
            "protocolVersion": self._revision,
            "capabilities": _CAPABILITIES,
            "serverInfo": _INFO,
            "instructions": _INSTRUCTIONS,
        }

    def _read(self, params: dict[str, Any], modern: bool) -> dict[str, Any]:
        uri = params.get("uri")
        found = read(uri, self._room) if isinstance(uri, str) else None
        if found is None:
            # 2026-07-28 retired -32002 for this.
            raise Rejected(-32602 if modern else -32002, "There is no such resource.", {"uri": uri})
        kept = self._kept({"contents": [{"uri": uri, "mimeType": found[0], "text": found[1]}]}, modern)
        if modern and uri == "demo://notes":
            kept["ttlMs"] = 0
        return kept

    def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        arguments = _object(params.get("arguments", {}))
        if params.get("name") != "plan" or arguments is None:
            raise Rejected(-32602, "There is one prompt, plan; its arguments are an object.")
        try:
            text = prompt(arguments)
        except Mistake as error:
            raise Rejected(-32602, str(error)) from error
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": "A short plan", "messages": [message]}

    def _kept(self, result: dict[str, Any], modern: bool) -> dict[str, Any]:
        return {**result, "ttlMs": _FRESH_MS, "cacheScope": "private"} if modern else result

    def _start_call(self, ident: Any, params: dict[str, Any], modern: bool) -> None:
        name, arguments = params.get("name"), _object(params.get("arguments", {}))
        if not isinstance(name, str) or arguments is None:
            raise Rejected(-32602, "tools/call needs name, a text, and arguments, an object.")
        if not any(tool["name"] == name for tool in TOOLS):
            raise Rejected(-32602, f"There is no tool {name[:100]!r}.")
        if ident in self._running:
            raise Rejected(-32600, "That id is in use.")
        stop = self._running[ident] = threading.Event()
        work = (ident, name, arguments, params, stop, modern)
        if name in SLOW or name in requests.NAMES:
            threading.Thread(target=self._call, args=work, daemon=True, name=f"call {ident}").start()
        else:
            self._call(*work)

    def _call(
        self,
        ident: Any,
        name: str,
        arguments: dict[str, Any],
        params: dict[str, Any],
        stop: threading.Event,
        modern: bool,
    ) -> None:
        token = (_object(params.get("_meta")) or {}).get("progressToken")

        def say(progress: float, total: float, text: str) -> None:
            if token is not None:
                told = {"progressToken": token, "progress": progress, "total": total, "message": text}
                self._write({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})

        failed = False
        try:
            if name in requests.NAMES:
                found = self._asking(name, arguments, params, stop, modern)
                if isinstance(found, dict):
                    self._answer(ident, found, modern)
                    return
                text = found
            else:
                text = self._room.call(name, arguments, say, stop)
        except Mistake as error:
            text, failed = str(error), True
        except Stopped:
            return  # a cancelled request gets no answer
        finally:
            self._running.pop(ident, None)
        self._answer(ident, {"content": [{"type": "text", "text": text}], "isError": failed}, modern)

    def _asking(
        self, name: str, arguments: dict[str, Any], params: dict[str, Any], stop: threading.Event, modern: bool
    ) -> str | dict[str, Any]:
        """What came of asking; or, in the stateless era, the result that asks. Raises Mistake, Stopped."""
        tool = next(tool for tool in requests.TOOLS if tool["name"] == name)
        given = checked(tool["inputSchema"], arguments)
        meta = _object(params.get("_meta")) or {}
        requests.possible(name, (_object(meta.get(f"{_META}clientCapabilities")) or {}) if modern else self._client)
        reply = (_object(params.get("inputResponses")) or {}).get("asked") if modern else None
        if modern and reply is None:
            page = self._new_page() if name == "open_page" else None
            asked = {"inputRequests": {"asked": requests.question(name, given, page, modern)}}
            state = {"requestState": page.key} if page is not None else {}
            return {"resultType": "input_required", **asked, **state}
        page = self._page if name == "open_page" else None
        if name == "open_page" and modern and (page is None or params.get("requestState") != page.key):
            raise Mistake("That page is gone; ask for another.")
        if not modern:
            page = self._new_page() if name == "open_page" else None
            reply = self._ask(requests.question(name, given, page, modern), stop)

        def told() -> None:
            if page is not None and not modern:
                done = {"method": "notifications/elicitation/complete", "params": {"elicitationId": page.key}}
                self._write({"jsonrpc": "2.0", **done})

        try:
            return requests.outcome(name, _object(reply) or {}, page, stop, told)
        finally:
            if page is not None:
                self._close(page)

    def _new_page(self) -> requests.Page:
        """A page; there is one at a time."""
        if self._page is not None:
            self._close(self._page)
        try:
            self._page = page = requests.Page()
        except OSError as error:
            raise Mistake(f"There is no room for a page here: {error}.") from error
        return page

    def _close(self, page: requests.Page) -> None:
        if self._page is page:
            self._page = None
        page.close()

    def _ask(self, question: dict[str, Any], stop: threading.Event) -> Any:
        """The client's reply to a request of ours. Raises Mistake for an error, Stopped when the call is cancelled."""
        ident = f"demo-{secrets.token_hex(8)}"
        box = self._replies[ident] = queue.SimpleQueue()
        self._write({"jsonrpc": "2.0", "id": ident, **question})
        while True:
            try:
                message = box.get(timeout=0.1)
                break
            except queue.Empty:
                if stop.is_set():
                    self._replies.pop(ident, None)
                    gone = {"method": "notifications/cancelled", "params": {"requestId": ident}}
                    self._write({"jsonrpc": "2.0", **gone})
                    raise Stopped from None
        if "result" not in message:
            error = _object(message.get("error")) or {}
            raise Mistake(f"Your client refused: {error.get('message', 'without a reason')}")
        return message["result"]

    def _notice(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            ident = params.get("requestId")
            stop = self._running.get(ident) if isinstance(ident, int | str) else None
            if stop is not None:
                stop.set()

    def _answer(self, ident: Any, result: dict[str, Any], modern: bool) -> None:
        if modern:
            result = {"resultType": "complete", **result, "_meta": {f"{_META}serverInfo": _INFO}}
        self._write({"jsonrpc": "2.0", "id": ident, "result": result})

    def _error(self, ident: Any, error: Rejected) -> None:
        body: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        self._write({"jsonrpc": "2.0", "id": ident, "error": body})

    def _write(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._out, contextlib.suppress(OSError, ValueError):  # the client is gone: the input ends next
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def main() -> None:
    """Serve until the input ends."""
    with contextlib.suppress(KeyboardInterrupt):
        Server().serve()


if __name__ == "__main__":
    main()
