"""Tests with a third-party authorization server: sign-in, refresh, rotation, step-up, revocation and discovery."""

from pathlib import Path

import anyio
import pytest

from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.sign_in_context import SignInInteraction
from mcphost.auth.token_store import TokenStore
from mcphost.client.connect import ClientSessionOpener
from mcphost.protocol.tools import CallTool, ListTools
from tests.peers.oidc import OidcUser, run_oidc_provider
from tests.unit.auth.storage import SharedFolderBackend
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

pytestmark = [pytest.mark.anyio, pytest.mark.peer]


def create_oidc_opener(folder: Path, user: SignInInteraction) -> ClientSessionOpener:
    folder.mkdir(exist_ok=True)
    return ClientSessionOpener(
        accounts=OAuthRegistry(TokenStore(SharedFolderBackend(folder / "secrets"), folder), user)
    )


@pytest.mark.req("auth.refresh.rotation", "auth.refresh.use", "auth.stepup.403")
async def test_the_lifecycle_of_a_sign_in(npm_peers: Path, tmp_path: Path) -> None:
    user = OidcUser()
    async with run_oidc_provider(seconds=2) as oidc:
        async with create_oidc_opener(tmp_path, user).open(
            oidc.server, FakeRequestHandler(), RecordingObserver()
        ) as session:
            await session.request(ListTools())
            assert oidc.grants() == ["authorization_code"]
            for _ in range(2):
                await anyio.sleep(2)  # the token expires
                await session.request(ListTools())
            assert oidc.grants()[1:] == ["refresh_token"] * 2
            said = await session.request(CallTool("whoami", {}))
            assert "ada may tools:read tools:write" in bytes(said.content[0]).decode()
            assert user.times == 2
        # another start of the program
        async with create_oidc_opener(tmp_path, user).open(
            oidc.server, FakeRequestHandler(), RecordingObserver()
        ) as session:
            await session.request(CallTool("whoami", {}))
        assert user.times == 2
        assert oidc.grants("grant.error") == []
        identities = OAuthRegistry(TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path), user)
        auth = identities.get_provider(oidc.server, proxy_for=lambda url: "")
        assert auth is not None
        gone, revoked = await auth.logout()
        assert gone is not None
        assert revoked
        async with create_oidc_opener(tmp_path, user).open(oidc.server, FakeRequestHandler(), RecordingObserver()):
            assert user.times == 3


@pytest.mark.req("auth.refresh.single-flight", "auth.refresh.rotation")
async def test_several_programs_that_renew_at_once_keep_the_family_alive(npm_peers: Path, tmp_path: Path) -> None:
    user = OidcUser()
    async with run_oidc_provider(seconds=2) as oidc:
        async with create_oidc_opener(tmp_path, user).open(oidc.server, FakeRequestHandler(), RecordingObserver()):
            pass
        await anyio.sleep(2)

        async def program() -> None:
            async with create_oidc_opener(tmp_path, user).open(
                oidc.server, FakeRequestHandler(), RecordingObserver()
            ) as session:
                await session.request(ListTools())

        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(program)
            await anyio.sleep(2)
    assert user.times == 1
    assert oidc.grants("grant.error") == []
    assert oidc.grants("grant.revoked") == []


async def test_a_code_is_entered_anywhere_and_the_token_arrives_here(npm_peers: Path, tmp_path: Path) -> None:
    user = OidcUser()
    async with run_oidc_provider() as oidc:
        identities = OAuthRegistry(TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path), user)
        auth = identities.get_provider(oidc.server, proxy_for=lambda url: "")
        assert auth is not None
        await auth.login(use_device_code=True)
        async with create_oidc_opener(tmp_path, user).open(
            oidc.server, FakeRequestHandler(), RecordingObserver()
        ) as session:
            await session.request(ListTools())
    assert len(user.codes) == user.times == 1
    assert oidc.grants()[0].endswith("device_code")
