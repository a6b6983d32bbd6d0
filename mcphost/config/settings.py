"""Parsing of `config.toml`, including shared folders, and overrides by flags and environment variables."""

import os
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Annotated, Any, cast

from mcphost.config.json_files import describe_type
from mcphost.config.profiles import parse_profiles, switch_model
from mcphost.config.rules import Rule
from mcphost.config.schema import (
    AuditConfig,
    BudgetConfig,
    CompactionConfig,
    ConsentConfig,
    ContextConfig,
    HookConfig,
    HostConfig,
    KeyConfig,
    Limits,
    Meta,
    ModelConfig,
    NotificationsConfig,
    ProblemCallback,
    RegistryConfig,
    ResultsConfig,
    RootConfig,
    SamplingConfig,
    SamplingLimits,
    ScreenConfig,
    SecretStore,
    SettingProblem,
    Source,
    TitlesConfig,
)
from mcphost.config.toml_files import TomlTable, find_entry_line
from mcphost.config.value_conversion import InvalidValue, convert_value, settable_fields
from mcphost.errors import ConfigError, UsageError
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct, replace

MAX_ROOTS = 100
MAX_NAME_LENGTH = 200
MAX_PATH_LENGTH = 4_096
WORKSPACE_FOLDER = "${workspaceFolder}"
"""The folder in which mcphost was started, as a root or in a server's `cwd`; the name is VS Code's."""


def parse_roots(entries: Any, file: str, source: Source, on_problem: Callable[[str], None]) -> tuple[RootConfig, ...]:
    """Parse `["~/project", {path = "~/other", name = "other"}]`; invalid entries are reported and skipped.

    In the user's file, paths must be absolute, begin with `~` or be `${workspaceFolder}`. In other files, paths
    relative to the folder of the file are allowed as well.
    """
    roots: list[RootConfig] = []
    listed: list[Any] = cast("list[Any]", entries) if isinstance(entries, list) else [entries]
    if len(listed) > MAX_ROOTS:
        on_problem(f'{file}: "roots" has {len(listed)} folders; the first {MAX_ROOTS} are used.')
    for entry in listed[:MAX_ROOTS]:
        table = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {"path": entry}
        path, name = table.get("path"), table.get("name", "")
        if (
            not isinstance(path, str)
            or not isinstance(name, str)
            or not path
            or "\0" in path
            or len(path) > MAX_PATH_LENGTH
        ):
            on_problem(
                f'{file}: "roots" is a list of folders; {describe_type(cast("Any", entry))} is not one and is left out.'
            )
        elif source == "user" and path != WORKSPACE_FOLDER and not path.startswith(("/", "~")):
            shown = sanitize_line(path, 200)
            on_problem(f"{file}: the folder {shown!r} is not an absolute path and is left out.")
        else:
            if source != "user" and path != WORKSPACE_FOLDER:
                path = os.path.join(os.path.dirname(os.path.abspath(file)), os.path.expanduser(path))
            origin = "started" if path == WORKSPACE_FOLDER else source
            where = "" if source == "user" else file
            roots.append(RootConfig(path, name[:MAX_NAME_LENGTH], origin, where))
    return tuple(roots)


MAX_MODELS = 20
_GENERAL = ("theme", "system_prompt", "profile")
_TABLES = (
    "model",
    "limits",
    "roots",
    "secrets",
    "consent",
    "hooks",
    "audit",
    "budget",
    "ledger",
    "sampling",
    "compaction",
    "titles",
    "results",
    "context",
    "registry",
    "notifications",
    "screen",
    "keys",
    "profiles",
)
_RESTRICTING_TABLES = ("budget", "consent", "hooks")
"""Tables that limit costs or forbid calls; a misspelt name or key is refused, because it would limit nothing."""
MAX_KEYS = 200
MAX_KEYS_OF_ACTION = 5
_KeyName = Annotated[str, Meta(max_length=40)]


