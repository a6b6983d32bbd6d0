"""The first minute: an empty home with Claude Code's configuration and Ollama's wire, up to a tool call's answer."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.fakes.json_server import json_server
from tests.terminal.demo_program import with_forked_worker
from tests.terminal.terminal import Terminal, accepts_keys

DEMO_SERVER = {"type": "stdio", "command": sys.executable, "args": ["-m", "mcphost.demo.server"]}


def answer_chat(request: dict[str, Any]) -> bytes:
    """Answer `/api/chat` as Ollama streams it: a call of the tool `add` first, its result after that."""
    result = next((message["content"] for message in request["messages"] if message["role"] == "tool"), None)
    if result is None:
        names = [tool["function"]["name"] for tool in request.get("tools", ())]
        name = next(name for name in names if name.endswith("add"))
        message = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": name, "arguments": {"a": 2, "b": 40}}}],
        }
    else:
        message = {"role": "assistant", "content": f"The tool says {result}."}
    head = {"model": request["model"], "created_at": "2026-01-01T00:00:00Z"}
    lines = [
        {**head, "message": message, "done": False},
        {
            **head,
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 9,
            "eval_count": 5,
        },
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


OLLAMA: dict[str, Any] = {
    "GET /api/version": {"version": "0.12.6"},
    "GET /api/tags": {"models": [{"model": "qwen3:8b"}]},
    "POST /api/show": {"capabilities": ["completion", "tools"], "model_info": {}},
    "POST /api/chat": answer_chat,
}


def test_two_keys_after_the_start_card_the_first_answer_with_a_tool_call_stands(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"demo": DEMO_SERVER}}))
    with json_server(OLLAMA) as ollama:
        environment = {"HOME": str(tmp_path), "OLLAMA_HOST": ollama.url, "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": ""}
        with Terminal(tmp_path, environment=environment) as terminal:
            terminal.run(*with_forked_worker())
            terminal.wait_for("Set up mcphost", "ollama_chat/qwen3:8b", "demo", seconds=30)
            terminal.press("C-a")
            terminal.wait_for("■ demo")
            terminal.press("Enter")
            terminal.wait_for("Using ollama_chat/qwen3:8b", "1/1 server", seconds=30)
            terminal.type("what is 2 + 40?")
            terminal.press("Enter")
            terminal.wait_for("demo wants to run add", seconds=60)
            terminal.press("F8")
            terminal.wait_until(accepts_keys, "the entered question")
            terminal.press("a")
            terminal.wait_for("The tool says 2 + 40 = 42", seconds=60)
    assert json.loads((tmp_path / "config" / "mcp.json").read_text())["mcpServers"]["demo"]["command"] == sys.executable
    assert "ollama_chat/qwen3:8b" in (tmp_path / "config" / "config.toml").read_text()
    asked = [request[2] for request in ollama.requests if request[1] == "/api/chat"]
    assert [message["role"] for message in asked[-1]["messages"]][-1] == "tool"
