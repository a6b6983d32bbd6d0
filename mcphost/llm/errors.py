"""Classification of failed model requests, and error messages for the user that contain no API keys.

The status code, the exception chain and the wording are considered together, because litellm's class names alone are
misleading: in tests, a refused connection was an InternalServerError with status 500, a 403 was an APIError or a
BadRequestError, and a context overflow was recognized only for some providers.
"""

import re
from itertools import islice
from typing import Any, NamedTuple, cast

from mcphost.errors import MalformedMessage, ModelError, ModelErrorKind
from mcphost.llm.answer_limits import AnswerTooLong, CompressionRefused, ProxyUnusable, RedirectRefused
from mcphost.llm.providers import LOCAL_PROVIDERS, unknown_provider_error
from mcphost.llm.worker_protocol import STREAMED_ERROR, CallFailure
from mcphost.serialization import Struct, loads

_ANY_CASE = re.IGNORECASE
_MORE_TIME = "Allow more time with --timeout."

NETWORK_ERRORS = (
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
_OWN_ERRORS = frozenset(
    {"WorkerDied", "LineTooLong", "AnswerTooLong", "CompressionRefused", "ProxyUnusable", "RedirectRefused"}
)
WRAPPER_ERROR = "APIConnectionError"
"""litellm's exception for a lost connection, and for everything that it cannot classify."""
DEFECTS = frozenset(
    {
        "AttributeError",
        "KeyError",
        "IndexError",
        "TypeError",
        "NotImplementedError",
        "RecursionError",
        "ValidationError",
    }
)
"""Exceptions that litellm raises itself, such as for a response that it does not understand."""
UNREADABLE_PATTERN = re.compile(
    r"object has no attribute|object is not (?:subscriptable|iterable)|is not iterable|unsupported operand type|"
    r"unhashable type|indices must be|validation errors? for "
)
"""Texts of Python's exceptions for a value of another type than expected, and of pydantic's."""
CERTIFICATE_ERRORS = frozenset({"SSLCertVerificationError", "ClientConnectorCertificateError"})
TLS_ERRORS = frozenset({"SSLError", "ClientConnectorSSLError", "ClientSSLError"})
UNREACHABLE_ERRORS = (
    "ConnectionRefusedError",
    "gaierror",
    "ClientConnectorDNSError",
    *sorted(CERTIFICATE_ERRORS | TLS_ERRORS),
)
CLOSED_ERRORS = frozenset(
    {
        "ServerDisconnectedError",
        "ClientPayloadError",
        "RemoteProtocolError",
        "ReadError",
        "ConnectionResetError",
        "IncompleteReadError",
        "TransferEncodingError",
        "ContentLengthError",
    }
)
"""Exceptions for a connection that was opened, and then closed before the answer was complete."""
HTTP_ERRORS = frozenset(
    f"aiohttp.http_exceptions.{name}"
    for name in ("BadStatusLine", "BadHttpMessage", "BadHttpMethod", "InvalidHeader", "LineTooLong")
)
"""Exceptions for an answer that is not valid HTTP."""
JSON_ERRORS = frozenset({"JSONDecodeError", "UnicodeDecodeError"})
"""Exceptions for an answer that is not valid JSON; litellm reports them as a lost connection."""
CONTEXT_PATTERN = re.compile(
    r"maximum context length|context length is only|context_length_exceeded|context window|prompt is too long|"
    r"too many tokens|input token count .{0,40}exceeds|exceeds? the (?:model's )?(?:available )?context|"
    r"input is too long",
    _ANY_CASE,
)
CONTENT_FILTER_PATTERN = re.compile(
    r"content_filter|content management policy|content policy|safety (?:system|settings)", _ANY_CASE
)
NO_CREDIT_PATTERN = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|credit balance|payment", _ANY_CASE
)
LOW_BALANCE_PATTERN = re.compile(r"credit balance is too low", _ANY_CASE)
"""Message with which Anthropic rejects a request (status 400) because the account has no credit."""
UNKNOWN_PROVIDER_PATTERN = re.compile(
    r"LLM Provider NOT provided|provider.{0,20} is not (?:supported|valid)", _ANY_CASE
)
UNSUPPORTED_PARAMETERS_PATTERN = re.compile(r"does not support parameters: \[([^\]]{1,200})\]")
NO_TOOLS_PATTERN = re.compile(
    r"does(?: not|n't) support (?:tools?|function)\b|does not support parameters: \[[^\]]{0,200}'tools'|"
    r"no endpoints found that support tool use|tool choice requires|tools param requires|"
    r"(?:tools?|(?:tool|function)[ -]call(?:s|ing)|tool use)`? (?:is|are) "
    r"(?:not (?:supported|enabled|available)|disabled)",
    _ANY_CASE,
)
"""Messages with which Ollama, vLLM, llama.cpp, OpenRouter, Groq and litellm report missing tool support."""

