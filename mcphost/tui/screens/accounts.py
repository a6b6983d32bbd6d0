"""All sign-ins that are kept: which one each server is used with; choose another, sign in by a name, sign out."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from mcphost.client.session import Kept
from mcphost.errors import McpHostError
from mcphost.host.questions.scope_descriptions import in_words
from mcphost.host.servers.accounts import client, lasting, place, validity
from mcphost.host.views import ServerView
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.account_name import AccountName
from mcphost.tui.screens.browser import Browser, Row, facts, fix_here

if TYPE_CHECKING:
    from mcphost.host.host import Host

NOBODY = "not signed in"


def state(kept: Kept) -> tuple[str, str, str]:
    """Mark, style, and a word for whether it is used."""
    ended = validity(kept.account) == "ended"
    if kept.used_by:
        return ("▲", "$warning", "in use, but ended: sign in again") if ended else ("●", "$success", "in use")
    if not kept.servers:
        return "◇", "$warning", "its server is not configured any more"
    return ("▲", "$warning", "not in use, and ended") if ended else ("○", "$muted", "not in use")


def rights(kept: Kept) -> str:
    """What it permits, in words where the names say it."""
    told = [(in_words(scope), scope) for scope in kept.account.scopes]
    return ", ".join(f"{words} ({scope})" if words else scope for words, scope in told)


def _servers(kept: Kept) -> str:
    return ", ".join(kept.servers) or kept.account.server


def _what(row: Row) -> tuple[str, ...]:
    return row.value.account.whose if isinstance(row.value, Kept) else (row.value.name,)


class Accounts(Browser):
    """Every sign-in, by server; `server` narrows it to one. A server that wants one and has none is listed, too."""

    TITLE_TEXT: ClassVar[str] = "Accounts"
    EMPTY: ClassVar[str] = (
        "You are not signed in to any server.\n\n"
        "Servers that are reached by an address may want to know who you are; they ask when mcphost connects to them. "
        "On the page of a server (F3), s signs in."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", "use", "screen.use"),
        ("n", "another name", "screen.other"),
        ("s", "sign in", "screen.sign_in"),
        ("o o", "sign out", "screen.sign_out"),
    )
    DEFAULT_CSS = "Accounts.narrow #facts { max-height: 100%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "other", show=False),
        Binding("s", "sign_in", show=False),
        Binding("o", "sign_out", show=False),
    ]

    def __init__(self, host: "Host", server: str = "") -> None:
        super().__init__()
        self.host = host
        self.server = server
        self._found: tuple[Kept, ...] = ()
        self._looked = False
        self._leaving: Kept | None = None
        self.add_class("bare")

    def on_mount(self) -> None:
        super().on_mount()
        self._look()

    def server_changed(self) -> None:
        """A server was connected, or somebody signed in or out."""
        self._look()

    def _look(self) -> None:
        self.run_worker(self._read, group="accounts", exclusive=True)

    async def _read(self) -> None:
        try:
            found = await self.host.accounts.all()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._found = tuple(one for one in found if self.server in ("", one.account.server, *one.servers))
        row = self.current()
        self.reload()
        first, self._looked = not self._looked, True
        if row is not None and not first:
            self._back_to(row)

    def prompt(self, row: Row) -> Content:
        # Several accounts of one server are told apart by what comes last.
        if isinstance(row.value, Kept):
            row = row._replace(title=f"{clean_line(_servers(row.value), 20)} · {row.value.account.name}")
        return super().prompt(row)

    def _back_to(self, row: Row) -> None:
        """The cursor stays on what it was on, wherever that is in the list now."""
        for number, other in enumerate(self.shown):
            if _what(other) == _what(row):
                self.query_one("#entries", OptionList).highlighted = number

    def load(self) -> Sequence[Row]:
        out: list[Row] = []
        for one in self._found:
            mark, style, word = state(one)
            ended = validity(one.account) == "ended"
            detail = word if ended else f"{word} · {lasting(one.account)}"
            out.append(Row(one, f"{_servers(one)} · {one.account.name}", detail, mark, style))
        signed = {name for one in self._found for name in one.servers}
        nobody = [
            view
            for view in self.host.servers()
            if view.name not in signed and (self.server == view.name if self.server else view.state == "sign_in")
        ]
        return [*out, *(Row(one, one.name, NOBODY, "◌", "$warning") for one in nobody if not one.config.is_stdio)]

    def highlighted(self, row: Row) -> None:
        self._leaving = None
        if isinstance(row.value, ServerView):
            view = row.value
            signing = self._signing((view.name,))
            next_ = "s stops that" if signing else "s signs in"
            self.about(facts([("server", view.name), ("state", signing or view.detail), ("next", next_)]))
            return
        one: Kept = row.value
        account = one.account
        signing = self._signing(one.servers)
        self.about(
            facts(
                [
                    ("account", account.name),
                    ("signing in", f"{signing}; s stops that" if signing else ""),
                    ("in use", f"by {', '.join(one.used_by)}" if one.used_by else ""),
                    ("chosen in", "mcp.json, so that no other can be chosen here" if one.fixed_by else ""),
                    ("next", self._next(one)),
                    ("server", ", ".join(one.servers) or f"{account.server}, which is not configured any more"),
                    ("address", account.url),
                    ("lasts", lasting(account)),
                    ("by", f"{account.issuer}, {client(account)}" if account.client else account.issuer),
                    ("it may", rights(one) or "do what the server permits every user"),
                    ("kept", place(account)),
                ]
            )
        )

    def _signing(self, servers: tuple[str, ...]) -> str:
        """Where a sign-in to one of them is."""
        return next((view.signing for view in self.host.servers() if view.name in servers and view.signing), "")

    def _next(self, one: Kept) -> str:
        if not one.servers:
            return "o signs out"
        if len(one.fixed_by) == len(one.servers):
            return ""
        return "n signs in under another name" if one.used_by else "enter uses it"

    # -- what the user does

    def chosen(self, row: Row) -> None:
        """Enter: use it."""
        if isinstance(row.value, ServerView):
            self.action_sign_in()
        else:
            self.action_use()

    def action_use(self) -> None:
        """Connect its server as this account, now and in later runs."""
        row = self.current()
        if row is None or isinstance(row.value, ServerView):
            return
        one: Kept = row.value
        servers = [name for name in one.servers if name not in one.used_by]
        if not servers:
            self.notify(
                f"{row.title} is in use already." if one.servers else "Its server is not configured any more.",
                markup=False, timeout=4,
            )  # fmt: skip
            return
        self.about(Content(f"Connecting {', '.join(servers)} as {one.account.name}…"))
        # The app's own, so that it is done and told also when this page is left meanwhile.
        work = partial(self._use, servers, one.account.name)
        self.app.run_worker(work, group="accounts-use")  # pyright: ignore[reportUnknownMemberType]

    async def _use(self, servers: list[str], name: str) -> None:
        for server in servers:
            try:
                await self.host.accounts.use(server, name)
            except McpHostError as error:
                self.app.notify(str(error), severity="warning", markup=False)  # pyright: ignore[reportUnknownMemberType]
        if self.is_attached:
            self._look()

    def action_other(self) -> None:
        """Sign in to its server under a name that is asked for."""
        if not (server := self._server()):
            self.notify("Its server is not configured any more.", markup=False, timeout=4)
            return
        taken = tuple(one.account.name for one in self._found if server in one.servers)

        def signed(name: str | None) -> None:
            if name is not None:
                self._sign_in(server, name)

        self.app.push_screen(AccountName(server, taken), signed)  # pyright: ignore[reportUnknownMemberType]

    def action_sign_in(self) -> None:
        """Sign in anew with this account."""
        row = self.current()
        if row is None:
            self._sign_in(self.server, None) if self.server else None
        elif isinstance(row.value, ServerView):
            self._sign_in(row.value.name, None)
        elif row.value.servers:
            self._sign_in(row.value.servers[0], row.value.account.name)
        else:
            self.notify("Its server is not configured any more.", markup=False, timeout=4)

    def _server(self) -> str:
        row = self.current()
        if row is None:
            return self.server
        if isinstance(row.value, ServerView):
            return row.value.name
        return row.value.servers[0] if row.value.servers else ""

    def _sign_in(self, server: str, name: str | None) -> None:
        if self.host.server(server).signing and self.host.accounts.stop(server):
            return
        self.about(Content(f"Signing in to {server}… s stops that."))
        self.run_worker(
            partial(self._done, partial(self.host.accounts.sign_in, server, name)), group="sign-in", exclusive=True
        )

    def action_sign_out(self) -> None:
        """Pressed twice: erase it here and at the server."""
        row = self.current()
        if row is None or isinstance(row.value, ServerView):
            return
        if self._leaving != row.value:
            self._leaving = row.value
            self.notify(f"Press o again to sign out of {row.title}.", markup=False, timeout=4)
            return
        self._leaving = None
        self.run_worker(partial(self._done, partial(self.host.accounts.end, row.value)), group="sign-out")

    async def _done(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            came = await work()
        except McpHostError as error:
            self.notify(fix_here(error), severity="warning", markup=False)
        else:
            if isinstance(came, bool):
                said = "its tokens were revoked" if came else "its tokens are erased here"
                self.notify(f"Signed out: {said}.", markup=False, timeout=4)
        await self._read()
