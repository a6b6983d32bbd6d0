"""Tests for converting litellm 1.105's errors, recorded from providers, to error kinds and messages."""

import pytest

from mcphost.llm.errors import (
    MAX_PROVIDER_MESSAGE,
    ErrorContext,
    extract_provider_message,
    is_retryable,
    make_model_error,
    refuses_tools,
)
from mcphost.llm.worker_protocol import MAX_MESSAGE_LENGTH, CallFailure, make_failure
from mcphost.serialization import replace

WHERE = ErrorContext(
    model="openai/gpt-4o",
    provider="openai",
    key_name="OPENAI_API_KEY",
    secret="sk-secret-0123456789abcdef",
    api_base="http://127.0.0.1:9/v1",
)
CASES = [
    (401, (), "OpenAIException - Incorrect API key provided", "auth", False),
    (403, ("litellm.exceptions.APIError",), "no access", "auth", False),
    (403, ("litellm.exceptions.BadRequestError",), "no access", "auth", False),
    (402, (), "Payment required", "quota", False),
    (429, (), "Rate limit reached", "quota", True),
    (429, (), "You exceeded your current quota, please check your plan (insufficient_quota)", "quota", False),
    (404, (), "The model `x` does not exist", "bad_request", False),
    (400, (), "This model's maximum context length is 8192 tokens.", "context", False),
    (400, (), "prompt is too long: 210000 tokens > 200000 maximum", "context", False),
    (400, (), "The input token count (2000000) exceeds the maximum number of tokens", "context", False),
    (400, (), "However, the model's context length is only 16384 tokens, resulting in", "context", False),  # vLLM 0.16
    (413, (), "Request too large", "context", False),
    (400, (), "Your credit balance is too low to access the Anthropic API.", "quota", False),
    (400, (), "Invalid value of create_payment: billing is missing", "bad_request", False),
    (400, (), "filtered due to content management policy, code content_filter", "refused", False),
    (400, (), "Unknown parameter: foo", "bad_request", False),
    (500, (), "server exploded", "overloaded", True),
    (529, (), "Overloaded", "overloaded", True),
    (503, (), "Service Unavailable", "overloaded", True),
    (500, ("litellm.InternalServerError", "openai.APIConnectionError"), "Connection error.", "network", True),
    (500, ("litellm.InternalServerError", "builtins.ConnectionRefusedError"), "Connection error.", "network", False),
    (0, ("aiohttp.client_exceptions.ServerDisconnectedError",), "Server disconnected", "network", True),
    (0, ("socket.gaierror",), "Name or service not known", "network", False),
    (500, (), "Missing credentials. Please pass an `api_key`", "auth", False),
    (400, (), "LLM Provider NOT provided. Pass in the LLM provider you are trying to call", "bad_request", False),
    (0, ("builtins.KeyError",), "'choices'", "other", False),
]


@pytest.mark.parametrize(("status", "classes", "message", "kind", "again"), CASES)
def test_each_failure_has_its_kind_and_a_hint(
    status: int, classes: tuple[str, ...], message: str, kind: str, again: bool
) -> None:
    failure = CallFailure(status=status, class_names=classes, message=message)
    error = make_model_error(failure, WHERE)
    assert error.model_kind == kind
    assert error.hint
    assert is_retryable(failure) is again


@pytest.mark.parametrize(
    ("message", "advises_fewer_tools"),
    [
        ("Invalid 'tools': array too long. Expected an array with maximum length 128, but got length 150.", True),
        ("Failed to initialize samplers: failed to parse grammar", True),
        ("Too many tools: at most 128", True),
        ("Invalid 'tools[3].function.name': string too long", False),
        ("Unknown parameter: foo", False),
    ],
)
def test_too_many_or_too_large_tools_are_answered_with_the_advice_to_enable_fewer(
    message: str, advises_fewer_tools: bool
) -> None:
    hint = make_model_error(CallFailure(status=400, message=message), WHERE).hint
    assert ("Enable fewer tools" in hint) is advises_fewer_tools


@pytest.mark.parametrize(
    ("status", "message", "refuses"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools", True),
        (404, "No endpoints found that support tool use. Try disabling it.", True),
        (400, "openai does not support parameters: ['tools'], for model=o1-mini", True),
        (400, "openai does not support parameters: ['temperature'], for model=o1-mini", False),
        (500, "tools param requires --jinja flag", True),
        (400, "`tool calling` is not supported with this model", True),
        (400, "Function calling is not enabled for models/x", True),
        (401, "this key does not support tools", False),
        (400, "Invalid schema for tool fs__read", False),
    ],
)
def test_a_model_without_tools_is_distinguished_from_other_refusals(status: int, message: str, refuses: bool) -> None:
    assert refuses_tools(CallFailure(status=status, message=message)) is refuses


@pytest.mark.parametrize(("status", "message"), [(401, "no"), (403, "no"), (404, "no"), (429, "Slow"), (500, "broken")])
def test_an_error_of_a_server_at_an_address_of_the_users_own_names_that_address(status: int, message: str) -> None:
    error = make_model_error(CallFailure(status=status, message=message), WHERE)
    assert error.message.startswith("http://127.0.0.1:9/v1 ")
    usual = make_model_error(CallFailure(status=status, message=message), replace(WHERE, api_base=""))
    assert usual.message.startswith("openai ")


