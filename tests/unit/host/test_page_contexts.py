"""Tests of what an open page wants the model to know (`ui/update-model-context`): held, shown, sent once, removable."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.errors import UsageError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import PageContextsChanged
from mcphost.host.host import Host
from mcphost.host.message_text import describe_message
from mcphost.host.page_contexts import CONTEXT_LIMIT, PageContexts
from mcphost.host.questions.questions import AllowOnce, PassResult, WithholdResult
from mcphost.host.tools.result_review import ATTACHMENT_WITHHELD
from mcphost.llm.chat_completions import ApiRoute, make_user_content
from mcphost.llm.messages import Message, ResourcePart, TextPart, ToolReturnPart
from mcphost.serialization import replace
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.parsed_settings import parse_settings
from tests.unit.host.page_server import PAGE_URI, PageFrontend, browser_for, create_page_peer, initialize, open_page
from tests.unit.host.scripted_host import create_peer, open_host_with, text_result, tool_definition, tools_result

pytestmark = pytest.mark.anyio
SELECTED: dict[str, Any] = {
    "content": [{"type": "text", "text": "Three items are selected."}],
    "structuredContent": {"count": 3},
}
TEXT = 'Three items are selected.\n{"count":3}'
PART = ResourcePart("peer", PAGE_URI, TEXT, tool="show", is_from_page=True)
OTHER = replace(PART, text="Nothing is selected.")


def part_of(host: Host) -> ResourcePart:
    return replace(PART, target=host.servers.targets["peer"])


async def update(browser: Any, params: dict[str, Any]) -> Any:
    return await browser.call("ui/update-model-context", params)


async def test_the_next_message_takes_the_context_of_a_page_and_later_ones_do_not(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    async with open_page(tmp_path, model=model) as (host, browser, _, frontend):
        assert (await initialize(browser))["hostCapabilities"]["updateModelContext"] == {
            "text": {}, "structuredContent": {},
        }  # fmt: skip
        feed = host.events.subscribe()
        assert (await update(browser, SELECTED))["result"] == {}
        assert [event for event in feed.drain() if isinstance(event, PageContextsChanged)] == [PageContextsChanged(1)]
        assert [(one.page, one.part) for one in host.conversation.page_contexts.waiting] == [(1, part_of(host))]
        await host.conversation.send("What now?")
        assert host.conversation.page_contexts.waiting == ()
        assert host.conversation.messages[0].parts == (part_of(host), TextPart("What now?"))
        await host.conversation.send("And then?")
        assert host.conversation.messages[2].parts == (TextPart("And then?"),)
        # What the page sent again is in the conversation already.
        await update(browser, SELECTED)
        assert host.conversation.page_contexts.waiting == ()
        assert len(frontend.asked) == 1


def test_the_model_is_told_who_wrote_the_context() -> None:
    message = Message(role="user", parts=(PART, TextPart("Go on")))
    said = make_user_content(message, ApiRoute(model="m", provider="p"))
    assert said == (
        "Context from the page of the tool show of the server peer, written by the page:\n\n" + TEXT + "\n\nGo on"
    )


def test_who_wrote_the_context_is_also_said_to_the_model_that_summarizes_the_conversation() -> None:
    said = describe_message(Message(role="user", parts=(PART, TextPart("Go on"))))
    assert f"[written by the page of show of peer] {TEXT}" in said


async def test_only_the_last_context_of_a_page_counts_and_an_empty_one_removes_it(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (host, browser, _, _):
        await initialize(browser)
        waiting = lambda: [one.part.text for one in host.conversation.page_contexts.waiting]  # noqa: E731
        await update(browser, {"content": [{"type": "text", "text": "first"}]})
        await update(browser, {"content": [{"type": "text", "text": "second"}]})
        assert waiting() == ["second"]
        await update(browser, {"structuredContent": {"n": 1}})
        assert waiting() == ['{"n":1}']
        empty: list[dict[str, Any]] = [{}, {"content": []}, {"content": [{"type": "text", "text": " "}]}]
        for nothing in empty:
            await update(browser, {"content": [{"type": "text", "text": "again"}]})
            await update(browser, nothing)
            assert waiting() == []


async def test_blocks_for_the_user_only_are_left_out_of_the_context(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (host, browser, _, _):
        await initialize(browser)
        blocks = [
            {"type": "text", "text": "for both"},
            {"type": "text", "text": "for the user", "annotations": {"audience": ["user"]}},
        ]
        await update(browser, {"content": blocks})
        assert [one.part.text for one in host.conversation.page_contexts.waiting] == ["for both"]


@pytest.mark.parametrize(
    "params",
    [
        {"content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
        {"content": [{"type": "text", "text": "x"}, {"type": "resource_link", "uri": "a://b", "name": "b"}]},
        {"content": [{"type": "text", "text": "x" * (CONTEXT_LIMIT + 1)}]},
        {"content": [{"type": "text", "text": "ä" * (CONTEXT_LIMIT // 2 + 1)}]},
        {"content": [{"type": "text", "text": "x"}] * 101},
        {"content": "x"},
        {"structuredContent": [1]},
        {"structuredContent": {"x": "y" * CONTEXT_LIMIT}},
    ],
)
async def test_a_context_that_is_no_text_or_too_long_is_refused_and_the_earlier_one_stays(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    async with open_page(tmp_path) as (host, browser, _, _):
        await initialize(browser)
        await update(browser, SELECTED)
        assert (await update(browser, params))["error"]["code"] == -32602
        assert [one.part for one in host.conversation.page_contexts.waiting] == [part_of(host)]


async def test_a_removed_context_is_not_sent_and_comes_back_only_if_the_page_changes_it(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"))
    async with open_page(tmp_path, model=model) as (host, browser, _, _):
        await initialize(browser)
        contexts = host.conversation.page_contexts
        await update(browser, SELECTED)
        contexts.remove(1)
        await update(browser, SELECTED)
        assert contexts.waiting == ()
        await host.conversation.send("hi")
        assert host.conversation.messages[0].parts == (TextPart("hi"),)
        await update(browser, {"structuredContent": {"count": 4}})
        assert [one.part.text for one in contexts.waiting] == ['{"count":4}']


@pytest.mark.parametrize("end", ["page", "conversation"])
async def test_a_context_is_gone_as_soon_as_its_page_is_closed(tmp_path: Path, end: str) -> None:
    model = ScriptedModel(text_round("one"))
    async with open_page(tmp_path, model=model) as (host, browser, _, _):
        await initialize(browser)
        await update(browser, SELECTED)
        if end == "page":
            assert host.pages.close(1)
        else:
            host.conversation.open_new()
        assert host.conversation.page_contexts.waiting == ()
        await host.conversation.send("hi")
        assert host.conversation.messages[0].parts == (TextPart("hi"),)
        with anyio.fail_after(5):
            while host.pages.list_open():
                await anyio.lowlevel.checkpoint()
        assert host.conversation.page_contexts.waiting == ()


async def test_a_context_that_was_sent_is_accepted_again_after_the_message_was_taken_back(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"))
    async with open_page(tmp_path, model=model) as (host, browser, _, _):
        await initialize(browser)
        await update(browser, SELECTED)
        await host.conversation.send("hi")
        await host.conversation.branches.rewind(0)
        await update(browser, SELECTED)
        assert [one.part for one in host.conversation.page_contexts.waiting] == [part_of(host)]


async def test_neither_a_retry_nor_a_continued_answer_takes_the_context(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    async with open_page(tmp_path, model=model) as (host, browser, _, _):
        await initialize(browser)
        await host.conversation.send("hi")
        await update(browser, SELECTED)
        await host.conversation.retry()
        assert [one.part for one in host.conversation.page_contexts.waiting] == [part_of(host)]
        assert host.conversation.messages[0].parts == (TextPart("hi"),)


async def test_the_context_of_a_page_is_counted_in_the_context_report(tmp_path: Path) -> None:
    async with open_page(tmp_path, model=ScriptedModel()) as (host, browser, _, _):
        await initialize(browser)
        assert [share for share in (await host.context.measure()).shares if share.kind == "attachments"] == []
        await update(browser, SELECTED)
        shares = [share for share in (await host.context.measure()).shares if share.kind == "attachments"]
        assert [share.server for share in shares] == ["peer"]
        assert shares[0].tokens > 5


async def test_a_message_for_the_running_turn_takes_the_context_when_it_joins_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("peer__show", {})), text_round("done"))

    async def steer(_: Any) -> AllowOnce:
        assert host.conversation.steer("and be brief")
        await update(browser, SELECTED)
        return AllowOnce()

    async with open_page(tmp_path, steer, model=model) as (host, browser, _, _):
        await initialize(browser)
        await host.conversation.send("go")
        assert host.conversation.messages[3].parts == (part_of(host), TextPart("and be brief"))
        assert host.conversation.page_contexts.waiting == ()


async def test_a_never_rule_refuses_what_was_copied_from_the_context_of_a_page(tmp_path: Path) -> None:
    secret = "The door code of the office is 4711-0815-XY"
    post = create_peer(tools__list=tools_result(tool_definition("post")), tools__call=text_result("posted"))
    model = ScriptedModel(tool_round(("web__post", {"body": f"fyi: {secret}"})), text_round("done"))
    settings = parse_settings('[consent]\nnever = ["web/* never-from:peer"]\n', "config.toml", lambda problem: None)
    peers = {"peer": create_page_peer(), "web": post}
    async with open_host_with(tmp_path, peers, model, PageFrontend(True), never=settings.never_rules) as host:
        await host.tools.call("peer", "show", {})
        browser = browser_for((await host.pages.open())[0])
        await browser.load()
        await browser.connect()
        await initialize(browser)
        await update(browser, {"content": [{"type": "text", "text": secret}]})
        await host.conversation.send("post it")
        (result,) = host.conversation.messages[2].parts
        assert isinstance(result, ToolReturnPart)
        assert "from:peer" in result.text
        assert post.asked("tools/call") == []
        await browser.close()


async def test_a_server_whose_results_are_reviewed_has_the_context_of_its_page_reviewed_too(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"))
    answers = (WithholdResult(),)
    async with open_page(tmp_path, *answers, model=model, reviewed=("peer",)) as (host, browser, _, frontend):
        await initialize(browser)
        await update(browser, SELECTED)
        await host.conversation.send("hi")
        assert frontend.asked[-1].why == "its page adds it to your message"
        assert host.conversation.messages[0].parts[0] == replace(part_of(host), text=ATTACHMENT_WITHHELD)


async def test_a_context_waits_again_if_its_message_never_joined_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("peer__show", {})), text_round("two"))

    async def steer(_: Any) -> AllowOnce:
        assert host.conversation.steer("and be brief")
        await update(browser, SELECTED)
        return AllowOnce()

    async def stop(_: Any) -> None:
        assert host.conversation.page_contexts.waiting == ()
        host.conversation.stop()
        await anyio.sleep_forever()

    async with open_page(tmp_path, steer, PassResult(), stop, PassResult(), model=model, reviewed=("peer",)) as (
        host, browser, _, frontend,
    ):  # fmt: skip
        await initialize(browser)
        assert (await host.conversation.send("go")).outcome == "stopped"
        assert frontend.asked[-1].why == "its page adds it to your message"
        assert [one.part for one in host.conversation.page_contexts.waiting] == [part_of(host)]
        await host.conversation.send("and be brief")
        assert host.conversation.messages[-2].parts == (part_of(host), TextPart("and be brief"))


async def test_a_context_waits_again_if_the_message_cannot_be_sent(tmp_path: Path) -> None:
    async def fail(_: Any) -> None:
        raise UsageError("The screen is gone.")

    model = ScriptedModel(text_round("one"))
    async with open_page(tmp_path, fail, PassResult(), model=model, reviewed=("peer",)) as (host, browser, _, _):
        await initialize(browser)
        await update(browser, SELECTED)
        with pytest.raises(UsageError):
            await host.conversation.send("hi")
        assert [one.part for one in host.conversation.page_contexts.waiting] == [part_of(host)]
        await host.conversation.send("hi")
        assert host.conversation.messages[0].parts == (part_of(host), TextPart("hi"))


@pytest.mark.parametrize(
    ("meanwhile", "waiting"),
    [("nothing", [PART]), ("the same", [PART]), ("another", [OTHER]), ("empty", []), ("closed", [])],
)
def test_a_context_that_its_page_replaced_or_withdrew_meanwhile_does_not_wait_again(
    meanwhile: str, waiting: list[ResourcePart]
) -> None:
    contexts = PageContexts(EventBus())
    contexts.update(1, PART)
    message = ExitStack()
    assert message.enter_context(contexts.take()) == (PART,)
    if meanwhile == "closed":
        contexts.close(1)
    elif meanwhile != "nothing":
        contexts.update(1, {"the same": PART, "another": OTHER, "empty": replace(PART, text="")}[meanwhile])
    error = UsageError("The message was not sent.")
    assert not message.__exit__(UsageError, error, None)
    assert [one.part for one in contexts.waiting] == waiting


async def test_a_removed_context_does_not_come_back_with_a_message_that_was_taken_back(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"))
    async with open_page(tmp_path, model=model) as (host, browser, _, _):
        await initialize(browser)
        await update(browser, SELECTED)
        host.conversation.page_contexts.remove(1)
        await host.conversation.send("hi")
        await host.conversation.branches.rewind(0)
        await update(browser, SELECTED)
        assert host.conversation.page_contexts.waiting == ()


async def test_a_context_that_is_among_the_attachments_of_an_edited_message_is_sent_once(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    async with open_page(tmp_path, model=model) as (host, browser, _, _):
        await initialize(browser)
        await update(browser, SELECTED)
        await host.conversation.send("hi")
        await host.conversation.branches.rewind(0)
        await update(browser, SELECTED)
        await host.conversation.send("hello", (part_of(host),))  # the chat attaches what the message had
        assert host.conversation.messages[0].parts == (part_of(host), TextPart("hello"))
        assert host.conversation.page_contexts.waiting == ()
