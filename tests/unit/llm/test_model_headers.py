"""Tests for extra HTTP headers for a model provider: references to secrets, limits, and what HTTP allows."""

import pytest

from mcphost.errors import ModelError
from mcphost.llm.model_headers import expand_headers
from mcphost.redact import redact_registered

pytestmark = pytest.mark.anyio


async def read_keyring(name: str) -> str | None:
    return {"gateway": "secret-from-the-keyring"}.get(name)


async def test_references_are_replaced_and_their_values_redacted_from_then_on() -> None:
    headers = {"Authorization": "Bearer ${keyring:gateway}", "X-Team": "${env:TEAM}", "X-Plain": "a b"}
    expanded = await expand_headers(headers, {"TEAM": "research"}, read_keyring)
    assert expanded == {"Authorization": "Bearer secret-from-the-keyring", "X-Team": "research", "X-Plain": "a b"}
    assert "secret-from-the-keyring" not in redact_registered("it was secret-from-the-keyring")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"X-A": "${env:MISSING}"}, "MISSING"),
        ({"X-A": "${keyring:missing}"}, "missing"),
        ({"X-A": "${env:BROKEN}"}, "character"),
        ({"X A": "b"}, "X A"),
        ({"Host": "example.com"}, "Host"),
        ({"Content-Length": "3"}, "Content-Length"),
        ({"": "b"}, "not a header"),
    ],
)
async def test_a_header_that_cannot_be_sent_is_an_error_that_names_it(headers: dict[str, str], words: str) -> None:
    with pytest.raises(ModelError) as exc_info:
        await expand_headers(headers, {"BROKEN": "a\r\nX-Evil: b"}, read_keyring)
    assert words in exc_info.value.message
    assert "X-Evil" not in exc_info.value.message
