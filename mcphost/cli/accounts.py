"""Commands `login`, `logout` and `accounts`: sign in to and out of servers, and choose accounts."""

import argparse
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from mcphost.cli.parser import build_options
from mcphost.cli.printing import end_status, format_error, print_json, print_note, print_table, print_text
from mcphost.errors import ConsentDenied, McpHostError, SignInRequired, UsageError
from mcphost.translation import _, join_list, translate_sentence

if TYPE_CHECKING:
    from mcphost.auth.accounts import Account
    from mcphost.auth.oauth_provider import OAuthProvider
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.auth.token_store import TokenStore
    from mcphost.cli.parser import Options
    from mcphost.cli.terminal_frontend import BrowserMode
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.host.questions.frontend import Frontend


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `login`, `logout` or `accounts` command to *parser*."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    if command == "accounts":
        parser.add_argument(
            "action", nargs="?", choices=("list", "use"), default="list", help="what to do (default: list)"
        )
        parser.add_argument("server", nargs="?", metavar="SERVER", help="use: the name of the server")
        parser.add_argument("account", nargs="?", metavar="NAME", help="use: the name of the account, such as work")
        return
    parser.add_argument("server", metavar="SERVER", help="a configured server that is reached by HTTP")
    parser.add_argument(
        "--account", metavar="NAME", default="", help="the account, if the server has several, such as work"
    )
    if command == "logout":
        parser.add_argument(
            "--forget-client",
            action="store_true",
            help="also forget mcphost's registration there, such as a client ID that was deleted",
        )
    if command == "login":
        parser.add_argument(
            "--no-browser",
            action="store_true",
            help="do not open a browser; show the address, and ask for the final one",
        )
        parser.add_argument(
            "--yes",
            action="store_true",
            help="open the browser without asking; otherwise, it is opened only after you confirm the address",
        )
        parser.add_argument(
            "--device",
            action="store_true",
            help="show a code to enter in a browser on any machine, if the server offers this",
        )
        parser.add_argument(
            "--scope",
            action="append",
            metavar="NAME",
            default=[],
            help="an additional scope to request; repeatable",
        )


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `login`, `logout` or `accounts` command and return its exit code."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)
    if command == "accounts" and (args.action == "use") != bool(args.account):
        raise UsageError("Which account of which server?", "mcphost accounts use SERVER NAME; see: mcphost accounts")
    if command == "login" and args.account:
        from mcphost.host.servers.accounts import parse_account_name

        parse_account_name(args.account)

    async def work() -> int:
        match command:
            case "login":
                return await _login(options, args)
            case "logout":
                return await _logout(options, args)
            case _ if args.action == "use":
                return await _select_account(options, args)
            case _:
                return await _list_accounts(options, as_json=args.json)

    return run_command(options, work)


async def _login(options: "Options", args: argparse.Namespace) -> int:
    from mcphost import paths
    from mcphost.auth.accounts import FETCHED_ON_DEMAND
    from mcphost.auth.interactive_sign_in import SignInNotRequired
    from mcphost.auth.tokens import split_scopes
    from mcphost.cli.build_host import open_grants_and_audit
    from mcphost.cli.terminal_frontend import TerminalFrontend
    from mcphost.config.loader import SETTINGS_FILE, add_file_name

    try:
        async with open_grants_and_audit() as (_grants, audit):
            frontend = audit.wrap_frontend(TerminalFrontend(browser=_browser_mode(args)))
            oauth, server = await _create_oauth_provider(options, args, frontend)
            try:
                signed = await oauth.login(
                    use_device_code=args.device, scopes=split_scopes(" ".join(args.scope)), must_keep=True
                )
            except McpHostError as error:
                add_file_name(error, server)
                raise
            finally:
                end_status()
            if args.account:
                await oauth.select_account()
    except SignInNotRequired as error:
        if args.json:
            print_json({"server": args.server, "signed_in": False, "message": error.message})
        else:
            print_text(format_error(error))
        return 0
    from mcphost.headless.json_output import account_json

    account = signed.to_account(await oauth.resolve_storage(signed))
    if args.json:
        print_json(account_json(account))
        return 0
    text = (
        _("Signed in to {server} as {account} at {issuer}.")
        if account.account
        else _("Signed in to {server} at {issuer}.")
    )
    print_text(text.format(server=account.server, account=account.name, issuer=account.issuer))
    if account.place == FETCHED_ON_DEMAND:
        print_note(_("The token is not stored: each run requests one when it needs it."))
    elif not account.is_stored:
        text = _(
            'The sign-in is not stored and ends with this command. To keep it, set [secrets] store = "file" in {file}.'
        )
        print_note(text.format(file=paths.config_dir(options.config_dir) / SETTINGS_FILE))
    return 0


