"""Tests for changed tools: what is quarantined, what the user is asked, and what a hostile server can do."""

import hashlib
import os
import threading
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.schema import AuditConfig, ServerConfig
from mcphost.errors import StoreError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.questions import frontend as frontend_module
from mcphost.host.questions.frontend import RefusingFrontend
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges
from mcphost.host.servers import tool_changes as drift_module
from mcphost.host.servers.catalog import ServerListing, ToolDefinition, fingerprint
from mcphost.host.servers.change_acceptances import ChangeAcceptances
from mcphost.host.servers.definition_diff import MAX_LINES, REVERTED_NOTE, diff_definitions
from mcphost.host.servers.servers import Quarantine
from mcphost.host.servers.tool_changes import INLINE_DIGEST_BYTES, ToolChangeTracker, ToolChangeTrackerFactory
from mcphost.serialization import Raw, dumps, replace
from mcphost.store.accepted_tools import (
    MAX_DEFINITION_BYTES,
    MAX_SERVER_DIGESTS,
    ToolFingerprint,
    ToolFingerprintStore,
)
from mcphost.store.audit_reader import AuditFilter, AuditReader
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from tests.fakes.frontend import ScriptedFrontend

pytestmark = pytest.mark.anyio
SERVER = ServerConfig(name="s", command="run")


def server_listing(*tools: dict[str, Any] | bytes) -> ServerListing:
    """Return the listing of a server with these tools, given as members or as raw JSON."""
    named: dict[str, ToolDefinition] = {}
    for tool in tools:
        raw = tool if isinstance(tool, bytes) else dumps({"inputSchema": {"type": "object"}, **tool}).encode()
        name = "t" if isinstance(tool, bytes) else tool["name"]
        named[name] = ToolDefinition(name, Raw(raw))
    return ServerListing(tools=named)


async def list_and_save(tracker: ToolChangeTracker, listed: ServerListing) -> None:
    """Compare a server's first listing with the stored fingerprints, and save the fingerprints of new tools."""
    await tracker.compare_first(listed)
    await tracker.save()


class TrackerSetup:
    """The tool change tracker of one server, with a database on disk; `again` creates the tracker of the next run."""

    def __init__(self, path: Path, frontend: Any = None) -> None:
        self.frontend = frontend or RefusingFrontend()
        self.told: list[StoreError] = []
        self.followed: list[tuple[str, ...]] = []
        self.settled = 0
        self.audit_log = AuditLog(AuditStore(path.with_name("audit.db")), AuditConfig())
        self.database = Database(path)
        self.tracker = self.of(SERVER)

    def of(self, server: ServerConfig, acceptances: ChangeAcceptances | None = None) -> ToolChangeTracker:
        async def follow(*words: str) -> None:
            self.followed.append(words)

        def settled() -> None:
            self.settled += 1

        return ToolChangeTrackerFactory(
            ToolFingerprintStore(self.database), self.frontend, self.told.append, follow, self.audit_log, acceptances
        ).create(server, settled)

    async def noted(self) -> list[tuple[str, str]]:
        """Return the tool changes in the audit log as pairs of tool and event, oldest first."""
        await self.audit_log.store.flush()
        rows = AuditReader(self.audit_log.store.files[0]).page(AuditFilter(kind="drift"), 100)
        return [(row.subject, row.event) for row in reversed(rows)]


@pytest.fixture
def database_path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def test_a_tool_seen_first_is_accepted_and_a_new_tool_asks_nothing(database_path: Path) -> None:
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    bench.tracker.compare(server_listing({"name": "a"}, {"name": "b"}))
    assert bench.tracker.quarantined == frozenset()


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "a", "description": "y"},
        {"name": "a", "description": "x", "annotations": {"readOnlyHint": True}},
        {"name": "a", "description": "x", "x-unknown": 1},
        {"name": "a", "description": "x", "inputSchema": {"type": "object", "properties": {"bcc": {}}}},
    ],
)
async def test_any_changed_field_quarantines_a_tool_in_the_next_run_too(database_path: Path, changed: Any) -> None:
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a", "description": "x"}, {"name": "b"}))
    bench.tracker.compare(server_listing(changed, {"name": "b"}))
    assert bench.tracker.quarantined == {"a"}
    await bench.database.close()
    again = TrackerSetup(database_path)
    await list_and_save(again.tracker, server_listing(changed, {"name": "b"}))
    assert again.tracker.quarantined == {"a"}
    assert not await again.tracker.wait_for_decision("a")


