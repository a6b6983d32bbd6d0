"""Tests that probable mistakes in a typed server are described, and that correct ones are not."""

import pytest

from mcphost.config.typed_servers import find_entry_mistakes, find_new_server_mistakes


@pytest.mark.parametrize("sign", ["|", ">", ">>", "<", "&&", "||", ";", "&", "2>&1"])
def test_shell_syntax_in_a_command_line_is_described_without_its_secrets(sign: str) -> None:
    (text,) = find_new_server_mistakes(f"npx -y server --token ghp_abc {sign} tee log")
    assert text == f"The command runs without a shell, so the program gets {sign} as part of its arguments."


@pytest.mark.parametrize(("text", "sign"), [("npx server --token $(pass show ghp)", "$("), ("x `id`", "`")])
def test_a_substitution_is_described_by_its_sign_alone(text: str, sign: str) -> None:
    (mistake,) = find_new_server_mistakes(text)
    assert f"gets {sign} as" in mistake
    assert "pass" not in mistake


@pytest.mark.parametrize(
    "text",
    [
        "npx -y server 'a|b' --query 'x > y'",
        "sh -c 'npx server | tee log'",
        "/bin/bash -c 'server --token $(pass show x)'",
        "https://mcp.example/mcp?a=$(x)",
        '{"command": "server", "args": ["|", "$(x)"]}',
        "npx 'unclosed |",
        "",
    ],
)
def test_correct_or_unreadable_text_has_no_mistakes(text: str) -> None:
    assert find_new_server_mistakes(text) == ()


def test_misspelt_keys_of_an_entry_are_described_in_both_forms() -> None:
    entry = '{"command": "x", "argz": [], "mcphost": {"wach": true}}'
    expected = ('"argz" is unknown: did you mean "args"?', '"mcphost.wach" is unknown: did you mean "mcphost.watch"?')
    assert find_entry_mistakes(entry, "notes") == expected
    assert find_new_server_mistakes(f'{{"mcpServers": {{"notes": {entry}}}}}') == expected
    assert find_entry_mistakes('{"command": "x", "watch": ["*.py"]}', "notes") == (
        '"watch" is unknown: did you mean "mcphost.watch"?',
    )
    assert find_entry_mistakes("[", "notes") == ()
    assert find_entry_mistakes('{"command": "x", "mcphost": 5}', "notes") == ()