def _browser_mode(args: argparse.Namespace) -> "BrowserMode":
    if args.no_browser or args.device:
        return "never"
    return "always" if args.yes else "ask"


async def _logout(options: "Options", args: argparse.Namespace) -> int:
    """Sign out of a server, even one that is no longer configured.

    No configuration is needed, because the revocation endpoint is stored with the tokens.
    """
    from mcphost.auth.accounts import account_key
    from mcphost.cli.build_host import create_oauth_registry, load_approved_configuration
    from mcphost.cli.command_runner import require_server
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.servers.accounts import describe_other_accounts
    from mcphost.proxies import proxy_for

    config = await load_approved_configuration(options)
    registry = create_oauth_registry(options, RefusingFrontend(), config.secret_store)
    server = config.find_server(args.server)
    stored_accounts = [one for one in await registry.token_store.accounts() if one.server == args.server]
    if not stored_accounts:
        require_server(config, args.server)
        if server is not None and server.oauth.grant != "person":
            raise UsageError(
                f"mcphost signs in to {server.name!r} without user interaction, so no sign-in is stored.",
                f'To end that, remove "grant" from its entry in {server.file}.',
            )
    named = args.account or (server.oauth.account if server else "")
    chosen = await _selected_account(registry.token_store, stored_accounts, server)
    account = account_key(named) if named else chosen
    if server is None and not named and len(stored_accounts) == 1:
        account = stored_accounts[0].account  # the only account, even if another one is selected
    selected = [one for one in stored_accounts if one.account == account]
    in_use = server is not None and not server.oauth.account and account == chosen
    left = sorted(one.name for one in stored_accounts if one.account != account) if in_use else []
    if stored_accounts and not selected and (server is None or args.account):
        raise _unknown_account_error(args, sorted(one.name for one in stored_accounts))
    signed_out, revoked, forgotten = bool(selected), bool(selected), False
    trusted = await approved_or_none(server)  # the CA certificates of an unapproved entry are not used
    for one in selected:
        gone, done = await registry.sign_out_stored(one, trusted, proxy_for=proxy_for)
        signed_out, revoked = signed_out and gone, revoked and done
        if args.forget_client:
            forgotten = await registry.token_store.delete_issuer_client(one.issuer) or forgotten
    if args.forget_client and not selected and server is not None:
        forgotten = await _forget_client(registry, server, approved=trusted is not None)
    if args.json:
        more: dict[str, object] = {"client_forgotten": forgotten} if args.forget_client else {}
        more |= {"left": left} if left else {}
        print_json({"server": args.server, "signed_out": signed_out, "revoked": revoked, **more})
        return 0
    _print_sign_out(args.server, signed_out=signed_out, revoked=revoked)
    if left:
        print_note(" ".join(map(translate_sentence, describe_other_accounts(args.server, left))))
    if args.forget_client:
        print_text(
            _("The next sign-in registers mcphost again.") if forgotten else _("mcphost was not registered there.")
        )
    return 0


def _unknown_account_error(args: argparse.Namespace, names: list[str]) -> UsageError:
    """Return the error for a sign-out that does not name one of the stored accounts.

    The error lists *names*, the names of the stored accounts. If `--account` was not given, the error's hint says to
    add it.
    """
    if not args.account:
        return UsageError(f"Which account of {args.server!r}?", f"--account {' or '.join(map(quote, names))}")
    return UsageError(
        f"You are not signed in to {args.server!r} as {args.account!r}.", f"Accounts: {', '.join(names)}."
    )


def _print_sign_out(server: str, *, signed_out: bool, revoked: bool) -> None:

    if not signed_out:
        print_text(_("You were not signed in to {server}.").format(server=server))
    else:
        erased = _("Its tokens were revoked.") if revoked else _("Its tokens were deleted here.")
        print_text(_("Signed out of {server}. {erased}").format(server=server, erased=erased))


async def _selected_account(token_store: "TokenStore", accounts: "list[Account]", server: "ServerConfig | None") -> str:
    """Return the account that `mcphost accounts use` has selected for a server, or "" if there is none.

    Selections are stored by server URL. The URL is taken from *accounts*, the accounts stored for the server, or from
    *server* if *accounts* is empty.
    """
    from mcphost.auth.oauth_registry import make_target
    from mcphost.config.variable_references import resolve_target

    urls = {one.url for one in accounts} or (
        {make_target(resolve_target(server)).canonical_url} if server is not None else set()
    )
    for url in urls:
        if chosen := await token_store.chosen_account(url):
            return chosen
    return ""


