"""Tests for accounts: which one a call uses, how the approval names it, and switching and signing out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.auth.accounts import Account
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.token_store import TokenStore
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import HostConfig, ModelConfig, OAuthConfig, RootConfig, ServerConfig
from mcphost.errors import McpHostError, SignInRequired, UsageError
from mcphost.host.bootstrap import build_host
from mcphost.host.events import NoticeEvent, ServerState
from mcphost.host.host import Host
from mcphost.host.questions.questions import AllowOnce, AllowSession, ApproveTool, Cancel, Deny, ShareOnce
from mcphost.host.servers.accounts import describe_validity, validity
from mcphost.sign_in_types import SignInProgress
from mcphost.store.database import Database
from tests.event_loop import wait_until
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.memory_backend import MemoryBackend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, run_peer
from tests.unit.host.asking_server import (
    BOTH_ERAS,
    ROOTS,
    AskingServer,
    form_request,
    open_asking_host,
    sampling_request,
    url_request,
)
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


class Tracker(OAuthPeer):
    """An MCP server with one tool; it requires a sign-in unless `open` is set."""

    open = False

    async def mcp(self, request: ReceivedRequest) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.open and token not in self.valid:
            return await OAuthPeer.mcp(self, request)
        match request.message.get("method") if request.method == "POST" else request.method:
            case "server/discover":
                return await request.error(404, -32601)
            case "initialize":
                info = {"name": "tracker", "version": "1"}
                capabilities = {"tools": {}, "resources": {"subscribe": True}}
                return await request.result(
                    {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
                )
            case "tools/list":
                return await request.result({"tools": [{"name": "close", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                return await request.result({"content": [{"type": "text", "text": "closed"}]})
            case "resources/list" | "resources/templates/list" as method:
                return await request.result({"resources" if method == "resources/list" else "resourceTemplates": []})
            case "resources/subscribe":
                return await request.result({})
            case _:
                return await request.reply(202 if request.method == "POST" else 405, b"")


@asynccontextmanager
async def open_tracker_host(
    folder: Path, peer: OAuthPeer, frontend: ScriptedFrontend, account: str = ""
) -> AsyncIterator[Host]:
    """Open a host with only this server, and a user who completes every sign-in."""
    server = ServerConfig(name="tracker", url=peer.url, source="flag", oauth=OAuthConfig(account=account))
    database = Database(folder / "store.db")
    opener = ClientSessionOpener(accounts=OAuthRegistry(TokenStore(MemoryBackend(), None), BrowserUser()))
    model = ScriptedModel(tool_round(("tracker__close", {})), text_round("done"))
    config = HostConfig(servers=(server,), model=ModelConfig(name="scripted"))
    async with build_host(
        config, store=database, opener=opener, model_factory=lambda _: model, frontend=frontend
    ) as host:
        yield host
    await database.close()


@pytest.mark.parametrize(("configured", "shown"), [("work", "work"), ("", "default"), ("default", "default")])
async def test_a_call_is_approved_with_the_name_of_the_account_it_would_run_with(
    tmp_path: Path, configured: str, shown: str
) -> None:
    frontend = ScriptedFrontend(AllowOnce())
    async with run_peer(kind=Tracker) as peer, open_tracker_host(tmp_path, peer, frontend, configured) as host:
        feed = host.events.subscribe()
        await host.servers.ensure_ready("tracker")
        await host.conversation.send("close it")
        view = host.servers.view("tracker")
    heard = [event async for event in feed]
    (questions,) = frontend.asked
    assert isinstance(questions, ApproveTool)
    assert questions.account == shown
    assert view.account is not None
    assert (view.account.name, view.account.issuer) == (shown, peer.origin)
    assert [event.account for event in heard if isinstance(event, ServerState)][-1] == shown


async def test_a_server_that_requires_no_account_has_none(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(AllowOnce())
    async with run_peer(kind=Tracker) as peer, open_tracker_host(tmp_path, peer, frontend, "work") as host:
        peer.open = True
        await host.servers.ensure_ready("tracker")
        await host.conversation.send("close it")
        assert host.servers.view("tracker").account is None
    asked: Any = frontend.asked[0]
    assert asked.account == ""


async def test_signing_out_revokes_and_disconnects_and_asks_only_on_demand(tmp_path: Path) -> None:
    async with run_peer(kind=Tracker) as peer, open_tracker_host(tmp_path, peer, ScriptedFrontend()) as host:
        await host.servers.ensure_ready("tracker")
        (token,) = peer.valid
        feed = host.events.subscribe()
        assert await host.accounts.sign_out("tracker") is True
        states = [event for event in feed.drain() if isinstance(event, ServerState) and event.state == "sign_in"]
        assert states[-1].by_user
        assert token not in peer.valid
        view = host.servers.view("tracker")
        assert (view.state, view.account) == ("sign_in", None)
        with pytest.raises(SignInRequired, match="You signed out"):
            await host.tools.call("tracker", "close", {})
        with pytest.raises(UsageError, match="not signed in"):
            await host.accounts.sign_out("tracker")
        assert len(peer.asked) == 1
        again = await host.accounts.sign_in("tracker")
        assert (again.state, len(peer.asked)) == ("ready", 2)
        assert again.account is not None


@pytest.mark.parametrize(
    ("expires", "is_renewable", "valid", "words"),
    [
        (0, False, "good", "with no known expiry"),
        (1, True, "good", "renewed automatically"),
        (1000, False, "ended", "expired: sign in again"),
        (-5, False, "ended", "expired: sign in again"),
        (1030, False, "soon", "for less than a minute"),
        (1090, False, "soon", "for 1 more minute"),
        (1000 + 5400, False, "good", "for 90 more minutes"),
        (1000 + 7200, False, "good", "for 2 more hours"),
        (1000 + 86400 * 3, False, "good", "for 3 more days"),
        (1000 + 86400 * 9000, False, "good", "for over three years, if this machine's clock is right"),
    ],
)
def test_the_lifetime_of_a_sign_in_is_shown_in_words_and_never_negative(
    expires: float, is_renewable: bool, valid: str, words: str
) -> None:
    account = Account(server="s", url="u", issuer="i", expires=expires, is_renewable=is_renewable)
    assert (validity(account, 1000), describe_validity(account, 1000)) == (valid, words)


@pytest.mark.parametrize("years", [1 / 365, 2])
def test_a_sign_in_of_a_clock_that_was_set_back_is_not_shown_as_valid_for_that_long(years: float) -> None:
    issued = 1_000 + years * 365 * 86_400
    account = Account(server="s", url="u", issuer="i", issued=issued, expires=issued + 3_600)
    assert describe_validity(account, 1_000) == "for an unknown time, because this machine's clock was set back"
    assert describe_validity(account, issued - 60) == "for 61 more minutes", "two machines' clocks may differ a little"
    assert describe_validity(account, issued + 600) == "for 50 more minutes"


@pytest.mark.parametrize("revision", BOTH_ERAS)
@pytest.mark.parametrize("ask", [form_request(), url_request("https://a.example/"), sampling_request(), ROOTS])
async def test_server_requests_name_the_account_in_use(revision: str, ask: Any, tmp_path: Path) -> None:
    asker, frontend = (
        AskingServer(revision, {"a": ask}),
        ScriptedFrontend(*[Cancel() if ask[0].startswith("elicit") else Deny()] * 2),
    )
    if ask is ROOTS:
        frontend = ScriptedFrontend(ShareOnce(), ShareOnce())  # a refusal would apply to the second call too
    async with open_asking_host(tmp_path, asker, frontend, ScriptedModel(), (RootConfig(str(tmp_path)),)) as host:
        connection = host.servers.find("peer")
        with suppress(McpHostError):
            await host.tools.call("peer", "ask", {})
        connection.on_account_changed(Account(server="peer", url="u", issuer="i", account="work"))
        with suppress(McpHostError):
            await host.tools.call("peer", "ask", {})
    assert [question.account for question in frontend.asked] == ["", "work"]


class CallbackFrontend(ScriptedFrontend):
    """A front end that runs a callback before it answers."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    async def ask(self, question: Any) -> Any:
        return await self.answer(question)


