"""Streams that end before their answer is complete, and answers that take too long, from a provider on the wire."""

import time

import pytest

from mcphost.llm.model import Retrying
from mcphost.llm.process import WorkerProcess
from tests.peers.models.asking import STREAMING, ask, model_on
from tests.peers.models.raw import Provider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
TELLING = [road for road in STREAMING if road != "gemini"]  # litellm 1.105 keeps no reason there


@pytest.mark.parametrize("ending", ["polite", "middle"])
@pytest.mark.parametrize("road", TELLING)
async def test_a_stream_without_a_finish_reason_is_no_complete_answer(
    road: str, ending: str, worker: WorkerProcess, provider: tuple[Provider, str]
) -> None:
    ours, base = provider
    ours.words, ours.ending, ours.pause = 3, ending, 0
    heard = await ask(model_on(road, base, worker), "hi")
    assert heard.text == "w0 w1 w2 "
    assert heard.error is not None or heard.finished.reason == "unknown"


@pytest.mark.parametrize("road", STREAMING)
async def test_a_stream_without_choices_is_no_empty_answer(
    road: str, worker: WorkerProcess, provider: tuple[Provider, str]
) -> None:
    ours, base = provider
    ours.words, ours.ending = 0, "no choices"
    heard = await ask(model_on(road, base, worker), "hi")
    assert heard.text == ""
    assert heard.error is not None or heard.finished.reason == "unknown"


async def test_an_answer_ends_at_its_deadline_whatever_still_comes(
    worker: WorkerProcess, provider: tuple[Provider, str]
) -> None:
    _ours, base = provider
    began = time.monotonic()
    heard = await ask(model_on("openai", base, worker, total=0.5), "hi")
    assert time.monotonic() - began < 20  # a thousand words take 50 s
    assert heard.text.startswith("w0 ")
    assert heard.error is not None
    assert "did not finish its answer within 0.5 s" in heard.error.message


async def test_no_other_try_is_begun_that_could_not_end_in_time(
    worker: WorkerProcess, provider: tuple[Provider, str]
) -> None:
    ours, base = provider
    ours.status, ours.headers = 503, b"retry-after: 20\r\n"
    heard = await ask(model_on("openai", base, worker, total=10), "hi")
    assert heard.error is not None
    assert (len(ours.bodies), heard.of(Retrying)) == (1, [])
