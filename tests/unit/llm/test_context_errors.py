"""Tests for the sizes in providers' messages about requests that are too long."""

import pytest

from mcphost.llm.errors import parse_refused_sizes


@pytest.mark.parametrize(
    ("message", "sizes"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            (8192, 9000),
        ),
        (
            "This model's maximum context length is 8,192 tokens. However, you requested 9,000 tokens (7000 in the "
            "messages, 2000 in the completion).",
            (8192, 9000),
        ),
        ("prompt is too long: 208310 tokens > 200000 maximum", (200_000, 208_310)),
        ("the request exceeds the available context size (8192 tokens)", (8192, 0)),
        ("input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", (1_048_576, 1_200_000)),
        ("Too long.", (0, 0)),
        ("x" * 5_000 + "maximum context length is 8192", (0, 0)),
        ("maximum context length is 99999999999999999999", (9_999_999_999, 0)),
    ],
)
def test_the_sizes_in_a_message_are_found(message: str, sizes: tuple[int, int]) -> None:
    assert parse_refused_sizes(message) == sizes
