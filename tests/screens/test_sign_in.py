"""The question about a sign-in: everything is on it, cancelled unless the user says otherwise."""

from typing import Any

import pytest

from mcphost.host.questions import InBrowser, NoSignIn, PastedRedirect, SignIn
from tests.screens.test_questions import Asked, answered

pytestmark = pytest.mark.anyio
URL = "https://login.example/authorize?response_type=code&client_id=c&scope=tools%3Aread&resource=https%3A%2F%2Fmcp.example"


def sign_in(**more: Any) -> SignIn:
    return SignIn(
        server="tracker",
        why="the server tracker wants to know who you are",
        url=URL,
        host="login.example",
        issuer="https://login.example",
        scopes=("tools:read", "offline_access"),
        **more,
    )


@pytest.mark.req("auth.scope.shown")
async def test_host_issuer_scopes_and_the_whole_address_are_shown(run: Any) -> None:
    async with run(size=(100, 40)) as it:
        Asked(it, sign_in(account="work", note="Try \x1b[31magain."))
        await it.question()
        shown = it.text()
        for text in ("Sign in to tracker?", "login.example", "https://login.example", "tools:read", "work", "again."):
            assert text in shown, text
        assert URL[-30:] in shown.replace("\n", "").replace(" ", "").replace("│", "")
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("keys", "answer"),
    [(("escape",), NoSignIn()), (("enter",), NoSignIn()), (("d",), NoSignIn()), (("o",), InBrowser())],
)
async def test_only_the_key_for_it_opens_a_browser(run: Any, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=(100, 40)) as it:
        assert await answered(it, sign_in(), *keys) == answer


@pytest.mark.req("auth.callback.manual")
async def test_an_address_can_be_pasted_and_escape_goes_back_first(run: Any) -> None:
    async with run(size=(100, 40)) as it:
        asked = Asked(it, sign_in())
        dialog = await it.question()
        await it.pilot.press("p", "escape")
        assert asked.answer is None
        await it.pilot.press("p")
        dialog.query_one("#redirect").value = " http://127.0.0.1:1/callback?code=c&state=s "
        await it.pilot.press("enter")
        await it.until(lambda: asked.answer is not None, "an answer")
        assert asked.answer == PastedRedirect("http://127.0.0.1:1/callback?code=c&state=s")