class TokenRecordingTracker(Tracker):
    """A server that records the token of each request."""

    def __init__(self) -> None:
        super().__init__()
        self.came: list[tuple[str, str]] = []

    async def mcp(self, request: ReceivedRequest) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.came.append((request.message.get("method", "") if request.method == "POST" else request.method, token))
        await super().mcp(request)

    def calls(self) -> list[str]:
        return [token for method, token in self.came if method == "tools/call"]


async def access_tokens(host: Host, token_store: TokenStore, peer: OAuthPeer) -> dict[str, str]:
    """Return the access token of each signed-in account, by account name."""
    found = [await token_store.load(peer.url, kept.account.account) for kept in await host.accounts.list_accounts()]
    return {signed.account: signed.tokens.access for signed in found if signed is not None}


@asynccontextmanager
async def open_host_with_two_accounts(
    folder: Path, peer: OAuthPeer, frontend: Any, *, user: BrowserUser | None = None, **more: Any
) -> AsyncIterator[tuple[Host, TokenStore]]:
    """Open a host whose server has the accounts `home` and `work`, of which `work` is in use."""
    token_store = TokenStore(MemoryBackend(), folder)
    server = ServerConfig(name="tracker", url=peer.url, source="flag", **more)
    database = Database(folder / "store.db")
    opener = ClientSessionOpener(accounts=OAuthRegistry(token_store, user or BrowserUser()))
    model = ScriptedModel(
        tool_round(("tracker__close", {})), text_round("done"), tool_round(("tracker__close", {})), text_round("done")
    )
    config = HostConfig(servers=(server,), model=ModelConfig(name="scripted"))
    async with build_host(
        config, store=database, opener=opener, model_factory=lambda _: model, frontend=frontend
    ) as host:
        await host.accounts.sign_in("tracker", "home")
        await host.accounts.sign_in("tracker", "work")
        yield host, token_store
    await database.close()


