"""Tests for parsing WWW-Authenticate headers sent by real servers."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.auth.oauth_http import OAuthResponse
from mcphost.auth.www_authenticate import parse_challenges, probe_server, select_challenge

METADATA = "https://mcp.example/.well-known/oauth-protected-resource"


@pytest.mark.req("auth.www-authenticate.parse")
@pytest.mark.parametrize(
    ("header", "scope"),
    [
        ('Bearer scope="a b"', "a b"),
        ("bearer scope=a", "a"),
        ("BEARER   scope = a", "a"),
        ('Basic realm="x, Bearer scope=\\"no\\"", Bearer scope="yes"', "yes"),
        ('Negotiate, Basic realm="r", Bearer realm="r", scope="yes"', "yes"),
        ("NTLM TlRMTVNTUAACAAAA==, Bearer scope=yes", "yes"),
        ('Bearer error="x",scope="a \\"b\\" \\\\c"', 'a "b" \\c'),
        ('Bearer SCOPE="first", scope="second"', "first"),
        ('Bearer, Bearer scope="second"', ""),
        ("Bearer", ""),
        ("", ""),
    ],
)
def test_the_scope_of_the_bearer_challenge_is_found_among_others(header: str, scope: str) -> None:
    assert select_challenge(header).get("scope") == scope


def test_two_header_lines_joined_by_a_comma_are_two_challenges() -> None:
    found = parse_challenges(f'Basic realm="a", Bearer resource_metadata="{METADATA}", error="invalid_token"')
    assert [item.scheme for item in found] == ["basic", "bearer"]
    assert found[1].params == {"resource_metadata": METADATA, "error": "invalid_token"}


def test_dpop_is_preferred_to_bearer() -> None:
    assert select_challenge('Bearer scope="a", DPoP algs="ES256"').scheme == "dpop"


def test_broken_input_ends_only_the_reading() -> None:
    assert parse_challenges('Basic realm="a", Bearer scope="never closed')[0].scheme == "basic"
    assert select_challenge("=,;\x00").params == {}


@given(st.text(max_size=300))
def test_no_header_is_an_error(header: str) -> None:
    assert len(parse_challenges(header)) <= 20


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "counts"), [(401, True), (200, False), (403, False), (500, False)])
async def test_a_challenge_counts_only_with_the_refusal_it_belongs_to(status: int, counts: bool) -> None:
    class ParsedHeader:
        async def post_json(self, url: str, *given: Any) -> OAuthResponse:
            return OAuthResponse(url, status, {"www-authenticate": "Bearer scope=a"}, b"")

    refusal = await probe_server(cast("Any", ParsedHeader()), "https://mcp.example/mcp")
    assert (refusal.status, bool(refusal.www_authenticate), refusal.authorization) == (status, counts, "")
