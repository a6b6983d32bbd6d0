"""Tests that a token is refreshed only once for all tasks and processes, before or after it expires, and is stored."""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.auth.accounts import INDEX_FILE
from mcphost.auth.dpop import JwtSigner, load_joserfc
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient, OAuthResponse
from mcphost.auth.oauth_provider import MAX_STEP_UPS
from mcphost.auth.registration import OAuthClient
from mcphost.auth.sign_in_context import SignInFailed
from mcphost.auth.token_refresh import refresh_sign_in
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import TokenSet
from mcphost.auth.url_policy import UrlPolicy
from mcphost.config import file_edits
from mcphost.errors import McpHostError
from mcphost.serialization import encode, replace
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import (
    BrowserUser,
    OAuthPeer,
    RefusedRequest,
    create_oauth,
    run_peer,
    send_request,
    send_with_sign_in,
)
from tests.unit.auth.storage import OpenMemoryBackend, ReadOnlyBackend, SharedFolderBackend, age_sign_in

pytestmark = pytest.mark.anyio


@pytest.mark.req("auth.refresh.use", "auth.refresh.rotation", "auth.resource.refresh", "auth.refresh.confidential")
async def test_a_token_that_ended_is_renewed_before_it_is_sent_and_the_new_refresh_token_is_kept() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        first = peer.live.copy()
        await age_sign_in(auth, token_store)
        before = peer.paths().count("/mcp")
        assert await send_request(auth, peer) == 200
        assert peer.paths().count("/mcp") == before + 1, "the old token was not even tried"
        stored = await token_store.load(peer.url, reload=True)
        assert stored is not None
        assert stored.tokens.refresh in peer.live.values()
        assert peer.live != first
        assert peer.forms[-1]["resource"] == peer.url
        assert all("refresh" not in seen.path for seen in peer.seen)
    assert len(user.urls) == 1


@pytest.mark.req("auth.refresh.use")
async def test_a_token_that_the_server_refuses_is_renewed_once() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store, 1000)  # old, and not expired yet
        peer.valid.clear()
        assert await send_request(auth, peer) == 200
    assert [form["grant_type"] for form in peer.forms] == ["authorization_code", "refresh_token"]
    assert len(user.urls) == 1


@pytest.mark.req("auth.refresh.rotation")
async def test_without_a_new_refresh_token_the_old_one_stays() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer(rotate=False) as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        for _ in range(2):
            await age_sign_in(auth, token_store)
            assert await send_request(auth, peer) == 200
        assert len(peer.families) == 1


@pytest.mark.req("auth.refresh.use")
async def test_a_token_that_expired_in_transit_is_refreshed_without_the_user() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        for attempt in (1, 2):
            sent = (await auth.headers("POST", peer.url))["authorization"]
            await age_sign_in(auth, token_store)
            await auth.sign_in(RefusedRequest(401, "", sent), attempt)
            assert (await auth.headers("POST", peer.url))["authorization"] != sent
        sent = (await auth.headers("POST", peer.url))["authorization"]
        await age_sign_in(auth, token_store)
        with pytest.raises(SignInFailed):
            await auth.sign_in(RefusedRequest(401, "", sent), 3)
    assert [form["grant_type"] for form in peer.forms] == ["authorization_code", "refresh_token", "refresh_token"]
    assert len(user.urls) == 1


@pytest.mark.req("auth.reg.as-changed")
@pytest.mark.parametrize("has_refresh_ended", [False, True])
async def test_a_sign_in_at_another_issuer_than_before_names_the_one_before(has_refresh_ended: bool) -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as peer, run_peer() as new:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        peer.resource = {"authorization_servers": [new.origin]}
        await age_sign_in(auth, token_store, 1000)
        peer.valid.clear()
        if has_refresh_ended:
            peer.families.clear()
            assert await send_request(auth, peer) == 401
        user.visit, user.answer = False, None
        with pytest.raises(SignInFailed):
            await auth.login()
        assert new.forms == []
    (warning,) = user.terms[-1].warnings
    assert user.terms[0].warnings == ()
    assert f"Before, you signed in at {peer.origin}" in warning


