"""Tests for the token counts of a stream's summary, which are computed from what the provider reports."""

from types import SimpleNamespace
from typing import Any

import pytest

from mcphost.llm.stream_events import StreamSummary


def usage(sent: Any, received: Any, cached: Any = 0, written: Any = 0) -> SimpleNamespace:
    details = SimpleNamespace(cached_tokens=cached, cache_creation_tokens=written)
    return SimpleNamespace(prompt_tokens=sent, completion_tokens=received, prompt_tokens_details=details)


@pytest.mark.parametrize(
    ("reported", "counts"),
    [
        (usage(10, 3, 4, 2), (10, 3, 4, 2)),
        (usage(10, 3, 99_999_999, 5), (10, 3, 10, 0)),
        (usage(10, 3, 4, 99_999_999), (10, 3, 4, 6)),
        (usage(10, 3, -4, float("nan")), (10, 3, 0, 0)),
        (usage("12", None, 5), (0, 0, 0, 0)),
    ],
)
def test_a_cache_never_holds_more_tokens_than_the_input(reported: Any, counts: tuple[int, ...]) -> None:
    summary = StreamSummary(1, "chat")
    summary.set_usage(reported)
    stored = (summary.input_tokens, summary.output_tokens, summary.cached_tokens, summary.cache_write_tokens)
    assert stored == counts
