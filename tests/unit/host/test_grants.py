"""Tests for the list of grants: whether each still applies, and which earlier calls a rule would cover."""

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.errors import StoreError, UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.consent.grants import (
    OTHER_ACCOUNT,
    SERVER_CHANGED,
    SERVER_NOT_CONFIGURED,
    ActiveGrants,
    GrantRegistry,
)
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import Message, ToolReturnPart, ToolUsePart
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import replace
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.grants import CHANGED_REASON, EXPIRED_REASON, Grant, GrantStore
from mcphost.store.roots import FolderAnswerStore
from tests.unit.host.audit_rows import create_audit_log, read_rows

pytestmark = pytest.mark.anyio


class ConfiguredServers:
    """A stand-in for the host's configured servers."""

    def __init__(self) -> None:
        self.there = {"s": open_server("sd"), "x": open_server("xd", account="work", folder="/srv")}

    def find(self, name: str) -> Any:
        if name not in self.there:
            raise UsageError("There is no such server.")
        return self.there[name]


def open_server(digest: str, *, account: str = "", folder: str | None = None, held: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(
        digest=digest, account=account, folder=folder, tool_changes=SimpleNamespace(quarantined=frozenset(held))
    )


class ProgramGrants:
    """The grants and permissions of one process, in which the conversation c1 is open."""

    def __init__(self, path: Path, checker: SchemaValidator) -> None:
        database = Database(path)
        self.grants, self.conversations, self.servers = (
            GrantStore(database),
            ConversationStore(database),
            ConfiguredServers(),
        )
        self.audit_log, servers = create_audit_log(path.parent), self.servers
        self.folders = FolderAnswerStore(database)
        matching = RuleMatcher(checker)
        conversation = ActiveConversation(Lazy(lambda: self.conversations), EventBus())
        conversation.current.id = "c1"
        self.standing = ActiveGrants(self.grants, matching, conversation, lambda error: None)
        self.permissions = GrantRegistry(
            self.grants, self.conversations, matching, servers, self.standing, self.audit_log,  # type: ignore[arg-type]
            self.folders,
        )  # fmt: skip

    async def give(self, text: str = "s/t", *, tools: tuple[str, ...] = ("t",), place: str = "", **more: Any) -> Grant:
        rule = replace(parse_rule(text), **more)
        return await self.grants.add(
            Grant(rule=rule, server_digest=f"{rule.server}d", tools=dict.fromkeys(tools, "d"), place=place)
        )

    async def states(self) -> list[tuple[str, str]]:
        return [(grant.state, grant.why) for grant in await self.permissions.list_grants()]


@pytest.fixture
async def program_grants(tmp_path: Path) -> AsyncIterator[ProgramGrants]:
    checker = SchemaValidator()
    yield ProgramGrants(tmp_path / "s.db", checker)
    await checker.close()


async def test_active_grants_are_marked_active(
    program_grants: ProgramGrants, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    await program_grants.give()
    await program_grants.give("s", tools=())
    await program_grants.give("s/a", expires=time.time() + 60)
    await program_grants.give("s/b", scope="conversation", place="c1")
    await program_grants.give("s/c", scope="project", place=str(tmp_path))
    assert await program_grants.states() == [("counts", "")] * 5


@pytest.mark.parametrize(
    ("given", "state", "reason"),
    [
        ({"text": "gone/t"}, "elsewhere", SERVER_NOT_CONFIGURED),
        ({"scope": "conversation", "place": "c2"}, "elsewhere", "it is for another conversation"),
        ({"scope": "project", "place": "/elsewhere"}, "elsewhere", "it is for another folder"),
        ({"expires": 5.0}, "suspended", EXPIRED_REASON),
    ],
)
async def test_inactive_grants_show_a_reason(
    program_grants: ProgramGrants, given: dict[str, Any], state: str, reason: str
) -> None:
    await program_grants.give(**given)
    assert await program_grants.states() == [(state, reason)]


async def test_a_grant_of_a_server_that_is_started_otherwise_of_held_tools_or_suspended_does_not_count(
    program_grants: ProgramGrants,
) -> None:
    grant = await program_grants.give(tools=("t", "u"))
    program_grants.servers.there["s"] = open_server("sd", held=("t",))
    assert await program_grants.states() == [("counts", "")]  # for the other tool
    program_grants.servers.there["s"] = open_server("sd", held=("t", "u", "v"))
    assert await program_grants.states() == [("suspended", CHANGED_REASON)]
    program_grants.servers.there["s"] = open_server("other")
    assert await program_grants.states() == [("elsewhere", SERVER_CHANGED)]
    program_grants.servers.there["s"] = open_server("sd")
    await program_grants.grants.suspend([grant.id], CHANGED_REASON)
    assert await program_grants.states() == [("suspended", CHANGED_REASON)]


async def test_a_grant_for_another_account_does_not_apply(program_grants: ProgramGrants) -> None:
    for account, found in (("work", ("counts", "")), ("home", ("elsewhere", OTHER_ACCOUNT))):
        await program_grants.grants.add(
            Grant(rule=parse_rule("x/t"), server_digest="xd", tools={"t": "d"}, account=account)
        )
        assert (await program_grants.states())[0] == found


def grant_for_session(page: ProgramGrants, text: str = "s/t", **more: Any) -> Grant:
    return page.standing.grant_session(
        Grant(rule=parse_rule(text), server_digest=f"{text[0]}d", tools={"t": "d"}, **more)
    )


async def test_grants_of_this_session_are_listed_first_and_found_like_stored_ones(
    program_grants: ProgramGrants,
) -> None:
    stored, here = await program_grants.give(), grant_for_session(program_grants, "x/t", account="work")
    assert [grant.grant.id for grant in await program_grants.permissions.list_grants()] == [here.id, stored.id]
    assert [
        (grant.grant.session, grant.state) for grant in await program_grants.permissions.list_grants(text="SESSION")
    ] == [(True, "counts")]
    assert await program_grants.permissions.list_grants(server="y") == ()
    assert [grant.grant for grant in program_grants.permissions.list_session_grants(server="x")] == [here]


async def test_a_grant_of_this_session_is_revoked_by_its_prefix_and_recorded(program_grants: ProgramGrants) -> None:
    grant, ended = grant_for_session(program_grants), grant_for_session(program_grants, "x/t")
    with pytest.raises(UsageError, match="2 grants begin with 's'"):
        await program_grants.permissions.revoke("s")
    assert (await program_grants.permissions.revoke(ended.id)).revoked is not None
    assert [grant.grant for grant in await program_grants.permissions.list_grants()] == [grant]
    rows = [(row.event, row.server, row.grant) for row in await read_rows(program_grants.audit_log, "grant")]
    assert rows == [("revoked", "x", ended.id)]


async def test_grants_of_this_session_are_revoked_while_the_store_fails(
    program_grants: ProgramGrants, tmp_path: Path
) -> None:
    grant = grant_for_session(program_grants)
    await program_grants.permissions.list_grants()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("DROP TABLE grants")
    with pytest.raises(StoreError):
        await program_grants.permissions.list_grants()
    assert [grant.grant.id for grant in program_grants.permissions.list_session_grants()] == [grant.id]
    await program_grants.permissions.revoke(grant.id)
    assert program_grants.permissions.list_session_grants() == ()


async def test_grants_are_found_by_server_and_by_any_of_their_words(program_grants: ProgramGrants) -> None:
    first, second = await program_grants.give("s/read?p=Under"), await program_grants.give("x/t", tools=("write",))
    for server_, text, found in (
        ("s", "", {first.id}), ("x", "", {second.id}), ("", "uNDER", {first.id}), ("", "WRITE", {second.id}),
        ("s", "write", set[str]()), ("", first.id, {first.id}), ("y", "", set[str]()),
    ):  # fmt: skip
        assert {
            grant.grant.id for grant in await program_grants.permissions.list_grants(server=server_, text=text)
        } == found


async def test_a_revoked_grant_is_inactive_keeps_its_uses_and_is_recorded(program_grants: ProgramGrants) -> None:
    grant = await program_grants.give()
    program_grants.grants.count_use(grant.id)
    assert (await program_grants.permissions.revoke(grant.id[:5])).uses == 1
    assert await program_grants.permissions.list_grants() == ()
    await program_grants.audit_log.store.flush()
    assert program_grants.audit_log.store.pending_count == 0
    rows = await read_rows(program_grants.audit_log, "grant")
    assert [(row.kind, row.event, row.server, row.grant) for row in rows] == [("grant", "revoked", "s", grant.id)]
    assert [row.who for row in rows] == ["person"]


async def test_a_rule_is_compared_with_earlier_calls_of_the_current_server(program_grants: ProgramGrants) -> None:
    for number, path in enumerate(("/srv/a", "b", "/etc/passwd")):
        use = ToolUsePart(f"c{number}", "x__t", {"p": path})
        await program_grants.conversations.append("c", Message(role="assistant", parts=(use,)), title="hi", model="m")
        back = ToolReturnPart(use.id, use.name, "ok", False, "x", "t")
        await program_grants.conversations.append("c", Message(role="tool", parts=(back,)), title="hi", model="m")
    rule = parse_rule("x/t?p=under:/srv")
    past = await program_grants.permissions.preview(rule)
    assert {str(item.arguments["p"]): item.answer for item in past} == {
        "/srv/a": "yes",
        "b": "yes",
        "/etc/passwd": "no",
    }
    for account, answer in (("work", "yes"), ("home", "no")):
        assert await program_grants.permissions.match(replace(rule, account=account), "t", {"p": "b"}) == answer
    assert await program_grants.permissions.match(parse_rule("gone/t?p=under:/srv"), "t", {"p": "/srv/a"}) == "unsure"


async def test_lasting_answers_about_folders_are_listed_searched_and_revoked_by_their_ids(
    program_grants: ProgramGrants,
) -> None:
    await program_grants.folders.save("s", "sd", ["/srv/a"], is_shared=True)
    await program_grants.folders.save("s", "old", ["/srv/a"], is_shared=False)
    await program_grants.folders.save("gone", "x", ["/srv/\udcff"], is_shared=True)
    found = await program_grants.permissions.list_folder_answers()
    assert {(item.answer.text, item.why) for item in found} == {
        ("s may know /srv/a", ""),
        ("s may not know /srv/a", SERVER_CHANGED),
        ("gone may know /srv/\ufffd", SERVER_NOT_CONFIGURED),
    }
    assert [
        answer.answer.is_shared
        for answer in await program_grants.permissions.list_folder_answers(server="s", text="MAY NOT")
    ] == [False]
    for ident in ("r", "rx", "r%"):
        with pytest.raises(UsageError):
            await program_grants.permissions.revoke(ident)
    mine = next(item.answer for item in found if item.state == "counts")
    assert await program_grants.permissions.revoke(mine.id) == mine
    assert mine not in [answer.answer for answer in await program_grants.permissions.list_folder_answers()]
    rows = [
        (row.event, row.server, row.subject, row.grant) for row in await read_rows(program_grants.audit_log, "roots")
    ]
    assert rows == [("revoked", "s", "/srv/a", mine.id)]
