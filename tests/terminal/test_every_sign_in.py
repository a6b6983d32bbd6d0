"""Tests for the sign-in dialogs of the real program: Escape refuses, and keys typed ahead never answer."""

import json
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from mcphost.auth.file_backend import ENCRYPTED_FILE, EncryptedFileBackend
from mcphost.tui.dialogs.secret_storage import ChooseSecretStorageDialog, UnlockSecretsDialog
from mcphost.tui.dialogs.sign_in import EnterClientIdDialog, SignInDialog
from tests.flows.sign_in_program import SignedInServer
from tests.terminal.dialog_user import DialogUser
from tests.terminal.fake_browser import GET_URL, NO_KEYRING, create_browser
from tests.terminal.terminal import Terminal
from tests.unit.auth.oauth_peer import run_peer

ENTERED = "enter_client entered"


@pytest.mark.timeout(240)
def test_escape_cancels_a_sign_in_at_each_step_and_stores_nothing(tmp_path: Path) -> None:
    nobody = {"registration_endpoint": None, "token_endpoint_auth_methods_supported": ["none"]}
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(run_peer(kind=SignedInServer, document=nobody)) as peer,
        Terminal(tmp_path, environment={"BROWSER": create_browser(tmp_path, GET_URL), **NO_KEYRING}) as terminal,
    ):
        user = DialogUser(terminal, tmp_path)
        config = tmp_path / "given.json"
        config.write_text(json.dumps({"mcpServers": {"tracker": {"url": peer.url}}}))
        which, signs, keep = "Enter a client ID for tracker?", "Sign in to tracker?", "Store your sign-in for tracker?"

        def opens() -> None:
            terminal.start_chat("--model", "demo", "--mcp-config", str(config))

        def entered() -> None:
            # While the previous sign-in is not quite over, the key ends that one.
            terminal.wait_until(lambda screen: "sign-in needed" in screen and "s cancels" not in screen, "its end")
            terminal.press("s")
            user.wait_for_dialog(EnterClientIdDialog, which)
            user.press_until(["e"], lambda screen: "enter continue ·" in screen, "the lines")
            terminal.type("by-hand")
            terminal.press("Enter")
            terminal.wait_for_cursor("client secret")
            terminal.press("Enter")

        def signed() -> None:
            entered()
            user.press_through(SignInDialog, signs, key="o")

        user.expect_refusal(EnterClientIdDialog, opens, which, ahead=["e"], answers=["enter_client deny"])
        terminal.press("F3")
        terminal.wait_for("sign-in needed", "s sign in")
        user.expect_refusal(SignInDialog, entered, signs, ahead=["o"], answers=[ENTERED, "sign_in deny"])
        assert peer.asked == []
        terminal.press("Escape")  # the letters typed ahead went to the search line of the page
        terminal.wait_for("ctrl+p palette", "ctrl+q quit")
        terminal.press("F3")
        terminal.wait_for("sign-in needed", "s sign in")
        terminal.wait_between_keys()
        kept = [ENTERED, "sign_in in browser", "keep_secrets for this run"]
        user.expect_refusal(ChooseSecretStorageDialog, signed, keep, ahead=["e"], answers=kept)
        assert len(peer.asked) == 1
        assert [path.name for path in (tmp_path / "data").glob("secrets*")] == []


@pytest.mark.timeout(240)
def test_escape_leaves_the_file_of_sign_ins_locked_and_it_opens_by_keyboard_alone(tmp_path: Path) -> None:
    async def seals() -> None:
        backend = EncryptedFileBackend(tmp_path / "data" / ENCRYPTED_FILE)
        assert await backend.unlock("a passphrase")
        await backend.set("name", "value")

    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[secrets]\nstore = "encrypted"\n')
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(run_peer(kind=SignedInServer)) as peer,
        Terminal(tmp_path, environment=NO_KEYRING) as terminal,
    ):
        portal.call(seals)
        user = DialogUser(terminal, tmp_path)
        servers = {"tracker": {"url": peer.url}}
        opens, signs = "Unlock your sign-ins?", "Sign in to tracker?"
        kind = UnlockSecretsDialog
        user.expect_refusal(
            kind, lambda: user.start_chat(**servers), opens, ahead=["p"], answers=["unlock_secrets deny"]
        )
        user.press_through(SignInDialog, signs, key="Escape")
        terminal.press("C-q")
        terminal.wait_for_shell()
        user.start_chat(**servers)
        user.wait_for_dialog(kind, opens)
        user.press_until(["p"], lambda screen: "enter open the file" in screen, "the line")
        terminal.type("a passphrase")
        terminal.press("Enter")
        user.wait_for_dialog(SignInDialog, signs)
        assert user.answers(0)[-1] == "unlock_secrets passphrase"
