"""Tests that registry entries which imitate another server cause a warning, and that ordinary ones do not."""

import json
from time import thread_time
from typing import Any

import pytest

from mcphost.registry.entries import decode_entry
from mcphost.registry.lookalikes import find_warnings, is_similar
from mcphost.registry.plan import list_options
from tests.fakes.registry_entries import ENTRIES, REMOTE, SHA256, package, server, weather


def warnings(document: dict[str, Any], name: str = "x", *configured: str) -> str:
    entry = decode_entry(json.dumps(document).encode())
    return " ".join(find_warnings(entry, list_options(entry)[0], name, configured))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mcp-server-git", "mcp_server_git"),
        ("mcp-server-git", "mcp-server-glt"),
        ("mcp-server-fetch", "mcp-server-fecth"),
        ("modelcontextprotocol", "rnodelcontextprotocol"),
        ("github", "g1thub"),
        ("github", "githubb"),
    ],
)
def test_names_that_differ_in_one_sign_are_similar(one: str, other: str) -> None:
    assert is_similar(one, other)
    assert is_similar(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [("git", "gin"), ("weather", "weather"), ("mcp-server-time", "mcp-server-git")]
)
def test_other_names_are_not(one: str, other: str) -> None:
    assert not is_similar(one, other)


def test_comparing_long_names_is_bounded() -> None:
    assert not is_similar("a" * 1_000_000, "b" * 1_000_000)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (server("io.github.x/y", packages=[package("npm", "@playwrigth/mcp")]), "well-known @playwright/mcp"),
        (server("io.github.x/y", packages=[package("pypi", "mcp-server-flt")]), ""),
        (server("io.github.micros0ft/y", packages=[package("npm", "y")]), "well-known microsoft"),
        (server("com.str1pe/mcp", packages=[package("npm", "y")]), "well-known com.stripe/mcp"),
        (server("a.b/y", title="Gіthub", packages=[package("npm", "y")]), "CYRILLIC"),
        (
            server("io.github.eve/y", repository={"url": "https://github.com/ada/y"}, packages=[package("npm", "y")]),
            "its repository belongs to ada",
        ),
        (
            server("com.example/y", remotes=[{"type": "sse", "url": "https://example.com.evil.test/sse"}]),
            "its address is at example.com.evil.test",
        ),
    ],
)
def test_what_passes_for_another_server_is_named(document: dict[str, Any], said: str) -> None:
    assert said in warnings(document)


def test_a_name_like_that_of_a_configured_server_is_named() -> None:
    document = server("io.github.x/weathr", packages=[package("npm", "weathr")])
    assert "your weather" in warnings(document, "weathr", "weather", "other")


def test_ordinary_entries_have_no_warnings() -> None:
    assert warnings(weather("1.0.0"), "weather", "clock") == ""
    assert warnings(REMOTE, "tracker") == ""
    for entry in ENTRIES[3:8]:
        assert warnings(entry["server"]) == ""


@pytest.mark.parametrize("word", ["a", "abcde", "abcdefghij"])
def test_an_address_with_thousands_of_folders_is_compared_within_bounds(word: str) -> None:
    folders = "/".join([word] * (4_000 // (len(word) + 1)))
    bundles = [package("mcpb", f"https://e{n}.com/{folders}/x.mcpb", fileSha256=SHA256) for n in range(30)]
    entry = decode_entry(json.dumps(server("com.example/x", packages=bundles)).encode())
    began = thread_time()
    for option in list_options(entry):
        find_warnings(entry, option, "x", ())
    assert thread_time() - began < 0.5


def test_the_owner_in_the_address_of_a_bundle_is_compared() -> None:
    bundle = package("mcpb", "https://github.com/micros0ft/x/releases/download/1/x.mcpb", fileSha256=SHA256)
    assert "well-known microsoft" in warnings(server("com.example/x", packages=[bundle]))
