"""Tests for internal errors during a sign-in: there is a message and an exit code, and no secret is exposed."""

import json
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import Program
from tests.flows.sign_in_program import SignedInServer, events_until, read_authorization_url, visit_authorization_page
from tests.terminal.terminal import PROMPT, Terminal
from tests.unit.auth.oauth_peer import OAuthPeer, run_peer

pytestmark = [pytest.mark.anyio, pytest.mark.req("sec.logs-redact")]
BROKEN = str(Path(__file__).with_name("fault_injection.py"))


def secrets_of(peer: OAuthPeer) -> set[str]:
    """Return the secrets that are in memory when the injected fault occurs."""
    return {*peer.codes, *(question["state"] for question in peer.asked)}


def read_all(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file() and "servers-" not in path.name]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.parametrize("loud", [False, True], ids=["", "debug"])
async def test_on_the_command_line(tmp_path: Path, loud: bool) -> None:
    program = Program(tmp_path)
    program.configure_secret_store("session")
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        command = [sys.executable, BROKEN, "exchange", "login", "tracker", "--no-browser", "--mcp-config", config]
        command += ["--log-level", "debug"] if loud else []
        async with await anyio.open_process(command, env=program.env, cwd=program.work) as process:
            output = bytearray()
            url = await read_authorization_url(process, output)
            await visit_authorization_page(url)
            assert process.stderr
            output += b"".join([chunk async for chunk in process.stderr])
            assert await process.wait() == 1
    shown = output.decode().replace(url, "")
    assert "mcphost crashed (RuntimeError)" in shown
    assert "Traceback" not in shown
    log = await anyio.to_thread.run_sync(read_all, tmp_path)
    assert "fail_exchange" in log
    assert len(secrets_of(peer)) == 2
    assert [secret for secret in secrets_of(peer) if secret in shown + log] == []


async def test_on_the_pipe(tmp_path: Path) -> None:
    program = Program(tmp_path)
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        command = [sys.executable, BROKEN, "exchange", "pipe", "--mcp-config", config]
        async with await anyio.open_process(command, env=program.env, cwd=program.work) as process:
            question, rest = await events_until(process, "question", b"")
            answer = {"id": 1, "do": "answer", "question": question["question"], "answer": "once"}
            assert process.stdin
            assert process.stdout
            assert process.stderr
            await process.stdin.send(json.dumps(answer).encode() + b"\n")
            await visit_authorization_page(question["url"])
            failed, rest = await events_until(process, "server_state", rest, state="failed")
            await process.stdin.aclose()
            rest += b"".join([chunk async for chunk in process.stdout])
            rest += b"".join([chunk async for chunk in process.stderr])
            await process.wait()
    shown = json.dumps(failed) + rest.decode().replace(question["url"], "")
    log = await anyio.to_thread.run_sync(read_all, tmp_path)
    assert "fail_exchange" in log
    assert len(secrets_of(peer)) == 2
    assert [secret for secret in secrets_of(peer) if secret in shown + log] == []


async def test_on_the_screen_while_a_secret_is_typed_and_while_a_code_is_redeemed(tmp_path: Path) -> None:
    follow = tmp_path / "browser"
    follow.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request as u; u.build_opener(u.ProxyHandler({{}})).open(sys.argv[1])\n"
    )
    follow.chmod(0o755)

    def drive(config: str) -> str:
        with Terminal(tmp_path, environment={"BROWSER": str(follow), "COLUMNS": "120"}) as terminal:

            def begun(where: str) -> None:
                terminal.run(sys.executable, BROKEN, where, "--mcp-config", config)
                terminal.wait_for_question("Enter a client ID for tracker?")
                terminal.press("e")
                terminal.wait_for("enter continue ·")
                terminal.type("by-hand")
                terminal.press("Enter")
                terminal.wait_for_cursor("client secret")
                terminal.type("the-client-secret-7")
                terminal.wait_for("•" * 19)
                terminal.press("Enter")

            begun("dialog")
            terminal.wait_for("mcphost crashed (RuntimeError)")
            terminal.wait_for_shell()
            assert terminal.is_plain()
            terminal.type("echo code $?")
            terminal.press("Enter")
            terminal.wait_for("code 1")
            first = terminal.tmux("capture-pane", "-p", "-J", "-S", "-")
            terminal.run("clear")
            terminal.wait_until(lambda screen: screen.strip() == PROMPT, "an empty screen")
            begun("exchange")
            terminal.wait_for_question("Sign in to tracker?", "client_id=by-hand")
            terminal.press("o")
            terminal.wait_until(lambda _: "fail_exchange" in read_all(tmp_path), "the mistake in the log")
            seen = terminal.wait_until(lambda screen: "Sign in to tracker?" not in screen, "the end of the question")
            terminal.press("C-q")
            terminal.wait_for_shell()
            return first + seen + terminal.tmux("capture-pane", "-p", "-J", "-S", "-")

    document = {"registration_endpoint": None, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with run_peer(kind=SignedInServer, document=document) as peer:
        config = Program(tmp_path).servers(tracker={"url": peer.url})
        shown = await anyio.to_thread.run_sync(drive, config)
    log = await anyio.to_thread.run_sync(read_all, tmp_path)
    assert "fail_dialog" in log
    assert "fail_exchange" in log
    assert "Traceback" not in shown
    assert len(secrets_of(peer)) == 2
    assert [secret for secret in (*secrets_of(peer), "the-client-secret-7") if secret in shown + log] == []