@pytest.mark.req("tools.list-changed.review")
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_tool_that_changed_back_stays_quarantined_until_the_user_has_seen_the_change(
    database_path: Path, restarts: bool
) -> None:
    kind, evil = (
        server_listing({"name": "a", "description": "kind"}),
        server_listing({"name": "a", "description": "evil"}),
    )
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, kind)
    for seen in (evil, kind):
        if restarts:
            await bench.database.close()
            bench = TrackerSetup(database_path)
            await list_and_save(bench.tracker, seen)
        else:
            bench.tracker.compare(seen)
        assert bench.tracker.quarantined == {"a"}
    (change,) = await bench.tracker.list_changes()
    assert change.difference[:3] == (REVERTED_NOTE, "- description: evil", "+ description: kind")
    assert await bench.tracker.accept({"a": change.digest}) == ("a",)
    assert [words[2:] for words in bench.followed] == [("a", change.digest, change.digest)]
    bench.tracker.compare(kind)
    assert bench.tracker.quarantined == frozenset()
    await bench.database.close()
    again = TrackerSetup(database_path)
    await list_and_save(again.tracker, kind)
    assert again.tracker.quarantined == frozenset()
    again.tracker.compare(evil)
    assert again.tracker.quarantined == {"a"}


async def test_a_tool_kept_under_another_definition_is_only_that(database_path: Path) -> None:
    kind, other = (
        server_listing({"name": "a", "description": "kind"}),
        server_listing({"name": "a", "description": "other"}),
    )
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, kind)
    bench.tracker.compare(other)
    await bench.tracker.accept({"a": other.tools["a"].digest})
    await bench.database.close()
    again = TrackerSetup(database_path)
    await list_and_save(again.tracker, other)
    assert again.tracker.quarantined == frozenset()


async def test_a_tool_kept_before_it_was_stored_is_not_quarantined_in_the_next_run(database_path: Path) -> None:
    kind, evil = (
        server_listing({"name": "a", "description": "kind"}),
        server_listing({"name": "a", "description": "evil"}),
    )
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, kind)
    bench.tracker.compare(evil)
    bench.tracker.compare(kind)
    assert await bench.tracker.accept({"a": kind.tools["a"].digest}) == ("a",)
    await bench.database.close()
    again = TrackerSetup(database_path)
    await list_and_save(again.tracker, kind)
    assert again.tracker.quarantined == frozenset()


async def test_each_change_and_each_acceptance_is_audited_once(database_path: Path) -> None:
    bench = TrackerSetup(database_path)
    evil = server_listing({"name": "a", "description": "evil"})
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    for seen in (evil, evil, server_listing({"name": "a", "description": "worse"}), evil):
        bench.tracker.compare(seen)
    assert await bench.noted() == [("a", "held back")] * 3
    await bench.tracker.accept({"a": evil.tools["a"].digest})
    assert (await bench.noted())[3:] == [("a", "kept")]


@pytest.mark.parametrize("answer", [None, True, "a", ["a"], AcceptToolChanges(("b",))])
async def test_an_answer_that_names_no_shown_tool_keeps_none(database_path: Path, answer: Any) -> None:
    bench = TrackerSetup(database_path, ScriptedFrontend(answer))
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        bench.tracker.compare(server_listing({"name": "a", "description": "evil"}))
        with anyio.fail_after(20):
            assert not await bench.tracker.wait_for_decision("a")
        tasks.cancel_scope.cancel()
    assert bench.tracker.quarantined == {"a"}


async def test_refused_changes_are_asked_about_again_after_another_change_or_on_request(
    database_path: Path,
) -> None:
    frontend = ScriptedFrontend(AcceptToolChanges(), AcceptToolChanges())
    bench = TrackerSetup(database_path, frontend)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        with anyio.fail_after(20):
            for number, words in enumerate(("evil", "evil", "worse"), 1):
                bench.tracker.compare(server_listing({"name": "a", "description": words}))
                assert not await bench.tracker.wait_for_decision("a")
                assert len(frontend.asked) == max(1, number - 1)
            frontend.answers = [AcceptToolChanges(("a",))]
            assert bench.tracker.ask_again()
            assert await bench.tracker.wait_for_decision("a")
        tasks.cancel_scope.cancel()
    assert len(frontend.asked) == 3
    assert not bench.tracker.ask_again()


