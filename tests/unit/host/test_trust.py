"""May this server be used? Approval is for exactly what was shown, for as long as was said, and asked about again."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.digest import server_digest
from mcphost.config.schema import ServerConfig
from mcphost.data import replace
from mcphost.host.ledger.journal import Journal, in_memory
from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustOnce, TrustServer
from mcphost.host.servers.trust import Trusting, approve, carry, question
from mcphost.store.database import Database
from mcphost.store.grants import Grants
from tests.fakes.front import ScriptedFront

pytestmark = pytest.mark.anyio
SERVER = ServerConfig(
    name="files", command="npx", args=("-y", "fs"), cwd="/srv/a", env={"TOKEN": "s3cret"}, source="project",
    file="/srv/a/.mcp.json",
)  # fmt: skip
WEB = ServerConfig(name="web", url="https://mcp.example/mcp", headers={"X-Key": "s3cret"}, source="project")
CHANGES = [
    {"command": "npx2"}, {"args": ("fs", "-y")}, {"cwd": "/srv/b"}, {"env": {"OTHER": "s3cret"}},
    {"url": "https://mcp.example/other"}, {"headers": {"X-Other": "s3cret"}}, {"ca_file": "/srv/ca.pem"},
]  # fmt: skip


@pytest.fixture
async def grants(tmp_path: Path) -> AsyncIterator[Grants]:
    database = Database(tmp_path / "s.db")
    yield Grants(database)
    await database.close()


def trusting(grants: Grants, *answers: Any) -> tuple[Trusting, ScriptedFront]:
    """One run."""
    front = ScriptedFront(*answers)
    return Trusting(grants, front, in_memory()), front


@pytest.mark.parametrize(("answer", "later"), [(TrustOnce(), False), (TrustAlways(), True), (DoNotTrust(), False)])
async def test_an_approval_lasts_as_long_as_was_said(grants: Grants, answer: Any, later: bool) -> None:
    one, front = trusting(grants, answer)
    allowed = not isinstance(answer, DoNotTrust)
    assert await one.allows(SERVER) is allowed
    assert await one.knows(SERVER) is allowed
    assert len(front.asked) == 1
    now, front = trusting(grants, DoNotTrust())
    assert await now.allows(SERVER) is later
    assert len(front.asked) == (not later)


@pytest.mark.parametrize("answer", [TrustOnce(), TrustAlways()])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_what_is_started_or_reached_in_another_way_is_asked_about_again(
    grants: Grants, change: dict[str, Any], answer: Any
) -> None:
    before = SERVER if next(iter(change)) in ("command", "args", "cwd", "env") else WEB
    one, front = trusting(grants, answer, DoNotTrust())
    assert await one.allows(before)
    assert not await one.allows(replace(before, **change))
    asked = front.asked[1]
    assert isinstance(asked, TrustServer)
    assert bool(asked.changed) is isinstance(answer, TrustAlways)
    assert await one.allows(before), "what was approved stays so"


async def test_the_question_says_all_there_is_and_no_secret() -> None:
    asked = question(replace(SERVER, trust_annotations=True), None)
    assert (asked.command, asked.cwd, asked.env_names) == (("npx", "-y", "fs"), "/srv/a", ("TOKEN",))
    assert asked.file == "/srv/a/.mcp.json"
    assert asked.trusts_claims
    web = question(WEB, None)
    assert (web.url, web.header_names, web.trusts_claims) == ("https://mcp.example/mcp", ("X-Key",), False)
    assert "s3cret" not in repr(asked) + repr(web)


async def noted(journal: Journal) -> list[str]:
    await journal.ledger.flush()
    return await journal.ledger._database.run(  # pyright: ignore[reportPrivateUsage]
        lambda db: [row[0] for row in db.execute("SELECT event FROM ledger WHERE kind = 'trust' ORDER BY seq")]
    )


async def test_what_mcphost_itself_rewrites_is_approved_only_where_exactly_that_was(grants: Grants) -> None:
    journal, after = in_memory(), replace(SERVER, args=("-y", "fs", "--new"))
    assert not await carry(grants, journal, SERVER, after)
    await approve(grants, journal, replace(SERVER, command="other"))
    assert not await carry(grants, journal, SERVER, after)
    assert not await trusting(grants)[0].knows(after)
    assert await noted(journal) == ["kept"], "and nothing else is recorded"
    await approve(grants, journal, SERVER)
    assert await carry(grants, journal, SERVER, after)
    assert await trusting(grants)[0].knows(after)


def test_of_two_places_that_differ_only_the_folder_of_the_users_own_file_is_the_same() -> None:
    def at(folder: str, source: Any) -> str:
        return server_digest(replace(SERVER, cwd=folder, file=f"{folder}/mcp.json", source=source))

    assert server_digest(replace(WEB, ca_file="/a.pem")) != server_digest(replace(WEB, ca_file="/b.pem"))
    assert at("/srv/a", "user") == at("/srv/b", "user")
    assert at("/srv/a", "project") != at("/srv/b", "project")
