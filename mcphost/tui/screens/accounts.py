"""Screen for signing in to servers, signing out, and choosing which account each server uses."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.auth.accounts import StoredAccount
from mcphost.errors import McpHostError, UsageError
from mcphost.host.questions.sign_in import describe_scope
from mcphost.host.server_views import ServerView
from mcphost.host.servers.accounts import (
    MAX_NAME,
    describe_client,
    describe_storage,
    describe_validity,
    parse_account_name,
    validity,
)
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import DEFAULT_ACCOUNT_NAME, account_title, clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs, describe_error
from mcphost.tui.widgets.text_inputs import OrderedInput

if TYPE_CHECKING:
    from mcphost.host.host import Host


_NAME_FORM_ABOUT = N_(
    "You sign in with an additional account, and mcphost uses it from then on. The name "
    "is yours to choose. If the browser remembers another account there, sign out of it "
    "first."
)


class AccountNameForm(FormScreen[str]):
    """Form for naming an additional account; its result is the name, or None if the user cancels.

    *existing_names* are the names of the server's stored accounts. If the user enters one of them, the form warns that
    this account is already signed in and that continuing signs in to it again.
    """

    DEFAULT_CSS = """
    AccountNameForm #box { max-width: 76; }
    AccountNameForm Input { border: none; height: 1; background: $surface; margin: 1 0; }
    """

    def __init__(self, server: str, existing_names: tuple[str, ...]) -> None:
        super().__init__()
        self.server, self.existing_names = server, existing_names

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Sign in to {server} with another account").format(server=self.server)

    def body(self) -> ComposeResult:
        """Yield an explanation and the input for the account name."""
        yield Static(Content.styled(_(_NAME_FORM_ABOUT), "$muted"), markup=False)
        yield OrderedInput(placeholder=_("such as work"), id="name", max_length=MAX_NAME, compact=True)

    def key_hints(self) -> str:
        """Return the line that explains the keys of the form."""
        return _("enter signs in · esc back")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show an error if the name is invalid, or a warning if an account already has this name."""
        event.stop()
        self.query_one("#fault", Static).update(self._name_message(event.value))

    def _name_message(self, text: str) -> Content:
        try:
            name = _parse_name(text)
        except UsageError as error:
            return Content.styled(translate_sentence(error.message), "$error")
        note = (
            _("{name} is signed in already; this signs in again.").format(name=account_title(name))
            if name in self.existing_names
            else ""
        )
        return Content.styled(clean_line(note, 120), "$warning")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Dismiss the form with the entered name; if it is missing or invalid, show an error instead."""
        event.stop()
        try:
            name = _parse_name(event.value)
        except UsageError:
            return  # the reason is shown already
        if name:
            self.dismiss(name)
        else:
            self.show_fault(_("Type a name for the account first."))


def _parse_name(text: str) -> str:
    """Parse an account name entered by the user.

    The word for "default" in the user's language is accepted as the name of the default account. Raises UsageError
    if the name is invalid.
    """
    name = parse_account_name(text)
    return DEFAULT_ACCOUNT_NAME if name == account_title(DEFAULT_ACCOUNT_NAME) else name


NOT_SIGNED_IN = N_("not signed in")


def describe_state(stored_account: StoredAccount) -> tuple[str, str, str]:
    """Return a symbol, a color and a label for the state of an account.

    The label is, for example, "in use" or "not in use, expired".
    """
    ended = validity(stored_account.account) == "ended"
    if stored_account.used_by:
        return ("▲", "$warning", _("in use, but expired: sign in again")) if ended else ("●", "$success", _("in use"))
    if not stored_account.servers:
        return "◇", "$warning", _("its server is no longer configured")
    return ("▲", "$warning", _("not in use, expired")) if ended else ("○", "$muted", _("not in use"))


def describe_scopes(stored_account: StoredAccount) -> str:
    """Return the account's OAuth scopes as text, separated by commas.

    A known scope is shown as "description (scope)".
    """
    described = [(describe_scope(scope, _), scope) for scope in stored_account.account.scopes]
    return join_list(f"{text} ({scope})" if text else scope for text, scope in described)


def _server_names(stored_account: StoredAccount) -> str:
    return join_list(stored_account.servers) or stored_account.account.server


class AccountsScreen(ListScreen):
    """List of the stored accounts, followed by servers that require a sign-in and have no account.

    If *server* is given, only that server and its accounts are listed.
    """

    TITLE_TEXT: ClassVar[str] = N_("Accounts")
    EMPTY_TEXT: ClassVar[str] = N_(
        "You are not signed in to any server.\n\nHTTP servers may require a sign-in; you are "
        "asked when mcphost connects to them. On the page of a server ({servers}), "
        "{servers-sign-in} signs in."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("use"), "screen.use"),
        ("n", N_("another account"), "screen.add_account"),
        ("s", N_("sign in"), "screen.sign_in"),
        ("o", N_("sign out (twice)"), "screen.sign_out"),
    )
    DEFAULT_CSS = "AccountsScreen.narrow #facts { max-height: 100%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "add_account", show=False, id="accounts-add"),
        Binding("s", "sign_in", show=False, id="accounts-sign-in"),
        Binding("o", "sign_out", show=False, id="accounts-sign-out"),
    ]

    def __init__(self, host: "Host", server: str = "") -> None:
        super().__init__()
        self.host = host
        self.server = server
        self._stored_accounts: tuple[StoredAccount, ...] = ()
        self._is_loaded = False
        self._sign_out_candidate: StoredAccount | None = None
        self.add_class("bare")

    def on_mount(self) -> None:
        """Load the accounts."""
        super().on_mount()
        self._request_accounts()

    def handle_server_change(self) -> None:
        """Reload the accounts, because the user may have signed in or out."""
        self._request_accounts()

    def _request_accounts(self) -> None:
        self.run_worker(self._load_accounts, group="accounts", exclusive=True)

    async def _load_accounts(self) -> None:
        try:
            accounts = await self.host.accounts.list_accounts()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._stored_accounts = tuple(
            stored for stored in accounts if self.server in ("", stored.account.server, *stored.servers)
        )
        self.reload()
        is_first, self._is_loaded = not self._is_loaded, True
        if is_first and self.visible_rows:
            # Before the accounts were loaded, only servers without an account were listed.
            self.list_widget.cursor = 0

    def render_row(self, row: ListRow) -> Content:
        """Render a row with server names truncated to 20 characters, so that the account name stays visible."""
        if isinstance(row.value, StoredAccount):
            row = row._replace(
                title=f"{clean_line(_server_names(row.value), 20)} · {account_title(row.value.account.name)}"
            )
        return super().render_row(row)

    def identify(self, row: ListRow) -> object:
        """Return a value that identifies the row's account, or the server if it has no account."""
        return row.value.account.identity if isinstance(row.value, StoredAccount) else (row.value.name,)

    def load(self) -> Sequence[ListRow]:
        """Return a row for each account, followed by a row for each server that needs an account."""
        rows: list[ListRow] = []
        for stored in self._stored_accounts:
            mark, style, word = describe_state(stored)
            has_expired = validity(stored.account) == "ended"
            detail = word if has_expired else f"{word} · {describe_validity(stored.account, translate=_)}"
            rows.append(
                ListRow(stored, f"{_server_names(stored)} · {account_title(stored.account.name)}", detail, mark, style)
            )
        signed_in = {name for stored in self._stored_accounts for name in stored.servers}
        rows += [
            ListRow(view, view.name, _(NOT_SIGNED_IN), "◌", "$warning")
            for view in self.host.servers.views()
            if view.name not in signed_in
            and (self.server == view.name if self.server else view.state == "sign_in")
            and not view.config.is_stdio
        ]
        return rows

    def show_details(self, row: ListRow) -> None:
        """Show the details of an account, or the state of a server that has no account."""
        self._sign_out_candidate = None
        if isinstance(row.value, ServerView):
            view = row.value
            status = self._sign_in_progress((view.name,))
            next_step = _("{accounts-sign-in} cancels") if status else _("{accounts-sign-in} signs in")
            self.show_about(
                clean_pairs(
                    [
                        (_("server"), view.name),
                        (_("state"), status or translate_sentence(view.detail)),
                        (_("next"), fill_keys(self, next_step)),
                    ]
                )
            )
            return
        stored: StoredAccount = row.value
        account = stored.account
        status = self._sign_in_progress(stored.servers)
        issuer = join_list([account.issuer, *([describe_client(account, _)] if account.client_kind else [])])
        self.show_about(
            clean_pairs(
                [
                    (_("account"), account_title(account.name)),
                    (_("signing in"), _("{status}; s cancels").format(status=status) if status else ""),
                    (
                        _("in use"),
                        _("by {used_by}").format(used_by=join_list(stored.used_by)) if stored.used_by else "",
                    ),
                    (_("set in"), _("mcp.json, so no other can be selected here") if stored.configured_by else ""),
                    (_("next"), self._next_step(stored)),
                    (
                        _("server"),
                        join_list(stored.servers)
                        or _("{server}, which is no longer configured").format(server=account.server),
                    ),
                    (_("address"), account.url),
                    (_("valid"), describe_validity(account, translate=_)),
                    (_("issuer"), issuer),
                    (_("scopes"), describe_scopes(stored) or _("whatever the server allows every user")),
                    (_("stored"), describe_storage(account, _)),
                ]
            )
        )

    def _sign_in_progress(self, servers: tuple[str, ...]) -> str:
        """Return a description of the current step of a sign-in to one of *servers*.

        Return "" if no sign-in is in progress.
        """
        return next(
            (
                translate_sentence(view.sign_in_status)
                for view in self.host.servers.views()
                if view.name in servers and view.sign_in_status
            ),
            "",
        )

    def _next_step(self, stored: StoredAccount) -> str:
        if not stored.servers:
            return fill_keys(self, _("{accounts-sign-out} signs out"))
        if len(stored.configured_by) == len(stored.servers):
            return ""
        another = fill_keys(self, _("{accounts-add} signs in with another account"))
        return another if stored.used_by else _("enter uses it")

    # -- actions

    def open_row(self, row: ListRow) -> None:
        """Use the account in this row, or sign in if the row is for a server without an account."""
        if isinstance(row.value, ServerView):
            self.action_sign_in()
        else:
            self.action_use()

    def action_use(self) -> None:
        """Use the selected account for all of its servers, and reconnect to them.

        The servers also use this account in later runs.
        """
        row = self.current_row()
        if row is None or isinstance(row.value, ServerView):
            return
        stored: StoredAccount = row.value
        servers = [name for name in stored.servers if name not in stored.used_by]
        if not servers:
            self.notify(
                _("{title} is already in use.").format(title=row.title)
                if stored.servers
                else _("Its server is no longer configured."),
                markup=False,
                timeout=4,
            )
            return
        self.show_about(
            Content(
                _("Connecting {servers} as {name}…").format(
                    servers=join_list(servers), name=account_title(stored.account.name)
                )
            )
        )
        # The worker belongs to the app, so that it continues when this screen is closed.
        work = partial(self._use_account, servers, stored.account.name)
        self.app.run_worker(work, group="accounts-use")  # pyright: ignore[reportUnknownMemberType]

    async def _use_account(self, servers: list[str], name: str) -> None:
        for server in servers:
            try:
                await self.host.accounts.select_account(server, name)
            except McpHostError as error:
                self.app.notify(str(error), severity="warning", markup=False)  # pyright: ignore[reportUnknownMemberType]
        if self.is_attached:
            self._request_accounts()

    def action_add_account(self) -> None:
        """Ask for an account name, then sign in to the selected server with a new account of that name."""
        if not (server := self._current_server()):
            self.notify(_("Its server is no longer configured."), markup=False, timeout=4)
            return
        existing = tuple(stored.account.name for stored in self._stored_accounts if server in stored.servers)

        def on_name(name: str | None) -> None:
            if name is not None:
                self._sign_in(server, name)

        self.app.push_screen(AccountNameForm(server, existing), on_name)  # pyright: ignore[reportUnknownMemberType]

    def action_sign_in(self) -> None:
        """Sign in to the selected server or account; if a sign-in to that server is in progress, cancel it."""
        row = self.current_row()
        if row is None:
            self._sign_in(self.server, None) if self.server else None
        elif isinstance(row.value, ServerView):
            self._sign_in(row.value.name, None)
        elif row.value.servers:
            self._sign_in(row.value.servers[0], row.value.account.name)
        else:
            self.notify(_("Its server is no longer configured."), markup=False, timeout=4)

    def _current_server(self) -> str:
        row = self.current_row()
        if row is None:
            return self.server
        if isinstance(row.value, ServerView):
            return row.value.name
        return row.value.servers[0] if row.value.servers else ""

    def _sign_in(self, server: str, name: str | None) -> None:
        if self.host.servers.view(server).sign_in_status and self.host.accounts.cancel_sign_in(server):
            return
        self.show_about(Content(_("Signing in to {server}… s cancels.").format(server=server)))
        self.run_worker(
            partial(self._run_and_report, partial(self.host.accounts.sign_in, server, name)),
            group="sign-in",
            exclusive=True,
        )

    def action_sign_out(self) -> None:
        """Sign out of the selected account if the key is pressed twice; the first press asks for confirmation."""
        row = self.current_row()
        if row is None or isinstance(row.value, ServerView):
            return
        if self._sign_out_candidate != row.value:
            self._sign_out_candidate = row.value
            text = _("Press {accounts-sign-out} again to sign out of {title}.")
            self.notify(fill_keys(self, text, title=row.title), markup=False, timeout=4)
            return
        self._sign_out_candidate = None
        self.run_worker(
            partial(self._run_and_report, partial(self.host.accounts.sign_out_account, row.value)), group="sign-out"
        )

    async def _run_and_report(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            result = await work()
        except McpHostError as error:
            self.notify(describe_error(error, self, "accounts-sign-in"), severity="warning", markup=False)
        else:
            if isinstance(result, bool):
                outcome = _("its tokens were revoked") if result else _("its tokens were deleted here")
                self.notify(_("Signed out: {outcome}.").format(outcome=outcome), markup=False, timeout=4)
        await self._load_accounts()
