"""Screen for reviewing changes in the configuration files and applying all of them at once."""

from collections import Counter
from collections.abc import Callable, Sequence
from shlex import join
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.host.config_changes import list_model_settings
from mcphost.host.runtime_settings import LISTS, format_setting
from mcphost.translation import N_, _, join_list, ngettext
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.list_screen import ListRow, ListScreen
from mcphost.tui.widgets.entry_list import EntryList

if TYPE_CHECKING:
    from mcphost.config.schema import HookConfig, ServerConfig
    from mcphost.host.config_changes import ConfigChanges
    from mcphost.host.runtime_settings import SettingChange
    from mcphost.host.servers.running_calls import RunningCall

_SECRET_FIELDS = ("env", "headers")
"""Fields that may contain secrets; only the names of their members are shown."""
_MAX_TITLE = 60
_MAX_NAMED = 3
_MAX_VALUE = 20_000
"""Characters of a value to show; a command must be readable to its end."""


class _Change(NamedTuple):
    """A change in the configuration files.

    - `pairs` are name-value pairs that describe the change.
    - `runs_code` is true for a new hook and for a new or changed local server; these changes are listed first.
    - `is_critical` is true if the change could do harm, for example by sending conversations to another address. The
      user must read its details before any changes can be applied. A change of a server is not critical, because the
      user is asked to approve the server before it starts.
    """

    pairs: tuple[tuple[str, str], ...]
    runs_code: bool = False
    is_critical: bool = False
    server: str = ""
    """The server whose running calls end with the change, "" if none do."""


