"""An in-process server whose tool `slow` answers when the test decides; the tool `quick` answers immediately."""

from typing import Any

import anyio

from mcphost.protocol.jsonrpc import JsonRpcNotification, JsonRpcRequest, JsonRpcResponse
from mcphost.serialization import Raw, encode
from tests.unit.host.scripted_host import (
    EMPTY_LISTS,
    InProcessServer,
    text_result,
    tool_definition,
    tools_result,
)

REVISION = "2026-07-28"


class SlowServer(InProcessServer):
    """A server with the tools `slow` and `quick`; `called` is set by the first call of `slow`."""

    def __init__(self, **answers: Any) -> None:
        tools = tools_result(tool_definition("slow"), tool_definition("quick"))
        super().__init__({**EMPTY_LISTS, "tools/list": tools, **answers}, REVISION, {"tools": {}}, {"name": "peer"})
        self.waiting: list[tuple[JsonRpcRequest, Any]] = []
        self.called = anyio.Event()
        self._arrived = anyio.Event()

    async def wait_for_calls(self, count: int) -> None:
        """Wait until *count* calls of `slow` have arrived and are still unanswered."""
        with anyio.fail_after(10):
            while len(self.waiting) < count:
                self._arrived = anyio.Event()
                await self._arrived.wait()

    def _answer(self, request: JsonRpcRequest, params: dict[str, Any]) -> None:
        if request.method == "tools/call" and params["name"] == "slow":
            self.waiting.append((request, params.get("_meta", {}).get("progressToken")))
            self.called.set()
            self._arrived.set()
        elif request.method == "tools/call":
            self.send(JsonRpcResponse(request.id, Raw(encode({"resultType": "complete", **text_result("quick")}))))
        else:
            super()._answer(request, params)

    def report(self, progress: float, total: float, message: str) -> None:
        """Report the progress of the oldest waiting call."""
        values = {"progressToken": self.waiting[0][1], "progress": progress, "total": total, "message": message}
        self.send(JsonRpcNotification("notifications/progress", Raw(encode(values))))

    def finish(self, text: str, **members: Any) -> None:
        """Answer the oldest waiting call."""
        request, _ = self.waiting.pop(0)
        result = {"resultType": "complete", **text_result(text, **members)}
        self.send(JsonRpcResponse(request.id, Raw(encode(result))))