TOO_MANY_TOOLS_PATTERN = re.compile(
    r"tools'?: (?:array|list) (?:is )?too long|too many (?:tools|functions)|"
    r"(?:at most|maximum (?:number )?of|exceeds? the (?:limit|maximum)(?: number)? of) (?:\d+ )?(?:tools|functions)\b|"
    r"failed to parse grammar",
    _ANY_CASE,
)
"""Messages with which OpenAI, Mistral and llama.cpp reject a request because its tools are too many or too large."""
MISSING_KEY_PATTERN = re.compile(
    r"missing credentials|api_key client option must be set|missing .{0,20}api key", _ANY_CASE
)
CONNECTION_ERROR_PATTERN = re.compile(
    r"server disconnected|connection error|cannot connect to host|connection refused|name or service not known|"
    r"all connection attempts failed|incomplete (?:chunked )?(?:read|response)|not enough data",
    _ANY_CASE,
)
CONNECTION_REFUSED_PATTERN = re.compile(
    r"connect call failed|connection refused|all connection attempts failed", _ANY_CASE
)
MAX_PROVIDER_MESSAGE = 600
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


class ErrorContext(Struct, frozen=True, kw_only=True):
    """Data for error messages: the names to use in them, and the API key (`secret`) to remove from them.

    `is_key_set` is True if the environment variable `key_name` is set, even if its value was not sent.
    """

    model: str
    provider: str
    key_name: str = ""
    api_base: str = ""
    secret: str = ""
    is_key_set: bool = False

    @property
    def place(self) -> str:
        """The destination of the request, for error messages: the configured base URL or the provider's name."""
        return self.api_base or self.provider


def make_model_error(failure: CallFailure, context: ErrorContext) -> ModelError:
    """Return the error to raise for a failed request, with a message and a hint for the user.

    The API key in *context* never appears in the message.
    """
    match failure.class_names[0].rpartition(".")[2] if failure.class_names else "":
        case AnswerTooLong.__name__:
            return answer_too_long_error(failure.message)
        case RedirectRefused.__name__:
            hint = "Neither the conversation nor the key was sent there. If the address is right, set it as api_base."
            return ModelError(failure.message, hint)
        case CompressionRefused.__name__:
            return ModelError(failure.message, f"{context.place} must answer without content-encoding, as requested.")
        case ProxyUnusable.__name__:
            return ModelError(failure.message, model_kind="network")
        case _:
            pass
    kind = classify_failure(failure)
    reason = explain_failure(failure, context.secret)
    message, hint = DESCRIPTIONS[kind](failure, context)
    if reason and kind not in ("network", "context", "other") and not _is_complete(failure.message):
        message = f"{message} The provider said: {reason}{'' if reason.endswith(('.', '!', '?')) else '.'}"
    return ModelError(
        message,
        hint,
        model_kind=kind,
        retry_after=failure.retry_after,
        details=remove_keys(failure.message, context.secret),
    )


def answer_too_long_error(sentence: str) -> ModelError:
    """Return the error for an answer that exceeds a limit; *sentence* is the message for the user."""
    return ModelError(sentence, "The answer so far is kept. Ask for less at once.")


