"""Tests for results in requests to the model: fitted to its window, shortened in batches as they get older."""

import base64
import io
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from mcphost.config.schema import ContextConfig, ModelConfig
from mcphost.errors import ModelError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.builtin_tool_names import READ_RESULT
from mcphost.host.conversation.background_results import make_result_message
from mcphost.host.conversation.result_shortening import fit_results, shorten_old_results
from mcphost.host.event_bus import EventBus
from mcphost.host.events import NoticeEvent
from mcphost.host.host import Host
from mcphost.host.lifetime import Lazy
from mcphost.host.questions.compaction import ReviewCompaction
from mcphost.host.questions.questions import AllowSession
from mcphost.host.tools.builtin_tools import ResultTool
from mcphost.llm.messages import ImagePart, Message, ResourcePart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelEvent, ModelFacts, ModelRequest, StreamFinished, TextDelta, ToolUseReady, Usage
from mcphost.llm.token_estimate import estimate_message_tokens
from mcphost.serialization import encode
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.large_results import ResultStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import Round, ScriptedModel, tool_return, tool_returns
from tests.fakes.windowed_model import size_of
from tests.unit.host.scripted_host import create_peer, open_host_with, tool_definition, tools_result

pytestmark = pytest.mark.anyio
WINDOW = 20_000
ROOM = 9_000  # bytes of one result: 15 % of the window, three bytes a token
TOO_LONG = ModelError("The conversation is longer than it can take.", model_kind="context")


def page(number: int, lines: int = 300) -> str:
    return "".join(f"page {number} line {line}\n" for line in range(lines))


def result_message(*texts: str) -> Message:
    parts = (ToolReturnPart(f"call_{at}", "s__t", text, server="s", tool="t") for at, text in enumerate(texts))
    return Message(role="tool", parts=tuple(parts))


def texts_of(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, ToolReturnPart)]


def call(*uses: tuple[str, dict[str, Any]]) -> Callable[[ModelRequest], list[ModelEvent]]:
    """Return a round of the model that calls tools with unique ids and reports the token count of its request."""

    def play(request: ModelRequest) -> list[ModelEvent]:
        count = sum(len(message.tool_uses) for message in request.messages)
        ready = [ToolUseReady(ToolUsePart(f"call_{count + at}", *use)) for at, use in enumerate(uses)]
        return [*ready, StreamFinished("tool_calls", Usage(input_tokens=size_of(request), output_tokens=20))]

    return play


def read_page(number: int, lines: int = 300) -> Round:
    return call(("peer__read", {"page": number, "lines": lines}))


def say(request: ModelRequest) -> list[ModelEvent]:
    return [TextDelta("ok"), StreamFinished("stop", Usage(input_tokens=size_of(request), output_tokens=5))]


def answer_read(params: dict[str, Any]) -> dict[str, Any]:
    arguments = params["arguments"]
    content: list[dict[str, Any]] = [{"type": "text", "text": page(arguments["page"], arguments["lines"])}]
    if arguments.get("picture"):
        body = io.BytesIO()
        Image.new("RGB", (4, 4)).save(body, "PNG")
        picture = base64.b64encode(body.getvalue()).decode()
        content.append({"type": "image", "mimeType": "image/png", "data": picture})
    return {"content": content}


@asynccontextmanager
async def open_reader(
    folder: Path, *rounds: Round, window: int = WINDOW, frontend: ScriptedFrontend | None = None, **context: Any
) -> AsyncGenerator[Any]:
    """Open a host whose model has a small context window, and whose server has a tool that reads pages."""
    model = ScriptedModel(*rounds, facts=ModelFacts(context_window=window))
    peer = create_peer(tools__list=tools_result(tool_definition("read")), tools__call=answer_read)
    frontend = frontend or ScriptedFrontend(*[AllowSession()] * 3)
    async with open_host_with(folder, peer, model, frontend, context=ContextConfig(**context)) as host:
        yield host, model


async def talk(host: Host, turns: int) -> None:
    for _ in range(turns):
        assert (await host.conversation.send("go on")).outcome == "done"


def notices(host_events: Any) -> list[str]:
    return [event.text for event in host_events.drain() if isinstance(event, NoticeEvent)]


