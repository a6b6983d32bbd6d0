"""Tests that hostile configuration files of other MCP hosts are refused, at a bounded cost in time and memory."""

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.host_formats import HOSTS, find_places
from mcphost.config.other_hosts import MAX_JSON_BYTES, MEMBERS, read_document, read_named_file
from mcphost.errors import ConfigError

SERVER = {"mcpServers": {"a": {"command": "x"}}}


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def cost_of_plain_values(size: int) -> float:
    """Return the CPU seconds that `json.loads` needs for *size* bytes (at least 1 MB) of short values."""
    text = json.dumps([1] * (max(size, 1_000_000) // 3))
    started_at = time.thread_time()
    json.loads(text)
    return time.thread_time() - started_at


HOSTILE = {
    "yaml of short values": ("config.yaml", "extensions: [" + "1," * 100_000 + "]"),
    "yaml of 1 MB": ("config.yaml", "a: [" + "1," * 500_000 + "]"),
    "yaml of fields": ("config.yaml", "".join(f"a{n}: b\n" for n in range(20_000))),
    "yaml of nested blocks": ("config.yaml", "\n".join("  " * n + "a:" for n in range(400))),
    "yaml of a number in base 60": ("config.yaml", "a: " + "1:" * 100_000 + "1"),
    "yaml of directives": ("config.yaml", "".join(f"%TAG !{n}! a\n" for n in range(15_000)) + "---\na: b"),
    "toml of one key without a value": ("config.toml", "a." * 120_000 + "a"),
    "toml of one long key": ("config.toml", "a." * 120_000 + "a = 1"),
    "toml of one long quoted key": ("config.toml", '"=".' * 2_900 + "a = 1"),
    "toml of one long key of literals": ("config.toml", "'='." * 2_900 + "a = 1"),
    "toml of very many keys": ("config.toml", "".join(f"k{n} = 1\n" for n in range(25_000))),
    "json of empty lists": ("mcp.json", '{"mcpServers": [' + "[]," * 1_600_000 + "[]]}"),
    "json of members": ("mcp.json", '{"mcpServers": {' + '"a":{},' * 700_000 + '"a":{}}}'),
    "json of nesting": ("mcp.json", '{"mcpServers": ' + "[" * 1_000_000),
    "json of nesting of another member": ("mcp.json", '{"history": ' + "[" * 1_000_000),
    "json of comments": ("mcp.json", "/*" * 400_000 + "{}"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused_by_its_name_at_little_cost(what: str, tmp_path: Path) -> None:
    name, content = HOSTILE[what]
    file = write(tmp_path, name, content)
    places = find_places(tmp_path, tmp_path, {}, "linux")
    reference = cost_of_plain_values(len(content))
    started_at = time.thread_time()
    with pytest.raises(ConfigError) as exc_info:
        read_named_file(file, places)
    assert time.thread_time() - started_at < 5 * reference
    assert str(file) in exc_info.value.message
    assert exc_info.value.hint


@pytest.mark.parametrize("value", ["!!bool maybe", '!!int ""', '!!float ""', "!!timestamp x"])
def test_a_value_that_is_not_of_its_yaml_type_makes_the_file_invalid(value: str, tmp_path: Path) -> None:
    file = write(tmp_path, "config.yaml", f"extensions: {{}}\na: {value}\n")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_named_file(file, find_places(tmp_path, tmp_path, {}, "linux"))


@pytest.mark.parametrize("word", ["a", "\\\\ ", "'"])
def test_a_command_line_of_many_characters_is_not_split(word: str, tmp_path: Path) -> None:
    command = f"run {word * 200_000}"
    file = write(tmp_path, "mcp.json", json.dumps({"mcpServers": {"a": {"command": command}}}))
    (server,) = read_named_file(file, find_places(tmp_path, tmp_path, {}, "linux"))
    assert server.entry == {"command": command.strip()}


def test_the_members_of_every_host_are_read() -> None:
    assert {keys[0] for host in HOSTS for keys in host.keys} <= set(MEMBERS)


@pytest.mark.parametrize(
    "content",
    [
        b'{"history": [' + b"[]," * 1_600_000 + b"[]], %s}",
        b'{"projects": {"/x": {"mcpServers": {' + b'"a":[],' * 690_000 + b'"a":[]}}}, %s}',
        b"{" + b'"a":1,' * 800_000 + b"%s}",
    ],
    ids=["history", "projects", "members"],
)
def test_what_belongs_to_no_server_takes_no_memory(content: bytes, tmp_path: Path) -> None:
    content = content.replace(b"%s", json.dumps(SERVER).encode()[1:-1])
    assert 4_000_000 < len(content) < MAX_JSON_BYTES
    file = write(tmp_path, ".claude.json", content)
    tracemalloc.start()
    try:
        document = read_document(file, "/other")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert document["mcpServers"] == SERVER["mcpServers"]
    assert peak < 12 * len(content)


def test_the_history_of_claude_code_may_be_long_and_contain_halves_of_characters(tmp_path: Path) -> None:
    history = json.dumps([{"display": "question " * 10, "pasted": {}}, "\ud83d"] * 9_000)
    folder = '/home/a "quoted" folder'
    server = {"mcpServers": {"b": {"command": "y"}}}
    project: dict[str, Any] = {folder: {"history": [], **server}, "/other": {"mcpServers": {"c": {}}}}
    content = f'{{"history": {history}, "projects": {json.dumps(project)}, {json.dumps(SERVER)[1:]}'
    document = read_document(write(tmp_path, ".claude.json", content), folder)
    assert document == {**SERVER, "projects": {folder: server}}


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("mcp.json", '{"mcpServers": {},\n "ä": nul}', "line 2, column 8: not valid JSON (invalid character"),
        ("mcp.json", '{"mcpServers": {},\n // comment\n "a" 1}', "line 3, column 6: not valid JSON"),
        ("mcp.json", b'{"a": "\xff"}', "line 1: not UTF-8"),
        ("config.toml", "a = 1\nb = = 2", "not valid TOML: Invalid value (at line 2"),
        ("config.yaml", "a: [", "not valid YAML"),
    ],
)
def test_the_place_of_an_error_is_named(name: str, content: Any, place: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as exc_info:
        read_document(write(tmp_path, name, content), "/")
    assert place in exc_info.value.message


def test_a_long_file_with_an_error_says_that_it_may_have_no_comments(tmp_path: Path) -> None:
    file = write(tmp_path, "mcp.json", "{" + '"a": 1,' * 200_000 + "// comment\n" + '"b": 2}')
    with pytest.raises(ConfigError, match="line 1, column") as exc_info:
        read_document(file, "/")
    assert "over 1000 kB it may have no comments" in exc_info.value.hint


def test_dots_in_texts_and_lists_of_numbers_are_no_long_keys(tmp_path: Path) -> None:
    prose = "One. " * 200
    content = f'[mcp_servers.a]\ncommand = "x"\na = """{prose}\n{prose}= 1"""\nb = [{"1.5, " * 100}]  # {prose}\n'
    assert read_document(write(tmp_path, "config.toml", content), "/")["mcp_servers"]["a"]["command"] == "x"
