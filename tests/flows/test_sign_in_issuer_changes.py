"""Tests for servers that change their authorization server, use an old revision, or require more scopes."""

import json
import re
import sys
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcphost.auth.sign_in_context import FOREIGN_RESPONSE
from tests.flows.program import Program
from tests.flows.sign_in_program import BROWSER_CODE, SignedInServer
from tests.unit.auth.oauth_peer import OAuthPeer, query, run_peer
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
STRAYED = f"waiting for you; {FOREIGN_RESPONSE}"


class Commands:
    """A runner of mcphost commands whose browser completes every sign-in, and whose sign-ins are stored in a file."""

    def __init__(self, folder: Path) -> None:
        self.program = Program(folder)
        follow = folder / "browser"
        follow.write_text(f"#!{sys.executable}\n{BROWSER_CODE}\n")
        follow.chmod(0o755)
        self.program.env["BROWSER"] = str(follow)
        (folder / "config").mkdir()
        (folder / "config" / "config.toml").write_text('[secrets]\nstore = "file"\n')

    async def run(self, *arguments: str) -> Any:
        """Run a command that must succeed; return its JSON output."""
        work = partial(self.program.text, *arguments, "--json")
        return json.loads(await anyio.to_thread.run_sync(work))

    async def refused(self, *arguments: str) -> str:
        """Run a command that must fail because a sign-in is missing; return its one-line error."""
        return " ".join((await anyio.to_thread.run_sync(partial(self.program.error, *arguments, code=6))).split())


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


class MovedIssuerServer(SignedInServer):
    """A server that can move to another authorization server; from then on it accepts only tokens from there."""

    signer: OAuthPeer | None = None

    async def mcp(self, request: ReceivedRequest) -> None:
        own = self.valid
        self.valid = own if self.signer is None else self.signer.valid
        try:
            await SignedInServer.mcp(self, request)
        finally:
            self.valid = own


@pytest.mark.req("auth.reg.as-changed", "auth.as.separate-state", "auth.token.right-server")
async def test_a_server_that_moved_to_another_authorization_server_is_signed_in_to_again_there(
    commands: Commands, tmp_path: Path
) -> None:
    async with run_peer(kind=MovedIssuerServer) as peer, run_peer() as new:
        assert isinstance(peer, MovedIssuerServer)
        config = ("--mcp-config", commands.program.servers(tracker={"url": peer.url}))
        assert (await commands.run("login", "tracker", "--yes", *config))["issuer"] == peer.origin
        peer.signer, peer.resource = new, {"authorization_servers": [new.origin]}
        file = tmp_path / "data" / "secrets.json"
        file.write_text(re.sub(r'(expires\\*":)[1-9][\d.]+', r"\g<1>1", file.read_text()))  # an hour later
        assert "mcphost login tracker" in await commands.refused("tools", "tracker", *config)
        # The refresh token was sent only to the server that issued it.
        assert {form["grant_type"] for form in peer.forms} == {"authorization_code", "refresh_token"}
        assert new.seen == []
        assert (await commands.run("login", "tracker", "--yes", *config))["issuer"] == new.origin
        assert (await commands.run("tools", "tracker", *config))["tools"][0]["name"] == "hello"
        listed = (await commands.run("accounts"))["accounts"]
        given = {*peer.valid, *peer.families}
    assert [entry["issuer"] for entry in listed] == [new.origin]
    assert len(new.clients) == 1
    assert [form["grant_type"] for form in new.forms] == ["authorization_code"]
    came = b"".join(seen.body + repr(seen.headers).encode() + seen.path.encode() for seen in new.seen).decode()
    kept = file.read_text()
    assert [token for token in given if token in came or token in kept] == []


@pytest.mark.req(
    "auth.legacy03.base-url", "auth.legacy03.metadata-first", "auth.legacy03.default-paths", "auth.pkce.not-checked"
)
@pytest.mark.parametrize("has_metadata", [True, False], ids=["metadata", "paths"])
async def test_a_server_of_2025_03_26_is_signed_in_to_by_its_rules(commands: Commands, has_metadata: bool) -> None:
    async with run_peer(kind=SignedInServer, challenge="Bearer") as peer:
        peer.answers["/.well-known/oauth-protected-resource/mcp"] = (404, b"", "")
        peer.document = {"code_challenge_methods_supported": None}
        if not has_metadata:
            peer.answers["/.well-known/oauth-authorization-server"] = (404, b"", "")
        config = ("--mcp-config", commands.program.servers(tracker={"url": peer.url}))
        signed = await commands.run("login", "tracker", "--yes", *config)
        assert (await commands.run("tools", "tracker", *config))["tools"][0]["name"] == "hello"
    assert signed["issuer"] == peer.origin
    assert peer.asked[0]["code_challenge_method"] == "S256"
    assert peer.asked[0]["resource"] == peer.forms[0]["resource"] == peer.url
    looked = [seen for seen in peer.seen if seen.path.endswith("/oauth-authorization-server")]
    assert {seen.headers["mcp-protocol-version"] for seen in looked} == {"2025-03-26"}
    assert signed["discovered"]["form"] == ("oauth" if has_metadata else "legacy")


