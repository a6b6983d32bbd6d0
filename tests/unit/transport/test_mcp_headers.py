"""Tests for header values that MCP defines, and for comparing origins."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.errors import MalformedMessage
from mcphost.transport.mcp_headers import encode_header_value, parse_origin
from mcphost.unicode_forms import is_loopback_host


@pytest.mark.req("hdr.param.string", "hdr.param.base64", "hdr.param.sentinel")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("execute_sql", "execute_sql"),
        ("", ""),
        ("a b", "a b"),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("ÿû", "=?base64?w7/Duw==?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (-7, "-7"),
    ],
)
def test_a_value_is_encoded_as_specified(value: str | int | bool, text: str) -> None:
    assert encode_header_value(value) == text


@given(st.text())
def test_any_text_round_trips_through_visible_ascii(value: str) -> None:
    text = encode_header_value(value)
    assert all(" " <= character <= "~" for character in text)
    if text != value:
        assert base64.b64decode(text[9:-2]) == value.encode(errors="replace")


def test_a_number_javascript_cannot_hold_is_refused() -> None:
    assert encode_header_value(2**53 - 1) == "9007199254740991"
    with pytest.raises(MalformedMessage):
        encode_header_value(2**53)


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1")),
        *((host, False) for host in ("127.evil.example", "a.localhost", "localhost.evil.example", "10.0.0.1")),
    ],
)
def test_only_names_and_addresses_of_this_machine_are_loopback(host: str, ours: bool) -> None:
    assert is_loopback_host(host) == ours


def test_origins_compare_scheme_host_and_port() -> None:
    assert parse_origin("http://Example.com/a") == parse_origin("http://example.com:80/b")
    assert parse_origin("http://example.com") != parse_origin("https://example.com")
    assert parse_origin("http://127.0.0.1:8000/mcp") != parse_origin("http://127.0.0.1:8001/mcp")
    for bad in ("ftp://x/", "http:///x", "x", "http://a:99999999/", "http://[::1"):
        with pytest.raises(MalformedMessage):
            parse_origin(bad)
