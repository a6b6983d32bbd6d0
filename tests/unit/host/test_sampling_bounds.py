"""Tests for each limit on sampling: requests, tokens, depth, size, and the ids and images that are passed on."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.client.session import ServerRequestContext
from mcphost.config.schema import SamplingConfig, SamplingLimits
from mcphost.host.events import NoticeEvent
from mcphost.host.questions.questions import ApproveUnchanged, Deny, EditedRequest
from mcphost.host.server_requests import sampling
from mcphost.host.server_requests.sampling import LONG_REQUEST, MAX_ANSWER, MAX_REQUEST
from mcphost.host.server_requests.sampling_conversion import (
    PROVIDER_ID_KEY,
    issued_ids,
    parse_sampling_request,
    reply_blocks,
)
from mcphost.host.server_requests.sampling_models import MAX_CONVERSATION, SamplingModels
from mcphost.host.server_requests.sampling_policy import SamplingBudget, SamplingNesting
from mcphost.llm.messages import ImagePart, Message, TextPart, ToolUsePart
from mcphost.llm.model import TextDelta
from mcphost.llm.token_estimate import bound_tokens
from mcphost.protocol.sampling import parse_sampling_messages
from mcphost.protocol.server_requests import CreateMessage
from mcphost.serialization import Raw, encode
from mcphost.threads import MAX_PARSING_THREADS
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round
from tests.unit.host.asking_server import AskingServer, open_asking_host, sampling_request

pytestmark = pytest.mark.anyio


@pytest.fixture
def frozen_time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stop the clock, and return a list whose only element is the time to report."""
    at = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    return at


def test_requests_are_counted_to_the_last_one_that_is_allowed(frozen_time: list[float]) -> None:
    by_minute = SamplingBudget(SamplingConfig(limits=SamplingLimits(requests_per_minute=2, requests_per_session=3)))
    assert [bool(by_minute.count_request()) for _ in range(3)] == [False, False, True]
    frozen_time[0] += 59.9
    assert by_minute.count_request()
    frozen_time[0] += 0.1
    assert [bool(by_minute.count_request()) for _ in range(2)] == [False, True]
    frozen_time[0] += 60
    assert "run" in by_minute.count_request()


@pytest.mark.parametrize(("minute", "session"), [(100, 1_000), (1_000, 100)])
def test_tokens_are_counted_to_the_last_one_and_the_narrower_limit_counts(
    frozen_time: list[float], minute: int, session: int
) -> None:
    budget = SamplingBudget(SamplingConfig(limits=SamplingLimits(tokens_per_minute=minute, tokens_per_session=session)))
    assert budget.available_tokens(40) == (60, "")
    assert budget.available_tokens(99) == (1, "")
    assert budget.available_tokens(100)[0] == 0
    budget.spend(60)
    assert budget.available_tokens(30) == (10, "")
    assert "at most 100 tokens" in budget.available_tokens(40)[1]
    frozen_time[0] += 59.9
    assert budget.available_tokens(40)[1]
    frozen_time[0] += 0.1
    assert budget.available_tokens(40) == ((60, "") if minute == 100 else (0, budget.available_tokens(40)[1]))
    assert bool(budget.available_tokens(40)[1]) == (session == 100)


def test_input_tokens_are_estimated_rather_too_high() -> None:
    assert bound_tokens([b"x" * 300, b"y" * 30]) == 110


def test_the_depth_is_that_of_the_calls_that_are_open_and_of_no_others() -> None:
    nesting = SamplingNesting()
    call, other, untied = (
        ServerRequestContext(call_number=1),
        ServerRequestContext(call_number=2),
        ServerRequestContext(),
    )
    assert nesting.depth(call, frozenset()) == 1
    nesting.record_tool_uses(call, 1, frozenset("a"))
    assert nesting.depth(call, frozenset()) == 2
    nesting.record_tool_uses(call, 2, frozenset("b"))
    assert nesting.depth(call, frozenset()) == 3
    assert nesting.depth(other, frozenset()) == nesting.depth(untied, frozenset()) == 1
    assert nesting.depth(call, frozenset("b")) == 2  # it continues
    assert nesting.depth(call, frozenset()) == 2  # and has ended
    nesting.record_tool_uses(call, 2, frozenset("c"))
    assert nesting.depth(call, frozenset("ac")) == 2
    assert nesting.depth(call, frozenset()) == 1


def parse_request(*said: dict[str, Any], issued: tuple[str, ...] = ()) -> Any:
    raws = tuple(Raw(encode(text)) for text in said)
    ask = CreateMessage(messages=raws, max_tokens=10)
    return parse_sampling_request(ask, parse_sampling_messages(raws), "auto", issued).request.messages


def test_only_images_for_the_user_are_shown() -> None:
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    mine, models = parse_request({"role": "user", "content": picture}, {"role": "assistant", "content": picture})
    assert [type(part) for part in (*mine.parts, *models.parts)] == [ImagePart, TextPart]


