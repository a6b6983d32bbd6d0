"""A model provider on loopback with faults that mocks cannot imitate: silence, truncated streams and disconnects."""

import json
import time
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import SocketStream

Json = dict[str, Any]
COMPLETED: Json = {
    "type": "response.completed",
    "sequence_number": 9,
    "response": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5",
        "status": "completed",
        "output": [],
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    },
}
"""The event that ends an answer of the Responses API."""
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
JSON_LINES = CHUNKED.replace(b"text/event-stream", b"application/x-ndjson")
OLLAMA_PATH = "/api/chat"
"""Where Ollama streams one JSON object a line."""
SHOW_PATH = "/api/show"
"""Where Ollama describes a model."""


class RawProvider:
    """A provider that answers with one word every `pause` seconds, in the format of the request's path.

    Each connection is used for one request, and says so: a client that tried again on it would find it closed.
    `words` is the number of words before `ending`: "close" cuts the connection, "silence" sends nothing more and waits,
    "polite" ends the HTTP response correctly, "complete" also completes an answer of the Responses API, "middle" ends
    it in the middle of a line, and "no choices" sends an OpenAI stream that has tokens but no choice. With
    `refuses_tools`, a request with tools gets status 400 and this message. `bad_tools` maps tool names to such
    messages, in which `{name}` and `{at}` stand for the name and the position of the first refused tool. With
    `bad_keyword`, only definitions that contain this text are refused. If set, the events in `script` (of any API), or
    the header lines and the body in `raw`, or the bytes in `whole`, are sent instead. `shown` is the answer to Ollama's
    `/api/show`, or None for status 404, which is also the answer to all GET requests; these requests are not recorded.
    """

    def __init__(self) -> None:
        self.words = 1000
        self.pause = 0.05
        self.ending = "close"
        self.status = 0
        self.refuses_tools = ""
        self.bad_tools: dict[str, str] = {}
        self.bad_keyword = ""
        self.headers = b""
        self.script: list[dict[str, Any]] = []
        self.raw: tuple[bytes, bytes] | None = None
        self.whole: bytes | None = None
        self.shown: dict[str, Any] | None = None
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.reset()

    def reset(self) -> None:
        """Reset `asked` and `gone`, so that a test can wait for the next request and for its end."""
        self.hung_up: float | None = None
        self.asked = anyio.Event()
        self.gone = anyio.Event()

    async def handle(self, stream: SocketStream) -> None:
        async with stream:
            try:
                await self._answer(stream)
            except* (anyio.BrokenResourceError, anyio.EndOfStream):  # in a task group, while a word is being sent
                self._record_hangup()

    def _record_hangup(self) -> None:
        if self.hung_up is None:
            self.hung_up = time.perf_counter()
            self.gone.set()

    async def _answer(self, stream: SocketStream) -> None:
        path, body = await self._request(stream)
        if body is None:
            reply = json.dumps(self.shown).encode()
            status = b"200 OK" if self.shown is not None and path == SHOW_PATH else b"404 Not Found"
            await stream.send(
                b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (status, len(reply), reply)
            )
            return
        refusal = self._refuse_tools(body)
        if self.status or refusal:
            message = refusal or "told to fail"
            reply = json.dumps({"error": {"message": message}}).encode()
            status = 400 if refusal else self.status
            head = f"HTTP/1.1 {status} no\r\ncontent-type: application/json\r\ncontent-length: {len(reply)}\r\n"
            await stream.send(head.encode() + self.headers + b"connection: close\r\n\r\n" + reply)
            return
        if self.whole is not None:
            await stream.send(self.whole)
            return
        if self.raw is not None:
            headers, body = self.raw
            head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n" + headers
            await stream.send(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, stream, group.cancel_scope)
            if self.words or self.ending != "silence":
                await stream.send(JSON_LINES if path == OLLAMA_PATH else CHUNKED)
            for event in self.script:
                await self._event(stream, (str(event.get("type", "")), event))
            if self.script:
                await stream.send(b"0\r\n\r\n")
                return
            say, opening = stream_format(path)
            for event in opening:
                await self._event(stream, event)
            for number in range(self.words):
                await self._event(stream, say(f"w{number} "))
                await anyio.sleep(self.pause)
            await self._end(stream, path)
            group.cancel_scope.cancel()

    async def _end(self, stream: SocketStream, path: str) -> None:
        if self.ending == "silence":
            await anyio.sleep(30)
        if self.ending == "middle":
            await self._chunk(stream, b'data: {"id": "c", "choices": [{"index": 0, "del')
        if self.ending == "no choices":
            usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
            empty = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
            await self._event(stream, ("", {**empty, "usage": usage}))
            await self._chunk(stream, b"data: [DONE]\n\n")
        if self.ending == "complete" and path.endswith("/responses"):
            await self._event(stream, ("response.completed", COMPLETED))
        if self.ending in ("complete", "polite", "middle", "no choices"):
            await self._chunk(stream, b"")

    def _refuse_tools(self, body: dict[str, Any]) -> str:
        """Return the message with which the tools in a request are refused, or "" if they are accepted."""
        for at, (name, tool) in enumerate(zip(tool_names(body), tool_definitions(body), strict=True)):
            if name in self.bad_tools and self.bad_keyword in json.dumps(tool):
                return self.bad_tools[name].format(name=name, at=at)
        return self.refuses_tools if "tools" in body else ""

    async def _watch(self, stream: SocketStream, scope: anyio.CancelScope) -> None:
        try:
            await stream.receive(1)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self._record_hangup()
            scope.cancel()

    async def _request(self, stream: SocketStream) -> tuple[str, dict[str, Any] | None]:
        """Return the path and the body of a request; the body is None if the request is about the server itself."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        if head.startswith(b"GET "):
            return path, None
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        length = int(lengths[0].split(b":")[1])
        while len(body) < length:
            body += await stream.receive()
        if path == SHOW_PATH:
            return path, None
        self.heads.append(head.decode())
        self.bodies.append(json.loads(body))
        self.asked.set()
        return path, self.bodies[-1]

    async def _event(self, stream: SocketStream, event: tuple[str, dict[str, Any]]) -> None:
        name, value = event
        text = (f"event: {name}\n" if name else "") + f"data: {json.dumps(value)}\n\n"
        if "created_at" in value and "message" in value:  # Ollama's
            text = json.dumps(value) + "\n"
        await self._chunk(stream, text.encode())

    async def _chunk(self, stream: SocketStream, data: bytes) -> None:
        await stream.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def tool_names(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools in a request, whatever API it uses."""
    return [tool.get("name") or tool["function"]["name"] for tool in tool_definitions(body)]


