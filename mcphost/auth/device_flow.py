"""Signing in with a code that a person enters in a browser on any machine, while we ask whether they did."""

from contextlib import AsyncExitStack

import anyio

from mcphost.auth.client_registration import OAuthClient
from mcphost.auth.device_authorization import poll_token, request_device_authorization
from mcphost.auth.interactive_flow import AuthorizationRequest, InteractiveSignIn, SignInMethodSwitched, SignInStep
from mcphost.auth.tokens import TokenSet
from mcphost.auth.user_interaction import SignInTerms
from mcphost.errors import SignInRequired


async def run_device_flow(
    interactive: InteractiveSignIn, request: AuthorizationRequest
) -> tuple[TokenSet, OAuthClient]:
    """The tokens, and who we were for them. Raises SignInMethodSwitched, and what AuthorizationFlow.run does."""
    document, resource = request.metadata, request.resource.identifier
    interactive.report_step(SignInStep.CLIENT)
    await interactive.http.check_url(document.token_endpoint, "token endpoint")  # before a person signs in for nothing
    async with AsyncExitStack() as stack:
        _, client = await interactive.client_resolver.resolve(stack, document, request.issuer, request.scopes)
    code = await request_device_authorization(interactive.http, document, client, resource, request.scopes)
    outcome: list[TokenSet | SignInRequired | SignInMethodSwitched] = []
    seconds = min(interactive.target.timeout, code.expires_in)
    until = anyio.current_time() + seconds

    def asked(polls: int, interval: float, slowed: bool) -> None:
        left = until - anyio.current_time()
        interactive.report_step(SignInStep.PERSON, seconds=left, polls=polls, interval=interval, slowed=slowed)

    asked(0, code.interval, slowed=False)

    def switch() -> None:
        outcome.append(SignInMethodSwitched())
        tasks.cancel_scope.cancel()

    async def ask() -> None:
        other = switch if document.authorization_endpoint else None
        others = await interactive.other_accounts()
        terms = SignInTerms(
            timeout=seconds,
            verification_uri_complete=code.verification_uri_complete,
            poll_interval=code.interval,
            switch_method=other,
            other_accounts=others,
        )
        if (
            await interactive.ask_person(
                request, code.verification_uri, terms, note=interactive.previous_error, code=code.user_code
            )
            is None
        ):
            outcome.append(interactive.refusal_error())
            tasks.cancel_scope.cancel()

    with anyio.move_on_after(interactive.target.timeout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            try:
                outcome.append(
                    await poll_token(interactive.http, document, client, resource, code, asked, interactive.signer)
                )
            except SignInRequired as error:
                outcome.append(error)
            tasks.cancel_scope.cancel()
    came = next(
        (one for one in outcome if isinstance(one, TokenSet)), outcome[0] if outcome else interactive.timeout_error()
    )
    if isinstance(came, TokenSet):
        return came, client
    raise came
