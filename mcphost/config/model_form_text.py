"""Conversion between a model's configuration and the text of form fields."""

from collections.abc import Mapping
from typing import Any

from mcphost.config.schema import ModelConfig
from mcphost.config.value_conversion import InvalidValue, convert_value, settable_fields
from mcphost.errors import UsageError
from mcphost.translation import N_

MODEL_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("name", N_("model"), N_("provider/model")),
    ("api_base", N_("address"), N_("the provider's own")),
    ("api_key_env", N_("key variable"), N_("the provider's own")),
    ("temperature", N_("temperature"), N_("0 to 2")),
    ("top_p", N_("top_p"), N_("above 0, at most 1")),
    ("max_output_tokens", N_("output tokens"), "4096"),
    ("context_window", N_("context tokens"), N_("the model's own, if it is known")),
    ("input_price", N_("input $ per 1M"), "3.00"),
    ("output_price", N_("output $ per 1M"), "15.00"),
    ("cached_input_price", N_("cached $ per 1M"), N_("as other input")),
    ("reasoning_effort", N_("reasoning"), N_("low, medium, high")),
    ("tools", N_("tools"), N_("auto, always or never")),
    ("api", N_("API"), N_("auto, chat or responses")),
)
"""The key, label and placeholder of each single-line field."""

_WHOLE_NUMBERS = frozenset({"max_output_tokens", "context_window"})
_NUMBERS = frozenset({"temperature", "top_p", "input_price", "output_price", "cached_input_price"})


class InvalidModelFields(UsageError):
    """Raised when form fields contain invalid values; `keys` has the keys of these fields, in form order."""

    def __init__(self, errors: Mapping[str, UsageError]) -> None:
        """Create the exception; *errors* maps the key of each invalid field to its error.

        There must be at least one error.
        """
        messages = [error.message for error in errors.values()]
        super().__init__(" ".join(messages), next(error.hint for error in errors.values()))
        self.keys = tuple(errors)


def format_fields(config: ModelConfig) -> dict[str, str]:
    """Return the text of each form field, keyed by setting; "" means the default.

    Each header is on its own line.
    """
    default = ModelConfig()
    texts = {
        key: "" if (value := getattr(config, key)) == getattr(default, key) else str(value)
        for key, _label, _placeholder in MODEL_FIELDS
    }
    return {**texts, "headers": "\n".join(f"{name}: {value}" for name, value in config.headers.items())}


def parse_fields(texts: Mapping[str, str]) -> ModelConfig:
    """Return the model configuration entered in form fields; *texts* are keyed by setting.

    Raises InvalidModelFields, which names all fields with a wrong value.
    """
    kinds = settable_fields(ModelConfig)
    values: dict[str, Any] = {}
    wrong: dict[str, UsageError] = {}
    base = texts.get("api_base", "").strip()
    for key, label, _placeholder in MODEL_FIELDS:
        text = texts.get(key, "").strip()
        if key == "name" and base and not text:
            wrong[key] = UsageError("The model needs a name.", "Write the name that the server at this address uses.")
        elif key == "name" and "/" not in text and not base:
            wrong[key] = UsageError("The model needs a name such as openai/gpt-4o.", "Write provider/model.")
        elif key == "api_base" and text and not text.startswith(("http://", "https://")):
            wrong[key] = UsageError("The address does not start with http:// or https://.", "Write it in full.")
        elif text:
            try:
                values[key] = convert_value(_parse_number(key, text), kinds[key].type)
            except InvalidValue as error:
                wrong[key] = UsageError(f"{label}: {text[:100]!r} {error}.", "Correct it, or leave it empty.")
    try:
        headers = _parse_headers(texts.get("headers", ""))
    except UsageError as error:
        headers, wrong["headers"] = {}, error
    if wrong:
        raise InvalidModelFields(wrong)
    return ModelConfig(**values, headers=headers)


def _parse_number(key: str, text: str) -> Any:
    """Return *text* as a number if the setting *key* is numeric, otherwise unchanged. Raises InvalidValue."""
    try:
        if key in _WHOLE_NUMBERS:
            return int(text.replace(",", "").replace("_", ""))
        return float(text.replace(",", ".")) if key in _NUMBERS else text
    except ValueError as error:
        raise InvalidValue("is not a number") from error


def _parse_headers(text: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise UsageError(f"headers: {line[:100]!r} is not NAME: VALUE.", "Write one header per line.")
        headers[name.strip()] = value.strip()
    return headers
