"""Tests that no secret of any sign-in flow appears in debug logs, errors, warnings or reprs."""

import importlib
import json
import logging
import pkgutil
import urllib.request
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

import mcphost.auth
from mcphost import redact
from mcphost.auth import device_flow
from mcphost.auth.client_grants import ClientGrant
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.sign_in_context import SignInTarget
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.url_policy import UrlPolicy
from mcphost.config import schema
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.errors import McpHostError
from mcphost.serialization import Struct
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.attacks.leaked_secrets import collect_secrets
from tests.unit.auth.device_server import DeviceCodeServer, DeviceCodeUser
from tests.unit.auth.grant_servers import DpopServer, MachineTokenServer, create_private_key_pem
from tests.unit.auth.oauth_peer import BrowserUser as Browsing
from tests.unit.auth.oauth_peer import OAuthPeer, create_oauth, query, run_peer, send_request, send_with_sign_in
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


class SocketBrowser(Browsing):
    """A browser that does not use httpx, because these tests examine the log of httpx."""

    async def sign_in(self, **asked: Any) -> str | None:
        going, self.visit = self.visit, False
        try:
            answer = await super().sign_in(**asked)
        finally:
            self.visit = going
        if going:
            self.page = await anyio.to_thread.run_sync(_opened, asked["url"])
        return answer


