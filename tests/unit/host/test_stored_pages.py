"""Tests of pages of calls of an earlier run: opened if the server is the same, otherwise refused with the reason."""

import gc
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from weakref import ref

import anyio
import pytest

from mcphost.errors import ServerError, UsageError
from mcphost.host.host import Host
from mcphost.host.questions.questions import AllowOnce, PassEditedResult, PassResult, WithholdResult
from mcphost.store.manual_calls import StoredManualCall
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.page_server import PAGE_URI, PageFrontend, browser_for, create_page_peer, initialize
from tests.unit.host.scripted_host import InProcessServer, open_host_with, tool_definition, tools_result
from tests.unit.host.slow_server import SlowServer

pytestmark = pytest.mark.anyio


async def call_in_first_run(folder: Path, *answers: Any, peer: InProcessServer | None = None, **options: Any) -> str:
    """Let the model call the tool `show`, and end mcphost; return the id of the conversation."""
    model = ScriptedModel(tool_round(("peer__show", {"city": "Bern"})), text_round("done"))
    frontend = PageFrontend(*(answers or (AllowOnce(),)))
    async with open_host_with(folder, peer or create_page_peer(), model, frontend, **options) as host:
        await host.conversation.send("show it")
        with anyio.fail_after(10):
            while not options.get("reviewed") and not await host.pages.list_stored_calls():
                await anyio.lowlevel.checkpoint()
        return host.conversation.id


@asynccontextmanager
async def open_later_run(folder: Path, conversation: str, **options: Any) -> AsyncGenerator[Host]:
    peers = options.pop("peers", None) or create_page_peer()
    async with open_host_with(folder, peers, ScriptedModel(), PageFrontend(True), **options) as host:
        await host.servers.get_tool(next(iter(view.name for view in host.servers.views())), "refresh")
        await host.conversation.open(conversation)
        yield host


@pytest.mark.parametrize("call", ["use-1", ""])
async def test_a_page_of_an_earlier_run_shows_the_whole_result_of_its_call(tmp_path: Path, call: str) -> None:
    conversation = await call_in_first_run(tmp_path)
    async with open_later_run(tmp_path, conversation) as host:
        assert await host.pages.list_stored_calls() == ("use-1",)
        page, _ = await host.pages.open(call)
        browser = browser_for(page)
        await browser.load()
        await browser.connect()
        await initialize(browser)
        assert (await browser.read())["params"] == {"arguments": {"city": "Bern"}}
        shown = (await browser.read())["params"]
        assert shown == {
            "content": [{"type": "text", "text": "show: sunny"}],
            "structuredContent": {"sky": "sunny"},
            "_meta": {"source": "sensor"},
        }
        await browser.close()
        assert (await host.pages.open("use-1"))[0].number == page.number


async def test_a_copy_of_the_conversation_has_its_pages_and_a_deleted_one_has_none(tmp_path: Path) -> None:
    conversation = await call_in_first_run(tmp_path)
    async with open_later_run(tmp_path, conversation) as host:
        await host.conversation.branches.fork()
        assert host.conversation.id != conversation
        assert await host.pages.list_stored_calls() == ("use-1",)
        await host.history.delete(conversation)
        await host.pages.open("use-1")
        copy = host.conversation.id
        host.conversation.open_new()
        await host.history.delete(copy)
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        assert database.execute("SELECT count(*) FROM page_results").fetchone() == (0,)


async def test_a_page_of_another_conversation_is_not_found(tmp_path: Path) -> None:
    conversation = await call_in_first_run(tmp_path)
    async with open_later_run(tmp_path, conversation) as host:
        host.conversation.open_new()
        assert await host.pages.list_stored_calls() == ()
        with pytest.raises(UsageError, match="result is gone"):
            await host.pages.open("use-1")
        with pytest.raises(UsageError, match="no page to open"):
            await host.pages.open()