def idle_error(place: str, seconds: float, *, started: bool) -> ModelError:
    """Return the error for a model that has sent nothing for *seconds* seconds.

    *place* is the request's destination (see `ErrorContext.place`). *started* means that the answer had already begun.
    """
    what = "said nothing more" if started else "did not answer"
    return ModelError(
        f"{place} {what} for {seconds:g} s; the connection was closed.",
        "Send it again, or choose another model.",
        model_kind="network",
    )


def deadline_error(place: str, seconds: float) -> ModelError:
    """Return the error for an answer that is not complete after *seconds* seconds; see `idle_error` for *place*."""
    return ModelError(
        f"{place} did not finish its answer within {seconds:g} s; the connection was closed.",
        _MORE_TIME,
        model_kind="network",
    )


def preparation_error(seconds: float) -> ModelError:
    """Return the error for a request that was not sent: the model was not ready after *seconds* seconds."""
    return ModelError(
        f"The model was not ready within {seconds:g} s, which includes loading litellm and reading the model's key.",
        _MORE_TIME,
    )


def empty_answer_error(place: str) -> ModelError:
    """Return the error for an answer that has no text and used no tokens.

    litellm returns an answer like this if the response is HTML or has an empty body. See `idle_error` for *place*.
    """
    return ModelError(f"{place} did not respond like a model API.", "Check the base address and the model's name.")


def _is_complete(message: str) -> bool:
    """Return whether mcphost's own error message says everything that litellm's *message* says."""
    return bool(UNKNOWN_PROVIDER_PATTERN.search(message) or UNSUPPORTED_PARAMETERS_PATTERN.search(message))


def classify_failure(failure: CallFailure) -> ModelErrorKind:
    """Return the kind of a failure, from its status code, exception chain and wording."""
    status, text = failure.status, failure.message
    names = {name.rpartition(".")[2] for name in failure.class_names}
    if not names.isdisjoint(_OWN_ERRORS):
        return "other"
    if UNKNOWN_PROVIDER_PATTERN.search(text):
        return "bad_request"
    if MISSING_KEY_PATTERN.search(text):
        return "auth"
    if status in (0, 500) and (kind := _classify_connection(failure, names)):
        return kind
    if CONTEXT_PATTERN.search(text) and status in (0, 400, 413, 422, 500):
        return "context"
    return _classify_status(status, text)


def _classify_connection(failure: CallFailure, names: set[str]) -> ModelErrorKind | None:
    """Return the kind of a failure that has no status code.

    Returns None if the exception classes in *names* do not determine the kind, so that the wording must be
    examined.
    """
    if not HTTP_ERRORS.isdisjoint(failure.class_names):
        return "other"
    if names.intersection(NETWORK_ERRORS).difference({WRAPPER_ERROR}):
        return "network"
    if STREAMED_ERROR in failure.class_names:
        return None
    if not names.isdisjoint(JSON_ERRORS):
        return "other"
    if CONNECTION_ERROR_PATTERN.search(failure.message):
        return "network"
    if not names.isdisjoint(DEFECTS):
        return "other"
    return "network" if WRAPPER_ERROR in names else None


def _classify_status(status: int, text: str) -> ModelErrorKind:
    if status in (401, 403):
        return "auth"
    if status in (402, 429) or (status == 400 and LOW_BALANCE_PATTERN.search(text)):
        return "quota"
    if status == 413:
        return "context"
    if status in (408, 409, 425) or status >= 500:
        return "overloaded"
    if status >= 400:
        return "refused" if CONTENT_FILTER_PATTERN.search(text) else "bad_request"
    return "other"


def is_retryable(failure: CallFailure) -> bool:
    """Return whether the same request may succeed if it is sent again soon.

    The result is False, for example, for a refused connection, an account without credit, or an invalid API key.
    """
    kind = classify_failure(failure)
    names = {name.rpartition(".")[2] for name in failure.class_names}
    if kind == "network":
        return not names.intersection(UNREACHABLE_ERRORS) and not CONNECTION_REFUSED_PATTERN.search(failure.message)
    if kind == "quota":
        return failure.status == 429 and not NO_CREDIT_PATTERN.search(failure.message)
    return kind == "overloaded"


