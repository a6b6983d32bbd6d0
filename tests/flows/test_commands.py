"""Tests for `call`, `read`, `prompt` and the list commands: text output, JSON output and exit codes."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from mcphost.host.servers.servers import unknown_tool_error
from tests.flows.fork_server import sdk_server_command
from tests.flows.program import DEMO, MCPHOST, Program, faulty_server
from tests.flows.typed_answers import answer_prompts
from tests.peers import node


def python_command(code: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", code]}


def test_call_prints_the_text_and_types_its_arguments(program: Program) -> None:
    file = program.servers(demo=DEMO)
    assert program.text("--mcp-config", file, "call", "demo", "add", "a=2", "b=40") == "2 + 40 = 42\n"
    assert program.text("call", "demo", "add", "--args", '{"a": 1}', "b=1.5", "--mcp-config", file) == "1 + 1.5 = 2.5\n"
    out = program.text("--mcp-config", file, "call", "demo", "add", "--args", "-", stdin='{"a":1,"b":1}')
    assert out == "1 + 1 = 2\n"


def test_call_says_that_a_hook_changed_the_arguments(program: Program) -> None:
    file = program.servers(demo=DEMO)
    change = json.dumps([sys.executable, "-c", 'print(\'{"arguments": {"a": 20, "b": 3}}\')'])
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text(f'[[hooks]]\nevent = "before_call"\ncommand = {change}\n')
    done = program.run("--mcp-config", file, "call", "demo", "add", "a=2", "b=3")
    assert done.stdout == b"20 + 3 = 23\n"
    assert b'A hook changed the arguments: {"a":20,"b":3}' in done.stderr


@pytest.mark.parametrize("era", ["stateless", "handshake", "auto"])
def test_call_works_in_each_era(program: Program, era: str) -> None:
    file = program.servers(demo=DEMO)
    checked = json.loads(program.text("servers", "check", "--json", "--era", era, "--mcp-config", file))
    assert checked["servers"][0]["era"] == {"auto": "stateless"}.get(era, era)
    assert program.text("--era", era, "--mcp-config", file, "call", "demo", "multiply", "a=6", "b=7") == "6 × 7 = 42\n"


def test_call_as_json_is_one_document(program: Program) -> None:
    file = program.servers(demo=DEMO)
    document = json.loads(program.text("--mcp-config", file, "call", "demo", "add", "a=2", "b=3", "--json"))
    assert document["content"] == [{"type": "text", "text": "2 + 3 = 5"}]
    assert document["isError"] is False


def test_a_call_shows_on_a_terminal_the_connection_the_tool_and_its_progress(program: Program) -> None:
    program.env["TERM"] = "xterm-256color"
    file = program.servers(demo=DEMO)
    call = ("--mcp-config", file, "call", "demo", "count_slowly", "to=4", "seconds=1")
    code, shown = answer_prompts(program, (), *call)
    assert code == 0, shown
    assert "Connecting to demo…" in shown
    assert re.search(r"Calling count_slowly: █+░* \d+%", shown), shown
    assert "Counted to 4." in shown
    assert answer_prompts(program, (), *call, "--quiet") == (0, "Counted to 4.\r\n")


@pytest.mark.parametrize("arguments", [("tools", "demo"), ("servers", "list", "--json")])
def test_a_command_whose_output_nobody_reads_does_not_succeed(program: Program, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with program.start("--mcp-config", program.servers(demo=DEMO), *arguments, stdout=writer) as process:
        os.close(writer)
        assert process.wait(30) == 141


def test_tool_that_reports_an_error_exits_8_with_its_text_on_stdout(program: Program) -> None:
    out = program.text("--mcp-config", program.servers(demo=DEMO), "call", "demo", "roll_dice", "sides=1", code=8)
    assert "between 2 and 1000" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nope", "add"], "Configured servers: demo"),
        (["demo", "nope"], "Its tools: add"),
        (["demo", "add", "a=x", "b=1"], "expects a number"),
        (["demo", "ad", "a=1", "b=2"], "Did you mean 'add'? Its tools: add"),
        (["demo", "add", "a=1", "b=2", "c=3"], "There is no argument 'c'. Its arguments: 'a', 'b'."),
        (["demo", "add", "a=1", "b=2", "c=3"], "To send any name, give the arguments as JSON to --args."),
        (["demo", "add", "plain"], "KEY=VALUE"),
        (["demo", "add", "--args", "{"], "--args"),
        (["demo"], "TOOL"),
    ],
)
def test_call_that_cannot_be_meant_exits_2(program: Program, arguments: list[str], text: str) -> None:
    assert text in program.error("--mcp-config", program.servers(demo=DEMO), "call", *arguments, code=2)


def test_an_unknown_tool_of_many_is_answered_with_the_nearest_names_and_the_number_of_the_others() -> None:
    names = [f"tool_{number:02}" for number in range(65)]
    error = unknown_tool_error("shop", "list_order", (*names, "list_orders", "zebra"), "A note.")
    assert error.message == "The server 'shop' has no tool named 'list_order'."
    assert error.hint.startswith("Did you mean 'list_orders'? Its tools: list_orders, tool_00, tool_01, ")
    assert error.hint.endswith(", tool_18, and 47 more.")
    assert unknown_tool_error("shop", "zzz", names, "A note.").hint.endswith(", and 45 more. A note.")
    assert unknown_tool_error("shop", "x", names[:20]).hint == f"Its tools: {', '.join(names[:20])}."


def test_missing_command_exits_4_naming_it_before_the_connect_limit(program: Program) -> None:
    file = program.servers(gone={"command": "no-such-program"}, demo=DEMO)
    started_at = time.monotonic()
    assert "no-such-program" in program.error("--mcp-config", file, "call", "gone", "x", code=4)
    assert time.monotonic() - started_at < 25  # waiting for the server would take the connect limit, 30 s


def test_server_that_dies_at_start_exits_4_with_its_last_output(program: Program) -> None:
    file = program.servers(bad=faulty_server("dies at start"))
    assert "cannot read licence.key" in program.error("--mcp-config", file, "call", "bad", "echo", code=4)


@pytest.mark.parametrize("tool", ["die", "half", "wrong shape", "huge"])
def test_a_server_that_fails_in_a_call_exits_4_with_a_message(program: Program, tool: str) -> None:
    code = Path(faulty_server("")["args"][0]).read_text().replace('else ("echo",)', f'else ("{tool}",)')
    peer = program.home / "peer.py"
    peer.write_text(code)
    file = program.servers(bad={"command": sys.executable, "args": [str(peer)]})
    assert "bad" in program.error("--mcp-config", file, "call", "bad", tool, code=4)


def test_timeout_is_the_hard_limit_and_exits_4(program: Program) -> None:
    file = program.servers(demo=DEMO)
    started_at = time.monotonic()
    slow = ("call", "demo", "count_slowly", "to=100", "seconds=50")
    error_text = program.error("--mcp-config", file, "--timeout", "1", *slow, code=4)
    assert time.monotonic() - started_at < 25
    assert "1 s" in error_text


def test_server_that_never_answers_exits_4_in_time(program: Program) -> None:
    file = program.servers(mute=faulty_server("never answers"))
    started_at = time.monotonic()
    program.error("--mcp-config", file, "--timeout", "1", "call", "mute", "echo", code=4)
    assert time.monotonic() - started_at < 25


@pytest.mark.parametrize("fault", ["banner", "stderr flood", "BOM and CRLF", "silent on discover", "dies of discover"])
def test_faults_a_server_survives_cost_nothing(program: Program, fault: str) -> None:
    file = program.servers(odd=faulty_server(fault))
    assert program.text("--mcp-config", file, "call", "odd", "echo", "text=hi") == "hi\n"


@pytest.mark.req("sec.terminal-escape")
def test_output_to_a_file_is_raw_and_output_to_a_terminal_is_cleaned(program: Program) -> None:
    file = program.servers(odd=faulty_server(""))
    raw = program.text("--mcp-config", file, "call", "odd", "echo", "--args", '{"text": "a\\u001b[31mb"}')
    assert raw == "a\x1b[31mb\n"
    shown = in_terminal(program, "--mcp-config", file, "call", "odd", "echo", "--args", '{"text": "a\\u001b[31mb"}')
    assert "a␛[31mb" in shown
    assert "\x1b" not in shown
    shown = in_terminal(program, "--mcp-config", file, "call", "odd", "echo", "--args", '{"text": "\\u202e"}', "--json")
    assert json.loads(shown)["text"] == "\u202e"
    assert "\u202e" not in shown


def in_terminal(program: Program, *arguments: str) -> str:
    """Run a command with a terminal as standard output, and return what it prints."""
    import pty
    import subprocess

    master, slave = pty.openpty()
    with program.start(*arguments, stdin=subprocess.DEVNULL, stdout=slave) as process:
        os.close(slave)
        parts: list[bytes] = []
        try:
            while part := os.read(master, 65536):
                parts.append(part)
        except OSError:
            pass  # Linux reports EIO at the end
        os.close(master)
        assert process.wait(10) == 0
    return b"".join(parts).decode()


def test_read_prints_writes_and_names_missing_resources(program: Program) -> None:
    file = program.servers(demo=DEMO)
    assert program.text("--mcp-config", file, "read", "demo", "demo://guide").startswith("# The demo server")
    document = json.loads(program.text("--mcp-config", file, "read", "demo", "demo://guide", "--json"))
    assert document["contents"][0]["mimeType"] == "text/markdown"
    told = program.error("--mcp-config", file, "read", "demo", "demo://guide", "-o", "guide.md", code=0)
    assert told == "mcphost: Wrote guide.md.\n"
    assert (program.work / "guide.md").read_text() == document["contents"][0]["text"]
    assert [path.name for path in program.work.iterdir()] == ["guide.md"]
    assert (program.work / "guide.md").stat().st_mode & 0o777 == 0o600, "the content may be confidential"
    assert "no such resource" in program.error("--mcp-config", file, "read", "demo", "demo://nope", code=4)
    error_text = program.error("--mcp-config", file, "read", "demo", "demo://guide", "-o", "/no/x", code=2)
    assert "cannot be written" in error_text


def test_read_writes_no_file_that_exists_and_no_link(program: Program) -> None:
    file = program.servers(demo=DEMO)
    (program.work / "notes.md").write_text("mine")
    (program.work / "link.md").symlink_to("notes.md")
    (program.work / "dangling.md").symlink_to("elsewhere.md")
    for name in ("notes.md", "link.md", "dangling.md"):
        told = program.error("--mcp-config", file, "read", "demo", "demo://guide", "-o", name, code=2)
        assert f"{name} cannot be written: File exists." in told
        assert "Choose a file that does not exist yet." in told
    assert (program.work / "notes.md").read_text() == "mine"
    assert not (program.work / "elsewhere.md").exists()


def test_read_writes_to_a_device_and_says_nothing_if_quiet(program: Program) -> None:
    file = program.servers(demo=DEMO)
    done = program.run("--mcp-config", file, "read", "demo", "demo://guide", "-o", "/dev/null", "--quiet")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.req("res.read.blob")
def test_binary_resource_is_written_as_its_bytes(program: Program) -> None:
    peer = program.home / "peer.py"
    peer.write_text("""
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    if ask["method"] == "initialize":
        result = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"resources": {}},
                  "serverInfo": {"name": "b"}}
    elif ask["method"] == "resources/read":
        blob = {"x:good": "AP8QAA==", "x:bad": "!!!"}[ask["params"]["uri"]]
        result = {"contents": [{"uri": ask["params"]["uri"], "mimeType": "image/x", "blob": blob}]}
    elif ask["method"] == "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    else:
        result = {ask["method"].split("/")[0]: [], "resourceTemplates": []}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
