"""Tests for completion in real shells: which words Tab offers, including names from the user's own files."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcphost.config.remembered_models import RememberedModels
from mcphost.config.schema import ModelConfig
from tests.flows.program import DEMO, Program

Ask = Callable[[str], set[str]]
"""Returns what a shell offers for a command line that ends at the cursor."""

BASH = """\
source {script}
COMP_LINE={line}
COMP_POINT=${{#COMP_LINE}}
_mcphost
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """\
autoload -Uz compinit; compinit -D
source {script}
compadd() {{ shift; print -rl -- "$@" }}
_files() {{ print -r -- FILES }}
words=({words}); CURRENT=${{#words}}
_mcphost
"""
FISH = """\
source {script}
complete -C {line}
"""
TEMPLATES = {"bash": BASH, "zsh": ZSH, "fish": FISH}
OPTIONS = {"bash": ("--norc",), "zsh": ("-f",), "fish": ("--no-config",)}


@pytest.fixture(params=TEMPLATES)
def ask(request: pytest.FixtureRequest, program: Program) -> Ask:
    """Return a function that completes a command line in a real shell with mcphost's completion script."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; .ci/run installs it")
    folder = program.home / "bin"
    folder.mkdir()
    launcher = folder / "mcphost"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(program.command())} "$@"\n')
    launcher.chmod(0o700)
    script = program.home / "completion"
    script.write_text(program.text("completion", shell))
    env = {**program.env, "PATH": f"{folder}:{program.env['PATH']}"}

    def offer(line: str) -> set[str]:
        words = shlex.join([*line.split(), *([""] if line.endswith(" ") else [])])
        source = TEMPLATES[shell].format(script=script, line=shlex.quote(line), words=words)
        command = [shell, *OPTIONS[shell], "-c", source]
        done = subprocess.run(command, env=env, cwd=program.work, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return {found.partition("\t")[0] for found in done.stdout.splitlines()}

    return offer


def test_each_shell_offers_commands_options_and_the_names_of_servers(ask: Ask, program: Program) -> None:
    program.configure(time=DEMO, tools=DEMO, notes=DEMO)
    assert ask("mcphost serv") == {"serve", "servers"}
    assert ask("mcphost servers remove t") == {"time", "tools"}
    assert {"add", "remove", "install"} <= ask("mcphost servers ")
    assert "--scope" in ask("mcphost servers add --s")
    assert ask("mcphost servers add --scope u") == {"user"}


def test_each_shell_offers_models_with_a_colon_in_their_name(ask: Ask, program: Program) -> None:
    folder = program.home / "state"
    RememberedModels(folder).record_use(ModelConfig(name="ollama_chat/qwen3:8b"))
    found = ask("mcphost --model ollama_chat/qwen3:")
    assert found in ({"ollama_chat/qwen3:8b"}, {"8b"})  # bash replaces only what follows the colon


def test_no_shell_is_offered_a_name_with_characters_special_to_it(ask: Ask, program: Program) -> None:
    names = {f"a{mark}b": DEMO for mark in ("$(touch pwned)", "`touch pwned`", ";", " ", "'", '"', "*", "\\", "|", "~")}
    program.configure(**names, a1=DEMO)
    project = program.work / ".mcp.json"
    project.write_text(json.dumps({"mcpServers": {"a$(touch pwned)": DEMO, "a2": DEMO}}))
    assert ask("mcphost servers check a") == {"a1", "a2"}
    assert not (program.work / "pwned").exists()


def test_each_shell_offers_files_where_a_file_belongs(ask: Ask, program: Program) -> None:
    found = ask("mcphost --mcp-config /et")
    assert found in ({"/etc/"}, {"/etc"}, {"FILES"})  # fish adds a slash; zsh has a function for it


def lines(typed: tuple[str, ...]) -> str:
    """Return the words of a command line as the completion scripts pass them to mcphost, one per line."""
    return "".join(f"{word}\n" for word in typed)


def words(program: Program, *typed: str) -> list[str]:
    """Return the completions that mcphost offers for the last of the typed words."""
    return program.text("completion", "words", stdin=lines(typed)).split()


def test_words_after_the_separator_of_a_command_line_are_files(program: Program) -> None:
    assert words(program, "servers", "add", "time", "--", "") == [":files"]


def test_values_written_after_an_equals_sign_keep_their_option(program: Program) -> None:
    assert words(program, "--era=st") == ["--era=stateless"]


def test_servers_of_every_scope_are_offered(program: Program) -> None:
    program.configure(mine=DEMO)
    for scope in ("project", "local"):
        program.text("servers", "add", f"of-{scope}", "--scope", scope, "--yes", "--", "x")
    assert words(program, "servers", "remove", "") == ["mine", "of-local", "of-project"]
    (program.home / "config" / "mcp.json").write_text("{")
    assert words(program, "servers", "remove", "") == ["of-local", "of-project"]


def test_hosts_or_files_are_offered_to_import_from(program: Program) -> None:
    found = words(program, "servers", "import", "")
    assert {"claude-code", "cursor", "vscode", "codex"} <= set(found)
    assert ":files" not in found
    assert words(program, "servers", "import", "cu") == ["cursor"]
    assert words(program, "servers", "import", "./") == [":files"]


def test_providers_are_offered_to_list_their_models(program: Program) -> None:
    assert {"anthropic", "openai", "ollama_chat"} <= set(words(program, "models", ""))


def test_profiles_and_conversations_are_offered(program: Program) -> None:
    config = program.home / "config"
    config.mkdir()
    (config / "config.toml").write_text("[profiles.review]\n[profiles.write]\n")
    program.text("run", "Hello", "--model", "demo")
    assert words(program, "--profile", "") == ["review", "write"]
    assert words(program, "profiles", "") == ["review", "write"]
    listed = json.loads(program.text("sessions", "list", "--json"))["sessions"]
    assert words(program, "--resume", "") == [listed[0]["id"]]


def test_damaged_files_offer_nothing_and_say_nothing(program: Program) -> None:
    config = program.home / "config"
    config.mkdir()
    for content in (b"{", b"[" * 100_000, b"\xff\xfe", b'{"mcpServers": []}', b"0" * 3_000_000):
        (config / "mcp.json").write_bytes(content)
        (config / "config.toml").write_bytes(content)
        for typed in (("servers", "remove", ""), ("--profile", "")):
            done = program.run("completion", "words", stdin=lines(typed))
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("kind", ["terminal", "fifo", "device", "folder"])
def test_a_link_to_something_that_is_no_file_offers_nothing_and_says_nothing(program: Program, kind: str) -> None:
    (program.home / "config").mkdir()
    with ExitStack() as stack:
        target = Path("/dev/zero") if kind == "device" else program.home / "target"
        if kind == "terminal":
            ends = os.openpty()
            for end in ends:
                stack.callback(os.close, end)
            target = Path(os.ttyname(ends[1]))
        elif kind == "fifo":
            os.mkfifo(target)
            stack.callback(os.close, os.open(target, os.O_RDWR))  # a reader of the FIFO would wait for this writer
        elif kind == "folder":
            target.mkdir()
        for link in (program.work / ".mcp.json", program.home / "config" / "config.toml"):
            link.symlink_to(target)
        for typed in (("servers", "remove", ""), ("--profile", "")):
            done = program.run("completion", "words", stdin=lines(typed))
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_no_server_is_started_and_no_state_is_written_by_a_completion(program: Program) -> None:
    program.configure(time={"command": "touch", "args": ["started"]})
    before = sorted(program.home.rglob("*"))
    assert words(program, "servers", "check", "") == ["time"]
    assert sorted(program.home.rglob("*")) == before


@pytest.mark.parametrize("typed", [(), ("nosuch", ""), ("\x00",), ("-",), ("--nosuch", ""), ("run", "--", "a", "")])
def test_command_lines_that_mean_nothing_offer_nothing_wrong(program: Program, typed: tuple[str, ...]) -> None:
    done = program.run("completion", "words", stdin=lines(typed))
    assert done.returncode == 0
    assert done.stderr == b""
