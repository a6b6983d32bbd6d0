"""Tests for docs/scripting.md: the example client works, and the tables list everything there is."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from mcphost.cli.main import BROKEN_PIPE_EXIT_CODE
from mcphost.cli.parser import command_parser
from mcphost.cli.run import add_arguments
from mcphost.errors import McpHostError
from mcphost.headless.pipe import PipeCommands
from mcphost.headless.question_answers import PipeFrontend
from mcphost.host.events import AnyEvent
from tests.flows.program import DEMO, Program

PAGE = (Path(__file__).parents[2] / "docs/scripting.md").read_text(encoding="utf-8")
CLIENT = next(re.finditer(r"```python\n(.*?)```", PAGE, re.DOTALL)).group(1)
OF_THE_PIPE = {"result", "error", "question", "question_withdrawn", "open_url"}
"""Events that only the pipe writes."""
OF_THE_CHAT = {"page_offered", "pages_changed", "page_contexts_changed", "page_drafted"}
"""Events that only the chat receives, because only there a page can be opened."""


def first_column(heading: str) -> str:
    """Return the first column of the table below a heading of docs/scripting.md."""
    section = PAGE.split(f"{heading}\n", 1)[1].split("\n#", 1)[0].split("|---|", 1)[1]
    return "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))


def code_words(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


SLOW_DEMO = {"command": "sh", "args": ["-c", f'sleep 3; exec "{sys.executable}" -m mcphost.demo.server']}
"""A server that takes longer to start than a turn waits for it."""


def run_client(
    program: Program, tmp_path: Path, text: str, server: dict[str, Any] = DEMO
) -> "subprocess.CompletedProcess[str]":
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    command = tmp_path / "bin" / "mcphost"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcphost "$@"\n')
    command.chmod(0o755)
    return subprocess.run(
        [sys.executable, script, "demo", text, "--model", "demo", "--mcp-config", program.servers(demo=server)],
        env={**program.env, "PATH": f"{command.parent}:{program.env['PATH']}"}, cwd=program.work,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_client_prints_an_answer_that_needed_an_allowed_tool(program: Program, tmp_path: Path) -> None:
    done = run_client(program, tmp_path, "what is 2 + 40?", SLOW_DEMO)
    assert done.returncode == 0, done.stderr
    assert "42" in done.stdout


def test_the_client_refuses_every_other_tool(program: Program, tmp_path: Path) -> None:
    done = run_client(program, tmp_path, "delete all notes")
    assert done.returncode == 5, done.stdout + done.stderr


def test_the_client_ends_with_the_error_of_a_server_that_does_not_start(program: Program, tmp_path: Path) -> None:
    done = run_client(program, tmp_path, "what is 2 + 40?", {"command": "false"})
    assert done.returncode == 4, done.stdout + done.stderr
    assert "exited with status 1" in done.stdout


def test_the_client_has_about_twenty_lines() -> None:
    assert len([line for line in CLIENT.splitlines() if line.strip()]) <= 24


def test_the_flags_of_run_are_those_of_the_program() -> None:
    parser = command_parser("run")
    add_arguments("run", parser)
    named = set(re.findall(r"--[a-z-]+", first_column("## One message: run")))
    assert named >= {"--model", "--allow", "--yes", "--pass-results", "--max-rounds", "--resume", "--output"}
    assert named <= set(parser._option_string_actions)


def test_the_tables_have_every_command_event_and_kind_of_question() -> None:
    commands = PipeCommands(None, PipeFrontend(), print).handlers  # pyright: ignore[reportArgumentType]
    assert code_words(first_column("### Commands")) == {*commands, "wait", "quit"}
    tags = {kind.__struct_config__.tag for kind in get_args(AnyEvent)}
    assert code_words(first_column("### Events")) == tags - OF_THE_CHAT | OF_THE_PIPE
    assert code_words(first_column("### Questions")) == PipeFrontend().kinds


def test_the_table_of_exit_codes_has_the_code_of_every_error() -> None:
    codes = {int(line) for line in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}

    def all_codes(kind: type[McpHostError]) -> set[int]:
        return {kind.exit_code}.union(*(all_codes(sub) for sub in kind.__subclasses__()))

    assert all_codes(McpHostError) | {0, 8, 130, BROKEN_PIPE_EXIT_CODE} == codes


@pytest.mark.parametrize("command", ["call", "tools", "read", "servers"])
def test_the_other_commands_that_it_names_exist(command: str) -> None:
    assert command_parser(command)
