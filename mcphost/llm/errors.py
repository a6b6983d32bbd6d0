"""What a failed call means to the user: a kind, one sentence, and what to do. Keys never appear.

The status code decides first, then the chain of causes, then the wording; the class names of litellm alone mislead
(measured: a refused connection is an InternalServerError with status 500, a 403 is an APIError or a BadRequestError,
a context overflow is recognised on some roads only).
"""

import re
from itertools import islice
from typing import Any, cast

from mcphost.errors import MalformedMessage, ModelError, ModelErrorKind
from mcphost.llm.answer_limits import AnswerTooLong
from mcphost.llm.providers import no_provider
from mcphost.llm.redirect_guard import Redirected
from mcphost.llm.worker_protocol import Failure
from mcphost.serialization import Struct, loads

_ANY_CASE = re.IGNORECASE

NETWORK = (
    "APIConnectionError",
    "ClientConnectorError",
    "ClientConnectionError",
    "ClientOSError",
    "ConnectError",
    "ConnectTimeout",
    "ServerDisconnectedError",
    "ClientPayloadError",
    "RemoteProtocolError",
    "ReadError",
    "ReadTimeout",
    "APITimeoutError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "gaierror",
    "IncompleteReadError",
    "TransferEncodingError",
    "ClientConnectorDNSError",
)
NOBODY_THERE = ("ConnectionRefusedError", "gaierror", "ClientConnectorDNSError")
CONTEXT = re.compile(
    r"maximum context length|context_length_exceeded|context window|prompt is too long|too many tokens|"
    r"input token count .{0,40}exceeds|exceeds? the (?:model's )?(?:available )?context|input is too long",
    _ANY_CASE,
)
FILTERED = re.compile(r"content_filter|content management policy|content policy|safety (?:system|settings)", _ANY_CASE)
EMPTY_PURSE = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit balance|payment", _ANY_CASE)
NO_PROVIDER = re.compile(r"LLM Provider NOT provided|provider.{0,20} is not (?:supported|valid)", _ANY_CASE)
NOT_TAKEN = re.compile(r"does not support parameters: \[([^\]]{1,200})\]")
NO_KEY = re.compile(r"missing credentials|api_key client option must be set|missing .{0,20}api key", _ANY_CASE)
DEAD_PEER = re.compile(
    r"server disconnected|connection error|cannot connect to host|connection refused|name or service not known|"
    r"all connection attempts failed|incomplete (?:chunked )?(?:read|response)|not enough data",
    _ANY_CASE,
)
REFUSED_PEER = re.compile(r"connect call failed|connection refused|all connection attempts failed", _ANY_CASE)
MAX_TEXT = 600


class Where(Struct, frozen=True, kw_only=True):
    """What the sentences need to name. `secret` is only used to remove it."""

    model: str
    provider: str
    key_name: str = ""
    api_base: str = ""
    secret: str = ""


def explain(failure: Failure, where: Where) -> ModelError:
    """The error to raise for a failed call."""
    if failure.classes and failure.classes[0].endswith(f".{AnswerTooLong.__name__}"):
        return too_long(failure.message)
    if failure.classes and failure.classes[0].endswith(f".{Redirected.__name__}"):
        hint = "Neither the conversation nor the key went there. If it is the right address, set it as api_base."
        return ModelError(failure.message, hint)
    kind = kind_of(failure)
    said = scrub(provider_words(failure.message), where.secret)
    message, hint = SENTENCES[kind](failure, where)
    if said and kind not in ("network", "context", "other") and not _complete(failure.message):
        message = f"{message} It said: {said}{'' if said.endswith(('.', '!', '?')) else '.'}"
    return ModelError(
        message,
        hint,
        model_kind=kind,
        retry_after=failure.retry_after,
        details=scrub(failure.message, where.secret),
    )


def too_long(sentence: str) -> ModelError:
    """The error for an answer that passed a bound."""
    return ModelError(sentence, "What came so far is kept. Ask for less at once.")


def _complete(message: str) -> bool:
    """Whether our sentence says it all: these texts are litellm's own, not a provider's."""
    return bool(NO_PROVIDER.search(message) or NOT_TAKEN.search(message))


def kind_of(failure: Failure) -> ModelErrorKind:
    """Status, then causes, then wording."""
    status, text = failure.status, failure.message
    names = {name.rpartition(".")[2] for name in failure.classes}
    if not names.isdisjoint({"WorkerDied", "LineTooLong", "AnswerTooLong", "Redirected"}):
        return "other"
    if NO_PROVIDER.search(text):
        return "bad_request"
    if NO_KEY.search(text):
        return "auth"
    if status in (0, 500) and (names.intersection(NETWORK) or DEAD_PEER.search(text)):
        return "network"
    if CONTEXT.search(text) and status in (0, 400, 413, 422, 500):
        return "context"
    return _by_status(status, text)


