"""Tests for command-line parsing: flags before and after the command, and one short error for invalid input."""

from argparse import Namespace
from importlib import import_module

import pytest

from mcphost.cli.parser import COMMANDS, build_options, command_parser, merge_flags, split_command
from mcphost.errors import UsageError


def parse_arguments(*argv: str) -> tuple[str, Namespace]:
    before, command, rest = split_command(list(argv))
    parser = command_parser(command)
    import_module(f"mcphost.cli.{COMMANDS[command][0]}").add_arguments(command, parser)
    return command, merge_flags(before, parser.parse_words(rest))


def test_no_command_is_chat_and_its_flags_need_none() -> None:
    command, given = parse_arguments("--model", "openai/x", "--resume")
    assert (command, given.model, given.resume) == ("chat", "openai/x", "")
    assert parse_arguments("--resume", "abc")[1].resume == "abc"
    assert not hasattr(parse_arguments()[1], "resume")


@pytest.mark.parametrize("argv", [["-c"], ["--continue"], ["chat", "-c"], ["run", "-c", "x"], ["serve", "--continue"]])
def test_continue_is_resume_without_an_id(argv: list[str]) -> None:
    assert build_options(parse_arguments(*argv)[1]).resume == ""


def test_flags_work_before_and_after_the_command() -> None:
    _, given = parse_arguments(
        "--mcp-config", "a", "--era", "handshake", "tools", "--mcp-config", "b", "--era", "stateless"
    )
    assert given.mcp_config == ["a", "b"]
    assert given.era == "stateless"


@pytest.mark.parametrize("argv", [["--screen-reader"], ["chat", "--screen-reader"], ["--screen-reader", "demo"]])
def test_the_chat_can_be_drawn_for_a_screen_reader(argv: list[str]) -> None:
    assert build_options(parse_arguments(*argv)[1]).screen_reader
    assert not build_options(parse_arguments()[1]).screen_reader


@pytest.mark.parametrize("argv", [["--lang", "zh-CN"], ["chat", "--lang=zh-CN"], ["--lang", "zh-CN", "demo"]])
def test_the_language_of_the_chat_can_be_named(argv: list[str]) -> None:
    assert build_options(parse_arguments(*argv)[1]).lang == "zh-CN"
    assert build_options(parse_arguments()[1]).lang == ""


def test_pairs_and_flags_mix() -> None:
    _, given = parse_arguments("call", "s", "--json", "t", "a=1", "--quiet", "b=2", "--args", "{}")
    assert (given.server, given.name, given.pairs, given.args) == ("s", "t", ["a=1", "b=2"], "{}")
    assert given.json
    assert given.quiet


def test_value_after_two_dashes_is_no_flag() -> None:
    assert parse_arguments("call", "s", "t", "--", "--a=1")[1].pairs == ["--a=1"]


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["run", "--", "-1 + 2?"], "prompt", "-1 + 2?"),
        (["run", "--output", "json", "--", "--help"], "prompt", "--help"),
        (["tools", "--json", "--", "-x"], "server", "-x"),
        (["servers", "check", "a", "--json", "--", "-x", "b"], "names", ["a", "-x", "b"]),
        (["sessions", "rename", "1", "--", "-x", "--json"], "rest", ["-x", "--json"]),
    ],
)
def test_every_word_after_two_dashes_is_a_value_also_one_that_begins_with_a_dash(
    argv: list[str], name: str, value: object
) -> None:
    found = getattr(parse_arguments(*argv)[1], name)
    assert found == value
    assert {type(found), *map(type, found)} <= {str, list}


def test_an_error_about_a_value_after_two_dashes_quotes_it_as_typed() -> None:
    with pytest.raises(UsageError, match="invalid choice: '-x'"):
        parse_arguments("servers", "--", "-x")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["toolz"], "Did you mean: mcphost tools"),
        (["call", "s"], "TOOL. See: mcphost call --help"),
        (["--frob"], "--frob"),
        (["tools", "--era", "old"], "invalid choice"),
        (["servers", "chek"], "Did you mean 'check'\\? See: mcphost servers --help"),
        (["servers", "uninstall", "x"], "Did you mean 'remove'\\? See: mcphost servers --help"),
        (["servers", "zzz"], "'update'\\)\\. See: mcphost servers --help"),
        (["run", "x", "--max-rounds", "0"], "1000"),
        (["run", "x", "--max-rounds", "x"], "Argument --max-rounds: 'x' is not a whole number"),
        (["run", "x", "--max-cost", "x"], "Argument --max-cost: 'x' is not a number"),
        (["costs", "--days", "1.5"], "Argument --days: '1.5' is not a whole number"),
        (["tools", "--timeout", "0"], "86400"),
        (["--timeout", "x", "tools"], "--timeout"),
        (["\x1b[31m"], "␛|x1b"),
    ],
)
def test_an_unknown_command_line_is_one_short_error(argv: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text) as exc_info:
        parse_arguments(*argv)
    assert "\n" not in str(exc_info.value)
    assert "\x1b" not in str(exc_info.value)
    assert exc_info.value.exit_code == 2


@pytest.mark.parametrize(
    ("argv", "name"),
    [(["grants", "x"], "ACTION"), (["servers", "x"], "ACTION"), (["schema", "x"], "FILE"), (["schema"], "FILE")],
)
def test_usage_errors_write_the_names_of_arguments_in_capitals(argv: list[str], name: str) -> None:
    with pytest.raises(UsageError, match=f"^(Argument {name}: invalid choice: 'x' |The following .*: {name}\\.)"):
        parse_arguments(*argv)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["-p", "hi"], "mcphost run PROMPT"),
        (["--print", "hi"], "mcphost run PROMPT"),
        (["-r"], "mcphost --resume"),
        (["-V"], "mcphost --version"),
        (["mcp", "add", "x"], "mcphost servers"),
        (["list"], "mcphost servers"),
        (["add", "x", "--", "y"], "mcphost servers add"),
        (["resume"], "mcphost --resume"),
        (["help"], "mcphost --help"),
        (["version"], "mcphost --version"),
        (["history"], "mcphost sessions"),
        (["fix the bug"], "mcphost run PROMPT"),
    ],
)
def test_the_words_of_other_hosts_are_answered_with_the_command(argv: list[str], hint: str) -> None:
    with pytest.raises(UsageError) as exc_info:
        parse_arguments(*argv)
    assert exc_info.value.hint == f"Did you mean: {hint}"


def test_every_command_has_its_module() -> None:
    for command, (module, _) in COMMANDS.items():
        assert callable(import_module(f"mcphost.cli.{module}").run), command
