"""The screen of what is allowed: found, understood, revoked by keyboard; nothing a server named is drawn as it came."""

import pytest

from mcphost.config.rules import Rule, exact_pattern
from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus
from mcphost.store.grants import CHANGED_REASON, Grant
from mcphost.store.roots import FolderAnswer
from tests.screens.conftest import Run
from tests.screens.example_records import EXAMPLE_TIME, example_grants

pytestmark = pytest.mark.anyio


@pytest.mark.req("ui.rules")
async def test_grants_are_shown_with_their_bounds_searched_and_revoked_by_two_presses(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        it.host.grants.given = example_grants()
        await it.pilot.press("f7")
        await it.until(lambda: "files/read*?path=under:~/proj" in it.text(), "the rule")
        for words in ("used 12 times", "in the folder /home/me/proj", "read_file, read_folder", "4f2a91c0"):
            assert words in it.text()
        await it.pilot.press("down")
        await it.until(lambda: f"no: {CHANGED_REASON}" in it.text(), "why it does not count")
        assert "\x1b" not in it.text()
        assert "\u202e" not in it.text()
        assert "[/bold]" in it.text()
        await it.pilot.press("x")
        await it.until(lambda: "Press x again to revoke it" in it.text())
        await it.pilot.press("up")
        await it.pilot.press("x")
        assert len(it.host.grants.given) == 2
        await it.pilot.press("x")
        await it.until(lambda: [one.grant.id for one in it.host.grants.given] == ["77"])
        await it.until(lambda: "under:~/proj" not in it.text())
        await it.pilot.press("ctrl+f")
        await it.type("nothing like it")
        await it.until(lambda: "No matches." in it.text() and "0 of 1" in it.text())


async def test_the_servers_page_leads_to_the_grants_of_that_server(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        it.host.grants.given = example_grants()
        await it.pilot.press("f3", "g")
        await it.until(lambda: "files/read*" in it.text(), "its grants")
        assert "github" not in it.text()
        await it.pilot.press("escape", "escape")


async def test_a_grant_of_this_session_is_listed_and_revoked(run: Run) -> None:
    async with run() as it:
        rule = Rule(server="files", tool=exact_pattern("write_file"))
        grant = Grant(
            id="s4f2a91c0", rule=rule, server_digest="s", tools={"write_file": "d"}, created=EXAMPLE_TIME, session=True
        )
        it.host.grants.given = [GrantStatus(grant, "counts")]
        await it.pilot.press("f7")
        await it.until(lambda: "until mcphost ends" in it.text(), "how long it holds")
        assert "files/write_file" in it.text()
        await it.pilot.press("x", "x")
        await it.until(lambda: "No permissions." in it.text())
        assert it.host.grants.given == []


async def test_a_lasting_answer_about_a_folder_is_listed_and_revoked(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        answer = FolderAnswer(
            id="r1", server="files", server_digest="s", path="/srv/\x1b[2J", is_shared=False, created=EXAMPLE_TIME
        )
        it.host.grants.answers = [FolderAnswerStatus(answer, "counts")]
        await it.pilot.press("f7")
        await it.until(lambda: "files may not know /srv/" in it.text(), "the answer")
        assert "\x1b" not in it.text()
        assert "never" in it.text()
        await it.pilot.press("x")
        await it.until(lambda: "Press x again to revoke it; the folder will be asked about" in it.text())
        await it.pilot.press("x")
        await it.until(lambda: "No permissions." in it.text())


async def test_without_a_grant_the_screen_says_what_would_be_there(run: Run) -> None:
    async with run() as it:
        await it.pilot.press("f7")
        await it.until(lambda: "No permissions." in it.text())
        await it.pilot.press("x", "escape")
