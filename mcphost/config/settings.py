"""Reads `config.toml`: model, limits, theme, system prompt; and what flags and environment change in it."""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, cast

from mcphost.config.json_files import describe_type
from mcphost.config.roots import parse_roots
from mcphost.config.rules import SYNTAX_HINT, Rule, parse_alternatives
from mcphost.config.schema import (
    AuditConfig,
    HostConfig,
    Limits,
    ModelConfig,
    ResultsConfig,
    SamplingConfig,
    SamplingLimits,
    SecretStore,
)
from mcphost.errors import ConfigError, UsageError
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, replace

ProblemCallback = Callable[[str], None]

_MAX_PROMPT_LENGTH = 200_000
MAX_SAMPLING_LIMIT = 1_000_000_000
MAX_MODELS = 20
SECRET_STORES = ("keyring", "file", "encrypted", "session")


class Overrides(Struct, frozen=True, kw_only=True):
    """What flags and environment say; empty and None mean that the file decides."""

    model: str = ""
    api_base: str = ""
    api_key_env: str = ""
    era: str = ""
    timeout: float | None = None
    max_rounds: int | None = None


_COUNTED_CHARACTERS = "=[{,.\n\\"
_MAX_COUNTED_CHARACTERS = 12_000
_MAX_KEY_PARTS = 50
_MAX_UNKNOWN_KEYS_SHOWN = 20
"""Unknown keys of one table that are named; the others are counted."""


def _check_size(text: str, file: str) -> None:
    """Refuse a text that would take long to parse. Raises ConfigError."""
    if sum(map(text.count, _COUNTED_CHARACTERS)) > _MAX_COUNTED_CHARACTERS:
        raise ConfigError(
            f"{file}: more than {_MAX_COUNTED_CHARACTERS:,} keys, values, lines and escapes.", "Is it the right file?"
        )
    for line in text.split("\n"):
        # The parser's time grows with the square of the parts of one key.
        if line.count(".") > _MAX_KEY_PARTS and any(part.count(".") > _MAX_KEY_PARTS for part in _possible_keys(line)):
            raise ConfigError(f"{file}: a key of more than {_MAX_KEY_PARTS} parts.", "Correct the file there.")


def _possible_keys(line: str) -> list[str]:
    """Return what may be keys in a line: whatever stands before an equals sign, and all of a table's head."""
    return [line] if line.lstrip().startswith("[") else line.split("=")[:-1]


def parse_settings(text: str, file: str, on_problem: ProblemCallback) -> HostConfig:
    """The settings, without servers; a wrong value is named and its default used.

    Raises ConfigError with line and column when it is not TOML at all.
    """
    _check_size(text, file)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        said = str(error)[:300] or type(error).__name__
        raise ConfigError(f"{file}: not valid TOML: {said}.", "Correct the file there.") from error
    table = _Table(document, file, "", on_problem)
    model_entry = document.get("model")
    if isinstance(model_entry, str):
        model = ModelConfig(name=model_entry)
    else:
        model = _parse_model(_Table(table.get_table("model"), file, "model.", on_problem))
    limits = _parse_limits(_Table(table.get_table("limits"), file, "limits.", on_problem))
    ledger = _parse_audit(_Table(table.get_table("ledger"), file, "ledger.", on_problem))
    sampling = _parse_sampling(_Table(table.get_table("sampling"), file, "sampling.", on_problem))
    results = _parse_results(_Table(table.get_table("results"), file, "results.", on_problem))
    theme, system_prompt = table.get_text("theme", 64), table.get_text("system_prompt", _MAX_PROMPT_LENGTH)
    roots = parse_roots(document["roots"], file, "user", on_problem) if "roots" in document else None
    store = _parse_secret_store(_Table(table.get_table("secrets"), file, "secrets.", on_problem))
    never = _parse_never_rules(_Table(table.get_table("consent"), file, "consent.", on_problem))
    table.report_unknown(
        {"model", "limits", "theme", "system_prompt", "roots", "secrets", "consent", "ledger", "sampling", "results"}
    )
    return HostConfig(
        model=model,
        limits=limits,
        audit=ledger,
        sampling=sampling,
        results=results,
        theme=theme,
        system_prompt=system_prompt,
        roots=roots,
        secret_store=store,
        never_rules=never,
    )


