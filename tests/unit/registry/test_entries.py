"""Tests that registry entries are decoded within limits, and that invalid parts are left out with a reason."""

import json
from typing import Any

import pytest

from mcphost.errors import RegistryError
from mcphost.registry.entries import (
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    MAX_ICONS,
    decode_entry,
    decode_page,
    describe_publisher,
    is_newer,
    latest_entries,
    version_key,
)
from mcphost.translation import set_language, translate_sentence
from tests.fakes.registry_entries import BAD, ENTRIES, package, server
from tests.fakes.registry_server import published


def test_every_kind_of_package_and_remote_is_decoded() -> None:
    page = decode_page(json.dumps({"servers": ENTRIES}).encode(), "test")
    assert page.problems == ()
    assert len(page.entries) == len(ENTRIES) > 40
    kinds = {kind for entry in page.entries for kind in entry.kinds}
    assert kinds == {"npm", "pypi", "oci", "nuget", "mcpb", "remote"}
    weather = next(entry for entry in page.entries if entry.version == "1.10.0")
    assert weather.is_latest
    assert weather.packages[0].environment_variables[0].is_secret
    assert weather.packages[0].package_arguments[2].value_hint == "cache_dir"


def test_a_status_of_a_later_schema_counts_as_deprecated() -> None:
    entry = decode_entry(json.dumps(published(server("io.github.ada/x"), status="quarantined")).encode())
    assert (entry.status, entry.status_message) == ("deprecated", "Status: quarantined")


def test_each_bad_entry_is_left_out_and_named_and_the_others_stay() -> None:
    page = decode_page(json.dumps({"servers": [*BAD, ENTRIES[0]]}).encode(), "test")
    assert [entry.name for entry in page.entries] == ["io.github.ada/weather"]
    assert len(page.problems) == len(BAD)
    assert "looks like" in " ".join(page.problems)
    assert "\x1b" not in "".join(page.problems)


@pytest.mark.parametrize("is_bare", [False, True])
def test_an_entry_that_is_too_large_is_named(is_bare: bool) -> None:
    large = server("io.github.ada/large", description="x" * MAX_ENTRY_BYTES)
    entries = [ENTRIES[0], large if is_bare else published(large)]
    page = decode_page(json.dumps({"servers": entries}).encode(), "test")
    assert page.problems == ("The entry io.github.ada/large was left out. It has more than 128 KB.",)


def test_why_an_entry_was_left_out_is_said_in_the_users_language() -> None:
    named = server("io.github.ada/large", description="x" * MAX_ENTRY_BYTES)
    page = decode_page(json.dumps({"servers": [published(named), published({**named, "name": ""})]}).encode(), "test")
    set_language("zh-CN")
    try:
        first, second = map(translate_sentence, page.problems)
    finally:
        set_language("en")
    assert first.startswith("条目 io.github.ada/large 已被略去。")
    assert second.startswith("第 2 个条目已被略去。")
    assert "left out" not in first + second


@pytest.mark.parametrize("name", ["", "no-slash", "a.b/" + "x" * 300, "a.b/\x1b[31mred", 7])
def test_an_entry_that_is_too_large_and_has_no_valid_name_is_counted(name: Any) -> None:
    large = server("io.github.ada/large", description="x" * MAX_ENTRY_BYTES) | {"name": name}
    page = decode_page(json.dumps({"servers": [ENTRIES[0], published(large)]}).encode(), "test")
    assert page.problems == ("Entry 2 was left out. It has more than 128 KB.",)


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    "hostile",
    [
        {"packages": [package("npm", "x")] * 300},
        {"packages": [package("npm", "x", environmentVariables=[{"name": "A"}] * 300)]},
        {"packages": [package("npm", "x" * 5_000)]},
        {"x": nested(40)},
        {"x": ["y" * 4_000] * 100},
    ],
    ids=["packages", "variables", "text", "depth", "bytes"],
)
def test_an_entry_beyond_its_bounds_is_refused(hostile: dict[str, Any]) -> None:
    with pytest.raises(RegistryError):
        decode_entry(json.dumps(published(server("io.github.ada/x", **hostile))).encode())


def test_an_embedded_logo_may_be_long_and_an_invalid_one_hides_no_server() -> None:
    embedded = "data:image/png;base64," + "A" * 20_000
    icons = [{"src": embedded, "theme": "dark"}, {"src": 7}, "x", {"src": "https://a.example/l.png", "sizes": 9}]
    entry = decode_entry(json.dumps(published(server("io.github.ada/x", icons=icons))).encode())
    assert [(icon.src, icon.theme) for icon in entry.icons] == [(embedded, "dark"), ("https://a.example/l.png", None)]
    many = decode_entry(json.dumps(published(server("io.github.ada/x", icons=icons[:1] * 5 + icons[3:] * 50))).encode())
    assert len(many.icons) == MAX_ICONS
    assert decode_entry(json.dumps(published(server("io.github.ada/x", icons={"src": "x"}))).encode()).icons == ()


def test_a_page_of_too_many_entries_is_cut() -> None:
    page = decode_page(json.dumps({"servers": [published(server("a.b/c"))] * (MAX_ENTRIES + 5)}).encode(), "test")
    assert len(page.entries) == MAX_ENTRIES
    assert "Only the first" in page.problems[0]


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"servers": 7}', b'{"servers": {}}', b"[" * 100_000])
def test_another_document_is_an_error_that_names_the_registry(body: bytes) -> None:
    with pytest.raises(RegistryError, match=r"registry\.example"):
        decode_page(body, "registry.example")


def test_versions_are_ordered_as_semver_says() -> None:
    ordered = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.2.0",
        "1.10.0",
    ]
    keys = [version_key(version) for version in ordered]
    assert None not in keys
    assert sorted(ordered[4:] + ordered[:4], key=lambda version: version_key(version) or ()) == ordered
    assert version_key("2025.10") is None


def test_the_latest_entry_is_the_marked_or_the_newest_one() -> None:
    page = decode_page(json.dumps({"servers": ENTRIES[:3]}).encode(), "test")
    assert [entry.version for entry in latest_entries(page.entries)] == ["1.10.0"]
    assert is_newer(page.entries[2], "1.9.0")
    assert not is_newer(page.entries[1], "1.10.0")


def test_the_publisher_is_read_from_the_namespace() -> None:
    github, domain = (decode_entry(json.dumps(server(name)).encode()) for name in ("io.github.ada/x", "com.example/x"))
    assert describe_publisher(github) == "GitHub account ada"
    assert describe_publisher(domain) == "domain example.com"


def test_the_popularity_that_any_publisher_of_metadata_states_is_read_within_limits() -> None:
    about = {
        "io.glama/stats": {"downloads": 12345, "stars": 77, "name": "x"},
        "a.example/more": {"installs": 2**70, "stars": -1, "downloads": True},
        "b.example/nested": {"deep": {"stars": 3}},
        "c.example/text": "downloads",
    }
    document = {**published(server("io.github.ada/x")), "_meta": about}
    entry = decode_entry(json.dumps(document).encode())
    assert entry.popularity == (("downloads", 12345), ("stars", 77))
    many = {f"x.example/{number}": {"stars": number} for number in range(500)}
    document = {**published(server("io.github.ada/x")), "_meta": many}
    assert decode_entry(json.dumps(document).encode()).popularity == (("stars", 0),)
    document = {**published(server("io.github.ada/x")), "_meta": {"x.example/y": {"n" * 9_999: 1, "stars": 1.5}}}
    assert decode_entry(json.dumps(document).encode()).popularity == ()
