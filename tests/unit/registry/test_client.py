"""Tests for the client of the MCP registry: pages, cache, offline use, files, and untrustworthy responses."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mcphost.errors import RegistryError
from mcphost.registry import client
from mcphost.registry.client import FRESH_SECONDS, MAX_CACHED_PAGES, MAX_PAGE_BYTES, PageCache, open_registry
from tests.fakes.registry_entries import BAD, ENTRIES, server
from tests.fakes.registry_server import published, registry_server

pytestmark = pytest.mark.anyio


async def test_a_search_follows_the_pages_and_names_each_server_once(tmp_path: Path) -> None:
    with registry_server(ENTRIES) as registry:
        registry.page_size = 7
        async with open_registry(registry.url, tmp_path) as opened:
            answer = await opened.search("", 100)
    names = [entry.name for entry in answer.entries]
    assert len(names) == len(set(names)) == 38
    assert not answer.is_cut
    assert len(registry.paths) > 5
    assert all("version=latest" in path for path in registry.paths)


async def test_a_search_for_a_word_asks_the_registry_for_it(tmp_path: Path) -> None:
    with registry_server(ENTRIES) as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            answer = await opened.search("Weather", 10)
            found = await opened.find("io.github.ada/weather")
            old = await opened.find("io.github.ada/weather", "0.9.0")
            versions = await opened.list_versions("io.github.ada/weather")
    assert [(entry.name, entry.version) for entry in answer.entries] == [("io.github.ada/weather", "1.10.0")]
    assert found.entries[0].version == "1.10.0"
    assert old.entries[0].status == "deprecated"
    assert [entry.version for entry in versions.entries] == ["1.10.0", "1.0.0", "0.9.0"]
    assert "/v0.1/servers/io.github.ada%2Fweather/versions/0.9.0" in registry.paths


async def test_every_word_of_a_search_is_in_the_name_the_title_or_the_description(tmp_path: Path) -> None:
    entries = [
        published(server("a.b/google-calendar", description="Plan a day")),
        published(server("a.b/google-drive", description="Keep files")),
    ]
    with registry_server(entries) as registry:
        async with open_registry(registry.url, tmp_path / "cache") as opened:
            for text in ("google calendar", "Google  PLAN", " calendar google "):
                answer = await opened.search(text, 10)
                assert [entry.name for entry in answer.entries] == ["a.b/google-calendar"], text
            assert not (await opened.search("google sheets", 10)).entries
    (tmp_path / "registry.json").write_text(json.dumps(entries))
    async with open_registry(str(tmp_path / "registry.json"), tmp_path) as opened:
        assert [entry.name for entry in (await opened.search("drive google", 10)).entries] == ["a.b/google-drive"]


async def test_a_match_on_a_late_page_of_the_first_word_is_found_by_another_word(tmp_path: Path) -> None:
    many = [published(server(f"a.b/google-{number:04}", description="Sheets")) for number in range(150)]
    wanted = published(server("a.b/google-zcalendar", description="Plan a day"))
    by_description = published(server("a.b/calendar", description="Works with google"))
    with registry_server([*many, wanted, by_description]) as registry:
        registry.page_size = 10
        async with open_registry(registry.url, tmp_path) as opened:
            answer = await opened.search("google calendar", 10)
            assert {entry.name for entry in answer.entries} == {"a.b/google-zcalendar", "a.b/calendar"}
            assert len(registry.paths) == 10, "no more pages than for one word"
            assert answer.is_cut, "the pages of google were not read to the end"
            registry.paths.clear()
            complete = await opened.search("zcalendar plan", 10)
            assert [entry.name for entry in complete.entries] == ["a.b/google-zcalendar"]
            assert not complete.is_cut


async def test_the_pages_of_many_words_are_bounded(tmp_path: Path) -> None:
    with registry_server([]) as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            assert not (await opened.search(" ".join(f"word{number}" for number in range(500)), 10)).entries
        assert len(registry.paths) == 5


@pytest.mark.parametrize("end", ["", "/"])
async def test_a_registry_may_be_below_a_path_of_its_host(tmp_path: Path, end: str) -> None:
    with registry_server(ENTRIES, api="/team/registry/v0.1") as registry:
        async with open_registry(f"{registry.url}/team/registry{end}", tmp_path) as opened:
            answer = await opened.search("weather", 10)
            versions = await opened.list_versions("io.github.ada/weather")
    assert [entry.version for entry in answer.entries] == ["1.10.0"]
    assert len(versions.entries) == 3


async def test_a_search_can_be_limited_to_what_changed(tmp_path: Path) -> None:
    old = published(server("a.b/old"), updatedAt="2025-01-01T00:00:00Z")
    deleted = published(server("a.b/deleted"), updatedAt="2025-12-01T00:00:00Z", status="deleted")
    with registry_server([old, published(server("a.b/new"), updatedAt="2025-12-01T00:00:00Z"), deleted]) as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            answer = await opened.search("a.b", 10, "2025-06-01T00:00:00Z")
    assert [(entry.name, entry.status) for entry in answer.entries] == [
        ("a.b/new", "active"),
        ("a.b/deleted", "deleted"),
    ]
    assert "updated_since=2025-06-01T00%3A00%3A00Z" in registry.paths[0]


async def test_answers_are_decoded_and_cached_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = dict[str, int]()

    def watch(owner: Any, name: str) -> None:
        work = getattr(owner, name)

        def watched(*args: Any) -> Any:
            threads[name] = threading.get_ident()
            return work(*args)

        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((client, "decode_page"), (client, "latest_entries"), (PageCache, "load"), (PageCache, "save")):
        watch(owner, name)
    with registry_server(ENTRIES) as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            await opened.search("weather", 10)
            assert len(threads) == 4
            assert threading.get_ident() not in threads.values()
            threads.clear()
            await opened.list_versions("io.github.ada/weather")
    assert set(threads) == {"decode_page", "load", "save"}
    assert threading.get_ident() not in threads.values()


async def test_an_older_registry_is_reached_at_v0(tmp_path: Path) -> None:
    with registry_server(ENTRIES, api="/v0") as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            assert (await opened.search("clock", 10)).entries[0].name == "io.github.ada/clock"
        async with open_registry(f"{registry.url}/v0", tmp_path) as opened:
            assert (await opened.find("io.github.ada/clock")).entries[0].version == "1.0.0"


async def test_a_recent_answer_is_used_again_and_refresh_asks(tmp_path: Path) -> None:
    with registry_server(ENTRIES) as registry:
        for refresh in (False, False, True):
            async with open_registry(registry.url, tmp_path, refresh=refresh) as opened:
                await opened.find("io.github.ada/clock")
        assert len(registry.paths) == 2


async def test_a_recent_answer_shows_the_newer_version_that_was_fetched_since(tmp_path: Path) -> None:
    name = "io.github.ada/weather"
    old, new = published(server(name, version="1.0.0")), published(server(name, version="2.0.0"))
    other = published(server("io.github.ada/weather-maps"))
    with registry_server([old, other]) as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            before = await opened.search("weather", 10)
            assert (await opened.find(name)).entries[0].version == "1.0.0"
        registry.entries = [new, other]
        async with open_registry(registry.url, tmp_path) as opened:
            await opened.list_versions(name)
            after = await opened.search("weather", 10)
            assert (await opened.find(name)).entries[0].version == "2.0.0"
            assert (await opened.find(name, "2.0.0")).entries[0].version == "2.0.0"
    assert [(entry.name, entry.version) for entry in before.entries] == [
        (name, "1.0.0"),
        ("io.github.ada/weather-maps", "1.0.0"),
    ]
    assert [(entry.name, entry.version) for entry in after.entries] == [
        (name, "2.0.0"),
        ("io.github.ada/weather-maps", "1.0.0"),
    ]


async def test_an_answer_from_a_clock_that_was_set_back_since_is_not_recent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with registry_server(ENTRIES) as registry:
        for moment in (now + 86_400 * 365, now):
            monkeypatch.setattr(time, "time", lambda moment=moment: moment)
            async with open_registry(registry.url, tmp_path) as opened:
                await opened.find("io.github.ada/clock")
        assert len(registry.paths) == 2


async def test_without_a_network_the_cache_answers_with_its_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry_server(ENTRIES) as registry:
        url = registry.url
        async with open_registry(url, tmp_path) as opened:
            await opened.search("", 100)
    later = time.time() + FRESH_SECONDS + 3_600
    monkeypatch.setattr(client.time, "time", lambda: later)
    async with open_registry(url, tmp_path) as opened:
        answer = await opened.search("database", 10)
        found = await opened.find("io.github.ada/weather")
        with pytest.raises(RegistryError, match="cannot be reached"):
            await opened.find("io.github.ada/unknown")
    assert [entry.name for entry in answer.entries] == ["io.github.ada/database"]
    assert "cannot be reached" in answer.offline_reason
    assert later - answer.fetched > 3_600
    assert found.entries[0].version == "1.10.0"


async def test_an_overloaded_registry_is_replaced_by_the_cache(tmp_path: Path) -> None:
    with registry_server(ENTRIES) as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            await opened.search("", 100)
        registry.override = lambda _: (503, {}, b"busy")
        async with open_registry(registry.url, tmp_path, refresh=True) as opened:
            answer = await opened.search("clock", 10)
    assert "HTTP 503" in answer.offline_reason
    assert answer.entries[0].name == "io.github.ada/clock"


async def test_bad_entries_are_counted_and_the_others_found(tmp_path: Path) -> None:
    with registry_server([*BAD[:4], *ENTRIES]) as registry:
        async with open_registry(registry.url, tmp_path) as opened:
            answer = await opened.search("", 100)
    assert len(answer.entries) == 38
    assert len(answer.problems) == 4


@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        (200, {}, b"x" * (MAX_PAGE_BYTES + 1), "over 4 MB"),
        (200, {}, b"<html>", "not a list of servers"),
        (302, {"location": "https://other.example/v0.1/servers"}, b"", "another origin"),
        (302, {"location": "/v0.1/servers"}, b"", "redirects more than"),
        (403, {}, b"", "HTTP 403"),
        (200, {"content-encoding": "br"}, b"x", "encoding"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error(
    tmp_path: Path, status: int, headers: dict[str, str], body: bytes, said: str
) -> None:
    with registry_server([]) as registry:
        registry.override = lambda _: (status, headers, body)
        async with open_registry(registry.url, tmp_path) as opened:
            with pytest.raises(RegistryError, match=said):
                await opened.search("", 10)


async def test_pages_without_end_are_left(tmp_path: Path) -> None:
    calls = iter(range(1_000))

    def endless(_: str) -> tuple[int, dict[str, str], bytes]:
        page = {"servers": [published(server("a.b/c"))], "metadata": {"nextCursor": f"c{next(calls)}"}}
        return 200, {}, json.dumps(page).encode()

    with registry_server([]) as registry:
        registry.override = endless
        async with open_registry(registry.url, tmp_path) as opened:
            answer = await opened.search("", 100)
        assert len(registry.paths) == 10
    assert answer.is_cut
    assert len(answer.entries) == 1


async def test_an_answer_about_another_server_is_refused(tmp_path: Path) -> None:
    body = json.dumps(published(server("io.github.eve/weather"))).encode()
    with registry_server([]) as registry:
        registry.override = lambda _: (200, {}, body)
        async with open_registry(registry.url, tmp_path) as opened:
            with pytest.raises(RegistryError, match="instead of"):
                await opened.find("io.github.ada/weather")


@pytest.mark.parametrize(
    "url",
    ["http://registry.example", "ftp://registry.example", "https://a@registry.example", "https://r.example/#x",
     "https://r.example/?q=1"],
)  # fmt: skip
async def test_an_address_that_is_not_https_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(RegistryError):
        async with open_registry(url, tmp_path):
            pass


async def test_a_proxy_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(RegistryError, match="proxy"):
        async with open_registry("https://registry.example", tmp_path):
            pass


@pytest.mark.parametrize("wrap", [lambda entries: {"servers": entries}, lambda entries: entries])
async def test_a_file_is_a_registry_too(tmp_path: Path, wrap: "type[dict[str, object]]") -> None:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps(wrap(ENTRIES)))
    async with open_registry(str(path), tmp_path) as opened:
        assert (await opened.search("weather", 10)).entries[0].version == "1.10.0"
        assert (await opened.find("io.github.ada/weather", "1.0.0")).entries[0].version == "1.0.0"
        with pytest.raises(RegistryError, match="no version"):
            await opened.find("io.github.ada/weather", "7.0.0")


async def test_one_server_json_is_a_registry_too(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    path.write_text(json.dumps(server("io.github.ada/mine")))
    async with open_registry(f"file://{path}", tmp_path) as opened:
        assert (await opened.find("io.github.ada/mine")).entries[0].version == "1.0.0"


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    async with open_registry(str(tmp_path / "none.json"), tmp_path) as opened:
        with pytest.raises(RegistryError, match=r"none\.json does not exist"):
            await opened.search("", 10)


def test_the_cache_is_bounded_and_a_damaged_file_counts_as_missing(tmp_path: Path) -> None:
    cache = PageCache(tmp_path, "https://registry.example")
    for number in range(MAX_CACHED_PAGES + 3):
        cache.save(f"https://registry.example/{number}", b"{}")
    files = list(tmp_path.rglob("*.json"))
    assert len(files) == MAX_CACHED_PAGES
    for path in files:
        path.write_bytes(b"\xff\x00 damaged")
    assert list(cache.pages()) == []
    assert cache.load("https://registry.example/5") is None