def apply_overrides(config: HostConfig, overrides: Overrides, environ: Mapping[str, str]) -> HostConfig:
    """Flags over environment over file; `given.timeout` becomes the hard limit of every request."""
    name = overrides.model or environ.get("MCPHOST_MODEL", "")
    model = config.model
    if name and name != model.name:
        # An address or key name written for one provider must never be used for another one.
        same = not model.name or model.name.partition("/")[0] == name.partition("/")[0]
        model = replace(model, name=name, context_window=0, max_output_tokens=0) if same else ModelConfig(name=name)
    model = replace(
        model,
        api_base=overrides.api_base or environ.get("MCPHOST_API_BASE", "") or model.api_base,
        api_key_env=overrides.api_key_env or model.api_key_env,
    )
    limits, servers = config.limits, config.servers
    if overrides.timeout is not None:
        limits = replace(
            limits,
            request_timeout=overrides.timeout,
            request_timeout_max=overrides.timeout,
            task_timeout=overrides.timeout,
            connect_timeout=min(overrides.timeout, limits.connect_timeout),
            server_wait=min(overrides.timeout, limits.server_wait),
            includes_user_time=True,
        )
        servers = tuple(replace(server, timeout=None) for server in servers)
    if overrides.max_rounds is not None:
        limits = replace(limits, max_rounds=overrides.max_rounds)
    if overrides.era:
        servers = tuple(replace(server, era=overrides.era, revision=None) for server in servers)
    return replace(config, model=model, limits=limits, servers=servers)


def _parse_model(table: "_Table") -> ModelConfig:
    api = table.get_text("api", 20) or "auto"
    if api not in {"auto", "chat", "responses"}:
        table.on_problem(f'{table.file}: "model.api" is not one of auto, chat, responses; auto is used.')
        api = "auto"
    made = ModelConfig(
        name=table.get_text("name", 200),
        api_base=table.get_text("api_base", 2000),
        api_key_env=table.get_text("api_key_env", 200),
        api=cast("Any", api),
        reasoning_effort=table.get_text("reasoning_effort", 40),
        context_window=int(table.get_number("context_window", 0, 0, 1e9)),
        max_output_tokens=int(table.get_number("max_output_tokens", 0, 0, 1e9)),
    )
    table.report_unknown(
        {"name", "api_base", "api_key_env", "api", "reasoning_effort", "context_window", "max_output_tokens"}
    )
    return made


def _parse_limits(table: "_Table") -> Limits:
    usual = Limits()
    made = Limits(
        request_timeout=table.get_number("request_timeout", usual.request_timeout, 0.1, 86_400),
        request_timeout_max=table.get_number("request_timeout_max", usual.request_timeout_max, 0.1, 86_400),
        task_timeout=table.get_number("task_timeout", usual.task_timeout, 0.1, 30 * 86_400),
        connect_timeout=table.get_number("connect_timeout", usual.connect_timeout, 0.1, 3_600),
        server_wait=table.get_number("server_wait", usual.server_wait, 0, 3_600),
        ping_interval=table.get_number("ping_interval", usual.ping_interval, 0, 86_400),
        max_rounds=int(table.get_number("max_rounds", usual.max_rounds, 1, 1_000)),
        parallel_calls=int(table.get_number("parallel_calls", usual.parallel_calls, 1, 64)),
        tools_to_model=int(table.get_number("tools_to_model", usual.tools_to_model, 1, 1_000)),
    )
    table.report_unknown(
        {
            "request_timeout",
            "request_timeout_max",
            "task_timeout",
            "connect_timeout",
            "server_wait",
            "ping_interval",
            "max_rounds",
            "parallel_calls",
            "tools_to_model",
        }
    )
    return made


def _parse_secret_store(table: "_Table") -> SecretStore:
    wanted = table.get_text("store", 20)
    table.report_unknown({"store"})
    if wanted not in {"", *SECRET_STORES}:
        table.on_problem(
            f'{table.file}: "secrets.store" is not one of {", ".join(SECRET_STORES)}; the keyring is used.'
        )
        return ""
    return cast("Any", wanted)


def _parse_audit(table: "_Table") -> AuditConfig:
    made = AuditConfig(content=table.get_flag("content"), required=table.get_flag("required"))
    table.report_unknown({"content", "required"})
    return made


