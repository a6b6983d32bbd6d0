"""Tests for the approval of a project's files while several mcphost processes run."""

from pathlib import Path

import anyio
import pytest

from mcphost.config.project_texts import ProjectText
from mcphost.host.audit.audit_log import create_in_memory_log
from mcphost.host.project_file_approvals import ProjectApprovals
from mcphost.host.questions.questions import TrustAlways, TrustOnce
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.audit_rows import create_audit_log, read_rows

pytestmark = pytest.mark.anyio

FILES = tuple(ProjectText(path=f"/p/{name}", text="Use tabs.", digest=f"digest of {name}") for name in ("a", "b"))


async def test_a_question_is_withdrawn_once_another_process_approved_exactly_these_files(tmp_path: Path) -> None:
    ours, theirs = Database(tmp_path / "s.db"), Database(tmp_path / "s.db")
    frontend, notices = ScriptedFrontend(), list[str]()
    asking = ProjectApprovals(
        GrantStore(ours), frontend, create_in_memory_log(), "ask", notify=lambda _level, text: notices.append(text)
    )
    other = ProjectApprovals(
        GrantStore(theirs), ScriptedFrontend(TrustAlways(), TrustAlways()), create_in_memory_log(), "ask"
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.ask, "instructions", FILES)
            await frontend.asked_now.wait()
            await other.ask("instructions", FILES[:1])
            assert frontend.waiting == 1, "one of two files was approved"
            await other.ask("instructions", FILES[1:])
    assert (frontend.waiting, len(frontend.asked)) == (0, 1)
    assert [await asking.find_source(text) for text in FILES] == ["always", "always"]
    assert notices == ["The project's files were approved elsewhere, so the question was withdrawn."]
    await ours.close()
    await theirs.close()


async def test_revoking_the_approval_of_a_file_ends_that_of_its_earlier_versions(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    frontend = ScriptedFrontend(TrustOnce(), TrustOnce(), TrustAlways(), TrustOnce())
    approvals = ProjectApprovals(GrantStore(database), frontend, create_in_memory_log(), "ask")
    versions = [ProjectText(path="/p/hooks.toml", text=text, digest=f"digest of {text}") for text in "abc"]
    other = ProjectText(path="/p/AGENTS.md", text="a", digest="digest of a")
    for text in (other, *versions):
        await approvals.ask("hooks", [text])
    await approvals.forget(versions[-1])
    assert [await approvals.find_source(text) for text in versions] == ["not asked", "not asked", "refused"]
    assert await approvals.find_source(other) == "session"
    await database.close()


async def test_revoking_the_approval_of_a_file_ends_that_of_a_version_approved_by_a_flag(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    flagged, current = (ProjectText(path="/p/hooks.toml", text=text, digest=text) for text in ("flagged", "current"))
    approvals = ProjectApprovals(
        GrantStore(database),
        ScriptedFrontend(),
        create_in_memory_log(),
        "flag",
        frozenset({("/p/hooks.toml", "flagged")}),
    )
    assert await approvals.find_source(flagged) == "flag"
    await approvals.forget(current)
    assert await approvals.find_source(flagged) == "not asked"
    await database.close()


async def test_a_file_that_the_command_line_approves_is_recorded_with_its_digest_before_it_is_used(
    tmp_path: Path,
) -> None:
    grants, audit = GrantStore(database := Database(tmp_path / "s.db")), create_audit_log(tmp_path)
    approved = frozenset({(FILES[0].path, FILES[0].digest)})
    approvals = ProjectApprovals(grants, ScriptedFrontend(), audit, "flag", approved)
    for _ in range(2):
        await approvals.ask("hooks", FILES)
    assert [await approvals.find_source(text) for text in FILES] == ["flag", "not asked"]
    (row,) = await read_rows(audit, "file")
    assert (row.kind, row.event, row.decision, row.who) == ("file", "kept", "session", "flag")
    assert (row.subject, row.definition) == (FILES[0].path, FILES[0].digest)
    assert "hooks" in row.detail
    await audit.close()
    await database.close()
