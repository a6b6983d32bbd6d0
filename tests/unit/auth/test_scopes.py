"""What may be asked for: scopes of OAuth, no more than a person can read; and what is kept of those that were given."""

from typing import Any

import pytest

from mcphost.auth.tokens import MOST_SCOPES, ScopesRefused, check_scopes, granted, is_scope, split
from tests.unit.auth.peer import Browser, oauth, peer, used

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("scope", ["a", "!", "#[]~", "tools:read", "https://as.example/auth/files.readonly", "x" * 200])
def test_what_rfc_6749_calls_a_scope_is_one(scope: str) -> None:
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
        ([f"scope-{n}" for n in range(101)], "101 scopes would be asked for"),
        (["a b"], "has characters"),
    ],
)
async def test_a_server_that_wants_what_is_no_scope_is_refused_before_anybody_is_asked(
    scopes: list[str], words: str
) -> None:
    person = Browser()
    async with peer(resource={"scopes_supported": scopes}) as one:
        with pytest.raises(ScopesRefused) as raised:
            await used(oauth(one, person), one)
        assert words in raised.value.message
        assert "Nothing was sent" in raised.value.hint
        assert person.urls == []
        assert "/register" not in one.paths()


async def test_a_challenge_is_held_to_the_same_rule() -> None:
    person = Browser()
    async with peer(challenge='Bearer scope="tools:read tools\\\\write"') as one:
        with pytest.raises(ScopesRefused, match="has characters"):
            await used(oauth(one, person), one)
        assert person.urls == []


async def test_a_hundred_scopes_are_asked_for_and_each_is_shown() -> None:
    scopes = [f"scope-{n}" for n in range(MOST_SCOPES)]
    shown: list[tuple[str, ...]] = []

    class Reading(Browser):
        async def sign_in(self, **asked: Any) -> str | None:
            shown.append(asked["scopes"])
            return None

    async with peer(resource={"scopes_supported": scopes}) as one:
        with pytest.raises(Exception, match="did not sign in"):
            await used(oauth(one, Reading()), one)
    assert shown == [tuple(scopes)]


def test_of_what_a_token_was_given_only_scopes_are_kept_and_a_hundred_at_most() -> None:
    assert granted('a b"c \x1b[2J d a') == ("a", "d")
    assert len(granted(" ".join(f"scope-{n}" for n in range(5_000)))) == MOST_SCOPES
    assert granted("x" * 1_000_000) == ()
    assert granted(None) == granted(["a"]) == ()
    assert check_scopes(split("a  b a")) == ("a", "b")
