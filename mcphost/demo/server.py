"""The demo MCP server (`python -m mcphost.demo.server`), which supports every protocol revision over stdio.

It deliberately shares no code with mcphost's client, so that server and client cannot share a bug; even its JSON
messages are read and written by its own code. Apart from its tools, it imports only the standard library, so it starts
in less than 100 ms.
"""

import contextlib
import json
import queue
import secrets
import sys
import threading
from typing import Any, cast

from mcphost.demo.tools import (
    INTERACTIVE_TOOL_NAMES,
    INTERACTIVE_TOOLS,
    PROMPTS,
    RESOURCES,
    SLOW_TOOLS,
    TOOLS,
    CallCancelled,
    DemoToolError,
    DemoTools,
    VisitPage,
    build_request,
    describe_reply,
    read_resource,
    render_prompt,
    require_capability,
    validate_arguments,
)

STATELESS_REVISIONS = ("2026-07-28",)
HANDSHAKE_REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_META_PREFIX = "io.modelcontextprotocol/"
_INFO = {"name": "mcphost-demo", "title": "mcphost demo", "version": "1.0.0"}
_CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
_INSTRUCTIONS = (
    "Arithmetic, notes kept in memory, a slow count, dice, and tools that ask the user or the model back. "
    "Use add and multiply for every sum."
)
_MAX_LINE_BYTES = 4_000_000
_TTL_MS = 60_000