class ConfigChangesScreen(ListScreen):
    """List of configuration changes; its result is a ConfigChanges, or None if the user cancels.

    Changes that run code come first. The changes can be applied, all at once, only after the user has scrolled through
    the whole list and, for each critical change, through its details. The screen itself applies nothing; the caller
    applies the result.
    """

    TITLE_TEXT: ClassVar[str] = N_("Changes in the configuration files")
    EMPTY_TEXT: ClassVar[str] = N_("Nothing changed.")
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("ctrl+s", N_("apply all"), "screen.apply"),)
    BINDINGS: ClassVar[list[Any]] = [("ctrl+s", "apply", "")]

    def __init__(
        self, changes: "ConfigChanges", list_running_calls: "Callable[[], Sequence[RunningCall]]" = tuple
    ) -> None:
        """Create the screen; *list_running_calls* returns the tool calls that are currently running.

        Applying the changes ends the calls on servers that the changes remove or restart.
        """
        super().__init__()
        self._changes = changes
        self._list_running_calls = list_running_calls
        self._call_counts = Counter(call.server for call in list_running_calls())
        self._shown_marks: dict[tuple[str, str, _Change], str] = {}
        self._seen: set[tuple[str, str, _Change]] = set()
        self._read: set[tuple[str, str, _Change]] = set()
        self._shown: tuple[str, str, _Change] | None = None
        self.add_class("bare")

    def on_mount(self) -> None:
        """Start recording which details the user has read. Textual also calls the base class's `on_mount`."""
        for facts in self.query("#facts"):  # there are none if the screen is closed while it opens
            self.watch(facts, "scroll_y", self._note_read, init=False)
            self.watch(facts, "virtual_size", self._note_read, init=False)

    def load(self) -> Sequence[ListRow]:
        """Return a row for each change.

        Changes that run code come first, followed by other critical changes.
        """
        rows = [*self._hook_rows(), *self._server_rows(), *self._rule_rows(), *self._model_rows()]
        rows += [_setting_row(change) for change in (*self._changes.settings, *self._changes.at_start)]
        rows += [
            _row([(_("profile"), name)], name, _("changed profile"), "~", "$warning") for name in self._changes.profiles
        ]
        if self._changes.theme is not None:
            theme = self._changes.theme or _("default")
            rows.append(_row([(_("theme"), theme)], _("Theme"), theme, "~", "$accent"))
        return sorted(rows, key=lambda row: (not row.value.runs_code, not row.value.is_critical))

    def _server_rows(self) -> list[ListRow]:
        changes = self._changes
        rows = [(one, _("new server"), "+", "$accent", _server_facts(one), "") for one in changes.added]
        rows += [
            (new, _("changed server"), "~", "$warning", _compare_servers(old, new), old.name)
            for old, new in changes.changed
        ]
        return [
            *(
                _row(facts, one.name, _with_value(text, _address(one)), mark, style, ended, runs_code=one.is_stdio)
                for one, text, mark, style, facts, ended in rows
            ),
            *(_row([(_("server"), name)], name, _("removed server"), "-", "$error", name) for name in changes.removed),
        ]

    def _hook_rows(self) -> list[ListRow]:
        rows: list[ListRow] = []
        for hooks, text, mark, style, is_new in (
            (self._changes.hooks_added, _("new hook"), "+", "$warning", True),
            (self._changes.hooks_removed, _("removed hook"), "-", "$error", False),
        ):
            for hook in hooks:
                detail = _with_value(text, join(hook.settings.command))
                facts = _hook_facts(hook)
                rows.append(_row(facts, hook.name, detail, mark, style, runs_code=is_new, is_critical=True))
        return rows

    def _rule_rows(self) -> list[ListRow]:
        added, removed = self._changes.never_added, self._changes.never_removed
        return [
            *(
                _row([(_("never"), rule)], rule, _("removed never-rule"), "-", "$error", is_critical=True)
                for rule in removed
            ),
            *(_row([(_("never"), rule)], rule, _("new never-rule"), "+", "$accent") for rule in added),
        ]

    def _model_rows(self) -> list[ListRow]:
        """Return a row for each change of the model, system prompt, or use of the project's instructions."""
        changes, rows = self._changes, list[ListRow]()
        if changes.model is not None:
            model = changes.model
            facts = [
                (_("model"), model.name or _("none")),
                (_("address"), model.api_base),
                (_("key from"), model.api_key_env),
                (_("instead of"), changes.model_before.name if changes.model_before.name != model.name else ""),
                *list_model_settings(changes.model_before, model),
            ]
            detail = _with_value(_("model"), model.api_base)
            rows.append(
                _row(facts, model.name or _("no model"), detail, "~", "$warning", is_critical=bool(model.api_base))
            )
        if changes.system_prompt is not None:
            text = changes.system_prompt or _("the default")
            rows.append(_row([(_("system prompt"), text)], _("System prompt"), text, "~", "$warning"))
        if changes.project_instructions is not None:
            text = _("are used once approved") if changes.project_instructions else _("are no longer read")
            title = _("Instructions of the project")
            rows.append(_row([(title, text)], title, text, "~", "$warning"))
        return rows

    def render_row(self, row: ListRow) -> Content:
        """Render a change; mark it if it ends running tool calls or if its details must still be read."""
        self._shown_marks[_key(row)] = mark = self._describe_marks(row)
        return super().render_row(row._replace(title=f"{clean_line(row.title, _MAX_TITLE)}{mark}"))

    def _describe_marks(self, row: ListRow) -> str:
        """Return the marks to append to a change's title, or "" if there are none.

        The marks state how many running tool calls the change ends, and that the user must still read the details.
        """
        marks: list[str] = []
        if row.value.server and (count := self._call_counts[row.value.server]):
            ends = ngettext("{count} running call ends", "{count} running calls end", count)
            marks.append(ends.format(count=count))
        if row.value.is_critical and _key(row) not in self._read:
            marks.append(_("details not read yet"))
        return "".join(f" · {mark}" for mark in marks)

    def _count_calls(self) -> Counter[str]:
        """Return the number of running tool calls for each server that the changes remove or restart."""
        servers = {row.value.server for row in self.entries if row.value.server}
        return Counter(call.server for call in self._list_running_calls() if call.server in servers)

    def _update_marks(self) -> None:
        for number, row in enumerate(self.visible_rows):
            if self._shown_marks.get(_key(row)) != self._describe_marks(row):
                self.list_widget.replace_entry(number, self.render_row(row))

    def show_details(self, row: ListRow) -> None:
        """Show the details of a change, such as the old and new value of each field."""
        self.show_about(
            [(clean_line(name, 40), clean_line(value, _MAX_VALUE)) for name, value in row.value.pairs if value]
        )
        self._shown = _key(row)
        self._note_read()

    # -- read before applying

    def warning(self) -> str:
        """Return a message that states what the user must still read before applying the changes, or ""."""
        unseen = sum(row not in self._seen for row in map(_key, self.entries))
        if unseen:
            return _("read to the end first: {rows} more").format(rows=unseen)
        unread = len(self._find_unread())
        text = _("read the details of {rows} more first").format(rows=unread)
        return text if unread else ""

    def _find_unread(self) -> list[ListRow]:
        return [row for row in self.entries if row.value.is_critical and _key(row) not in self._read]

    def _describe_refusal(self) -> str:
        """Return why the changes cannot be applied yet and what to do about it, or "" if they can be applied."""
        reason = self.warning()
        if not reason or any(_key(row) not in self._seen for row in self.entries):
            return reason
        titles = [clean_line(row.title, _MAX_TITLE) for row in self._find_unread()]
        named = join_list(titles[:_MAX_NAMED]) + (" …" if len(titles) > _MAX_NAMED else "")
        return _("Nothing is applied yet. Select each of these and read its details: {titles}").format(titles=named)

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        keys = super()._key_bar_items()
        if not self.is_mounted or not self.warning():
            return keys
        return tuple((key, _("apply all: not yet"), action) if action == "screen.apply" else (key, label, action)
                     for key, label, action in keys)  # fmt: skip

    def on_entry_list_shown(self, event: EntryList.Shown) -> None:
        """Record which changes have been on the screen."""
        self._seen.update(map(_key, self.visible_rows[event.first : event.end]))
        self._update_state()

    def _note_read(self) -> None:
        if self._shown is not None:
            self.call_after_refresh(self._note_end, self._shown)

    def _note_end(self, key: tuple[str, str, _Change]) -> None:
        """Record that the user has read the details of a change, if their end is now visible.

        *key* identifies the change. Do nothing if the details of another change are shown.
        """
        if not self.query("#about"):
            return
        facts, about = self.query_one("#facts", VerticalScroll), self.query_one("#about", Static)
        is_laid_out = about.size.height > str(about.content).count("\n")
        if key == self._shown and is_laid_out and facts.scroll_y >= facts.max_scroll_y:
            self._read.add(key)
            self._update_state()

    def _update_state(self) -> None:
        self._update_marks()
        self.update_head()
        self.update_key_bar()

    def action_apply(self) -> None:
        """Close the screen with the changes as its result; the caller then applies them.

        Instead, show a notification and keep the screen open if the user must still read something, or if applying the
        changes would now end more tool calls than the list states. In the second case, the list is updated, and
        pressing the key again applies the changes.
        """
        shown, self._call_counts = self._call_counts, self._count_calls()
        self._update_marks()
        reason = self._describe_refusal()
        if not reason and self._call_counts - shown:
            reason = _("More calls are running now: they end with the changes.")
        if reason:
            self.notify(reason, severity="warning", markup=False, timeout=4)
        else:
            self.dismiss(self._changes)


