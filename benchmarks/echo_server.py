"""A minimal MCP server that needs almost no CPU time: `stdio [TOOLS]`, or `http [--sse]`, which prints the port."""

# pyright: basic

import asyncio
import json
import os
import sys
from typing import Any

INFO = {"name": "echo", "version": "1"}
MODERN = "io.modelcontextprotocol/protocolVersion"
TEXTS: dict[int, str] = {}
TOOLS = next((int(word) for word in sys.argv[2:] if word.isdigit()), 1)


def tool(number: int) -> dict[str, Any]:
    if number == 0:
        return {"name": "text", "inputSchema": {"type": "object"}}
    text = {"type": "string", "description": "What to look for, in the words of whoever asks", "minLength": 1}
    count = {"type": "integer", "description": "How many at most", "minimum": 1, "maximum": 100, "default": 10}
    order = {"type": "string", "enum": ["newest", "oldest", "relevance"], "description": "What comes first"}
    return {
        "name": f"search_collection_{number}",
        "title": f"Search collection {number}",
        "description": f"Searches collection {number} and returns what fits, best first, with a link to each.",
        "inputSchema": {
            "type": "object",
            "properties": {"query": text, "limit": count, "order": order},
            "required": ["query"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "tools/call":
        size = params["arguments"]["size"]
        text = TEXTS.setdefault(size, ("The quick brown fox jumps over the lazy dog. " * (size // 45 + 1))[:size])
        return {"content": [{"type": "text", "text": text}], "isError": False}
    if method == "tools/list":
        return {"tools": [tool(number) for number in range(TOOLS)]}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": INFO}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    return None


def reply(line: bytes) -> bytes | None:
    message = json.loads(line)
    if "id" not in message:
        return None
    params = message.get("params") or {}
    if "--silent" in sys.argv and message["method"] == "server/discover":
        return None
    body = result(message["method"], params)
    if body is None:
        error = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
    if MODERN in params.get("_meta", {}):
        body["resultType"] = "complete"
        if message["method"] == "tools/list":
            body |= {"ttlMs": 0, "cacheScope": "private"}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": body}, separators=(",", ":")).encode()


def stdio() -> None:
    buffer = b""
    while chunk := os.read(0, 1 << 20):
        *lines, buffer = (buffer + chunk).split(b"\n")
        answers = [answer for line in lines if line.strip() and (answer := reply(line)) is not None]
        data = memoryview(b"".join(answer + b"\n" for answer in answers))
        while data:
            data = data[os.write(1, data) :]


class Http(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + size:
                return
            body = self.buffer[end + 4 : end + 4 + size]
            self.buffer = self.buffer[end + 4 + size :]
            self.transport.write(self.answer(head, body))

    def answer(self, head: bytes, body: bytes) -> bytes:
        if not head.startswith(b"post"):
            return b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"
        data = reply(body)
        if data is None:
            return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
        kind = b"application/json"
        if "--sse" in sys.argv:
            kind, data = b"text/event-stream", b"event: message\ndata: " + data + b"\n\n"
        return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (kind, len(data), data)


async def http() -> None:
    server = await asyncio.get_running_loop().create_server(Http, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        stdio()
    else:
        asyncio.run(http())
