"""Tests that commands about a hostile server print its text with visible marks and without control bytes."""

import json
from pathlib import Path

import pytest

from tests.terminal.hostile_text import (
    find_effects,
    hostile_text,
    run_on_terminal,
    sign_in_server,
    write_config,
    write_hostile_files,
)

pytestmark = [pytest.mark.req("sec.terminal-escape"), pytest.mark.timeout(240)]


COMMANDS = {
    "tools": (("tools", "evil"), ("tool-name", "tool-words")),
    "tools --json": (("tools", "evil", "--json"), ("tool-name", "tool-title", "tool-words", "argument")),
    "resources": (("resources", "evil"), ("uri",)),
    "templates": (("templates", "evil"), ("template-words",)),
    "prompts": (("prompts", "evil"), ("prompt-words",)),
    "call": (("call", "evil", "fine"), ("result",)),
    "call --json": (("call", "evil", "odd", "--json"), ("result", "unknown", "key", "value")),
    "call of every kind": (("call", "evil", "odd"), ("result", "kind", "unknown", "link", "embedded")),
    "call that fails": (("call", "evil", "fails"), ("error",)),
    "read": (("read", "evil", "x://a"), ("resource-text",)),
    "read --json": (("read", "evil", "x://a", "--json"), ("resource-text",)),
    "prompt": (("prompt", "evil", "greet", "who=me"), ("prompt-text",)),
    "complete": (("complete", "evil", "prompt", "greet", "who", ""), ("completion",)),
    "servers check": (("servers", "check", "evil"), ("server-name",)),
    "skills": (("skills", "evil"), ("skill-words",)),
    "skill": (("skill", "evil", "pdf"), ("skill-text",)),
    "an unknown tool": (("call", "evil", "nothing"), ("tool-name",)),
}


@pytest.mark.parametrize("which", COMMANDS)
def test_no_command_lets_a_text_of_a_server_act(tmp_path: Path, which: str) -> None:
    words, sources = COMMANDS[which]
    written = run_on_terminal(tmp_path, *words, "--mcp-config", str(write_config(tmp_path)))
    for source in sources:
        assert f"({source})" in written.decode("utf-8", "replace"), written[-2000:]
    assert find_effects(written) == []


def test_a_deceptive_configuration_is_shown_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    name = hostile_text("name").replace("\0", "")
    servers = {
        name: {"command": hostile_text("command"), "args": [hostile_text("arg")], "env": {"A": hostile_text("env")}},
        "web": {"url": "http://127.0.0.1:9/x", "headers": {"X": hostile_text("header")}},
        "odd": hostile_text("entry"),
    }
    (tmp_path / "config" / "mcp.json").write_text(json.dumps({"mcpServers": servers, hostile_text("key"): 1}))
    (tmp_path / "config" / "config.toml").write_text(f"theme = {json.dumps(hostile_text('theme')[:40])}\n")
    for words in (("servers",), ("servers", "--json"), ("servers", "trust", name), ("doctor",), ("grants",)):
        assert find_effects(run_on_terminal(tmp_path, *words)) == []


def test_hostile_stored_data_and_a_refused_sign_in_are_harmless_too(tmp_path: Path) -> None:
    config = str(write_config(tmp_path))
    assert b"drifts" in run_on_terminal(tmp_path, "tools", "evil", "--mcp-config", config)
    write_config(tmp_path, changed=True)
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcphost": {"roots": [hostile_text("root").replace("\0", "")]}}))
    with sign_in_server() as base:
        write_hostile_files(tmp_path, base)
        for words, typed, sources in (
            (("servers", "changes", "evil", "--mcp-config", config), b"", ("before", "after")),
            (("servers", "trust", "evil"), b"n\n", ("approved",)),
            (("servers", "trust", ".mcp.json"), b"n\n", ("root",)),
            (("login", "web"), b"", ("oauth-words",)),
            (("tools", "web"), b"", ()),
            (("grants",), b"", ("grant-tool", "grant-place", "grant-account")),
            (("grants", "--json"), b"", ("grant-tool",)),
            (("audit",), b"", ()),
            (("audit", "--json"), b"", ()),
        ):
            written = run_on_terminal(tmp_path, *words, typed=typed)
            for source in sources:
                assert f"({source})" in written.decode("utf-8", "replace"), (words, written[-3000:])
            assert find_effects(written) == [], words