def _row(
    pairs: Sequence[tuple[str, str]], title: str, detail: str, mark: str, style: str, server: str = "", **flags: bool
) -> ListRow:
    """Return a list row for a change that is described by the name-value pairs in *pairs*.

    *mark* is the symbol of the row, and *style* is the color of the symbol. *server* and the booleans in *flags*
    set the fields of `_Change` with the same names.
    """
    return ListRow(_Change(tuple(pairs), server=server, **flags), title, detail, mark, style)


def _key(row: ListRow) -> tuple[str, str, _Change]:
    return row.title, row.detail, row.value


def _with_value(text: str, value: str) -> str:
    return f"{text} · {value}" if value else text


def _address(server: "ServerConfig") -> str:
    return join(masked_argv(server)) if server.is_stdio else masked_url(server)


def _setting_row(change: "SettingChange") -> ListRow:
    if change.name in LISTS:
        return _list_row(change)
    text = " → ".join(_show_setting(change.name, value) for value in (change.before, change.after))
    if change.restart_reason:
        pairs = [(change.name, text), (_("after a restart"), _(change.restart_reason))]
        return _row(pairs, change.name, _("{change} · after a restart").format(change=text), "~", "$muted")
    is_critical = change.allows_more or change.deletes_results
    if change.allows_more:
        text = _("{change} · allows more").format(change=text)
    elif change.deletes_results:
        text = _("{change} · deletes the stored results above it").format(change=text)
    style = "$error" if is_critical else "$warning"
    return _row([(change.name, text)], change.name, text, "~", style, is_critical=is_critical)


