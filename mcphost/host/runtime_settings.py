"""Settings that can change while the program runs, such as limits, the budget and notifications."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from mcphost.config.schema import HostConfig, SecretStore, SettingProblem
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct, replace
from mcphost.translation import N_

T = TypeVar("T", bound=Struct)
LIVE_SECTIONS = (
    "limits",
    "budget",
    "registry",
    "notifications",
    "compaction",
    "context",
    "titles",
    "results",
    "sampling",
    "consent",
    "screen",
    "audit",
)
"""Sections of config.toml whose changes take effect as soon as the user applies them, except AFTER_RESTART."""

AFTER_RESTART: Mapping[str, str] = {
    "screen.reader": N_("The screen is built for a screen reader, or not, when mcphost starts."),
    "screen.language": N_("Texts that are already on the screen would stay in the other language."),
    "audit.required": N_("Actions that could not be recorded must not run without a record later in the same run."),
    "secrets.store": N_(
        "Sign-ins and keys stay in the place that this run already uses, and are not moved to another one."
    ),
}
"""Settings whose changes take effect only after a restart, each with the reason; see `SettingChange.restart_reason`."""

LISTS = ("roots", "sampling.models")
"""Settings that are lists; each added or removed item counts as a change of its own (see SettingChange)."""
_LISTING_FIELDS = ("roots", "project_roots", "keys", "secret_store")
_LIMITING_SECTIONS = ("limits", "budget", "results", "sampling")
_WIDENING_VALUES: Mapping[str, Any] = {
    "compaction.mode": "auto",
    "titles.mode": "model",
    "consent.origins": "mark",
    "audit.content": True,
}
"""Values with which mcphost sends texts to a model, runs calls or stores texts, without asking each time."""
_SOURCES = ("registry.url",)
"""Settings that name a source of servers to install; no value is safer than another."""
_MODEL_NAMES = ("compaction.model", "titles.model")
"""Settings that name a model to which messages are sent; "" is the selected model, which receives them in any case."""
_FIELDS: Mapping[str, str] = {"ledger": "audit", "secrets": "secret_store"}
"""Tables of config.toml whose fields of HostConfig have another name."""
_SEPARATE = "context.project_instructions"
"""A setting that is compared and applied on its own; see ConfigChanges."""


class RuntimeSettings:
    """The current values of the settings.

    For changes to take effect, components must read a setting from this object each time they use the setting.
    """

    def __init__(self, config: HostConfig) -> None:
        self.screen, self.audit, self.secret_store = config.screen, config.audit, config.secret_store
        self.use(config)

    def use(self, config: HostConfig) -> None:
        """Use the settings in *config* from now on, except those that take effect only after a restart.

        Work that has already begun, such as an open connection, keeps using the old values.
        """
        self.screen = _keep_until_restart("screen", self.screen, config.screen)
        self.audit = _keep_until_restart("audit", self.audit, config.audit)
        self.limits = config.limits
        self.budget = config.budget
        self.registry = config.registry
        self.notifications = config.notifications
        self.compaction = config.compaction
        self.context = config.context
        self.titles = config.titles
        self.results = config.results
        self.sampling = config.sampling
        self.consent = config.consent
        self.keys = config.keys
        self.profile = config.profile

    def note_secret_store(self, place: SecretStore) -> None:
        """Record that secrets are now stored in *place*, because mcphost itself has just changed this setting.

        The changed value in config.toml then does not count as a change when the file is read again.
        """
        self.secret_store = place

    def apply_to(self, config: HostConfig) -> HostConfig:
        """Return *config* with the values in use for settings that take effect only after a restart (AFTER_RESTART).

        The sections `screen` and `audit` are replaced as a whole, and so is the secret storage.
        """
        return replace(config, screen=self.screen, audit=self.audit, secret_store=self.secret_store)


def _keep_until_restart(section: str, before: T, after: T) -> T:
    """Return the new section *after*, but with the values of *before* for settings that need a restart.

    *section* is the name of the section; see AFTER_RESTART.
    """
    changes = _compare_section(section, before, after)
    kept = {change.name.partition(".")[2]: change.before for change in changes if change.restart_reason}
    return replace(after, **kept)


class SettingChange(Struct, frozen=True):
    """A changed setting, with its values before and after the change.

    `name` includes the section, as in "limits.max_rounds". For one of the LISTS, such as "roots", there is a change
    for each added item, whose `before` is None, and for each removed item, whose `after` is None. For a key binding,
    None means the default keys. For "secrets.store", None means that no storage has been chosen.
    """

    name: str
    before: Any
    after: Any

    @property
    def allows_more(self) -> bool:
        """Whether the change raises or removes a limit, lets mcphost do more without asking, or trusts a new source."""
        section = self.name.partition(".")[0]
        if self.name in LISTS:
            return self.after is not None
        if self.name in _SOURCES:
            return True
        if self.name in _WIDENING_VALUES:
            return self.after == _WIDENING_VALUES[self.name]
        if self.name in _MODEL_NAMES:
            return bool(self.after)
        if section not in _LIMITING_SECTIONS or isinstance(self.after, bool):
            return False
        if section == "budget":  # 0 means no limit
            return bool(self.before) and (not self.after or self.after > self.before)
        return bool(self.after > self.before)

    def describe(self, translate: Callable[[str], str] = str) -> str:
        """Return the setting with its new value as text, such as "limits.max_rounds = 5".

        A default value is shown as "default", translated with *translate*.
        """
        return f"{self.name} = {format_setting(self.after, translate)}"

    @property
    def restart_reason(self) -> str:
        """The reason why the change takes effect only after a restart, as a sentence; "" if it can be applied now."""
        if self.name == "audit.required" and self.after:
            return ""  # only switching it off is delayed
        return AFTER_RESTART.get(self.name, "")

    @property
    def deletes_results(self) -> bool:
        """Whether the change lowers a limit above which stored tool results are deleted."""
        return self.name.startswith("results.") and self.after < self.before


def compare_settings(old: HostConfig, new: HostConfig) -> tuple[SettingChange, ...]:
    """Return a change for each setting that differs between two configurations.

    Covers LIVE_SECTIONS, key bindings and the secret storage. For the LISTS, see `compare_roots` and
    ConfigChangeDetector.
    """
    changes = [
        change
        for section in LIVE_SECTIONS
        for change in _compare_section(section, _get_section(old, section), _get_section(new, section))
    ]
    changes += _compare_keys(old, new)
    if old.secret_store != new.secret_store:
        changes.append(SettingChange("secrets.store", old.secret_store or None, new.secret_store or None))
    return tuple(changes)


def _compare_section(section: str, before: Struct, after: Struct) -> Iterator[SettingChange]:
    for field in after.__struct_fields__:
        values, name = (getattr(before, field), getattr(after, field)), f"{section}.{field}"
        if values[0] != values[1] and name != _SEPARATE:
            yield SettingChange(name, *values)


def _compare_keys(old: HostConfig, new: HostConfig) -> Iterator[SettingChange]:
    before, after = ({one.action: one.keys for one in config.keys} for config in (old, new))
    for action in dict.fromkeys((*before, *after)):
        if before.get(action) != after.get(action):
            yield SettingChange(f"keys.{action}", before.get(action), after.get(action))


def _get_section(config: HostConfig, name: str) -> Any:
    return config.sampling.limits if name == "sampling" else getattr(config, name)


def keep_settings(old: HostConfig) -> dict[str, Any]:
    """Return the fields of *old* that `compare_settings` and `compare_roots` compare, keyed by name."""
    return {name: getattr(old, name) for name in (*LIVE_SECTIONS, *_LISTING_FIELDS)}


def keep_invalid_settings(new: HostConfig, old: HostConfig) -> HostConfig:
    """Return *new* with the values of *old* for the settings that have an error in config.toml."""
    for problem in new.problems:
        if isinstance(problem, SettingProblem):
            new = _keep_setting(new, old, *problem.setting.split(".", 1))
    return new


def _keep_setting(new: HostConfig, old: HostConfig, section: str, key: str = "") -> HostConfig:
    if section == "sampling":
        sampling = old.sampling
        if key in sampling.limits.__struct_fields__:
            sampling = replace(new.sampling, limits=_keep_field(new.sampling.limits, sampling.limits, key))
        elif key:  # such as "models[1].name"
            sampling = replace(new.sampling, models=sampling.models)
        return replace(new, sampling=sampling)
    field = _FIELDS.get(section, section)
    before, after = getattr(old, field), getattr(new, field)
    # Headers and keys are for one address only.
    is_same_model = (new.model.name, new.model.api_base) == (old.model.name, old.model.api_base)
    is_kept_alone = isinstance(after, Struct) and key in after.__struct_fields__ and (field != "model" or is_same_model)
    return replace(new, **{field: _keep_field(after, before, key) if is_kept_alone else before})


def _keep_field(new: T, old: T, key: str) -> T:
    return replace(new, **{key: getattr(old, key)})


def describe_kept_setting(problem: str) -> str:
    """Return a message for the user about *problem*, found in config.toml while mcphost is running.

    At startup, an invalid setting is replaced by its default. While mcphost is running, the value in use is kept,
    and the message says so.
    """
    if not isinstance(problem, SettingProblem):
        return problem
    text, default, _rest = problem.partition("; the default")
    return f"{text}; the value in use is kept." if default else f"{text} The value in use is kept."


def format_setting(value: Any, translate: Callable[[str], str] = str, limit: int = 200) -> str:
    """Return a setting's value as written in config.toml, but without quotes.

    Text is sanitized, and cut off after *limit* characters. None is shown as "default", translated with
    *translate*.
    """
    if value is None:
        return translate(N_("default"))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = f"[{', '.join(map(str, cast('tuple[object, ...]', value)))}]"
    return f"{value:.15g}" if isinstance(value, int | float) else sanitize_line(str(value), limit)
