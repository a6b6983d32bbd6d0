"""Tests that what READMEs show for any MCP host can be pasted to add a server."""

import json
from typing import Any

import pytest

from mcphost.config.pasted_servers import check_pasted_server, parse_pasted_servers
from mcphost.config.typed_servers import find_pasted_scope, parse_server_text
from mcphost.errors import ConfigError, UsageError

NPX = {"command": "npx", "args": ["-y", "pkg"]}
REMOTE = {"url": "https://x.example/mcp", "headers": {"X-Key": "V"}}
LOCAL = {"type": "local", "command": ["npx", "-y", "pkg"], "enabled": True}
OLD_ZED = {"command": {"path": "npx", "args": ["-y", "pkg"], "env": {"A": "b"}}, "settings": {}}
README: dict[str, tuple[Any, dict[str, Any]]] = {
    "Claude Desktop": ({"mcpServers": {"a": NPX}}, NPX),
    "a schema beside the servers": ({"$schema": "x", "mcpServers": {"a": NPX}}, NPX),
    "a schema beside an entry": ({"$schema": "x", "a": NPX}, NPX),
    "VS Code": ({"servers": {"a": {"type": "stdio", **NPX}}}, {"type": "stdio", **NPX}),
    "VS Code, settings": ({"mcp": {"servers": {"a": NPX}}}, NPX),
    "VS Code, code --add-mcp": ({"name": "a", **NPX}, NPX),
    "Copilot": ({"mcpServers": {"a": {"type": "local", "tools": ["*"], **NPX}}}, {"tools": ["*"], **NPX}),
    "Windsurf": ({"mcpServers": {"a": {"serverUrl": REMOTE["url"], "headers": REMOTE["headers"]}}}, REMOTE),
    "Gemini CLI": ({"mcpServers": {"a": {"httpUrl": REMOTE["url"], "headers": {"X-Key": "V"}}}}, REMOTE),
    "Gemini CLI, a variable": (
        {"mcpServers": {"a": {"httpUrl": REMOTE["url"], "headers": {"X-Key": "$KEY"}}}},
        {**REMOTE, "headers": {"X-Key": "${env:KEY}"}},
    ),
    "Zed": ({"context_servers": {"a": {"source": "custom", **NPX}}}, {"source": "custom", **NPX}),
    "Zed, older": ({"context_servers": {"a": OLD_ZED}}, {**NPX, "env": {"A": "b"}}),
    "opencode": ({"$schema": "https://opencode.ai/config.json", "mcp": {"a": LOCAL}}, NPX),
    "opencode, remote": (
        {"mcp": {"a": {"type": "remote", "url": REMOTE["url"], "headers": {"X-Key": "{env:KEY}"}}}},
        {**REMOTE, "headers": {"X-Key": "${env:KEY}"}},
    ),
    "opencode, version 2": ({"mcp": {"timeout": {"startup": 1}, "servers": {"a": LOCAL}}}, NPX),
    "opencode, disabled": ({"mcp": {"a": {**LOCAL, "enabled": False}}}, {**NPX, "disabled": True}),
    "goose": ({"extensions": {"a": {"type": "stdio", "cmd": "npx", "args": ["-y", "pkg"]}}}, NPX),
    "goose, remote": ({"extensions": {"a": {"type": "streamable_http", "uri": REMOTE["url"]}}}, {"url": REMOTE["url"]}),
    "Amp": ({"amp.mcpServers": {"a": NPX}}, NPX),
    "a list": ({"mcpServers": [{"name": "a", **NPX}]}, NPX),
}


@pytest.mark.parametrize("host", README)
def test_what_a_readme_shows_for_a_host_becomes_an_entry_that_is_valid(host: str) -> None:
    pasted, wanted = README[host]
    entries = parse_pasted_servers(json.dumps(pasted))
    assert entries == {"a": wanted}
    check_pasted_server("a", entries["a"])
    assert parse_server_text(f"```json\n{json.dumps(pasted, indent=2)}\n```") == {"a": wanted}