def _show_setting(name: str, value: Any) -> str:
    """Return a setting's value as text; a budget of 0 is shown as "no limit"."""
    is_unlimited = name.startswith("budget.") and not isinstance(value, bool) and value == 0
    return _("no limit") if is_unlimited else format_setting(value, _, _MAX_VALUE)


def _list_row(change: "SettingChange") -> ListRow:
    """Return a row for a folder or a model that was added to, or removed from, a list in the settings."""
    item, is_new = str(change.after or change.before), change.allows_more
    if change.name == "roots":
        name, detail = _("folder"), _("new folder") if is_new else _("removed folder")
    else:
        name, detail = _("model"), _("new model for sampling") if is_new else _("removed model for sampling")
    mark, style = ("+", "$warning") if is_new else ("-", "$error")
    return _row([(name, item)], item, detail, mark, style, is_critical=is_new)


def _server_facts(server: "ServerConfig") -> list[tuple[str, str]]:
    return [
        (_("file"), server.file),
        (_("command"), join(masked_argv(server)) if server.is_stdio else ""),
        (_("URL"), masked_url(server)),
        (_("variables"), join_list(server.env)),
        (_("headers"), join_list(server.headers)),
        (_("approval"), _("asked before it starts, unless you approved exactly this")),
    ]


def _hook_facts(hook: "HookConfig") -> list[tuple[str, str]]:
    settings = hook.settings
    return [
        (_("event"), settings.event),
        (_("command"), join(settings.command)),
        (_("folder"), hook.folder),
        (_("calls"), join_list(settings.match) or _("all")),
        (_("timeout"), _("{seconds:g} s").format(seconds=settings.timeout)),
        (_("on failure"), settings.on_failure),
    ]


def _compare_servers(old: "ServerConfig", new: "ServerConfig") -> list[tuple[str, str]]:
    """Return name-value pairs: the server's configuration file, and the old and new value of each changed field.

    For environment variables and headers, only the names of the changed entries are given. Secrets in other values are
    masked.
    """
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
        elif name == "env_file_digest":
            pairs.append((_("environment file"), _describe_env_file(old, new)))
        elif name == "env_file_names":
            continue  # named with the file
        else:
            texts = _show_field(old, name), _show_field(new, name)
            # The texts are equal if only masked secrets differ.
            pairs.append((name.replace("_", " "), " → ".join(texts) if texts[0] != texts[1] else _("changed")))
    return pairs


def _describe_env_file(old: "ServerConfig", new: "ServerConfig") -> str:
    """Return the path of a changed environment file, and the names of the variables that were added and removed."""
    added = [name for name in new.env_file_names if name not in old.env_file_names]
    removed = [name for name in old.env_file_names if name not in new.env_file_names]
    parts = [
        _("{file}: changed").format(file=new.env_file),
        _("added: {names}").format(names=join_list(added)) if added else "",
        _("removed: {names}").format(names=join_list(removed)) if removed else "",
    ]
    return _("; ").join(filter(None, parts))


def _show_field(server: "ServerConfig", name: str) -> str:
    """Return a field of a server's configuration as text, with the secrets in its arguments and URL masked."""
    if name == "args":
        return join(masked_argv(server)[1:]) or _("none")
    return _show(masked_url(server) if name == "url" else getattr(server, name))


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, cast("tuple[object, ...]", value))) or _("none")
    return {True: _("yes"), False: _("no"), None: _("default"), "": _("none")}.get(value, str(value))