async def test_switching_reconnects_as_the_other_account_and_reports_it(tmp_path: Path) -> None:
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend()) as (host, token_store),
    ):
        feed = host.events.subscribe()
        secret = await access_tokens(host, token_store, peer)
        connection = host.servers.find("tracker")
        await (await connection.changes.get_watcher()).watch("file:///of-work")
        await host.accounts.sign_in("tracker", "work")
        assert tuple(connection.changes.watched_uris) == ("file:///of-work",), "the same account goes on watching"
        await wait_until(lambda: [method for method, _ in peer.came].count("resources/subscribe") == 2)
        peer.came.clear()
        await host.accounts.select_account("tracker", "home")
        assert tuple(connection.changes.watched_uris) == ()
        assert host.servers.view("tracker").account is not None
        assert (await host.tools.call("tracker", "close", {})).text == "closed"
        assert {token for _, token in peer.came if token} == {secret["home"]}
        assert peer.calls() == [secret["home"]]
        assert [kept.account.name for kept in await host.accounts.list_accounts() if kept.used_by] == ["home"]
        texts = [event.text for event in feed.drain() if isinstance(event, NoticeEvent)]
    assert any("the account home instead of work" in text for text in texts)
    listed = await OAuthRegistry(TokenStore(MemoryBackend(), tmp_path), None).list_accounts(
        (ServerConfig(name="tracker", url=peer.url),)
    )
    assert [kept.account.name for kept in listed if kept.used_by] == ["home"], "a later run finds the choice"


async def test_a_call_allowed_for_one_account_is_asked_about_again_for_another(tmp_path: Path) -> None:
    asked: list[str] = []
    async with run_peer(kind=TokenRecordingTracker) as peer:

        async def answered(question: Any) -> Any:
            asked.append(question.account)
            if len(asked) == 1:
                await hosts[0].accounts.select_account("tracker", "home")
            return AllowOnce()

        async with open_host_with_two_accounts(tmp_path, peer, CallbackFrontend(answered)) as (host, token_store):
            hosts = [host]
            secret = await access_tokens(host, token_store, peer)
            await host.conversation.send("close it")
        assert asked == ["work", "home"]
        assert peer.calls() == [secret["home"]]


async def test_calls_allowed_for_one_account_are_asked_about_for_the_other(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(AllowSession(), Deny())
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, frontend) as (host, _),
    ):
        await host.conversation.send("close it")
        await host.accounts.select_account("tracker", "home")
        await host.conversation.send("close it")
        assert [question.account for question in frontend.asked if isinstance(question, ApproveTool)] == [
            "work",
            "home",
        ]
        assert len(peer.calls()) == 1


async def test_signing_out_of_one_account_does_not_affect_the_other_or_its_connection(tmp_path: Path) -> None:
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend()) as (host, token_store),
    ):
        secret = await access_tokens(host, token_store, peer)
        assert await host.accounts.sign_out("tracker", "home")
        assert secret["home"] not in peer.valid
        assert [kept.account.name for kept in await host.accounts.list_accounts()] == ["work"]
        await host.tools.call("tracker", "close", {})
        assert peer.calls() == [secret["work"]]
        with pytest.raises(UsageError, match="as 'home'"):
            await host.accounts.sign_out("tracker", "home")


