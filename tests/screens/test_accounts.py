"""Tests for each server's account and the remaining time of its sign-in, in the sidebar and on the servers page."""

from time import time
from typing import Any

import pytest

from mcphost.auth.accounts import DiscoverySummary, StoredAccount
from mcphost.errors import SignInRequired
from mcphost.host.events import ServerState
from mcphost.host.questions.questions import ShareRoots
from mcphost.protocol.server_requests import Root
from mcphost.serialization import replace
from mcphost.sign_in_types import SignInProgress
from mcphost.tui.widgets.long_text import LongText
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run
from tests.screens.example_records import example_account, example_accounts
from tests.screens.fake_host import sample_server

pytestmark = pytest.mark.anyio


def http_server(name: str, state: Any = "ready") -> Any:
    """Return a server with a URL."""
    one = sample_server(name, state)
    return replace(one, config=replace(one.config, command="", args=(), url=f"https://{name}.example/mcp"))


async def test_the_page_shows_the_account_its_scopes_its_expiry_and_its_storage(run: Run) -> None:
    async with run(views=(sample_server("hub", account=example_account()),), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "work, renewed automatically" in driver.text(), "the account")
        for words in ("https://login.example", "registered automatically", "read issues (issues:read), repo"):
            assert words in driver.text()
        assert "in the keyring" in driver.text()


async def test_the_page_shows_the_discovery_results_of_a_sign_in(run: Run) -> None:
    found = DiscoverySummary(
        resource_metadata="https://hub.example/.well-known/oauth-protected-resource/mcp",
        issuer_metadata="https://login.example/.well-known/openid-configuration",
        metadata_kind="oidc",
        device_endpoint="https://login.example/device",
        pkce_methods=("S256",),
    )
    async with run(views=(sample_server("hub", account=example_account(discovery=found)),), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "sign-in details" in driver.text(), "the section")
        for words in ("oauth-protected-resource/mcp", "OpenID Connect Discovery", "login.example/device", "PKCE S256"):
            assert words in driver.app.screen.query_one(LongText).text


async def test_the_list_names_the_account_and_follows_it(run: Run) -> None:
    hub = sample_server("hub", account=example_account())
    async with run(views=(hub,), size=(120, 40)) as driver:
        await driver.until(lambda: "work 2" in driver.text(), "the account")
        driver.host.views = (replace(hub, account=example_account(is_renewable=False, expires=time() + 60)),)
        driver.host.put(ServerState("hub", "ready"))
        await driver.until(lambda: "sign-in ends" in driver.text(), "that it ends soon")
        driver.host.views = (replace(hub, account=example_account(is_renewable=False, expires=time() - 1)),)
        await driver.until(lambda: "sign-in ended" in driver.text(), "that it ended, without an event")
        driver.host.views = (replace(hub, state="sign_in", account=None),)
        driver.host.put(ServerState("hub", "sign_in"))
        await driver.until(lambda: "sign-in needed" in driver.text(), "that somebody must sign in")
        earned = example_account(is_renewable=True, expires=time() + 60, place="earned")
        driver.host.views = (replace(hub, account=earned),)
        driver.host.put(ServerState("hub", "ready"))
        await driver.until(lambda: "work 2" in driver.text(), "that nobody need care")
        await driver.pilot.press("f3")
        await driver.until(lambda: "not stored: obtained again automatically" in driver.text(), "where it is not kept")


async def test_signing_in_and_out_on_the_page_and_out_only_when_pressed_twice(run: Run) -> None:
    async with run(views=(sample_server("hub", account=example_account()),), size=(120, 40)) as driver:
        await driver.pilot.press("f3", "s")
        await driver.until(lambda: driver.host.accounts.signed == [("in", "hub")], "the sign-in")
        await driver.pilot.press("o")
        await driver.until(
            lambda: any("again to sign out" in notification.message for notification in driver.app._notifications),
            "a warning",
        )
        assert driver.host.accounts.signed == [("in", "hub")]
        await driver.pilot.press("o")
        await driver.until(lambda: driver.host.accounts.signed[-1] == ("out", "hub"), "the sign-out")


async def test_a_long_value_stays_in_its_own_column(run: Run) -> None:
    view = sample_server("hub", "failed", detail="word " * 60)
    async with run(views=(view,), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: driver.text().count("word word") > 2, "the detail")
        wrapped = [line for line in driver.text().splitlines() if "word word" in line and "state" not in line]
        assert all("  word" in line for line in wrapped)
        columns = {line.rindex("  word word", 0, 90) for line in wrapped[1:3]}
        assert len(columns) == 1


async def test_a_dialog_names_the_account_that_the_asking_server_is_used_with(run: Run) -> None:
    question = ShareRoots(server="hub", why="it asks", account="work\x1b[31m", roots=(Root("file:///srv/a"),))
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, question)
        await driver.enter_question()
        assert "it asks · account work" in driver.text()
        assert "\x1b" not in driver.text()


async def test_all_accounts_are_shown_which_is_used_and_enter_uses_another(run: Run) -> None:
    async with run(views=(http_server("hub"), http_server("slack", "sign_in")), size=(120, 40)) as driver:
        driver.host.accounts.kept = example_accounts()
        await driver.pilot.press("f12")
        await driver.until(lambda: "● hub · work" in driver.text(), "the one in use")
        for words in ("○ hub · default", "▲ slack · work", "not in use, expired", "◇ old", "no longer configured"):
            assert words in driver.text(), words
        assert "\x1b" not in driver.text()
        await driver.pilot.press("enter")
        await driver.until(
            lambda: "● hub · default" in driver.text() and "○ hub · work" in driver.text(), "the other one"
        )


