"""Tests that every wait during a sign-in on the command line is limited, even without a browser or client ID."""

import json
import signal
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import Program
from tests.flows.sign_in_program import SignedInServer, read_authorization_url, start_program
from tests.peers.oidc import run_oidc_provider
from tests.peers.oidc_browser import complete_sign_in
from tests.unit.auth.oauth_peer import run_peer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("how", ["--no-browser", "--device"])
async def test_ctrl_c_ends_a_wait(npm_peers: Path, program: Program, how: str) -> None:
    program.configure_secret_store("session")
    async with run_oidc_provider() as oidc:
        config = program.servers(tracker={"url": oidc.url})
        async with await start_program(program, "login", "tracker", how, "--mcp-config", config) as process:
            said = b""
            while b"Ctrl+C" not in said and b"paste the final address" not in said:
                said += await process.stderr.receive()
            process.send_signal(signal.SIGINT)
            with anyio.fail_after(20):
                assert await process.wait() == 130


async def test_an_unanswered_sign_in_times_out_and_is_reported(program: Program) -> None:
    program.configure_secret_store("session")
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url, "mcphost": {"oauth": {"seconds": 1}}})
        command = ("login", "tracker", "--no-browser", "--mcp-config", config)
        async with await start_program(program, *command) as process:
            with anyio.fail_after(20):
                said = b"".join([chunk async for chunk in process.stderr])
                assert await process.wait() == 6
    assert b"Nobody signed in to 'tracker' within 1 seconds" in said
    assert b"mcphost login tracker" in said


async def test_on_a_machine_without_a_screen_no_browser_is_tried_and_the_address_is_shown(program: Program) -> None:
    program.configure_secret_store("session")
    tried = program.home / "tried"
    folder = program.home / "bin"
    folder.mkdir()
    for name in ("xdg-open", "wslview", "gio", "x-www-browser"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {tried}\n")
        (folder / name).chmod(0o755)
    program.env["PATH"] = f"{folder}:{program.env['PATH']}"
    program.env["SSH_CONNECTION"] = "192.0.2.1 50000 192.0.2.2 22"
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "login", "tracker", "--json", "--mcp-config", config) as process:
            said = bytearray()
            await anyio.to_thread.run_sync(complete_sign_in, await read_authorization_url(process, said), "ada")
            output = b"".join([chunk async for chunk in process.stdout])
            assert await process.wait() == 0
    assert json.loads(output)["server"] == "tracker"
    assert not tried.exists()


async def test_a_client_id_is_entered_on_the_command_line_and_its_secret_is_in_no_file(program: Program) -> None:
    program.configure_secret_store("session")
    nobody = {"registration_endpoint": None, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with run_peer(kind=SignedInServer, document=nobody) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "login", "tracker", "--no-browser", "--mcp-config", config) as process:
            output = bytearray()
            await process.stdin.send(b"by-hand\nthe-client-secret-7\n")
            await anyio.to_thread.run_sync(complete_sign_in, await read_authorization_url(process, output), "ada")
            assert await process.wait() == 0
    assert b"does not register clients automatically" in output
    assert peer.asked[0]["client_id"] == "by-hand"
    assert peer.forms[0]["client_secret"] == "the-client-secret-7"
    stored = b"".join(path.read_bytes() for path in program.home.rglob("*") if path.is_file())
    assert b"the-client-secret-7" not in stored + output