async def test_pages_are_listed_without_their_code_unless_the_conversation_has_some(tmp_path: Path) -> None:
    conversation = await call_in_first_run(tmp_path)
    async with open_later_run(tmp_path, conversation) as host:
        host.conversation.open_new()
        assert await host.list_page_calls() == frozenset()
        assert host.late_parts.pages.created is None
        await host.conversation.open(conversation)
        assert await host.list_page_calls() == {"use-1"}
        assert host.late_parts.pages.created is not None


CHANGED = tool_definition("show", description="Show more.", _meta={"ui": {"resourceUri": PAGE_URI}})
REFRESH = tool_definition("refresh")


@pytest.mark.parametrize(
    ("peers", "options", "message"),
    [
        ({"other": create_page_peer()}, {}, "'peer' of this call is no longer configured"),
        (create_page_peer(), {"args": {"peer": ("other",)}}, "its settings changed"),
        (create_page_peer(CHANGED, REFRESH), {}, "'show' of 'peer' changed after this call"),
        (create_page_peer(REFRESH), {}, "'show' of 'peer' no longer has a page"),
    ],
)
async def test_the_page_of_a_server_or_tool_that_changed_is_refused_with_the_reason(
    tmp_path: Path, peers: Any, options: dict[str, Any], message: str
) -> None:
    conversation = await call_in_first_run(tmp_path)
    async with open_later_run(tmp_path, conversation, peers=peers, **options) as host:
        with pytest.raises(ServerError, match=message):
            await host.pages.open("use-1")
        assert host.pages.list_open() == ()


async def test_the_page_of_a_server_that_is_not_connected_is_refused_with_the_reason(tmp_path: Path) -> None:
    conversation = await call_in_first_run(tmp_path)
    async with open_later_run(tmp_path, conversation) as host:
        host.servers.stop("peer")
        with anyio.fail_after(10):
            while host.servers.find("peer").is_ready:
                await anyio.lowlevel.checkpoint()
        with pytest.raises(ServerError, match="'peer' of this call is not connected"):
            await host.pages.open("use-1")


@pytest.mark.parametrize(
    ("answer", "stored"),
    [(PassResult(), ("use-1",)), (PassEditedResult(("rain",)), ()), (WithholdResult(), ())],
)
async def test_a_reviewed_result_is_stored_only_if_the_user_passed_all_of_it(
    tmp_path: Path, answer: Any, stored: tuple[str, ...]
) -> None:
    reviewed = ("peer",)
    conversation = await call_in_first_run(tmp_path, AllowOnce(), answer, reviewed=reviewed)
    async with open_later_run(tmp_path, conversation, reviewed=reviewed) as host:
        assert await host.pages.list_stored_calls() == stored


async def call_without_model(host: Host) -> None:
    add = host.conversation.start_manual_call()
    call = host.tools.make_call_id()
    result = await host.tools.call("peer", "show", {"city": "Bern"}, call=call)
    add(StoredManualCall("peer", "show", {"city": "Bern"}, "ok", result.text, page=call), result.page)


async def test_the_page_of_a_call_of_the_user_is_shown_in_a_later_run(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_page_peer(), ScriptedModel(), PageFrontend()) as host:
        await call_without_model(host)
        await call_without_model(host)
        conversation = host.conversation.id
    async with open_later_run(tmp_path, conversation) as host:
        calls = [call.page for call in host.conversation.manual_calls]
        assert len(set(calls)) == 2
        assert await host.pages.list_stored_calls() == tuple(calls)
        page, _ = await host.pages.open(calls[0])
        browser = browser_for(page)
        await browser.load()
        await browser.connect()
        await initialize(browser)
        assert (await browser.read())["params"] == {"arguments": {"city": "Bern"}}
        assert (await browser.read())["params"]["structuredContent"] == {"sky": "sunny"}
        await browser.close()
        await host.conversation.branches.rewind(0)
        assert len(await host.pages.list_stored_calls()) == 2


def create_two_calls() -> ScriptedModel:
    rounds = (tool_round(("peer__show", {"city": "Bern"})), text_round("1"))
    return ScriptedModel(*rounds, tool_round(("peer__show", {"city": "Chur"})), text_round("2"))