async def test_accounts_of_a_server_with_a_long_name_are_distinguished_and_found_by_the_full_name(run: Run) -> None:
    name = "team-document-search.production.eu-central-1"
    async with run(views=(http_server(name),), size=(80, 24)) as driver:
        driver.host.accounts.kept = [
            StoredAccount(account=replace(example_account(), server=name, account=account), servers=(name,))
            for account in ("one", "two")
        ]
        await driver.pilot.press("f12")
        for account in ("one", "two"):
            await driver.until(lambda account=account: f"team-document-searc… · {account}" in driver.text(), account)
        await driver.pilot.press("ctrl+f", *"production", "enter")
        await driver.until(lambda: "2 of 2" in driver.text(), "both")


async def test_an_account_name_is_asked_for_and_used_and_nothing_else_is_a_name(run: Run) -> None:
    async with run(views=(http_server("hub"),), size=(100, 30)) as driver:
        driver.host.accounts.kept = example_accounts()
        await driver.pilot.press("f3", "a")
        await driver.until(lambda: "hub · work" in driver.text(), "the accounts of that server")
        assert "slack" not in driver.text()
        await driver.pilot.press("n")
        await driver.until(lambda: "such as work" in driver.text(), "an example")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Type a name for the account first." in driver.text(), "what is missing")
        await driver.type("work")
        await driver.until(lambda: "work is signed in already" in driver.text(), "what it means")
        await driver.type("3")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.accounts.signed == [("in", "hub work3")], "the sign-in")
        await driver.pilot.press("n", "escape", "s")
        await driver.until(
            lambda: driver.host.accounts.signed[1:] == [("in", "hub default")], "and again with the first one"
        )


async def test_a_sign_in_in_progress_is_shown_beside_the_account_and_s_stops_it(run: Run) -> None:
    async with run(views=(http_server("hub"),), size=(120, 40)) as driver:
        driver.host.accounts.kept = example_accounts()[:2]
        await driver.pilot.press("f12")
        await driver.until(lambda: "hub · work" in driver.text(), "the page")
        driver.host.views = (replace(driver.host.views[0], sign_in_status="requesting the token"),)
        driver.host.put(SignInProgress(server="hub", step="code"))
        await driver.until(lambda: "requesting the token; s cancels" in driver.text(), "the step")
        await driver.pilot.press("s")
        await driver.until(lambda: driver.host.accounts.signed == [("stopped", "hub")], "its end")


async def test_the_cursor_stays_on_its_account_when_another_is_inserted_before_it(run: Run) -> None:
    async with run(views=(http_server("hub"),), size=(120, 40)) as driver:
        driver.host.accounts.kept = example_accounts()[1:2]
        await driver.pilot.press("f12")
        await driver.until(lambda: "account  work" in driver.text(), "the only one")
        driver.host.accounts.kept = example_accounts()[:2]
        driver.host.put(ServerState("hub", "ready"))
        await driver.until(lambda: "hub · default" in driver.text(), "the other one")
        await driver.pilot.press("o")
        await driver.until(
            lambda: any("out of hub · work" in notification.message for notification in driver.app._notifications),
            "the first",
        )
        await driver.pilot.press("o")
        await driver.until(lambda: [item.account.name for item in driver.host.accounts.kept] == ["default"], "its end")


async def test_the_sign_in_of_a_removed_server_is_revoked_by_two_key_presses(run: Run) -> None:
    async with run(views=(http_server("new", "sign_in"),), size=(80, 24)) as driver:
        driver.host.accounts.kept = example_accounts()[3:]
        await driver.pilot.press("f12")
        await driver.until(lambda: "◇ old" in driver.text() and "◌ new" in driver.text(), "both")
        await driver.pilot.press("enter", "n", "s", "o")
        assert len(driver.host.accounts.kept) == 1
        await driver.pilot.press("o")
        await driver.until(lambda: not driver.host.accounts.kept and "◇" not in driver.text(), "its end")
        await driver.pilot.press("enter")
        await driver.until(
            lambda: driver.host.accounts.signed == [("in", "new")], "a server that wants one and has none"
        )


async def test_without_an_account_the_page_explains_accounts(run: Run) -> None:
    async with run(views=(sample_server("files"),)) as driver:
        await driver.type("/accounts")
        await driver.pilot.press("enter", "enter")
        await driver.until(lambda: "You are not signed in to any server." in driver.text(), "what would be there")
        await driver.pilot.press("enter", "n", "s", "o", "escape")


@pytest.mark.parametrize("keys", [("f3", "s"), ("f12", "s")])
async def test_a_refused_sign_in_names_the_key_that_signs_in_and_the_command(run: Run, keys: tuple[str, str]) -> None:
    async with run(views=(http_server("hub", "sign_in"),), size=(80, 24)) as driver:

        async def refused(server: str, account: str | None = None) -> None:
            raise SignInRequired("You did not sign in to 'hub'.", "Sign in: mcphost login hub", server=server)

        driver.host.accounts.sign_in = refused
        await driver.pilot.press(keys[0])
        await driver.until(lambda: "hub" in driver.text(), "the page")
        await driver.pilot.press(keys[1])
        said = "You did not sign in to 'hub'. Press s to sign in. Sign in: mcphost login hub"
        await driver.until(
            lambda: said in [notification.message for notification in driver.app._notifications], "the way to sign in"
        )


async def test_a_required_sign_in_is_shown_in_the_chat_with_its_key(run: Run) -> None:
    async with run(views=(http_server("hub", "sign_in"),), size=(80, 24)) as driver:
        driver.host.put(ServerState("hub", "sign_in", "It wants you to sign in.", hint="Sign in: mcphost login hub"))
        await driver.until(lambda: "Press s on the servers page (F3) to sign in." in driver.transcript(), "the key")
        assert "mcphost login hub" in driver.transcript()
