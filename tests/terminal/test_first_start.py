"""Tests for a user's first minute: from the start to an answer with a tool's result, whatever is there already."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.loader import load_config
from mcphost.config.remembered_models import RememberedModels
from mcphost.config.schema import ModelConfig
from tests.fakes.json_server import json_server
from tests.fakes.registry_entries import package, server
from tests.fakes.registry_server import published, registry_server
from tests.terminal.demo_program import MCPHOST_PATH, with_forked_worker
from tests.terminal.terminal import Terminal, accepts_keys

DEMO_SERVER = {"type": "stdio", "command": sys.executable, "args": ["-m", "mcphost.demo.server"]}


def answer_chat(request: dict[str, Any]) -> bytes:
    """Answer `/api/chat` like Ollama: first with a call of the tool `add`, then with its result as text."""
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


NOTHING = {
    "OLLAMA_HOST": "127.0.0.1:9",
    "ANTHROPIC_API_KEY": "",
    "XAI_API_BASE": "http://127.0.0.1:9",
    "OPENAI_API_KEY": "",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent",
}
OLLAMA: dict[str, Any] = {
    "GET /api/version": {"version": "0.12.6"},
    "GET /api/tags": {"models": [{"model": "qwen3:8b"}]},
    "POST /api/show": {"capabilities": ["completion", "tools"], "model_info": {}},
    "POST /api/chat": answer_chat,
}


def answer_openai(request: dict[str, Any]) -> bytes:
    """Answer `/v1/chat/completions` like OpenAI: with a call of the tool `add` if it is there, then with its result."""
    result = next((message["content"] for message in request["messages"] if message["role"] == "tool"), None)
    names = [tool["function"]["name"] for tool in request.get("tools", ())]
    name = next((name for name in names if name.endswith("add")), "")
    delta: dict[str, Any] = {"role": "assistant", "content": f"The tool says {result}." if result else "Good day."}
    end = "stop"
    if name and result is None:
        call = {"name": name, "arguments": json.dumps({"a": 2, "b": 40})}
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": call}]}
        end = "tool_calls"
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]},
    ]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


OPENAI: dict[str, Any] = {"GET /v1/models": {"data": []}, "POST /v1/chat/completions": answer_openai}
OPENAI_KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz123456"


def ask_for_a_sum(terminal: Terminal) -> None:
    """Send a message, allow the call of the tool `add`, and wait for the answer with its result."""
    terminal.type("what is 2 + 40?")
    terminal.press("Enter")
    terminal.wait_for("Run demo · add?")
    terminal.press("F8")
    terminal.wait_until(accepts_keys, "the entered question")
    terminal.press("a")
    terminal.wait_for("The tool says 2 + 40 = 42")


def test_two_keys_after_the_start_card_the_first_answer_with_a_tool_call_stands(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"demo": DEMO_SERVER}}))
    with json_server(OLLAMA) as ollama:
        environment = {**NOTHING, "HOME": str(tmp_path), "OLLAMA_HOST": ollama.url}
        with Terminal(tmp_path, environment=environment) as terminal:
            terminal.run(*with_forked_worker())
            terminal.wait_for("Set up mcphost", "ollama_chat/qwen3:8b", "demo")
            terminal.press("C-a")
            terminal.wait_for("■ demo")
            terminal.press("Enter")
            terminal.wait_for("Using ollama_chat/qwen3:8b", "1/1 server")
            ask_for_a_sum(terminal)
    assert json.loads((tmp_path / "config" / "mcp.json").read_text())["mcpServers"]["demo"]["command"] == sys.executable
    assert "ollama_chat/qwen3:8b" in (tmp_path / "config" / "config.toml").read_text()
    asked = [request[2] for request in ollama.requests if request[1] == "/api/chat"]
    assert [message["role"] for message in asked[-1]["messages"]][-1] == "tool"


def test_with_a_key_in_the_environment_two_keys_suffice_for_an_answer_with_a_tool_call(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"demo": DEMO_SERVER}}))
    with json_server(OPENAI) as openai:
        key = {"OPENAI_API_KEY": OPENAI_KEY, "OPENAI_API_BASE": f"{openai.url}/v1"}
        with Terminal(tmp_path, environment={**NOTHING, "HOME": str(tmp_path), **key}) as terminal:
            terminal.run(*with_forked_worker())
            terminal.wait_for("Set up mcphost", "openai/", "demo")
            terminal.press("C-a")
            terminal.wait_for("■ demo")
            terminal.press("Enter")
            terminal.wait_for("Using openai/", "1/1 server")
            ask_for_a_sum(terminal)
    asked = [(body, headers) for _, path, body, headers in openai.requests if path == "/v1/chat/completions"]
    assert {headers["authorization"] for _, headers in asked} == {f"Bearer {OPENAI_KEY}"}
    assert asked[-1][0]["messages"][-1]["role"] == "tool"


def test_with_nothing_a_pasted_key_and_an_added_server_answer_with_a_tool_call(tmp_path: Path) -> None:
    with json_server(OPENAI) as openai:
        environment = {**NOTHING, "HOME": str(tmp_path), "OPENAI_API_BASE": f"{openai.url}/v1"}
        with Terminal(tmp_path, environment=environment) as terminal:
            terminal.run(*with_forked_worker())
            terminal.wait_for("Set up mcphost", "Paste a key")
            terminal.tmux("set-buffer", OPENAI_KEY)
            terminal.tmux("paste-buffer", "-p")
            terminal.wait_for("•" * len(OPENAI_KEY))
            terminal.press("Enter")
            terminal.wait_for("Using openai/")
            added = subprocess.run(
                [MCPHOST_PATH, "servers", "add", "demo", "--", sys.executable, "-m", "mcphost.demo.server"],
                env={**os.environ, **terminal.environment}, capture_output=True, text=True, timeout=30,
            )  # fmt: skip
            assert added.returncode == 0, added.stderr
            terminal.wait_for("1/1 server")
            ask_for_a_sum(terminal)


def test_escape_and_typing_close_the_start_card_and_choose_nothing(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"demo": DEMO_SERVER}}))
    with Terminal(tmp_path, environment={**NOTHING, "HOME": str(tmp_path)}) as terminal:
        terminal.run(MCPHOST_PATH)
        terminal.wait_for("Set up mcphost", "demo")
        terminal.type("hello there")
        terminal.wait_until(lambda screen: "hello there" in screen and "Set up mcphost" not in screen, "the message")
        terminal.press("C-u")
        terminal.type("/setup")
        terminal.press("Enter")
        terminal.wait_for("Set up mcphost")
        terminal.press("Escape")
        terminal.wait_until(lambda screen: "Set up mcphost" not in screen, "the chat")
        terminal.press("C-q")
        terminal.wait_until(lambda screen: "Servers" not in screen, "the shell")
    assert not (tmp_path / "config").exists()


def test_a_key_is_stored_on_enter_and_not_on_escape(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[secrets]\nstore = "file"\n')
    stored = tmp_path / "data" / "secrets.json"
    with Terminal(tmp_path, environment={**NOTHING, "HOME": str(tmp_path)}) as terminal:
        terminal.run(MCPHOST_PATH, "--model", "demo")
        terminal.wait_for("Type a message")
        terminal.press("C-b")
        terminal.wait_for("Search", "needs a key")
        terminal.type("xai/grok-4.5-latest")
        terminal.wait_for("1 of")
        terminal.press("Enter")
        terminal.wait_for("Key for xAI")
        terminal.type("wrong")
        terminal.press("Escape")
        terminal.wait_until(lambda screen: "Key for xAI" not in screen, "the list")
        assert not stored.exists()
        terminal.press("Enter")
        terminal.wait_for("Key for xAI", "stored in a file that only you can read")
        terminal.type("xai-right")
        terminal.wait_for("•" * len("xai-right"))
        terminal.press("Enter")
        terminal.wait_for("Using xai/grok-4.5-latest", "loading…")
        assert "right" not in terminal.screen()
    assert "xai-right" in stored.read_text()


@pytest.mark.parametrize("is_bracketed", [True, False])
def test_without_a_keyring_a_pasted_key_answers_at_once_and_is_in_no_file(tmp_path: Path, is_bracketed: bool) -> None:
    with json_server(OPENAI) as openai:
        environment = {**NOTHING, "HOME": str(tmp_path), "OPENAI_API_BASE": f"{openai.url}/v1"}
        with Terminal(tmp_path, environment=environment) as terminal:
            terminal.run(*with_forked_worker())
            terminal.wait_for("Set up mcphost", "Paste a key")
            terminal.tmux("set-buffer", OPENAI_KEY)
            terminal.tmux("paste-buffer", *(["-p"] if is_bracketed else []))
            terminal.wait_for("•" * len(OPENAI_KEY), "kept until mcphost quits")
            terminal.press("Enter")
            if not is_bracketed:
                terminal.press("Enter")  # the first may come so soon that it counts as part of the paste
            terminal.wait_for("kept in memory until mcphost quits", "Using openai/")
            terminal.type("hello")
            terminal.press("Enter")
            terminal.wait_for("Good day.")
    asked = [headers for _, path, _, headers in openai.requests if path == "/v1/chat/completions"]
    assert asked[-1]["authorization"] == f"Bearer {OPENAI_KEY}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if OPENAI_KEY.encode() in path.read_bytes()] == []


def test_settings_of_a_model_are_saved_on_request_and_not_on_escape(tmp_path: Path) -> None:
    with Terminal(tmp_path, environment={**NOTHING, "HOME": str(tmp_path)}) as terminal:
        terminal.run(MCPHOST_PATH, "--model", "demo")
        terminal.wait_for("Type a message")
        terminal.press("C-b")
        terminal.wait_for("Search", "another")
        terminal.press("C-n")
        terminal.wait_for("Another model")
        terminal.type("openai/wrong")
        terminal.press("Escape")
        terminal.wait_until(lambda screen: "Another model" not in screen, "the list")
        terminal.press("C-n")
        terminal.wait_for("Another model")
        terminal.type("openai/mine")
        terminal.press("Enter")
        terminal.type("http://127.0.0.1:9/v1")
        terminal.press("C-s")
        terminal.wait_for("Using openai/mine", "saved as your default")
    saved = load_config(tmp_path / "config", environ={})
    assert saved.model == ModelConfig(name="openai/mine", api_base="http://127.0.0.1:9/v1")
    remembered = RememberedModels(tmp_path / "state").load()
    assert [model.config for model in remembered] == [saved.model]


def test_a_profile_is_saved_on_request_and_not_on_escape_and_used_at_once(tmp_path: Path) -> None:
    file = tmp_path / "config" / "config.toml"
    with Terminal(tmp_path, environment={**NOTHING, "HOME": str(tmp_path)}) as terminal:
        terminal.run(MCPHOST_PATH, "--model", "demo")
        terminal.wait_for("Type a message")
        terminal.type("/profile")
        terminal.press("Enter")
        terminal.wait_for("No profiles yet", "save as new")
        terminal.press("n")
        terminal.wait_for("Save as a profile", "model: demo")
        terminal.type("wrong")
        terminal.press("Escape")
        terminal.wait_until(lambda screen: "Save as a profile" not in screen, "the list")
        assert not file.exists()
        terminal.press("n")
        terminal.wait_for("Save as a profile", "model: demo")
        terminal.type("mine")
        terminal.press("C-s")
        terminal.wait_for("Using the profile mine")
    assert [profile.name for profile in load_config(file.parent, environ={}).profiles] == ["mine"]


def test_a_server_is_added_on_request_and_not_on_escape_and_works_at_once(tmp_path: Path) -> None:
    file = tmp_path / "config" / "mcp.json"
    with Terminal(tmp_path, environment={**NOTHING, "HOME": str(tmp_path)}) as terminal:
        terminal.run(MCPHOST_PATH, "--model", "demo")
        terminal.wait_for("Type a message")
        terminal.press("F3")
        terminal.wait_for("No servers are configured")
        terminal.press("n")
        terminal.wait_for("Add a server")
        terminal.type("wrong-command")
        terminal.press("Escape")
        terminal.wait_for("Press Esc again to discard them.")
        terminal.wait_between_keys()
        terminal.press("Escape")
        terminal.wait_until(lambda screen: "Add a server" not in screen, "the page")
        assert not file.exists()
        terminal.press("n")
        terminal.wait_for("Add a server")
        terminal.type(f"{sys.executable} -m mcphost.demo.server")
        terminal.press("C-s")
        terminal.wait_for_question("Use the server mcphost.demo.server?")
        terminal.press("A")
        terminal.wait_for("implementation", "capabilities")
    assert json.loads(file.read_text())["mcpServers"]


def test_a_server_of_the_registry_is_installed_on_request_and_not_on_escape_and_works_at_once(tmp_path: Path) -> None:
    file = tmp_path / "config" / "mcp.json"
    runner = tmp_path / "bin" / "uvx"
    runner.parent.mkdir()
    runner.write_text(f"#!/bin/sh\nexec {sys.executable} -m mcphost.demo.server\n")
    runner.chmod(0o755)
    file.parent.mkdir()
    clock = server("io.github.ada/clock", packages=[package("pypi", "clock-mcp")])
    path = f"{runner.parent}{os.pathsep}{os.environ['PATH']}"
    with registry_server([published(clock)]) as registry:
        (file.parent / "config.toml").write_text(f'[registry]\nurl = "{registry.url}"\n')
        with Terminal(tmp_path, environment={**NOTHING, "HOME": str(tmp_path), "PATH": path}) as terminal:
            terminal.run(MCPHOST_PATH, "--model", "demo")
            terminal.wait_for("Type a message")
            terminal.press("F3")
            terminal.wait_for("No servers are configured", "b registry")
            terminal.press("b")
            terminal.wait_for("GitHub account ada")
            terminal.press("Enter")
            terminal.wait_for("Install io.github.ada/clock", "clock-mcp@1.0.0")
            terminal.press("Escape")
            terminal.wait_until(lambda screen: "Install io.github" not in screen, "the list")
            assert not file.exists()
            terminal.press("Enter")
            terminal.wait_for("Install io.github.ada/clock", "file: ", "digest: unknown.")
            terminal.wait_between_keys()
            terminal.press("C-s")
            terminal.wait_for("implementation", "10 tools")
    assert list(json.loads(file.read_text())["mcpServers"]) == ["clock"]