@pytest.mark.req("auth.iss.present", "auth.iss.required", "auth.iss.error-response")
@pytest.mark.parametrize(
    ("redirect", "promised", "text"),
    [
        ({"iss": "https://evil.example"}, False, "does not come from"),
        ({}, True, "does not say"),
        ({"code": None, "error": "x", "error_description": "call ABC-9", "iss": "https://evil.example"}, False, "come"),
    ],
    ids=["another", "none", "an error"],
)
async def test_a_response_from_another_issuer_ends_login_and_its_code_is_never_sent(
    commands: Commands, redirect: dict[str, str | None], promised: bool, text: str
) -> None:
    document = {"authorization_response_iss_parameter_supported": promised}
    async with run_peer(kind=SignedInServer, redirect=redirect, document=document) as peer:
        config = ("--mcp-config", commands.program.servers(tracker={"url": peer.url}))
        told = await commands.refused("login", "tracker", "--yes", *config)
    assert text in told
    assert "evil" not in told
    assert "ABC-9" not in told
    assert peer.forms == []
    assert (await commands.run("accounts"))["accounts"] == []


class StepUpServer(SignedInServer):
    """A server that requires further scopes (`more`) for tool calls."""

    more = "tools:write"

    async def mcp(self, request: ReceivedRequest) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        called = request.method == "POST" and request.message.get("method") == "tools/call"
        if called and token in self.valid and not self.valid[token].issuperset(self.more.split()):
            await request.reply(403, b"", www_authenticate=f'Bearer error="insufficient_scope", scope="{self.more}"')
        elif called and token in self.valid:
            await request.result({"content": [{"type": "text", "text": "done"}]})
        else:
            await SignedInServer.mcp(self, request)


@pytest.mark.req("auth.stepup.403", "auth.stepup.union", "auth.stepup.retry-original")
async def test_the_pipe_asks_for_old_and_new_rights_together_and_the_same_call_continues(commands: Commands) -> None:
    async with run_peer(kind=StepUpServer) as peer:
        config = ("--mcp-config", commands.program.servers(tracker={"url": peer.url}))
        await commands.run("login", "tracker", "--yes", *config)

        def drive() -> Any:
            with commands.program.pipe(*config) as pipe:
                call = pipe.send("call", server="tracker", tool="hello", arguments={})
                question = pipe.event("question", kind="sign_in")
                pipe.send("answer", question=question["question"], answer="once")
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(question["url"]) as page:
                    assert b"Response received" in page.read()
                result = pipe.result(call)
                pipe.end()
            return question, result

        question, result = await anyio.to_thread.run_sync(drive)
    assert question["scopes"] == ["tools:read", "tools:write"]
    assert query(question["url"])["scope"] == "tools:read tools:write"
    assert result["result"]["content"][0]["text"] == "done"


@pytest.mark.req("auth.state")
@pytest.mark.parametrize("state", ["another", None], ids=["wrong", "missing"])
async def test_a_sign_in_with_a_foreign_answer_reports_it_and_ends_within_the_timeout(
    commands: Commands, state: str | None
) -> None:
    async with run_peer(kind=SignedInServer, redirect={"state": state}) as peer:
        config = ("--mcp-config", commands.program.servers(tracker={"url": peer.url}))
        await anyio.to_thread.run_sync(partial(commands.program.run, "servers", "trust", "tracker", "--yes", *config))

        def drive() -> Any:
            with commands.program.pipe("--timeout", "4", *config) as pipe:
                connect = pipe.send("connect", server="tracker")
                question = pipe.event("question", kind="sign_in")
                pipe.send("answer", question=question["question"], answer="once")
                browser = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                with pytest.raises(urllib.error.HTTPError, match="400") as refused:
                    browser.open(question["url"])
                refused.value.close()
                told = pipe.event("signing_in", step="person", text=STRAYED)
                result = pipe.result(connect)
                pipe.end()
            return told, question, result

        told, question, result = await anyio.to_thread.run_sync(drive)
    assert question["seconds"] <= told["seconds"] + 4 <= 8
    assert not result["ok"]
    assert "Nobody signed in to 'tracker' within 4 seconds." in result["error"]["message"]
    assert "missing or wrong state was ignored" in result["error"]["message"]
    assert peer.forms == []


@pytest.mark.req("auth.ext.client-credentials", "auth.token.storage")
async def test_a_server_with_a_client_grant_is_reported_and_stores_nothing(commands: Commands, tmp_path: Path) -> None:
    class BankServer(SignedInServer):
        async def token(self, request: ReceivedRequest) -> None:
            self.forms.append(query(f"?{request.body.decode()}"))
            await self.grant(request, "machine", "tools:read")

    async with run_peer(kind=BankServer, refresh=False) as peer:
        grant = {"grant": "client_credentials", "clientId": "me", "clientSecret": "a-secret-7", "issuer": peer.origin}
        entry = {"url": peer.url, "mcphost": {"oauth": grant}}
        config = ("--mcp-config", commands.program.servers(tracker=entry))
        signed = await commands.run("login", "tracker", "--yes", *config)
        assert (await commands.run("tools", "tracker", *config))["tools"][0]["name"] == "hello"
        run = partial(commands.program.text, "login", "tracker", "--yes", *config)
        assert "Signed in to tracker" in await anyio.to_thread.run_sync(run)
        left = partial(commands.program.error, "logout", "tracker", *config, code=2)
        assert "without user interaction" in await anyio.to_thread.run_sync(left)
        given = list(peer.valid)
    assert (signed["place"], signed["state"]) == ("earned", "signed in, renewed automatically")
    assert [form["grant_type"] for form in peer.forms] == ["client_credentials"] * 3
    written = b"".join(
        [await path.read_bytes() async for path in anyio.Path(tmp_path).rglob("*") if await path.is_file()]
    )
    assert [token for token in given if token.encode() in written] == []
