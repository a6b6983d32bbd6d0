"""Tests for a conversation's own system prompt: how it is sent, saved, copied to other conversations and undone."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.conversation.controller import MAX_SYSTEM_PROMPT
from mcphost.host.conversation.model_request import DEFAULT_PROMPT
from mcphost.host.host import Host
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.system_prompts import MAX_STORED
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.scripted_host import EMPTY_LISTS, InProcessServer, open_host_with

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def open_quiet_host(
    folder: Path, audit_log: AuditLog | None = None
) -> AsyncGenerator[tuple[Host, ScriptedModel]]:
    model = ScriptedModel(*[text_round("an answer")] * 6)
    server = InProcessServer(EMPTY_LISTS, "2025-11-25", {}, {"name": "peer"})
    async with open_host_with(folder, server, model, ScriptedFrontend(), audit_log=audit_log) as host:
        yield host, model


async def ask(host: Host, model: ScriptedModel, text: str = "hello") -> str:
    """Run a turn and return the system prompt that the model received."""
    await host.conversation.send(text)
    return model.requests[-1].system


async def test_the_model_gets_it_from_the_next_turn_on_in_place_of_the_configured_one(tmp_path: Path) -> None:
    async with open_quiet_host(tmp_path) as (host, model):
        assert (await ask(host, model)).startswith(DEFAULT_PROMPT)
        await host.conversation.set_system_prompt("  Speak like a \ud800pirate.\n")
        assert host.conversation.system_prompt == "Speak like a \ufffdpirate."
        assert (await ask(host, model)).startswith("Speak like a \ufffdpirate.")
        await host.conversation.set_system_prompt("")
        assert (await ask(host, model)).startswith(DEFAULT_PROMPT)


async def test_it_belongs_to_its_conversation_and_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_quiet_host(tmp_path) as (host, model):
        await ask(host, model)
        await host.conversation.set_system_prompt("Be brief.")
        conversation = host.conversation.id
        host.conversation.open_new()
        assert host.conversation.system_prompt == ""
        assert (await ask(host, model)).startswith(DEFAULT_PROMPT)
    async with open_quiet_host(tmp_path) as (host, model):
        await host.conversation.open(conversation)
        assert host.conversation.system_prompt == "Be brief."
        assert (await ask(host, model)).startswith("Be brief.")


async def test_that_of_an_empty_conversation_is_saved_with_the_first_message(tmp_path: Path) -> None:
    async with open_quiet_host(tmp_path) as (host, model):
        await host.conversation.set_system_prompt("Too long.")
        await host.conversation.undo_system_prompt()
        await host.conversation.set_system_prompt("Be brief.")
        assert not host.conversation.id
        assert (await ask(host, model)).startswith("Be brief.")
        stored = ConversationStore(Database(tmp_path / "store.db"))
        assert await stored.system_prompts.load(host.conversation.id) == ("Be brief.",)


async def test_each_change_is_undone_also_after_a_restart(tmp_path: Path) -> None:
    async with open_quiet_host(tmp_path) as (host, model):
        await ask(host, model)
        for text in ("one", "two", ""):
            await host.conversation.set_system_prompt(text)
        await host.conversation.undo_system_prompt()
        assert host.conversation.system_prompt == "two"
        conversation = host.conversation.id
    async with open_quiet_host(tmp_path) as (host, model):
        await host.conversation.open(conversation)
        await host.conversation.undo_system_prompt()
        assert (await ask(host, model)).startswith("one")
        await host.conversation.undo_system_prompt()
        assert not host.conversation.can_undo_system_prompt
        with pytest.raises(UsageError, match="was not changed"):
            await host.conversation.undo_system_prompt()


async def test_a_copy_has_it_and_going_back_keeps_it(tmp_path: Path) -> None:
    async with open_quiet_host(tmp_path) as (host, model):
        await ask(host, model)
        await host.conversation.set_system_prompt("one")
        await host.conversation.set_system_prompt("two")
        await host.conversation.branches.rewind(0)
        assert (await ask(host, model)).startswith("two")
        original = host.conversation.id
        await host.conversation.branches.fork()
        assert host.conversation.id != original
        assert (await ask(host, model)).startswith("two")
        await host.conversation.set_system_prompt("three")
        await host.conversation.open(original)
        assert host.conversation.system_prompt == "two"


async def test_deleting_a_conversation_deletes_it_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    async with open_quiet_host(tmp_path) as (host, model):
        await ask(host, model)
        conversation = host.conversation.id
        for number in range(MAX_STORED + 5):
            await host.conversation.set_system_prompt(f"number {number}")
        prompts = ConversationStore(Database(tmp_path / "store.db")).system_prompts
        assert await prompts.load(conversation) == tuple(f"number {number}" for number in range(5, MAX_STORED + 5))
        await host.history.delete(conversation)
        assert await prompts.load(conversation) == ()


async def test_one_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async with open_quiet_host(tmp_path) as (host, _):
        with pytest.raises(UsageError, match="200,001 characters"):
            await host.conversation.set_system_prompt("x" * (MAX_SYSTEM_PROMPT + 1))
        assert host.conversation.system_prompt == ""


async def test_each_change_is_in_the_audit_log_by_its_digest_and_not_its_text(tmp_path: Path) -> None:
    audit_log = create_audit_log(tmp_path)
    async with open_quiet_host(tmp_path, audit_log) as (host, model):
        await ask(host, model)
        await host.conversation.set_system_prompt("Be brief.")
        await host.conversation.undo_system_prompt()
        rows = await read_rows(audit_log, "system_prompt")
    digest = hashlib.sha256(b"Be brief.").hexdigest()
    assert [(row.event, row.subject, row.definition) for row in rows] == [
        ("changed", "own", digest), ("taken back", "configured", "")
    ]  # fmt: skip
    assert "Be brief" not in str(rows)
