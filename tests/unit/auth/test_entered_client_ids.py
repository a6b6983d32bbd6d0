"""Tests for authorization servers without registration: the user enters a client ID, which is stored."""

import json
from urllib.parse import urlsplit

import anyio
import pytest

from mcphost.auth.discovery import AuthorizationServerMetadata
from mcphost.auth.registration import OAuthClient, RegistrationError, make_configured_client, make_entered_client
from mcphost.auth.token_store import TokenStore
from mcphost.auth.tokens import authenticate_client
from mcphost.errors import SignInRequired, UsageError
from mcphost.redact import redact
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, create_oauth, run_peer, send_with_sign_in

pytestmark = pytest.mark.anyio
SECRET = "the-client-secret-7"


class KnownClientPeer(OAuthPeer):
    """A peer that issues tokens only to the client with the right secret."""

    secret: str = SECRET

    async def token(self, request: object) -> None:
        form = request.body.decode()  # type: ignore[attr-defined]
        if f"client_secret={self.secret}" not in form:
            await self.json(request, {"error": "invalid_client"}, 401)  # type: ignore[arg-type]
            return
        await super().token(request)  # type: ignore[arg-type]


NOBODY = {"registration_endpoint": None, "token_endpoint_auth_methods_supported": ["client_secret_post"]}


@pytest.mark.req("auth.reg.preregistered", "auth.reg.preregistered-old", "auth.reg.priority")
async def test_a_client_id_is_asked_for_used_and_kept_for_the_next_sign_in() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser(clients=[("by-hand", SECRET)])
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        assert await send_with_sign_in(create_oauth(peer, user, token_store), peer) == 200
        assert [question["issuer"] for question in user.registering] == [peer.origin]
        shown = user.registering[0]["redirect_uri"]
        assert "does not register clients" in user.registering[0]["note"]
        await create_oauth(peer, user, token_store).login()
        stored = await token_store.load_client(peer.origin)
    assert len(user.registering) == 1
    assert [(question["client_id"], question["redirect_uri"]) for question in peer.asked] == [("by-hand", shown)] * 2
    assert stored is not None
    assert (stored.id, stored.secret, stored.kind) == ("by-hand", SECRET, "entered")
    assert SECRET not in repr(stored)
    assert "/register" not in peer.paths()


async def test_a_client_id_that_no_sign_in_worked_with_is_not_kept() -> None:
    token_store, user = (
        TokenStore(MemoryBackend(), None),
        BrowserUser(clients=[("by-hand", SECRET)], visit=False, answer=None),
    )
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        with pytest.raises(SignInRequired):
            await send_with_sign_in(create_oauth(peer, user, token_store), peer)
        assert await token_store.load_client(peer.origin) is None


async def test_after_a_refused_registration_the_servers_words_are_shown_with_the_question() -> None:
    user = BrowserUser(clients=[("by-hand", SECRET)])
    async with run_peer(kind=KnownClientPeer, document=NOBODY | {"registration_endpoint": "/register"}) as peer:
        peer.document["registration_endpoint"] = f"{peer.origin}/register"
        body = {"error": "access_denied", "error_description": "ask \x1b[31mthe desk"}
        peer.answers["/register"] = (403, json.dumps(body).encode(), "application/json")
        assert await send_with_sign_in(create_oauth(peer, user), peer) == 200
    assert "access_denied: ask" in user.registering[0]["note"]
    assert "\x1b" not in user.registering[0]["note"]


async def test_a_temporary_failure_of_an_authorization_server_is_no_reason_to_ask_for_a_client_id() -> None:
    user = BrowserUser(clients=[("by-hand", SECRET)])
    async with run_peer() as peer:
        peer.answers["/register"] = (503, b"", "")
        with pytest.raises(SignInRequired, match="cannot answer now"):
            await send_with_sign_in(create_oauth(peer, user), peer)
    assert user.registering == []


async def test_a_wrong_secret_is_not_kept_and_asked_for_again() -> None:
    token_store, user = (
        TokenStore(MemoryBackend(), None),
        BrowserUser(clients=[("by-hand", "wrong-secret"), ("by-hand", SECRET)]),
    )
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        auth = create_oauth(peer, user, token_store)
        with pytest.raises(SignInRequired, match="invalid_client"):
            await send_with_sign_in(auth, peer)
        assert await token_store.load_client(peer.origin) is None
        assert await send_with_sign_in(auth, peer) == 200
        # Later the secret is changed at the authorization server: the stored one is dropped and requested again.
        assert isinstance(peer, KnownClientPeer)
        peer.secret = "the-next-secret-8"
        user.clients = [("by-hand", peer.secret)]
        await auth.login()
    assert len(user.registering) == 3