def refuses_tools(failure: CallFailure) -> bool:
    """Return whether a request failed because the model does not support tools, judging by the error message."""
    return failure.status in (0, 400, 404, 422, 500, 501) and NO_TOOLS_PATTERN.search(failure.message) is not None


def explain_failure(failure: CallFailure, secret: str) -> str:
    """Return the provider's message without API keys, such as *secret*."""
    # Before the message is shortened, so that no part of a key remains, and after its escapes are decoded.
    return remove_keys(extract_provider_message(remove_keys(failure.message, secret)), secret)


def extract_provider_message(message: str) -> str:
    """Return the provider's message from litellm's message, which may embed it as JSON or as a bytes repr."""
    for brace in islice(re.finditer(r"\{", message), 20):
        tail = message[brace.start() :]
        end = tail.rfind("}")
        try:
            value = loads(tail[: end + 1].replace("\\'", "'").replace('\\\\"', '\\"'))
        except MalformedMessage:
            continue
        text = extract_message(value)
        if text:
            return text[:MAX_PROVIDER_MESSAGE]
        break
    text = re.sub(r"^(?:litellm\.)?(?:(?=[\w.]*?(?:Error|Exception|Exceeded))[\w.]++: *)+", "", message.strip())
    text = re.sub(r"^(?:(?=\w*?(?:Exception|Error)\b)\w++(?: - |: ))+", "", text)
    text = text.partition(" Handle with `litellm.")[0]
    return text.splitlines()[0][:MAX_PROVIDER_MESSAGE] if text else ""


def extract_message(value: Any) -> str:
    """Return the message in a provider's error object, or "" if it has none.

    The message is in `error.message`, `error` or `message`.
    """
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return extract_message(members.get("error", members.get("message")))
    return value.strip() if isinstance(value, str) else ""


def remove_keys(text: str, secret: str) -> str:
    """Replace API keys in *text* with `***`, because providers may quote keys.

    This replaces *secret*, and everything else that looks like an API key. If *text* was truncated in the middle of
    *secret*, the remaining part at its end is replaced as well.
    """
    if len(secret) > 5:
        text = text.replace(secret, "***")
        cut = next((size for size in range(len(secret) - 1, 5, -1) if text.endswith(secret[:size])), 0)
        text = f"{text[:-cut]}***" if cut else text
    return re.sub(r"\b(?:sk|pk|rk|gsk|xai|AIza)[-_]?[A-Za-z0-9_*-]{12,}", "***", text)