class Overrides(Struct, frozen=True, kw_only=True):
    """Values of command-line flags; an empty string or None means that the flag was not given."""

    model: str = ""
    profile: str | None = None
    """Name of a profile, or "" for no profile; None if the flag was not given."""

    api_base: str = ""
    api_key_env: str = ""
    era: str = ""
    timeout: float | None = None
    max_rounds: int | None = None
    max_cost: float | None = None
    """Budget of the turn in US dollars."""


class _SecretsTable(Struct, frozen=True):
    store: SecretStore = ""


def convert_settings(document: dict[str, Any], text: str, file: str, on_problem: ProblemCallback) -> HostConfig:
    """Convert *document*, a parsed config.toml with the content *text*, to a HostConfig.

    An invalid value is reported to *on_problem* and replaced with its default. However, ConfigError is raised for an
    error in a setting that limits costs or forbids calls, and for an invalid hook.
    """
    top = TomlTable(document, file, "", on_problem, text)
    top.refuse_similar(_RESTRICTING_TABLES, (*_GENERAL, *_TABLES))
    name = document.get("model")
    model = ModelConfig(name=name) if isinstance(name, str) else top.get_table("model").read(ModelConfig)
    config = HostConfig(
        **top.read_values(HostConfig, _GENERAL),
        model=model,
        limits=_parse_limits(top.get_table("limits")),
        audit=top.get_table("audit" if "audit" in document else "ledger").read(AuditConfig),  # "ledger" before 0.1
        budget=_parse_budget(top),
        sampling=_parse_sampling(top.get_table("sampling")),
        compaction=top.get_table("compaction").read(CompactionConfig),
        titles=top.get_table("titles").read(TitlesConfig),
        results=top.get_table("results").read(ResultsConfig),
        context=top.get_table("context").read(ContextConfig),
        registry=top.get_table("registry").read(RegistryConfig),
        notifications=top.get_table("notifications").read(NotificationsConfig),
        screen=top.get_table("screen").read(ScreenConfig),
        keys=_parse_keys(top.get_table("keys"), text),
        roots=parse_roots(document["roots"], file, "user", lambda text: on_problem(SettingProblem(text, "roots")))
        if "roots" in document
        else None,
        secret_store=top.get_table("secrets").read(_SecretsTable).store,
        hooks=_parse_hooks(document.get("hooks", []), file, text),
        never_rules=_parse_never_rules(top.get_table("consent")),
        consent=ConsentConfig(**top.get_table("consent").read_values(ConsentConfig, ("origins",))),
        profiles=parse_profiles(top.get_table("profiles"), model),
    )
    top.report_unknown((*_GENERAL, *_TABLES))
    return config


def apply_overrides(config: HostConfig, overrides: Overrides, environ: Mapping[str, str]) -> HostConfig:
    """Return *config* with the values from flags and environment variables applied; flags take precedence.

    A timeout given as a flag also replaces the timeouts of individual servers, so that it limits every request.
    """
    name = overrides.model or environ.get("MCPHOST_MODEL", "")
    model = config.model
    if name:
        model = switch_model(model, name)
    base = overrides.api_base or environ.get("MCPHOST_API_BASE", "") or model.api_base
    if base != model.api_base:
        model = replace(model, api_base=base, api_key_env="", headers={})  # they are for the previous address
    model = replace(model, api_key_env=overrides.api_key_env or model.api_key_env)
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
    budget = config.budget
    if overrides.max_cost is not None:
        budget = replace(budget, per_turn=overrides.max_cost)
    if overrides.era:
        servers = tuple(replace(server, era=overrides.era, revision=None) for server in servers)
    return replace(config, model=model, limits=limits, budget=budget, servers=servers)


def _parse_hooks(entries: Any, file: str, text: str) -> tuple[HookConfig, ...]:
    if entries == []:
        return ()
    from mcphost.config.hooks import parse_hooks  # few configurations have hooks

    return parse_hooks(entries, file, text)


def _parse_limits(table: TomlTable) -> Limits:
    keys = [key for key in settable_fields(Limits) if key != "includes_user_time"]
    table.report_unknown(keys)
    return Limits(**table.read_values(Limits, keys))


