"""Tests for sign-ins that several mcphost processes store, share and revoke, with a real provider and keyring."""

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import PipeClient, Program
from tests.flows.secret_service import secret_service
from tests.peers.oidc import OidcProvider, create_oidc_browser, run_oidc_provider
from tests.peers.oidc_browser import complete_sign_in

pytestmark = [pytest.mark.anyio, pytest.mark.peer, pytest.mark.timeout(180)]
RACES = 20
PAUSE = 0.1
"""Seconds between two calls: many in the life of a token, and few enough to leave the machine to others."""


class UserMachine:
    """A user's machine: mcphost's folders, a keyring, and a browser that signs in."""

    def __init__(self, folder: Path, keyring: dict[str, str]) -> None:
        self.folder = folder
        self.program = Program(folder)
        self.program.env |= keyring

    async def run(self, *arguments: str, code: int = 0, login: str = "ada") -> Any:
        """Run a command, signing in as *login* if asked, and return its JSON output, or None if there is none."""
        env = {"BROWSER": create_oidc_browser(self.folder, login)}
        work = partial(self.program.text, *arguments, "--json", code=code, seconds=60, **env)
        out = await anyio.to_thread.run_sync(work)
        return json.loads(out) if out else None


@pytest.fixture
async def machine(npm_peers: Path, tmp_path: Path) -> AsyncIterator[UserMachine]:
    with secret_service(tmp_path) as keyring:
        yield UserMachine(tmp_path, keyring)


def account_entries(provider: OidcProvider, *names: str) -> dict[str, Any]:
    """Return mcp.json entries for the same server, one for each named account."""
    return {name: {"url": provider.url, "mcphost": {"oauth": {"account": name}}} for name in names}


def result_text(result: Any) -> str:
    return result["content"][0]["text"]


@pytest.mark.req("auth.token.storage", "auth.signout", "auth.stepup.403", "auth.stepup.union", "auth.refresh.rotation")
async def test_the_keyring_carries_a_sign_in_from_command_to_command_until_logout_revokes_it(
    machine: UserMachine,
) -> None:
    async with run_oidc_provider(seconds=2) as oidc:
        config = ("--mcp-config", machine.program.servers(oidc={"url": oidc.url}))
        signed = await machine.run("login", "oidc", "--yes", *config)
        assert signed["kept"]
        assert signed["scopes"] == ["tools:read"]
        listed = await machine.run("tools", "oidc", *config)
        assert [tool["name"] for tool in listed["tools"]] == ["whoami", "peek"]
        # No user can be asked for more scopes here, so the error explains it; old and new scopes are requested.
        refused = partial(machine.program.error, "call", "oidc", "whoami", *config, code=6)
        assert "mcphost login oidc --scope tools:write" in " ".join((await anyio.to_thread.run_sync(refused)).split())
        more = await machine.run("login", "oidc", "--yes", "--scope", "tools:write", *config)
        assert sorted(more["scopes"]) == ["tools:read", "tools:write"]
        assert result_text(await machine.run("call", "oidc", "whoami", *config)) == "ada may tools:read tools:write"
        await anyio.sleep(2)
        assert "ada" in result_text(await machine.run("call", "oidc", "peek", *config))
        assert "refresh_token" in oidc.grants()
        assert oidc.grants().count("authorization_code") == 2
        last = [event for event in oidc.events if event.get("refresh")][-1]
        assert await machine.run("logout", "oidc", *config) == {"server": "oidc", "signed_out": True, "revoked": True}
        answer = await oidc.refresh(last)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
        assert (await machine.run("accounts"))["accounts"] == []
        await machine.run("tools", "oidc", *config, code=6)


@pytest.mark.req("auth.refresh.single-flight", "auth.refresh.rotation")
async def test_two_programs_that_renew_at_the_same_moment_never_lose_the_family(
    npm_peers: Path, tmp_path: Path
) -> None:
    del npm_peers
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with secret_service(folder) as keyring:
            try:
                return await two_programs_renew(UserMachine(folder, keyring))
            except Exception:
                if not keyring.aborted:
                    raise
        print("gnome-keyring aborted; once more with a new one")
    pytest.fail("gnome-keyring aborted three times")