class JsonRpcError(Exception):
    """A JSON-RPC error to send to the client, with a code, a message and optional data."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class DemoServer:
    """MCP server that communicates with one client through stdin and stdout.

    Requests are read on the main thread; each call to a slow or interactive tool runs on its own thread.
    """

    def __init__(self) -> None:
        self._tools = DemoTools()
        self._write_lock = threading.Lock()
        self._cancel_events: dict[Any, threading.Event] = {}
        self._revision = ""  # negotiated by `initialize`
        self._is_stateless = False
        self._client_capabilities: dict[str, Any] = {}  # declared in `initialize`
        self._replies: dict[str, queue.SimpleQueue[dict[str, Any]]] = {}
        self._page: VisitPage | None = None

    def serve(self) -> None:
        """Handle messages until the input ends, then cancel the tool calls that are still running."""
        lines = sys.stdin.buffer
        while line := lines.readline(_MAX_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) >= _MAX_LINE_BYTES:
                self._send_error(None, JsonRpcError(-32700, "The line is too long."))
                while line and not line.endswith(b"\n"):
                    line = lines.readline(_MAX_LINE_BYTES)
            elif line.strip():
                self._handle_line(line)
        for stop in list(self._cancel_events.values()):
            stop.set()

    def _handle_line(self, line: bytes) -> None:
        try:
            message = cast("object", json.loads(line))
        except (ValueError, RecursionError):
            self._send_error(None, JsonRpcError(-32700, "Not JSON."))
            return
        members: list[Any] = [message]
        if isinstance(message, list) and self._revision == "2025-03-26":  # batches exist only in that revision
            members = cast("list[Any]", message) or members
        for member in members:
            self._handle_message(_as_object(member))

    def _handle_message(self, message: dict[str, Any] | None) -> None:
        if message is None or message.get("jsonrpc") != "2.0":
            self._send_error(None, JsonRpcError(-32600, 'Not a message with "jsonrpc": "2.0".'))
            return
        request_id, method = message.get("id"), message.get("method")
        params = _as_object(message.get("params", {}))
        if not isinstance(method, str):
            box = self._replies.pop(request_id, None) if isinstance(request_id, str) else None
            if box is not None:
                box.put(message)
            elif "result" not in message and "error" not in message:
                self._send_error(None, JsonRpcError(-32600, "A request must have a method."))
            return
        if "id" not in message:
            self._handle_notification(method, params or {})
            return
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            self._send_error(None, JsonRpcError(-32600, "An id must be a string or an integer."))
            return
        try:
            if params is None:
                raise JsonRpcError(-32602, "params must be an object.")
            is_stateless = self._is_stateless_request(method, params)
            if method == "tools/call":
                self._start_call(request_id, params, is_stateless)
            else:
                self._send_result(request_id, self._handle_request(method, params, is_stateless), is_stateless)
        except JsonRpcError as error:
            self._send_error(request_id, error)

    def _is_stateless_request(self, method: str, params: dict[str, Any]) -> bool:
        """Return whether a request has the metadata that protocol revisions since 2026-07-28 require.

        Raises JsonRpcError if the metadata is invalid, if it is missing from a request that needs it, or if the request
        contradicts the revision already in use.
        """
        meta = _as_object(params.get("_meta")) or {}
        version = meta.get(f"{_META_PREFIX}protocolVersion")
        if version is not None and method != "initialize":
            if version not in STATELESS_REVISIONS:
                supported = {"supported": [*STATELESS_REVISIONS, *HANDSHAKE_REVISIONS], "requested": version}
                raise JsonRpcError(-32022, "Unsupported protocol version", supported)
            if _as_object(meta.get(f"{_META_PREFIX}clientCapabilities")) is None:
                raise JsonRpcError(-32602, f"params._meta needs {_META_PREFIX}clientCapabilities, an object.")
            self._is_stateless = True
            return True
        if method == "initialize":
            if self._is_stateless:
                # The client sent `server/discover` as well; the request that was answered first decides the revision.
                raise JsonRpcError(
                    -32022,
                    "Unsupported protocol version",
                    {
                        "supported": list(STATELESS_REVISIONS),
                        "requested": params.get("protocolVersion"),
                    },
                )
        elif method == "server/discover" or (not self._revision and method != "ping"):
            raise JsonRpcError(-32602, f"params._meta needs {_META_PREFIX}protocolVersion, or send initialize first.")
        return False

    def _handle_request(self, method: str, params: dict[str, Any], is_stateless: bool) -> dict[str, Any]:
        """Return the result of a request other than a tool call. Raises JsonRpcError if the request is invalid."""
        match method:
            case "initialize" if not is_stateless:
                return self._initialize(params)
            case "ping" if not is_stateless:
                return {}
            case "server/discover" if is_stateless:
                return self._add_cache_hints(
                    {
                        "supportedVersions": [*STATELESS_REVISIONS, *HANDSHAKE_REVISIONS],
                        "capabilities": _CAPABILITIES,
                        "instructions": _INSTRUCTIONS,
                    },
                    is_stateless,
                )
            case "tools/list":
                return self._add_cache_hints({"tools": TOOLS}, is_stateless)
            case "resources/list":
                return self._add_cache_hints({"resources": RESOURCES}, is_stateless)
            case "resources/templates/list":
                return self._add_cache_hints({"resourceTemplates": []}, is_stateless)
            case "prompts/list":
                return self._add_cache_hints({"prompts": PROMPTS}, is_stateless)
            case "resources/read":
                return self._read_resource(params, is_stateless)
            case "prompts/get":
                return self._get_prompt(params)
            case _:
                raise JsonRpcError(-32601, f"There is no method {method[:100]!r}.")

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise JsonRpcError(-32602, "initialize needs protocolVersion, a string.")
        self._revision = wanted if wanted in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[0]
        self._client_capabilities = _as_object(params.get("capabilities")) or {}
        return {
            "protocolVersion": self._revision,
            "capabilities": _CAPABILITIES,
            "serverInfo": _INFO,
            "instructions": _INSTRUCTIONS,
        }

    def _read_resource(self, params: dict[str, Any], is_stateless: bool) -> dict[str, Any]:
        uri = params.get("uri")
        resource = read_resource(uri, self._tools) if isinstance(uri, str) else None
        if resource is None:
            # Revision 2026-07-28 no longer uses -32002 for this.
            raise JsonRpcError(-32602 if is_stateless else -32002, "There is no such resource.", {"uri": uri})
        mime_type, text = resource
        result = self._add_cache_hints({"contents": [{"uri": uri, "mimeType": mime_type, "text": text}]}, is_stateless)
        if is_stateless and uri == "demo://notes":
            result["ttlMs"] = 0
        return result

    def _get_prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        arguments = _as_object(params.get("arguments", {}))
        if params.get("name") != "plan" or arguments is None:
            raise JsonRpcError(-32602, "There is one prompt, plan; its arguments are an object.")
        try:
            text = render_prompt(arguments)
        except DemoToolError as error:
            raise JsonRpcError(-32602, str(error)) from error
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": "A short plan", "messages": [message]}

    def _add_cache_hints(self, result: dict[str, Any], is_stateless: bool) -> dict[str, Any]:
        return {**result, "ttlMs": _TTL_MS, "cacheScope": "private"} if is_stateless else result

    def _start_call(self, request_id: Any, params: dict[str, Any], is_stateless: bool) -> None:
        name, arguments = params.get("name"), _as_object(params.get("arguments", {}))
        if not isinstance(name, str) or arguments is None:
            raise JsonRpcError(-32602, "tools/call needs name, a string, and arguments, an object.")
        if not any(tool["name"] == name for tool in TOOLS):
            raise JsonRpcError(-32602, f"There is no tool {name[:100]!r}.")
        if request_id in self._cancel_events:
            raise JsonRpcError(-32600, "That id is in use.")
        stop = self._cancel_events[request_id] = threading.Event()
        work = (request_id, name, arguments, params, stop, is_stateless)
        if name in SLOW_TOOLS or name in INTERACTIVE_TOOL_NAMES:
            threading.Thread(target=self._run_tool, args=work, daemon=True, name=f"call {request_id}").start()
        else:
            self._run_tool(*work)

    def _run_tool(
        self,
        request_id: Any,
        name: str,
        arguments: dict[str, Any],
        params: dict[str, Any],
        stop: threading.Event,
        is_stateless: bool,
    ) -> None:
        token = (_as_object(params.get("_meta")) or {}).get("progressToken")

        def report_progress(progress: float, total: float, text: str) -> None:
            if token is not None:
                told = {"progressToken": token, "progress": progress, "total": total, "message": text}
                self._write({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})

        failed = False
        try:
            if name in INTERACTIVE_TOOL_NAMES:
                found = self._run_interactive_tool(name, arguments, params, stop, is_stateless)
                if isinstance(found, dict):
                    self._send_result(request_id, found, is_stateless)
                    return
                text = found
            else:
                text = self._tools.call(name, arguments, report_progress, stop)
        except DemoToolError as error:
            text, failed = str(error), True
        except CallCancelled:
            return  # a cancelled request gets no response
        finally:
            self._cancel_events.pop(request_id, None)
        self._send_result(request_id, {"content": [{"type": "text", "text": text}], "isError": failed}, is_stateless)

    def _run_interactive_tool(
        self, name: str, arguments: dict[str, Any], params: dict[str, Any], stop: threading.Event, is_stateless: bool
    ) -> str | dict[str, Any]:
        """Run a tool that sends the client a request, and return the text of the tool's result.

        If *is_stateless* is true (protocol revisions since 2026-07-28), the first call returns an `input_required`
        result that contains the request. The client then repeats the tool call together with its response to the
        request, and this second call returns the text. Raises DemoToolError if the tool fails, and CallCancelled when
        *stop* is set.
        """
        tool = next(tool for tool in INTERACTIVE_TOOLS if tool["name"] == name)
        given = validate_arguments(tool["inputSchema"], arguments)
        meta = _as_object(params.get("_meta")) or {}
        require_capability(
            name,
            (_as_object(meta.get(f"{_META_PREFIX}clientCapabilities")) or {})
            if is_stateless
            else self._client_capabilities,
        )
        reply = (_as_object(params.get("inputResponses")) or {}).get("asked") if is_stateless else None
        if is_stateless and reply is None:
            page = self._open_page() if name == "open_page" else None
            asked = {"inputRequests": {"asked": build_request(name, given, page, is_stateless)}}
            state = {"requestState": page.key} if page is not None else {}
            return {"resultType": "input_required", **asked, **state}
        page = self._page if name == "open_page" else None
        if name == "open_page" and is_stateless and (page is None or params.get("requestState") != page.key):
            raise DemoToolError("That page is gone; call the tool again.")
        if not is_stateless:
            page = self._open_page() if name == "open_page" else None
            reply = self._send_request(build_request(name, given, page, is_stateless), stop)

        def notify_visited() -> None:
            if page is not None and not is_stateless:
                done = {"method": "notifications/elicitation/complete", "params": {"elicitationId": page.key}}
                self._write({"jsonrpc": "2.0", **done})

        try:
            return describe_reply(name, _as_object(reply) or {}, page, stop, notify_visited)
        finally:
            if page is not None:
                self._close_page(page)

    def _open_page(self) -> VisitPage:
        """Serve a page for the user to visit, and stop serving the previous one.

        Raises DemoToolError if the page cannot be served.
        """
        if self._page is not None:
            self._close_page(self._page)
        try:
            self._page = page = VisitPage()
        except OSError as error:
            raise DemoToolError(f"The page cannot be served: {error}.") from error
        return page

    def _close_page(self, page: VisitPage) -> None:
        if self._page is page:
            self._page = None
        page.close()

    def _send_request(self, request: dict[str, Any], stop: threading.Event) -> Any:
        """Send a request to the client and return the result in the client's response.

        Raises DemoToolError if the response is an error, and CallCancelled when *stop* is set.
        """
        request_id = f"demo-{secrets.token_hex(8)}"
        box = self._replies[request_id] = queue.SimpleQueue()
        self._write({"jsonrpc": "2.0", "id": request_id, **request})
        while True:
            try:
                message = box.get(timeout=0.1)
                break
            except queue.Empty:
                if stop.is_set():
                    self._replies.pop(request_id, None)
                    gone = {"method": "notifications/cancelled", "params": {"requestId": request_id}}
                    self._write({"jsonrpc": "2.0", **gone})
                    raise CallCancelled from None
        if "result" not in message:
            error = _as_object(message.get("error")) or {}
            raise DemoToolError(f"Your client refused: {error.get('message', 'without a reason')}")
        return message["result"]

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            request_id = params.get("requestId")
            stop = self._cancel_events.get(request_id) if isinstance(request_id, int | str) else None
            if stop is not None:
                stop.set()

    def _send_result(self, request_id: Any, result: dict[str, Any], is_stateless: bool) -> None:
        if is_stateless:
            result = {"resultType": "complete", **result, "_meta": {f"{_META_PREFIX}serverInfo": _INFO}}
        self._write({"jsonrpc": "2.0", "id": request_id, "result": result})

    def _send_error(self, request_id: Any, error: JsonRpcError) -> None:
        body: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        self._write({"jsonrpc": "2.0", "id": request_id, "error": body})

    def _write(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with (
            self._write_lock,
            contextlib.suppress(OSError, ValueError),
        ):  # the client has exited, and the input will end
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


def _as_object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def main() -> None:
    """Run the server until the input ends."""
    with contextlib.suppress(KeyboardInterrupt):
        DemoServer().serve()


if __name__ == "__main__":
    main()
