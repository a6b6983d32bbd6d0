"""Tests for input that begins with a slash: a mistyped command is not sent, and a message with a path is."""

from time import thread_time

import pytest

from mcphost.tui.actions import ACTIONS
from mcphost.tui.command_names import ALIASES, find_slash_command, parse_slash_command
from mcphost.tui.commands import explain_unknown_command

NAMES = ["/help", "/history", "/theme", "/files:summarize", "/quit"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/hitsory", "/history"),
        ("/hitsory of yesterday", "/history"),
        ("/Help me", "/help"),
        ("/file:summarise README", "/files:summarize"),
        ("/thmee\ndark", "/theme"),
    ],
)
def test_a_mistyped_command_is_not_sent_and_the_nearest_is_named(text: str, meant: str) -> None:
    said = explain_unknown_command(text, NAMES)
    assert f"Unknown command {text.split(maxsplit=1)[0]}. Did you mean {meant}?" in said
    assert "put a space before it" in said


@pytest.mark.parametrize("text", ["/modle gpt-5", "/modle", "/помощь", "/tmp"])
def test_an_unknown_command_is_neither_sent_nor_suggested(text: str) -> None:
    said = explain_unknown_command(text, NAMES)
    assert said.startswith(f"Unknown command {text.split(maxsplit=1)[0]}. To send it as a message")


def test_a_prompt_with_trailing_text_is_reported_to_take_no_arguments() -> None:
    assert explain_unknown_command("/files:summarize README", NAMES).startswith("/files:summarize takes no arguments")


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd is what?",
        "/etc is what?",
        "/tmp is full",
        "/Users is empty",
        "/home/me/x",
        "/regex/ matches what?",
        "/* a comment */",
        "// a comment",
        "/",
        "/ is the root",
        "/3 of them",
        "/help.txt is empty",
        "/help? or what",
        "/" + "a" * 100 + " b",
        " /modle gpt-5",
        "what is /hitsory",
        "",
    ],
)
def test_a_path_or_anything_else_that_is_no_command_is_a_message(text: str) -> None:
    assert explain_unknown_command(text, NAMES) == ""


def test_a_server_with_a_hundred_thousand_prompts_does_not_block() -> None:
    started_at = thread_time()
    assert explain_unknown_command(
        "/hitsory x", (f"/server:{number}\x1b[31m" + "y" * 5_000 for number in range(100_000))
    )
    assert thread_time() - started_at < 5


def test_a_hostile_name_is_shown_as_marks() -> None:
    said = explain_unknown_command("/files:summarise x", ["/files:summar\x1b[31mise"])
    assert "Did you mean" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("name", ["auto-approve", "unasked"])
def test_auto_approval_has_its_command_and_the_former_one(name: str) -> None:
    parsed = parse_slash_command(f"/{name}")
    assert parsed is not None
    assert parsed.action is not None
    assert parsed.action.name == "auto_approval"


def test_each_alias_names_an_action_or_what_to_use_and_is_no_command_itself() -> None:
    names = {action.name for action in ACTIONS}
    for word, alias in ALIASES.items():
        assert bool(alias.hint) != (alias.action in names), word
        assert find_slash_command(word) is None, word