async def two_programs_renew(machine: UserMachine) -> None:
    # The provider counts whole seconds, so a token of three lives at least two. Each account is a race of its own.
    lifetime, names = 3, ("a", "b", "c", "d")
    async with run_oidc_provider(seconds=lifetime) as oidc:
        config = ("--mcp-config", machine.program.servers(**account_entries(oidc, *names)))
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(partial(machine.run, "login", name, "--yes", *config, login=name))
        started_at, calls = time.monotonic(), list[int]()

        def result(pipe: PipeClient, ident: int) -> dict[str, Any]:
            # Nothing asks the user to sign in again; waiting for that would never end.
            found = pipe.wait(lambda event: event["event"] == "question" or event.get("id") == ident)
            if found["event"] != "result":
                pytest.fail(f"instead of the result: {json.dumps(found)}")
            return found

        renewed = threading.Event()

        def look() -> None:
            if oidc.grants().count("refresh_token") >= RACES:
                renewed.set()
            renewed.wait(PAUSE)

        # Both send their calls at once, so both need a new token whenever one expires.
        start = threading.Barrier(2, look, timeout=60)

        def one_program() -> None:
            count = 0
            with machine.program.pipe(*config) as pipe, abort_on_failure(start):
                while start.wait() >= 0 and not renewed.is_set():
                    asked = [pipe.send("call", server=name, tool="peek", arguments={}) for name in names]
                    for ident, name in zip(asked, names, strict=True):
                        found = result(pipe, ident)
                        assert found["ok"], found
                        assert result_text(found["result"]).startswith(name)
                    count += 1
                pipe.end()
            calls.append(count)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, one_program)
            tasks.start_soon(anyio.to_thread.run_sync, one_program)
        took = time.monotonic() - started_at
    assert oidc.grants("grant.error") == []
    assert oidc.grants("grant.revoked") == []
    assert oidc.grants().count("authorization_code") == len(names)
    # The second process reads what the first one stored: one refresh for each token, not two.
    assert oidc.grants().count("refresh_token") <= len(names) * (took / (lifetime - 1) + 1)
    assert len(calls) == 2
    assert min(calls) > 0


@contextmanager
def abort_on_failure(barrier: threading.Barrier) -> Iterator[None]:
    """Abort the barrier if the block fails, so that the other threads do not wait for this one."""
    try:
        yield
    except BaseException:
        barrier.abort()
        raise


async def test_two_accounts_of_one_server_are_two_users_and_are_separated_one_by_one(machine: UserMachine) -> None:
    async with run_oidc_provider() as oidc:
        config = ("--mcp-config", machine.program.servers(**account_entries(oidc, "work", "personal")))
        for name, login in (("work", "ada"), ("personal", "bob")):
            signed = await machine.run("login", name, "--yes", *config, login=login)
            assert signed["account"] == name
        for name, login in (("work", "ada"), ("personal", "bob")):
            assert result_text(await machine.run("call", name, "peek", *config)).startswith(login)
        listed = (await machine.run("accounts"))["accounts"]
        assert sorted(entry["account"] for entry in listed) == ["personal", "work"]
        tokens = {event["refresh"]: event for event in oidc.events if event.get("refresh")}
        first, second = tokens.values()
        assert (await machine.run("logout", "work", *config))["revoked"]
        assert (await oidc.refresh(first)).status_code == 400
        assert result_text(await machine.run("call", "personal", "peek", *config)).startswith("bob")
        assert (await oidc.refresh(second)).status_code == 200
        await machine.run("call", "work", "peek", *config, code=6)


@pytest.mark.req("auth.callback.manual")
async def test_on_the_pipe_a_browser_is_changed_for_a_code_that_is_entered_anywhere(machine: UserMachine) -> None:
    async with run_oidc_provider() as oidc:
        config = ("--mcp-config", machine.program.servers(oidc={"url": oidc.url}))

        def drive() -> tuple[dict[str, Any], dict[str, Any]]:
            with machine.program.pipe(*config) as pipe:
                first = pipe.event("question", kind="sign_in")
                pipe.send("answer", question=first["question"], answer="other")
                other = pipe.wait(lambda event: event["event"] == "question" and event["code"] != "")
                page = complete_sign_in(other["url"], "ada", other["code"])
                assert "Success" in page, page
                pipe.event("server_state", state="ready")
                said = pipe.ask("call", server="oidc", tool="peek", arguments={})
                pipe.end()
            return other, said

        other, called = await anyio.to_thread.run_sync(drive)
        kept = (await machine.run("accounts"))["accounts"]
    assert other["other"] == "browser"
    assert (other["whole"], other["interval"]) == (f"{other['url']}?user_code={other['code']}", 5)
    assert result_text(called["result"]).startswith("ada may")
    assert oidc.grants() == ["urn:ietf:params:oauth:grant-type:device_code"]
    assert [entry["kept"] for entry in kept] == [True]