SECTION = """# Install

Run `npx` once:

```bash
npm install -g pkg
```

  ```json
  {"mcpServers": {"a": %s}}
  ```

Then restart.
"""


def test_the_code_block_with_the_server_is_found_in_the_text_of_a_readme() -> None:
    section = SECTION % json.dumps(NPX)
    assert parse_pasted_servers(section) == {"a": NPX}
    assert parse_server_text(section) == {"a": NPX}
    assert parse_server_text("Run:\n```sh\n$ claude mcp add a -- npx -y pkg\n```\n") == {"a": NPX}
    for parse in (parse_pasted_servers, parse_server_text):
        with pytest.raises(ConfigError, match="2 code blocks"):
            parse(f"{section}\n{section}")


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("npx -y 'Write:\n```\nrm -rf x\n```\nNo more.'", "Write:\n```\nrm -rf x\n```\nNo more."),
        ('npx -y "Write:\n```json\n[1]\n```"', "Write:\n```json\n[1]\n```"),
        ('npx \\\n  -y "It\'s\n~~~\nuvx other\n~~~"', "It's\n~~~\nuvx other\n~~~"),
        ("npx -y --prompt='```sh\nuvx other\n```'", "--prompt=```sh\nuvx other\n```"),
        ("npx -y --prompt='\n```sh\nuvx other\n```'", "--prompt=\n```sh\nuvx other\n```"),
    ],
)
def test_fences_in_a_quoted_argument_belong_to_the_command_line(line: str, argument: str) -> None:
    (entry,) = parse_server_text(line).values()
    assert entry == {"command": "npx", "args": ["-y", argument]}


@pytest.mark.parametrize("prose", ["Don't wait:\n{}\nIt's fast.", '"Quoted" words:\n{}', "The '90s\nhad:\n{}\nDon't."])
def test_quotes_in_the_text_of_a_readme_hide_no_code_block(prose: str) -> None:
    assert parse_server_text(prose.format("```sh\nclaude mcp add a -- npx -y pkg\n```")) == {"a": NPX}


@pytest.mark.parametrize(
    "text",
    [
        *("[1]", "[]", '["npx"]', "[{}]", "```json\n[1]\n```", "```json\n1\n```", "~~~jsonc\ntrue\n~~~"),
        *("[true]", "[null, 1]", "````md\n```json\n[1]\n```\n````"),
    ],
)
def test_json_that_is_no_server_never_becomes_a_command(text: str) -> None:
    for parse in (parse_pasted_servers, parse_server_text):
        with pytest.raises(ConfigError, match=r"not an object|not valid JSON"):
            parse(text)


@pytest.mark.parametrize(
    "other", ["```toml\n[tool.uv]\n```", "```json\n[1]\n```", "```\n[1]\n```", "```json\nnull\n```"]
)
def test_data_that_is_no_object_does_not_compete_with_the_block_of_the_server(other: str) -> None:
    config = '```json\n{"mcpServers": {"a": {"command": "npx", "args": ["-y", "pkg"]}}}\n```'
    for text in (f"{config}\nIt prints:\n{other}", f"{other}\n{config}"):
        assert parse_server_text(text) == parse_pasted_servers(text) == {"a": NPX}


@pytest.mark.parametrize("line", ["claude mcp add a -- npx -y pkg", "$ claude mcp add a -- npx -y pkg"])
def test_a_command_line_or_url_that_is_labeled_as_data_is_found(line: str) -> None:
    assert parse_server_text(f"```json\n{line}\n```") == {"a": NPX}
    assert parse_server_text("```json\nhttps://a.example/mcp\n```") == {"a": {"url": "https://a.example/mcp"}}


@pytest.mark.parametrize("address", ["[::1]:8000/mcp", "[2001:db8::1]:8000/mcp"])
def test_an_ipv6_address_is_no_json(address: str) -> None:
    with pytest.raises(UsageError, match="Did you mean"):
        parse_server_text(address)


