"""mcphost login, logout, accounts: signing in to servers, on machines with and without a browser."""

import argparse
from shlex import quote
from typing import TYPE_CHECKING

from mcphost.errors import ConsentDenied, McpHostError, SignInRequired, UsageError

if TYPE_CHECKING:
    from mcphost.auth.account import Account
    from mcphost.auth.oauth_provider import OAuth
    from mcphost.auth.oauth_registry import Identities
    from mcphost.auth.token_store import Keep
    from mcphost.cli.options import Options
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.host.questions.frontend import Frontend


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of one of the three."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    if command == "accounts":
        parser.add_argument("action", nargs="?", choices=("list", "use"), default="list", help="list by default")
        parser.add_argument("server", nargs="?", metavar="SERVER", help="use: which configured server")
        parser.add_argument("account", nargs="?", metavar="NAME", help="use: which of its accounts, such as work")
        return
    parser.add_argument("server", metavar="SERVER", help="a configured server that is reached by HTTP")
    parser.add_argument("--account", metavar="NAME", default="", help="which of several accounts, such as work")
    if command == "logout":
        parser.add_argument(
            "--forget-client",
            action="store_true",
            help="also drop what mcphost is registered as there, such as a client id that was deleted",
        )
    if command == "login":
        parser.add_argument(
            "--no-browser", action="store_true", help="open no browser; show the address and take the one it ended at"
        )
        parser.add_argument(
            "--device",
            action="store_true",
            help="show a code to enter in a browser on any machine, where that is offered",
        )
        parser.add_argument(
            "--scope",
            action="append",
            metavar="NAME",
            default=[],
            help="a right to ask for beside those you gave",
        )


def run(command: str, given: argparse.Namespace) -> int:
    """Do it."""
    from mcphost.cli.command_runner import run
    from mcphost.cli.options import options_of

    options = options_of(given)
    if command == "accounts" and (given.action == "use") != bool(given.account):
        raise UsageError("Which account of which server?", "mcphost accounts use SERVER NAME; see: mcphost accounts")
    if command == "login" and given.account:
        from mcphost.host.servers.accounts import parse_account_name

        parse_account_name(given.account)

    async def work() -> int:
        match command:
            case "login":
                return await _login(options, given)
            case "logout":
                return await _logout(options, given)
            case _ if given.action == "use":
                return await _use(options, given)
            case _:
                return await _accounts(options, as_json=given.json)

    return run(options, work)


async def _login(options: "Options", given: argparse.Namespace) -> int:
    from mcphost.auth.account import EARNED
    from mcphost.auth.authorization_flow import NotWanted
    from mcphost.auth.tokens import split
    from mcphost.cli.offline_store import open_approvals
    from mcphost.cli.output import document, note, paragraph, say
    from mcphost.cli.terminal_frontend import Terminal
    from mcphost.config.loader import name_file

    try:
        async with open_approvals() as (_, journal):
            front = journal.wrap_frontend(Terminal(browser=not (given.no_browser or given.device)))
            oauth, server = await _oauth(options, given, front)
            try:
                signed = await oauth.login(device=given.device, scopes=split(" ".join(given.scope)))
            except McpHostError as error:
                name_file(error, server)
                raise
            if given.account:
                await oauth.use()
    except NotWanted as error:
        if given.json:
            document({"server": given.server, "signed_in": False, "message": error.message})
        else:
            say(paragraph(error))
        return 0
    from mcphost.headless.json_output import account as document_of

    shown = signed.shown(await oauth.settled(signed))
    if given.json:
        document(document_of(shown))
        return 0
    whose = f" as {shown.name}" if shown.account else ""
    say(f"Signed in to {shown.server}{whose} at {shown.issuer}.")
    if shown.place == EARNED:
        note("That needs nobody, so the token is not kept: each run gets one when it needs it.")
    elif not shown.kept:
        note("Nothing keeps the sign-in, so it ends with this command. See: mcphost doctor")
    return 0


