"""Tests for a sign-in on the screen of the real program, when the browser calls back and when it does not."""

import re
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import Program
from tests.flows.sign_in_program import SignedInServer
from tests.peers.oidc import run_oidc_provider
from tests.peers.oidc_browser import complete_sign_in, visit_elsewhere
from tests.terminal.demo_program import MCPHOST_PATH
from tests.terminal.fake_browser import GET_URL, NO_KEYRING, create_browser, open_sign_in_question
from tests.terminal.terminal import Terminal
from tests.unit.auth.oauth_peer import query, run_peer

pytestmark = pytest.mark.anyio


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


@pytest.mark.req("auth.401-starts", "auth.scope.shown")
async def test_the_browser_returns_and_the_server_is_ready(tmp_path: Path) -> None:
    def drive(config: str) -> None:
        terminal = open_sign_in_question(tmp_path, config, create_browser(tmp_path, GET_URL))
        try:
            terminal.press("o")
            terminal.wait_until(lambda screen: "Sign in to" not in screen and "1/1 server" in screen, "ready")
            terminal.press("C-q")
        finally:
            terminal.__exit__()

    async with run_peer(kind=SignedInServer) as peer:
        config = Program(tmp_path).servers(tracker={"url": peer.url})
        await anyio.to_thread.run_sync(drive, config)
    assert len(peer.asked) == 1


@pytest.mark.req("auth.callback.manual")
async def test_a_browser_on_another_machine_is_helped_by_pasting(tmp_path: Path) -> None:
    told_file = tmp_path / "told"

    def drive(config: str) -> None:
        terminal = open_sign_in_question(
            tmp_path, config, create_browser(tmp_path, f"open({str(told_file)!r}, 'w').write(url)")
        )
        try:
            terminal.press("o")
            terminal.wait_for_question("Opened in your browser")
            terminal.press("p")
            terminal.wait_for("enter use the address")
            terminal.wait_until(lambda _: told_file.exists() and bool(told_file.read_text()), "what the browser got")
            params = query(told_file.read_text())
            peer.codes["typed"] = params
            terminal.type(f"{params['redirect_uri']}?code=typed&state={params['state']}")
            terminal.press("Enter")
            terminal.wait_until(lambda screen: "Sign in to" not in screen and "1/1 server" in screen, "ready")
            terminal.press("C-q")
        finally:
            terminal.__exit__()

    async with run_peer(kind=SignedInServer) as peer:
        config = Program(tmp_path).servers(tracker={"url": peer.url})
        await anyio.to_thread.run_sync(partial(drive, config))
    assert [form["code"] for form in peer.forms] == ["typed"]