""")
    file = program.servers(b={"command": sys.executable, "args": [str(peer)]})
    assert program.run("--mcp-config", file, "read", "b", "x:good").stdout == b"\x00\xff\x10\x00"
    program.text("--mcp-config", file, "read", "b", "x:good", "-o", "out.bin")
    assert (program.work / "out.bin").read_bytes() == b"\x00\xff\x10\x00"
    assert "4 bytes of type image/x" in in_terminal(program, "--mcp-config", file, "read", "b", "x:good")
    assert "base64" in program.error("--mcp-config", file, "read", "b", "x:bad", "-o", "bad.bin", code=4)
    assert not (program.work / "bad.bin").exists()


@pytest.mark.parametrize("way", ["http", "http json"])
def test_call_works_over_http_in_both_eras(program: Program, way: str) -> None:
    import subprocess

    peer = str(Path(node.__file__).with_name("sdk_server.py"))
    with subprocess.Popen(sdk_server_command(peer, *way.split()), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            file = program.servers(web={"url": f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"})
            for era, revision in (("auto", "2026-07-28"), ("handshake", "2025-11-25")):
                flags = ("--mcp-config", file, "--era", era)
                checked = json.loads(program.text(*flags, "servers", "check", "--json"))["servers"][0]
                assert checked["revision"] == revision
                assert program.text(*flags, "call", "web", "add", "a=2", "b=40") == "42\n"
        finally:
            server.kill()


def test_an_unreachable_address_exits_4_and_is_named(program: Program) -> None:
    file = program.servers(web={"url": "http://127.0.0.1:9/mcp"})
    assert "127.0.0.1:9" in program.error("--mcp-config", file, "call", "web", "add", code=4)


def test_prompt_is_filled(program: Program) -> None:
    file = program.servers(demo=DEMO)
    assert "a trip" in program.text("--mcp-config", file, "prompt", "demo", "plan", "topic=a trip")
    document = json.loads(program.text("--mcp-config", file, "prompt", "demo", "plan", "topic=x", "--json"))
    assert document["messages"][0]["role"] == "user"
    assert "topic" in program.error("--mcp-config", file, "prompt", "demo", "plan", code=2)


def test_listings_as_text_and_json(program: Program) -> None:
    file = program.servers(demo=DEMO)
    assert program.text("--mcp-config", file, "tools", "demo").splitlines()[0] == "demo  add           Add two numbers."
    for kind, count in (("tools", 10), ("resources", 2), ("templates", 0), ("prompts", 1)):
        document = json.loads(program.text("--mcp-config", file, kind, "--json"))
        assert len(document[kind]) == count
        assert document["errors"] == []
    tool = json.loads(program.text("--mcp-config", file, "tools", "--json"))["tools"][0]
    assert (tool["server"], tool["name"], tool["inputSchema"]["required"]) == ("demo", "add", ["a", "b"])


def test_a_listing_shows_the_available_servers_next_to_a_dead_one(program: Program) -> None:
    file = program.servers(gone={"command": "no-such-program"}, demo=DEMO)
    done = program.run("--mcp-config", file, "tools", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 4
    assert {tool["server"] for tool in document["tools"]} == {"demo"}
    assert document["errors"][0]["server"] == "gone"
    assert b"no-such-program" in done.stderr


def test_a_reader_that_leaves_early_is_no_error(program: Program) -> None:
    import subprocess

    file = program.servers(demo=DEMO)
    command = f"{sys.executable} -m mcphost --mcp-config {file} tools --json | head -c 1; echo; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=program.env, capture_output=True, timeout=20)
    assert done.stdout == b"{\n0\n"
    assert done.stderr == b""


def test_interrupt_ends_a_call_with_130_and_leaves_no_server(program: Program) -> None:
    import signal
    import subprocess

    note = program.home / "note"
    note.touch()
    code = f"import os; open({str(note)!r}, 'w').write(str(os.getpid())); import mcphost.demo.server as s; s.main()"
    file = program.servers(demo=python_command(code))
    slow = ("call", "demo", "count_slowly", "to=9", "seconds=60")
    with program.start("--mcp-config", file, *slow, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 10
        while not note.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        pid = int(note.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(8) == 130
        assert process.stderr
        assert process.stderr.read() == b""
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.peer
@pytest.mark.usefixtures("npm_peers")
def test_reference_server_adds_as_promised(program: Program) -> None:
    command, *arguments = node.everything_command()
    file = program.servers(everything={"command": command, "args": arguments})
    out = program.text("--mcp-config", file, "call", "everything", "get-sum", "a=2", "b=40")
    assert out == "The sum of 2 and 40 is 42.\n"


def test_invalid_utf8_is_replaced_by_a_mark_and_breaks_nothing(program: Program) -> None:
    file = program.servers(demo=DEMO)
    odd = os.fsdecode(b"caf\xe9")
    assert program.text("--mcp-config", file, "call", "demo", "add_note", f"text={odd}") == "Noted as number 1.\n"
    program.text("--mcp-config", file, "run", odd, "--model", "demo")
    ident = program.text("sessions", "list").split()[0]
    assert "caf\N{REPLACEMENT CHARACTER}" in program.text("sessions", "show", ident)
    folder = program.home / os.fsdecode(b"config\xff")
    folder.mkdir()
    (folder / "mcp.json").write_text("{")
    listed = json.loads(program.text("servers", "list", "--json", code=3, MCPHOST_CONFIG_DIR=str(folder)))
    assert "not valid JSON" in listed["problems"][0]
    with program.pipe(MCPHOST_CONFIG_DIR=str(folder)) as pipe:
        assert pipe.ask("stop")["ok"]
        assert "not valid JSON" in pipe.event("told")["text"]
    (program.work / ".mcp.json").write_bytes((program.home / "servers-0.json").read_bytes())
    program.work = program.work.rename(program.home / os.fsdecode(b"work\xff"))
    assert "Approved" not in program.text("servers", "trust", ".mcp.json", "--yes")
    assert program.text("servers", "list").startswith("demo  not approved")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full is Linux's")
def test_unwritable_output_is_reported_and_closed_streams_are_ignored(program: Program) -> None:
    command = " ".join([*MCPHOST, "--mcp-config", program.servers(demo=DEMO), "call", "demo", "list_notes"])
    for where, code, told in ((">/dev/full", 2, "No space left"), (">&-", 0, ""), ("<&- >&- 2>&-", 0, "")):
        done = subprocess.run(
            ["sh", "-c", f"{command} {where}"],
            capture_output=True, timeout=20, env=program.env, cwd=program.work, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert told in done.stderr
        assert done.stderr.count("\n") == bool(told)


def test_an_empty_listing_is_reported_to_users_only(program: Program) -> None:
    file = program.servers(demo=DEMO)
    cases = [
        (("--mcp-config", file, "skills"), "The configured servers offer no skills."),
        (("--mcp-config", file, "skills", "demo"), "The server 'demo' offers no skills."),
        (("tools",), "No servers are configured."),
        (("servers",), str(program.home / "config" / "mcp.json")),
        (("sessions",), "There are no saved conversations yet."),
        (("accounts",), "You are not signed in to any server."),
    ]
    for arguments, said in cases:
        done = program.run(*arguments)
        assert (done.returncode, done.stdout) == (0, b""), arguments
        assert said in done.stderr.decode(), arguments
        assert not program.run(*arguments, "--json").stderr, arguments


@pytest.mark.parametrize(
    ("file", "good", "bad"),
    [
        ("mcp.json", {"mcpServers": {"a": DEMO}}, {"mcpServers": {"a": {"command": 7}}}),
        ("config.toml", {"model": {"name": "openai/gpt-5"}}, {"model": {"temperature": "hot"}}),
    ],
)
def test_the_schema_of_a_configuration_file_is_printed_for_editors(
    program: Program, file: str, good: Any, bad: Any
) -> None:
    validator = jsonschema_rs.validator_for(json.loads(program.text("schema", file)))
    assert validator.is_valid(good)
    assert not validator.is_valid(bad)


def test_the_servers_message_and_the_hint_are_two_sentences() -> None:
    from textual.screen import Screen

    from mcphost.cli.printing import format_error
    from mcphost.errors import McpHostError, RequestTimeout
    from mcphost.host.tools.call_executor import error_text
    from mcphost.tui.screens.list_screen import describe_error

    open_ended = McpHostError("It says: no such prompt", "See: x")
    assert describe_error(open_ended, Screen[None]()) == str(open_ended) == "It says: no such prompt. See: x"
    assert error_text(RequestTimeout("It says: busy")) == "It says: busy. The tool may have run."
    assert format_error(McpHostError("It says: no such prompt", "See: x")) == "It says: no such prompt. See: x"
    assert format_error(McpHostError("It is not there.", "See: x")) == "It is not there. See: x"
    assert format_error(McpHostError("It says: no such prompt")) == "It says: no such prompt"