def _opened(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as page:
        return page.read().decode()


class Sinks:
    """Everything that mcphost and its libraries logged, plus the values and errors passed to `show`."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self._log = log
        self.shown: list[str] = []

    def show(self, *things: object) -> None:
        for thing in things:
            self.shown += [repr(thing), str(thing), f"{thing}"]
            if isinstance(thing, BaseException):
                self.shown += [*map(repr, thing.args), repr(getattr(thing, "hint", ""))]

    def text(self) -> str:
        records = [f"{record.getMessage()} {record.args!r} {record.exc_text or ''}" for record in self._log.records]
        return "\n".join([*records, self._log.text, *self.shown])


@pytest.fixture
def sinks(caplog: pytest.LogCaptureFixture) -> Iterator[Sinks]:
    caplog.set_level(1)
    for name in ("mcphost", "httpx", "httpcore", "asyncio", "anyio", "joserfc", ""):
        logging.getLogger(name).setLevel(1)
    yield Sinks(caplog)
    for name in ("mcphost", "httpx", "httpcore", "asyncio", "anyio", "joserfc"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)


def assert_no_secrets(sinks: Sinks, *peers: OAuthPeer, more: tuple[str, ...] = (), least: int) -> None:
    text = sinks.text()
    secrets = {*more}.union(*(collect_secrets(peer) for peer in peers))
    assert len(secrets) >= least, secrets
    assert sorted(secret for secret in secrets if secret in text) == []


def internal_values(auth: OAuthProvider, signed: StoredSignIn, token_store: TokenStore) -> list[object]:
    """Return the internal objects that hold secrets, in order to check their reprs."""
    parts = (part for part in vars(auth).values() if type(part).__module__.startswith("mcphost."))
    return [auth, signed, signed.tokens, signed.client, signed.to_account("memory"), token_store, *parts]


OPEN = {"name", "url", "issuer", "server", "grant", "kind", "status", "verification_uri"}
PUBLIC = {
    "Account", "AccountIndexContent", "AuthorizationServerMetadata", "Challenge", "ChosenAccount", "DiscoveredIssuer",
    "DiscoverySummary", "ProtectedResource", "ProtectedResourceMetadata",
    "StoredAccount", "_EncryptedContent",
}  # fmt: skip


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
def test_every_value_of_sign_in_that_could_hold_a_secret_shows_nothing() -> None:
    modules = [
        importlib.import_module(f"mcphost.auth.{module.name}") for module in pkgutil.iter_modules(mcphost.auth.__path__)
    ]
    values = {
        name: kind
        for module in (*modules, schema)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct
        if kind.__module__.startswith("mcphost.auth.") or kind in (OAuthConfig, ServerConfig)
    }
    assert values.keys() > PUBLIC
    for name in values.keys() - PUBLIC:
        fields = values[name].__struct_fields__
        made: dict[str, Any] = {field: "open" if field in OPEN else "a-canary" for field in fields}
        made |= {"params": {"code": "a-canary"}} if "params" in made else {}
        made |= {"target": SignInTarget(server="open", url="a-canary")} if "target" in made else {}
        assert "canary" not in repr(values[name](**made)), name


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
async def test_the_authorization_code_flow_with_renewal_and_sign_out(sinks: Sinks) -> None:
    warnings: list[str] = []
    token_store = TokenStore(MemoryBackend(), None, warnings.append)
    document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with run_peer(lifetime=1, document=document) as peer:
        user = SocketBrowser()
        auth = create_oauth(
            peer, user, token_store, client_id="me", client_secret="a-configured-secret", issuer=peer.origin
        )
        assert await send_with_sign_in(auth, peer) == 200
        peer.valid.clear()
        assert await send_request(auth, peer) in (200, 401)
        signed = await auth.login()
        sinks.show(*internal_values(auth, signed, token_store), *warnings, user.page, user.notes)
        secrets = collect_secrets(peer)
        peer.answers["/token"] = (400, b'{"error": "invalid_grant"}', "application/json")
        with pytest.raises(McpHostError) as exc_info:
            await auth.login()
        sinks.show(exc_info.value)
        await auth.logout()
    assert_no_secrets(sinks, peer, more=(*secrets, "a-configured-secret"), least=10)


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
async def test_a_server_that_repeats_the_secrets(sinks: Sinks) -> None:
    """An error response that repeats the code, the verifier or a token is shown and logged without these secrets."""

    class EchoingPeer(OAuthPeer):
        async def token(self, request: ReceivedRequest) -> None:
            self.forms.append(query(f"?{request.body.decode()}"))
            await self.json(
                request, {"error": "invalid_request", "error_description": request.body.decode()[:250]}, 400
            )

    async with run_peer(kind=EchoingPeer) as peer:
        with pytest.raises(McpHostError) as exc_info:
            await create_oauth(peer, SocketBrowser()).login()
    (form,) = peer.forms
    shown = redact.redact(f"{exc_info.value} {exc_info.value.message}")
    assert form["code"] not in shown
    assert form["code_verifier"] not in shown
    logged = redact.redact(sinks.text())
    assert form["code"] not in logged
    assert form["code_verifier"] not in logged


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
async def test_a_secret_cut_off_in_an_error_is_redacted_as_well() -> None:
    class EchoingPeer(OAuthPeer):
        async def token(self, request: ReceivedRequest) -> None:
            self.forms.append(query(f"?{request.body.decode()}"))
            verifier = self.forms[-1]["code_verifier"]
            await self.json(request, {"error": "no", "error_description": "x" * 280 + verifier}, 400)

    async with run_peer(kind=EchoingPeer) as peer:
        with pytest.raises(McpHostError) as exc_info:
            await create_oauth(peer, SocketBrowser()).login()
    (form,) = peer.forms
    assert form["code_verifier"][:12] not in redact.redact(exc_info.value.message)


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
async def test_the_paste_flow(sinks: Sinks) -> None:
    async with run_peer() as peer:

        def pasted(url: str) -> str:
            params = query(url)
            peer.codes["a-pasted-code"] = params
            state = params["state"] if len(user.urls) > 1 else "not-the-state"
            return f"{params['redirect_uri']}?code=a-pasted-code&state={state}"

        user = SocketBrowser(visit=False, answer=pasted)
        token_store = TokenStore(MemoryBackend(), None)
        auth = create_oauth(peer, user, token_store)
        signed = await auth.login()
        sinks.show(*internal_values(auth, signed, token_store), user.notes)
    assert_no_secrets(sinks, peer, more=("a-pasted-code", query(user.urls[0])["state"]), least=4)


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
async def test_the_device_flow(sinks: Sinks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_flow, "MIN_INTERVAL", 0.01)
    async with run_peer(kind=DeviceCodeServer) as peer:
        assert isinstance(peer, DeviceCodeServer)
        peer.said, peer.code = ["authorization_pending"], {"device_code": "a-device-code-77"}
        token_store = TokenStore(MemoryBackend(), None)
        auth = create_oauth(peer, DeviceCodeUser(), token_store)
        sinks.show(*internal_values(auth, await auth.login(use_device_code=True), token_store))
        code = device_flow.DeviceAuthorization("a-device-code-77", "AB-CD", peer.origin, 1, 1)
        sinks.show(code)
    assert_no_secrets(sinks, peer, more=("a-device-code-77",), least=3)


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
@pytest.mark.parametrize("grant", ["secret", "key", "workload", "enterprise"])
async def test_every_flow_of_a_machine(sinks: Sinks, grant: str) -> None:
    key = create_private_key_pem()
    async with run_peer(kind=MachineTokenServer) as company, run_peer(kind=MachineTokenServer) as peer:
        common = {"server": "peer", "url": peer.url, "client_id": "me", "issuer": peer.origin}
        target = SignInTarget(**common, client_secret="" if grant == "key" else "a-configured-secret")
        made: Any = {
            "secret": {"grant": "client_credentials"},
            "key": {"grant": "client_credentials", "key": key},
            "workload": {"grant": "workload", "assertion": "the.work.load"},
            "enterprise": {
                "grant": "enterprise",
                "idp_token": "the.id.token",
                "idp_token_endpoint": f"{company.origin}/token",
            },
        }[grant]
        machine = ClientGrant(target=target, **made)
        auth = OAuthProvider(
            target, OAuthHttpClient(UrlPolicy(peer.url)), TokenStore(MemoryBackend(), None), None, machine
        )
        signed = await auth.login()
        assert await send_request(auth, peer) == 200
        config = OAuthConfig(
            client_secret="a-configured-secret", key=key, assertion="the.work.load", idp_token="the.id.token"
        )
        sinks.show(
            *internal_values(auth, signed, TokenStore(MemoryBackend(), None)),
            machine,
            config,
            ServerConfig(name="p", oauth=config),
        )
        peer.answers["/token"] = (400, b'{"error": "invalid_client"}', "application/json")
        with pytest.raises(McpHostError) as exc_info:
            await auth.login()
        sinks.show(exc_info.value)
    private = ("a-configured-secret", "the.work.load", "the.id.token", "the-id-jag-assertion", key, key.split("\n")[1])
    assert_no_secrets(sinks, peer, company, more=private, least=7)


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
async def test_a_token_that_is_bound_to_a_key(sinks: Sinks) -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer(kind=DpopServer) as peer:
        auth = create_oauth(peer, SocketBrowser(), token_store, client_id="me")
        signed = await auth.login()
        assert await send_request(auth, peer) == 200
        sinks.show(*internal_values(auth, signed, token_store))
        private = json.loads(signed.dpop_key)["d"]
    assert_no_secrets(sinks, peer, more=(private, signed.dpop_key), least=6)