async def _logout(options: "Options", given: argparse.Namespace) -> int:
    """Also of a server that is not configured any more: what is kept says where its tokens are revoked."""
    from mcphost.auth.account import account_key
    from mcphost.cli.bootstrap import identities
    from mcphost.cli.command_runner import known
    from mcphost.cli.output import document, note, say
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.servers.accounts import describe_other_accounts
    from mcphost.transport.proxies import proxy_for

    config = await _configured(options)
    found = identities(options, RefusingFrontend(), config.store)
    found.keep.warn = note
    server = next((server for server in config.servers if server.name == given.server), None)
    all_kept = [one for one in await found.keep.accounts() if one.server == given.server]
    if not all_kept:
        known(config, given.server)
        if server is not None and server.oauth.grant != "person":
            raise UsageError(
                f"mcphost signs in to {server.name!r} without a person; there is nothing kept to sign out of.",
                f'To end that, remove "grant" from its entry in {server.file}.',
            )
    named = given.account or (server.oauth.account if server else "")
    chosen = await _chosen(found.keep, all_kept, server)
    account = account_key(named) if named else chosen
    if server is None and not named and len(all_kept) == 1:
        account = all_kept[0].account  # nothing uses it any more, whoever was chosen
    kept = [one for one in all_kept if one.account == account]
    in_use = server is not None and not server.oauth.account and account == chosen
    left = sorted(one.name for one in all_kept if one.account != account) if in_use else []
    if all_kept and not kept and server is None:
        raise UsageError(
            f"Which account of {given.server!r}?",
            f"--account {' or '.join(sorted(quote(one.name) for one in all_kept))}",
        )
    signed_out, revoked, forgotten = bool(kept), bool(kept), False
    trusted = await _approved_only(server)  # certificates of an entry that nobody approved are not believed
    for one in kept:
        gone, done = await found.sign_out_kept(one, trusted, proxy_for=proxy_for)
        signed_out, revoked = signed_out and gone, revoked and done
        if given.forget_client:
            forgotten = await found.keep.forget_issuer(one.issuer) or forgotten
    if given.forget_client and not kept and server is not None:
        forgotten = await _client_forgotten(found, server, approved=trusted is not None)
    if given.json:
        more: dict[str, object] = {"client_forgotten": forgotten} if given.forget_client else {}
        more |= {"left": left} if left else {}
        document({"server": given.server, "signed_out": signed_out, "revoked": revoked, **more})
        return 0
    if not signed_out:
        say(f"You were not signed in to {given.server}.")
    else:
        erased = "Its tokens were revoked." if revoked else "Its tokens are erased here."
        say(f"Signed out of {given.server}. {erased}")
    if left:
        note(" ".join(describe_other_accounts(given.server, left)))
    if given.forget_client:
        say("The next sign-in there introduces mcphost anew." if forgotten else "mcphost was not registered there.")
    return 0


async def _chosen(keep: "Keep", kept: "list[Account]", server: "ServerConfig | None") -> str:
    """The account that was chosen for a server, also for one that is not configured any more."""
    from mcphost.auth.oauth_registry import target_of

    urls = {one.url for one in kept} or ({target_of(server).key} if server is not None else set())
    for url in urls:
        if chosen := await keep.chosen(url):
            return chosen
    return ""


async def _configured(options: "Options") -> "HostConfig":
    from mcphost.cli.bootstrap import configuration
    from mcphost.cli.offline_store import open_grants

    async with open_grants() as grants:
        return await configuration(options, grants)


async def _approved_only(server: "ServerConfig | None") -> "ServerConfig | None":
    """The server, when it is approved."""
    from mcphost.cli.offline_store import open_grants
    from mcphost.host.servers.approval import approval_source

    if server is None:
        return None
    async with open_grants() as grants:
        return server if await approval_source(grants, server) else None


async def _client_forgotten(found: "Identities", server: "ServerConfig", *, approved: bool) -> bool:
    """Ask the server who signs for it, and drop the registration there; whether there was one. Raises ConsentDenied."""
    from mcphost.cli.output import note
    from mcphost.transport.proxies import proxy_for

    if not approved:
        raise _not_approved(server)
    oauth = found.of(server, warn=note, proxy_for=proxy_for)
    return oauth is not None and await oauth.forget_client()