@pytest.mark.req("auth.refresh.single-flight")
async def test_ten_requests_that_meet_an_ended_token_renew_it_once() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        statuses: list[int] = []

        async def request() -> None:
            statuses.append(await send_request(auth, peer))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(request)
    assert statuses == [200] * 10
    assert [form["grant_type"] for form in peer.forms].count("refresh_token") == 1


@pytest.mark.req("auth.refresh.single-flight")
async def test_ten_requests_without_a_token_ask_the_user_once() -> None:
    user = BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user)
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(send_with_sign_in, auth, peer)
    assert len(user.urls) == 1


async def test_the_users_refusal_is_the_answer_for_all_who_wait() -> None:
    async with run_peer() as peer:
        user = BrowserUser(visit=False, answer=None)
        auth, failed = create_oauth(peer, user), list[str]()

        async def request() -> None:
            try:
                await send_with_sign_in(auth, peer)
            except SignInFailed as error:
                failed.append(error.message)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(request)
    assert len(failed) == 5
    assert len(user.urls) == 1


async def test_if_the_task_that_signs_in_is_cancelled_the_next_one_takes_over() -> None:
    async with run_peer() as peer:
        user = BrowserUser(visit=False)
        auth = create_oauth(peer, user)
        first = anyio.CancelScope()

        async def leader() -> None:
            with first:
                await send_with_sign_in(auth, peer)

        done: list[int] = []

        async def follower() -> None:
            done.append(await send_with_sign_in(auth, peer))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leader)
            await user.asked.wait()
            tasks.start_soon(follower)
            await anyio.wait_all_tasks_blocked()
            user.visit = True
            first.cancel()
    assert done == [200]
    assert len(user.urls) == 2


@pytest.mark.req("auth.refresh.not-assumed")
async def test_without_a_refresh_token_the_user_signs_in_again_after_expiry() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer(refresh=False) as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        assert await send_with_sign_in(auth, peer) == 200
    assert len(user.urls) == 2


@pytest.mark.req("auth.refresh.use")
async def test_a_dead_refresh_token_is_deleted_and_the_user_asked() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        peer.live.clear()
        peer.valid.clear()
        await age_sign_in(auth, token_store)
        assert await send_request(auth, peer) == 401
        assert await token_store.load(peer.url, reload=True) is None
        assert await send_with_sign_in(auth, peer) == 200
    assert len(user.urls) == 2


async def test_an_authorization_server_that_is_down_does_not_cost_the_sign_in() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        peer.answers["/token"] = (503, b"", "")
        with pytest.raises(EndpointUnreachable, match="cannot answer now"):
            await send_request(auth, peer)
        peer.answers.clear()
        assert await send_request(auth, peer) == 200
    assert len(user.urls) == 1


@pytest.mark.req("auth.401-after-token", "auth.reg.as-changed", "auth.as.separate-state")
async def test_after_a_move_to_another_issuer_nothing_of_the_old_one_is_sent_there() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as other, run_peer() as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        old = [*peer.valid, *peer.families, *peer.clients]
        peer.valid.clear()
        peer.live.clear()
        peer.resource = {"authorization_servers": [other.origin]}
        other.resource = {"resource": peer.url}
        await auth.sign_in(RefusedRequest(401, "", f"Bearer {old[0]}"), 1)
        assert other.clients
        assert len(user.urls) == 2, "the person is asked anew"
        assert user.urls[1].startswith(other.origin)
        assert not any(secret.encode() in seen.body or secret in seen.path for seen in other.seen for secret in old[:2])
        signed = await token_store.load(peer.url)
        assert signed is not None
        assert signed.issuer == other.origin
    assert len(peer.forms) == 1


