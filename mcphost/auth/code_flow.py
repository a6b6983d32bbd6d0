"""Signing in with a browser on this machine, which comes back to a listener, or whose last address is pasted.

Specification: basic/authorization. Nothing of a redirect is used, or shown, before `state` and `iss` fit (RFC 9207).
"""

import secrets
from contextlib import AsyncExitStack
from urllib.parse import parse_qsl, urlencode

import anyio

from mcphost.auth.authorization_response import code_of
from mcphost.auth.callback_server import Callback, Redirect, redirect_of
from mcphost.auth.client_registration import ENTERED, Client
from mcphost.auth.discovery import Untrusted, check_pkce
from mcphost.auth.interactive_flow import Attended, OtherWay, Sought, Step
from mcphost.auth.oauth_http import Unreachable
from mcphost.auth.pkce import Attempt
from mcphost.auth.tokens import Tokens, exchange
from mcphost.auth.url_policy import checked
from mcphost.auth.user_interaction import Terms
from mcphost.unicode_forms import split_url

SELECT = "select_account"
_OURS = frozenset(
    {"response_type", "response_mode", "client_id", "redirect_uri", "state", "scope", "resource", "prompt",
     "code_challenge", "code_challenge_method", "request", "request_uri"}
)  # fmt: skip
"""Parameters that we send, and those that would stand in for them."""


async def in_browser(run: Attended, sought: Sought) -> tuple[Tokens, Client]:
    """The tokens, and who we were for them. Raises OtherWay, and what SignIn.run does."""
    document, issuer = sought.document, sought.issuer
    run.at(Step.CLIENT)
    check_pkce(document, legacy=sought.resource.legacy)
    if not document.authorization_endpoint:
        raise Unreachable(
            f"The authorization server {issuer[:200]} has no authorization endpoint.",
            "Nobody can sign in there with a browser. Its operator must name one, or try: mcphost login --device",
        )
    _check_query(document.authorization_endpoint)
    await run.requests.judge(document.authorization_endpoint, "authorization endpoint")
    await run.requests.judge(document.token_endpoint, "token endpoint")  # before a person signs in for nothing
    async with AsyncExitStack() as stack:
        callback, client = await run.introduction.client(stack, document, issuer, sought.scopes)
        run.is_known = client.kind in (ENTERED, "registered")
        attempt = Attempt()
        run.at(Step.PERSON, seconds=run.target.seconds)
        url = _address(run, sought, client, callback, attempt)
        redirect = await _redirect(run, sought, callback, attempt, url)
    code = code_of(redirect, document, issuer)
    run.at(Step.CODE)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback.redirect_uri,
        "code_verifier": attempt.verifier,
    }
    # The code works once: what it buys must arrive, and is stored before anybody may cancel.
    with anyio.CancelScope(shield=True):
        tokens = await exchange(run.requests, document, client, sought.resource.identifier, form, signer=run.signer)
        return tokens, client
    raise AssertionError("a shield stops nothing")


def _check_query(endpoint: str) -> None:
    """Refuse an endpoint with a parameter of ours in its own query (RFC 6749, 3.1: none more than once).

    Which of the two counts is the server's choice, and one that is not ours may lead the code elsewhere.
    Raises Untrusted.
    """
    query = split_url(endpoint).query
    pairs = [pair for joint in "&;" for pair in parse_qsl(query, keep_blank_values=True, separator=joint)]
    for name, _ in pairs:
        if name.strip().lower() in _OURS:
            raise Untrusted(
                f"The authorization endpoint {endpoint[:200]!r} has {name.strip()[:40]!r} in its own query, which "
                "mcphost sends, too; a parameter may come once only (RFC 6749, section 3.1).",
                "The operator of the authorization server must remove it there. The sign-in was not started.",
            )


def _address(run: Attended, sought: Sought, client: Client, callback: Callback, attempt: Attempt) -> str:
    """What the browser opens."""
    parameters = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": callback.redirect_uri,
        "state": attempt.state,
        "code_challenge": attempt.challenge,
        "code_challenge_method": attempt.METHOD,
        "resource": sought.resource.identifier,
    }
    if sought.scopes:
        parameters["scope"] = " ".join(sought.scopes)
    if run.target.account and SELECT in sought.document.prompt_values_supported:
        # Else a browser that remembers one account gives it to every name (OpenID Connect Core, 3.1.2.1).
        parameters["prompt"] = SELECT
    endpoint = sought.document.authorization_endpoint
    joint = "" if endpoint.endswith(("?", "&")) else "&" if "?" in endpoint else "?"
    return checked(f"{endpoint}{joint}{urlencode(parameters)}", "address of the sign-in")


async def _redirect(run: Attended, sought: Sought, callback: Callback, attempt: Attempt, url: str) -> Redirect:
    """The first answer with our state, from the browser or from the person.

    The person may have a code instead, where there is one, which ends this by OtherWay.
    """
    found: list[Redirect] = []
    refused = switched = False
    until = anyio.current_time() + run.target.seconds

    def fits(redirect: Redirect) -> bool:
        return secrets.compare_digest(redirect.get("state").encode(), attempt.state.encode())

    def take(redirect: Redirect) -> bool:
        if not (fitting := fits(redirect)):
            run.report_foreign_answer(until - anyio.current_time())
        return fitting

    def switch() -> None:
        nonlocal switched
        switched = True
        tasks.cancel_scope.cancel()

    async def ask() -> None:
        nonlocal refused
        note, others = run.note, await run.others()
        other = switch if sought.document.device_authorization_endpoint else None
        while True:
            terms = Terms(seconds=until - anyio.current_time(), switch=other, others=others)
            said = await run.ask(sought, url, terms, note=note)
            if said is None:
                refused = True
                tasks.cancel_scope.cancel()
            if not said:
                return
            pasted = redirect_of(said)
            if fits(pasted):
                found.append(pasted)
                tasks.cancel_scope.cancel()
                return
            note = "That is not the address that this sign-in ended at."

    callback.expect(take)
    with anyio.move_on_after(run.target.seconds):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            found.append(await callback.wait())
            tasks.cancel_scope.cancel()
    if found:
        return found[0]
    if switched:
        raise OtherWay
    raise run.refused() if refused else run.nobody()
