"""Differences between the configuration in use and the files, and their description for the user and the audit log."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast

from mcphost.config.schema import HookConfig, HostConfig, ModelConfig, ServerConfig
from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.config.value_conversion import settable_fields
from mcphost.host.runtime_settings import LISTS, SettingChange, format_setting
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct, replace
from mcphost.translation import N_

_MAX_NAMES_SHOWN = 10


class ConfigChanges(Struct, frozen=True, kw_only=True):
    """Differences between the configuration in use and `config`, the current content of the files.

    `problems` are new problems with the files; `at_start` are changed settings that take effect only after a restart.
    """

    config: HostConfig
    added: tuple[ServerConfig, ...] = ()
    changed: tuple[tuple[ServerConfig, ServerConfig], ...] = ()
    """Pairs of the configuration in use and the one in the files.

    If the environment file of a started server changed, both configurations of the pair contain a digest of the file's
    content and the names of its variables.
    """

    removed: tuple[str, ...] = ()
    model: ModelConfig | None = None
    model_before: ModelConfig = ModelConfig()
    """The model in use, which `model` replaces."""

    system_prompt: str | None = None
    never_added: tuple[str, ...] = ()
    never_removed: tuple[str, ...] = ()
    hooks_added: tuple[HookConfig, ...] = ()
    """New hooks, or all of them if only their order changed."""

    hooks_removed: tuple[HookConfig, ...] = ()
    profiles: tuple[str, ...] = ()
    """Names of added, changed and removed profiles."""

    project_instructions: bool | None = None
    theme: str | None = None
    settings: tuple[SettingChange, ...] = ()
    """Changed settings of the LIVE_SECTIONS and LISTS, except `at_start`."""

    at_start: tuple[SettingChange, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def can_apply(self) -> bool:
        """Whether any of the changes can be applied without a restart."""
        return bool(self.added) or self.theme is not None or self.needs_confirmation

    @property
    def is_empty(self) -> bool:
        """Whether the files match the configuration in use and have no new problems."""
        return not (self.can_apply or self.at_start or self.problems)

    @property
    def needs_confirmation(self) -> bool:
        """Whether applying the changes needs the user's confirmation.

        A change of the theme needs none. Neither do added servers, because the user must approve each before it
        starts.
        """
        has_settings = any(one is not None for one in (self.model, self.system_prompt, self.project_instructions))
        has_rules = bool(self.never_added or self.never_removed or self.hooks_added or self.hooks_removed)
        return bool(self.changed or self.removed or self.settings or self.profiles) or has_rules or has_settings

    @property
    def blocks_profile_change(self) -> bool:
        """Whether choosing another profile now would apply some of these changes without the user's confirmation.

        The user must therefore confirm or revert the changes first.
        """
        return replace(self, settings=()).needs_confirmation

    def describe(self, translate: Callable[[str], str] = str) -> tuple[str, ...]:
        """Return one line for each kind of change that can be applied, translated with *translate*."""
        return _describe_changes(self, translate)


def _describe_changes(changes: ConfigChanges, translate: Callable[[str], str]) -> tuple[str, ...]:
    """Return one line for each kind of change that can be applied, translated with *translate*."""
    names: tuple[tuple[str, Iterable[str]], ...] = (
        (N_("add {names}"), [server.name for server in changes.added]),
        (N_("change {names}"), [new.name for old, new in changes.changed if old.disabled == new.disabled]),
        (N_("enable {names}"), [new.name for old, new in changes.changed if old.disabled and not new.disabled]),
        (N_("disable {names}"), [new.name for old, new in changes.changed if new.disabled and not old.disabled]),
        (N_("remove {names}"), changes.removed),
        (N_("use the model {names}"), _describe_other_model(changes.model_before, changes.model, translate)),
        (
            N_("change the model's settings: {names}"),
            [f"{name}: {change}" for name, change in list_model_settings(changes.model_before, changes.model)],
        ),
        (N_("another system prompt"), ("",) if changes.system_prompt is not None else ()),
        (N_("forbid {names}"), changes.never_added),
        (N_("no longer forbid {names}"), changes.never_removed),
        (N_("run the hook {names}"), [hook.name for hook in changes.hooks_added]),
        (N_("no longer run the hook {names}"), [hook.name for hook in changes.hooks_removed]),
        (
            N_("change the profile {names}") if len(changes.profiles) == 1 else N_("change the profiles {names}"),
            changes.profiles,
        ),
        (N_("use the project's instructions"), ("",) if changes.project_instructions else ()),
        (N_("no longer use the project's instructions"), ("",) if changes.project_instructions is False else ()),
        (N_("add the folder {names}"), _list_changed(changes, "roots", "after")),
        (N_("remove the folder {names}"), _list_changed(changes, "roots", "before")),
        (N_("allow sampling with {names}"), _list_changed(changes, "sampling.models", "after")),
        (N_("no longer allow sampling with {names}"), _list_changed(changes, "sampling.models", "before")),
        ("{names}", [one.describe(translate) for one in changes.settings if one.name not in LISTS]),
        (N_("the theme {names}"), [changes.theme or translate(N_("default"))] if changes.theme is not None else ()),
    )
    return tuple(translate(template).format(names=_join_names(shown, translate)) for template, shown in names if shown)


def _list_changed(changes: ConfigChanges, name: str, side: Literal["before", "after"]) -> list[str]:
    """Return the items that were added to or removed from *name*, a setting that is a list.

    *side* is "after" for the added items, or "before" for the removed ones.
    """
    items = (getattr(one, side) for one in changes.settings if one.name == name)
    return [format_setting(item) for item in items if item is not None]


def list_for_audit(changes: ConfigChanges) -> list[str]:
    """Return a line for each applied change, with the old and the new value, without secrets."""
    lines: list[str] = []
    for change in changes.settings:
        before, after = (format_setting(value) for value in (change.before, change.after))
        item = f"+ {after}" if change.after is not None else f"- {before}"
        lines.append(f"{change.name}: {item if change.name in LISTS else f'{before} → {after}'}")
    if changes.model is not None:
        before, after = (_describe_model(one, str) for one in (changes.model_before, changes.model))
        lines += [f"model: {before} → {after}"] if before != after else []
        lines += [f"model.{name}: {text}" for name, text in list_model_settings(changes.model_before, changes.model)]
    for old, new in changes.changed:
        before, after = _describe_target(old), _describe_target(new)
        fields = [name for name in new.__struct_fields__ if getattr(old, name) != getattr(new, name)]
        lines.append(f"server {new.name}: {f'{before} → {after}' if before != after else ', '.join(fields)}")
    lines += [f"server {name}: removed" for name in changes.removed]
    lines += [f"server {server.name}: added" for server in changes.added]
    lines += [f"consent.never: + {rule}" for rule in changes.never_added]
    lines += [f"consent.never: - {rule}" for rule in changes.never_removed]
    lines += [f"hooks: + {hook.name}" for hook in changes.hooks_added]
    lines += [f"hooks: - {hook.name}" for hook in changes.hooks_removed]
    lines += [f"profiles: {name}" for name in changes.profiles]
    lines += ["system_prompt"] if changes.system_prompt is not None else []
    if changes.project_instructions is not None:
        lines.append(f"context.project_instructions: {format_setting(changes.project_instructions)}")
    return [_clean(line) for line in lines]


def _describe_target(server: ServerConfig) -> str:
    state = " (disabled)" if server.disabled else ""
    return f"{' '.join(masked_argv(server)) if server.is_stdio else masked_url(server)}{state}"


def _join_names(names: Iterable[str], translate: Callable[[str], str]) -> str:
    listed = [_clean(name) for name in names]
    shown, more = translate(N_(", ")).join(listed[:_MAX_NAMES_SHOWN]), len(listed) - _MAX_NAMES_SHOWN
    return translate(N_("{shown} and {more} more")).format(shown=shown, more=more) if more > 0 else shown


def _describe_model(model: ModelConfig, translate: Callable[[str], str]) -> str:
    name = model.name or translate(N_("none"))
    if not model.api_base:
        return name
    return translate(N_("{name} at {address}")).format(name=_clean(name), address=model.api_base)


def _describe_other_model(
    before: ModelConfig, model: ModelConfig | None, translate: Callable[[str], str]
) -> tuple[str, ...]:
    """Return a tuple with one text that names the new model and the one it replaces.

    The tuple is empty if *model* is None, or if it has the same name and API base URL as *before*.
    """
    if model is None or (model.name, model.api_base) == (before.name, before.api_base):
        return ()
    shown = _describe_model(model, translate)
    if not before.name:
        return (shown,)
    old = _clean(_describe_model(before, translate))
    return (translate(N_("{new} instead of {old}")).format(new=_clean(shown), old=old),)


def list_model_settings(before: ModelConfig, model: ModelConfig | None) -> tuple[tuple[str, str], ...]:
    """Return a pair for each changed setting of the model: its name and a text such as "1 → 2".

    The model's name and API base URL are left out. Returns an empty tuple if *model* is None. For HTTP headers, whose
    values may be secrets, only the names of the headers are included.
    """
    if model is None:
        return ()
    fields = [field for field in settable_fields(ModelConfig) if field not in ("name", "api_base")]
    return tuple(
        (field, f"{_show_value(getattr(before, field))} → {_show_value(getattr(model, field))}")
        for field in fields
        if getattr(before, field) != getattr(model, field)
    )


def format_sampling_model(model: ModelConfig) -> str:
    """Return the model's name and all of its settings as text, without the values of HTTP headers."""
    address = f" at {model.api_base}" if model.api_base else ""
    settings = [f"{name}: {change}" for name, change in list_model_settings(ModelConfig(), model)]
    return "; ".join((f"{model.name}{address}", *settings))


def _show_value(value: Any) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(cast("Mapping[str, str]", value))
    return "–" if value in (None, "", 0) else format_setting(value)


def _clean(text: str) -> str:
    return sanitize_line(text, 200)
