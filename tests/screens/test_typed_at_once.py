"""Keys that arrive in one piece, as over a slow connection: a line that one of them opens gets all that follow it."""

from typing import Any

import pytest

from mcphost.host.questions.client_questions import ClientEntered
from mcphost.host.questions.questions import Deny
from mcphost.host.questions.result_questions import Withhold
from mcphost.host.questions.sign_in_questions import PastedRedirect, SignIn
from tests.screens.test_enter_client import QUESTION
from tests.screens.test_questions import Asked, approve
from tests.screens.test_review_result import result

pytestmark = pytest.mark.anyio
SIGN_IN = SignIn(
    server="tracker",
    why="the server tracker wants to know who you are",
    url="https://login.example/authorize?state=1",
    host="login.example",
    issuer="https://login.example",
    other="code",
)


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize(
    ("question", "keys", "answer"),
    [
        # Each text holds the letters that would close the line, agree, or answer otherwise.
        (approve(), ("r", *"drasA", "enter"), Deny(reason="drasA")),
        (result("x"), ("r", *"drat", "enter"), Withhold("drat")),
        (SIGN_IN, ("p", *"dopcq", "enter"), PastedRedirect("dopcq")),
        (QUESTION, ("e", *"deed", "enter", *"edd", "enter"), ClientEntered("deed", "edd")),
    ],
)
async def test_what_follows_the_key_that_opens_a_line_is_in_the_line(
    run: Any, question: Any, keys: tuple[str, ...], answer: Any
) -> None:
    async with run(size=(100, 40)) as it:
        asked = Asked(it, question)
        await it.question()
        it.at_once(*keys)
        await it.until(lambda: asked.answer is not None, "an answer")
        assert asked.answer == answer