@pytest.mark.req("auth.reg.preregistered-old")
async def test_a_client_id_is_entered_and_its_secret_never_seen(tmp_path: Path) -> None:
    def drive(config: str) -> str:
        with Terminal(tmp_path, environment={"BROWSER": create_browser(tmp_path, GET_URL)}) as terminal:
            terminal.start_chat("--mcp-config", config)
            terminal.wait_for_question(
                "Enter a client ID for tracker?", "does not register clients automatically", "/callback"
            )
            terminal.press("e")
            terminal.wait_for("client secret", "enter continue ·")
            terminal.type("by-hand")
            terminal.press("Enter")
            terminal.wait_for_cursor("client secret")
            terminal.type("the-client-secret-7")
            typed = terminal.wait_for("by-hand", "•" * 19)
            terminal.press("Enter")
            terminal.wait_for_question("Sign in to tracker?", "client_id=by-hand")
            terminal.press("o")
            terminal.wait_until(lambda screen: "Sign in to" not in screen and "1/1 server" in screen, "ready")
            terminal.press("C-q")
            return typed

    nobody = {"registration_endpoint": None, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with run_peer(kind=SignedInServer, document=nobody) as peer:
        config = Program(tmp_path).servers(tracker={"url": peer.url})
        typed = await anyio.to_thread.run_sync(drive, config)
    assert "secret-7" not in typed
    assert peer.forms[0]["client_secret"] == "the-client-secret-7"
    assert files_with(tmp_path, b"secret-7") == []


@pytest.mark.peer
@pytest.mark.req("auth.callback.manual", "auth.token.storage-fallback")
async def test_a_code_is_entered_elsewhere_the_sign_in_sealed_and_opened_by_the_next_run(
    npm_peers: Path, tmp_path: Path
) -> None:
    def drive(config: str) -> None:
        with Terminal(tmp_path, environment=NO_KEYRING) as terminal:
            terminal.start_chat("--mcp-config", config)
            terminal.wait_for_question("Sign in to tracker?", "c code")
            terminal.press("c")
            shown = terminal.wait_for("Enter this code at", "c without a code", "checks every 5 s", "left")
            place = re.search(r"http://127\.0\.0\.1:\d+/device", shown)
            code = re.search(r"(?:[A-Z] ){4}- (?:[A-Z] ){3}[A-Z]", shown)
            assert place, shown
            assert code, shown
            complete_sign_in(place[0], "ada", code[0].replace(" ", ""))
            terminal.wait_for_question("Store your sign-in for tracker?", "e encrypted file")
            terminal.press("e")
            terminal.wait_for("enter continue ·")
            terminal.type("the passphrase")
            terminal.press("Enter")
            terminal.wait_for_cursor("repeat it")
            terminal.type("the passphrase")
            assert "the pass" not in terminal.screen()
            terminal.press("Enter")
            terminal.wait_until(lambda screen: "Store your" not in screen and "1/1 server" in screen, "ready")
            terminal.press("C-q")
            terminal.wait_for_shell()
            terminal.start_chat("--mcp-config", config)
            terminal.wait_for_question("Unlock your sign-ins?")
            terminal.press("p")
            terminal.wait_for("enter open the file")
            terminal.type("the wrong one")
            terminal.press("Enter")
            terminal.wait_for("That is not the passphrase of this file.", "enter open the file")
            terminal.type("the passphrase")
            terminal.press("Enter")
            terminal.wait_until(lambda screen: "Unlock your" not in screen and "1/1 server" in screen, "ready")
            terminal.press("C-q")
            terminal.wait_for_shell()

    async with run_oidc_provider() as oidc:
        config = Program(tmp_path).servers(tracker={"url": oidc.url})
        await anyio.to_thread.run_sync(drive, config)
    assert oidc.grants() == ["urn:ietf:params:oauth:grant-type:device_code"]
    assert 'store = "encrypted"' in (tmp_path / "config" / "config.toml").read_text()
    assert "passphrase" not in "".join(path.read_text() for path in (tmp_path / "data").glob("*.json"))


async def test_where_a_sign_in_is_stored_is_asked_after_the_browser_answered_a_login(tmp_path: Path) -> None:
    def drive(config: str) -> None:
        environment = {**NO_KEYRING, "BROWSER": create_browser(tmp_path, GET_URL)}
        with Terminal(tmp_path, environment=environment) as terminal:
            terminal.run(MCPHOST_PATH, "login", "tracker", "--yes", "--mcp-config", config)
            terminal.wait_for("Where should it be stored?", "[n]")
            terminal.type("forget it")
            terminal.press("Enter")
            terminal.wait_for("Type one of these letters: n, e, f.")
            terminal.type("f")
            terminal.press("Enter")
            terminal.wait_for("Signed in to tracker at")
            terminal.wait_for_shell()

    async with run_peer(kind=SignedInServer) as peer:
        config = Program(tmp_path).servers(tracker={"url": peer.url})
        await anyio.to_thread.run_sync(drive, config)
    assert 'store = "file"' in (tmp_path / "config" / "config.toml").read_text()


@pytest.mark.peer
@pytest.mark.req("auth.callback.manual")
async def test_login_shows_a_code_for_a_browser_elsewhere_or_accepts_its_final_url(
    npm_peers: Path, tmp_path: Path
) -> None:
    def kept_nowhere(terminal: Terminal) -> None:
        terminal.wait_for("Where should it be stored?", "[n]")
        terminal.type("n")
        terminal.press("Enter")
        terminal.wait_for("Signed in to tracker at")
        terminal.wait_for_shell()

    def drive(config: str) -> None:
        with Terminal(tmp_path, environment=NO_KEYRING) as terminal:
            terminal.run(MCPHOST_PATH, "login", "tracker", "--device", "--mcp-config", config)
            shown = terminal.wait_for("enter the code", "/device", "Waiting for the code")
            words = " ".join(shown.split())
            code = re.search(r"enter the code (\S+):", words)
            place = re.search(r"http://127\.0\.0\.1:\d+/device", words)
            assert code, shown
            assert place, shown
            complete_sign_in(place[0], "ada", code[1])
            kept_nowhere(terminal)
            terminal.run("clear")
            terminal.wait_until(lambda screen: "Signed in" not in screen, "clear")
            terminal.run(MCPHOST_PATH, "login", "tracker", "--no-browser", "--mcp-config", config)
            shown = terminal.wait_for("paste the final address")
            url = re.search(r"http://127\.0\.0\.1:\d+/auth\?\S+", shown.replace("\n", ""))
            assert url, shown
            address = url[0].partition("mcphost:")[0].partition("If the")[0]
            terminal.type(visit_elsewhere(address, "ada"))
            terminal.press("Enter")
            kept_nowhere(terminal)

    async with run_oidc_provider() as oidc:
        config = Program(tmp_path).servers(tracker={"url": oidc.url})
        await anyio.to_thread.run_sync(drive, config)
    assert oidc.grants() == ["urn:ietf:params:oauth:grant-type:device_code", "authorization_code"]
