"""Servers screen (F3), which shows the status, account, tools and log of each server.

It also offers actions, such as restarting a server.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from shlex import join
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.config.loader import find_unread_file
from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.errors import McpHostError
from mcphost.host.server_views import (
    describe_capabilities,
    parse_icons,
)
from mcphost.pluralize import translate_count
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.key_table import fill_keys, keys_in_use
from mcphost.tui.screen_reader import update_seconds
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.list_screen import ListRow, clean_pairs, describe_error
from mcphost.tui.screens.roots import describe_known_roots
from mcphost.tui.screens.server_details import (
    deprecation_note,
    describe_account,
    describe_catalog,
    describe_next_step,
    offer_sections,
    translate_capabilities,
)
from mcphost.tui.screens.server_form import ServerForm, add_server, change_server, describe_other_files
from mcphost.tui.screens.type_ahead import TypeAheadListScreen
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.server_list import STATES, describe_starting
from mcphost.unicode_forms import describe_name_risk

if TYPE_CHECKING:
    from mcphost.config.server_files import Scope
    from mcphost.host.host import Host
    from mcphost.host.servers.server_editor import ServerEditor
    from mcphost.llm.messages import ResourcePart
    from mcphost.tui.chat.manual_calls import ManualCall


# This is the format of other MCP hosts too. The command in the example must exist.
NO_SERVERS = N_(
    "No servers are configured.\n\nPress {servers-add} and paste a command, a URL or JSON from a "
    "README. /setup finds the servers of other hosts on this machine. mcp.json has this "
    'form:\n\n{"mcpServers": {"files": {\n   "command": "npx",\n   "args": ["-y", '
    '"@modelcontextprotocol/server-filesystem", "."],\n   "cwd": '
    '"${workspaceFolder}"}}}\n\nOr try: mcphost demo'
)


_ERAS = {"handshake": N_("handshake"), "stateless": N_("stateless")}
_CHANGES = ("screen.add", "screen.registry", "screen.edit", "screen.toggle_disabled", "screen.remove", "screen.undo")


@runtime_checkable
class NoticeRemover(Protocol):
    """Part of the app's interface that screens use to remove obsolete notifications."""

    def dismiss_notices(self, messages: set[str]) -> None:
        """Remove the visible notifications with these texts."""
        ...


