"""Reads `config.toml`: model, limits, theme, system prompt; and what flags and environment change in it."""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, cast

from mcphost.config.json_files import name_of
from mcphost.config.roots import roots_of
from mcphost.config.rules import FORMS, Rule, readings
from mcphost.config.schema import (
    HostConfig,
    LedgerConfig,
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

Problem = Callable[[str], None]

_PROMPT_LIMIT = 200_000
MAX_SAMPLING = 1_000_000_000
MAX_MODELS = 20
STORES = ("keyring", "file", "encrypted", "session")


class Overrides(Struct, frozen=True, kw_only=True):
    """What flags and environment say; empty and None mean that the file decides."""

    model: str = ""
    api_base: str = ""
    api_key_env: str = ""
    era: str = ""
    timeout: float | None = None
    max_rounds: int | None = None


_MARKS = "=[{,.\n\\"
_MOST_MARKS = 12_000
_MOST_DOTS = 50
_MOST_NAMED = 20
"""Unknown keys of one table that are named; the others are counted."""


def _check_size(text: str, file: str) -> None:
    """Refuse a text that would take long to parse. Raises ConfigError."""
    if sum(map(text.count, _MARKS)) > _MOST_MARKS:
        raise ConfigError(
            f"{file}: more than {_MOST_MARKS:,} keys, values, lines and escapes.", "Is it the right file?"
        )
    for line in text.split("\n"):
        # The parser's time grows with the square of the parts of one key.
        if line.count(".") > _MOST_DOTS and any(part.count(".") > _MOST_DOTS for part in _before_equals(line)):
            raise ConfigError(f"{file}: a key of more than {_MOST_DOTS} parts.", "Correct the file there.")


def _before_equals(line: str) -> list[str]:
    """Return what may be keys in a line: whatever stands before an equals sign, and all of a table's head."""
    return [line] if line.lstrip().startswith("[") else line.split("=")[:-1]


def settings_of(text: str, file: str, problem: Problem) -> HostConfig:
    """The settings, without servers; a wrong value is named and its default used.

    Raises ConfigError with line and column when it is not TOML at all.
    """
    _check_size(text, file)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        said = str(error)[:300] or type(error).__name__
        raise ConfigError(f"{file}: not valid TOML: {said}.", "Correct the file there.") from error
    table = _Table(document, file, "", problem)
    model_entry = document.get("model")
    if isinstance(model_entry, str):
        model = ModelConfig(name=model_entry)
    else:
        model = _model(_Table(table.table("model"), file, "model.", problem))
    limits = _limits(_Table(table.table("limits"), file, "limits.", problem))
    ledger = _ledger(_Table(table.table("ledger"), file, "ledger.", problem))
    sampling = _sampling(_Table(table.table("sampling"), file, "sampling.", problem))
    results = _results(_Table(table.table("results"), file, "results.", problem))
    theme, system_prompt = table.text("theme", 64), table.text("system_prompt", _PROMPT_LIMIT)
    roots = roots_of(document["roots"], file, "user", problem) if "roots" in document else None
    store = _store(_Table(table.table("secrets"), file, "secrets.", problem))
    never = _never(_Table(table.table("consent"), file, "consent.", problem))
    table.rest(
        {"model", "limits", "theme", "system_prompt", "roots", "secrets", "consent", "ledger", "sampling", "results"}
    )
    return HostConfig(
        model=model,
        limits=limits,
        ledger=ledger,
        sampling=sampling,
        results=results,
        theme=theme,
        system_prompt=system_prompt,
        roots=roots,
        store=store,
        never=never,
    )


def override(config: HostConfig, given: Overrides, environ: Mapping[str, str]) -> HostConfig:
    """Flags over environment over file; `given.timeout` becomes the hard limit of every request."""
    name = given.model or environ.get("MCPHOST_MODEL", "")
    model = config.model
    if name and name != model.name:
        # An address or key name written for one provider must never be used for another one.
        same = not model.name or model.name.partition("/")[0] == name.partition("/")[0]
        model = replace(model, name=name, context_window=0, max_output_tokens=0) if same else ModelConfig(name=name)
    model = replace(
        model,
        api_base=given.api_base or environ.get("MCPHOST_API_BASE", "") or model.api_base,
        api_key_env=given.api_key_env or model.api_key_env,
    )
    limits, servers = config.limits, config.servers
    if given.timeout is not None:
        limits = replace(
            limits,
            request_timeout=given.timeout,
            request_timeout_max=given.timeout,
            task_timeout=given.timeout,
            connect_timeout=min(given.timeout, limits.connect_timeout),
            server_wait=min(given.timeout, limits.server_wait),
            hard=True,
        )
        servers = tuple(replace(server, timeout=None) for server in servers)
    if given.max_rounds is not None:
        limits = replace(limits, max_rounds=given.max_rounds)
    if given.era:
        servers = tuple(replace(server, era=given.era, revision=None) for server in servers)
    return replace(config, model=model, limits=limits, servers=servers)


def _model(table: "_Table") -> ModelConfig:
    api = table.text("api", 20) or "auto"
    if api not in {"auto", "chat", "responses"}:
        table.problem(f'{table.file}: "model.api" is not one of auto, chat, responses; auto is used.')
        api = "auto"
    made = ModelConfig(
        name=table.text("name", 200),
        api_base=table.text("api_base", 2000),
        api_key_env=table.text("api_key_env", 200),
        api=cast("Any", api),
        reasoning_effort=table.text("reasoning_effort", 40),
        context_window=int(table.number("context_window", 0, 0, 1e9)),
        max_output_tokens=int(table.number("max_output_tokens", 0, 0, 1e9)),
    )
    table.rest({"name", "api_base", "api_key_env", "api", "reasoning_effort", "context_window", "max_output_tokens"})
    return made


def _limits(table: "_Table") -> Limits:
    usual = Limits()
    made = Limits(
        request_timeout=table.number("request_timeout", usual.request_timeout, 0.1, 86_400),
        request_timeout_max=table.number("request_timeout_max", usual.request_timeout_max, 0.1, 86_400),
        task_timeout=table.number("task_timeout", usual.task_timeout, 0.1, 30 * 86_400),
        connect_timeout=table.number("connect_timeout", usual.connect_timeout, 0.1, 3_600),
        server_wait=table.number("server_wait", usual.server_wait, 0, 3_600),
        ping_interval=table.number("ping_interval", usual.ping_interval, 0, 86_400),
        max_rounds=int(table.number("max_rounds", usual.max_rounds, 1, 1_000)),
        parallel_calls=int(table.number("parallel_calls", usual.parallel_calls, 1, 64)),
        tools_to_model=int(table.number("tools_to_model", usual.tools_to_model, 1, 1_000)),
    )
    table.rest(
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


def _store(table: "_Table") -> SecretStore:
    wanted = table.text("store", 20)
    table.rest({"store"})
    if wanted not in {"", *STORES}:
        table.problem(f'{table.file}: "secrets.store" is not one of {", ".join(STORES)}; the keyring is used.')
        return ""
    return cast("Any", wanted)


def _ledger(table: "_Table") -> LedgerConfig:
    made = LedgerConfig(content=table.flag("content"), required=table.flag("required"))
    table.rest({"content", "required"})
    return made


def _sampling(table: "_Table") -> SamplingConfig:
    """The limits, and `models = ["anthropic/claude-haiku-4-5", {name = "openai/x", api_base = "…"}]`."""
    usual = SamplingLimits()
    names = usual.__struct_fields__
    limits = SamplingLimits(**{name: int(table.number(name, getattr(usual, name), 0, MAX_SAMPLING)) for name in names})
    entries = table.values.get("models", [])
    listed = cast("list[Any]", entries) if isinstance(entries, list) else [entries]
    models: list[ModelConfig] = []
    for number, entry in enumerate(listed[:MAX_MODELS], 1):
        written = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(written, dict):
            table.problem(f'{table.file}: "sampling.models" is a list of models; {name_of(written)} is left out.')
            continue
        made = _model(_Table(cast("dict[str, Any]", written), table.file, f"sampling.models[{number}].", table.problem))
        if made.name:
            models.append(made)
        else:
            table.problem(f'{table.file}: "sampling.models[{number}]" has no name and is left out.')
    table.rest({*names, "models"})
    return SamplingConfig(limits=limits, models=tuple(models))


def _results(table: "_Table") -> ResultsConfig:
    usual = ResultsConfig()
    made = ResultsConfig(
        megabytes=int(table.number("megabytes", usual.megabytes, 0, 1_000_000)),
        days=int(table.number("days", usual.days, 0, 36_500)),
    )
    table.rest({"megabytes", "days"})
    return made


def _never(table: "_Table") -> tuple[Rule, ...]:
    """`never = ["fs/delete*", "git/push?force=true"]`: calls that nothing allows.

    A rule that cannot be read raises ConfigError: to go on without it would allow what the user meant to forbid.
    """
    entries = table.values.get("never", [])
    texts = cast("list[Any]", entries) if isinstance(entries, list) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f'{table.file}: "consent.never" is not a list of rules.', f"Correct it. {FORMS}")
    table.rest({"never"})
    try:
        return tuple(rule for text in texts for rule in readings(text))
    except UsageError as error:
        raise ConfigError(f'{table.file}: in "consent.never": {error.message}', error.hint) from error


class _Table:
    """One TOML table while it is read; `prefix` is its name with a dot, for messages."""

    def __init__(self, values: Mapping[str, Any], file: str, prefix: str, problem: Problem) -> None:
        self.values, self.file, self.prefix, self.problem = values, file, prefix, problem

    def _wrong(self, key: str, expected: str) -> None:
        was = name_of(self.values[key])
        self.problem(f'{self.file}: "{self.prefix}{key}" is {was}, not {expected}; the default is used.')

    def text(self, key: str, limit: int) -> str:
        """A text, or empty."""
        value = self.values.get(key, "")
        if not isinstance(value, str):
            self._wrong(key, "text in quotes")
            return ""
        if len(value) > limit:
            self.problem(f'{self.file}: "{self.prefix}{key}" is over {limit} characters; it is not used.')
            return ""
        return value

    def number(self, key: str, usual: float, low: float, high: float) -> float:
        """A number within its bounds, or the usual one."""
        value = self.values.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(key, "a number")
            return usual
        if not low <= value <= high:
            self.problem(f'{self.file}: "{self.prefix}{key}" is not between {low:g} and {high:g}; {usual:g} is used.')
            return usual
        return value

    def flag(self, key: str) -> bool:
        """True or false; false when nothing is said."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self._wrong(key, "true or false")
            return False
        return value

    def table(self, key: str) -> Mapping[str, Any]:
        """A table, or an empty one."""
        value = self.values.get(key, {})
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        if not (key == "model" and isinstance(value, str)):
            self._wrong(key, f"a table; write [{key}]")
        return {}

    def rest(self, known: set[str]) -> None:
        """Name the keys nobody reads: most often they are misspelt."""
        unknown = [key for key in self.values if key not in known]
        for key in unknown[:_MOST_NAMED]:
            from difflib import get_close_matches

            near = get_close_matches(key[:60], known, 1)
            hint = f'did you mean "{self.prefix}{near[0]}"?' if near else "it does nothing."
            shown = sanitize(key[:60], keep_newlines=False)
            self.problem(f'{self.file}: "{self.prefix}{shown}" is not known: {hint}')
        if len(unknown) > _MOST_NAMED:
            self.problem(f"{self.file}: {len(unknown) - _MOST_NAMED:,} more keys are not known.")
