"""Profiles: named sets of settings in config.toml, of which at most one is active.

[profiles.review]
description = "Careful reviews, read-only servers"
model = {name = "anthropic/claude-opus-4-5", temperature = 0}
system_prompt = "You review code."
servers = ["git", "files"]
"""

from collections.abc import Iterable
from typing import cast

from mcphost.config.schema import HostConfig, ModelConfig, Profile, ServerConfig
from mcphost.config.toml_files import TomlTable
from mcphost.config.value_conversion import settable_fields
from mcphost.errors import UsageError
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.serialization import replace

MAX_PROFILES = 100
_MAX_NAMES_SHOWN = 20
_KEYS = ("description", "model", "system_prompt", "servers")


def parse_profiles(table: TomlTable, default: ModelConfig) -> tuple[Profile, ...]:
    """Parse the `[profiles.NAME]` tables; invalid values are reported and ignored.

    If a profile has model settings but does not name a model, the settings are applied to the *default* model.
    """
    if len(table.values) > MAX_PROFILES:
        table.on_problem(f"{table.file}: {len(table.values)} profiles; the first {MAX_PROFILES} are used.")
    profiles: list[Profile] = []
    for name in list(table.values)[:MAX_PROFILES]:
        own = table.get_table(name)
        own.report_unknown(_KEYS)
        values = own.read_values(Profile, ("description", "system_prompt", "servers"))
        model = _parse_model(own, default) if "model" in own.values else None
        profiles.append(Profile(name=name, model=model, **values))
    return tuple(profiles)


def _parse_model(table: TomlTable, default: ModelConfig) -> ModelConfig:
    value = table.values["model"]
    if isinstance(value, str):
        return switch_model(default, value)
    model = table.get_table("model")
    keys = tuple(settable_fields(ModelConfig))
    model.report_unknown(keys)
    values = model.read_values(ModelConfig, keys)
    base = switch_model(default, cast("str", values.pop("name", "")) or default.name)
    if values.get("api_base", base.api_base) != base.api_base:
        base = replace(base, headers={}, api_key_env="")  # headers may contain a secret for the previous address
    return replace(base, **values)


def switch_model(model: ModelConfig, name: str) -> ModelConfig:
    """Return *model* under another name, without the settings that do not apply to the new model.

    A URL or key configured for one provider is never used for another one.
    """
    if name == model.name:
        return model
    if model.name and model.name.partition("/")[0] != name.partition("/")[0]:
        return ModelConfig(name=name)
    return replace(
        model,
        name=name,
        context_window=0,
        max_output_tokens=0,
        input_price=None,
        output_price=None,
        cached_input_price=None,
        tools="auto",
    )


def find_profile(config: HostConfig, name: str) -> Profile:
    """Return the profile with the given name. Raises UsageError if there is none."""
    found = next((profile for profile in config.profiles if profile.name == name), None)
    if found is None:
        names = ", ".join(profile.name for profile in config.profiles[:_MAX_NAMES_SHOWN])
        known = f"Profiles there: {sanitize(names, keep_newlines=False)}." if names else "It has no [profiles.NAME]."
        raise UsageError(f"{config.settings_file} has no profile {name!r}.", known)
    return found


def apply_profile(config: HostConfig, name: str) -> HostConfig:
    """Return the configuration with the settings of the named profile, or without a profile if *name* is "".

    If the profile lists servers, all other servers are disabled. Raises UsageError for an unknown profile.
    """
    if not name:
        return replace(config, profile="")
    profile = find_profile(config, name)
    problems = list(config.problems)
    servers = config.servers
    if profile.servers is not None:
        servers = tuple(_exclude_unlisted(servers, profile.name, frozenset(profile.servers)))
        known = {server.name for server in servers}
        if unknown := [one for one in profile.servers if one not in known]:
            names = ", ".join(sanitize_line(one, 60) for one in unknown[:_MAX_NAMES_SHOWN])
            problems.append(f"{config.settings_file}: profile {name!r} lists servers that are not configured: {names}.")
    return replace(
        config,
        profile=name,
        model=profile.model if profile.model is not None else config.model,
        system_prompt=profile.system_prompt if profile.system_prompt is not None else config.system_prompt,
        servers=servers,
        problems=tuple(problems),
    )


def _exclude_unlisted(servers: Iterable[ServerConfig], profile: str, listed: frozenset[str]) -> Iterable[ServerConfig]:
    for server in servers:
        is_listed = server.name in listed
        yield server if is_listed or server.disabled else replace(server, disabled=True, excluded_by=profile)
