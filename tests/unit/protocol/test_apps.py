"""Tests of the metadata of MCP Apps: pages of tools, who may call a tool, and the origins that a page declares."""

from typing import Any

import pytest

from mcphost.protocol.apps import DEFAULT_TOOL_PAGE, MAX_ORIGINS, PageOrigins, parse_page_origins, parse_tool_page
from mcphost.serialization import encode


def page_of(**meta: Any) -> Any:
    return parse_tool_page(encode({"name": "t", "inputSchema": {"type": "object"}, "_meta": meta}))


def test_a_page_is_named_by_the_nested_or_the_older_flat_key() -> None:
    assert page_of(ui={"resourceUri": "ui://weather/page"}).resource_uri == "ui://weather/page"
    assert page_of(**{"ui/resourceUri": "ui://old"}).resource_uri == "ui://old"
    assert page_of(**{"ui/resourceUri": "ui://old", "ui": {"resourceUri": "ui://new"}}).resource_uri == "ui://new"


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("https://example.com/page", "does not begin with ui://"),
        ("file:///etc/passwd", "does not begin with ui://"),
        ("ui://", "does not begin with ui://"),
        (7, "is not a text"),
        ("ui://a\nb", "invalid characters"),
        ("ui://a b", "invalid characters"),
        ("ui://" + "x" * 3_000, "over 2,000 characters"),
    ],
)
def test_a_page_at_another_address_is_ignored_with_the_reason(uri: Any, fault: str) -> None:
    page = page_of(ui={"resourceUri": uri})
    assert page.resource_uri == ""
    assert fault in page.fault


def test_visibility_says_who_may_call_a_tool_and_defaults_to_both() -> None:
    def callers(**ui: Any) -> tuple[bool, bool]:
        page = page_of(ui=ui)
        return page.for_model, page.for_pages

    assert callers() == (True, True)
    assert callers(visibility=["app"]) == (False, True)
    assert callers(visibility=["model"]) == (True, False)
    assert callers(visibility=[]) == (False, False)
    assert callers(visibility="app") == (True, True)


@pytest.mark.parametrize("meta", [None, 3, {"ui": 3}, {"ui": []}, {"ui": {"resourceUri": None}}])
def test_invalid_metadata_counts_as_absent(meta: Any) -> None:
    assert parse_tool_page(encode({"name": "t", "_meta": meta})) == DEFAULT_TOOL_PAGE


def test_only_https_and_wss_origins_of_public_names_are_kept() -> None:
    declared = {
        "connectDomains": ["https://api.example.com", "wss://live.example.com:8443", "HTTPS://API.example.com/"],
        "resourceDomains": ["https://*.example.com", "*", "https:", "http://example.com", "data:", "'unsafe-eval'"],
        "frameDomains": [
            "https://example.com; script-src *",
            "https://localhost",
            "https://127.0.0.1",
            "https://0x7f.1",
            "https://admin.localhost:8443",
            "wss://*.a.LocalDomain",
        ],
        "baseUriDomains": "https://example.com",
    }
    origins = parse_page_origins(encode({"ui": {"csp": declared}}))
    assert origins.connect == ("https://api.example.com", "wss://live.example.com:8443")
    assert origins.resource == ("https://*.example.com",)
    assert origins.frame == origins.base_uri == ()
    assert len(origins.left_out) == 11
    assert origins.all == ("https://api.example.com", "wss://live.example.com:8443", "https://*.example.com")


def test_the_number_of_origins_is_bounded() -> None:
    many = [f"https://h{number}.example.com" for number in range(500)]
    origins = parse_page_origins(encode({"ui": {"csp": {"connectDomains": many}}}))
    assert len(origins.connect) == MAX_ORIGINS
    assert len(origins.left_out) == MAX_ORIGINS


@pytest.mark.parametrize("meta", [b"", b"null", b"[]", b'{"ui":1}', b'{"ui":{"csp":[]}}', b"{"])
def test_a_page_without_valid_metadata_declares_nothing(meta: bytes) -> None:
    assert parse_page_origins(meta) == PageOrigins()