OWN = ServerConfig(name="s", command="run", watched_files=("*.py",), has_own_watch=True)
KEPT_ONWARD = AcceptToolChanges(("a",), for_session=True)


async def test_later_changes_of_an_own_watched_server_are_kept_until_that_is_revoked(database_path: Path) -> None:
    frontend = ScriptedFrontend(KEPT_ONWARD, AcceptToolChanges())
    bench = TrackerSetup(database_path, frontend)
    acceptances = ChangeAcceptances()
    tracker = bench.of(OWN, acceptances)
    await list_and_save(tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tracker.run)
        with anyio.fail_after(20):
            for words in ("first", "second", "third"):
                tracker.compare(server_listing({"name": "a", "description": words}))
                assert await tracker.wait_for_decision("a")
            assert len(frontend.asked) == 1
            (given,) = acceptances.list()
            assert (given.server, given.uses) == ("s", 2)
            assert acceptances.revoke(given.id) == given
            tracker.compare(server_listing({"name": "a", "description": "fourth"}))
            assert not await tracker.wait_for_decision("a")
        tasks.cancel_scope.cancel()
    assert len(frontend.asked) == 2
    assert await bench.noted() == [("a", "held back"), ("a", "kept")] * 3 + [("a", "held back")]
    rows = AuditReader(bench.audit_log.store.files[0]).page(AuditFilter(kind="grant"), 100)
    assert [(row.subject, row.event, row.grant) for row in rows] == [("s: changes of its tools", "given", given.id)]


@pytest.mark.parametrize("server", [SERVER, ServerConfig(name="s", command="run", watched_files=("*.py",))])
async def test_other_servers_cannot_get_their_later_changes_kept(database_path: Path, server: ServerConfig) -> None:
    frontend = ScriptedFrontend(KEPT_ONWARD, AcceptToolChanges())
    bench = TrackerSetup(database_path, frontend)
    acceptances = ChangeAcceptances()
    tracker = bench.of(server, acceptances)
    await list_and_save(tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tracker.run)
        with anyio.fail_after(20):
            tracker.compare(server_listing({"name": "a", "description": "first"}))
            assert await tracker.wait_for_decision("a")
            tracker.compare(server_listing({"name": "a", "description": "second"}))
            assert not await tracker.wait_for_decision("a")
        tasks.cancel_scope.cancel()
    assert [question.offers_session for question in frontend.asked] == [False, False]
    assert not acceptances.list()


async def test_kept_changes_do_not_apply_to_a_server_with_another_command(database_path: Path) -> None:
    acceptances = ChangeAcceptances()
    given = acceptances.add("s", server_digest(OWN))
    bench = TrackerSetup(database_path, ScriptedFrontend(AcceptToolChanges()))
    tracker = bench.of(replace(OWN, command="other"), acceptances)
    await list_and_save(tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tracker.run)
        with anyio.fail_after(20):
            tracker.compare(server_listing({"name": "a", "description": "first"}))
            assert not await tracker.wait_for_decision("a")
        tasks.cancel_scope.cancel()
    assert acceptances.list() == (given,)


async def test_another_order_of_keys_is_the_same_tool(database_path: Path) -> None:
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing(b'{"name":"t","inputSchema":{"type":"object"}}'))
    bench.tracker.compare(server_listing(b'{ "inputSchema": {"type": "object"}, "name": "t" }'))
    assert bench.tracker.quarantined == frozenset()


async def test_leaving_and_returning_with_changes_is_a_change(database_path: Path) -> None:
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    bench.tracker.compare(server_listing())
    bench.tracker.compare(server_listing({"name": "a", "description": "now evil"}))
    assert bench.tracker.quarantined == {"a"}


async def test_another_command_under_the_same_name_is_another_server(database_path: Path) -> None:
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    other = bench.of(ServerConfig(name="s", command="other"))
    await list_and_save(other, server_listing({"name": "a", "description": "x"}))
    assert other.quarantined == frozenset()
    back = bench.of(SERVER)
    await list_and_save(back, server_listing({"name": "a", "description": "x"}))
    assert back.quarantined == {"a"}, "what was seen of the first one is forgotten"