def _describe_auth(failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    if not context.secret:
        hint = "Name the environment variable that has it with api_key_env in config.toml, or with --api-key-env."
        if context.api_base and context.key_name and context.is_key_set:
            name = context.key_name
            hint = (
                f"{name} is not sent to {context.api_base} automatically. To send it, name it with api_key_env in "
                "config.toml, or with --api-key-env."
            )
        return f"{context.place} requires a key for {context.model}.", hint
    key = context.key_name or "the key"
    if failure.status == 403:
        return f"{context.place} does not allow {context.model} for this key.", f"Check what {key} has access to."
    hint = f"Check {key}, or enter another key on the Models page."
    return f"{context.place} rejected the key for {context.model}.", hint


def _describe_quota(failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    if NO_CREDIT_PATTERN.search(failure.message) or failure.status == 402:
        return f"The account at {context.place} has no credit left.", "Check your plan and billing there."
    wait = f" in {failure.retry_after:g} s" if failure.retry_after is not None else " later"
    return f"{context.place} limits the rate of requests.", f"Try again{wait}."


def _describe_context(_failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    return (
        f"The conversation is longer than {context.model} can take.",
        "Summarize it (/compact), enable fewer tools, or choose a model with a larger context.",
    )


def _describe_overloaded(failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    return f"{context.place} has a problem (status {failure.status}).", "Try again in a moment."


def _describe_refused(_failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    return f"{context.place} refuses to answer this.", "Rephrase it, or choose another model."


def _describe_network(failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    names = {name.rpartition(".")[2] for name in failure.class_names}
    if not names.isdisjoint(CERTIFICATE_ERRORS):
        hint = "If the server is yours, set SSL_CERT_FILE to the certificate of its authority."
        return f"The certificate of {context.place} cannot be verified.", hint
    if not names.isdisjoint(TLS_ERRORS):
        return (
            f"No encrypted connection to {context.place} is possible.",
            "Check whether its address begins with http:// or https://.",
        )
    if not names.isdisjoint(CLOSED_ERRORS):
        return f"{context.place} closed the connection before its answer was complete.", "Send it again."
    hint = "Check the address, the server and the network."
    if context.provider in LOCAL_PROVIDERS and not context.api_base:
        hint = "Start it, or name its address with --api-base or api_base in config.toml."
    return f"Cannot connect to {context.place}, or the connection was lost.", hint


def _describe_bad_request(failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    if UNKNOWN_PROVIDER_PATTERN.search(failure.message):
        return unknown_provider_error(context.model).message, unknown_provider_error(context.model).hint
    if refused := UNSUPPORTED_PARAMETERS_PATTERN.search(failure.message):
        return (
            f"{context.model} does not accept {refused[1].replace(chr(39), '')}; nothing was sent.",
            "Remove it from the model's configuration.",
        )
    if failure.status == 404:
        return f"{context.place} does not know {context.model}.", "Check the model's name and the base address."
    message = f"{context.place} did not understand the request for {context.model}."
    if TOO_MANY_TOOLS_PATTERN.search(failure.message):
        return message, "Enable fewer tools, or choose another model."
    return message, "The log has the details."


def _describe_other(failure: CallFailure, context: ErrorContext) -> tuple[str, str]:
    if any(name.endswith("WorkerDied") for name in failure.class_names):
        return "The model worker ended unexpectedly.", "Send again to restart it. The log has its output."
    if not HTTP_ERRORS.isdisjoint(failure.class_names):
        return (
            f"{context.place} sent an answer that is not valid HTTP.",
            "Check the address and its port; another program may use that port.",
        )
    if any(name.rpartition(".")[2] in JSON_ERRORS for name in failure.class_names):
        return f"{context.place} sent an answer that is not valid JSON.", "Check the base address and the model's name."
    if UNREADABLE_PATTERN.search(failure.message) and not DEFECTS.isdisjoint(
        name.rpartition(".")[2] for name in failure.class_names
    ):
        return f"{context.place} sent an answer that cannot be read.", "The log has the details."
    reason = explain_failure(failure, context.secret)
    return f"The call of {context.model} failed: {reason or 'no reason given'}", "The log has the details."


DESCRIPTIONS = {
    "auth": _describe_auth,
    "quota": _describe_quota,
    "context": _describe_context,
    "overloaded": _describe_overloaded,
    "refused": _describe_refused,
    "network": _describe_network,
    "bad_request": _describe_bad_request,
    "other": _describe_other,
}


class RefusedSizes(NamedTuple):
    """The sizes of the context window and of the rejected request, in tokens.

    A size is 0 if the provider's message does not contain it.
    """

    window: int = 0
    size: int = 0


def parse_refused_sizes(message: str) -> RefusedSizes:
    """Return the sizes in tokens of the context window and of a request that the provider rejected as too long.

    They are read from *message*, the provider's error message. A size that the message does not contain is 0. The
    wordings of providers such as OpenAI, Anthropic, Gemini and llama.cpp are recognized.
    """
    message = message[:_MAX_MESSAGE]
    window = _WINDOW_PATTERN.search(message) or _MAXIMUM_PATTERN.search(message)
    return RefusedSizes(_parse_number(window), _parse_number(_SIZE_PATTERN.search(message)))


def _parse_number(found: re.Match[str] | None) -> int:
    return 0 if found is None else int(found[1].replace(",", ""))
