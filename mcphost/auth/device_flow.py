"""Signing in with a code that a person enters in a browser on any machine, while we ask whether they did."""

from contextlib import AsyncExitStack

import anyio

from mcphost.auth.client_registration import Client
from mcphost.auth.device_authorization import poll, start
from mcphost.auth.interactive_flow import Attended, OtherWay, Sought, Step
from mcphost.auth.tokens import Tokens
from mcphost.auth.user_interaction import Terms
from mcphost.errors import SignInRequired


async def by_code(run: Attended, sought: Sought) -> tuple[Tokens, Client]:
    """The tokens, and who we were for them. Raises OtherWay, and what SignIn.run does."""
    document, resource = sought.document, sought.resource.identifier
    run.at(Step.CLIENT)
    await run.requests.judge(document.token_endpoint, "token endpoint")  # before a person signs in for nothing
    async with AsyncExitStack() as stack:
        _, client = await run.introduction.client(stack, document, sought.issuer, sought.scopes)
    code = await start(run.requests, document, client, resource, sought.scopes)
    outcome: list[Tokens | SignInRequired | OtherWay] = []
    seconds = min(run.target.seconds, code.lasts)
    until = anyio.current_time() + seconds

    def asked(polls: int, interval: float, slowed: bool) -> None:
        left = until - anyio.current_time()
        run.at(Step.PERSON, seconds=left, polls=polls, interval=interval, slowed=slowed)

    asked(0, code.interval, slowed=False)

    def switch() -> None:
        outcome.append(OtherWay())
        tasks.cancel_scope.cancel()

    async def ask() -> None:
        other = switch if document.authorization_endpoint else None
        others = await run.others()
        terms = Terms(seconds=seconds, whole=code.whole, interval=code.interval, switch=other, others=others)
        if await run.ask(sought, code.address, terms, note=run.note, code=code.user_code) is None:
            outcome.append(run.refused())
            tasks.cancel_scope.cancel()

    with anyio.move_on_after(run.target.seconds):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            try:
                outcome.append(await poll(run.requests, document, client, resource, code, asked, run.signer))
            except SignInRequired as error:
                outcome.append(error)
            tasks.cancel_scope.cancel()
    came = next((one for one in outcome if isinstance(one, Tokens)), outcome[0] if outcome else run.nobody())
    if isinstance(came, Tokens):
        return came, client
    raise came