def _by_status(status: int, text: str) -> ModelErrorKind:
    if status in (401, 403):
        return "auth"
    if status in (402, 429):
        return "quota"
    if status == 413:
        return "context"
    if status in (408, 409, 425) or status >= 500:
        return "overloaded"
    if status >= 400:
        return "refused" if FILTERED.search(text) else "bad_request"
    return "other"


def worth_another_try(failure: Failure) -> bool:
    """Whether the same call may well succeed in a moment. Nobody listening, an empty purse or a bad key will not."""
    kind = kind_of(failure)
    names = {name.rpartition(".")[2] for name in failure.classes}
    if kind == "network":
        return not names.intersection(NOBODY_THERE) and not REFUSED_PEER.search(failure.message)
    if kind == "quota":
        return failure.status == 429 and not EMPTY_PURSE.search(failure.message)
    return kind == "overloaded"


def provider_words(message: str) -> str:
    """The human sentence inside litellm's text, which may carry the provider's JSON in a bytes repr."""
    for found in islice(re.finditer(r"\{", message), 20):
        tail = message[found.start() :]
        end = tail.rfind("}")
        try:
            value = loads(tail[: end + 1].replace("\\'", "'").replace('\\\\"', '\\"'))
        except MalformedMessage:
            continue
        text = inner_message(value)
        if text:
            return text[:MAX_TEXT]
        break
    text = re.sub(r"^(?:litellm\.)?(?:(?=[\w.]*?(?:Error|Exception|Exceeded))[\w.]++: *)+", "", message.strip())
    text = re.sub(r"^(?:\w+Exception(?: - |: ))+", "", text)
    return text.splitlines()[0][:MAX_TEXT] if text else ""


def inner_message(value: Any) -> str:
    """`error.message`, `error` or `message`: the three shapes that providers use."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return inner_message(members.get("error", members.get("message")))
    return value.strip() if isinstance(value, str) else ""


def scrub(text: str, secret: str) -> str:
    """Remove the key, and anything that looks like one; providers echo parts of it."""
    if len(secret) > 5:
        text = text.replace(secret, "***")
    return re.sub(r"\b(?:sk|pk|rk|gsk|xai|AIza)[-_]?[A-Za-z0-9_*-]{12,}", "***", text)


def _auth(failure: Failure, where: Where) -> tuple[str, str]:
    if not where.secret:
        own = f"{where.key_name} is not sent to {where.api_base} by itself; to send it: --api-key-env {where.key_name}"
        return (
            f"{where.api_base or where.provider} wants a key for {where.model}.",
            own if where.api_base and where.key_name else "Name the variable that holds it with --api-key-env.",
        )
    key = where.key_name or "the key"
    if failure.status == 403:
        return f"{where.provider} does not allow {where.model} for this key.", f"Check what {key} may use."
    return f"{where.provider} did not accept the key for {where.model}.", f"Check {key}."


def _quota(failure: Failure, where: Where) -> tuple[str, str]:
    if EMPTY_PURSE.search(failure.message) or failure.status == 402:
        return f"The account at {where.provider} has no credit left.", "Check plan and billing there."
    wait = f" in {failure.retry_after:g} s" if failure.retry_after is not None else " later"
    return f"{where.provider} asks for fewer requests.", f"Try again{wait}."


def _context(_failure: Failure, where: Where) -> tuple[str, str]:
    return (
        f"The conversation is longer than {where.model} can take.",
        "Start a new conversation, offer fewer tools, or choose a model with a larger context.",
    )


def _overloaded(failure: Failure, where: Where) -> tuple[str, str]:
    return f"{where.provider} has trouble (status {failure.status}).", "Try again in a moment."


def _refused(_failure: Failure, where: Where) -> tuple[str, str]:
    return f"{where.provider} refuses to answer this.", "Say it differently, or choose another model."


def _network(_failure: Failure, where: Where) -> tuple[str, str]:
    place = where.api_base or where.provider
    return f"No connection to {place}, or it broke off.", "Check the address, the server and the network."


def _bad_request(failure: Failure, where: Where) -> tuple[str, str]:
    if NO_PROVIDER.search(failure.message):
        return no_provider(where.model).message, no_provider(where.model).hint
    if refused := NOT_TAKEN.search(failure.message):
        return (
            f"{where.model} does not take {refused[1].replace(chr(39), '')}; nothing was sent.",
            "Remove it from the model's configuration.",
        )
    if failure.status == 404:
        return f"{where.provider} does not know {where.model}.", "Check the model's name and the base address."
    return f"{where.provider} did not understand the request for {where.model}.", "The log has the details."


def _other(failure: Failure, where: Where) -> tuple[str, str]:
    if any(name.endswith("WorkerDied") for name in failure.classes):
        return "The model worker ended unexpectedly.", "Send again: it is started anew. The log has its output."
    said = scrub(provider_words(failure.message), where.secret)
    return f"The call of {where.model} failed: {said or 'no reason given'}", "The log has the details."


SENTENCES = {
    "auth": _auth,
    "quota": _quota,
    "context": _context,
    "overloaded": _overloaded,
    "refused": _refused,
    "network": _network,
    "bad_request": _bad_request,
    "other": _other,
}