async def approved_or_none(server: "ServerConfig | None") -> "ServerConfig | None":
    """Return *server* if the user has approved it, else None."""
    from mcphost.cli.build_host import open_grants
    from mcphost.host.servers.server_approval import approval_source

    if server is None:
        return None
    async with open_grants() as grants:
        return server if await approval_source(grants, server) else None


async def _forget_client(registry: "OAuthRegistry", server: "ServerConfig", *, approved: bool) -> bool:
    """Delete the OAuth client that was registered for the server; return whether there was one.

    The next sign-in then registers a new client. Raises ConsentDenied if *approved* is false, which means that the user
    has not approved the server.
    """
    from mcphost.config.variable_references import resolve_target
    from mcphost.proxies import proxy_for

    if not approved:
        raise _not_approved_error(server)
    oauth = registry.get_provider(resolve_target(server), proxy_for=proxy_for)
    return oauth is not None and await oauth.forget_client()


def _not_approved_error(server: "ServerConfig") -> ConsentDenied:
    return ConsentDenied(
        f"The server {server.name!r} is not approved.", f"Approve it with: mcphost servers trust {quote(server.name)}"
    )


async def _create_oauth_provider(
    options: "Options", args: argparse.Namespace, frontend: "Frontend"
) -> "tuple[OAuthProvider, ServerConfig]":
    """Return the OAuth provider and the expanded configuration of the server that the user named.

    Raises ConfigError or UsageError if the server is invalid or unknown. Also raises UsageError if the server is a
    program, which needs no sign-in, or if it does not support one of the given flags. Raises ConsentDenied if the
    server is not approved, and SignInRequired if its entry already sets an Authorization header.
    """
    import anyio.to_thread

    from mcphost.cli.build_host import create_oauth_registry, load_configuration, open_grants
    from mcphost.cli.command_runner import require_server
    from mcphost.cli.server_preparation import expand_references
    from mcphost.cli.terminal_frontend import SignInProgressPrinter
    from mcphost.host.servers.accounts import no_sign_in_error
    from mcphost.host.servers.server_approval import approval_source
    from mcphost.proxies import proxy_for
    from mcphost.serialization import replace

    async with open_grants() as grants:
        config = await load_configuration(options, grants)
        server = require_server(config, args.server)
        if server.is_stdio:
            raise no_sign_in_error(server.name)
        if server.oauth.grant != "person" and (args.device or args.scope or args.account):
            raise UsageError(
                f"mcphost signs in to {server.name!r} without user interaction, as its entry in {server.file} says.",
                "Its scopes and its identity are set there.",
            )
        if not await approval_source(grants, server):
            raise _not_approved_error(server)
    if args.account:
        server = replace(server, oauth=replace(server.oauth, account=args.account))
    server = await anyio.to_thread.run_sync(expand_references, server)
    on_progress = None if options.quiet else SignInProgressPrinter().update
    oauth = create_oauth_registry(options, frontend, config.secret_store, on_progress=on_progress).get_provider(
        server, proxy_for=proxy_for
    )
    if oauth is None:
        raise SignInRequired(
            f"{server.name!r} is reached with the Authorization header of {server.file}.",
            "Remove it there to sign in instead.",
        )
    return oauth, server


async def _select_account(options: "Options", args: argparse.Namespace) -> int:
    """Select the stored account to use for future connections to a server.

    An mcphost process that is already running keeps using the old account until it restarts the server.
    """
    from mcphost.cli.build_host import create_oauth_registry, load_approved_configuration, open_grants_and_audit
    from mcphost.cli.command_runner import require_server
    from mcphost.config.variable_references import resolve_target
    from mcphost.host.audit.audit_log import AuditSubject
    from mcphost.host.questions.frontend import RefusingFrontend

    config = await load_approved_configuration(options)
    server = require_server(config, args.server)
    registry = create_oauth_registry(options, RefusingFrontend(), config.secret_store)
    async with open_grants_and_audit() as (_grants, audit):
        span = await audit.start_span(AuditSubject(kind="account", server=server.name, name=args.account), who="person")
        chosen = False
        try:
            await registry.choose_account(resolve_target(server), args.account)
            chosen = True
        finally:
            span.end("chosen" if chosen else "not chosen")
    if args.json:
        print_json({"server": server.name, "account": args.account})
    else:
        print_text(
            _("{name} is used with the account {account} from now on.").format(name=server.name, account=args.account)
        )
    return 0