@pytest.mark.parametrize("text", ["`{}`", "```{}```", "````md\n```sh\n{}\n```\n````", "~~~\n{}\n~~~"])
def test_a_command_line_in_any_code_marks_is_found(text: str) -> None:
    assert parse_server_text(text.format("claude mcp add a -- npx -y pkg")) == {"a": NPX}


@pytest.mark.parametrize(
    "block",
    [
        f"jsonc\n// .vscode/mcp.json\n{json.dumps({'servers': {'a': NPX}})}",
        "sh\n# for Claude Code\n\nclaude mcp add a -- npx -y pkg",
        'toml\n# config.toml\n[mcp_servers.a]\ncommand = "npx"\nargs = ["-y", "pkg"]',
    ],
)
def test_a_comment_at_the_beginning_of_a_code_block_is_left_out(block: str) -> None:
    assert parse_server_text(f"```{block}\n```") == {"a": NPX}


@pytest.mark.parametrize("mark", ["\ufeff%s", "%s"])
def test_what_web_pages_and_editors_add_to_a_copied_text_is_no_mistake(mark: str) -> None:
    text = mark % json.dumps({"mcpServers": {"a": NPX}}, indent=2).replace("  ", "\u00a0 ")
    assert parse_pasted_servers(text) == {"a": NPX}
    assert parse_server_text(text) == {"a": NPX}


@pytest.mark.parametrize("fence", ["{}", "```toml\n{}\n```"])
def test_a_table_of_codex_becomes_an_entry(fence: str) -> None:
    table = '[mcp_servers.a]\ncommand = "npx"\nargs = ["-y", "pkg"]\n[mcp_servers.a.env]\nA = "b"'
    assert parse_server_text(fence.format(table)) == {"a": {**NPX, "env": {"A": "b"}}}
    with pytest.raises(ConfigError, match="not valid TOML"):
        parse_server_text(fence.format(f"{table}\nA = "))


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("codex mcp add a npx -y pkg", NPX),
        ("codex mcp add a -- npx -y pkg", NPX),
        ("gemini mcp add a npx -y pkg", NPX),
        ("amp mcp add a -- npx -y pkg", NPX),
        ("$ claude mcp add a -- npx -y pkg", NPX),
        (f"claude mcp add-json a '{json.dumps(NPX)}'", NPX),
        (f"claude mcp add-json \"a\" '{json.dumps(REMOTE)}'", REMOTE),
        (f"code --add-mcp '{json.dumps({'name': 'a', **NPX})}'", NPX),
    ],
)
def test_a_command_that_adds_a_server_to_another_host_adds_it_here_and_is_never_run(
    line: str, entry: dict[str, Any]
) -> None:
    assert parse_server_text(line) == {"a": entry}
    assert parse_server_text(line, "b") == {"b": entry}


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("claude mcp add --transport http a https://x.example/mcp", {"url": REMOTE["url"]}),
        ("claude mcp add -s user -t http a https://x.example/mcp --header 'X-Key: V'", REMOTE),
        ("claude mcp add --transport=http a https://x.example/mcp \\\n  -H 'X-Key: V'", REMOTE),
        ("claude mcp add --transport sse a https://x.example/sse", {"type": "sse", "url": "https://x.example/sse"}),
        ("claude mcp add -e K=V a -- npx -y pkg", {**NPX, "env": {"K": "V"}}),
        ("claude mcp add --env K=V L= a -- npx -y pkg", {**NPX, "env": {"K": "V", "L": ""}}),
        ("claude mcp add a --scope project --env K=V -e L=a=b -- npx -y pkg", {**NPX, "env": {"K": "V", "L": "a=b"}}),
        ("claude mcp add --transport stdio a npx -y pkg", NPX),
        ("claude mcp add a -- npx -e K=V", {"command": "npx", "args": ["-e", "K=V"]}),
    ],
)
def test_the_options_of_claude_mcp_add_become_part_of_the_entry(line: str, entry: dict[str, Any]) -> None:
    assert parse_server_text(line) == {"a": entry}
    check_pasted_server("a", entry)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("claude mcp add --transport http a -- npx x", "--transport http does not suit"),
        ("claude mcp add --transport stdio a https://x.example", "--transport stdio does not suit"),
        ("claude mcp add --transport ws a https://x.example", "--transport is not one of stdio, http, sse"),
        ("claude mcp add -e s3cret a -- npx x", "The value of --env has no name or no value"),
        ("claude mcp add a https://x.example -H s3cret", "The value of --header has no name or no value"),
        ("claude mcp add a https://x.example -e K=V", "Environment variables can only be set"),
        ("claude mcp add -H 'X: y' a -- npx x", "Headers can only be set"),
    ],
)
def test_wrong_options_of_claude_mcp_add_are_named_without_their_values(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as exc_info:
        parse_server_text(line)
    assert "s3cret" not in f"{exc_info.value.message} {exc_info.value.hint}"


@pytest.mark.parametrize(
    "line",
    [
        "codex mcp add a --env K=V -- npx x",
        "claude mcp add-json a",
        "claude mcp add-json -s user a '{}'",
        "code --add-mcp",
    ],
)
def test_a_command_of_another_host_that_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="are not read here"):
        parse_server_text(line)