async def test_kept_tools_are_offered_again_and_their_grants_carry_over(database_path: Path) -> None:
    frontend = ScriptedFrontend(AcceptToolChanges(("a",)))
    bench = TrackerSetup(database_path, frontend)
    seen = server_listing({"name": "a"}, {"name": "b"})
    await list_and_save(bench.tracker, seen)
    changed = server_listing({"name": "a", "description": "x"}, {"name": "b", "description": "x"})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        bench.tracker.compare(changed)
        with anyio.fail_after(20):
            assert await bench.tracker.wait_for_decision("a")
            assert not await bench.tracker.wait_for_decision("b")
        tasks.cancel_scope.cancel()
    (question,) = frontend.asked
    assert isinstance(question, ReviewToolChanges)
    assert [change.tool for change in question.changes] == ["a", "b"]
    assert bench.tracker.quarantined == {"b"}
    ((server, _, tool, before, after),) = bench.followed
    assert (server, tool, before, after) == ("s", "a", seen.tools["a"].digest, changed.tools["a"].digest)
    assert bench.settled == 1
    await bench.database.close()
    again = TrackerSetup(database_path)
    await list_and_save(again.tracker, changed)
    assert again.tracker.quarantined == {"b"}


async def test_a_tool_that_changes_again_during_its_question_is_asked_about_as_it_is_now(
    database_path: Path,
) -> None:
    frontend = ScriptedFrontend()
    bench = TrackerSetup(database_path, frontend)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        bench.tracker.compare(server_listing({"name": "a", "description": "harmless"}))
        with anyio.fail_after(20):
            await frontend.asked_now.wait()
        frontend.answers.append(AcceptToolChanges(("a",)))
        bench.tracker.compare(server_listing({"name": "a", "description": "evil"}))
        with anyio.fail_after(20):
            assert await bench.tracker.wait_for_decision("a")
        tasks.cancel_scope.cancel()
    shown = [question.changes[0].difference for question in frontend.asked if isinstance(question, ReviewToolChanges)]
    assert ["+ description: harmless" in shown[0], "+ description: evil" in shown[1]] == [True, True]


async def test_a_question_about_changes_stays_open_while_the_server_lists_the_same_tools_again(
    database_path: Path,
) -> None:
    frontend = ScriptedFrontend()
    bench, changed = TrackerSetup(database_path, frontend), server_listing({"name": "a", "description": "new"})
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        bench.tracker.compare(changed)
        with anyio.fail_after(20):
            await frontend.asked_now.wait()
        for _ in range(20):
            bench.tracker.compare(changed)
            await stay_open(frontend)
        tasks.cancel_scope.cancel()
    assert len(frontend.asked) == 1


async def test_a_server_that_changes_its_tools_all_the_time_cannot_keep_the_user_from_answering(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_module, "MAX_WITHDRAWN_QUESTIONS", 2)
    monkeypatch.setattr(drift_module, "SECONDS_PER_WITHDRAWAL", 10_000.0)
    frontend = ScriptedFrontend()
    bench = TrackerSetup(database_path, frontend)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        for number in range(1, 4):
            bench.tracker.compare(server_listing({"name": "a", "description": f"change {number}"}))
            with anyio.fail_after(20):
                while len(frontend.asked) < number or not frontend.waiting:
                    await anyio.lowlevel.checkpoint()
        for number in range(4, 10):
            bench.tracker.compare(server_listing({"name": "a", "description": f"change {number}"}))
            await stay_open(frontend)
        tasks.cancel_scope.cancel()
    assert len(frontend.asked) == 3
    assert bench.tracker.quarantined == {"a"}


async def stay_open(frontend: ScriptedFrontend) -> None:
    """Let other tasks run, and check that the open question is not withdrawn."""
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
        assert frontend.waiting == 1


@pytest.mark.parametrize("in_other_process", [False, True])
async def test_a_question_about_a_change_that_is_kept_elsewhere_is_withdrawn(
    database_path: Path, monkeypatch: pytest.MonkeyPatch, in_other_process: bool
) -> None:
    monkeypatch.setattr(frontend_module, "POLL_SECONDS", 0.01)
    frontend = ScriptedFrontend()
    bench, changed = TrackerSetup(database_path, frontend), server_listing({"name": "a", "description": "new"})
    await list_and_save(bench.tracker, server_listing({"name": "a"}, {"name": "b"}))
    other = TrackerSetup(database_path).tracker if in_other_process else bench.tracker
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        bench.tracker.compare(changed)
        with anyio.fail_after(20):
            await frontend.asked_now.wait()
            if in_other_process:
                await other.compare_first(changed)
            (change,) = await other.list_changes()
            assert bench.tracker.quarantined == {"a"}
            await other.accept({"a": change.digest})
            assert await bench.tracker.wait_for_decision("a")
            while frontend.waiting:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert len(frontend.asked) == 1
    assert bench.followed[-1][2] == "a"  # its grants, too