def _not_approved(server: "ServerConfig") -> ConsentDenied:
    return ConsentDenied(
        f"The server {server.name!r} is not approved.", f"Approve it with: mcphost servers trust {quote(server.name)}"
    )


async def _oauth(options: "Options", given: argparse.Namespace, front: "Frontend") -> "tuple[OAuth, ServerConfig]":
    """Who signs in to the server of the command line, and that server. Raises UsageError, ConfigError, Declined."""
    import anyio.to_thread

    from mcphost.cli.bootstrap import configuration, identities
    from mcphost.cli.command_runner import known
    from mcphost.cli.offline_store import open_grants
    from mcphost.cli.output import note
    from mcphost.cli.progress import Steps
    from mcphost.cli.session_opener import filled
    from mcphost.host.servers.approval import approval_source
    from mcphost.serialization import replace
    from mcphost.transport.proxies import proxy_for

    async with open_grants() as grants:
        config = await configuration(options, grants)
        known(config, given.server)
        server = next(server for server in config.servers if server.name == given.server)
        if server.is_stdio:
            raise UsageError(f"{server.name!r} is a program on this machine; there is nothing to sign in to.")
        if server.oauth.grant != "person" and (given.device or given.scope or given.account):
            raise UsageError(
                f"mcphost signs in to {server.name!r} without a person, as its entry in {server.file} says.",
                "Its scopes, and who it is, are written there.",
            )
        if not await approval_source(grants, server):
            raise _not_approved(server)
    if given.account:
        server = replace(server, oauth=replace(server.oauth, account=given.account))
    server = await anyio.to_thread.run_sync(filled, server)
    told = None if options.quiet else Steps().heard
    oauth = identities(options, front, config.store, told=told).of(server, warn=note, proxy_for=proxy_for)
    if oauth is None:
        raise SignInRequired(
            f"{server.name!r} is reached with the Authorization header of {server.file}.",
            "Remove it there to sign in instead.",
        )
    return oauth, server


async def _use(options: "Options", given: argparse.Namespace) -> int:
    """Choose; whoever connects next uses it, and a mcphost that runs does when its server is started again."""
    from mcphost.cli.bootstrap import identities
    from mcphost.cli.command_runner import known
    from mcphost.cli.offline_store import open_approvals
    from mcphost.cli.output import document, note, say
    from mcphost.host.audit.audit_log import AuditSubject
    from mcphost.host.questions.frontend import RefusingFrontend

    config = await _configured(options)
    known(config, given.server)
    server = next(server for server in config.servers if server.name == given.server)
    found = identities(options, RefusingFrontend(), config.store)
    found.keep.warn = note
    async with open_approvals() as (_, journal):
        effect = await journal.start_span(
            AuditSubject(kind="account", server=server.name, name=given.account), who="person"
        )
        chosen = False
        try:
            await found.use(server, given.account)
            chosen = True
        finally:
            effect.end("chosen" if chosen else "not chosen")
    if given.json:
        document({"server": server.name, "account": given.account})
    else:
        say(f"{server.name} is used with the account {given.account} from now on.")
    return 0


async def _accounts(options: "Options", *, as_json: bool) -> int:
    from mcphost.cli.bootstrap import identities
    from mcphost.cli.output import document, note, table
    from mcphost.headless.json_output import kept as document_of
    from mcphost.headless.json_output import state
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.servers.accounts import describe_storage

    config = await _configured(options)
    found = await identities(options, RefusingFrontend(), config.store).kept(config.servers)
    if as_json:
        document({"accounts": [document_of(one) for one in found]})
        return 0
    table(
        (
            f"{'*' if one.used_by else ' '} {one.account.server} {one.account.name}",
            state(one.account),
            describe_storage(one.account),
            one.account.issuer,
            " ".join(one.account.scopes),
        )
        for one in found
    )
    if not found:
        note("You are not signed in to any server.")
    elif any(one.used_by for one in found):
        note("* is in use. Another one: mcphost accounts use SERVER NAME")
    if gone := sorted({one.account.server for one in found if not one.servers}):
        note(f"Not configured any more: {', '.join(gone)}. Sign out with: mcphost logout {quote(gone[0])}")
    return 0