@pytest.mark.req("auth.stepup.403", "auth.stepup.union", "auth.stepup.retry-limit", "auth.stepup.scopes-2025")
async def test_more_scopes_are_requested_together_with_the_old_ones_a_bounded_number_of_times() -> None:
    user = BrowserUser()
    async with run_peer(challenge='Bearer scope="tools:read"') as peer:
        auth = create_oauth(peer, user)
        await send_with_sign_in(auth, peer)
        for attempt in range(1, MAX_STEP_UPS + 1):
            sent = dict(await auth.headers("POST", peer.url))["authorization"]
            refused = RefusedRequest(403, 'Bearer error="insufficient_scope", scope="tools:write"', sent)
            assert not await auth.recover(refused)
            await auth.sign_in(refused, attempt)
        assert {question["scope"] for question in peer.asked[1:]} == {"tools:read tools:write"}
        assert [client["scope"] for client in peer.clients.values()] == ["tools:read", "tools:read tools:write"]
        sent = dict(await auth.headers("POST", peer.url))["authorization"]
        refused = RefusedRequest(403, 'Bearer error="insufficient_scope", scope="tools:write"', sent)
        for attempt in (MAX_STEP_UPS + 1, 1):
            with pytest.raises(SignInFailed, match="still requires scopes"):
                await auth.sign_in(refused, attempt)
    assert len(user.urls) == 1 + MAX_STEP_UPS


@pytest.mark.parametrize(
    ("scope", "hint"),
    [
        ("tools:write files.read", "mcphost login peer --scope tools:write --scope files.read"),
        ("a;reboot", "mcphost login peer, with --scope for each one"),
        ("$(reboot)", "mcphost login peer, with --scope for each one"),
        ("-h", "mcphost login peer, with --scope for each one"),
        (" ".join(map(str, range(11))), "mcphost login peer, with --scope for each one"),
    ],
)
async def test_a_noninteractive_step_up_explains_the_command_safely_quoted(scope: str, hint: str) -> None:
    async with run_peer() as peer:
        refused = RefusedRequest(403, f'Bearer error="insufficient_scope", scope="{scope}"', "Bearer x")
        with pytest.raises(SignInFailed, match="requires more scopes") as exc_info:
            await create_oauth(peer, None).sign_in(refused)
    assert exc_info.value.hint == f"Grant them: {hint}"


@pytest.mark.req("auth.401-after-token")
async def test_a_server_that_refuses_every_fresh_token_is_reported_after_two_sign_ins() -> None:
    user = BrowserUser()
    async with run_peer() as peer:
        peer.answers["/mcp"] = (401, b"", "")
        with pytest.raises(SignInFailed, match="refuses the account that just signed in"):
            await send_with_sign_in(create_oauth(peer, user), peer)
    assert len(user.urls) == 2


# -- stored results
@pytest.mark.req("auth.token.storage")
async def test_the_next_start_finds_the_sign_in_and_the_index_has_no_secret(tmp_path: Path) -> None:
    backend, user = MemoryBackend(), BrowserUser()
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, user, TokenStore(backend, tmp_path)), peer)
        assert await send_request(create_oauth(peer, user, TokenStore(backend, tmp_path)), peer) == 200
        index = (tmp_path / INDEX_FILE).read_text()
        assert peer.origin in index
        assert not any(secret in index for secret in (*peer.valid, *peer.families))
    assert len(user.urls) == 1
    assert (tmp_path / INDEX_FILE).stat().st_mode & 0o077 == 0


@pytest.mark.req("auth.token.right-server")
async def test_a_server_of_the_same_name_at_another_address_gets_nothing(tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with run_peer() as peer, run_peer() as other:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), TokenStore(backend, tmp_path)), peer)
        assert await send_request(create_oauth(other, None, TokenStore(backend, tmp_path)), other) == 401
        assert all("authorization" not in seen.headers for seen in other.seen)


@pytest.mark.req("auth.token.storage-fallback")
async def test_a_failing_secret_store_is_reported_and_the_next_start_signs_in_again(tmp_path: Path) -> None:
    messages: list[str] = []
    token_store = TokenStore(ReadOnlyBackend(), tmp_path, messages.append)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        assert await send_with_sign_in(auth, peer) == 200
        await age_sign_in(auth, token_store)
        assert await send_request(auth, peer) == 200, "and it is renewed like any other"
        (account,) = await token_store.accounts()
        assert not account.is_stored
        assert not (tmp_path / INDEX_FILE).exists()
    assert messages == ["This sign-in is kept only until mcphost quits. The keyring is locked. Unlock it."]


