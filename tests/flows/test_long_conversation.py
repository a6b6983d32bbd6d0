"""Tests that a conversation five times as long as the model's window continues, and that early facts are found."""

from pathlib import Path

import pytest

from mcphost.config.schema import CompactionConfig
from mcphost.host.host import Host
from mcphost.host.questions.compaction import OfferCompaction, ReviewCompaction, UseSummary
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.windowed_model import CHARS_PER_TOKEN, WindowedModel, size_of, write_codes, write_topics
from tests.unit.host.scripted_host import open_host_with

pytestmark = pytest.mark.anyio
WINDOW = 4_000
AUTO = CompactionConfig(mode="auto", keep_messages=4)
FILLER = "and so on, as we said before, " * 20


async def tell_codes(host: Host, first: int, windows: float) -> int:
    """Send numbered codes to the model, from *first* on, until the conversation is *windows* times its window.

    Return the next number.
    """
    number = first
    while sum(len(message.text) for message in host.conversation.messages) < windows * WINDOW * CHARS_PER_TOKEN:
        told = await host.conversation.send(f"The code of item{number} is K{number * 7919 % 10_000}. {FILLER}")
        assert (told.outcome, told.error) == ("done", "")
        number += 1
    return number


async def ask_code(host: Host, number: int) -> str:
    return (await host.conversation.send(f"what is the code of item{number}")).text


def code_of(number: int) -> str:
    return f"It is K{number * 7919 % 10_000}."


async def test_a_conversation_of_five_windows_answers_with_facts_of_its_beginning(tmp_path: Path) -> None:
    model = WindowedModel(WINDOW, write_codes)
    async with open_host_with(tmp_path, {}, model, compaction=AUTO) as host:
        last = await tell_codes(host, 1, 5)
        assert len(host.conversation.messages) == 2 * (last - 1)
        assert model.refused == 0
        assert len(model.summaries) > 4
        assert max(map(size_of, model.requests)) <= WINDOW
        for number in (1, 2, last // 2, last - 1):
            assert await ask_code(host, number) == code_of(number)
        compaction = host.conversation.compaction
        assert compaction is not None
        texts = dict(zip(host.conversation.numbers, host.conversation.messages, strict=True))
        for sentence in compaction.sentences:
            assert any(sentence.text.split()[3] in texts[number].text for number in sentence.sources)


async def test_facts_that_every_summary_lost_are_found_by_search(tmp_path: Path) -> None:
    model = WindowedModel(WINDOW, write_topics)
    async with open_host_with(tmp_path, {}, model, compaction=AUTO) as host:
        last = await tell_codes(host, 1, 5)
        assert "K7919" not in str(model.requests[-1])
        for number in (1, last // 2):
            assert await ask_code(host, number) == code_of(number)
        assert host.conversation.messages[-2].parts[0].name == "read_conversation"


async def test_a_window_that_is_not_known_is_found_by_the_refusals(tmp_path: Path) -> None:
    model = WindowedModel(WINDOW, write_codes, told=False)
    async with open_host_with(tmp_path, {}, model, compaction=AUTO) as host:
        await tell_codes(host, 1, 5)
        assert model.refused > 0
        assert await ask_code(host, 1) == code_of(1)


async def test_a_resumed_conversation_keeps_its_summary_and_going_back_before_it_sends_all(tmp_path: Path) -> None:
    model = WindowedModel(WINDOW, write_codes)
    async with open_host_with(tmp_path, {}, model, compaction=AUTO) as host:
        last = await tell_codes(host, 1, 2)
        conversation, compaction = host.conversation.id, host.conversation.compaction
    model = WindowedModel(WINDOW, write_codes)
    async with open_host_with(tmp_path, {}, model, compaction=AUTO) as host:
        await host.conversation.open(conversation)
        assert host.conversation.compaction == compaction
        assert await ask_code(host, 1) == code_of(1)
        assert model.refused == 0
        await host.conversation.branches.rewind(4)
        assert host.conversation.compaction is None
        assert await ask_code(host, last) == "I do not know."
        assert len(model.requests[-1].messages) == 5


async def test_a_person_is_asked_before_a_summary_is_made_and_before_it_is_used(tmp_path: Path) -> None:
    def accept(question: OfferCompaction | ReviewCompaction) -> object:
        return True if isinstance(question, OfferCompaction) else UseSummary(question.sentences)

    model = WindowedModel(WINDOW, write_codes)
    frontend = ScriptedFrontend(*[accept] * 20)
    async with open_host_with(tmp_path, {}, model, frontend) as host:
        await tell_codes(host, 1, 2)
        kinds = [question.KIND for question in frontend.asked]
        assert kinds[:4] == ["offer_compaction", "review_compaction"] * 2
        assert host.conversation.compaction is not None
