"""A real authorization server that is not ours: signed in, renewed, rotated, stepped up, revoked, found again."""

from pathlib import Path

import anyio
import pytest

from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.token_store import TokenStore
from mcphost.auth.user_interaction import SignInInteraction
from mcphost.client.connect import ClientSessionOpener
from mcphost.protocol.tools import CallTool, ListTools
from tests.peers.oidc import BrowserUser, provider
from tests.unit.auth.storage import SharedFolderBackend
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

pytestmark = [pytest.mark.anyio, pytest.mark.peer]


def opener(folder: Path, person: SignInInteraction) -> ClientSessionOpener:
    folder.mkdir(exist_ok=True)
    return ClientSessionOpener(
        expand=str, accounts=OAuthRegistry(TokenStore(SharedFolderBackend(folder / "vault"), folder), person)
    )


@pytest.mark.req("auth.refresh.rotation", "auth.refresh.use", "auth.stepup.403")
async def test_the_whole_life_of_a_sign_in(npm_peers: Path, tmp_path: Path) -> None:
    person = BrowserUser()
    async with provider(seconds=2) as one:
        async with opener(tmp_path, person).open(one.server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())
            assert one.grants() == ["authorization_code"]
            for _ in range(2):
                await anyio.sleep(2)  # the token ends
                await session.request(ListTools())
            assert one.grants()[1:] == ["refresh_token"] * 2
            said = await session.request(CallTool("whoami", {}))
            assert "ada may tools:read tools:write" in bytes(said.content[0]).decode()
            assert person.times == 2
        # another start of the program
        async with opener(tmp_path, person).open(one.server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(CallTool("whoami", {}))
        assert person.times == 2
        assert one.grants("grant.error") == []
        identities = OAuthRegistry(TokenStore(SharedFolderBackend(tmp_path / "vault"), tmp_path), person)
        auth = identities.get_provider(one.server, warn=print, proxy_for=lambda url: "")
        assert auth is not None
        gone, revoked = await auth.logout()
        assert gone is not None
        assert revoked
        async with opener(tmp_path, person).open(one.server, FakeRequestHandler(), RecordingObserver()):
            assert person.times == 3


@pytest.mark.req("auth.refresh.single-flight", "auth.refresh.rotation")
async def test_several_programs_that_renew_at_once_keep_the_family_alive(npm_peers: Path, tmp_path: Path) -> None:
    person = BrowserUser()
    async with provider(seconds=2) as one:
        async with opener(tmp_path, person).open(one.server, FakeRequestHandler(), RecordingObserver()):
            pass
        await anyio.sleep(2)

        async def program() -> None:
            async with opener(tmp_path, person).open(one.server, FakeRequestHandler(), RecordingObserver()) as session:
                await session.request(ListTools())

        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(program)
            await anyio.sleep(2)
    assert person.times == 1
    assert one.grants("grant.error") == []
    assert one.grants("grant.revoked") == []


async def test_a_code_is_entered_anywhere_and_the_token_arrives_here(npm_peers: Path, tmp_path: Path) -> None:
    person = BrowserUser()
    async with provider() as one:
        identities = OAuthRegistry(TokenStore(SharedFolderBackend(tmp_path / "vault"), tmp_path), person)
        auth = identities.get_provider(one.server, warn=print, proxy_for=lambda url: "")
        assert auth is not None
        await auth.login(use_device_code=True)
        async with opener(tmp_path, person).open(one.server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())
    assert len(person.codes) == person.times == 1
    assert one.grants()[0].endswith("device_code")
