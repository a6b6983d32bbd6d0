"""Tests that any document from an authorization server gives a valid value or SignInRequired, nothing else."""

import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphost.auth.callback_server import parse_authorization_response
from mcphost.auth.discovery import AuthorizationServerMetadata, ProtectedResourceMetadata, parse_metadata
from mcphost.auth.oauth_http import MAX_BODY_BYTES, EndpointUnreachable, OAuthResponse, decompress_body, read_response
from mcphost.auth.registration import RegistrationError, describe_oauth_error
from mcphost.auth.tokens import TokenSet, parse_lifetime, parse_token_response
from mcphost.auth.url_policy import check_url, resource_covers, url_origin
from mcphost.errors import SignInRequired
from mcphost.http_limits import ResponseLimits
from tests.unit.auth.oauth_peer import BrowserUser, create_oauth, run_peer

REPLIES = ["access_token", "token_type", "expires_in", "scope", "refresh_token", "error", "error_description"]
NAMES = [*AuthorizationServerMetadata.__struct_fields__, *ProtectedResourceMetadata.__struct_fields__, *REPLIES]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("Bearer"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=8)


def document_response(body: bytes, status: int = 200) -> OAuthResponse:
    return OAuthResponse("https://as.example/x", status, {"content-type": "application/json"}, body)


@settings(max_examples=300)
@given(DOCUMENTS, st.sampled_from([200, 400, 401, 500, 302]))
def test_any_json_is_read_or_refused(document: dict[str, Any], status: int) -> None:
    answer = document_response(json.dumps(document).encode(), status)
    for kind in (AuthorizationServerMetadata, ProtectedResourceMetadata):
        with suppress(SignInRequired):
            assert isinstance(parse_metadata(answer, kind, "document"), kind)
    with suppress(SignInRequired):
        assert isinstance(parse_token_response(answer, "https://as.example"), TokenSet)
    assert isinstance(describe_oauth_error(answer, answer.json_members()), str)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    assert isinstance(document_response(body).json_members(), dict)
    with pytest.raises(SignInRequired):
        parse_token_response(document_response(body), "https://as.example")


@given(st.text(max_size=200))
def test_any_address_is_used_or_refused(text: str) -> None:
    url_origin(text)
    resource_covers(text, "https://mcp.example/mcp")
    parse_authorization_response(text)
    with suppress(SignInRequired):
        assert check_url(text, "address") == text


@given(ANYTHING)
def test_any_lifetime_is_a_number(value: Any) -> None:
    assert 0 <= parse_lifetime(value) < 1e12


@pytest.mark.parametrize("value", ["²", "١٢", "1e5"])
def test_a_lifetime_in_other_digits_counts_as_an_hour(value: str) -> None:
    assert parse_lifetime(value) == 3600


def test_nesting_without_end_is_refused() -> None:
    assert document_response(b"[" * 100_000).json_members() == {}
    assert document_response(b'{"a":' * 100_000).json_members() == {}


def test_an_inflating_document_takes_no_more_memory_than_allowed() -> None:
    bomb = zlib.compress(b"a" * 50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(EndpointUnreachable, match="more than 1 MB"):
            decompress_body(bomb, "https://as.example/x", "document")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * MAX_BODY_BYTES


def test_a_compressed_document_has_exactly_one_complete_stream() -> None:
    packed = zlib.compress(b"{}")
    assert decompress_body(packed, "https://as.example/x", "document") == b"{}"
    for broken in (packed[:-4], packed + packed, packed + b"\0" * 100):
        with pytest.raises(EndpointUnreachable, match="incomplete compressed data, or data after its end"):
            decompress_body(broken, "https://as.example/x", "document")


class SlowBody:
    """A response body that arrives one byte at a time."""

    headers: ClassVar[dict[str, str]] = {}
    status_code = 200
    chunks = 0

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        while self.chunks < 100_000:
            self.chunks += 1
            yield b" "

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.mark.anyio
async def test_an_answer_in_very_many_tiny_chunks_ends_the_sign_in_early() -> None:
    answer = SlowBody()
    with pytest.raises(EndpointUnreachable, match="too many small chunks"):
        await read_response(answer, ResponseLimits(), "https://as.example/x", "document")
    assert answer.chunks < 2_000


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["client_id", "client_secret"])
async def test_a_registration_with_a_value_that_no_keyring_could_store_is_refused(name: str) -> None:
    """A client secret is part of every stored sign-in, which would then be lost when mcphost quits."""
    user = BrowserUser()
    async with run_peer(registration={name: "s" * 300_000}) as peer:
        with pytest.raises(RegistrationError, match="did not register mcphost"):
            await create_oauth(peer, user).login()
    assert user.urls == []