@pytest.mark.parametrize("name", ["mcp", "servers", "extensions", "name"])
def test_a_server_may_be_called_like_the_member_of_a_host(name: str) -> None:
    assert parse_pasted_servers(json.dumps({name: NPX})) == {name: NPX}
    assert parse_pasted_servers(json.dumps({"mcp": {name: LOCAL}})) == {name: NPX}


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ({"mcp": {"a": {"type": "local", "command": []}}}, "'a': It has neither a command nor a URL."),
        ({"extensions": {"a": {"type": "builtin", "cmd": ""}}}, "'a': It is built into goose"),
        ({"mcpServers": [7]}, "no server"),
        ({"mcpServers": [{"command": "x"}]}, "no name"),
        ({"mcpServers": {"a": {"serverUrl": 7}}}, "'a': Its \"serverUrl\" is not text."),
    ],
)
def test_what_cannot_be_used_is_named_with_the_reason(pasted: Any, said: str) -> None:
    with pytest.raises(ConfigError) as exc_info:
        parse_pasted_servers(json.dumps(pasted))
    assert said in str(exc_info.value)


def test_references_of_an_entry_that_only_looks_like_one_of_opencode_are_kept() -> None:
    entry = {
        "type": "remote",
        "url": "https://x.example/mcp",
        "headers": {"A": "Bearer ${env:T}"},
        "reviewResults": True,
    }
    for document in ({"mcpServers": {"a": entry}}, {"a": entry}):
        parsed = parse_pasted_servers(json.dumps(document))["a"]
        assert (parsed["headers"], parsed["reviewResults"]) == ({"A": "Bearer ${env:T}"}, True)


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers.a]\ncommand = "npx"\nenabled_tools = ["read"]\n',
        json.dumps({"mcpServers": {"a": {"httpUrl": "https://x.example", "includeTools": ["read"]}}}),
    ],
)
def test_an_entry_that_allows_only_some_tools_is_refused_because_all_would_be_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match=r"allows only some tools \(read\)"):
        parse_pasted_servers(text)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("claude mcp add a --scope project -- npx -y pkg", "project"),
        ("$ claude mcp add -s local -t http a https://x.example/mcp", "local"),
        ("claude mcp add a -- npx --scope project", ""),
        ("claude mcp add a -s everyone -- npx", ""),
        ("npx --scope user", ""),
        ("claude mcp add 'a", ""),
        ("", ""),
    ],
)
def test_the_scope_of_a_pasted_command_is_found(text: str, scope: str) -> None:
    assert find_pasted_scope(text) == scope


@pytest.mark.parametrize("line", [f"run {'a' * 500_000}", f"claude mcp add {'b ' * 200_000}"])
def test_a_command_line_of_many_characters_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="is over 32,000 characters"):
        parse_server_text(line)
    assert find_pasted_scope(line) == ""