async def test_after_a_sign_out_no_other_account_is_used_before_one_is_chosen(tmp_path: Path) -> None:
    user = BrowserUser()
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend(), user=user) as (host, token_store),
    ):
        # The account without a name is not selected either.
        for name in ("default", "work"):
            await host.accounts.sign_in("tracker", name)
        secret, feed = await access_tokens(host, token_store, peer), host.events.subscribe()
        assert await host.accounts.unused_accounts("tracker") == ()
        assert await host.accounts.sign_out("tracker")
        assert await host.accounts.unused_accounts("tracker") == ("default", "home")
        said = "Still signed in to tracker: default, home. Choose an account to use it."
        assert [event.text for event in feed.drain() if isinstance(event, NoticeEvent)] == [said]
        assert said in host.servers.view("tracker").hint
        assert "mcphost accounts use tracker default" in host.servers.view("tracker").hint
        peer.came.clear()
        user.answer, user.visit = None, False
        host.servers.restart("tracker")
        with pytest.raises(SignInRequired):
            await host.servers.ensure_ready("tracker")
        assert user.terms[-1].other_accounts == ("default", "home")
        assert {token for _, token in peer.came} == {""}
        assert (await host.accounts.select_account("tracker", "home")).state == "ready"
        await host.tools.call("tracker", "close", {})
        assert peer.calls() == [secret["home"]]


async def test_a_noninteractive_command_lists_the_other_accounts(tmp_path: Path) -> None:
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend()) as (host, token_store),
    ):
        await host.accounts.sign_out("tracker")
        server = ServerConfig(name="tracker", url=peer.url)
        alone = ClientSessionOpener(accounts=OAuthRegistry(token_store, None))
        connection = host.servers.find("tracker")
        with pytest.raises(SignInRequired) as exc_info:
            async with alone.open(server, connection.request_handler, connection):
                pass
    assert "Signed in there as home: mcphost accounts use tracker home" in exc_info.value.hint


async def test_an_unknown_or_configured_account_cannot_be_chosen(tmp_path: Path) -> None:
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend()) as (host, _),
    ):
        for name, reason in (("wrok", "You are not signed in"), ("a\x1bb", "visible"), ("x" * 61, "at most 60")):
            with pytest.raises(UsageError, match=reason):
                await host.accounts.select_account("tracker", name)
        assert host.servers.view("tracker").account is not None
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_tracker_host(tmp_path / "b", peer, ScriptedFrontend(), "work") as host,
    ):
        await host.servers.ensure_ready("tracker")
        (kept,) = await host.accounts.list_accounts()
        assert kept.configured_by == ("tracker",)
        with pytest.raises(UsageError, match="sets the account 'work'"):
            await host.accounts.select_account("tracker", "work")


async def test_a_refused_sign_in_under_another_name_changes_nothing(tmp_path: Path) -> None:
    user = BrowserUser()
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend(), user=user) as (host, token_store),
    ):
        secret = await access_tokens(host, token_store, peer)
        user.answer = None
        user.visit = False
        with pytest.raises(SignInRequired):
            await host.accounts.sign_in("tracker", "third")
        await host.tools.call("tracker", "close", {})
        assert peer.calls() == [secret["work"]]
        assert [kept.account.name for kept in await host.accounts.list_accounts() if kept.used_by] == ["work"]


async def test_another_programs_choice_counts_when_the_server_is_started_again(tmp_path: Path) -> None:
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend()) as (host, token_store),
    ):
        secret = await access_tokens(host, token_store, peer)
        await TokenStore(MemoryBackend(), tmp_path).choose_account(peer.url, "home")
        await host.tools.call("tracker", "close", {})
        host.servers.restart("tracker")
        await host.tools.call("tracker", "close", {})
        assert peer.calls() == [secret["work"], secret["home"]]


async def test_a_stored_sign_in_of_a_removed_server_is_shown_and_can_be_revoked(tmp_path: Path) -> None:
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend()) as (host, token_store),
    ):
        opener = ClientSessionOpener(accounts=OAuthRegistry(token_store, BrowserUser()))
        secret = await access_tokens(host, token_store, peer)
        config = HostConfig(servers=(ServerConfig(name="other", url=f"{peer.url}/other"),))
        database = Database(tmp_path / "second.db")
        later = build_host(
            config, store=database, opener=opener, model_factory=lambda _: ScriptedModel(), frontend=ScriptedFrontend()
        )
        async with later:
            found = await later.accounts.list_accounts()
            assert [(kept.servers, kept.used_by) for kept in found] == [((), ())] * 2
            assert await later.accounts.sign_out_account(found[0])
            assert secret["home"] not in peer.valid
            assert [kept.account.name for kept in await later.accounts.list_accounts()] == ["work"]
        await database.close()


class WaitingUser(BrowserUser):
    """A user who never answers, so that a sign-in keeps waiting."""

    async def sign_in(self, **asked: Any) -> str | None:
        self.asked.set()
        await anyio.sleep_forever()
        return None


