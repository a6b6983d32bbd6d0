"""Tests that auto-approval covers only the selected tools, as long as server, account and conversation stay."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcphost.config.rule_syntax import exact_pattern, parse_rule
from mcphost.config.schema import AuditConfig
from mcphost.errors import UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.auto_approve import AutoApproval, AutoApprovalBudget
from mcphost.host.consent.grants import identify_tool, make_grant
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lazy
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.protocol.tools import Tool, ToolAnnotations
from mcphost.serialization import Raw, encode, replace
from mcphost.store.audit_reader import AuditFilter, AuditReader
from mcphost.store.audit_store import AuditStore
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database

pytestmark = pytest.mark.anyio
READS = ToolAnnotations(read_only_hint=True)


def offered_tool(name: str = "t", claims: ToolAnnotations | None = READS, **more: Any) -> Any:
    fields: dict[str, Any] = {"server": "s", "digest": "sd", "account": "work", "trust": False, "words": "", **more}
    listed = ToolDefinition(name, Raw(encode(Tool(name=name, description=fields["words"], annotations=claims))))
    connection = SimpleNamespace(
        config=SimpleNamespace(name=fields["server"], trust_annotations=fields["trust"]), digest=fields["digest"],
        account=fields["account"], folder="/srv", listing=SimpleNamespace(tools={name: listed}),
    )  # fmt: skip
    return SimpleNamespace(connection=connection, definition=listed)


class AutoApprovalSetup:
    """Auto-approval with its own audit log and events, and one tool that can be selected."""

    def __init__(self, audit_file: Path | None = None) -> None:
        self.events: list[Any] = []
        store = ConversationStore(Database(None))
        self.conversation = ActiveConversation(Lazy(lambda: store), EventBus())
        self.lifetime: Any = SimpleNamespace(is_open=False)
        self.audit_log = AuditLog(AuditStore(audit_file), AuditConfig())
        feeds: Any = SimpleNamespace(publish=self.events.append)
        registry: Any = SimpleNamespace(available_tools=lambda: {"t": offered_tool(), "w": offered_tool("w", None)})
        self.auto_approval = AutoApproval(registry, self.conversation, feeds, self.audit_log, self.lifetime)

    async def noted(self) -> list[tuple[str, str]]:
        await self.audit_log.store.flush()
        path, checkpoint = self.audit_log.store.files
        rows = reversed(AuditReader(path, checkpoint).page(AuditFilter(kind="mode"), 100))
        return [(row.event, row.who) for row in rows]


@asynccontextmanager
async def run_auto_approval(audit_file: Path | None = None, **budget: Any) -> AsyncIterator[AutoApprovalSetup]:
    """Start auto-approval and stop it after the block; all its tasks must end within twenty seconds."""
    mode = AutoApprovalSetup(audit_file)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            mode.lifetime.is_open, mode.lifetime.start_soon = True, tasks.start_soon
            mode.auto_approval.start([("s", "t")], AutoApprovalBudget(**{"seconds": 1_000, **budget}))
            yield mode
            mode.auto_approval.stop("the end")


@pytest.mark.parametrize(
    "other",
    [{"server": "x"}, {"digest": "other"}, {"account": "home"}, {"account": ""}, {"words": "evil"}, {"name": "u"}],
)
async def test_only_exactly_the_picked_tools_are_auto_approved(other: dict[str, Any]) -> None:
    async with run_auto_approval(calls=2) as mode:
        assert not mode.auto_approval.approve(identify_tool(offered_tool(**other)), {})
        assert mode.auto_approval.approve(identify_tool(offered_tool()), {})
        assert mode.auto_approval.approve(identify_tool(offered_tool()), {"any": 1})
        assert not mode.auto_approval.approve(identify_tool(offered_tool()), {})


async def test_another_conversation_ends_it_wherever_that_is_detected_first() -> None:
    async with run_auto_approval() as mode:
        mode.conversation.open_new()
        assert not mode.auto_approval.can_continue()
        assert mode.auto_approval.status is None


async def test_a_restarted_mode_is_not_ended_with_the_old_one_and_all_is_recorded(
    tmp_path: Path,
) -> None:
    async with run_auto_approval(tmp_path / "audit.db") as mode:
        mode.auto_approval.start([("s", "t")], AutoApprovalBudget(calls=7, seconds=1_000))
        await anyio.wait_all_tasks_blocked()
        assert mode.auto_approval.status is not None
        assert mode.auto_approval.status.budget.calls == 7
        with pytest.raises(UsageError):
            mode.auto_approval.start([("s", "w")], AutoApprovalBudget())
        assert mode.auto_approval.status is not None
        assert mode.auto_approval.stop("for good", who="person")
        assert not mode.auto_approval.stop("again")
        assert not mode.auto_approval.approve(identify_tool(offered_tool()), {})
        assert await mode.noted() == [("on", "person"), ("off", "person")] * 2


async def test_the_timer_of_a_replaced_mode_ends_nothing() -> None:
    mode = AutoApprovalSetup()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as earlier:
                mode.lifetime.is_open, mode.lifetime.start_soon = True, earlier.start_soon
                mode.auto_approval.start([("s", "t")], AutoApprovalBudget(seconds=1_000))
                mode.lifetime.start_soon = tasks.start_soon
                mode.auto_approval.start([("s", "t")], AutoApprovalBudget(seconds=2_000))
            assert mode.auto_approval.status is not None
            assert mode.auto_approval.stop("the end")


@pytest.mark.parametrize(
    ("claims", "trust", "counts"),
    [
        (READS, True, True),
        (READS, False, False),
        (None, True, False),
        (ToolAnnotations(read_only_hint=False), True, False),
        (ToolAnnotations(read_only_hint=True, destructive_hint=True), True, False),
        (ToolAnnotations(read_only_hint=True, destructive_hint=False), True, True),
        (ToolAnnotations(destructive_hint=False), True, False),
    ],
)
def test_a_claim_counts_if_it_is_explicit_and_trusted_by_the_user(claims: Any, trust: bool, counts: bool) -> None:
    subject = identify_tool(offered_tool(claims=claims, trust=trust))
    assert subject.is_read_only_trusted is counts
    assert (subject.server, subject.server_digest, subject.account, subject.folder) == ("s", "sd", "work", "/srv")


def test_a_grant_has_the_digests_of_the_tools_its_rule_names_and_no_others() -> None:
    subject, other = identify_tool(offered_tool()), offered_tool("w").definition
    subject = replace(subject, server_tools={**subject.server_tools, "w": other})
    assert make_grant(subject, replace(parse_rule("s"), tool=exact_pattern("t"))).tools == {"t": subject.digest}
    assert make_grant(subject, parse_rule("s/w*")).tools == {"w": other.digest}
    grant = make_grant(subject, parse_rule("s"))
    assert grant.tools == {"t": subject.digest, "w": other.digest}
    assert (grant.account, grant.server_digest) == ("work", "sd")
