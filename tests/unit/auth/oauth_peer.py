"""A protected MCP server and its authorization server on loopback, with configurable faults and attacks."""

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import anyio
import httpx

from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.sign_in_context import SignInTarget
from mcphost.auth.token_store import TokenStore
from mcphost.auth.url_policy import UrlPolicy
from mcphost.sign_in_types import SignInTerms
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.transport import raw_http
from tests.unit.transport.raw_http import ReceivedRequest


@dataclass
class OAuthPeer:
    """A protected MCP server and its authorization server; changed attributes take effect immediately."""

    origin: str = ""
    lifetime: int | None = 3600
    refresh: bool = True
    rotate: bool = True
    scope: str = "tools:read"
    challenge: str = ""
    resource: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    redirect: dict[str, str | None] = field(default_factory=dict)
    registration: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, tuple[int, bytes, str]] = field(default_factory=dict)
    """What a path answers instead: status, body, content type."""

    seen: list[ReceivedRequest] = field(default_factory=list)
    valid: dict[str, set[str]] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    """Each refresh token ever given, and its family; a family is dead when one of its tokens came twice."""
    live: dict[str, str] = field(default_factory=dict)
    """Family and the one refresh token that still works."""
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    forms: list[dict[str, str]] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def paths(self) -> list[str]:
        return [message.path.partition("?")[0] for message in self.seen]

    # -- construction
    async def handle(self, request: ReceivedRequest) -> None:
        self.seen.append(request)
        path = request.path.partition("?")[0]
        if path in self.answers:
            status, body, kind = self.answers[path]
            await request.reply(status, body, kind)
        elif path == "/.well-known/oauth-protected-resource/mcp":
            standard = {
                "resource": self.url,
                "authorization_servers": [self.origin],
                "scopes_supported": ["tools:read"],
            }
            await self.json(request, standard | self.resource)
        elif path == "/.well-known/oauth-authorization-server":
            await self.json(request, self.metadata())
        elif path == "/authorize":
            await self.authorize(request)
        elif path == "/token":
            await self.token(request)
        elif path == "/register":
            await self.register(request)
        elif path == "/revoke":
            form = dict(parse_qsl(request.body.decode()))
            self.forms.append(form)
            self.valid.pop(form["token"], None)
            await request.reply(200, b"")
        elif path == "/mcp":
            await self.mcp(request)
        else:
            await request.reply(404, b"{}")

    def metadata(self) -> dict[str, Any]:
        standard = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }
        return {name: value for name, value in (standard | self.document).items() if value is not None}

    async def json(self, request: ReceivedRequest, value: Any, status: int = 200) -> None:
        await request.reply(status, json.dumps(value).encode())

    async def register(self, request: ReceivedRequest) -> None:
        expected = json.loads(request.body)
        ident = f"client-{len(self.clients)}"
        self.clients[ident] = expected
        await self.json(
            request, {"client_id": ident, "redirect_uris": expected["redirect_uris"]} | self.registration, 201
        )

    async def authorize(self, request: ReceivedRequest) -> None:
        asked = dict(parse_qsl(request.path.partition("?")[2], keep_blank_values=True))
        self.asked.append(asked)
        code = f"code-0{secrets.token_urlsafe(24)}"  # a digit: only values with one count as secrets
        self.codes[code] = asked
        back: dict[str, str | None] = {"code": code, "state": asked.get("state"), **self.redirect}
        query = urlencode({name: value for name, value in back.items() if value is not None})
        await request.reply(302, b"", location=f"{asked['redirect_uri']}?{query}")

    async def token(self, request: ReceivedRequest) -> None:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.forms.append(form)
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or proof != asked["code_challenge"] or asked["redirect_uri"] != form["redirect_uri"]:
                await self.json(request, {"error": "invalid_grant"}, 400)
                return
            await self.grant(request, secrets.token_urlsafe(6), asked.get("scope", self.scope))
        elif form["grant_type"] == "refresh_token":
            family = self.families.get(form["refresh_token"])
            if family is None or self.live.get(family) != form["refresh_token"]:
                if family is not None:
                    self.live.pop(family, None)  # used twice: it was stolen, so the whole family is revoked
                await self.json(
                    request, {"error": "invalid_grant", "error_description": "that refresh token is gone"}, 400
                )
                return
            await self.grant(request, family, self.scope)
        else:
            await self.json(request, {"error": "unsupported_grant_type"}, 400)

    async def grant(self, request: ReceivedRequest, family: str, scope: str) -> None:
        access = f"access-0{secrets.token_urlsafe(24)}"
        self.valid[access] = set(scope.split())
        reply: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "scope": scope}
        if self.lifetime is not None:
            reply["expires_in"] = self.lifetime
        if self.refresh and (self.rotate or family not in self.live):
            token = f"refresh-0{secrets.token_urlsafe(24)}"
            self.families[token] = family
            self.live[family] = token
            reply["refresh_token"] = token
        await self.json(request, reply)

    async def mcp(self, request: ReceivedRequest) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            more = ', error="invalid_token"' if token else ""
            challenge = (
                self.challenge or f'Bearer resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
            )
            await request.reply(401, b"", www_authenticate=challenge + more)
            return
        await request.result({"tools": []})