@pytest.mark.parametrize(("issued", "kept"), [((), ""), (("toolu_2",), ""), (("toolu_1", "toolu_2"), "toolu_1")])
def test_a_provider_id_is_accepted_only_if_the_server_was_given_it(issued: tuple[str, ...], kept: str) -> None:
    use = {"type": "tool_use", "id": "u", "name": "t", "input": {}, "_meta": {PROVIDER_ID_KEY: "toolu_1"}}
    back = {"type": "tool_result", "toolUseId": "u", "content": []}
    said, _ = parse_request({"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}, issued=issued)
    assert said.parts[0].provider_id == kept


@pytest.mark.parametrize(("size", "given"), [(512, True), (513, False)])
def test_an_endless_id_of_a_provider_is_not_given_to_the_server(size: int, given: bool) -> None:
    asks = parse_sampling_request(CreateMessage(messages=(), max_tokens=10), (), "auto")
    blocks = reply_blocks("", (ToolUsePart("call_1", "t", {}, provider_id="x" * size),), asks)
    assert ["_meta" in block for block in blocks] == [given]
    assert list(issued_ids(blocks)) == ["x" * size] * given


def test_the_context_offered_is_the_newest_text_of_the_conversation() -> None:
    said = [Message(role="user", parts=(TextPart("mine"),)), Message(role="tool", parts=(TextPart("a result"),)),
            Message(role="assistant", parts=(TextPart("its own"),))]  # fmt: skip
    models = SamplingModels(SimpleNamespace(), SamplingConfig(), None, SimpleNamespace(messages=said))  # type: ignore[arg-type]
    assert models.conversation_text() == "user: mine\n\nassistant: its own"
    said.append(Message(role="user", parts=(TextPart("x" * MAX_CONVERSATION + "the end"),)))
    assert len(models.conversation_text()) == MAX_CONVERSATION
    assert models.conversation_text().endswith("the end")


async def sample(folder: Path, model: ScriptedModel, *answers: Any, **more: Any) -> str:
    peer = AskingServer("2025-11-25", {"a": sampling_request(**more)})
    async with open_asking_host(folder, peer, ScriptedFrontend(*answers), model) as host:
        return (await host.tools.call("peer", "ask", {})).text


async def test_an_endless_answer_and_an_unbounded_request_are_abandoned(tmp_path: Path) -> None:
    endless = ScriptedModel([TextDelta("x" * 100_000) for _ in range(MAX_ANSWER // 100_000 + 1)])
    assert "could not answer" in await sample(tmp_path, endless, ApproveUnchanged(), ApproveUnchanged())
    (tmp_path / "b").mkdir()
    front_never_asked = ScriptedModel()
    assert "larger than" in await sample(tmp_path / "b", front_never_asked, systemPrompt="x" * (MAX_REQUEST + 1))
    assert front_never_asked.requests == []


async def test_the_model_may_write_text_but_no_more_than_was_asked_whatever_the_user_writes(
    tmp_path: Path,
) -> None:
    for number, (most, given) in enumerate(((0, 1), (-5, 1), (7, 7), (100_000, 100))):
        model, folder = ScriptedModel(text_round("Paris")), tmp_path / str(number)
        folder.mkdir()
        await sample(folder, model, EditedRequest(max_tokens=most), ApproveUnchanged())
        assert model.requests[0].max_output_tokens == given


@pytest.mark.parametrize("is_long", [True, False])
async def test_a_long_request_is_parsed_off_the_event_loop_and_a_short_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    threads = list[int]()

    def parse(messages: tuple[Raw, ...]) -> Any:
        threads.append(threading.get_ident())
        return parse_sampling_messages(messages)

    monkeypatch.setattr(sampling, "parse_sampling_messages", parse)
    text = "x" * (LONG_REQUEST if is_long else 10)
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    model = ScriptedModel(text_round("Paris"))
    assert "Paris" in await sample(tmp_path, model, ApproveUnchanged(), ApproveUnchanged(), messages=messages)
    assert len(threads) == 2, "the request, and again what the user approved"
    assert (threading.get_ident() in threads) is not is_long


@pytest.mark.req("life.init.caps.sampling")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("kind", ["review_sampling", "review_reply"])
async def test_sampling_is_not_declared_if_only_one_of_the_two_reviews_can_be_shown(
    kind: str, revision: str, tmp_path: Path
) -> None:
    class HalfFrontend(ScriptedFrontend):
        kinds = ScriptedFrontend.kinds - {kind}

    peer = AskingServer(revision)
    async with open_asking_host(tmp_path, peer, HalfFrontend()):
        assert "sampling" not in peer.declared
        assert "roots" in peer.declared


async def test_a_flood_of_refused_requests_is_reported_once(tmp_path: Path) -> None:
    asks = {str(number): sampling_request() for number in range(40)}
    frontend = ScriptedFrontend(*[Deny()] * 40)
    config = SamplingConfig(limits=SamplingLimits(requests_per_minute=1))
    async with open_asking_host(
        tmp_path, AskingServer("2025-11-25", asks), frontend, ScriptedModel(), sampling=config
    ) as host:
        feed = host.events.subscribe()
        await host.tools.call("peer", "ask", {})
        (notice,) = [event for event in feed.drain() if isinstance(event, NoticeEvent)]
        assert notice.text.startswith("Sampling limit of peer reached: ")


async def test_long_requests_of_many_servers_are_parsed_in_a_few_threads_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = list[int](), threading.Event()

    def parse(messages: tuple[Raw, ...]) -> Any:
        started.append(len(messages))
        release.wait(10)
        return parse_sampling_messages(messages)

    monkeypatch.setattr(sampling, "parse_sampling_messages", parse)
    peers = {f"p{number}": AskingServer("2025-11-25") for number in range(2 * MAX_PARSING_THREADS)}
    message = {"role": "user", "content": {"type": "text", "text": "x" * LONG_REQUEST}}
    frontend = ScriptedFrontend(*[Deny()] * len(peers))
    async with open_asking_host(tmp_path, peers, frontend, ScriptedModel()):
        try:
            for peer in peers.values():
                peer.ask("r1", *sampling_request(message))
            while len(started) < MAX_PARSING_THREADS:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            for _ in range(1_000):  # further threads would start now
                await anyio.lowlevel.checkpoint()
            assert len(started) == MAX_PARSING_THREADS
        finally:
            release.set()
        for peer in peers.values():
            await peer.until(1)
    assert len(started) == len(peers), "the others are parsed afterwards"