def same_beginning(earlier: ModelRequest, later: ModelRequest) -> bool:
    return encode(later.messages[: len(earlier.messages)]) == encode(earlier.messages)


# -- by the window


def test_a_result_takes_at_most_half_of_the_room_and_says_how_to_read_on() -> None:
    (text,) = texts_of(fit_results(result_message("x" * 50_000), 2 * ROOM))
    shown = text.index("\n[mcphost:")
    assert len(text) <= ROOM + 400
    assert f"the first {shown:,} of 50,000 bytes" in text
    assert f'{READ_RESULT}: {{"result": "call_0", "offset": {shown}}}' in text


def test_results_of_a_round_share_the_room_and_short_ones_stay_whole() -> None:
    texts = texts_of(fit_results(result_message("short", *["語" * 9_000] * 4), 2 * ROOM))
    assert texts[0] == "short"
    assert sum(len(text.encode()) for text in texts) <= 2 * ROOM + 4 * 400
    assert all(len(text.encode()) > 0.9 * 2 * ROOM / 4 for text in texts[1:])


def test_results_that_fit_are_the_same_message() -> None:
    message = result_message("a" * (ROOM - 1), "b" * (ROOM - 1))
    assert fit_results(message, 2 * ROOM) is message
    assert shorten_old_results(result_message("x" * 1_000)).parts[0] == result_message("x" * 1_000).parts[0]


def test_an_old_result_keeps_its_beginning_and_its_end() -> None:
    (text,) = texts_of(shorten_old_results(result_message("語" * 500 + "x" * 5_000 + "the end")))
    assert text.startswith("語" * 200)
    assert "the end\n[mcphost: " in text
    assert len(text.encode()) < 1_300
    left_out = re.search(r"([\d,]+) of 6,507 bytes of this old result are omitted", text)
    assert left_out is not None
    assert int(left_out[1].replace(",", "")) == 6_507 - 798 - 200


def lines_of_numbers(count: int) -> str:
    return "".join(f"secret-number {number}\n" for number in range(1_000, 1_000 + count))


@pytest.mark.parametrize("limit", range(4_000, 4_040))
def test_a_shortened_result_ends_with_a_line_and_is_read_on_from_the_next_one(limit: int) -> None:
    whole = lines_of_numbers(2_000)
    (text,) = texts_of(fit_results(result_message(whole), limit))
    shown, _mark, note = text.partition("\n[mcphost:")
    assert set(shown.splitlines()) < set(whole.splitlines())
    offset = re.search(r'"offset": (\d+)}', note)
    assert offset is not None
    assert f"{shown}\n{whole[int(offset[1]) :]}" == whole
    assert f"the first {int(offset[1]):,} of" in note


def test_a_shortened_result_without_lines_ends_with_a_word() -> None:
    (text,) = texts_of(fit_results(result_message(lines_of_numbers(2_000).replace("\n", " ")), 4_003))
    assert re.search(r"(?:secret-number|\d{4}) \n\[mcphost:", text)


@pytest.mark.parametrize("extra", range(20))
def test_an_old_result_keeps_whole_lines(extra: int) -> None:
    whole = f"{'-' * extra}\n{lines_of_numbers(500)}{'-' * extra}"
    (text,) = texts_of(shorten_old_results(result_message(whole)))
    head, _mark, rest = text.partition("\n[…]\n")
    tail, _mark, note = rest.rpartition("\n[mcphost: ")
    assert whole.startswith(f"{head}\n")
    assert whole.endswith(f"\n{tail}")
    size = len(whole.encode())
    assert note.startswith(f"{size - len(head) - 1 - len(tail):,} of {size:,} bytes")


async def test_a_compaction_counts_results_as_they_are_sent(tmp_path: Path) -> None:
    summary = [TextDelta("It was read. [1-4]"), StreamFinished("stop", Usage(input_tokens=9, output_tokens=5))]
    frontend = ScriptedFrontend(AllowSession(), None)
    rounds = (read_page(1, 3_000), *[say] * 5, summary)
    async with open_reader(tmp_path, *rounds, frontend=frontend) as (host, model):
        await talk(host, 5)
        tokens = sum(map(estimate_message_tokens, model.requests[-1].messages))
        assert not await host.conversation.compact()
        (review,) = [one for one in frontend.asked if isinstance(one, ReviewCompaction)]
        assert review.tokens_before < tokens < 10_000


