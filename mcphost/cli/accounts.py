"""mcphost login, logout, accounts: signing in to servers, on machines with and without a browser."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcphost.errors import Declined, SignInNeeded, UsageError
from mcphost.host.questions import InBrowser, NoSignIn, PastedRedirect, Question, SignIn

if TYPE_CHECKING:
    from mcphost.auth.authorizer import OAuth
    from mcphost.auth.keep import Account
    from mcphost.cli.options import Options
    from mcphost.host.front import Front

A = TypeVar("A")


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of one of the three."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    if command == "accounts":
        return
    parser.add_argument("server", metavar="SERVER", help="a configured server that is reached by HTTP")
    parser.add_argument("--account", metavar="NAME", default="", help="which of several accounts, such as work")
    if command == "login":
        parser.add_argument(
            "--no-browser", action="store_true", help="open no browser; show the address and take the one it ended at"
        )
        parser.add_argument(
            "--device",
            action="store_true",
            help="show a code to enter in a browser on any machine, where that is offered",
        )


def run(command: str, given: argparse.Namespace) -> int:
    """Do it."""
    from mcphost.cli.running import options_of, run

    options = options_of(given)

    async def work() -> int:
        match command:
            case "login":
                return await _login(options, given)
            case "logout":
                return await _logout(options, given)
            case _:
                return await _accounts(as_json=given.json)

    return run(options, work)


class Terminal:
    """The front of `login`: shows where to sign in, and takes a redirect address from standard input."""

    kinds = frozenset({SignIn.KIND})

    def __init__(self, *, browser: bool) -> None:
        self._browser = browser
        self._lines: Any = None

    async def ask(self, question: Question[A]) -> A:
        """The answer; anything but a sign-in is refused."""
        if not isinstance(question, SignIn):
            return question.refusal()
        return cast("A", await self._sign_in(question))

    async def _sign_in(self, question: SignIn) -> InBrowser | PastedRedirect | NoSignIn:
        from mcphost.auth.browser import open_url
        from mcphost.cli.printing import note
        from mcphost.headless.lines import read_lines

        if question.note:
            note(question.note)
        else:
            note(f"{question.server} wants you to sign in at {question.host} (authorization server {question.issuer}).")
            if question.account:
                note(f"It will be kept as the account {question.account}.")
            note(f"It asks for: {' '.join(question.scopes) or 'no particular rights'}.")
            note(f"Open this address and enter the code {question.code}:" if question.code else "Open this address:")
            sys.stderr.write(f"\n{question.url}\n\n")
            if self._browser and await open_url(question.url):
                note("Your browser has it.")
        if question.code:
            note("Waiting until you entered it; ctrl+c ends that.")
            return InBrowser()
        note("If the browser cannot come back here, paste the address it ended at:")
        self._lines = self._lines or read_lines(0)
        async for line in self._lines:
            text = line.decode(errors="replace").strip() if isinstance(line, bytes) else ""
            if text:
                return PastedRedirect(text)
        return InBrowser()


async def _login(options: "Options", given: argparse.Namespace) -> int:
    from mcphost.cli.printing import document, note, say

    oauth = await _oauth(options, given, Terminal(browser=not (given.no_browser or given.device)))
    signed = await oauth.login(device=given.device)
    shown = signed.shown(kept=oauth.kept(signed))
    if given.json:
        document(_entry(shown))
        return 0
    say(f"Signed in to {shown.server} at {shown.issuer}.")
    if not shown.kept:
        note("No keyring took the sign-in, so it ends with this command. See: mcphost doctor")
    return 0


async def _logout(options: "Options", given: argparse.Namespace) -> int:
    from mcphost.cli.printing import document, say
    from mcphost.host.front import RefusingFront

    oauth = await _oauth(options, given, RefusingFront(), approved=False)
    gone, revoked = await oauth.logout()
    if given.json:
        document({"server": given.server, "signed_out": gone is not None, "revoked": revoked})
    elif gone is None:
        say(f"You were not signed in to {given.server}.")
    else:
        say(
            f"Signed out of {given.server}. "
            + ("Its tokens were revoked." if revoked else "Its tokens are erased here.")
        )
    return 0


async def _oauth(options: "Options", given: argparse.Namespace, front: "Front", *, approved: bool = True) -> "OAuth":
    """Who signs in to the server of the command line. Raises UsageError, ConfigError, Declined."""
    import anyio.to_thread

    from mcphost.cli.compose import configuration, identities
    from mcphost.cli.opening import filled
    from mcphost.cli.printing import note
    from mcphost.cli.running import known
    from mcphost.cli.stored import open_grants
    from mcphost.data import replace
    from mcphost.host.front import RefusingFront
    from mcphost.host.trust import Trusting
    from mcphost.transport.proxies import proxy_for

    async with open_grants() as grants:
        config = await configuration(options, grants)
        known(config, given.server)
        server = next(server for server in config.servers if server.name == given.server)
        if server.is_stdio:
            raise UsageError(f"{server.name!r} is a program on this machine; there is nothing to sign in to.")
        if approved and not await Trusting(grants, RefusingFront()).knows(server):
            raise Declined(
                f"The server {server.name!r} is not approved.", f"Approve it with: mcphost servers trust {server.name}"
            )
    if given.account:
        server = replace(server, oauth=replace(server.oauth, account=given.account))
    server = await anyio.to_thread.run_sync(filled, server)
    oauth = identities(front).of(server, warn=note, proxy_for=proxy_for)
    if oauth is None:
        raise SignInNeeded(
            f"{server.name!r} is reached with the Authorization header of {server.file}.",
            "Remove it there to sign in instead.",
        )
    return oauth


async def _accounts(*, as_json: bool) -> int:
    from mcphost.cli.compose import identities
    from mcphost.cli.printing import document, note, table
    from mcphost.host.front import RefusingFront

    accounts = await identities(RefusingFront()).keep.accounts()
    if as_json:
        document({"accounts": [_entry(one) for one in accounts]})
    else:
        table(
            (f"{one.server} {one.account}".strip(), _validity(one), one.issuer, " ".join(one.scopes))
            for one in accounts
        )
        if not accounts:
            note("You are signed in to no server.")
    return 0


def _entry(account: "Account") -> dict[str, Any]:
    from mcphost.data import to_plain

    return {**to_plain(account), "state": _validity(account)}


def _validity(account: "Account") -> str:
    if account.renews:
        return "signed in, renewed by itself"
    if not account.expires:
        return "signed in"
    left = account.expires - time.time()
    return f"signed in for {left / 60:.0f} more minutes" if left > 0 else "expired"