@pytest.mark.parametrize("given", [("", ""), ("a b", ""), ("id", "se\ncret"), ("x" * 5000, "")])
async def test_an_invalid_client_id_is_asked_for_again_a_bounded_number_of_times(given: tuple[str, str]) -> None:
    user = BrowserUser(clients=[given] * 9)
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        with pytest.raises(RegistrationError):
            await send_with_sign_in(create_oauth(peer, user), peer)
    assert len(user.registering) == 3
    assert "Copy them again" in user.registering[1]["note"]
    assert peer.asked == peer.forms == []


async def test_another_port_is_taken_when_the_registered_one_is_busy() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser(clients=[("by-hand", SECRET)])
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        await send_with_sign_in(create_oauth(peer, user, token_store), peer)
        port = urlsplit(peer.asked[0]["redirect_uri"]).port
        assert port
        async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port, reuse_port=False):
            await create_oauth(peer, user, token_store).login()
    first, second = (urlsplit(question["redirect_uri"]) for question in peer.asked)
    assert (first.path, first.port != second.port) == (second.path, True)
    assert len(user.registering) == 1


async def test_waiting_for_a_client_id_times_out() -> None:
    class AbsentUser(BrowserUser):
        async def ask_client_id(self, **asked: str) -> tuple[str, str] | None:
            return await anyio.sleep_forever()

    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        with anyio.fail_after(10), pytest.raises(RegistrationError, match="does not register clients"):
            await send_with_sign_in(create_oauth(peer, AbsentUser(), timeout=0.05), peer)


async def test_a_deleted_client_can_be_dropped_and_entered_again() -> None:
    token_store, user = (
        TokenStore(MemoryBackend(), None),
        BrowserUser(clients=[("by-hand", SECRET), ("another", SECRET)]),
    )
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        auth = create_oauth(peer, user, token_store)
        await send_with_sign_in(auth, peer)
        await auth.logout()
        assert await auth.forget_client()
        assert not await auth.forget_client()
        await auth.login()
        assert [question["client_id"] for question in peer.asked] == ["by-hand", "another"]


async def test_a_timeout_with_a_stored_client_explains_how_to_remove_it() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser(clients=[("by-hand", SECRET)])
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer:
        await send_with_sign_in(create_oauth(peer, user, token_store), peer)
        user.visit = False
        with pytest.raises(SignInRequired, match="Nobody signed in") as exc_info:
            await create_oauth(peer, user, token_store, timeout=0.1).login()
    assert "mcphost logout peer --forget-client" in exc_info.value.hint


async def test_only_the_secret_of_an_entered_client_is_the_user_s_own_and_hides_words() -> None:
    document = AuthorizationServerMetadata(issuer="https://as.example")
    configured = make_configured_client(document, document.issuer, "me", "filesystem")
    configured.register_secrets()
    authenticate_client(configured, {})
    assert redact("the filesystem is full") == "the filesystem is full"
    entered = make_entered_client(document, document.issuer, "me", "hunter", "http://127.0.0.1/callback")
    assert entered is not None
    assert "hunter" not in redact("it printed hunter")


async def test_a_server_that_was_never_signed_in_to_cannot_make_the_user_forget_the_clients_of_others() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    user = BrowserUser(clients=[("by-hand", SECRET)])
    async with run_peer(kind=KnownClientPeer, document=NOBODY) as peer, run_peer() as hostile, run_peer() as third:
        await send_with_sign_in(create_oauth(peer, user, token_store), peer)
        for issuer in (third.origin, hostile.origin):
            await token_store.save_client(OAuthClient(issuer, "registered", kind="registered"))
        hostile.resource = {"authorization_servers": [hostile.origin, third.origin, peer.origin]}
        forgetful = create_oauth(hostile, user, token_store)
        assert await forgetful.forget_client()
        assert await token_store.load_client(hostile.origin) is None
        assert await token_store.load_client(third.origin) is not None
        hostile.resource = {"authorization_servers": [peer.origin]}
        with pytest.raises(UsageError, match="is also used for 'peer'"):
            await forgetful.forget_client()
        assert await token_store.load_client(peer.origin) is not None