class ToolsPeer(OAuthPeer):
    """An MCP server of 2025-11-25 that requires the scope `tools:read`, and `tools:write` for tool calls.

    The methods in `free` require no token.
    """

    free: tuple[str, ...] = ()

    async def mcp(self, request: ReceivedRequest) -> None:
        method = request.message.get("method", "") if request.method == "POST" else request.method
        scopes = self.valid.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if scopes is None and method not in self.free:
            await OAuthPeer.mcp(self, request)
        elif method == "tools/call" and "tools:write" not in (scopes or ()):
            challenge = 'Bearer error="insufficient_scope", scope="tools:write"'
            await request.reply(403, b"", www_authenticate=challenge)
        elif method == "server/discover":
            await request.error(404, -32601)
        elif method == "initialize":
            info = {"name": "peer", "version": "1"}
            await request.result({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            await request.result({"tools": []})
        elif method == "tools/call":
            await request.result({"content": [{"type": "text", "text": "done"}]})
        else:
            await request.reply(202 if method.startswith("notifications/") else 405, b"")


@asynccontextmanager
async def run_peer(kind: type[OAuthPeer] = OAuthPeer, **settings: Any) -> AsyncIterator[OAuthPeer]:
    """Run an MCP server and its authorization server on one port."""
    one = kind(**settings)
    async with raw_http.serve(one.handle) as server:
        one.origin = f"http://127.0.0.1:{server.port}"
        yield one


@dataclass
class BrowserUser:
    """A user who completes the sign-in at every URL, unless configured otherwise."""

    urls: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    terms: list[SignInTerms] = field(default_factory=list)
    answer: Any = ""
    visit: bool = True
    page: str = ""
    asked: anyio.Event = field(default_factory=anyio.Event)
    clients: list[tuple[str, str] | None] = field(default_factory=list)
    """What it answers when asked for a client ID, in this order; then nothing."""
    registering: list[dict[str, str]] = field(default_factory=list)

    async def ask_client_id(self, **asked: str) -> tuple[str, str] | None:
        self.registering.append(asked)
        return self.clients.pop(0) if self.clients else None

    async def sign_in(
        self,
        *,
        server: str,
        account: str,
        issuer: str,
        url: str,
        scopes: tuple[str, ...],
        code: str,
        note: str,
        terms: SignInTerms,
    ) -> str | None:
        self.urls.append(url)
        self.notes.append(note)
        self.terms.append(terms)
        self.asked.set()
        if self.visit:
            async with httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False) as browser:
                self.page = (await browser.get(url)).text
        return self.answer(url) if callable(self.answer) else self.answer


@dataclass
class RefusedRequest:
    """A refused request, with the values that a transport reports."""

    status: int = 401
    www_authenticate: str = ""
    authorization: str = ""
    dpop_nonce: str = ""


def create_oauth(peer: OAuthPeer, user: Any, token_store: TokenStore | None = None, **settings: Any) -> OAuthProvider:
    """Return an OAuthProvider of mcphost for a peer and a simulated user."""
    target = SignInTarget(server="peer", url=peer.url, **settings)
    return OAuthProvider(
        target, OAuthHttpClient(UrlPolicy(peer.url)), token_store or TokenStore(MemoryBackend(), None), user
    )


async def _send(auth: OAuthProvider, peer: OAuthPeer) -> tuple[int, RefusedRequest]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        headers = dict(await auth.headers("POST", peer.url))
        answer = await client.post(peer.url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)
    challenge, nonce = (answer.headers.get(name, "") for name in ("www-authenticate", "dpop-nonce"))
    return answer.status_code, RefusedRequest(answer.status_code, challenge, headers.get("authorization", ""), nonce)


async def send_request(auth: OAuthProvider, peer: OAuthPeer) -> int:
    """Send one request like a transport, without asking the user, and return the HTTP status."""
    for _ in range(3):
        status, refused = await _send(auth, peer)
        if status not in (401, 403) or not await auth.recover(refused):
            break
    return status


async def send_with_sign_in(auth: OAuthProvider, peer: OAuthPeer) -> int:
    """Send one request like a session, with an interactive sign-in if needed, and return the HTTP status."""
    for attempt in range(1, 9):
        status, refused = await _send(auth, peer)
        if status not in (401, 403):
            return status
        if not await auth.recover(refused):
            await auth.sign_in(refused, attempt)
    return 401


def query(url: str) -> dict[str, str]:
    """Return the query parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query))
