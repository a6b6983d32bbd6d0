"""Conversion of exceptions raised by litellm to plain data."""

from typing import Any

from mcphost.llm.worker_protocol import CallFailure

MAX_MESSAGE_LENGTH = 8_000
MAX_CAUSES = 12


def make_failure(error: BaseException) -> CallFailure:
    """Return the status, the class names of the chain of causes, the message and the seconds to wait."""
    chain = exception_chain(error)
    status = 0
    wait: float | None = None
    for link in chain:
        status = status or parse_status(getattr(link, "status_code", None))
        if wait is None:
            wait = retry_after(link)
    return CallFailure(
        status=status,
        class_names=tuple(f"{type(link).__module__}.{type(link).__qualname__}" for link in chain),
        message=best_message(chain)[:MAX_MESSAGE_LENGTH],
        retry_after=wait,
    )


def exception_chain(error: BaseException) -> list[BaseException]:
    """Return the error, its causes and contexts, and litellm's `original_exception`, each once."""
    chain: list[BaseException] = []
    pending: list[Any] = [error]
    while pending and len(chain) < MAX_CAUSES:
        link = pending.pop(0)
        if not isinstance(link, BaseException) or link in chain:
            continue
        chain.append(link)
        pending += [getattr(link, "original_exception", None), link.__cause__, link.__context__]
    return chain


def best_message(chain: list[BaseException]) -> str:
    """Return the first message that is not from litellm's fallback wrapper, which hides the provider's."""
    for link in chain:
        if type(link).__name__ != "MidStreamFallbackError" and str(link):
            return str(link)
    return str(chain[0]) or type(chain[0]).__name__


def retry_after(error: BaseException) -> float | None:
    """Return the seconds of a Retry-After header, wherever litellm stores the headers."""
    places: list[Any] = [
        getattr(getattr(error, "response", None), "headers", None),
        getattr(error, "litellm_response_headers", None),
        getattr(error, "headers", None),
    ]
    for headers in places:
        for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
            try:
                seconds = float(headers[name]) / divisor
            except (KeyError, TypeError, ValueError, IndexError):
                continue
            if 0 <= seconds < 86_400:
                return seconds
    return None


def parse_status(value: Any) -> int:
    """Return a status code, or 0."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0