@pytest.mark.parametrize("load_fails", [False, True])
async def test_a_definition_that_another_process_trusted_unasked_is_still_asked_about(
    database_path: Path, monkeypatch: pytest.MonkeyPatch, load_fails: bool
) -> None:
    monkeypatch.setattr(frontend_module, "POLL_SECONDS", 0.01)
    frontend = ScriptedFrontend()
    bench, other = TrackerSetup(database_path, frontend), TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    (pin,) = (await ToolFingerprintStore(bench.database).load_all("s", server_digest(SERVER))).values()
    evil = server_listing({"name": "a", "description": "evil"})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        bench.tracker.compare(evil)
        with anyio.fail_after(20):
            await frontend.asked_now.wait()
        if load_fails:
            with monkeypatch.context() as patch:
                patch.setattr(ToolFingerprintStore, "load_all", raise_store_error)
                await other.tracker.load()
        else:
            await ToolFingerprintStore(other.database).delete("s", server_digest(SERVER), ["a"])
        await list_and_save(other.tracker, evil)
        with anyio.move_on_after(0.2):
            await bench.tracker.wait_for_decision("a")
        assert bench.tracker.quarantined == {"a"}
        assert frontend.waiting == 1
        tasks.cancel_scope.cancel()
    assert bench.followed == []
    if load_fails:
        assert other.told
        stored = await ToolFingerprintStore(bench.database).load_all("s", server_digest(SERVER))
        assert stored["a"].digest == pin.digest


async def raise_store_error(*_ignored: Any) -> Any:
    """Fail as a store does that another process has locked."""
    raise StoreError("The conversation store is busy.")


async def test_a_definition_that_returned_is_asked_about_until_the_user_has_seen_it(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontend_module, "POLL_SECONDS", 0.01)
    frontend = ScriptedFrontend()
    bench, other = TrackerSetup(database_path, frontend), TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    await list_and_save(other.tracker, server_listing({"name": "a"}))
    bench.tracker.compare(server_listing({"name": "a", "description": "evil"}))
    bench.tracker.compare(server_listing({"name": "a"}))  # stored as accepted, but turned in between
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        with anyio.fail_after(20):
            await frontend.asked_now.wait()
        with anyio.move_on_after(0.2):
            await bench.tracker.wait_for_decision("a")
        assert bench.tracker.quarantined == {"a"}
        assert frontend.waiting == 1
        tasks.cancel_scope.cancel()


async def test_an_answer_about_a_previous_definition_does_not_keep_the_current_one(database_path: Path) -> None:
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    shown = server_listing({"name": "a", "description": "harmless"})
    bench.tracker.compare(shown)
    (change,) = await bench.tracker.list_changes()
    bench.tracker.compare(server_listing({"name": "a", "description": "evil"}))
    assert await bench.tracker.accept({change.tool: change.digest}) == ()
    assert bench.tracker.quarantined == {"a"}


