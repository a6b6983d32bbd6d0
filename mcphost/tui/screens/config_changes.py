"""Screen for reviewing changes in the configuration files and applying all of them at once."""

from collections.abc import Sequence
from shlex import join
from typing import TYPE_CHECKING, Any, ClassVar, cast

from mcphost.host.runtime_settings import format_setting
from mcphost.translation import N_, _, join_list
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs

if TYPE_CHECKING:
    from mcphost.config.schema import HookConfig, ServerConfig
    from mcphost.host.config_changes import ConfigChanges
    from mcphost.host.runtime_settings import SettingChange

_SECRET_FIELDS = ("env", "headers")
"""Fields that may contain secrets; only the names of their members are shown."""


class ConfigChangesScreen(ListScreen):
    """List of configuration changes; its result is a ConfigChanges, or None if the user cancels.

    The caller applies the changes.
    """

    TITLE_TEXT: ClassVar[str] = N_("Changes in the configuration files")
    EMPTY_TEXT: ClassVar[str] = N_("Nothing changed.")
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("^S", N_("apply all"), "screen.apply"),)
    BINDINGS: ClassVar[list[Any]] = [("ctrl+s", "apply", "")]

    def __init__(self, changes: "ConfigChanges") -> None:
        super().__init__()
        self._changes = changes
        self.add_class("bare")

    def load(self) -> Sequence[ListRow]:
        """Return a row for each change."""
        changes = self._changes
        rows = [ListRow(_server_facts(server), server.name, _("new server"), "+") for server in changes.added]
        rows += [
            ListRow(_compare_servers(old, new), new.name, _("changed server"), "~", "$warning")
            for old, new in changes.changed
        ]
        rows += [ListRow([(_("server"), name)], name, _("removed server"), "-", "$error") for name in changes.removed]
        if changes.model is not None:
            model = changes.model
            facts = [
                (_("model"), model.name or _("none")),
                (_("address"), model.api_base),
                (_("key from"), model.api_key_env),
            ]
            rows.append(ListRow(facts, model.name or _("no model"), _("model"), "~", "$warning"))
        if changes.system_prompt is not None:
            text = changes.system_prompt or _("the default")
            rows.append(ListRow([(_("system prompt"), text)], _("System prompt"), text, "~", "$warning"))
        if changes.project_instructions is not None:
            text = _("are used once approved") if changes.project_instructions else _("are no longer read")
            title = _("Instructions of the project")
            rows.append(ListRow([(title, text)], title, text, "~", "$warning"))
        rows += [ListRow([(_("never"), rule)], rule, _("new never-rule"), "+") for rule in changes.never_added]
        rows += [
            ListRow([(_("never"), rule)], rule, _("removed never-rule"), "-", "$error")
            for rule in changes.never_removed
        ]
        rows += [ListRow(_hook_facts(hook), hook.name, _("new hook"), "+") for hook in changes.hooks_added]
        rows += [
            ListRow(_hook_facts(hook), hook.name, _("removed hook"), "-", "$error") for hook in changes.hooks_removed
        ]
        rows += [_setting_row(change) for change in changes.settings]
        if changes.theme is not None:
            rows.append(
                ListRow([(_("theme"), changes.theme or _("default"))], _("Theme"), changes.theme or _("default"), "~")
            )
        return rows

    def show_details(self, row: ListRow) -> None:
        """Show the details of a change, such as the old and new value of each field."""
        self.show_about(clean_pairs(row.value))

    def action_apply(self) -> None:
        """Close the screen with all changes as its result; the caller then applies them."""
        self.dismiss(self._changes)


def _setting_row(change: "SettingChange") -> ListRow:
    text = f"{format_setting(change.before)} → {format_setting(change.after)}"
    if change.allows_more:
        text = _("{change} · allows more").format(change=text)
    return ListRow([(change.name, text)], change.name, text, "~", "$error" if change.allows_more else "$warning")


def _server_facts(server: "ServerConfig") -> list[tuple[str, str]]:
    return [
        (_("file"), server.file),
        (_("command"), join(server.argv) if server.is_stdio else ""),
        (_("URL"), server.url),
        (_("variables"), join_list(server.env)),
        (_("headers"), join_list(server.headers)),
        (_("approval"), _("asked before it starts, unless you approved exactly this")),
    ]


def _hook_facts(hook: "HookConfig") -> list[tuple[str, str]]:
    settings = hook.settings
    return [
        (_("event"), settings.event),
        (_("command"), " ".join(settings.command)),
        (_("folder"), hook.folder),
        (_("calls"), join_list(settings.match) or _("all")),
        (_("timeout"), _("{seconds:g} s").format(seconds=settings.timeout)),
        (_("on failure"), settings.on_failure),
    ]


def _compare_servers(old: "ServerConfig", new: "ServerConfig") -> list[tuple[str, str]]:
    """Return name-value pairs for the server's file and each changed field, without secret values."""
    pairs = [(_("file"), new.file)]
    for name in new.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if name in _SECRET_FIELDS:
            changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
            pairs.append((name, _("changed: {changed}").format(changed=join_list(changed))))
        elif name == "oauth":
            pairs.append((name, _("changed")))
        else:
            pairs.append((name.replace("_", " "), f"{_show(before)} → {_show(after)}"))
    return pairs


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, cast("tuple[object, ...]", value))) or _("none")
    return {True: _("yes"), False: _("no"), None: _("default"), "": _("none")}.get(value, str(value))
