"""Whatever an authorization server sends: a value of ours or a SignInRequired, never anything else."""

import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphost.auth.callback_server import redirect_of
from mcphost.auth.client_registration import told
from mcphost.auth.discovery import IssuerDocument, ResourceDocument, _document
from mcphost.auth.oauth_http import MOST_BYTES, Reply, Unreachable, _inflated, _read
from mcphost.auth.tokens import Tokens, read, seconds
from mcphost.auth.url_policy import checked, covers, origin
from mcphost.errors import SignInRequired

REPLIES = ["access_token", "token_type", "expires_in", "scope", "refresh_token", "error", "error_description"]
NAMES = [*IssuerDocument.__struct_fields__, *ResourceDocument.__struct_fields__, *REPLIES]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("Bearer"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=8)


def reply(body: bytes, status: int = 200) -> Reply:
    return Reply("https://as.example/x", status, {"content-type": "application/json"}, body)


@settings(max_examples=300)
@given(DOCUMENTS, st.sampled_from([200, 400, 401, 500, 302]))
def test_any_json_is_read_or_refused(document: dict[str, Any], status: int) -> None:
    answer = reply(json.dumps(document).encode(), status)
    for kind in (IssuerDocument, ResourceDocument):
        with suppress(SignInRequired):
            assert isinstance(_document(answer, kind, "document"), kind)
    with suppress(SignInRequired):
        assert isinstance(read(answer, "https://as.example"), Tokens)
    assert isinstance(told(answer, answer.members()), str)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    assert isinstance(reply(body).members(), dict)
    with pytest.raises(SignInRequired):
        read(reply(body), "https://as.example")


@given(st.text(max_size=200))
def test_any_address_is_used_or_refused(text: str) -> None:
    origin(text)
    covers(text, "https://mcp.example/mcp")
    redirect_of(text)
    with suppress(SignInRequired):
        assert checked(text, "address") == text


@given(ANYTHING)
def test_any_lifetime_is_a_number(value: Any) -> None:
    assert 0 <= seconds(value) < 1e12


@pytest.mark.parametrize("value", ["²", "١٢", "1e5"])
def test_a_lifetime_in_other_digits_counts_as_an_hour(value: str) -> None:
    assert seconds(value) == 3600


def test_nesting_without_end_is_refused() -> None:
    assert reply(b"[" * 100_000).members() == {}
    assert reply(b'{"a":' * 100_000).members() == {}


def test_what_inflates_without_end_takes_no_more_memory_than_a_document_may() -> None:
    bomb = zlib.compress(b"a" * 50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Unreachable, match="more than 1 MB"):
            _inflated(bomb, "https://as.example/x", "document")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * MOST_BYTES


def test_a_compressed_document_has_one_stream_with_its_end() -> None:
    packed = zlib.compress(b"{}")
    assert _inflated(packed, "https://as.example/x", "document") == b"{}"
    for broken in (packed[:-4], packed + packed, packed + b"\0" * 100):
        with pytest.raises(Unreachable, match="without its end, or with more behind it"):
            _inflated(broken, "https://as.example/x", "document")


class Dripping:
    """An answer whose body comes one byte at a time."""

    headers: ClassVar[dict[str, str]] = {}
    status_code = 200
    chunks = 0

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        while self.chunks < 100_000:
            self.chunks += 1
            yield b" "

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.anyio
async def test_an_answer_in_very_many_tiny_chunks_ends_the_sign_in_early() -> None:
    answer = Dripping()
    with pytest.raises(Unreachable, match="too many small chunks"):
        await _read(answer, "https://as.example/x", "document")
    assert answer.chunks < 2_000