def test_a_refused_key_names_the_variable_and_never_the_key() -> None:
    text = f"Incorrect API key provided: {WHERE.secret}. sk-abcd****************wxyz is wrong"
    error = make_model_error(CallFailure(status=401, message=text), WHERE)
    assert "OPENAI_API_KEY" in error.hint
    for shown in (str(error), error.details):
        assert WHERE.secret not in shown
        assert "sk-abcd" not in shown


def test_a_missing_provider_key_is_reported_with_how_to_set_it() -> None:
    error = make_model_error(
        CallFailure(status=401, message="no"), ErrorContext(model="openai/x", provider="openai", api_base="http://h")
    )
    assert "--api-key-env" in error.hint


def test_a_key_that_was_not_sent_to_an_own_address_is_named_with_the_way_to_send_it() -> None:
    where = ErrorContext(
        model="openai/x", provider="openai", key_name="OPENAI_API_KEY", api_base="http://127.0.0.1:9/v1",
        is_key_set=True,
    )  # fmt: skip
    hint = make_model_error(CallFailure(status=401, message="no"), where).hint
    assert hint == (
        "OPENAI_API_KEY is not sent to http://127.0.0.1:9/v1 automatically. To send it, name it with api_key_env in "
        "config.toml, or with --api-key-env."
    )


def test_a_key_variable_that_is_not_set_is_not_named_for_an_own_address() -> None:
    where = ErrorContext(
        model="openai/x", provider="openai", key_name="OPENAI_API_KEY", api_base="http://127.0.0.1:9/v1"
    )
    hint = make_model_error(CallFailure(status=401, message="no"), where).hint
    assert "OPENAI_API_KEY" not in hint
    assert "api_key_env in config.toml" in hint
    assert hint.endswith("."), "another sentence follows"


def test_a_refused_connection_names_the_address() -> None:
    failure = CallFailure(status=500, class_names=("builtins.ConnectionRefusedError",), message="Connection error.")
    assert "http://127.0.0.1:9/v1" in make_model_error(failure, WHERE).message


def test_a_crashed_worker_is_reported_as_such() -> None:
    error = make_model_error(CallFailure(class_names=("mcphost.WorkerDied",), message="Segmentation fault"), WHERE)
    assert "worker" in error.message
    assert error.details == "Segmentation fault"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ('litellm.BadRequestError: GeminiException BadRequestError - b\'{"error":{"message":"bad \\\\"x\\\\" here"}}\'',
         'bad "x" here'),
        ('litellm.APIError: AnthropicException - {"type":"error","error":{"type":"t","message":"Overloaded"}}',
         "Overloaded"),
        ('{"error":"model \\"x\\" not found"}', 'model "x" not found'),
        ("litellm.NotFoundError: OpenAIException - The model `x` does not exist", "The model `x` does not exist"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_providers_own_message_is_found(raw: str, words: str) -> None:
    assert extract_provider_message(raw) == words


def test_words_are_bounded_whatever_arrives() -> None:
    assert len(extract_provider_message("{" * 3_000 + "x" * 100_000)) <= 600
    assert len(extract_provider_message("x" * 100_000)) <= 600


class StatusError(Exception):
    status_code = 429
    litellm_response_headers = {"retry-after": "7"}  # noqa: RUF012


class MidStreamFallbackError(Exception):
    def __init__(self, inner: BaseException) -> None:
        super().__init__("wrapped")
        self.original_exception = inner


def test_an_exception_is_flattened_with_its_causes() -> None:
    inner = StatusError("slow down")
    inner.__cause__ = ConnectionResetError("reset")
    failure = make_failure(MidStreamFallbackError(inner))
    assert failure.status == 429
    assert failure.retry_after == 7
    assert failure.message == "slow down"
    assert failure.class_names[-1] == "builtins.ConnectionResetError"


def test_a_circle_of_causes_ends() -> None:
    error, two = ValueError("1"), ValueError("2")
    error.__cause__, two.__cause__ = two, error
    assert len(make_failure(error).class_names) == 2


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**30, -1, 600, "many", None, {"code": 400}])
def test_a_strange_status_is_ignored(value: object) -> None:
    error = Exception("no")
    error.status_code = value  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert make_failure(error).status == 0


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "999999999", None])
def test_a_strange_retry_after_is_ignored(value: object) -> None:
    error = StatusError("x")
    error.litellm_response_headers = {"retry-after": value}  # pyright: ignore[reportAttributeAccessIssue]
    assert make_failure(error).retry_after is None


@pytest.mark.parametrize("length", [MAX_PROVIDER_MESSAGE - 10, MAX_MESSAGE_LENGTH - 10])
def test_no_part_of_a_key_remains_where_a_message_is_shortened(length: int) -> None:
    """Not every key has a known form: Azure's are hexadecimal."""
    secret = "0123456789abcdef0123456789abcdef"
    failure = make_failure(StatusError(("x" * length) + secret + " is wrong"))
    error = make_model_error(failure, replace(WHERE, secret=secret))
    assert secret[:8] not in error.message
    assert secret[:8] not in error.details
    assert "xxx" in error.details