@pytest.mark.req("auth.signout")
async def test_signing_out_erases_and_revokes(tmp_path: Path) -> None:
    backend = OpenMemoryBackend()
    token_store = TokenStore(backend, tmp_path)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        signed = await auth.login()
        gone, revoked = await auth.logout()
        assert gone is not None
        assert revoked
        told = {form["token"] for form in peer.forms if "token" in form}
        assert told == {signed.tokens.access, signed.tokens.refresh}
        assert await token_store.accounts() == ()
        assert not any(signed.tokens.access in secret for secret in backend.secrets.values())
        assert await send_request(create_oauth(peer, None, TokenStore(backend, tmp_path)), peer) == 401
        assert (await auth.logout())[0] is None


async def test_two_accounts_of_one_server_are_two_sign_ins(tmp_path: Path) -> None:
    token_store = TokenStore(MemoryBackend(), tmp_path)
    async with run_peer() as peer:
        work, home = (create_oauth(peer, BrowserUser(), token_store, account=name) for name in ("work", "home"))
        await work.login()
        await home.login()
        assert {account.account for account in await token_store.accounts()} == {"work", "home"}
        await work.logout()
        assert await send_request(home, peer) == 200
        assert {account.account for account in await token_store.accounts()} == {"home"}


async def test_the_account_that_was_chosen_last_is_used_by_later_runs_until_it_is_not_chosen(tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with run_peer() as peer:
        unnamed = create_oauth(peer, BrowserUser(), TokenStore(backend, tmp_path))
        await unnamed.login()
        work = create_oauth(
            peer, BrowserUser(), TokenStore(backend, tmp_path), account="work", is_account_configured=True
        )
        await work.login()
        await work.select_account()
        again = create_oauth(peer, None, TokenStore(backend, tmp_path))
        assert await send_request(again, peer) == 200
        assert again.account is not None
        assert again.account.account == "work"
        written = create_oauth(
            peer, None, TokenStore(backend, tmp_path), is_account_configured=True
        )  # the user's file selects it: the default one
        assert await send_request(written, peer) == 200
        assert written.account is not None
        assert written.account.account == ""
        await TokenStore(backend, tmp_path).choose_account(peer.url, None)
        later = create_oauth(peer, None, TokenStore(backend, tmp_path))
        assert await send_request(later, peer) == 200
        assert later.account is not None
        assert later.account.account == ""


async def test_an_account_is_shown_without_its_secrets(tmp_path: Path) -> None:
    token_store = TokenStore(MemoryBackend(), tmp_path)
    async with run_peer() as peer:
        await create_oauth(peer, BrowserUser(), token_store).login()
        (account,) = await token_store.accounts()
    assert (account.server, account.url, account.issuer) == ("peer", peer.url, peer.origin)
    assert account.is_renewable
    assert account.client_kind == "registered"
    assert account.scopes == ("tools:read",)


OTHER = """
import anyio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.unit.auth.storage import SharedFolderBackend
from tests.unit.auth.oauth_peer import OAuthPeer, create_oauth, send_request
from mcphost.auth.token_store import TokenStore
async def main():
    one = OAuthPeer(origin=sys.argv[1])
    folder = Path(sys.argv[2])
    auth = create_oauth(one, None, TokenStore(SharedFolderBackend(folder / "secrets"), folder))
    print(await send_request(auth, one))
anyio.run(main)
"""


@pytest.mark.req("auth.refresh.single-flight", "auth.refresh.rotation")
async def test_processes_that_renew_at_once_do_not_lose_the_family(tmp_path: Path) -> None:
    token_store = TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        answers: list[str] = []

        async def other() -> None:
            command = [sys.executable, "-c", OTHER, peer.origin, str(tmp_path), str(Path(__file__).parents[3])]
            done = await anyio.run_process(command, stderr=subprocess.PIPE, check=False)
            answers.append(done.stdout.decode().strip() or done.stderr.decode())

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(other)
            await send_request(auth, peer)
        assert answers == ["200"] * 2
        assert [form["grant_type"] for form in peer.forms].count("refresh_token") == 1
        assert peer.live, "a token used twice would have killed the family"


@pytest.mark.req("auth.refresh.rotation")
async def test_a_sign_in_stored_by_another_process_meanwhile_is_never_deleted(tmp_path: Path) -> None:
    token_store = TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        stale = auth.current_sign_in
        assert stale is not None
        newer = replace(stale, tokens=replace(stale.tokens, access="newer-access", refresh="newer-refresh"))
        await TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path).save(newer)
        assert await token_store.delete(peer.url, only=stale) is None
        stored = await token_store.load(peer.url, reload=True)
        assert stored is not None
        assert stored.tokens.refresh == "newer-refresh"