async def send_twice(host: Host) -> tuple[str, ...]:
    """Send two messages, for each of which the model calls the tool `show`; return the ids of the stored calls."""
    await host.conversation.send("show Bern")
    await host.conversation.send("show Chur")
    with anyio.fail_after(10):
        while len(calls := await host.pages.list_stored_calls()) < 2:
            await anyio.lowlevel.checkpoint()
    return calls


async def test_after_a_rewind_only_pages_of_the_branch_are_opened(tmp_path: Path) -> None:
    frontend = PageFrontend(AllowOnce(), AllowOnce(), True)
    async with open_host_with(tmp_path, create_page_peer(), create_two_calls(), frontend) as host:
        first, second = await send_twice(host)
        await host.conversation.branches.rewind(4)
        assert await host.pages.list_stored_calls() == (first,)
        with pytest.raises(UsageError, match="result is gone"):
            await host.pages.open(second)
        page, _ = await host.pages.open()
        browser = browser_for(page)
        await browser.load()
        await browser.connect()
        await initialize(browser)
        assert (await browser.read())["params"] == {"arguments": {"city": "Bern"}}
        await browser.close()
        await host.conversation.branches.rewind(0)
        with pytest.raises(UsageError, match="no page to open"):
            await host.pages.open()


async def test_a_page_whose_result_is_too_large_to_be_stored_is_opened_again_on_its_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.store.page_results.MAX_BYTES", 10)
    frontend = PageFrontend(AllowOnce(), AllowOnce(), True)
    async with open_host_with(tmp_path, create_page_peer(), create_two_calls(), frontend) as host:
        await host.conversation.send("show Bern")
        await host.conversation.send("show Chur")
        newest = host.pages.calls.find()
        assert newest is not None
        await host.conversation.branches.rewind(4)
        with pytest.raises(UsageError, match="result is gone"):
            await host.pages.open(newest.call)
        (branch,) = await host.conversation.branches.list_others()
        await host.conversation.branches.switch(branch.number)
        assert await host.pages.list_stored_calls() == ()
        page, _ = await host.pages.open(newest.call)
        assert page.tool == "show"


async def test_the_page_of_a_call_of_the_user_that_is_too_large_to_be_stored_outlives_a_rewind_that_keeps_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.store.page_results.MAX_BYTES", 10)
    frontend = PageFrontend(AllowOnce(), AllowOnce(), True)
    async with open_host_with(tmp_path, create_page_peer(), create_two_calls(), frontend) as host:
        await call_without_model(host)
        await host.conversation.send("show Bern")
        await host.conversation.send("show Chur")
        later = host.pages.calls.find()
        assert later is not None
        await host.conversation.branches.rewind(0)
        assert await host.pages.list_stored_calls() == ()
        (call,) = host.conversation.manual_calls
        assert await host.pages.list_calls() == {call.page}
        page, _ = await host.pages.open(call.page)
        assert page.tool == "show"
        with pytest.raises(UsageError, match="result is gone"):
            await host.pages.open(later.call)


