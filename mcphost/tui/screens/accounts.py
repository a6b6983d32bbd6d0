"""The screen of all stored accounts: sign in, sign out, and select the account of a server."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from mcphost.client.session import StoredAccount
from mcphost.errors import McpHostError
from mcphost.host.questions.sign_in import describe_scope
from mcphost.host.servers.accounts import describe_client, describe_storage, describe_validity, validity
from mcphost.host.views import ServerView
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.account_name import AccountNameForm
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs, describe_error

if TYPE_CHECKING:
    from mcphost.host.host import Host

NOT_SIGNED_IN = "not signed in"


def describe_state(stored_account: StoredAccount) -> tuple[str, str, str]:
    """Return the mark, the style, and whether the account is in use."""
    ended = validity(stored_account.account) == "ended"
    if stored_account.used_by:
        return ("▲", "$warning", "in use, but expired: sign in again") if ended else ("●", "$success", "in use")
    if not stored_account.servers:
        return "◇", "$warning", "its server is no longer configured"
    return ("▲", "$warning", "not in use, expired") if ended else ("○", "$muted", "not in use")


def describe_scopes(stored_account: StoredAccount) -> str:
    """Return what the account allows, with descriptions of known scopes."""
    told = [(describe_scope(scope), scope) for scope in stored_account.account.scopes]
    return ", ".join(f"{words} ({scope})" if words else scope for words, scope in told)


def _server_names(stored_account: StoredAccount) -> str:
    return ", ".join(stored_account.servers) or stored_account.account.server


def _row_identity(row: ListRow) -> tuple[str, ...]:
    return row.value.account.identity if isinstance(row.value, StoredAccount) else (row.value.name,)


class AccountsScreen(ListScreen):
    """All accounts by server, or those of *server*; also servers that require a sign-in and have none."""

    TITLE_TEXT: ClassVar[str] = "Accounts"
    EMPTY_TEXT: ClassVar[str] = (
        "You are not signed in to any server.\n\n"
        "HTTP servers may require a sign-in; you are asked when mcphost connects to them. "
        "On the page of a server (F3), s signs in."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", "use", "screen.use"),
        ("n", "another name", "screen.add_account"),
        ("s", "sign in", "screen.sign_in"),
        ("o o", "sign out", "screen.sign_out"),
    )
    DEFAULT_CSS = "AccountsScreen.narrow #facts { max-height: 100%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "add_account", show=False),
        Binding("s", "sign_in", show=False),
        Binding("o", "sign_out", show=False),
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
        """Reload after a server was connected, or an account was signed in or out."""
        self._request_accounts()

    def _request_accounts(self) -> None:
        self.run_worker(self._load_accounts, group="accounts", exclusive=True)

    async def _load_accounts(self) -> None:
        try:
            found = await self.host.accounts.list_accounts()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._stored_accounts = tuple(one for one in found if self.server in ("", one.account.server, *one.servers))
        row = self.current_row()
        self.reload()
        first, self._is_loaded = not self._is_loaded, True
        if row is not None and not first:
            self._restore_cursor(row)

    def render_row(self, row: ListRow) -> Content:
        # Accounts of one server differ in their last characters.
        """Return an account's row."""
        if isinstance(row.value, StoredAccount):
            row = row._replace(title=f"{clean_line(_server_names(row.value), 20)} · {row.value.account.name}")
        return super().render_row(row)

    def _restore_cursor(self, row: ListRow) -> None:
        """Keep the cursor on the same account after a reload."""
        for number, other in enumerate(self.visible_rows):
            if _row_identity(other) == _row_identity(row):
                self.query_one("#entries", OptionList).highlighted = number

    def load(self) -> Sequence[ListRow]:
        """Return all accounts."""
        out: list[ListRow] = []
        for one in self._stored_accounts:
            mark, style, word = describe_state(one)
            ended = validity(one.account) == "ended"
            detail = word if ended else f"{word} · {describe_validity(one.account)}"
            out.append(ListRow(one, f"{_server_names(one)} · {one.account.name}", detail, mark, style))
        signed = {name for one in self._stored_accounts for name in one.servers}
        nobody = [
            view
            for view in self.host.servers.views()
            if view.name not in signed and (self.server == view.name if self.server else view.state == "sign_in")
        ]
        return [
            *out,
            *(ListRow(one, one.name, NOT_SIGNED_IN, "◌", "$warning") for one in nobody if not one.config.is_stdio),
        ]

    def show_details(self, row: ListRow) -> None:
        """Show scopes, validity and storage of an account."""
        self._sign_out_candidate = None
        if isinstance(row.value, ServerView):
            view = row.value
            signing = self._sign_in_progress((view.name,))
            next_ = "s stops that" if signing else "s signs in"
            self.show_about(clean_pairs([("server", view.name), ("state", signing or view.detail), ("next", next_)]))
            return
        one: StoredAccount = row.value
        account = one.account
        signing = self._sign_in_progress(one.servers)
        self.show_about(
            clean_pairs(
                [
                    ("account", account.name),
                    ("signing in", f"{signing}; s stops that" if signing else ""),
                    ("in use", f"by {', '.join(one.used_by)}" if one.used_by else ""),
                    ("chosen in", "mcp.json, so no other can be selected here" if one.configured_by else ""),
                    ("next", self._next_step(one)),
                    ("server", ", ".join(one.servers) or f"{account.server}, which is no longer configured"),
                    ("address", account.url),
                    ("lasts", describe_validity(account)),
                    ("by", f"{account.issuer}, {describe_client(account)}" if account.client_kind else account.issuer),
                    ("it may", describe_scopes(one) or "whatever the server allows every user"),
                    ("kept", describe_storage(account)),
                ]
            )
        )

    def _sign_in_progress(self, servers: tuple[str, ...]) -> str:
        """Return the status of a running sign-in to one of the servers."""
        return next(
            (view.sign_in_status for view in self.host.servers.views() if view.name in servers and view.sign_in_status),
            "",
        )

    def _next_step(self, one: StoredAccount) -> str:
        if not one.servers:
            return "o signs out"
        if len(one.configured_by) == len(one.servers):
            return ""
        return "n signs in under another name" if one.used_by else "enter uses it"

    # -- what the user does

    def open_row(self, row: ListRow) -> None:
        """Use the account."""
        if isinstance(row.value, ServerView):
            self.action_sign_in()
        else:
            self.action_use()

    def action_use(self) -> None:
        """Connect the server with this account, now and in later runs."""
        row = self.current_row()
        if row is None or isinstance(row.value, ServerView):
            return
        one: StoredAccount = row.value
        servers = [name for name in one.servers if name not in one.used_by]
        if not servers:
            self.notify(
                f"{row.title} is in use already." if one.servers else "Its server is no longer configured.",
                markup=False, timeout=4,
            )  # fmt: skip
            return
        self.show_about(Content(f"Connecting {', '.join(servers)} as {one.account.name}…"))
        # Run by the app, so that the result is shown even if this screen was closed.
        work = partial(self._use_account, servers, one.account.name)
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
        """Sign in to the server under another name."""
        if not (server := self._current_server()):
            self.notify("Its server is no longer configured.", markup=False, timeout=4)
            return
        taken = tuple(one.account.name for one in self._stored_accounts if server in one.servers)

        def signed(name: str | None) -> None:
            if name is not None:
                self._sign_in(server, name)

        self.app.push_screen(AccountNameForm(server, taken), signed)  # pyright: ignore[reportUnknownMemberType]

    def action_sign_in(self) -> None:
        """Sign in again with this account."""
        row = self.current_row()
        if row is None:
            self._sign_in(self.server, None) if self.server else None
        elif isinstance(row.value, ServerView):
            self._sign_in(row.value.name, None)
        elif row.value.servers:
            self._sign_in(row.value.servers[0], row.value.account.name)
        else:
            self.notify("Its server is no longer configured.", markup=False, timeout=4)

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
        self.show_about(Content(f"Signing in to {server}… s stops that."))
        self.run_worker(
            partial(self._run_and_report, partial(self.host.accounts.sign_in, server, name)),
            group="sign-in",
            exclusive=True,
        )

    def action_sign_out(self) -> None:
        """Sign out; pressed twice."""
        row = self.current_row()
        if row is None or isinstance(row.value, ServerView):
            return
        if self._sign_out_candidate != row.value:
            self._sign_out_candidate = row.value
            self.notify(f"Press o again to sign out of {row.title}.", markup=False, timeout=4)
            return
        self._sign_out_candidate = None
        self.run_worker(
            partial(self._run_and_report, partial(self.host.accounts.sign_out_account, row.value)), group="sign-out"
        )

    async def _run_and_report(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            came = await work()
        except McpHostError as error:
            self.notify(describe_error(error), severity="warning", markup=False)
        else:
            if isinstance(came, bool):
                said = "its tokens were revoked" if came else "its tokens are erased here"
                self.notify(f"Signed out: {said}.", markup=False, timeout=4)
        await self._load_accounts()