class LockedBackend(SharedFolderBackend):
    """A keyring that cannot be read while it is locked."""

    locked = False

    async def get(self, name: str) -> str | None:
        if self.locked:
            raise McpHostError("The keyring is locked.", "Unlock it.")
        return await super().get(name)


@pytest.mark.req("auth.refresh.rotation")
@pytest.mark.parametrize("renewed_elsewhere", [False, True])
async def test_a_keyring_locked_meanwhile_never_has_an_old_refresh_token_used(
    tmp_path: Path, renewed_elsewhere: bool
) -> None:
    backend = LockedBackend(tmp_path / "secrets")
    token_store, user = TokenStore(backend, tmp_path), BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        if renewed_elsewhere:
            other = create_oauth(peer, user, TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path))
            assert await send_request(other, peer) == 200
        backend.locked = True
        if renewed_elsewhere:
            with pytest.raises(McpHostError, match="keyring is locked"):
                await send_request(auth, peer)
            backend.locked = False
        assert await send_request(auth, peer) == 200
        assert [form["grant_type"] for form in peer.forms].count("refresh_token") == 1
        assert peer.live, "a token used twice would have killed the family"
    assert len(user.urls) == 1


async def test_a_cancelled_refresh_still_stores_its_tokens() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        asked, go, over = anyio.Event(), anyio.Event(), anyio.Event()
        token = OAuthPeer.token

        async def slow(peer: OAuthPeer, seen: Any) -> None:
            asked.set()
            await go.wait()
            try:
                await token(peer, seen)
            finally:
                over.set()

        peer.token = slow.__get__(peer)  # type: ignore[method-assign]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(auth.headers, "POST", peer.url)
            await asked.wait()
            tasks.cancel_scope.cancel()
            go.set()
        with anyio.fail_after(20):
            await over.wait()
        stored = await token_store.load(peer.url, reload=True)
        assert stored is not None
        assert stored.tokens.refresh in peer.live.values()


@pytest.mark.req("auth.refresh.single-flight", "auth.refresh.rotation")
async def test_a_refresh_waits_for_another_process_and_uses_its_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another() -> TokenStore:
        return TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path)

    token_store, second, noticed = another(), anyio.Event(), anyio.Event()
    token, flock = OAuthPeer.token, file_edits.fcntl.flock

    def held(handle: int, how: int) -> None:
        try:
            flock(handle, how)
        except BlockingIOError:
            noticed.set()
            raise

    async def slow(peer: OAuthPeer, seen: Any) -> None:
        second.set() if not second.is_set() else noticed.set()
        with anyio.fail_after(20):
            await noticed.wait()
        await token(peer, seen)

    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        peer.token = slow.__get__(peer)  # type: ignore[method-assign]
        monkeypatch.setattr(file_edits.fcntl, "flock", held)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_request, auth, peer)
            await second.wait()
            assert await send_request(create_oauth(peer, None, another()), peer) == 200
        assert [form["grant_type"] for form in peer.forms].count("refresh_token") == 1
        assert peer.live, "a token used twice would have killed the family"


