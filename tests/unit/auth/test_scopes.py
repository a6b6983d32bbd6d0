"""Tests for scopes: requested ones must be valid and readable, and granted ones are stored."""

from typing import Any

import pytest

from mcphost.auth.tokens import MAX_SCOPES, InvalidScopes, check_scopes, is_scope, parse_granted_scopes, split_scopes
from tests.unit.auth.oauth_peer import BrowserUser, create_oauth, run_peer, send_with_sign_in

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("scope", ["a", "!", "#[]~", "tools:read", "https://as.example/auth/files.readonly", "x" * 200])
def test_scopes_follow_rfc_6749(scope: str) -> None:
    assert is_scope(scope)


@pytest.mark.parametrize(
    "scope", ["", "a b", 'a"b', "a\\b", "a\x1b[2J", "a\u00a0b", "a\tb", "a\n", "\u202etools", "é", "x" * 201, "\x7f"]
)
def test_everything_else_is_none(scope: str) -> None:
    assert not is_scope(scope)


@pytest.mark.parametrize(
    ("scopes", "words"),
    [
        (["tools:read", "a\x1b[2Jb"], "'a␛[2Jb' has characters"),
        (["tools:read\u202e"], "has characters"),
        (["a\u00a0b"], "has characters"),
        (["x" * 201], "is over 200 characters"),
        ([f"scope-{n}" for n in range(101)], "101 scopes would be requested"),
        (["a b"], "has characters"),
    ],
)
async def test_a_server_that_requires_an_invalid_scope_is_refused_before_any_question(
    scopes: list[str], words: str
) -> None:
    user = BrowserUser()
    async with run_peer(resource={"scopes_supported": scopes}) as peer:
        with pytest.raises(InvalidScopes) as raised:
            await send_with_sign_in(create_oauth(peer, user), peer)
        assert words in raised.value.message
        assert "Nothing was sent" in raised.value.hint
        assert user.urls == []
        assert "/register" not in peer.paths()


async def test_a_challenge_is_held_to_the_same_rule() -> None:
    user = BrowserUser()
    async with run_peer(challenge='Bearer scope="tools:read tools\\\\write"') as peer:
        with pytest.raises(InvalidScopes, match="has characters"):
            await send_with_sign_in(create_oauth(peer, user), peer)
        assert user.urls == []


async def test_a_hundred_scopes_are_asked_for_and_each_is_shown() -> None:
    scopes = [f"scope-{n}" for n in range(MAX_SCOPES)]
    shown: list[tuple[str, ...]] = []

    class ReadingUser(BrowserUser):
        async def sign_in(self, **asked: Any) -> str | None:
            shown.append(asked["scopes"])
            return None

    async with run_peer(resource={"scopes_supported": scopes}) as peer:
        with pytest.raises(Exception, match="did not sign in"):
            await send_with_sign_in(create_oauth(peer, ReadingUser()), peer)
    assert shown == [tuple(scopes)]


def test_only_scopes_of_a_token_are_kept_and_at_most_a_hundred() -> None:
    assert parse_granted_scopes('a b"c \x1b[2J d a') == ("a", "d")
    assert len(parse_granted_scopes(" ".join(f"scope-{n}" for n in range(5_000)))) == MAX_SCOPES
    assert parse_granted_scopes("x" * 1_000_000) == ()
    assert parse_granted_scopes(None) == parse_granted_scopes(["a"]) == ()
    assert check_scopes(split_scopes("a  b a")) == ("a", "b")