def _parse_budget(top: TomlTable) -> BudgetConfig:
    """Parse `[budget]`. Raises ConfigError for an invalid value or unknown key, because the default is no limit."""
    problems: list[str] = []
    table = TomlTable(top.values, top.file, top.prefix, problems.append, top.text).get_table("budget")
    keys = tuple(settable_fields(BudgetConfig))
    budget = BudgetConfig(**table.read_values(BudgetConfig, keys))
    if problems:
        reason = problems[0].partition("; the default")[0].partition("; write [")[0]
        raise ConfigError(f"{reason}.", "Correct it: amounts in US dollars under [budget], such as per_day = 5.")
    table.refuse_unknown(keys)
    return budget


def _parse_sampling(table: TomlTable) -> SamplingConfig:
    """Parse sampling limits and models such as `models = ["anthropic/…", {name = "openai/x", api_base = "…"}]`."""
    keys = tuple(settable_fields(SamplingLimits))
    table.report_unknown((*keys, "models"))
    entries = table.values.get("models", [])
    models: list[ModelConfig] = []
    for number, entry in enumerate(cast("list[Any]", entries if isinstance(entries, list) else [entries]), 1):
        if number > MAX_MODELS:
            break
        values = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(values, dict):
            table.on_problem(
                SettingProblem(
                    f'{table.file}: "sampling.models" is a list of models; {describe_type(values)} is left out.',
                    "sampling.models",
                )
            )
            continue
        prefix = f"sampling.models[{number}]"
        model = TomlTable(cast("dict[str, Any]", values), table.file, f"{prefix}.", table.on_problem).read(ModelConfig)
        if model.name:
            models.append(model)
        else:
            table.on_problem(
                SettingProblem(f'{table.file}: "{prefix}" has no name and is left out.', "sampling.models")
            )
    limits = SamplingLimits(**table.read_values(SamplingLimits, keys))
    return SamplingConfig(limits=limits, models=tuple(models))


def _parse_keys(table: TomlTable, text: str) -> tuple[KeyConfig, ...]:
    """Parse key bindings such as `theme = "ctrl+k"` and `history = ["f6", "alt+h"]`; skip and report invalid ones."""
    if len(table.values) > MAX_KEYS:
        table.on_problem(f'{table.file}: "keys" has over {MAX_KEYS} entries; the others are left out.')
    found: list[KeyConfig] = []
    for action, value in islice(table.values.items(), MAX_KEYS):
        try:
            keys = convert_value([value] if isinstance(value, str) else value, tuple[_KeyName, ...])
        except InvalidValue:
            keys = None
        if keys is None or len(keys) > MAX_KEYS_OF_ACTION:
            name, line = sanitize_line(action, 60), find_entry_line(text, "keys", action)
            table.on_problem(
                SettingProblem(
                    f'{table.file}, line {line}: "{name}" is not a key nor a list of at most {MAX_KEYS_OF_ACTION}; '
                    'write "ctrl+k" or ["f6", "alt+h"].',
                    "keys",
                )
            )
        else:
            found.append(KeyConfig(action, keys))
    return tuple(found)


def _parse_never_rules(table: TomlTable) -> tuple[Rule, ...]:
    """Parse rules for calls that are always refused, such as `never = ["fs/delete*", "git/push?force=true"]`.

    Raises ConfigError for an invalid rule or unknown key, because skipping it would allow a call that the user meant to
    forbid.
    """
    table.refuse_unknown(("never", *settable_fields(ConsentConfig)))
    if "never" not in table.values:
        return ()
    from mcphost.config.rule_syntax import SYNTAX_HINT, parse_alternatives, prohibit_origins

    try:
        texts = cast("tuple[str, ...]", convert_value(table.values["never"], tuple[str, ...]))
        return tuple(
            replace(prohibit_origins(rule), written=text) for text in texts for rule in parse_alternatives(text)
        )
    except InvalidValue as error:
        raise ConfigError(
            f'{table.locate("never")}: "consent.never" is not a list of rules.', f"Correct it. {SYNTAX_HINT}"
        ) from error
    except UsageError as error:
        raise ConfigError(f'{table.locate("never")}: in "consent.never": {error.message}', error.hint) from error