async def _list_accounts(options: "Options", *, as_json: bool) -> int:
    from mcphost.cli.build_host import create_oauth_registry, load_approved_configuration
    from mcphost.config.variable_references import resolve_target
    from mcphost.headless.json_output import stored_account_json
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.servers.accounts import describe_storage

    config = await load_approved_configuration(options)
    registry = create_oauth_registry(options, RefusingFrontend(), config.secret_store)
    accounts = await registry.list_accounts(tuple(map(resolve_target, config.servers)))
    storage = registry.token_store.storage
    locked_place = "encrypted" if storage.is_encrypted_file_locked else None
    if as_json:
        documents = [stored_account_json(stored, is_locked=stored.account.place == locked_place) for stored in accounts]
        print_json({"accounts": documents})
        return 0
    rows = [
        (
            f"{'*' if stored.used_by else ' '} {stored.account.server} {stored.account.name}",
            _describe_state(stored.account, is_locked=stored.account.place == locked_place),
            describe_storage(stored.account, _),
            stored.account.issuer,
            " ".join(stored.account.scopes),
        )
        for stored in accounts
    ]
    print_table(rows, (_("  Account"), _("State"), _("Stored"), _("Authorization server"), _("Scopes")))
    if not accounts:
        print_note(_("You are not signed in to any server."))
    elif any(stored.used_by for stored in accounts):
        print_note(_("* is in use. To use another one: mcphost accounts use SERVER NAME"))
    if any(stored.account.place == locked_place for stored in accounts):
        print_note(
            _("{file} is locked. The sign-ins in it are used once you enter its passphrase, in a terminal.").format(
                file=storage.encrypted_path
            )
        )
    if gone := sorted({stored.account.server for stored in accounts if not stored.servers}):
        print_note(
            _("No longer configured: {names}. Sign out with: mcphost logout {name}").format(
                names=join_list(gone), name=quote(gone[0])
            )
        )
    return 0


def _describe_state(account: "Account", *, is_locked: bool) -> str:
    """Return text that says whether an account is still signed in, such as "signed in for 3 more hours".

    *is_locked* means that the file with the account's tokens is locked, so that the tokens cannot be used.
    """
    from mcphost.host.servers.accounts import describe_validity, validity

    if validity(account) == "ended":
        return _("expired")
    if is_locked:
        return _("locked")
    text = _("signed in, {validity}") if account.is_renewable else _("signed in {validity}")
    return text.format(validity=describe_validity(account, translate=_))


class StoredSignIns:
    """The stored accounts that only one server can use; they can be deleted when this server is removed."""

    def __init__(
        self, accounts: "Sequence[Account]", registry: "OAuthRegistry | None", approved: "ServerConfig | None"
    ) -> None:
        self._accounts = accounts
        self._registry = registry
        self._approved = approved

    @classmethod
    async def load(
        cls, options: "Options", config: "HostConfig", server: "ServerConfig", others: "Iterable[ServerConfig]"
    ) -> "StoredSignIns":
        """Find the stored accounts that *server* can use, but none of the *others* can.

        *others* are the other configured servers. One of them may have the same name as *server* in another file.
        """
        if server.is_stdio:
            return cls((), None, None)
        from mcphost.cli.build_host import create_oauth_registry
        from mcphost.config.variable_references import resolve_target
        from mcphost.host.questions.frontend import RefusingFrontend
        from mcphost.serialization import replace

        registry = create_oauth_registry(options, RefusingFrontend(), config.secret_store)
        renamed = (replace(one, name=f"{one.name} in {one.file}") if one.name == server.name else one for one in others)
        stored = await registry.list_accounts(tuple(map(resolve_target, (server, *renamed))))
        own = [one.account for one in stored if one.servers == (server.name,)]
        return cls(own, registry, await approved_or_none(server))

    def describe(self) -> tuple[str, ...]:
        """Return one line per account, such as "sign-in: work at https://login.example"."""
        return tuple(f"sign-in: {account.name} at {account.issuer}" for account in self._accounts)

    async def sign_out(self) -> tuple[str, ...]:
        """Sign out of the accounts: delete and revoke their tokens.

        Returns one line per account, as `describe` does.
        """
        from mcphost.proxies import proxy_for

        if self._registry is None:
            return ()
        for account in self._accounts:
            await self._registry.sign_out_stored(account, self._approved, proxy_for=proxy_for)
        return self.describe()
