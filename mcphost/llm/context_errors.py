"""Parser for the sizes in a provider's error message for a request that is too long for the model."""

import re
from typing import NamedTuple

_MAX_MESSAGE = 4_000
_WINDOW_PATTERN = re.compile(
    r"(?:maximum context length (?:is|of)|context length is only|context window (?:is|of|size of)|"
    r"available context size|maximum number of tokens allowed) \(?(\d[\d,]{2,9})",
    re.IGNORECASE,
)
_MAXIMUM_PATTERN = re.compile(r"> (\d[\d,]{2,9})(?: tokens)? maximum", re.IGNORECASE)
_SIZE_PATTERN = re.compile(
    r"(?:resulted in|requested|requested about|too long:|request|token count|token count of) "
    r"\(?(\d[\d,]{2,9})(?: tokens|\))",
    re.IGNORECASE,
)


class RefusedSizes(NamedTuple):
    """The sizes of the context window and of the rejected request, in tokens.

    A size is 0 if the provider's message does not contain it.
    """

    window: int = 0
    size: int = 0


def parse_refused_sizes(message: str) -> RefusedSizes:
    """Return the sizes in a provider's error message, such as OpenAI's, Anthropic's, Gemini's or llama.cpp's."""
    message = message[:_MAX_MESSAGE]
    window = _WINDOW_PATTERN.search(message) or _MAXIMUM_PATTERN.search(message)
    return RefusedSizes(_parse_number(window), _parse_number(_SIZE_PATTERN.search(message)))


def _parse_number(found: re.Match[str] | None) -> int:
    return 0 if found is None else int(found[1].replace(",", ""))
