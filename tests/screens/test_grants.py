"""Tests for the grants screen: search, details and revocation by keyboard, with names from servers sanitized."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.rule_syntax import exact_pattern
from mcphost.config.rules import Rule
from mcphost.host import events
from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus
from mcphost.store.grants import CHANGED_REASON, Grant
from mcphost.store.roots import FolderAnswer
from tests.screens.conftest import Run
from tests.screens.example_records import EXAMPLE_TIME, example_grants
from tests.screens.real_program import DEMO_SERVER, Files

pytestmark = pytest.mark.anyio


@pytest.mark.req("ui.rules")
async def test_grants_are_shown_with_their_bounds_searched_and_revoked_by_two_presses(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.grants.given = example_grants()
        await driver.pilot.press("f7")
        await driver.until(lambda: "files/read*?path=under:~/proj" in driver.text(), "the rule")
        for words in ("used 12 times", "in the folder /home/me/proj", "read_file, read_folder", "4f2a91c0"):
            assert words in driver.text()
        await driver.pilot.press("down")
        await driver.until(lambda: f"no: {CHANGED_REASON}" in driver.text(), "why it does not count")
        assert "\x1b" not in driver.text()
        assert "\u202e" not in driver.text()
        assert "[/bold]" in driver.text()
        await driver.pilot.press("x")
        await driver.until(lambda: "Press x again to revoke it" in driver.text())
        await driver.pilot.press("up")
        await driver.pilot.press("x")
        assert len(driver.host.grants.given) == 2
        await driver.pilot.press("x")
        await driver.until(lambda: [item.grant.id for item in driver.host.grants.given] == ["77"])
        await driver.until(lambda: "under:~/proj" not in driver.text())
        await driver.pilot.press("ctrl+f")
        await driver.type("nothing like it")
        await driver.until(lambda: "No matches." in driver.text() and "0 of 1" in driver.text())


async def test_a_page_that_is_still_loading_does_not_deny_permissions(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run() as driver:
        is_loaded = anyio.Event()

        async def list_later(**_unused: str) -> tuple[GrantStatus, ...]:
            await is_loaded.wait()
            return ()

        monkeypatch.setattr(driver.host.grants, "list_grants", list_later)
        await driver.pilot.press("f7")
        await driver.until(lambda: "Permissions" in driver.text(), "the page")
        await driver.pilot.pause()
        assert "No permissions." not in driver.text()
        is_loaded.set()
        await driver.until(lambda: "No permissions." in driver.text(), "the empty list")


async def test_a_tool_that_is_kept_while_the_page_is_open_is_shown_as_active(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        counting, changed, *_others = example_grants()
        driver.host.grants.given = [changed]
        await driver.pilot.press("f7")
        await driver.until(lambda: f"no: {CHANGED_REASON}" in driver.text(), "why it does not count")
        driver.host.grants.given = [counting]
        driver.host.put(events.CatalogChanged("files", (), (), ()))
        await driver.until(lambda: CHANGED_REASON not in driver.text(), "the grant as it is now")
        assert "under:~/proj" in driver.text()


async def test_the_servers_page_leads_to_the_grants_of_that_server(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.grants.given = example_grants()
        await driver.pilot.press("f3", "g")
        await driver.until(lambda: "files/read*" in driver.text(), "its grants")
        assert "github" not in driver.text()
        await driver.pilot.press("escape", "escape")


async def test_a_grant_of_this_session_is_listed_and_revoked(run: Run) -> None:
    async with run() as driver:
        rule = Rule(server="files", tool=exact_pattern("write_file"))
        grant = Grant(
            id="s4f2a91c0", rule=rule, server_digest="s", tools={"write_file": "d"}, created=EXAMPLE_TIME, session=True
        )
        driver.host.grants.given = [GrantStatus(grant, "counts")]
        await driver.pilot.press("f7")
        await driver.until(lambda: "until mcphost quits" in driver.text(), "how long it holds")
        assert "files/write_file" in driver.text()
        await driver.pilot.press("x", "x")
        await driver.until(lambda: "No permissions." in driver.text())
        assert driver.host.grants.given == []


async def test_a_lasting_answer_about_a_folder_is_listed_and_revoked(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        answer = FolderAnswer(
            id="r1", server="files", server_digest="s", path="/srv/\x1b[2J", is_shared=False, created=EXAMPLE_TIME
        )
        driver.host.grants.answers = [FolderAnswerStatus(answer, "counts")]
        await driver.pilot.press("f7")
        await driver.until(lambda: "files may not know /srv/" in driver.text(), "the answer")
        assert "\x1b" not in driver.text()
        assert "never" in driver.text()
        await driver.pilot.press("x")
        await driver.until(lambda: "Press x again to revoke it; you will be asked again" in driver.text())
        await driver.pilot.press("x")
        await driver.until(lambda: "No permissions." in driver.text())


async def test_changes_that_are_kept_for_this_session_are_listed_and_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files.create(tmp_path, monkeypatch)
    files.write_servers(demo=DEMO_SERVER | {"mcphost": {"watch": ["*.none"]}})
    async with files.open((80, 24)) as driver:
        servers: Any = driver.host.servers
        await servers.ensure_ready("demo")
        servers.change_acceptances.add("demo", server_digest(servers.view("demo").config))
        await driver.pilot.press("f7")
        await driver.until(lambda: "demo: changes of its tools" in driver.text(), "the decision")
        await driver.until(lambda: "changed tools of this server are kept without asking" in driver.text(), "what")
        await driver.pilot.press("x")
        await driver.until(lambda: "Press x again" in driver.text(), "the question")
        await driver.pilot.press("x")
        await driver.until(lambda: "No permissions." in driver.text())
        assert not servers.change_acceptances.list()


async def test_changes_are_not_shown_as_kept_after_the_watch_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files.create(tmp_path, monkeypatch)
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((80, 24)) as driver:
        servers: Any = driver.host.servers
        await servers.ensure_ready("demo")
        servers.change_acceptances.add("demo", server_digest(servers.view("demo").config))
        await driver.pilot.press("f7")
        await driver.until(lambda: "no: your mcp.json no longer watches its files" in driver.text(), "the reason")


async def test_without_a_grant_the_screen_explains_grants(run: Run) -> None:
    async with run() as driver:
        await driver.pilot.press("f7")
        await driver.until(lambda: "No permissions." in driver.text())
        await driver.pilot.press("x", "escape")
