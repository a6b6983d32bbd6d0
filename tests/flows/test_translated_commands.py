"""Tests that everything commands print for people is translated.

Each command runs in a pseudo-language that replaces all letters. A word in plain letters was therefore not translated,
unless it is a name, a value or text from a server.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from mcphost import translation
from mcphost.cli import main
from tests.fakes.registry_entries import ENTRIES
from tests.flows.package_runners import PackageRunners
from tests.flows.program import DEMO, Program
from tests.translation.pseudo_language import PseudoLanguage

_COLOR = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_QUOTED = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
# No path, address, option, identifier or key of a setting.
_WORD = re.compile(r"(?<![\w/.:@$={-])[A-Z]?[a-z]{3,}(?![\w/@=-]|\.\w|://)")
NAMES = {
    "mcphost", "demo", "stdio", "http", "https", "handshake", "stateless", "auto", "user", "project", "local", "json",
    "tools", "resources", "prompts", "completions", "logging", "tasks", "extensions",
}  # fmt: skip
"""Names that are the same in each language, such as those of capabilities."""

Run = Callable[..., str]


@cache
def pseudo_language() -> PseudoLanguage:
    return PseudoLanguage()


@pytest.fixture
def run(program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Return `run(*arguments, terminal=False)`, which runs a command in this process and returns its output."""
    for name, value in program.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm")  # Rich ignores COLUMNS on a dumb terminal, and cuts words at column 80
    monkeypatch.chdir(program.work)
    monkeypatch.setattr(main, "set_language_later", lambda choose: None)

    def run_command(*arguments: str, terminal: bool = False, code: int = 0) -> str:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
        translation.use_catalog(pseudo_language())
        try:
            ended = main.main(list(arguments))
        finally:
            translation.use_catalog(None)
        shown = capsys.readouterr()
        text = _COLOR.sub("", f"{shown.out}{shown.err}")
        assert ended == code, text
        return text

    yield run_command
    translation.use_catalog(None)


def english(text: str, *known: str) -> set[str]:
    """Return the English words in a text, except quoted ones, names, and the words in *known*."""
    values = {word for one in known for word in re.findall("[A-Za-z]+", one)}
    return set(_WORD.findall(_QUOTED.sub("", text))) - NAMES - values


@pytest.fixture
def with_demo(program: Program) -> Program:
    program.configure(demo=DEMO, off={**DEMO, "disabled": True}, bad={"command": 3})
    return program


def test_the_list_of_servers(run: Run, with_demo: Program) -> None:
    for is_terminal in (False, True):
        assert english(run("servers", terminal=is_terminal), "python off bad") == set()
    assert english(run("servers", "--mcp-config", with_demo.servers())) == set()


def test_a_server_is_approved_and_checked(run: Run, with_demo: Program) -> None:
    said = run("servers", "trust", "demo", "--yes")
    assert english(said) == set()
    assert english(run("servers", "trust", "demo", code=2)) == set()
    for is_terminal in (False, True):
        shown = run("servers", "check", terminal=is_terminal, code=3)
        assert english(shown, "bad Demo server read only values file") == set()
    assert english(run("servers", "changes", "demo")) == set()
    assert english(run("servers", "secure", "demo")) == set()


def test_servers_are_added_edited_and_removed(run: Run, program: Program) -> None:
    assert english(run("servers", "add", "one", "--", "some-program", "first"), "one first") == set()
    pasted = json.dumps({"two": {"command": "some-program", "args": ["x"], "env": {"PLACE": "here"}}})
    assert english(run("servers", "add", "--json", pasted, "--yes"), "two here") == set()
    assert english(run("servers", "edit", "one", "--env", "COLOR=red"), "one first") == set()
    assert english(run("servers", "edit", "one", "--env", "COLOR=red"), "one") == set()
    for action in ("disable", "disable", "enable", "enable", "restart"):
        assert english(run("servers", action, "one"), "one") == set()
    assert english(run("servers", "remove", "one", "--yes", "--forget"), "one first") == set()
    assert english(run("servers", "remove", "two", code=2), "two") == set()
    assert english(run("servers", "add", code=2)) == set()


