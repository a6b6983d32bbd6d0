"""Settings that can change while the program runs, such as limits, the budget and notifications."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from mcphost.config.schema import HostConfig
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct
from mcphost.translation import N_

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
)
"""Sections of config.toml whose changes take effect as soon as the user applies them."""

LISTS = ("roots", "sampling.models")
"""Settings that are lists, whose items are compared; a changed one has an item as one of its values, else None."""
_LISTING_FIELDS = ("roots", "project_roots", "keys")
_LIMITING_SECTIONS = ("limits", "budget", "results", "sampling")
_WIDENING_VALUES = {"compaction.mode": "auto", "titles.mode": "model", "consent.origins": "mark"}
"""Values with which mcphost sends texts of a conversation to a model, or runs calls, without asking."""
_MODEL_NAMES = ("compaction.model", "titles.model")
"""Settings that name the model to which these texts are sent; "" is the selected model, which has them anyway."""
_SEPARATE = "context.project_instructions"
"""A setting that is compared and applied on its own; see ConfigChanges."""


class RuntimeSettings:
    """The current values of the settings; components read them here each time they need them."""

    def __init__(self, config: HostConfig) -> None:
        self.use(config)

    def use(self, config: HostConfig) -> None:
        """Take all values from *config*; what is already running, such as a connection, keeps using the old ones."""
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


class SettingChange(Struct, frozen=True):
    """A changed setting; its name includes the section, as in "limits.max_rounds", unless it is one of the LISTS.

    The value of a key is None if the action has its default keys.
    """

    name: str
    before: Any
    after: Any

    @property
    def allows_more(self) -> bool:
        """Whether the change raises or removes a limit, or lets mcphost do more without asking."""
        section = self.name.partition(".")[0]
        if self.name in LISTS:
            return self.after is not None
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
        """Return the setting as in "limits.max_rounds = 5"; the word for a default value is translated."""
        return f"{self.name} = {format_setting(self.after, translate)}"

    @property
    def deletes_results(self) -> bool:
        """Whether the change lowers a limit above which stored tool results are deleted."""
        return self.name.startswith("results.") and self.after < self.before


def compare_settings(old: HostConfig, new: HostConfig) -> tuple[SettingChange, ...]:
    """Return each setting in LIVE_SECTIONS whose value differs between two configurations, but none of the LISTS."""
    sections = (
        SettingChange(f"{section}.{name}", before, after)
        for section in LIVE_SECTIONS
        for name in _get_section(new, section).__struct_fields__
        if f"{section}.{name}" != _SEPARATE
        and (before := getattr(_get_section(old, section), name))
        != (after := getattr(_get_section(new, section), name))
    )
    return (*sections, *_compare_keys(old, new))


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


def format_setting(value: Any, translate: Callable[[str], str] = str, limit: int = 200) -> str:
    """Return a setting's value as written in config.toml, but without quotes.

    Text is sanitized, and cut off after *limit* characters. None is the word for a default value, translated with
    *translate*.
    """
    if value is None:
        return translate(N_("default"))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = f"[{', '.join(map(str, cast('tuple[object, ...]', value)))}]"
    return f"{value:.15g}" if isinstance(value, int | float) else sanitize(str(value)[:limit], keep_newlines=False)