async def test_a_long_result_is_stored_whole_and_sent_in_part(tmp_path: Path) -> None:
    async with open_reader(tmp_path, read_page(1, 3_000), say) as (host, model):
        await talk(host, 1)
        stored = texts_of(host.conversation.messages[2])

    assert stored == [page(1, 3_000)]
    assert len(tool_return(model).text) <= ROOM + 400
    assert READ_RESULT not in [spec.name for spec in model.requests[0].tools]
    assert READ_RESULT in [spec.name for spec in model.requests[1].tools]


async def test_a_larger_window_has_room_for_the_same_result(tmp_path: Path) -> None:
    async with open_reader(tmp_path, read_page(1, 3_000), say, say) as (host, model):
        await talk(host, 1)
        model.facts = ModelFacts(context_window=1_000_000)
        host.model_selection.select(ModelConfig(name="larger"))
        await talk(host, 1)

    (sent,) = [text for message in model.requests[2].messages for text in texts_of(message)]
    assert sent == page(1, 3_000)


# -- once they are old


async def test_old_results_are_shortened_in_batches_and_the_beginning_stays_between_them(tmp_path: Path) -> None:
    rounds = [one for number in range(20) for one in (read_page(number), say)]
    async with open_reader(tmp_path, *rounds) as (host, model):
        feed = host.events.subscribe()
        await talk(host, 20)
        stored = [text for message in host.conversation.messages for text in texts_of(message)]
        told = notices(feed)

    assert stored == [page(number) for number in range(20)]
    assert max(map(size_of, model.requests)) < 0.75 * WINDOW
    changes = sum(not same_beginning(*pair) for pair in pairwise(model.requests))
    assert 2 <= changes <= 5
    assert len(told) == changes
    assert all("older results in short form" in text for text in told)
    assert tool_return(model).text == page(19)


async def test_the_model_reads_an_old_result_whole_in_pieces(tmp_path: Path) -> None:
    pieces: list[str] = []

    def read_on(request: ModelRequest) -> list[ModelEvent]:
        last = request.messages[-1]
        text = texts_of(last)[0] if last.role == "tool" else ""
        offset = 0
        if text.startswith("[mcphost: bytes"):
            head, _, body = text.partition("\n")
            pieces.append(body)
            found = re.search(r"continues at offset (\d+)", head)
            if found is None:
                return say(request)
            offset = int(found[1])
        return call((READ_RESULT, {"result": "call_0", "offset": offset, "limit": 4_000}))(request)

    rounds = [one for number in range(8) for one in (read_page(number, 600), say)]
    async with open_reader(tmp_path, *rounds, *[read_on] * 4) as (host, model):
        await talk(host, 9)

    first = next(text for message in model.requests[-1].messages for text in texts_of(message))
    assert f'{READ_RESULT}: {{"result": "call_0", "offset": 0}}' in first
    assert len(first) < 1_300
    assert len(pieces) == 3
    assert "".join(pieces) == page(0, 600)


async def test_a_piece_is_never_larger_than_the_window_has_room_for(tmp_path: Path) -> None:
    whole = call((READ_RESULT, {"result": "call_0", "limit": 10**9}))
    async with open_reader(tmp_path, read_page(1, 3_000), whole, say) as (host, model):
        await talk(host, 1)

    head, _, body = tool_return(model).text.partition("\n")
    assert len(body) == ROOM
    assert page(1, 3_000).startswith(body)
    assert f"continues at offset {len(body)}" in head


async def test_pictures_of_old_results_are_left_out_and_come_back_with_the_result(tmp_path: Path) -> None:
    first = call(("peer__read", {"page": 0, "lines": 1, "picture": True}))
    again = call((READ_RESULT, {"result": "call_0"}))
    rounds = [one for number in range(1, 9) for one in (read_page(number, 500), say)]
    async with open_reader(tmp_path, first, say, *rounds, again, say) as (host, model):
        await talk(host, 10)

    part = next(part for part in model.requests[-1].messages[2].parts if isinstance(part, ToolReturnPart))
    assert part.images == ()
    assert "1 of its images of this old result are omitted" in part.text
    assert [type(image) for image in tool_return(model).images] == [ImagePart]