@pytest.mark.req("auth.refresh.rotation")
async def test_a_sign_in_during_the_refusal_of_the_old_one_is_not_dropped_with_it(tmp_path: Path) -> None:
    keep, other = (TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path) for _ in range(2))
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), keep)
        await send_with_sign_in(auth, peer)
        signed = auth.current_sign_in
        assert signed is not None
        newer = replace(signed, tokens=replace(signed.tokens, access="newer-access", refresh="newer-refresh"))
        await age_sign_in(auth, keep)

        async def dead(peer: OAuthPeer, seen: Any) -> None:
            await other.save(newer)
            await peer.json(seen, {"error": "invalid_grant"}, 400)

        peer.token = dead.__get__(peer)  # type: ignore[method-assign]
        assert await auth.headers("POST", peer.url) == {}
        stored = await keep.load(peer.url, reload=True)
        assert stored is not None
        assert stored.tokens.refresh == "newer-refresh"


async def test_an_unrelated_refusal_keeps_the_refresh_token() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        peer.valid.clear()
        peer.answers["/token"] = (400, b'{"error":"invalid_request"}', "application/json")
        assert await send_request(auth, peer) == 401
        peer.answers.clear()
        assert await send_request(create_oauth(peer, None, token_store), peer) == 200


@pytest.mark.req("auth.refresh.use")
async def test_a_sign_in_stored_elsewhere_without_refresh_token_is_not_refreshed_with_none(tmp_path: Path) -> None:
    def another() -> TokenStore:
        return TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path)

    token_store = another()
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        await age_sign_in(auth, token_store)
        signed = auth.current_sign_in
        assert signed is not None
        await another().save(replace(signed, tokens=replace(signed.tokens, access="newer", refresh="")))
        before = len(peer.forms)
        assert await send_request(auth, peer) == 401
        assert len(peer.forms) == before
        assert await token_store.load(peer.url, reload=True) is not None


async def test_a_symlinked_lock_creates_nothing_at_its_target(tmp_path: Path) -> None:
    elsewhere, lock = tmp_path / "elsewhere", tmp_path / "locks" / "x.lock"
    lock.parent.mkdir()
    lock.symlink_to(elsewhere)
    async with file_edits.lock_file(lock):
        assert not elsewhere.exists()


async def test_requests_with_a_valid_token_do_not_wait_for_each_other() -> None:
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser())
        await send_with_sign_in(auth, peer)
        handle, there, all_there = OAuthPeer.mcp, list[Any](), anyio.Event()

        async def meet(peer: OAuthPeer, seen: Any) -> None:
            there.append(seen)
            if len(there) == 3:
                all_there.set()
            await all_there.wait()  # none is answered before all have arrived
            await handle(peer, seen)

        peer.mcp = meet.__get__(peer)  # type: ignore[method-assign]
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(send_request, auth, peer)


class _UnboundTokens(OAuthHttpClient):
    """A client whose token endpoint issues a token that is bound to no key."""

    async def post_form(
        self, url: str, form: Mapping[str, str], what: str, headers: Mapping[str, str] | None = None
    ) -> OAuthResponse:
        body = encode({"access_token": "x" * 40, "token_type": "Bearer", "refresh_token": "y" * 40})
        return OAuthResponse(url, 200, {"content-type": "application/json"}, body)


async def test_a_token_that_is_bound_to_a_key_is_not_replaced_by_one_that_is_not() -> None:
    await load_joserfc()
    token_store, url = TokenStore(MemoryBackend(), None), "https://a.example/mcp"
    tokens = TokenSet("a" * 40, "DPoP", "r" * 40, time.time() + 1, (), time.time() - 3_600)
    bound = StoredSignIn(
        server="a",
        url=url,
        issuer="https://i.example",
        resource=url,
        token_endpoint="https://i.example/token",
        tokens=tokens,
        client=OAuthClient("https://i.example", "c"),
        dpop_key=JwtSigner.generate().export_jwk(),
    )
    await token_store.save(bound)
    assert await refresh_sign_in(token_store, _UnboundTokens(UrlPolicy(url)), bound, lambda _: None) is None
    assert await token_store.load(url) == bound
