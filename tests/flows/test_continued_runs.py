"""Tests that a conversation of `mcphost run` which is continued in the chat is an ordinary one from then on."""

import pytest

from mcphost.cli.command_runner import find_conversation, resume_conversation
from mcphost.errors import UsageError
from mcphost.headless.run import RunFrontend, run_turn
from tests.fakes.model import ScriptedModel, text_round
from tests.flows.conftest import OpenHost

pytestmark = pytest.mark.anyio


async def test_a_run_continued_in_the_chat_loses_its_mark_and_is_listed(open_host: OpenHost) -> None:
    async with open_host(ScriptedModel(text_round("ok")), RunFrontend(), servers=()) as host:
        await run_turn(host, "Plan the harbour festival", output="json")
        ident = host.conversation.id
    async with open_host(ScriptedModel(text_round("again")), RunFrontend(), servers=()) as host:
        await host.conversation.open(ident)
        await run_turn(host, "Shorter", output="json")
        assert host.conversation.title == "run: Plan the harbour festival"
        assert await host.history.list_recent(with_runs=False) == ()
    async with open_host(ScriptedModel(text_round("again")), servers=()) as host:
        await host.conversation.open(ident)
        await host.conversation.send("Which ships come?")
        assert host.conversation.title == "Plan the harbour festival"
        assert [one.title for one in await host.history.list_recent(with_runs=False)] == ["Plan the harbour festival"]
        assert (await host.history.search("from:run")).conversations == ()
        assert [one.id for one in (await host.history.search("role:title harbour")).conversations] == [ident]


async def test_resuming_without_an_id_skips_runs_that_no_chat_continued(open_host: OpenHost) -> None:
    async with open_host(ScriptedModel(text_round("Aye")), servers=()) as host:
        await host.conversation.send("Which ships come?")
        chat = host.conversation.id
    async with open_host(ScriptedModel(text_round("ok")), RunFrontend(), servers=()) as host:
        await run_turn(host, "Plan the harbour festival", output="json")
        run = host.conversation.id
    async with open_host(ScriptedModel(text_round("again")), servers=()) as host:
        assert (await find_conversation(host, "")).id == chat
        await resume_conversation(host, run[:12])
        await host.conversation.send("Shorter")
        assert (await find_conversation(host, "")).id == run


async def test_resuming_without_an_id_names_the_runs_if_there_is_nothing_else(open_host: OpenHost) -> None:
    async with open_host(ScriptedModel(text_round("ok")), RunFrontend(), servers=()) as host:
        with pytest.raises(UsageError, match="There is no conversation yet"):
            await find_conversation(host, "")
        await run_turn(host, "Plan the harbour festival", output="json")
        with pytest.raises(UsageError, match="no conversation yet except those of mcphost run"):
            await find_conversation(host, "")


async def test_a_title_that_the_user_gave_is_kept_although_it_looks_like_that_of_a_run(open_host: OpenHost) -> None:
    async with open_host(ScriptedModel(text_round("ok"), text_round("again")), servers=()) as host:
        await host.conversation.send("Plan the harbour festival")
        await host.history.rename(host.conversation.id, "run: harbour")
        await host.conversation.send("Shorter")
        assert host.conversation.title == "run: harbour"
        assert (await host.history.find(host.conversation.id)).title == "run: harbour"