async def test_after_going_back_the_last_results_are_whole(tmp_path: Path) -> None:
    rounds = [one for number in range(8) for one in (read_page(number, 500), say)]
    async with open_reader(tmp_path, *rounds, say) as (host, model):
        await talk(host, 8)
        assert len(texts_of(model.requests[-1].messages[2])[0]) < 1_300
        await host.conversation.branches.rewind(4)
        await talk(host, 1)
        sent = [text for message in model.requests[-1].messages for text in texts_of(message)]

    assert sent == [page(0, 500)]


async def test_another_conversation_begins_without_old_results(tmp_path: Path) -> None:
    rounds = [one for number in range(8) for one in (read_page(number, 500), say)]
    async with open_reader(tmp_path, *rounds, read_page(1, 500), say, say) as (host, model):
        await talk(host, 8)
        host.conversation.open_new()
        await talk(host, 2)

    (sent,) = [text for message in model.requests[-1].messages for text in texts_of(message)]
    assert sent == page(1, 500)
    assert READ_RESULT not in [spec.name for spec in model.requests[-1].tools]


async def test_a_refused_request_is_sent_again_with_short_results_before_a_summary_is_made(tmp_path: Path) -> None:
    rounds = [read_page(0), say, read_page(1), [TOO_LONG], say]
    async with open_reader(tmp_path, *rounds, window=0) as (host, model):
        await talk(host, 2)
        assert host.conversation.compaction is None

    before, after = model.requests[-2:]
    assert size_of(after) < size_of(before)
    assert tool_return(model).text == page(1)
    assert [len(tool_returns(model))] == [1]


async def test_a_conversation_of_messages_alone_is_not_announced_as_shortened(tmp_path: Path) -> None:
    async with open_reader(tmp_path, *[say] * 6) as (host, model):
        feed = host.events.subscribe()
        for _ in range(6):
            await host.conversation.send("word " * 2_500)
        assert not [text for text in notices(feed) if "shorten" in text]

    assert size_of(model.requests[-1]) > 0.8 * WINDOW


# -- results that come late


async def test_a_long_result_from_the_background_is_cut_and_read_on_like_any_other() -> None:
    part = ToolReturnPart("call_0", "s__t", page(0, 3_000), server="s", tool="t", outcome="ok", kept="/r/0f.txt")
    message = make_result_message(part)
    (late,) = fit_results(message, 2 * ROOM).results
    assert isinstance(late, ResourcePart)
    assert (late.use_id, late.kept) == ("call_0", "/r/0f.txt")
    assert len(late.text) <= ROOM + 400
    end = len(late.text.partition("\n[mcphost:")[0]) + 1
    assert f'{READ_RESULT}: {{"result": "call_0", "offset": {end}}}' in late.text
    (old,) = shorten_old_results(message).results
    assert "this old result" in old.text
    assert len(old.text) < 1_300


async def test_the_note_that_a_result_comes_later_is_not_the_result(tmp_path: Path) -> None:
    placeholder = ToolReturnPart("call_0", "s__t", "It goes on.", server="", tool="t", outcome="background")
    final = make_result_message(ToolReturnPart("call_0", "s__t", page(0), server="", tool="t", outcome="ok"))
    database = Database(tmp_path / "store.db")
    events = EventBus()
    active = ActiveConversation(Lazy(lambda: ConversationStore(database)), events)
    await active.current.append(Message(role="tool", parts=(placeholder,)))
    await active.current.append(final)
    reviewer: Any = SimpleNamespace(is_required=bool)
    room: Any = SimpleNamespace(result_bytes=ROOM)
    tool = ResultTool(ResultStore(None), active, events, reviewer, room)
    outcome = await tool.run(ToolUsePart("call_1", READ_RESULT, {"result": "call_0"}), "")
    await database.close()

    assert outcome.part.text.endswith(page(0))