class ServersScreen(TypeAheadListScreen):
    """List of all configured servers; *initial_server* is selected when the screen opens.

    A letter key that changes something, such as r for "restart", acts only after a short pause. If more letters
    follow without a pause, all of them go to the search line instead. Therefore, typing or pasting a server's name
    cannot stop or restart a server.

    The result is a tool call that the user entered, an attachment for the next message, or None.
    """

    TITLE_TEXT: ClassVar[str] = N_("Servers")
    EMPTY_TEXT: ClassVar[str] = NO_SERVERS
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("t", N_("tools"), "screen.tools"),
        ("r", N_("restart"), "screen.restart"),
        ("p", N_("stop"), "screen.stop"),
        ("i", N_("check"), "screen.diagnose"),
        ("l", N_("log"), "screen.log"),
        ("m", N_("messages"), "screen.messages"),
        ("c", N_("changes"), "screen.changes"),
        ("g", N_("permissions"), "screen.grants"),
        ("s", N_("sign in"), "screen.sign_in"),
        ("a", N_("accounts"), "screen.accounts"),
        ("o", N_("sign out"), "screen.sign_out"),
        ("n", N_("add"), "screen.add"),
        ("b", N_("registry"), "screen.registry"),
        ("e", N_("edit"), "screen.edit"),
        ("d", N_("disable"), "screen.toggle_disabled"),
        ("x", N_("remove"), "screen.remove"),
        ("u", N_("undo"), "screen.undo"),
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.add", "screen.registry", "screen.undo"})
    REPEATED_KEYS: ClassVar[frozenset[str]] = frozenset("oxX")
    INSTANT_KEYS: ClassVar[frozenset[str]] = frozenset("abcefgilmnt")
    MORE_COMMANDS: ClassVar[Mapping[str, str]] = MappingProxyType({"f": "app.folders", "X": "screen.remove_with_data"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "tools", show=False, id="servers-tools"),
        Binding("r", "restart", show=False, id="servers-restart"),
        Binding("p", "stop", show=False, id="servers-stop"),
        Binding("i", "diagnose", show=False, id="servers-diagnose"),
        Binding("m", "messages", show=False, id="servers-messages"),
        Binding("l", "log", show=False, id="servers-log"),
        Binding("c", "changes", show=False, id="servers-changes"),
        Binding("g", "grants", show=False, id="servers-permissions"),
        Binding("f", "app.folders", show=False, id="servers-folders"),
        Binding("s", "sign_in", show=False, id="servers-sign-in"),
        Binding("o", "sign_out", show=False, id="servers-sign-out"),
        Binding("a", "accounts", show=False, id="servers-accounts"),
        Binding("n", "add", show=False, id="servers-add"),
        Binding("b", "registry", show=False, id="servers-registry"),
        Binding("e", "edit", show=False, id="servers-edit"),
        Binding("d", "toggle_disabled", show=False, id="servers-disable"),
        Binding("x", "remove", show=False, id="servers-remove"),
        Binding("X", "remove_with_data", show=False, id="servers-remove-with-data"),
        Binding("u", "undo", show=False, id="servers-undo"),
    ]

    def __init__(self, host: "Host", initial_server: str = "") -> None:
        super().__init__()
        self.host = host
        self.initial_server = initial_server
        self._sign_out_candidate = ""
        self._removal_candidate = ""
        self._disabling_candidate = ""
        self._notices: set[str] = set()

    def on_mount(self) -> None:
        """Load the list and select the initial server.

        The elapsed time of starting servers is then updated every second.
        """
        super().on_mount()
        self._select(lambda name: name == self.initial_server)
        self.set_interval(update_seconds(self, 1.0), self._update_starting_times)

    def _update_starting_times(self) -> None:
        """Update the times in the list, but not in the details pane.

        The list shows for how long servers have been starting, and when mcphost will try to reach unreachable servers
        again.
        """
        now = {row.value: row for row in self.load()}
        for at, before in enumerate(self.visible_rows):
            row = now.get(before.value, before)
            if row != before and row.mark in (STATES["connecting"][0], STATES["unreachable"][0]):
                self.visible_rows[at] = row
                self.list_widget.replace_entry(at, self.render_row(row))

    def empty_text(self) -> str:
        """Return the text for an empty list.

        The text explains how to add a server or, if a configuration file could not be read, states the reason.
        """
        problem = self.warning()
        corrected = _("Once it is corrected, its servers appear here.")
        return f"{problem}\n\n{corrected}" if problem else super().empty_text()

    def warning(self) -> str:
        """Return the reason why a configuration file could not be read, or "" if all files were read."""
        live = self.host.config_change_detector
        problem = find_unread_file(self.host.config if live is None else live.config)
        return clean_line(translate_sentence(problem), 600)

    def load(self) -> Sequence[ListRow]:
        """Return a row for each server with its state or, if the server is ready, its number of tools."""
        out: list[ListRow] = []
        for view in self.host.servers.views():
            mark, _label, style = STATES.get(view.state, STATES["waiting"])
            off = (
                _(", {disabled_tools_count} off").format(disabled_tools_count=len(view.disabled_tools))
                if view.disabled_tools
                else ""
            )
            word = describe_starting(view.state, view.starting_seconds, is_remote=bool(view.config.url))
            if view.retry_seconds:
                again = _("tries again in {seconds} s").format(seconds=ceil(view.retry_seconds))
                word = f"{word} · {again}"
            count = f"{translate_count(len(view.catalog.tools), 'tool')}{off}" if view.state == "ready" else word
            detail = (
                _("signing in: {sign_in_status}").format(sign_in_status=translate_sentence(view.sign_in_status))
                if view.sign_in_status
                else f"{count}  {translate_sentence(view.detail)}"
            )
            out.append(ListRow(view.name, view.name, detail, mark, style))
        return out

    def show_details(self, row: ListRow) -> None:
        """Show the status, account, capabilities, tools and log of a server."""
        view = self.host.servers.view(row.value)
        known = view.facts
        config = view.config
        is_connecting = view.state == "connecting" and config.url
        state = _("connecting…") if is_connecting else _(STATES.get(view.state, STATES["waiting"])[1]) or _("ready")
        self.show_icon(parse_icons(known.info.icons) if known else ())
        self.show_about(
            clean_pairs(
                [
                    (_("▲ its name"), describe_name_risk(view.name)),
                    (
                        _("state"),
                        state if view.sign_in_status else f"{state}  {translate_sentence(view.detail)}".strip(),
                    ),
                    (
                        _("signing in"),
                        _("{sign_in_status}; s cancels").format(sign_in_status=translate_sentence(view.sign_in_status))
                        if view.sign_in_status
                        else "",
                    ),
                    (
                        _("next"),
                        describe_next_step(view, keys_in_use(self)),
                    ),
                    (
                        _("runs") if config.is_stdio else _("address"),
                        join(masked_argv(config)) if config.is_stdio else masked_url(config),
                    ),
                    (_("runs in"), config.cwd if config.is_stdio else ""),
                    (
                        _("implementation"),
                        f"{known.info.title or known.info.name} {known.info.version}" if known else "",
                    ),
                    (_("description"), (known.info.description or "") if known else ""),
                    (_("website"), (known.info.website_url or "") if known else ""),
                    *describe_account(view),
                    (_("protocol"), f"{known.revision} ({_(_ERAS[known.era])})" if known else ""),
                    (_("capabilities"), translate_capabilities(describe_capabilities(known)) if known else ""),
                    (_("catalog"), describe_catalog(view)),
                    (_("folders"), describe_known_roots(view.known_roots) + deprecation_note(view)),
                    (_("counters"), join_list(f"{what}: {number}" for what, number in view.counts.items())),
                    (
                        _("trusted"),
                        _("read-only tools run without asking") if config.trust_annotations else "",
                    ),
                    (_("configured in"), _("the demo") if config.source == "demo" else config.file),
                ]
            )
        )
        self.query_one(LongText).show("", offer_sections(view, keys_in_use(self)))
        self.update_key_bar()

    def action_sign_in(self) -> None:
        """Sign in to the selected server, or cancel the sign-in if one is in progress."""
        if (row := self.current_row()) and not (
            self.host.servers.view(row.value).sign_in_status and self.host.accounts.cancel_sign_in(row.value)
        ):
            self.run_worker(
                partial(self._run_and_report, partial(self.host.accounts.sign_in, row.value)), group="sign-in"
            )

    def action_sign_out(self) -> None:
        """Revoke and delete the selected server's stored tokens on the second key press.

        The first press asks for confirmation.
        """
        row = self.current_row()
        if row is None:
            return
        if self._sign_out_candidate != row.value:
            self._sign_out_candidate = row.value
            text = _("Press {servers-sign-out} again to sign out of {title}.")
            self.notify(fill_keys(self, text, title=row.title), markup=False, timeout=4)
            return
        self._sign_out_candidate = ""
        self.run_worker(
            partial(self._run_and_report, partial(self.host.accounts.sign_out, row.value)), group="sign-out"
        )

    async def _run_and_report(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            revoked = await work()
        except McpHostError as error:
            self.notify(describe_error(error, self), severity="warning", markup=False)
            return
        if isinstance(revoked, bool):
            said = _("tokens revoked") if revoked else _("tokens deleted here")
            self.notify(_("Signed out: {said}.").format(said=said), markup=False, timeout=4)

    def action_tools(self) -> None:
        """Open the list of the selected server's tools, in which the user can call tools and turn them on or off."""
        from mcphost.tui.screens.tools import ToolsScreen

        if row := self.current_row():
            self.app.push_screen(ToolsScreen(self.host, row.value), self._leave_with)  # pyright: ignore[reportUnknownMemberType]

    def _leave_with(self, call: "ManualCall | None") -> None:
        """Close the screen with the tool call from the tools or messages screen, if the user entered one."""
        if call is not None:
            self.dismiss(call)

    def action_diagnose(self) -> None:
        """Open the screen that diagnoses the selected server step by step."""
        from mcphost.tui.screens.diagnosis import DiagnosisScreen

        if row := self.current_row():
            self.app.push_screen(DiagnosisScreen(self.host, row.value))  # pyright: ignore[reportUnknownMemberType]

    def action_messages(self) -> None:
        """Open the list of messages exchanged with the selected server; opening it starts logging them."""
        from mcphost.tui.screens.messages import MessagesScreen

        if (row := self.current_row()) and not self._is_disabled(row):
            self.app.push_screen(MessagesScreen(self.host, row.value), self._leave_with)  # pyright: ignore[reportUnknownMemberType]

    def action_log(self) -> None:
        """Open the selected server's log as a screen of its own."""
        from mcphost.tui.screens.server_log import ServerLogScreen

        if row := self.current_row():
            self.app.push_screen(ServerLogScreen(self.host, row.value))  # pyright: ignore[reportUnknownMemberType]

    def action_restart(self) -> None:
        """Reconnect to the selected server; a local server's process is restarted."""
        if (row := self.current_row()) and not self._is_disabled(row):
            self.host.servers.restart(row.value)
            self.show_about(Content(_("Restarting {title}…").format(title=row.title)))

    def _is_disabled(self, row: ListRow) -> bool:
        """Return whether the server is disabled; if so, show a notification with the reason and the remedy.

        A server that the current profile excludes counts as disabled.
        """
        config = self.host.servers.view(row.value).config
        said = _("{title} is disabled. d enables it.").format(title=row.title) if config.disabled else ""
        if config.excluded_by:
            said = _("{title} is not in the profile {profile}. Choose another one with /profile.")
            said = said.format(title=row.title, profile=clean_line(config.excluded_by, 60))
        if said:
            self.notify(said, severity="warning", markup=False, timeout=6)
        return bool(said)

    def action_stop(self) -> None:
        """Close the connection to the selected server until it is restarted; its configuration is unchanged."""
        if (row := self.current_row()) and not self._is_disabled(row):
            self.host.servers.stop(row.value)
            self.reload()

    def action_grants(self) -> None:
        """Open the permissions screen with the grants for the selected server."""
        from mcphost.tui.screens.grants import GrantsScreen

        if row := self.current_row():
            self.app.push_screen(GrantsScreen(self.host, row.value))  # pyright: ignore[reportUnknownMemberType]

    def action_accounts(self) -> None:
        """Open the accounts screen for the selected server."""
        from mcphost.tui.screens.accounts import AccountsScreen

        if row := self.current_row():
            self.app.push_screen(AccountsScreen(self.host, row.value))  # pyright: ignore[reportUnknownMemberType]

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        """Return a (key, label, action) tuple for each key that currently works.

        In the demo, the keys that change servers are omitted. "undo" is included after a change. The other keys depend
        on the selected server: "sign in" and "accounts" are included if it has a URL, "sign out" if it has an account,
        and "changes" if any of its tools are quarantined.
        """
        setup = self.host.setup
        unused: set[str] = set()
        if setup is None:
            unused.update(_CHANGES)
        elif not setup.server_editor.can_undo:
            unused.add("screen.undo")
        row = self.current_row() if self.entries else None
        view = self.host.servers.view(row.value) if row is not None else None
        if view is None or not (view.config.url or view.sign_in_status):
            unused |= {"screen.sign_in", "screen.accounts"}
        if view is None or not view.quarantined:
            unused.add("screen.changes")
        if view is None or not view.account:
            unused.add("screen.sign_out")
        labels: dict[str, str] = {}
        if view is not None and view.sign_in_status:
            labels["screen.sign_in"] = N_("cancel sign-in")
        if view is not None and view.config.disabled:
            labels["screen.toggle_disabled"] = N_("enable")
        return tuple(
            (key, labels.get(action, label), action)
            for key, label, action in super()._key_bar_items()
            if action not in unused
        )

    # -- changes to the configuration

    def _editor(self) -> "ServerEditor | None":
        if self.host.setup is None:
            self.notify(_("The demo has only its own server."), markup=False)
            return None
        return self.host.setup.server_editor

    def action_add(self) -> None:
        """Open the form for a new server."""
        if editor := self._editor():
            self._open_form(ServerForm(partial(add_server, editor, keys_in_use(self)), editor.list_files()))

    def action_registry(self) -> None:
        """Open the registry screen; a server installed there appears in this list."""
        from mcphost.tui.screens.registry import InstalledNotice, RegistryScreen

        def finish(done: "InstalledNotice | ResourcePart | None") -> None:
            self.reload()
            if isinstance(done, InstalledNotice):
                self._select(lambda name: name == done.server)
                self.notify(done.text, markup=False, timeout=8)
            elif done is not None:
                self.dismiss(done)

        if self._editor() and self.host.setup is not None:
            self.app.push_screen(RegistryScreen(self.host.setup.registry), finish)  # pyright: ignore[reportUnknownMemberType]

    def action_edit(self) -> None:
        """Open a form for editing the configuration of the selected server."""
        if (row := self.current_row()) and (editor := self._editor()):
            self.run_worker(partial(self._edit, editor, row.value), group="edit", exclusive=True)

    async def _edit(self, editor: "ServerEditor", name: str) -> None:
        try:
            entry = await editor.read_entry(name)
            others = await editor.find_other_files(name)
        except McpHostError as error:
            self.notify(describe_error(error, self), severity="warning", markup=False)
            return
        file = Path(self.host.servers.view(name).config.file)
        files: dict[Scope, Path] = {scope: path for scope, path in editor.list_files().items() if path == file}
        change = partial(change_server, editor, keys_in_use(self), entry)
        self._open_form(ServerForm(change, files or {"user": file}, name, entry, others))

    def notify(self, message: str, **options: Any) -> None:
        """Show a notification that is removed when the user leaves the screen or undoes a change."""
        self._notices.add(message)
        super().notify(message, **options)

    def on_screen_suspend(self) -> None:
        """Remove this screen's notifications, because the keys that they mention work only here."""
        self._dismiss_notices()

    def _dismiss_notices(self) -> None:
        if isinstance(self.app, NoticeRemover):  # pyright: ignore[reportUnknownMemberType]
            self.app.dismiss_notices(self._notices)
        self._notices.clear()

    def _open_form(self, form: ServerForm) -> None:
        known = {row.value for row in self.entries}

        def finish(done: str | None) -> None:
            self.reload()
            if done:
                self._select(lambda name: name not in known)
                self.notify(done, markup=False)

        self.app.push_screen(form, finish)  # pyright: ignore[reportUnknownMemberType]

    def _select(self, is_wanted: Callable[[str], bool]) -> None:
        """Move the cursor to the first server whose name satisfies *is_wanted*; do nothing if no name does."""
        wanted = (at for at, row in enumerate(self.visible_rows) if is_wanted(row.value))
        if (at := next(wanted, None)) is not None:
            self.list_widget.cursor = at
            self.list_widget.call_after_refresh(self.list_widget.scroll_to_highlight)

    def action_toggle_disabled(self) -> None:
        """Disable the selected server, or enable it if it is disabled.

        If a tool call is running, a second key press is required, because disabling ends the call.
        """
        if (row := self.current_row()) and (editor := self._editor()):
            disabled = not self.host.servers.view(row.value).config.disabled
            running = [call.tool for call in self.host.running_calls.list() if disabled and call.server == row.value]
            is_confirmed, self._disabling_candidate = self._disabling_candidate == row.value, row.value
            if running and not is_confirmed:
                text = _("{tool} is running. Press {servers-disable} again to disable {title} and stop the call.")
                said = fill_keys(self, text, tool=clean_line(running[0], 60), title=row.title)
                self.notify(said, severity="warning", markup=False, timeout=4)
                return
            self._disabling_candidate = ""
            done = _("{title} is {text}. Press {servers-undo} to undo.")
            done = fill_keys(self, done, title=row.title, text=_("disabled") if disabled else _("enabled"))
            self._change(partial(editor.set_disabled, row.value, disabled=disabled), done)

    def action_remove(self) -> None:
        """Remove the selected server from its configuration file, but keep its stored data.

        Two key presses are required. The first one, of this key or of the key of `action_remove_with_data`, only
        explains the two ways to remove the server. The second one removes it in the way that belongs to the key.
        """
        self._confirm_removal(forgets=False)

    def action_remove_with_data(self) -> None:
        """Remove the selected server and its stored data.

        The data consists of the server's secrets, the values of its inputs, its unpacked bundle, and the accounts that
        only this server can use. Two key presses are required; see `action_remove`.
        """
        self._confirm_removal(forgets=True)

    def _confirm_removal(self, *, forgets: bool) -> None:
        if (row := self.current_row()) is None or (editor := self._editor()) is None:
            return
        is_confirmed, self._removal_candidate = self._removal_candidate == row.value, row.value
        if not is_confirmed:
            self.run_worker(partial(self._explain_removal, editor, row.value), group="change")
            return
        self._removal_candidate = ""
        self.run_worker(partial(self._remove, editor, row.value, forgets=forgets), group="change")

    async def _explain_removal(self, editor: "ServerEditor", name: str) -> None:
        """Show a notification that explains how to remove the server *name* with or without its stored data."""
        file = self.host.servers.view(name).config.file
        text = _("Press {servers-remove} again to remove {title} from {file}.")
        text = fill_keys(self, text, title=name, file=file)
        try:
            others = await editor.find_other_files(name)
            stored = await self._describe_data(editor, name)
        except McpHostError as error:
            self.notify(describe_error(error, self), severity="warning", markup=False)
            return
        if others:
            text = f"{text} {describe_other_files(others)}"
        if stored:
            also = _("Kept: {things}. Press {servers-remove-with-data} to delete these as well.")
            text = f"{text} {fill_keys(self, also, things=_(', ').join(stored))}"
        self.notify(text, markup=False, timeout=8 if stored or others else 4)

    async def _describe_data(self, editor: "ServerEditor", name: str) -> list[str]:
        data = await editor.find_deletable(name)
        sign_ins = await self.host.accounts.own_accounts(name)
        return [
            *([_("its stored secrets")] if data.secrets else []),
            *([_("the values of its inputs")] if data.inputs else []),
            *([_("its unpacked bundle")] if data.bundle else []),
            *([_("its sign-ins")] if sign_ins else []),
        ]

    async def _remove(self, editor: "ServerEditor", name: str, *, forgets: bool) -> None:
        done = fill_keys(self, _("{title} was removed. Press {servers-undo} to undo."), title=name)
        try:
            sign_ins = await self.host.accounts.own_accounts(name) if forgets else ()
            for account in sign_ins:  # done first, because revoking tokens may need the server's certificates
                await self.host.accounts.sign_out_account(account)
            await editor.remove(name, forgets=forgets)
        except McpHostError as error:
            self.reload()
            self.notify(describe_error(error, self), severity="warning", markup=False)
            return
        if sign_ins:
            done = f"{done} {_('You are signed out; undo does not sign you in again.')}"
        self.reload()
        self.notify(done, markup=False)

    def action_undo(self) -> None:
        """Undo the latest change to a server's configuration."""
        if editor := self._editor():
            self._dismiss_notices()
            self._change(editor.undo, _("The change was undone."))

    def _change(self, change: Callable[[], Awaitable[object]], done: str) -> None:
        self.run_worker(partial(self._run_change, change, done), group="change")

    async def _run_change(self, change: Callable[[], Awaitable[object]], done: str) -> None:
        try:
            await change()
        except McpHostError as error:
            self.notify(describe_error(error, self), severity="warning", markup=False)
            return
        self.reload()
        self.notify(done, markup=False)

    def action_changes(self) -> None:
        """Ask the user again to approve the selected server's quarantined tools.

        Tools are quarantined when their definitions change.
        """
        if (row := self.current_row()) and not self.host.quarantine.ask_again(row.value):
            self.show_about(Content(_("No tool of {title} is quarantined.").format(title=row.title)))