@asynccontextmanager
async def open_waiting_host(folder: Path, peer: OAuthPeer) -> AsyncIterator[tuple[Host, WaitingUser]]:
    """Open a host that reports the progress of sign-ins, with a user who never completes one."""
    hosts: list[Host] = []
    user = WaitingUser(visit=False)

    def told(progress: Any) -> None:
        hosts[0].servers.update_sign_in(progress)

    server = ServerConfig(name="tracker", url=peer.url, source="flag")
    database = Database(folder / "store.db")
    opener = ClientSessionOpener(accounts=OAuthRegistry(TokenStore(MemoryBackend(), folder), user, on_progress=told))
    config = HostConfig(servers=(server,))
    frontend = ScriptedFrontend()
    async with build_host(
        config, store=database, opener=opener, model_factory=lambda _: ScriptedModel(), frontend=frontend
    ) as host:
        hosts.append(host)
        yield host, user
    await database.close()


async def test_where_a_sign_in_is_shows_at_its_server_and_it_can_be_stopped(tmp_path: Path) -> None:
    async with run_peer(kind=TokenRecordingTracker) as peer, open_waiting_host(tmp_path, peer) as (host, user):
        feed = host.events.subscribe()
        assert not host.accounts.cancel_sign_in("tracker")
        host.start()
        with anyio.fail_after(20):
            await user.asked.wait()
            view = host.servers.view("tracker")
            assert (view.state, view.detail, view.sign_in_status) == (
                "connecting", "Signing in: waiting for you.", "waiting for you",
            )  # fmt: skip
            assert host.accounts.cancel_sign_in("tracker")
            with pytest.raises(SignInRequired, match="You cancelled"):
                await host.servers.ensure_ready("tracker")
            await anyio.wait_all_tasks_blocked()
        assert not host.servers.view("tracker").sign_in_status
        steps = [event.step for event in feed.drain() if isinstance(event, SignInProgress)]
        assert steps == ["resource", "issuer", "client", "person", "over"]


async def test_a_sign_in_started_by_the_user_is_stopped_and_changes_nothing(tmp_path: Path) -> None:
    async with run_peer(kind=TokenRecordingTracker) as peer, open_waiting_host(tmp_path, peer) as (host, user):
        peer.open = True
        await host.servers.ensure_ready("tracker")
        peer.open = False
        errors: list[str] = []

        async def sign_in() -> None:
            try:
                await host.accounts.sign_in("tracker", "work")
            except SignInRequired as error:
                errors.append(error.message)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sign_in)
                await user.asked.wait()
                assert host.servers.view("tracker").state == "ready"
                assert host.servers.view("tracker").sign_in_status == "waiting for you"
                assert host.accounts.cancel_sign_in("tracker")
        assert errors == ["You cancelled the sign-in to 'tracker'; nothing was changed."]
        assert host.servers.view("tracker").state == "ready"
        assert not host.servers.view("tracker").sign_in_status


async def test_a_declined_sign_in_with_another_account_does_not_stay_in_progress(tmp_path: Path) -> None:
    user = BrowserUser()
    async with (
        run_peer(kind=TokenRecordingTracker) as peer,
        open_host_with_two_accounts(tmp_path, peer, ScriptedFrontend(), user=user) as (host, _),
    ):
        await host.accounts.sign_out("tracker")
        user.answer, user.visit = None, False
        with pytest.raises(SignInRequired, match="You did not sign in"):
            await host.accounts.sign_in("tracker", "third")
        view = host.servers.view("tracker")
        assert (view.state, view.detail) == ("sign_in", "You did not sign in to 'tracker'.")
        with pytest.raises(SignInRequired, match="You did not sign in"):
            await host.servers.ensure_ready("tracker")


async def test_a_cancelled_sign_in_with_another_account_does_not_stay_in_progress(tmp_path: Path) -> None:
    async with run_peer(kind=TokenRecordingTracker) as peer, open_waiting_host(tmp_path, peer) as (host, user):
        host.start()
        with anyio.fail_after(20):
            await user.asked.wait()
            user.asked = anyio.Event()
            async with anyio.create_task_group() as tasks:

                async def sign_in() -> None:
                    with suppress(SignInRequired):
                        await host.accounts.sign_in("tracker", "work")

                tasks.start_soon(sign_in)
                await user.asked.wait()
                assert host.servers.view("tracker").detail == "Sign-in with another account in progress."
                assert host.accounts.cancel_sign_in("tracker")
        view = host.servers.view("tracker")
        assert (view.state, view.detail) == ("sign_in", "You cancelled the sign-in.")
