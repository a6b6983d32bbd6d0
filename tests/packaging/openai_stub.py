"""A fake OpenAI server on loopback with streamed chat completions: a tool call, then an answer quoting its result."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class OpenAiStub(ThreadingHTTPServer):
    """A model server that records requests and calls the tool whose name ends with `tool` (no tool if empty)."""

    daemon_threads = True

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tool = tool
        self.arguments = arguments
        self.requests: list[dict[str, Any]] = []

    @property
    def api_base(self) -> str:
        """The value for the option --api-base."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def stream_deltas(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the deltas of one answer: the tool call, or a text if the conversation ends with a tool result."""
        last = body["messages"][-1]
        if last["role"] == "tool":
            yield {"role": "assistant", "content": "The tool said: "}
            yield {"content": last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]}
            return
        if not self.tool:
            yield {"role": "assistant", "content": "Nothing to do for a tool."}
            return
        name = next(tool["function"]["name"] for tool in body["tools"] if tool["function"]["name"].endswith(self.tool))
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"tool_calls": [{"index": 0, "function": {"arguments": json.dumps(self.arguments)}}]}


class _Handler(BaseHTTPRequestHandler):
    server: OpenAiStub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        calls = False
        for delta in self.server.stream_deltas(body):
            calls = calls or "tool_calls" in delta
            self._event([{"index": 0, "delta": delta, "finish_reason": None}])
        self._event([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}])
        self._event([], {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, choices: list[Any], usage: dict[str, int] | None = None) -> None:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": choices}
        self.wfile.write(b"data: " + json.dumps(chunk | ({"usage": usage} if usage else {})).encode() + b"\n\n")

    def log_message(self, *_: object) -> None: ...


@contextmanager
def run_openai_stub(tool: str, arguments: dict[str, Any]) -> Iterator[OpenAiStub]:
    """Run the server until the block ends."""
    with OpenAiStub(tool, arguments) as stub:
        thread = Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield stub
        finally:
            stub.shutdown()
            thread.join()
