"""Tests for stored grants: two programs share one database and list, search, count, suspend and revoke them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.rules import Rule
from mcphost.errors import StoreError, UsageError
from mcphost.serialization import replace
from mcphost.store import migrations
from mcphost.store.accepted_tools import ToolFingerprint, ToolFingerprintStore
from mcphost.store.database import Database
from mcphost.store.grants import CHANGED_REASON, EXPIRED_REASON, Grant, GrantStore, TrustedServer
from mcphost.store.roots import FolderAnswerStore

pytestmark = pytest.mark.anyio


def create_grant(text: str = "fs/read", digest: str = "d1", **more: object) -> Grant:
    return Grant(rule=parse_rule(text), server_digest="s1", tools={"read": digest}, **more)  # type: ignore[arg-type]


async def test_a_grant_is_loaded_as_it_was_stored(tmp_path: Path) -> None:
    rule = replace(parse_rule("fs/read?path=under:/home/me&n=<10"), scope="project", expires=5e9)
    given = await GrantStore(Database(tmp_path / "s.db")).add(
        Grant(rule=rule, server_digest="s1", tools={"read": "d1", "re\u202ed": "d2"}, account="me", place="/home/me")
    )
    assert await GrantStore(Database(tmp_path / "s.db")).list_for_server("fs") == (given,)
    assert (given.uses, given.last_used, given.suspended, given.revoked) == (0, None, "", None)
    assert given.text == "fs/read?path=under:/home/me&n=<10"


async def test_a_value_that_reads_like_an_origin_is_still_a_value_after_loading(tmp_path: Path) -> None:
    given = await GrantStore(Database(tmp_path / "s.db")).add(create_grant("fs/read?subject=Report%20from:web"))
    (loaded,) = await GrantStore(Database(tmp_path / "s.db")).list_for_server("fs")
    assert loaded.rule.conditions == given.rule.conditions
    assert loaded.rule.conditions[0].values == ("Report from:web",)


async def test_the_same_rule_given_again_replaces_the_older_grant(tmp_path: Path) -> None:
    grants = GrantStore(Database(tmp_path / "s.db"))
    first = await grants.add(create_grant())
    second = await grants.add(create_grant(digest="d2"))
    other = await grants.add(create_grant(account="me"))
    assert {item.id for item in await grants.list_for_server("fs")} == {second.id, other.id}
    assert [
        item.revoked is not None for item in await grants.list_all(include_revoked=True) if item.id == first.id
    ] == [True]


async def test_a_revoked_grant_is_gone_for_every_program_with_the_same_file(tmp_path: Path) -> None:
    here, there = GrantStore(Database(tmp_path / "s.db")), GrantStore(Database(tmp_path / "s.db"))
    grant = await here.add(create_grant())
    assert await there.list_for_server("fs") == (grant,)
    revoked = await there.revoke(grant.id[:6])
    assert revoked.id == grant.id
    assert await here.list_for_server("fs") == ()
    assert await here.list_all() == ()
    with pytest.raises(UsageError, match="no grant"):
        await here.revoke(grant.id)


async def test_an_approval_is_carried_over_completely_and_only_from_an_approved_entry(
    tmp_path: Path,
) -> None:
    database = Database(tmp_path / "s.db")
    grants, pins = GrantStore(database), ToolFingerprintStore(database)
    grant = await grants.add(create_grant())
    await grants.add(replace(create_grant(), server_digest="elsewhere"))
    await grants.save_trusted(TrustedServer("fs", "s1", "as it was"))
    await grants.save_eras("s1", "stateless")
    await pins.save("fs", "s1", [(ToolFingerprint("read", "r", "d1"), b"{}")])
    folders = FolderAnswerStore(database)
    await folders.save("fs", "s1", ["/srv"], is_shared=True)
    after = TrustedServer("fs", "s2", "as it is")
    assert not await grants.carry_over_server("s0", after)
    assert not await grants.carry_over_server("s1", replace(after, server="other"))
    assert await grants.find_trusted("fs") == TrustedServer("fs", "s1", "as it was")
    assert await grants.carry_over_server("s1", after)
    assert await grants.find_trusted("fs") == after
    assert [item.server_digest for item in await grants.list_for_server("fs")] == ["s2", "elsewhere"]
    assert (await grants.find_by_prefix(grant.id)).tools == grant.tools
    assert list(await pins.load_all("fs", "s2")) == ["read"]
    assert await pins.load_all("fs", "s1") == {}
    assert list(await folders.find_for_server("fs", "s2")) == ["/srv"]
    assert await grants.load_eras("s2") == "stateless"
    assert not await grants.carry_over_server("s1", after), "once"


@pytest.mark.parametrize("ident", ["", "%", "_", "zz", "' OR 1=1 --"])
async def test_only_the_named_grant_is_revoked(tmp_path: Path, ident: str) -> None:
    grants = GrantStore(Database(tmp_path / "s.db"))
    for number in range(40):
        await grants.add(create_grant(f"fs/t{number}"))
    with pytest.raises(UsageError, match=r"no grant|begin with"):
        await grants.revoke(ident)
    assert len(await grants.list_all()) == 40


async def test_an_ambiguous_id_prefix_revokes_none(tmp_path: Path) -> None:
    grants = GrantStore(Database(tmp_path / "s.db"))
    starts = [(await grants.add(create_grant(f"fs/t{number}"))).id[0] for number in range(17)]
    twice = next(start for start in starts if starts.count(start) > 1)
    with pytest.raises(UsageError, match="grants begin with"):
        await grants.revoke(twice)


async def test_uses_of_two_programs_add_up(tmp_path: Path) -> None:
    here, there = GrantStore(Database(tmp_path / "s.db")), GrantStore(Database(tmp_path / "s.db"))
    grant = await here.add(create_grant())
    for grants, times in ((here, 3), (there, 2)):
        for _ in range(times):
            grants.count_use(grant.id)
    assert (await here.list_for_server("fs"))[0].uses == 0
    await here.write_uses()
    await there.write_uses()
    await there.write_uses()
    (kept,) = await here.list_for_server("fs")
    assert kept.uses == 5
    assert kept.last_used is not None
    assert kept.last_used >= grant.created


async def test_uses_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    grants = GrantStore(Database(path))
    grant = await grants.add(create_grant())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("ALTER TABLE grants RENAME TO elsewhere")
        grants.count_use(grant.id)
        with pytest.raises(StoreError):
            await grants.write_uses()
        db.execute("ALTER TABLE elsewhere RENAME TO grants")
    grants.count_use(grant.id)
    await grants.write_uses()
    assert (await grants.list_for_server("fs"))[0].uses == 2


async def test_a_suspended_grant_shows_the_reason_and_applies_again_once_the_tool_is_kept(tmp_path: Path) -> None:
    grants = GrantStore(Database(tmp_path / "s.db"))
    grant = await grants.add(create_grant())
    await grants.suspend([grant.id], CHANGED_REASON)
    await grants.suspend([grant.id], "another reason")
    assert (await grants.list_for_server("fs"))[0].suspended == CHANGED_REASON
    await grants.carry_over_tool("fs", "another server", "read", "d1", "d2")
    await grants.carry_over_tool("fs", "s1", "read", "what it never was", "d2")
    assert (await grants.list_for_server("fs"))[0].tools == {"read": "d1"}
    await grants.carry_over_tool("fs", "s1", "read", "d1", "d2")
    (kept,) = await grants.list_for_server("fs")
    assert (kept.suspended, kept.tools) == ("", {"read": "d2"})


async def test_keeping_a_changed_tool_does_not_restore_expired_grants(tmp_path: Path) -> None:
    grants = GrantStore(Database(tmp_path / "s.db"))
    grant = await grants.add(create_grant())
    await grants.suspend([grant.id], EXPIRED_REASON)
    await grants.carry_over_tool("fs", "s1", "read", "d1", "d2")
    assert (await grants.list_for_server("fs"))[0].suspended == EXPIRED_REASON


DEEP = f"""tools = '{'{"a":' * 5_000}1{"}" * 5_000}'"""


@pytest.mark.parametrize("row", ["rule = 'fs/t?'", "tools = '[1]'", "tools = '{'", DEEP, "scope = 'galaxy'"])
async def test_an_unreadable_row_allows_nothing_and_hides_no_other(tmp_path: Path, row: str) -> None:
    path = tmp_path / "s.db"
    grants = GrantStore(Database(path))
    broken, whole = await grants.add(create_grant("fs/a")), await grants.add(create_grant("fs/b"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE grants SET {row} WHERE id = ?", (broken.id,))
    assert await grants.list_for_server("fs") == (whole,)


@pytest.mark.parametrize(
    "text",
    [
        "fs/a?subject=Report from:web",
        "fs/a?subject=in:x,Report\u2003never-from:web",
        "fs/a?subject=Report ",
        "fs/x from:a*",
    ],
)
async def test_a_rule_of_an_earlier_version_that_would_be_misread_allows_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.db"
    grants = GrantStore(Database(path))
    old, whole = await grants.add(create_grant("fs/a")), await grants.add(create_grant("fs/b?subject=from:web&from:x"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE grants SET rule = ? WHERE id = ?", (text, old.id))
    assert await grants.list_for_server("fs") == (whole,)


async def test_permanent_approvals_of_an_earlier_version_continue(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    names = [("fs", "read"), ("a/b", "x*"), ("ü 100%", "load_skill:skill://a?b&c=d"), ("fs", "\u202e")]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, at REAL NOT NULL) STRICT")
        for name, step in migrations.MIGRATIONS[:2]:
            db.execute("BEGIN")
            step(db)
            db.execute("INSERT INTO migrations VALUES (?, 0)", (name,))
            db.execute("COMMIT")
        for number, (server, tool) in enumerate(names):
            db.execute(
                "INSERT INTO grants (server, server_digest, tool, tool_digest, created) VALUES (?, 'sd', ?, ?, ?)",
                (server, tool, f"td{number}", 1000.0 + number),
            )
    grants = GrantStore(Database(path))
    moved = sorted(await grants.list_all(), key=lambda item: item.created)
    assert [(item.server, item.rule.exact_tool) for item in moved] == names
    assert [item.tools for item in moved] == [{tool: f"td{number}"} for number, (_, tool) in enumerate(names)]
    assert [item.created for item in moved] == [1000.0, 1001.0, 1002.0, 1003.0]
    assert {(item.server_digest, item.account, item.rule.scope, item.rule.expires) for item in moved} == {
        ("sd", None, "everywhere", None)
    }
    assert isinstance(moved[0].rule, Rule)
