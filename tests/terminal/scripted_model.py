"""A model server with Ollama's API whose model follows instructions in messages, for reproducible conversations.

`call TOOL JSON` calls the tool whose name ends with TOOL, `recall WORD` repeats the first earlier line that contains
WORD, and `wait` delays the answer until `go_on` is set. A request for a summary is answered with a short sentence for
each user message, and any other message with its own last line.
"""

import json
import re
import threading
from typing import Any

from mcphost.host.conversation.summarizer import SUMMARY_PROMPT

MODEL, OTHER_MODEL = "qwen3:8b", "qwen3:32b"
_WAIT_SECONDS = 60
_CALL = re.compile(r"call (\w+) (\{.*\})")
_RECALL = re.compile(r"recall (\w+)")


class ScriptedModel:
    """A local model server; `requests` contains the bodies of the chat requests so far."""

    def __init__(self, window: int = 8_192) -> None:
        """Offer a model with a context window of *window* tokens."""
        self.requests: list[dict[str, Any]] = []
        self.go_on = threading.Event()
        self.is_waiting = False
        facts = {
            "capabilities": ["completion", "tools", "vision"],
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": window},
        }
        self.answers: dict[str, Any] = {
            "GET /api/version": {"version": "0.12.6"},
            "GET /api/tags": {"models": [{"model": name} for name in (MODEL, OTHER_MODEL)]},
            "POST /api/show": facts,
            "POST /api/chat": self._chat,
        }

    def _chat(self, request: dict[str, Any]) -> bytes:
        self.requests.append(request)
        messages = request["messages"]
        if messages[0]["role"] == "system" and messages[0]["content"].startswith(SUMMARY_PROMPT[:40]):
            return _stream(request, {"content": _summarize(messages)})
        last = messages[-1]
        if last["role"] == "tool":
            return _stream(request, {"content": f"The tool says: {last['content']}"})
        if match := _CALL.search(last["content"]):
            names = [tool["function"]["name"] for tool in request.get("tools", ())]
            name = next((name for name in names if name.endswith(match[1])), match[1])
            call = {"function": {"name": name, "arguments": json.loads(match[2])}}
            return _stream(request, {"content": "", "tool_calls": [call]})
        if last["content"].startswith("wait"):
            self.is_waiting = True
            self.go_on.wait(_WAIT_SECONDS)
        if match := _RECALL.search(last["content"]):
            return _stream(request, {"content": f"I recall: {_find(messages[:-1], match[1])}"})
        return _stream(request, {"content": f"{request['model']} got: {last['content'].splitlines()[-1]}"})


def _find(messages: list[dict[str, Any]], word: str) -> str:
    lines = [line for message in messages for line in str(message["content"]).splitlines()]
    return next((line for line in lines if word in line), "nothing")


def _summarize(messages: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for entry in map(json.loads, "\n".join(str(one["content"]) for one in messages[1:]).splitlines()):
        if "sentence" in entry:
            lines.append(f"{entry['sentence']} [{entry['for']}]")
        elif entry["role"] == "user":
            lines.append(f"The user said: {' '.join(entry['text'].split())[:60]} [{entry['n']}]")
    return "\n".join(lines)


def _stream(request: dict[str, Any], message: dict[str, Any]) -> bytes:
    head = {"model": request["model"], "created_at": "2026-01-01T00:00:00Z"}
    counted = sum(len(str(one["content"])) for one in request["messages"]) // 4
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": counted, "eval_count": 5}
    lines = [
        {**head, "message": {"role": "assistant", **message}, "done": False},
        {**head, "message": {"role": "assistant", "content": ""}, **end},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