@pytest.mark.parametrize("answer", [PassResult(), PassEditedResult(("rain",)), WithholdResult()])
async def test_reviewed_calls_of_an_earlier_conversation_are_forgotten_after_their_review(
    tmp_path: Path, answer: Any
) -> None:
    frontend = PageFrontend(AllowOnce(), answer)
    model = ScriptedModel(tool_round(("peer__show", {"city": "Bern"})), text_round("done"))
    async with open_host_with(tmp_path, create_page_peer(), model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("go")
        await call_without_model(host)
        remembered = [ref(host.pages.calls.find(call)) for call in host.pages.calls.ids]
        assert len(remembered) == 2
        host.conversation.open_new()
        gc.collect()
        assert [one() for one in remembered] == [None, None]


async def test_the_page_of_a_call_that_the_user_made_after_a_rewind_is_opened(tmp_path: Path) -> None:
    frontend = PageFrontend(AllowOnce(), AllowOnce(), True)
    async with open_host_with(tmp_path, create_page_peer(), create_two_calls(), frontend) as host:
        _, second = await send_twice(host)
        await host.conversation.branches.rewind(4)
        before = host.pages.calls.ended
        await call_without_model(host)
        (made,) = host.pages.calls.ended - before
        page, _ = await host.pages.open(made)
        browser = browser_for(page)
        await browser.load()
        await browser.connect()
        await initialize(browser)
        assert (await browser.read())["params"] == {"arguments": {"city": "Bern"}}
        await browser.close()
        with pytest.raises(UsageError, match="result is gone"):
            await host.pages.open(second)


async def test_a_copy_has_only_the_pages_of_its_messages(tmp_path: Path) -> None:
    frontend = PageFrontend(AllowOnce(), AllowOnce(), True)
    async with open_host_with(tmp_path, create_page_peer(), create_two_calls(), frontend) as host:
        await call_without_model(host)
        manual, first, _second = await send_twice(host)
        await host.conversation.branches.fork(4)
        copy = host.conversation.id
        assert await host.pages.list_stored_calls() == (manual, first)
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        rows = database.execute("SELECT use_id FROM page_results WHERE conversation = ? ORDER BY at", (copy,))
        assert rows.fetchall() == [(manual,), (first,)]


@pytest.mark.parametrize("reviewed", [(), ("peer",)])
async def test_the_page_of_a_call_that_ends_while_another_conversation_is_open_is_stored(
    tmp_path: Path, reviewed: tuple[str, ...]
) -> None:
    tools = tools_result(tool_definition("slow", _meta={"ui": {"resourceUri": PAGE_URI}}))
    server = SlowServer(**{"tools/list": tools})
    model = ScriptedModel(tool_round(("peer__slow", {})), text_round("going on"))
    frontend = PageFrontend(AllowOnce(), PassResult())
    async with open_host_with(tmp_path, server, model, frontend, reviewed=reviewed) as host:

        async def send_to_background() -> None:
            await server.called.wait()
            host.conversation.send_to_background(host.running_calls.list()[0].call)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_to_background)
            await host.conversation.send("go")
        conversation = host.conversation.id
        host.conversation.open_new()
        server.finish("42 files indexed")
        with anyio.fail_after(10):
            while host.running_calls.list():
                await anyio.lowlevel.checkpoint()
        assert host.pages.calls.find() is None
        await host.conversation.open(conversation)
        with anyio.fail_after(10):
            while await host.pages.list_stored_calls() != ("use-1",):
                await anyio.lowlevel.checkpoint()


async def test_a_result_over_the_limit_is_not_stored_and_the_oldest_ones_are_deleted(tmp_path: Path) -> None:
    from mcphost.llm.messages import Message, TextPart
    from mcphost.serialization import Raw
    from mcphost.store.conversations import ConversationStore
    from mcphost.store.database import Database
    from mcphost.store.page_results import MAX_BYTES, MAX_CALLS, PageResultStore, StoredPageCall

    database = Database(tmp_path / "store.db")
    message = Message(role="user", parts=(TextPart("hi"),), at=1.0)
    await ConversationStore(database).append("c", message, title="hi", model="")
    store = PageResultStore(database)

    def make_call(size: int) -> StoredPageCall:
        return StoredPageCall("peer", "d", "", "show", "f", {}, Raw(b'["' + b"x" * size + b'"]'))

    await store.add("c", "too-long", make_call(MAX_BYTES), 1.0)
    await store.add("unknown", "use", make_call(1), 1.0)
    for number in range(MAX_CALLS + 5):
        await store.add("c", f"use-{number}", make_call(10), float(number))
    assert await store.list("c") == tuple(f"use-{number}" for number in range(5, MAX_CALLS + 5))
    for number in range(5):
        await store.add("c", f"long-{number}", make_call(MAX_BYTES - 1_000), 1_000.0 + number)
    assert await store.list("c") == tuple(f"long-{number}" for number in range(1, 5))
    assert await store.list("unknown") == ()
    await database.close()
