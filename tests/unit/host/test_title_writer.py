"""Tests for titles that a model writes: when they are requested, what is sent, and which titles they never replace."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.schema import BudgetConfig, TitlesConfig
from mcphost.errors import ModelError, StoreError
from mcphost.host.conversation.title_writer import FAILURE_HINT, TITLE_PROMPT, clean_title
from mcphost.host.events import NoticeEvent, SpendingChanged
from mcphost.host.host import Host
from mcphost.llm.messages import ResourcePart
from mcphost.llm.model import ModelEvent, ModelFacts, ModelRequest
from mcphost.store.conversations import ConversationStore
from tests.fakes.model import HANG, ScriptedModel, text_round
from tests.unit.host.scripted_host import open_host_with

pytestmark = pytest.mark.anyio
BY_MODEL = TitlesConfig(mode="model")


async def wait_for(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not holds():
            await anyio.lowlevel.checkpoint()


async def stored_titles(host: Host) -> list[str]:
    return [one.title for one in await host.history.list_recent()]


async def test_after_the_first_answer_the_model_writes_the_title_once(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("Paris."), text_round('"Capital of France."\n'), text_round("Rome."))
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        await host.conversation.send("what is the capital of france?")
        await wait_for(lambda: host.conversation.title == "Capital of France")
        await host.conversation.send("and of italy?")
        assert await stored_titles(host) == ["Capital of France"]
    request = model.requests[1]
    assert (request.system, request.tools, len(model.requests)) == (TITLE_PROMPT, (), 3)
    sent = json.loads(request.messages[0].text)
    assert sent == {"user": "what is the capital of france?", "assistant": "Paris."}


async def test_without_the_setting_no_title_is_requested(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("Paris."), text_round("never"))
    async with open_host_with(tmp_path, {}, model) as host:
        await host.conversation.send("what is the capital of france?")
        assert await stored_titles(host) == ["what is the capital of france?"]
    assert len(model.requests) == 1


async def test_the_demo_model_is_not_asked_for_a_title(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("1"), text_round("2"))
    model.name = "demo"
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        for text in ("first", "second"):
            await host.conversation.send(text)
        assert (len(model.requests), await stored_titles(host)) == (2, ["first"])


async def test_its_cost_counts_as_that_of_the_conversation(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("Paris."), text_round("Capital of France"))
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        events = host.events.subscribe()
        await host.conversation.send("capital?")
        await wait_for(lambda: host.conversation.title == "Capital of France")
        costs = [event.total for event in events.drain() if isinstance(event, SpendingChanged)]
    assert costs == pytest.approx([0.001, 0.002])


async def test_a_title_that_would_exceed_the_budget_is_not_requested(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("Paris."), text_round("Capital of France"), text_round("Rome."))
    budget = BudgetConfig(per_conversation=0.0015)  # an answer costs 0.001
    model.facts = ModelFacts(input_price=0.0, output_price=0.000001, max_output_tokens=900)
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL, budget=budget) as host:
        events = host.events.subscribe()
        await host.conversation.send("capital?")
        notices: list[NoticeEvent] = []
        await wait_for(
            lambda: bool(notices.extend(one for one in events.drain() if isinstance(one, NoticeEvent)) or notices)
        )
        assert (len(model.requests), await stored_titles(host)) == (1, ["capital?"])
    assert "of per_conversation" in notices[0].text


async def test_attachments_and_more_than_2000_characters_are_not_sent(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("b" * 3_000), text_round("Letters"))
    attached = ResourcePart("", "file:///notes.txt", "private notes")
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        await host.conversation.send("a" * 3_000, (attached,))
        await wait_for(lambda: host.conversation.title == "Letters")
    assert json.loads(model.requests[1].messages[0].text) == {"user": "a" * 2_000, "assistant": "b" * 2_000}


async def test_a_title_chosen_by_the_user_meanwhile_stays(tmp_path: Path) -> None:
    released = anyio.Event()

    def title_round(request: ModelRequest) -> list[ModelEvent]:
        released.set()
        return text_round("By the model")

    model = ScriptedModel(text_round("Paris."), title_round)
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        events = host.events.subscribe()
        await host.conversation.send("capital?")
        await host.history.rename(host.conversation.id, "Mine")
        await released.wait()
        spent = 0

        def is_settled() -> bool:
            nonlocal spent
            spent += sum(isinstance(event, SpendingChanged) for event in events.drain())
            return spent == 2

        await wait_for(is_settled)
    async with open_host_with(tmp_path, {}, ScriptedModel()) as host:
        assert await stored_titles(host) == ["Mine"]


async def test_a_conversation_that_cannot_be_saved_yet_keeps_its_written_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_args: object, **_named: object) -> int:
        raise StoreError("The disk is full.", "")

    model = ScriptedModel(text_round("Paris."), text_round("Capital of France"), text_round("Rome."))
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        with monkeypatch.context() as broken:
            broken.setattr(ConversationStore, "append", fail)
            await host.conversation.send("capital?")
            await wait_for(lambda: host.conversation.title == "Capital of France")
        await host.conversation.send("and of italy?")
        assert await stored_titles(host) == ["Capital of France"]


async def test_a_failure_is_reported_once_and_keeps_the_first_line(tmp_path: Path) -> None:
    broken = [ModelError("The model does not exist.", "")]
    model = ScriptedModel(text_round("1"), broken, text_round("2"), broken, text_round("3"), text_round("Good"))
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        events = host.events.subscribe()
        for text, requests in (("first", 2), ("second", 4), ("third", 6)):
            host.conversation.open_new()
            await host.conversation.send(text)
            await wait_for(lambda requests=requests: len(model.requests) == requests and not model.open_streams)
        await wait_for(lambda: host.conversation.title == "Good")
        assert sorted(await stored_titles(host)) == ["Good", "first", "second"]
        notices = [(event.text, event.hint) for event in events.drain() if isinstance(event, NoticeEvent)]
    assert notices == [("The model does not exist.", FAILURE_HINT)]


async def test_a_model_that_hangs_delays_neither_a_turn_nor_the_exit(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("1"), [HANG], text_round("2"))
    async with open_host_with(tmp_path, {}, model, titles=BY_MODEL) as host:
        await host.conversation.send("first")
        await model.hanging.wait()
        result = await host.conversation.send("second")
        assert (result.text, await stored_titles(host)) == ("2", ["first"])


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ('"Build fails on ARM."', "Build fails on ARM"),
        ("\n\n# **Build fails**\nExplanation", "Build fails"),
        ("__init__ and __main__", "__init__ and __main__"),
        ("Generics in C#", "Generics in C#"),
        ("What rm * deletes.", "What rm * deletes"),
        ("<think>A title is due.</think>\nBuild fails", "Build fails"),
        ("<think>A title is due, but it is", ""),
        ("构建失败。\n", "构建失败。"),
        ("```\n\n```", ""),
        ("", ""),
        ("one word after another " * 20, "one word after another one word after another one word…"),
        ("hidden\U000e0041\U000e0042 tags \x1b[31m", "hidden tags [31m"),
    ],
)
def test_a_written_title_is_one_short_plain_line(written: str, title: str) -> None:
    assert clean_title(written) == title