def tool_definitions(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool definitions in a request, whatever API it uses."""
    tools = body.get("tools") or []
    return tools[0]["function_declarations"] if tools and "function_declarations" in tools[0] else tools


def ollama_chunk(*, done: bool = False, **message: Any) -> dict[str, Any]:
    """Return one line of an answer in Ollama's format, the last one if *done*."""
    chunk = {
        "model": "llama3.1",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "", **message},
        "done": done,
    }
    return chunk | ({"done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2} if done else {})


def chunk(delta: Json, reason: str | None = None) -> Json:
    """Return one event of an answer in the format of Chat Completions."""
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


def gemini_chunk(*parts: Json, **more: Any) -> Json:
    """Return one event of an answer in Gemini's format."""
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}


def responses_event(kind: str, **members: Any) -> Json:
    """Return one event of OpenAI's Responses API."""
    return {"type": f"response.{kind}", "sequence_number": 1, "output_index": 0, **members}


WordEventFn = Callable[[str], tuple[str, dict[str, Any]]]


def stream_format(path: str) -> tuple[WordEventFn, list[tuple[str, dict[str, Any]]]]:
    """Return a function that formats a word as an event of the API at *path*, and the events before the first word."""
    if "generateContent" in path or "GenerateContent" in path:
        return lambda word: (
            "",
            {"candidates": [{"content": {"parts": [{"text": word}], "role": "model"}, "index": 0}]},
        ), []
    if path == OLLAMA_PATH:
        return lambda word: ("", ollama_chunk(content=word)), []
    if path.endswith("/messages"):
        message = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": "x",
            "stop_reason": None,
            "usage": {"input_tokens": 1, "output_tokens": 0},
        }
        start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        opening = [("message_start", {"type": "message_start", "message": message}), ("content_block_start", start)]
        return lambda word: (
            "content_block_delta",
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": word},
            },
        ), opening
    if path.endswith("/responses"):
        created = {
            "type": "response.created",
            "sequence_number": 0,
            "response": {
                "id": "r",
                "object": "response",
                "created_at": 1,
                "status": "in_progress",
                "model": "gpt-5",
                "output": [],
                "parallel_tool_calls": True,
                "tools": [],
                "tool_choice": "auto",
            },
        }
        return lambda word: (
            "response.output_text.delta",
            {
                "type": "response.output_text.delta",
                "sequence_number": 1,
                "item_id": "i",
                "output_index": 0,
                "content_index": 0,
                "delta": word,
            },
        ), [("response.created", created)]
    return lambda word: (
        "",
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}],
        },
    ), []