async def test_a_failing_store_is_reported_and_quarantine_lasts_for_this_run(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    bench = TrackerSetup(tmp_path / "store.db")
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    bench.tracker.compare(server_listing({"name": "a", "description": "x"}))
    assert bench.tracker.quarantined == {"a"}


async def test_an_unreadable_file_keeps_the_answers_of_this_run(database_path: Path) -> None:
    bench = TrackerSetup(database_path)
    await bench.database.run(lambda db: db.execute("DROP TABLE pins"))
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    assert bench.told
    bench.tracker.compare(server_listing({"name": "a", "description": "x"}))
    assert bench.tracker.quarantined == {"a"}
    assert not await bench.tracker.wait_for_decision("a")


async def test_a_grant_stored_elsewhere_meanwhile_is_not_carried_over_with_known_ones(database_path: Path) -> None:
    pins, old, new = (
        ToolFingerprintStore(Database(database_path)),
        ToolFingerprint("a", "r1", "d1"),
        ToolFingerprint("a", "r2", "d2"),
    )
    await pins.save("s", "sd", [(old, b"{}")])
    await pins.save("s", "sd", [(new, b"{}")])
    await pins.save_changed("s", "sd", [(replace(old, changed_digest="d3"), b"{}")])
    assert await pins.load_all("s", "sd") == {"a": new}
    await pins.save_changed("s", "sd", [(replace(new, changed_digest="d3"), b"{}")])
    assert (await pins.load_all("s", "sd"))["a"].changed_digest == "d3"
    assert await pins.load_all("s", "other") == await pins.load_all("x", "sd") == {}


async def test_the_commands_unused_for_longest_are_forgotten_and_no_others(
    database_path: Path,
) -> None:
    pins = ToolFingerprintStore(Database(database_path))
    for number in range(MAX_SERVER_DIGESTS + 2):
        await pins.save("s", f"d{number}", [(ToolFingerprint("a", "r", "d"), b"{}")])
        await pins.save("s", "d1", [(ToolFingerprint("a", "r", "d"), b"{}")])
    known = [number for number in range(MAX_SERVER_DIGESTS + 2) if await pins.load_all("s", f"d{number}")]
    assert known == [1, *range(3, MAX_SERVER_DIGESTS + 2)]


async def test_a_definition_that_grows_when_it_is_unpacked_is_cut(database_path: Path) -> None:
    database = Database(database_path)
    pins = ToolFingerprintStore(database)
    await pins.save("s", "sd", [(ToolFingerprint("a", "r", "d"), b"{}")])
    bomb = zlib.compress(b"x" * 10_000_000)
    await database.run(lambda db: db.execute("UPDATE pins SET definition = ?", (bomb,)))
    assert len(await pins.load_definition("s", "sd", "a")) == MAX_DEFINITION_BYTES
    await database.run(lambda db: db.execute("UPDATE pins SET definition = x'00'"))
    assert await pins.load_definition("s", "sd", "a") == b""


async def test_a_manual_keep_covers_only_what_was_shown_once_the_server_runs(database_path: Path) -> None:
    bench, waited = TrackerSetup(database_path), list[str]()

    async def session() -> None:
        waited.append("ready")
        bench.tracker.compare(server_listing({"name": "a", "description": "shown"}))

    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    there = SimpleNamespace(tool_changes=bench.tracker, session=session)
    held = Quarantine(SimpleNamespace(start=lambda name: there, find=lambda name: there))  # type: ignore[arg-type]
    changes = await held.list_changes("s")
    assert (waited, [change.tool for change in changes], held.ask_again("s")) == (["ready"], ["a"], True)
    bench.tracker.compare(server_listing({"name": "a", "description": "evil"}))
    assert await held.accept("s", changes) == ()
    assert bench.tracker.quarantined == {"a"}
    assert await held.accept("s", await held.list_changes("s")) == ("a",)


def test_invalid_json_is_another_definition_with_every_changed_byte() -> None:
    odd = (b"{", b"{ ", b"[" * 100_000, b'{"a":1e400}', b'{"a":1e401}', b"\xff", b'"\\ud800"', b"")
    assert len({fingerprint(item) for item in odd}) == len(odd)
    assert (
        fingerprint(b'{"a":1,"b":[2]}') == fingerprint(b' { "b": [ 2 ], "a": 1 } ') != fingerprint(b'{"a":1.0,"b":[2]}')
    )


async def test_a_server_that_lists_new_tools_forever_cannot_displace_known_fingerprints(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.host.servers.tool_changes.MAX_REMEMBERED_TOOLS", 10)
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    for number in range(30):
        bench.tracker.compare(server_listing({"name": f"n{number}"}))
    bench.tracker.compare(server_listing({"name": "a", "description": "evil"}, {"name": "n29"}))
    assert bench.tracker.quarantined == {"a", "n29"}


def test_a_diff_shows_hidden_characters_and_truncates_endless_text() -> None:
    before = dumps({"name": "t", "description": "Reads a file."}).encode()
    after = dumps({"name": "t", "description": "Reads a file.\u202e\U000e0041 <IMPORTANT>"}).encode()
    assert diff_definitions(before, after) == (
        "- description: Reads a file.",
        "+ description: Reads a file.‹U+202E›‹U+E0041› <IMPORTANT>",
        "  name: t",
    )
    endless = diff_definitions(before, dumps({"name": "t", "description": "word. " * 100_000}).encode())
    assert len(endless) <= 2 * MAX_LINES
    assert "more" in endless[-1] or "more" in endless[-2]


def test_differences_beyond_the_shown_lines_are_visible() -> None:
    def definition(last: str) -> bytes:
        return dumps(
            {"name": "t", "description": "\n".join([*(f"line {n}" for n in range(MAX_LINES + 50)), last])}
        ).encode()

    kind, evil = (
        diff_definitions(definition("kind"), definition("kind")),
        diff_definitions(definition("kind"), definition("evil")),
    )
    assert kind == ("  Only the formatting differs.",)
    changed = [line for line in evil if line[:1] in "+-"]
    assert [line.partition(": ")[0] for line in changed] == ["- … and more", "+ … and more"]


def test_a_hostile_diff_raises_no_error() -> None:
    deep = b'{"a":' * 500 + b"1" + b"}" * 500
    assert diff_definitions(deep, b"not json")
    assert diff_definitions(b"", b"{}") == ("  The previous definition is unknown; this is the current one.", "+ {}")
    assert diff_definitions(b'{"a":{"b":1}}', b'{"a.b":1}') == ("- a.b: 1", '+ "a.b": 1')
    assert diff_definitions(b'{"a":1}', b'{ "a": 1 }') == ("  Only the formatting differs.",)


def test_a_long_key_is_shown_once_and_abbreviated_above_its_members() -> None:
    def definition(last: str) -> bytes:
        return dumps({"name": "t", "x": {"key " * 5_000 + last: {f"p{n}": n for n in range(400)}}}).encode()

    before, after = definition("a"), definition("b")
    difference = diff_definitions(before, after)
    assert sum(map(len, difference)) < 200_000, "each member would repeat 20,000 characters"
    for mark, last in (("-", "a"), ("+", "b")):
        lines = [line for line in difference if line.startswith(mark)]
        text = "".join(line[2:].removeprefix("    ") for line in lines)
        assert "key " * 5_000 + last in text
        members = [line for line in lines if line.endswith(".p7: 7")]
        assert [len(line) < 200 and "…" in line for line in members] == [True]
    paths = {line.partition(".p7")[0][2:] for line in difference if line.endswith(".p7: 7")}
    assert len(paths) == 2, "different keys have different abbreviations"


async def test_the_definitions_of_one_server_take_a_bounded_part_of_the_disk(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.store.accepted_tools.MAX_SERVER_BYTES", 200_000)
    database = Database(database_path)
    pins = ToolFingerprintStore(database)
    for number in range(30):
        fingerprint = ToolFingerprint(f"t{number}", f"r{number}", f"d{number}")
        await pins.save("s", f"sd{number % 3}", [(fingerprint, os.urandom(20_000))])
        await pins.save_changed(
            "s", f"sd{number % 3}", [(replace(fingerprint, changed_digest="x"), os.urandom(20_000))]
        )
    used = await database.run(
        lambda db: db.execute("SELECT sum(length(definition) + length(meanwhile)) FROM pins").fetchone()[0]
    )
    assert 150_000 < used <= 200_000
    known = [await pins.load_all("s", f"sd{number}") for number in range(3)]
    assert sorted(pin.changed_digest for item in known for pin in item.values()) == ["x"] * 30
    assert await pins.load_definition("s", "sd2", "t29") == await pins.load_changed_definition("s", "sd2", "t29") == b""
    assert await pins.load_definition("s", "sd0", "t0") != b""
    await pins.save("s", "sd0", [(ToolFingerprint("t0", "r", "d"), b"{}")])
    assert await pins.load_definition("s", "sd0", "t0") == b"{}"


async def test_a_forgotten_tool_is_asked_about_when_it_returns(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.host.servers.tool_changes.MAX_REMEMBERED_TOOLS", 3)
    bench = TrackerSetup(database_path, ScriptedFrontend(AcceptToolChanges(("new",)), AcceptToolChanges(())))
    await list_and_save(bench.tracker, server_listing({"name": "old"}))
    bench.tracker.compare(server_listing({"name": "a"}, {"name": "b"}))
    bench.tracker.compare(server_listing({"name": "b"}, {"name": "new"}))
    assert bench.tracker.quarantined == {"new"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        assert await bench.tracker.wait_for_decision("new")
        bench.tracker.compare(server_listing({"name": "a"}, {"name": "old", "description": "evil"}))
        assert bench.tracker.quarantined == {"old"}
        assert not await bench.tracker.wait_for_decision("old")
        tasks.cancel_scope.cancel()
    reason = [question.why for question in bench.frontend.asked]
    assert (
        reason
        == ["one of its tools is unknown, because mcphost stores the definitions of at most 3 tools per server"] * 2
    )
    assert bench.followed == []
    again = TrackerSetup(database_path)
    await list_and_save(again.tracker, server_listing({"name": "a"}, {"name": "new"}, {"name": "old"}))
    assert again.tracker.quarantined == {"old"}


async def test_after_a_refusal_new_names_beyond_the_limit_ask_nothing_until_the_user_allows_it(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.host.servers.tool_changes.MAX_REMEMBERED_TOOLS", 1)
    bench = TrackerSetup(database_path, ScriptedFrontend(AcceptToolChanges(()), AcceptToolChanges(("n9",))))
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        for number in range(10):
            bench.tracker.compare(server_listing({"name": f"n{number}"}))
            assert not await bench.tracker.wait_for_decision(f"n{number}")
        assert len(bench.frontend.asked) == 1
        assert bench.tracker.ask_again()
        assert await bench.tracker.wait_for_decision("n9")
        tasks.cancel_scope.cancel()
    assert len(bench.frontend.asked) == 2


async def test_a_tool_that_cannot_be_accepted_stays_quarantined_without_another_question(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.host.servers.tool_changes.MAX_REMEMBERED_TOOLS", 1)
    bench = TrackerSetup(database_path, ScriptedFrontend(AcceptToolChanges(("b",))))
    await list_and_save(bench.tracker, server_listing({"name": "a"}, {"name": "b"}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.tracker.run)
        assert not await bench.tracker.wait_for_decision("b")
        tasks.cancel_scope.cancel()
    assert bench.tracker.quarantined == {"b"}
    assert len(bench.frontend.asked) == 1


async def test_many_quarantined_tools_share_one_audit_row(database_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.host.servers.tool_changes.MAX_REMEMBERED_TOOLS", 1)
    monkeypatch.setattr("mcphost.host.servers.tool_changes.MAX_AUDITED_TOOLS", 5)
    bench = TrackerSetup(database_path)
    await list_and_save(bench.tracker, server_listing({"name": "a"}))
    for number in range(50):
        bench.tracker.compare(server_listing({"name": f"n{number}"}))
    noted = await bench.noted()
    assert noted == [*((f"n{number}", "held back") for number in range(5)), ("more than 5 tools", "held back")]


@pytest.mark.parametrize("long", [True, False])
async def test_long_definitions_are_hashed_off_the_event_loop_and_short_ones_at_once(
    database_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    threads: set[int] = set()
    hashed = hashlib.sha256

    def counting(data: bytes) -> Any:
        threads.add(threading.get_ident())
        return hashed(data)

    bench = TrackerSetup(database_path)
    monkeypatch.setattr("mcphost.host.servers.tool_changes.hashlib", SimpleNamespace(sha256=counting))
    monkeypatch.setattr("mcphost.host.servers.catalog.hashlib", SimpleNamespace(sha256=counting))
    description = "d" * (INLINE_DIGEST_BYTES if long else 1)
    await list_and_save(bench.tracker, server_listing({"name": "a", "description": description}))
    changed = server_listing({"name": "a", "description": description + " evil"})
    bench.tracker.compare(changed, await bench.tracker.compute_digests(changed))
    assert bench.tracker.quarantined == {"a"}
    assert threads
    assert (threading.get_ident() in threads) is not long


async def test_known_fingerprints_are_loaded_once_even_if_that_starts_before_the_listing(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = TrackerSetup(database_path)
    await list_and_save(first.tracker, server_listing({"name": "a"}))
    bench, reads = TrackerSetup(database_path), 0
    every = ToolFingerprintStore.load_all

    async def counting(store: ToolFingerprintStore, *words: str) -> dict[str, ToolFingerprint]:
        nonlocal reads
        reads += 1
        return await every(store, *words)

    monkeypatch.setattr(ToolFingerprintStore, "load_all", counting)
    await bench.tracker.load()
    assert reads == 1
    await list_and_save(bench.tracker, server_listing({"name": "a", "description": "evil"}))
    assert (reads, bench.tracker.quarantined) == (1, {"a"})


async def test_new_tools_are_written_down_a_moment_after_the_server_is_ready(
    database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_module, "SAVE_SECONDS", 0)
    bench = TrackerSetup(database_path)
    await bench.tracker.compare_first(server_listing({"name": "a"}))
    pins = ToolFingerprintStore(bench.database)
    key = (SERVER.name, server_digest(SERVER))
    assert await pins.load_all(*key) == {}
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.tracker.run)
            while not await pins.load_all(*key):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert set(await pins.load_all(*key)) == {"a"}