def _parse_sampling(table: "_Table") -> SamplingConfig:
    """The limits, and `models = ["anthropic/claude-haiku-4-5", {name = "openai/x", api_base = "…"}]`."""
    usual = SamplingLimits()
    names = usual.__struct_fields__
    limits = SamplingLimits(
        **{name: int(table.get_number(name, getattr(usual, name), 0, MAX_SAMPLING_LIMIT)) for name in names}
    )
    entries = table.values.get("models", [])
    listed = cast("list[Any]", entries) if isinstance(entries, list) else [entries]
    models: list[ModelConfig] = []
    for number, entry in enumerate(listed[:MAX_MODELS], 1):
        written = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(written, dict):
            table.on_problem(
                f'{table.file}: "sampling.models" is a list of models; {describe_type(written)} is left out.'
            )
            continue
        made = _parse_model(
            _Table(cast("dict[str, Any]", written), table.file, f"sampling.models[{number}].", table.on_problem)
        )
        if made.name:
            models.append(made)
        else:
            table.on_problem(f'{table.file}: "sampling.models[{number}]" has no name and is left out.')
    table.report_unknown({*names, "models"})
    return SamplingConfig(limits=limits, models=tuple(models))


def _parse_results(table: "_Table") -> ResultsConfig:
    usual = ResultsConfig()
    made = ResultsConfig(
        megabytes=int(table.get_number("megabytes", usual.megabytes, 0, 1_000_000)),
        days=int(table.get_number("days", usual.days, 0, 36_500)),
    )
    table.report_unknown({"megabytes", "days"})
    return made


def _parse_never_rules(table: "_Table") -> tuple[Rule, ...]:
    """`never = ["fs/delete*", "git/push?force=true"]`: calls that nothing allows.

    A rule that cannot be read raises ConfigError: to go on without it would allow what the user meant to forbid.
    """
    entries = table.values.get("never", [])
    texts = cast("list[Any]", entries) if isinstance(entries, list) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f'{table.file}: "consent.never" is not a list of rules.', f"Correct it. {SYNTAX_HINT}")
    table.report_unknown({"never"})
    try:
        return tuple(rule for text in texts for rule in parse_alternatives(text))
    except UsageError as error:
        raise ConfigError(f'{table.file}: in "consent.never": {error.message}', error.hint) from error


class _Table:
    """One TOML table while it is read; `prefix` is its name with a dot, for messages."""

    def __init__(self, values: Mapping[str, Any], file: str, prefix: str, on_problem: ProblemCallback) -> None:
        self.values, self.file, self.prefix, self.on_problem = values, file, prefix, on_problem

    def _report_type(self, key: str, expected: str) -> None:
        was = describe_type(self.values[key])
        self.on_problem(f'{self.file}: "{self.prefix}{key}" is {was}, not {expected}; the default is used.')

    def get_text(self, key: str, limit: int) -> str:
        """A text, or empty."""
        value = self.values.get(key, "")
        if not isinstance(value, str):
            self._report_type(key, "text in quotes")
            return ""
        if len(value) > limit:
            self.on_problem(f'{self.file}: "{self.prefix}{key}" is over {limit} characters; it is not used.')
            return ""
        return value

    def get_number(self, key: str, default: float, minimum: float, maximum: float) -> float:
        """A number within its bounds, or the usual one."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._report_type(key, "a number")
            return default
        if not minimum <= value <= maximum:
            self.on_problem(
                f'{self.file}: "{self.prefix}{key}" is not between {minimum:g} and {maximum:g}; {default:g} is used.'
            )
            return default
        return value

    def get_flag(self, key: str) -> bool:
        """True or false; false when nothing is said."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self._report_type(key, "true or false")
            return False
        return value

    def get_table(self, key: str) -> Mapping[str, Any]:
        """A table, or an empty one."""
        value = self.values.get(key, {})
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        if not (key == "model" and isinstance(value, str)):
            self._report_type(key, f"a table; write [{key}]")
        return {}

    def report_unknown(self, known: set[str]) -> None:
        """Name the keys nobody reads: most often they are misspelt."""
        unknown = [key for key in self.values if key not in known]
        for key in unknown[:_MAX_UNKNOWN_KEYS_SHOWN]:
            from difflib import get_close_matches

            near = get_close_matches(key[:60], known, 1)
            hint = f'did you mean "{self.prefix}{near[0]}"?' if near else "it does nothing."
            shown = sanitize(key[:60], keep_newlines=False)
            self.on_problem(f'{self.file}: "{self.prefix}{shown}" is not known: {hint}')
        if len(unknown) > _MAX_UNKNOWN_KEYS_SHOWN:
            self.on_problem(f"{self.file}: {len(unknown) - _MAX_UNKNOWN_KEYS_SHOWN:,} more keys are not known.")
