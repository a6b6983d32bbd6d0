"""Tests for interrupting a command's prompt with Ctrl+C: the exit code is 130, and nothing is stored in part."""

import json
import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import Program
from tests.flows.sign_in_program import BROWSER_CODE, SignedInServer
from tests.terminal.demo_program import MCPHOST_PATH
from tests.terminal.terminal import PROMPT, Terminal
from tests.unit.auth.oauth_peer import run_peer

pytestmark = pytest.mark.anyio


class ShellTerminal:
    """A terminal that runs commands one after another, each on an empty screen."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def clear(self) -> None:
        self.terminal.run("clear")
        self.terminal.wait_until(lambda screen: screen.strip() == PROMPT, "an empty screen")

    def start(self, *command: str) -> None:
        self.clear()
        self.terminal.run(MCPHOST_PATH, *command)

    def answer(self, prompt: str, text: str) -> None:
        """Wait for the prompt, type *text*, and press Enter."""
        self.terminal.wait_for(prompt)
        self.terminal.type(text)
        self.terminal.press("Enter")

    def interrupt(self, prompt: str, typed: str = "half a word") -> None:
        """Wait for the prompt, type part of an answer, press Ctrl+C, and print the exit code and terminal settings."""
        self.terminal.wait_for(prompt)
        self.terminal.type(typed)
        self.terminal.press("C-c")
        shown = self.terminal.wait_for_shell()
        assert "Traceback" not in shown, shown
        self.terminal.type("echo code $?; stty -a | grep -o ' echo ' | tr ' ' =")
        self.terminal.press("Enter")


@pytest.mark.req("auth.token.storage-fallback", "auth.reg.preregistered-old")
async def test_ctrl_c_at_any_prompt_of_a_sign_in_restores_the_terminal_and_stores_nothing(
    tmp_path: Path,
) -> None:
    nobody = {"registration_endpoint": None, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
    follow = tmp_path / "browser"
    follow.write_text(f"#!{sys.executable}\n{BROWSER_CODE}\n")
    follow.chmod(0o755)
    environment = {"BROWSER": str(follow), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}

    def kept() -> list[str]:
        return sorted(path.name for path in (tmp_path / "data").glob("*s*.json"))

    def drive(config: str) -> None:
        login = ("login", "tracker", "--yes", "--mcp-config", config)
        with Terminal(tmp_path, environment=environment) as terminal:
            shell = ShellTerminal(terminal)
            left = partial(terminal.wait_for, "code 130", "=echo=")
            shell.start(*login)
            shell.interrupt("Client ID (empty")
            left()
            shell.start(*login)
            shell.answer("Client ID (empty", "by-hand")
            shell.interrupt("Client secret, which is not shown", "half-a-secret")
            assert "half-a" not in left()
            assert peer.asked == []
            for prompts in ((), (("[n]", "e"),), (("[n]", "e"), ("Passphrase (empty", "a phrase"))):
                shell.start(*login)
                shell.answer("Client ID (empty", "by-hand")
                shell.answer("Client secret, which is not shown", "the-client-secret-7")
                for prompt, text in prompts:
                    shell.answer(prompt, text)
                shell.interrupt(("[n]", "Passphrase (empty", "Repeat the passphrase")[len(prompts)])
                left()
                assert kept() == []
                assert not (tmp_path / "config").exists()
            shell.start(*login)
            shell.answer("Client ID (empty", "by-hand")
            shell.answer("Client secret, which is not shown", "the-client-secret-7")
            shell.answer("[n]", "e")
            shell.answer("Passphrase (empty", "a phrase")
            shell.answer("Repeat the passphrase", "a phrase")
            terminal.wait_for("Signed in to tracker at", "secrets.store")
            terminal.wait_for_shell()
            before = (tmp_path / "data" / "secrets.sealed.json").read_bytes()
            shell.start("tools", "tracker", "--mcp-config", config)
            shell.interrupt("Passphrase of ")
            left()
            shell.start("tools", "tracker", "--mcp-config", config)
            shell.answer("Passphrase of ", "a phrase")
            terminal.wait_for("hello")
            assert (tmp_path / "data" / "secrets.sealed.json").read_bytes() == before

    async with run_peer(kind=SignedInServer, document=nobody) as peer:
        config = Program(tmp_path).servers(tracker={"url": peer.url})
        await anyio.to_thread.run_sync(drive, config)
    assert {form["client_secret"] for form in peer.forms} == {"the-client-secret-7"}


async def test_inputs_of_a_server_are_asked_for_once_and_a_password_is_not_shown(tmp_path: Path) -> None:
    inputs = [
        {"id": "region", "type": "pickString", "description": "Which region", "options": ["eu", "us"], "default": "eu"},
        {"id": "name", "type": "promptString", "default": "ada"},
        {"id": "token", "type": "promptString", "description": "Your token", "password": True},
    ]
    entry = {"command": "x", "args": ["${input:region}", "${input:name}"], "env": {"TOKEN": "${input:token}"}}
    pasted = tmp_path / "pasted.json"
    pasted.write_text(json.dumps({"servers": {"its": entry}, "inputs": inputs}))

    def drive() -> None:
        nowhere = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
        with Terminal(tmp_path, environment=nowhere) as terminal:
            shell = ShellTerminal(terminal)
            shell.clear()
            terminal.run("sh", "-c", f'exec {MCPHOST_PATH} servers add --json "$(cat {pasted})"')
            shell.answer("Add and approve it?", "y")
            shell.answer("Which region (for its) [eu]:", "2")
            shell.answer("name (for its) [ada]:", "")
            shell.answer("Your token (for its), not shown:", "typed-in-secret")
            shown = terminal.wait_for_shell()
            assert "The input token cannot be stored" in shown
            assert "typed-in-secret" not in shown
            shell.start("servers", "input", "its", "token")
            shell.interrupt("Your token (for its), not shown:", "half-a-secret")
            assert "half-a" not in terminal.wait_for("code 130", "=echo=")

    await anyio.to_thread.run_sync(drive)
    stored = json.loads((tmp_path / "config" / "inputs.json").read_text())
    assert stored == {str(tmp_path / "config" / "mcp.json"): {"its": {"region": "us", "name": "ada"}}}
