"""Tests for the diagnosis of servers that do not work: the failing step, its reason and the fix."""

import asyncio
import json
import socket
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from mcphost.config.mcp_json import parse_servers
from mcphost.config.schema import Limits, ServerConfig
from mcphost.diagnosis.steps import DiagnosisStep
from mcphost.host.servers import diagnosis
from mcphost.host.servers.diagnosis import diagnose_server
from tests.flows.broken_programs import BROKEN_PROGRAMS, PYTHON, fails_with, program, working
from tests.flows.conftest import OpenHost
from tests.flows.inline_servers import CHANGING_TOOL_SERVER
from tests.flows.program import Program
from tests.unit.transport.certificates import CertificateAuthority, require_standard

pytestmark = pytest.mark.anyio
LIMITS = Limits(connect_timeout=1.5)


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty home folder, so that no program installed there by a version manager is found."""
    monkeypatch.setenv("HOME", str(tmp_path))


def parse(entry: dict[str, Any], folder: Path) -> ServerConfig:
    (server,) = parse_servers({"mcpServers": {"x": entry}}, str(folder / "mcp.json"), "flag", lambda _: None)
    return server


async def diagnose(open_host: OpenHost, entry: dict[str, Any], folder: Path) -> list[DiagnosisStep]:
    async with open_host(servers=(parse(entry, folder),), limits=LIMITS) as host:
        return [step async for step in diagnose_server(host.servers, "x")]


def check(steps: list[DiagnosisStep], name: str, reason: str, hint: str) -> None:
    last = steps[-1]
    assert (last.name, last.status) == (name, "failed"), steps
    assert reason in last.detail, last
    assert hint in last.hint, last
    assert all(step.status != "failed" for step in steps[:-1])


@pytest.mark.parametrize("case", BROKEN_PROGRAMS)
async def test_a_broken_program_is_explained(open_host: OpenHost, tmp_path: Path, case: str) -> None:
    entry, *expected = BROKEN_PROGRAMS[case]
    check(await diagnose(open_host, entry, tmp_path), *expected)


async def test_a_diagnosis_can_be_cancelled_while_it_examines_many_definitions(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, has_ended = threading.Event(), threading.Event()
    words = tmp_path / "words"
    words.write_text("Add two numbers.")
    entry = {"command": str(PYTHON), "args": ["-c", CHANGING_TOOL_SERVER], "env": {"WORDS": str(words)}}

    async with open_host(servers=(parse(entry, tmp_path),), limits=LIMITS) as host:
        with anyio.CancelScope() as scope:

            def examine(*_: object) -> tuple[()]:
                anyio.from_thread.run_sync(scope.cancel)
                go.wait(20)
                has_ended.set()
                return ()

            monkeypatch.setattr(diagnosis, "warn_about_definition", examine)
            async for _step in diagnose_server(host.servers, "x"):
                pass
        assert scope.cancelled_caught
        assert not has_ended.is_set()
        go.set()


@pytest.mark.parametrize(
    ("first_line", "reason", "hint"),
    [
        ("#!/usr/bin/env nope-interpreter", "needs 'nope-interpreter'", "Install nope-interpreter"),
        ("#!/nowhere/node", "needs '/nowhere/node'", "Install Node.js"),
        ("#!/usr/bin/env python3\r", "Windows line endings", "dos2unix"),
        ("#!/bin/sh\r", "Windows line endings", "dos2unix"),
    ],
)
async def test_a_script_without_its_interpreter_is_explained(
    open_host: OpenHost, tmp_path: Path, first_line: str, reason: str, hint: str
) -> None:
    script = tmp_path / "server"
    script.write_text(f"{first_line}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    check(await diagnose(open_host, {"command": str(script)}, tmp_path), "interpreter", reason, hint)


async def test_a_program_for_another_system_is_explained(open_host: OpenHost, tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_bytes(b"\x7fELF of another processor")
    file.chmod(0o700)
    steps = await diagnose(open_host, {"command": str(file)}, tmp_path)
    check(steps, "process", "Exec format error", "another processor or system")


async def test_a_script_that_needs_a_runner_is_explained(open_host: OpenHost, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("pass")
    steps = await diagnose(open_host, {"command": str(tmp_path / "server.py")}, tmp_path)
    check(steps, "command", "not executable", "'python3' as the command")


async def test_a_program_of_a_version_manager_is_found(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".nvm/versions/node/v24.0.0/bin"
    folder.mkdir(parents=True)
    (folder / "npx-of-nvm").write_text("#!/bin/sh\n")
    (folder / "npx-of-nvm").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    steps = await diagnose(open_host, {"command": "npx-of-nvm"}, tmp_path)
    check(steps, "command", "is not in PATH, but", str(folder / "npx-of-nvm"))


async def test_a_banner_is_a_warning_and_the_rest_continues(open_host: OpenHost, tmp_path: Path) -> None:
    steps = await diagnose(open_host, working("print('Welcome!', flush=True)\n"), tmp_path)
    assert [(step.name, step.status) for step in steps if step.status != "ok"] == [("output", "warning")]
    assert "Welcome!" in next(step.detail for step in steps if step.status == "warning")


async def test_a_working_server_passes_every_step(open_host: OpenHost, tmp_path: Path) -> None:
    tools = '[{"name": "t", "inputSchema": {"type": "object"}}]'
    steps = await diagnose(open_host, working(tools=tools), tmp_path)
    assert all(step.status == "ok" for step in steps)
    told = {step.name: step.detail for step in steps}
    names = ["configuration", "folder", "command", "process", "protocol", "version", "capabilities", "lists", "tools"]
    assert list(told) == names
    assert told["command"] == PYTHON
    assert "2025-06-18" in told["protocol"]
    assert (told["version"], told["capabilities"]) == ("x 1", "tools")
    assert "1 tool" in told["lists"]


@pytest.mark.parametrize(
    ("provider", "reason"), [("openai", "an array without items"), ("anthropic", "the property 'a b'"), ("groq", "")]
)
async def test_a_tool_that_the_models_provider_refuses_is_named(
    open_host: OpenHost, tmp_path: Path, provider: str, reason: str
) -> None:
    schema = '{"type": "object", "properties": {"a b": {"type": "array"}}}'
    server = parse(working(tools=f'[{{"name": "t", "inputSchema": {schema}}}]'), tmp_path)
    async with open_host(servers=(server,), limits=LIMITS) as host:
        last = [step async for step in diagnose_server(host.servers, "x", provider)][-1]
    wanted = ("warning", f"1 tool that {provider} may refuse: t ({reason})") if reason else ("ok", "valid for groq")
    assert (last.name, last.status, last.detail) == ("tools", *wanted)


async def test_a_type_that_json_schema_does_not_have_is_named_and_data_is_not_mistaken_for_one(
    open_host: OpenHost, tmp_path: Path
) -> None:
    fine = '{"type": "object", "properties": {"type": {"type": "string"}, "car": {"default": {"type": "estate"}}}}'
    typo = '{"type": "object", "properties": {"size": {"type": "str"}}}'
    tools = f'[{{"name": "fine", "inputSchema": {fine}}}, {{"name": "typo", "inputSchema": {typo}}}]'
    steps = await diagnose(open_host, working(tools=tools), tmp_path)
    (step,) = [step for step in steps if step.status != "ok"]
    assert "1 tool that some providers may refuse: typo (the type 'str'" in step.detail


async def test_a_server_that_is_not_approved_is_not_started(open_host: OpenHost, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    (server,) = parse_servers(
        {"mcpServers": {"x": program(f"open({str(mark)!r}, 'w')")}}, str(tmp_path / "mcp.json"), "user", lambda _: None
    )
    async with open_host(servers=(server,)) as host:
        steps = [step async for step in diagnose_server(host.servers, "x")]
    check(steps, "approval", "was not started", "mcphost servers trust x")
    assert not mark.exists()


async def test_the_address_of_a_server_that_is_not_approved_is_neither_looked_up_nor_contacted(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[Any] = []
    look_up = socket.getaddrinfo

    def record(*request: Any, **more: Any) -> Any:
        looked_up.append(request[0])
        return look_up(*request, **more)

    contacts: list[int] = []

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        contacts.append(1)
        writer.close()

    monkeypatch.setattr(socket, "getaddrinfo", record)
    monkeypatch.setenv("DIAGNOSED_SECRET", "127.0.0.1")
    async with serve(count) as port:
        entry = {"url": f"http://${{DIAGNOSED_SECRET}}:{port}/mcp"}
        (server,) = parse_servers({"mcpServers": {"x": entry}}, str(tmp_path / ".mcp.json"), "project", lambda _: None)
        async with open_host(servers=(server,)) as host:
            steps = [step async for step in diagnose_server(host.servers, "x")]
    assert (looked_up, contacts) == ([], [])
    check(steps, "approval", "was not contacted", "mcphost servers trust x")


async def test_what_a_server_says_is_shown_without_control_characters_and_bounded(
    open_host: OpenHost, tmp_path: Path
) -> None:
    steps = await diagnose(open_host, fails_with("\x1b[2J\u202eevil" + "x" * 100_000), tmp_path)
    assert "\x1b" not in steps[-1].detail
    assert "\u202e" not in steps[-1].detail
    assert len(steps[-1].detail) <= 1_000


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


Response = tuple[str, bytes, tuple[str, ...]]


def respond(status: str, body: bytes = b"", *headers: str) -> Handler:
    """Return a handler that sends the same response to each HTTP request."""
    return respond_by_path(lambda _: (status, body, headers))


def respond_by_path(choose: Callable[[str], Response]) -> Handler:
    """Return a handler whose response (status, body, headers) is chosen by the path of the request."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].split()
                if length:
                    await reader.readexactly(int(length[0]))
                status, body, headers = choose(head.split()[1].decode())
                more = "".join(f"{header}\r\n" for header in headers)
                writer.write(f"HTTP/1.1 {status}\r\n{more}content-length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return handle


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer any data with status 400, as an HTTP server does for an invalid request."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


@asynccontextmanager
async def serve(handler: Handler, tls: Any = None) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def html(status: str) -> Handler:
    return respond(status, b"<html><body>Hello</body></html>", "content-type: text/html")


ADDRESSES: dict[str, tuple[Handler, str, str, str, str]] = {
    "a wrong path": (respond("404 Not Found"), "/", "HTTP", "404", "/mcp"),
    "a path of the older transport": (respond("405 Method Not Allowed"), "/", "HTTP", "405", "/sse"),
    "a forbidden account": (respond("403 Forbidden"), "/mcp", "HTTP", "403", "headers"),
    "a gateway without its server": (respond("502 Bad Gateway"), "/mcp", "HTTP", "502", ""),
    "a server that limits requests": (
        respond("429 Too Many Requests", b"", "retry-after: 30"),
        "/mcp",
        "HTTP",
        "429",
        "wait, then try again",
    ),
    "a host name that the server refuses": (
        respond("421 Misdirected Request", b"Invalid Host header"),
        "/mcp",
        "HTTP",
        "Invalid Host header",
        "host name",
    ),
    "a proxy that asks for a password": (
        respond("407 Proxy Authentication Required"),
        "/mcp",
        "HTTP",
        "407",
        "HTTPS_PROXY",
    ),
    "a server that is overloaded": (respond("503 Service Unavailable"), "/mcp", "HTTP", "503", ""),
    "a web page": (html("200 OK"), "/", "HTTP", "text/html", "another kind of server"),
    "a sign-in that is needed": (
        respond("401 Unauthorized", b"", "www-authenticate: Bearer"),
        "/mcp",
        "sign-in",
        "",
        "",
    ),
    "a server that says nothing": (say_nothing, "/mcp", "answer", "did not answer", ""),
    "a server that hangs up": (hang_up, "/mcp", "HTTP", "", ""),
    "a redirect to another origin": (
        respond("307 Moved", b"", "location: http://127.0.0.1:9/"),
        "/mcp",
        "HTTP",
        "",
        "",
    ),
}


@pytest.mark.parametrize("case", ADDRESSES)
async def test_a_broken_address_is_explained(open_host: OpenHost, tmp_path: Path, case: str) -> None:
    handler, path, *expected = ADDRESSES[case]
    async with serve(handler) as port:
        steps = await diagnose(open_host, {"url": f"http://127.0.0.1:{port}{path}"}, tmp_path)
    check(steps, *expected)


WRONG_TRANSPORTS: dict[str, tuple[str, Handler, str]] = {
    "sse at an address that takes POST only": ("sse", respond("405 Method Not Allowed"), 'Remove "type": "sse"'),
    "sse at an address that wants a session": ("sse", respond("400 Bad Request"), 'Remove "type": "sse"'),
    "sse at an address that wants both types": ("sse", respond("406 Not Acceptable"), 'Remove "type": "sse"'),
    "sse at an address that answers JSON": (
        "sse",
        respond("200 OK", b"{}", "content-type: application/json"),
        'Remove "type": "sse"',
    ),
    "streamable-http at an address of the older transport": (
        "streamable-http",
        respond("405 Method Not Allowed"),
        'write "type": "sse"',
    ),
}


@pytest.mark.parametrize("case", WRONG_TRANSPORTS)
async def test_a_transport_that_the_address_does_not_speak_is_explained(
    open_host: OpenHost, tmp_path: Path, case: str
) -> None:
    kind, handler, hint = WRONG_TRANSPORTS[case]
    async with serve(handler) as port:
        steps = await diagnose(open_host, {"url": f"http://127.0.0.1:{port}/mcp", "type": kind}, tmp_path)
    check(steps, "HTTP", "", hint)


@pytest.mark.parametrize(("is_there", "status"), [(True, "ok"), (False, "warning")])
async def test_the_documents_for_a_sign_in_are_a_step_of_their_own(
    open_host: OpenHost, tmp_path: Path, *, is_there: bool, status: str
) -> None:
    asked: list[str] = []

    def choose(path: str) -> Response:
        asked.append(path)
        if "well-known" not in path:
            return "401 Unauthorized", b"", ("www-authenticate: Bearer",)
        document = json.dumps({"resource": "x", "authorization_servers": ["https://issuer.example"]}).encode()
        return ("200 OK", document, ()) if is_there else ("404 Not Found", b"", ())

    async with serve(respond_by_path(choose)) as port:
        steps = await diagnose(open_host, {"url": f"http://127.0.0.1:{port}/mcp"}, tmp_path)
    assert [(step.name, step.status) for step in steps[-2:]] == [("well-known", status), ("sign-in", "failed")]
    assert ("https://issuer.example" if is_there else "answered 404") in steps[-2].detail
    assert "/.well-known/oauth-protected-resource/mcp" in asked


async def test_a_closed_port_and_an_unknown_name_are_explained(open_host: OpenHost, tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        steps = await diagnose(open_host, {"url": f"http://127.0.0.1:{port}/mcp"}, tmp_path)
    check(steps, "port", "Nothing listens at 127.0.0.1", "Start the server")
    steps = await diagnose(open_host, {"url": "https://name.invalid/mcp"}, tmp_path)
    check(steps, "name", "name.invalid cannot be resolved", "spelling")


CERTIFICATES: dict[str, tuple[str, int, int, bool, str, str]] = {
    "an unknown authority": ("127.0.0.1", 1, -10, False, "from an unknown authority", '"caFile"'),
    "another name": ("another.example", 1, -10, True, "for another name than 127.0.0.1", "name of the certificate"),
    "an expired certificate": ("127.0.0.1", -1, -10, True, "has expired", "Renew it"),
    "a clock that is wrong": ("127.0.0.1", 20, 10, True, "not valid yet; this machine's clock says", "Set the clock"),
}


@pytest.mark.parametrize("case", CERTIFICATES)
async def test_a_certificate_that_is_refused_is_explained(open_host: OpenHost, tmp_path: Path, case: str) -> None:
    host, days, starts_in, is_known, reason, hint = CERTIFICATES[case]
    authority = CertificateAuthority(tmp_path)
    async with serve(respond("404 Not Found"), authority.context(host, days, starts_in)) as port:
        own = {"mcphost": {"caFile": authority.file}} if is_known else {}
        steps = await diagnose(open_host, {"url": f"https://127.0.0.1:{port}/mcp", **own}, tmp_path)
    check(steps, "certificate", reason, hint)


async def test_a_certificate_that_newer_pythons_refuse_is_explained(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_standard(monkeypatch)
    authority = CertificateAuthority(tmp_path, follows_standard=False)
    async with serve(respond("404 Not Found"), authority.context()) as port:
        entry = {"url": f"https://127.0.0.1:{port}/mcp", "mcphost": {"caFile": authority.file}}
        steps = await diagnose(open_host, entry, tmp_path)
    check(steps, "certificate", "does not follow RFC 5280: ", "Issue the certificate and that of its authority again")


async def test_a_good_certificate_is_a_step_of_its_own(open_host: OpenHost, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    async with serve(respond("404 Not Found"), authority.context()) as port:
        entry = {"url": f"https://127.0.0.1:{port}/mcp", "mcphost": {"caFile": authority.file}}
        steps = await diagnose(open_host, entry, tmp_path)
    assert [step.name for step in steps] == ["configuration", "URL", "name", "port", "certificate", "HTTP"]
    assert "TLSv1.3, valid until" in steps[4].detail


async def test_https_at_a_port_of_http_and_the_reverse_are_explained(open_host: OpenHost, tmp_path: Path) -> None:
    async with serve(reject) as port:
        steps = await diagnose(open_host, {"url": f"https://127.0.0.1:{port}/mcp"}, tmp_path)
    check(steps, "certificate", "", "http:// in url")
    async with serve(respond("404 Not Found"), CertificateAuthority(tmp_path).context()) as port:
        steps = await diagnose(open_host, {"url": f"http://127.0.0.1:{port}/mcp"}, tmp_path)
    check(steps, "HTTP", "", "https://")


async def test_a_proxy_that_cannot_be_reached_is_explained(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    steps = await diagnose(open_host, {"url": "https://mcp.example.com/mcp"}, tmp_path)
    check(steps, "proxy", "The proxy 127.0.0.1:9 cannot be reached", "NO_PROXY")


def test_doctor_diagnoses_the_named_servers_and_all_that_fail(program: Program) -> None:
    file = program.servers(good=working(), bad={"command": "nope-x"}, other=working())
    done = program.run("doctor", "--mcp-config", file, "good", "bad")
    assert done.returncode == 4
    shown = done.stdout.decode()
    assert not any("other" in line or "keyring" in line for line in shown.splitlines())
    assert "  ok       command: " in shown
    assert "  failed   command: 'nope-x' was not found in PATH. Install it" in shown
    document = json.loads(program.run("doctor", "--mcp-config", file, "--json").stdout)
    steps = {check["name"]: [step["name"] for step in check["steps"]] for check in document["checks"]}
    assert steps["server good"] == []
    assert steps["server bad"][-1] == "command"
    assert "version" in steps
    assert program.run("doctor", "--mcp-config", file, "gone").returncode == 2


def test_at_least_45_broken_set_ups_are_explained() -> None:
    assert len(BROKEN_PROGRAMS) + len(ADDRESSES) + len(CERTIFICATES) >= 45
