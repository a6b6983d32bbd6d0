"""Tests of text that the user pastes instead of the redirect URL."""

import pytest

from mcphost.auth.sign_in_context import SignInFailed
from mcphost.sign_in_types import WRONG_REDIRECT
from tests.unit.auth.oauth_peer import BrowserUser, create_oauth, run_peer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("state", ["\udcff", "%ff", "\ud800x", "\x00", "é"])
async def test_text_that_is_no_unicode_is_refused_like_a_wrong_address(state: str) -> None:
    """A terminal in the C locale passes on bytes that are not UTF-8 as lone surrogates (PEP 383)."""
    answers = [None, f"http://127.0.0.1/callback?code=a&state={state}"]

    def answer(url: str) -> str | None:
        assert url
        return answers.pop()

    user = BrowserUser(visit=False, answer=answer)
    async with run_peer() as peer:
        with pytest.raises(SignInFailed, match="You did not sign in"):
            await create_oauth(peer, user).login()
    assert user.notes == ["", WRONG_REDIRECT]