def test_servers_are_imported(run: Run, program: Program) -> None:
    folder = program.home / ".cursor"
    folder.mkdir()
    entries = {"one": {"command": "some-program", "env": {"API_KEY": "sk-1234567890abcdef"}}, "two": {"command": 3}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    assert english(run("servers", "import", terminal=True, code=2), "one two Cursor cursor hidden") == set()
    assert english(run("servers", "import", "nowhere", code=2).partition("claude")[0], "nowhere") == set()
    assert english(run("servers", "import", "--name", "three", code=2), "three one two") == set()


def test_a_project_is_locked_and_verified(run: Run, program: Program) -> None:
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": DEMO}}))
    assert english(run("servers", "verify", code=3)) == set()
    assert english(run("servers", "lock", code=5)) == set()
    assert english(run("servers", "trust", ".mcp.json", "--yes")) == set()
    run("servers", "trust", "demo", "--yes")
    assert english(run("servers", "lock")) == set()
    assert english(run("servers", "lock")) == set()
    assert english(run("servers", "verify")) == set()
    assert english(run("servers", "verify", "--offline")) == set()
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": {"command": "other"}}}))
    assert english(run("servers", "verify", "--offline", code=9), "command word other") == set()


def test_a_registry_is_searched_and_its_servers_are_installed(
    run: Run, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    PackageRunners(program, "npx")
    monkeypatch.setenv("PATH", program.env["PATH"])
    file = program.home / "registry.json"
    file.write_text(json.dumps({"servers": ENTRIES}))
    place = ("--registry", str(file))
    found = run("servers", "search", *place, terminal=True)
    assert english(found, json.dumps(ENTRIES), "remote npm pypi oci nuget") == set()
    detail = run("servers", "search", "io.github.ada/weather", *place)
    assert english(detail, json.dumps(ENTRIES), "npm") == set()
    assert english(run("servers", "search", "nothing-like-this", *place)) == set()
    values = ("--set", "cache_dir=/tmp/cache", "--set", "WEATHER_API_KEY=${env:THE_KEY}")
    plan = run("servers", "install", "io.github.ada/weather", *place, "--dry-run", *values)
    assert english(plan, json.dumps(ENTRIES), "npx npm mcp units no network") == set()
    assert english(run("servers", "install", "weather", *place, code=2), json.dumps(ENTRIES)) == set()
    assert english(run("servers", "update")) == set()


@pytest.mark.parametrize("command", ["tools", "resources", "templates", "prompts", "skills"])
def test_the_lists_of_what_servers_offer(run: Run, with_demo: Program, command: str) -> None:
    file = with_demo.servers(demo=DEMO)
    shown = run(command, "--mcp-config", file, terminal=True)
    data = json.loads(with_demo.text(command, "--mcp-config", file, "--json"))
    assert english(shown, json.dumps(data)) == set()
    assert english(run(command, "--mcp-config", with_demo.servers())) == set()


def test_requests_to_a_server(run: Run, program: Program) -> None:
    file = ("--mcp-config", program.servers(demo=DEMO))
    assert english(run("call", "demo", "nope", *file, code=2), program.text("tools", *file, "--json")) == set()
    assert english(run("call", "demo", "add", "a=x", *file, code=2), "number") == set()
    assert english(run("call", "nope", "add", *file, code=2)) == set()
    assert english(run("read", "demo", "nope:nothing", *file, code=4), "nothing Unknown resource") == set()
    refused = program.error("prompt", "demo", "nope", *file, code=4).partition("32602")[2].partition(". ")[0]
    assert english(run("prompt", "demo", "nope", *file, code=4), refused) == set()
    assert english(run("skill", "demo", "nope", *file, code=2)) == set()


def test_a_turn_with_the_demo_model(run: Run, program: Program) -> None:
    file = ("--mcp-config", program.servers(demo=DEMO))
    assert english(run("run", "hello", *file, code=3)) == set()
    said = run("run", "what is 2 + 40?", "--model", "demo", *file)
    answer = program.run("run", "what is 2 + 40?", "--model", "demo", *file, "--output", "json").stdout.decode()
    assert english(said, json.loads(answer)["text"]) == set()
    assert english(run("run", "what is 2 + 40?", "--model", "demo", "--allow", "demo", *file), "add returned") == set()


def test_saved_conversations(run: Run, program: Program) -> None:
    assert english(run("sessions")) == set()
    file = program.servers(demo=DEMO)
    program.run("run", "what is 2 + 40?", "--model", "demo", "--allow", "demo", "--mcp-config", file)
    listed = json.loads(program.text("sessions", "--json"))["sessions"][0]
    whole = program.text("sessions", "show", listed["id"], "--json")
    assert english(run("sessions", terminal=True), listed["title"]) == set()
    assert english(run("sessions", "show", listed["id"]), whole) == set()
    assert english(run("sessions", "search", "what"), whole) == set()
    assert english(run("sessions", "search", "nothinglikethis")) == set()
    assert english(run("sessions", "export", listed["id"], "-o", "out.md"), "out") == set()
    assert english(run("sessions", "rename", listed["id"], "Sums")) == set()
    assert english(run("sessions", "delete", listed["id"], "--yes"), "Sums") == set()
    assert english(run("sessions", "show", "nope", code=2)) == set()


def test_costs_grants_accounts_and_models(run: Run, program: Program) -> None:
    file = program.servers(demo=DEMO)
    program.run("run", "what is 2 + 40?", "--model", "demo", "--allow", "demo", "--mcp-config", file)
    assert english(run("costs", terminal=True), "add") == set()
    assert english(run("grants")) == set()
    assert english(run("grants", "revoke", "nope", code=2)) == set()
    assert english(run("accounts")) == set()
    assert english(run("models", terminal=True)) == set()
    assert english(run("models", "nope", code=2).partition("anthropic")[0].rpartition(". ")[0]) == set()
    assert english(run("login", "nope", code=2)) == set()


def test_the_audit_log(run: Run, program: Program) -> None:
    assert english(run("audit")) == set()
    file = program.servers(demo=DEMO)
    program.run("run", "what is 2 + 40?", "--model", "demo", "--allow", "demo", "--mcp-config", file)
    records = program.text("audit", "--json")
    assert english(run("audit", terminal=True), records) == set()
    assert english(run("audit", "verify")) == set()
    assert english(run("audit", "show", "99999", code=2)) == set()
    assert english(run("audit", "export", str(program.home / "out.jsonl"))) == set()


def test_the_checks_of_doctor(run: Run, with_demo: Program) -> None:
    for is_terminal in (False, True):
        shown = run("doctor", terminal=is_terminal, code=3)
        assert english(shown, "bad python off xterm") == set()
    run("servers", "trust", "demo", "--yes")
    assert english(run("doctor", "demo"), "Demo server") == set()


def test_what_the_build_supports(run: Run) -> None:
    report = run("doctor", "--conformance")
    data = run("doctor", "--conformance", "--json")
    assert english(report, data) == set()
