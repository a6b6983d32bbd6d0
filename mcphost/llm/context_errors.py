"""Sizes that a provider names when it refuses a request as too long for the model."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_MAX_MESSAGE = 4_000
_NUMBER = r"\(?(\d[\d,]{2,9})"
_WINDOW_PATTERNS = tuple(
    re.compile(pattern.replace("N", _NUMBER), re.IGNORECASE)
    for pattern in (
        "maximum context length (?:is|of) N",
        "context length is only N",
        "context window (?:is|of|size of) N",
        "available context size N",
        "maximum number of tokens allowed N",
        "> N(?: tokens)? maximum",
    )
)
_SIZE_PATTERNS = tuple(
    re.compile(pattern.replace("N", _NUMBER), re.IGNORECASE)
    for pattern in (
        "resulted in N tokens",
        "requested (?:about )?N tokens",
        "too long: N tokens",
        "request N tokens",
        "token count (?:of )?N",
    )
)


class RefusedSizes(NamedTuple):
    """The context window and the size of the refused request in tokens; 0 if the provider did not name it."""

    window: int = 0
    size: int = 0


def parse_refused_sizes(message: str) -> RefusedSizes:
    """Return the sizes in a provider's error message, such as OpenAI's, Anthropic's, Gemini's or llama.cpp's."""
    message = message[:_MAX_MESSAGE]
    return RefusedSizes(_find_number(_WINDOW_PATTERNS, message), _find_number(_SIZE_PATTERNS, message))


def _find_number(patterns: Iterable[re.Pattern[str]], message: str) -> int:
    found = next((match for pattern in patterns if (match := pattern.search(message))), None)
    return 0 if found is None else int(found[1].replace(",", ""))
