"""Tests for the registry page: search, details, install plans, updates, removal, undo, and guides for models."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from textual.widgets import Input, Static

from mcphost.llm.messages import ResourcePart
from mcphost.registry.entries import RegistryEntry, SourceRepository
from mcphost.registry.install_guide import InstallGuide, fetch_guide, guide_urls
from mcphost.translation import set_language
from mcphost.tui import input_guard
from mcphost.tui.screens.install_form import InstallForm
from mcphost.tui.screens.registry_versions import VersionsScreen
from tests.fakes.bundles import bundle, manifest, sha256_of
from tests.fakes.json_server import json_server
from tests.fakes.package_tools import FakePackageTools
from tests.fakes.registry_entries import ENTRIES, package, server
from tests.fakes.registry_server import RegistryServer, published, registry_server
from tests.screens.conftest import AppDriver, ManualClock
from tests.screens.real_program import Files
from tests.screens.sample_images import icon_data_url

pytestmark = pytest.mark.anyio

RUNNER = f"#!/bin/sh\nexec {sys.executable} -m mcphost.demo.server\n"
CLOCK = server(
    "io.github.ada/clock",
    repository={"url": "https://github.com/ada/clock", "source": "github"},
    packages=[package("pypi", "clock-mcp", environmentVariables=[{"name": "CLOCK_API_KEY", "isSecret": True}])],
)
CLOCK_URL = "https://127.0.0.1:9/mcp"
NEWER = {**CLOCK, "version": "1.1.0", "packages": [package("pypi", "clock-mcp", "1.1.0")]}


@pytest.fixture
def runners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, first in PATH, with programs named uvx and npx that run the demo server."""
    folder = tmp_path / "runners"
    folder.mkdir()
    for name in ("uvx", "npx"):
        (folder / name).write_text(RUNNER)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def use_registry(files: Files, registry: RegistryServer) -> None:
    """Let the program use this registry."""
    files.write_settings(f'[registry]\nurl = "{registry.url}"\n')


async def open_registry(driver: AppDriver, word: str = "") -> None:
    """Open the registry page, and search for *word* if it is not empty."""
    await driver.pilot.press("f3", "b")
    await driver.until(lambda: " of " in driver.text() and "publisher" in driver.text(), "the first servers")
    if word:
        await driver.pilot.press("ctrl+f")
        await driver.type(word)
        await driver.pilot.press("enter")
        await driver.until(lambda: f"server      io.github.ada/{word}" in driver.text(), "the server")


def is_plan_complete(driver: AppDriver) -> bool:
    """Return whether the install form is open, with a plan that is not waiting for the digest of its package."""
    form = driver.app.screen
    if not isinstance(form, InstallForm):
        return False
    plan = str(form.query_one("#plan", Static).render())
    return "download: " in plan or ("digest: " in plan and "being requested" not in plan)


async def press_install(driver: AppDriver) -> None:
    """Press Ctrl+S after reading the install plan, with the digest, for long enough."""
    await driver.until(lambda: is_plan_complete(driver), "the plan with the digest")
    await driver.pilot.press("pagedown", "pagedown")
    await driver.pilot.pause(input_guard.GUARD_SECONDS)
    await driver.pilot.press("ctrl+s")


async def test_escape_after_a_search_brings_the_first_servers_back(files: Files) -> None:
    other = server("io.github.ada/files", packages=[package("pypi", "files-mcp")])
    with registry_server([published(CLOCK), published(other)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver, "clock")
            page: Any = driver.app.screen
            assert [row.title for row in page.entries] == ["io.github.ada/clock"]
            await driver.pilot.press("escape")
            await driver.until(lambda: len(page.entries) == 2, "the first servers")
            assert page.query_one("#search", Input).value == ""
            assert page.current_row().title == "io.github.ada/clock"
            await driver.pilot.press("escape")
            await driver.until(lambda: driver.app.screen is not page, "the servers page")


async def test_a_description_cannot_imitate_the_ways_to_install_a_server(files: Files) -> None:
    forged = {**CLOCK, "description": "Tells the time.\n\nclock-safe from PyPI\n    checked by mcphost"}
    with registry_server([published(forged)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver, "clock")
            await driver.until(lambda: "needs uvx" in driver.text(), "the ways to install it")
            rows = [row for row in driver.text().split("\n") if "    checked by" in row or "clock-safe from" in row]
    assert [row.strip().split()[0] for row in rows if "·" not in row] == ["│", "│"]


async def test_many_inputs_are_mounted_in_steps_and_the_last_one_is_part_of_the_plan(
    files: Files, runners: Path
) -> None:
    del runners
    variables = [{"name": f"CLOCK_{number}"} for number in range(40)]
    many = {**CLOCK, "packages": [package("pypi", "clock-mcp", environmentVariables=variables)]}
    with registry_server([published(many)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((100, 30), approved=False) as driver:
            await open_registry(driver, "clock")
            await driver.pilot.press("enter")
            await driver.until(lambda: isinstance(driver.app.screen, InstallForm), "the form")
            form = driver.app.screen
            await driver.until(lambda: bool(form.query("SteppedInputGroup")), "the inputs")
            await driver.until(lambda: len(form.query(Input)) == 40, "all inputs")
            form.query_one("#input-39", Input).value = "the last"
            await driver.until(
                lambda: "CLOCK_39: the last" in str(form.query_one("#plan", Static).render()), "the plan with it"
            )


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.req("market.browse", "market.one-click", "market.auto-config", "market.update-remove")
async def test_a_server_is_found_installed_used_updated_and_taken_back(
    files: Files, runners: Path, size: tuple[int, int]
) -> None:
    del runners
    with registry_server([published(CLOCK)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open(size, approved=False) as driver:
            await open_registry(driver, "clock")
            await driver.until(lambda: "GitHub account ada" in driver.text(), "the publisher")
            await driver.pilot.press("enter")
            await driver.until(lambda: "clock-mcp@1.0.0" in driver.text(), "the plan")
            assert "CLOCK_API_KEY" in driver.text()
            assert files.read_servers() == {}
            await press_install(driver)
            await driver.until(lambda: "10 tools" in driver.text(), "the server that works")
            assert "Installed clock" in " ".join(one.message for one in driver.app._notifications)
            assert files.read_servers()["clock"]["args"] == ["clock-mcp@1.0.0"]

            registry.entries.append(published(NEWER))
            await driver.pilot.press("b")
            await driver.until(lambda: "1.0.0, as clock" in driver.text(), "the installed version")
            await driver.pilot.press("enter")
            await driver.until(lambda: "Update io.github.ada/clock 1.1.0" in driver.text(), "the update")
            await driver.until(lambda: "1.0.0 -> 1.1.0" in driver.text(), "what changes")
            await press_install(driver)
            await driver.until(lambda: files.read_servers()["clock"]["args"] == ["clock-mcp@1.1.0"], "the update")
            await driver.until(lambda: "10 tools" in driver.text(), "the server that works again")

            await driver.pilot.press("u")
            await driver.until(lambda: files.read_servers()["clock"]["args"] == ["clock-mcp@1.0.0"], "the undo")
            await driver.until(lambda: "Changed since you approved it" in driver.text(), "the question")
            await driver.pilot.pause(input_guard.GUARD_SECONDS)
            await driver.pilot.press("escape")
            await driver.until(lambda: "Use the server" not in driver.text(), "the list")
            await driver.pilot.press("x", "x")
            await driver.until(lambda: files.read_servers() == {}, "the removal")


async def test_why_a_registry_cannot_be_reached_is_on_the_page_with_the_way_to_ask_again(
    files: Files,
) -> None:
    files.write_servers()
    files.write_settings('[registry]\nurl = "http://127.0.0.1:9"\n')
    async with files.open((80, 24), approved=False) as driver:
        await driver.pilot.press("f3", "b")
        await driver.until(lambda: "cannot be reached: Connection refused." in driver.text(), "the reason")
        assert "To ask again: Ctrl+F, then Enter." in driver.text()
        assert "ctrl+f search" in driver.text()


@pytest.mark.req("market.one-click")
async def test_the_plan_is_shown_in_the_language_of_the_user(files: Files, runners: Path) -> None:
    del runners
    with registry_server([published(CLOCK)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await driver.pilot.press("f3", "b")
            await driver.until(lambda: "io.github.ada/clock" in driver.text(), "the server")
            set_language("zh-CN")
            try:
                await driver.pilot.press("enter")
                await driver.until(lambda: "运行: uvx clock-mcp@1.0.0" in driver.text(), "the plan")
                assert "参数 1: clock-mcp@1.0.0" in driver.text()
                assert "，名为 clock" in driver.text()
            finally:
                set_language("en")


@pytest.mark.req("market.metadata")
async def test_an_embedded_logo_is_drawn_and_a_linked_one_is_never_fetched(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    with json_server({}) as publisher:
        linked = server("io.github.ada/linked", icons=[{"src": f"{publisher.url}/logo.png"}])
        embedded = server("io.github.ada/embedded", icons=[{"src": icon_data_url()}])
        with registry_server([published(linked), published(embedded)]) as registry:
            files.write_servers()
            use_registry(files, registry)
            async with files.open((120, 40), approved=False) as driver:
                await open_registry(driver)
                await driver.until(lambda: "linked, not fetched" in driver.text(), "the linked logo")
                assert not driver.app.screen.query_one("#icon").display
                await driver.pilot.press("down")
                await driver.until(lambda: driver.app.screen.query_one("#icon").display, "the embedded logo")
                assert "not fetched" not in driver.text()
        assert publisher.requests == []


@pytest.mark.req("market.api-keys")
async def test_secrets_and_inputs_are_asked_in_the_form_and_the_plan_follows(files: Files, runners: Path) -> None:
    del runners
    with registry_server(ENTRIES) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver, "weather")
            await driver.pilot.press("enter")
            await driver.until(lambda: "needed: " in driver.text(), "what is missing")
            await press_install(driver)
            await driver.until(lambda: "needs a value" in driver.text(), "the refusal")
            assert files.read_servers() == {}
            form = driver.app.screen
            assert isinstance(form, InstallForm)
            names = [one.name for one in form.draft.inputs]
            secret = form.query_one(f"#input-{names.index('WEATHER_API_KEY')}")
            assert getattr(secret, "password", False)
            form.set_focus(form.query_one(f"#input-{names.index('cache_dir')}"))
            await driver.type("/tmp/cache")
            form.set_focus(secret)
            await driver.type("sk-0123456789abcdef0123")
            await driver.until(lambda: "/tmp/cache" in driver.text() and "needed: " not in driver.text(), "the plan")
            assert "sk-0123456789" not in driver.text()
            await driver.pilot.press("escape")
        assert files.read_servers() == {}


async def test_a_plan_that_is_visible_before_all_inputs_are_mounted_does_not_count_as_read(files: Files) -> None:
    headers = [{"name": f"X-Clock-{number}"} for number in range(40)]
    many = server("io.github.ada/clock", remotes=[{"type": "streamable-http", "url": CLOCK_URL, "headers": headers}])
    with registry_server([published(many)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((100, 45), approved=False) as driver:
            await open_registry(driver, "clock")
            await driver.pilot.press("enter")
            await driver.until(lambda: len(driver.app.screen.query(Input)) == 40, "all inputs")
            await driver.until(
                lambda: CLOCK_URL in str(driver.app.screen.query_one("#plan", Static).render()), "the plan"
            )
            assert f"address: {CLOCK_URL}" not in driver.text()
            await driver.pilot.pause(input_guard.GUARD_SECONDS)
            await driver.pilot.press("ctrl+s")
            await driver.until(lambda: "Read to the end of the plan" in driver.text(), "the demand")
            assert files.read_servers() == {}


async def test_a_plan_is_read_to_its_end_before_anything_is_installed(files: Files, runners: Path) -> None:
    del runners
    with registry_server(ENTRIES) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((80, 24), approved=False) as driver:
            await open_registry(driver, "weather")
            await driver.pilot.press("enter")
            await driver.until(lambda: "needed: cache_dir" in driver.text(), "the plan")
            assert str(driver.app.screen.query("#buttons Button").first().label) == "Back"
            await driver.pilot.press("tab")
            await driver.type("/tmp/cache")
            await driver.pilot.press("tab")
            await driver.type("${env:THE_KEY}")
            await driver.until(lambda: "needed: " not in driver.text().replace("needed · ", ""), "a whole plan")
            for _ in range(10):  # a key is ignored right after the plan changed, which takes time on a busy machine
                await driver.pilot.pause(input_guard.GUARD_SECONDS)
                await driver.pilot.press("ctrl+s")
                if "Read to the end of the plan" in driver.text():
                    break
            await driver.until(lambda: "Read to the end of the plan" in driver.text(), "the demand")
            assert files.read_servers() == {}
            await press_install(driver)
            await driver.until(lambda: "weather" in files.read_servers(), "the entry")


async def test_another_digest_than_the_one_that_the_registry_states_is_refused_with_the_command_that_accepts_it(
    files: Files, runners: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del runners
    tools = FakePackageTools(tmp_path)
    monkeypatch.setenv("PATH", f"{tools.folder}{os.pathsep}{os.environ['PATH']}")
    tools.answer_uv("clock-mcp", "1.0.0", "1" * 64)
    stated = {**CLOCK, "packages": [package("pypi", "clock-mcp", fileSha256="2" * 64)]}
    with registry_server([published(stated)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("enter")
            await driver.until(lambda: "has no file of clock-mcp 1.0.0 with the" in driver.text(), "the warning")
            assert "digest: sha256:" in " ".join(driver.text().split())
            await press_install(driver)
            await driver.until(lambda: "--accept-digest" in driver.text(), "the refusal")
            told = " ".join(driver.text().replace("│", " ").split())
            chosen = "install io.github.ada/clock@1.0.0 --from pypi --name clock --scope user --registry "
            assert f"mcphost servers {chosen}" in told
            assert files.read_servers() == {}


async def test_nothing_is_installed_while_the_digest_is_being_asked_for(
    files: Files, runners: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del runners
    tools = FakePackageTools(tmp_path)
    tools.hang("uv")
    monkeypatch.setenv("PATH", f"{tools.folder}{os.pathsep}{os.environ['PATH']}")
    with registry_server([published(CLOCK)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("enter")
            await driver.until(lambda: "being requested" in driver.text(), "the plan")
            await driver.pilot.pause(input_guard.GUARD_SECONDS)
            await driver.pilot.press("ctrl+s")
            await driver.until(lambda: "package is being requested" in driver.text(), "the demand")
            assert files.read_servers() == {}
            await driver.pilot.press("escape")
            await driver.until(lambda: "Install io.github" not in driver.text(), "the list")


async def test_another_kind_can_be_chosen_while_the_digest_of_the_first_is_being_requested(
    files: Files, runners: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del runners
    tools = FakePackageTools(tmp_path)
    tools.hang("uv")
    tools.hang("npm")
    monkeypatch.setenv("PATH", f"{tools.folder}{os.pathsep}{os.environ['PATH']}")
    both = {**CLOCK, "packages": [package("pypi", "clock-py"), package("npm", "clock-js")]}
    with registry_server([published(both)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("enter")
            await driver.until(lambda: "being requested" in driver.text(), "the first plan")
            for _ in range(2):
                before = "clock-py@1.0.0" if "clock-py@1.0.0" in driver.text() else "clock-js@1.0.0"
                after = {"clock-py@1.0.0": "clock-js@1.0.0", "clock-js@1.0.0": "clock-py@1.0.0"}[before]
                await driver.pilot.press("ctrl+o")
                await driver.until(lambda after=after: after in driver.text(), "the other plan")
                assert before not in driver.text()
            await driver.pilot.pause(input_guard.GUARD_SECONDS)
            await driver.pilot.press("ctrl+s")
            await driver.until(lambda: "package is being requested" in driver.text(), "the demand")
            assert files.read_servers() == {}


async def test_a_warning_that_arrives_above_the_end_of_a_read_plan_is_shown_before_the_plan_counts_as_read(
    files: Files, runners: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del runners
    tools = FakePackageTools(tmp_path)
    tools.answer_uv("clock-mcp", "1.0.0", "1" * 64)
    release = tools.hold("uv")
    monkeypatch.setenv("PATH", f"{tools.folder}{os.pathsep}{os.environ['PATH']}")
    stated = {**CLOCK, "packages": [package("pypi", "clock-mcp", fileSha256="2" * 64)]}
    with registry_server([published(stated)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((80, 24), approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("enter")
            await driver.until(lambda: "clock-mcp@1.0.0" in driver.text(), "the plan")
            content = driver.app.screen.query_one("#content")
            await driver.pilot.press("pagedown", "pagedown", "pagedown")
            await driver.until(lambda: content.scroll_y >= content.max_scroll_y > 0, "the end of the plan")
            release()
            await driver.until(lambda: "▲" in driver.text(), "the warning")
            await driver.pilot.pause(input_guard.GUARD_SECONDS)
            await driver.pilot.press("ctrl+s")
            await driver.until(lambda: "Read to the end of the plan" in driver.text(), "the demand")
            assert files.read_servers() == {}


async def test_the_servers_page_opens_with_what_was_installed_from_the_registry_page(
    files: Files, runners: Path
) -> None:
    del runners
    off = {"command": "uvx", "args": ["other-mcp"], "disabled": True}
    with registry_server([published(CLOCK)]) as registry:
        files.write_servers(another=off, zebra=off)
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await driver.type("/registry")
            await driver.pilot.press("enter")
            await driver.until(lambda: "publisher" in driver.text(), "the first servers")
            await driver.pilot.press("enter")
            await driver.until(lambda: "clock-mcp@1.0.0" in driver.text(), "the plan")
            await press_install(driver)
            await driver.until(lambda: re.search("runs +uvx clock-mcp@1.0.0", driver.text()), "the installed server")


async def test_a_word_typed_on_the_registry_page_is_searched_for(files: Files) -> None:
    popular = {"server": CLOCK, "_meta": {"io.glama/stats": {"downloads": 12345}}}
    with registry_server([popular, published(server("io.github.ada/violin"))]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver)
            assert "12,345 downloads (says the registry)" in driver.text()
            driver.press_together(*"violin")
            await driver.until(lambda: "1 of 2" in driver.text(), "the matches")
            assert driver.app.screen.query_one("#search", Input).value == "violin"
            await driver.pilot.press("enter")
            await driver.until(lambda: any("search=violin" in path for path in registry.paths), "the request")


async def test_a_key_that_is_held_down_installs_nothing(files: Files, runners: Path, clock: ManualClock) -> None:
    del runners
    with registry_server([published(CLOCK)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open(approved=False) as driver:
            await open_registry(driver)
            for key in ("enter", "enter", "ctrl+s", "ctrl+s", "ctrl+s"):
                await driver.pilot.press(key)
                clock.now += 0.05
            await driver.until(lambda: "clock-mcp@1.0.0" in driver.text(), "the plan")
            assert files.read_servers() == {}


async def test_a_look_alike_is_warned_of_and_not_approved_by_its_installation(files: Files, runners: Path) -> None:
    del runners
    fake = {**CLOCK, "name": "io.github.eve/clock"}
    with registry_server([published(fake)]) as registry:
        files.write_servers(c1ock={"command": "uvx", "args": ["clock-mcp"], "disabled": True})
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("enter")
            await driver.until(lambda: "looks like that of your c1ock" in driver.text(), "the warning")
            await press_install(driver)
            await driver.until(lambda: "clock" in files.read_servers(), "the entry")
            await driver.until(lambda: "Use the server clock?" in driver.text(), "the question")


async def test_the_approval_of_an_installed_server_shows_what_the_publisher_wrote(files: Files, runners: Path) -> None:
    del runners
    fixed = {"name": "UPSTREAM_AUTH", "value": "collector.example-user"}
    fake = {**CLOCK, "name": "io.github.eve/clock"}
    fake["packages"] = [package("pypi", "clock-mcp", environmentVariables=[fixed])]
    with registry_server([published(fake)]) as registry:
        files.write_servers(c1ock={"command": "uvx", "args": ["clock-mcp"], "disabled": True})
        use_registry(files, registry)
        async with files.open((120, 50), approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("enter")
            await driver.until(lambda: "UPSTREAM_AUTH: collector.example-user" in driver.text(), "the plan")
            await press_install(driver)
            await driver.until(lambda: "Use the server clock?" in driver.text(), "the question")
            assert "collector.example-user" in driver.text()


async def test_a_bundle_is_downloaded_only_after_its_address_was_shown(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bundle(about=manifest())
    asked: list[str] = []

    async def fetch(url: str, sha256: str, path: Path) -> None:
        del sha256
        asked.append(url)
        await anyio.Path(path).write_bytes(content)

    monkeypatch.setattr("mcphost.registry.bundle.download", fetch)
    url = "https://example.com/notes.mcpb"
    notes = server("io.github.ada/notes", packages=[package("mcpb", url, "", fileSha256=sha256_of(content))])
    with registry_server([published(notes)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("enter")
            await driver.until(lambda: f"download: {url}" in driver.text(), "the address")
            assert asked == []
            await press_install(driver)
            await driver.until(lambda: "needed: folders" in driver.text(), "the plan")
            assert asked == [url]
            assert files.read_servers() == {}
            driver.app.screen.query_one("#input-0", Input).value = '/a, "/b, c"'
            await driver.until(lambda: "--dir /a '/b, c'" in driver.text(), "both folders")
            await driver.pilot.press("escape")
            bundles = files.folder.parent / "data" / "bundles"
            await driver.until(lambda: not any(bundles.iterdir()), "nothing left behind")


async def test_versions_are_listed_by_a_key(files: Files) -> None:
    with registry_server(ENTRIES) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver, "weather")
            await driver.pilot.press("v")
            await driver.until(lambda: "0.9.0" in driver.text() and "deprecated" in driver.text(), "the versions")
            await driver.pilot.press("escape")
            await driver.until(lambda: "Registry" in driver.text(), "the registry again")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_version_is_described_with_the_reason_for_its_status(files: Files, size: tuple[int, int]) -> None:
    text, reason = "Tells the time in two zones.", "Use 1.0.0, which knows all zones."
    entry = RegistryEntry(
        name="ada/clock", version="0.9.0", description=text, status="deprecated", status_message=reason
    )
    async with files.open(size, approved=False) as driver:
        driver.app.push_screen(VersionsScreen("ada/clock", [entry]))
        await driver.until(lambda: f"deprecated · {reason}" in driver.text(), "the status")
        await driver.until(lambda: text in driver.text(), "the description")


@pytest.mark.req("market.one-click")
async def test_an_older_version_is_installed_from_the_list_of_versions(files: Files) -> None:
    with registry_server(ENTRIES) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open((120, 40), approved=False) as driver:
            await open_registry(driver, "weather")
            await driver.pilot.press("v")
            await driver.until(lambda: "0.9.0" in driver.text(), "the versions")
            await driver.pilot.press("down", "enter")
            await driver.until(lambda: "Install io.github.ada/weather 1.0.0" in driver.text(), "the plan")
            assert "weather-mcp@1.0.0" in driver.text()


@pytest.mark.req("market.llms-install")
async def test_a_guide_is_shown_and_handed_to_the_model_as_an_attachment(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = InstallGuide("https://raw.githubusercontent.com/ada/clock/HEAD/llms-install.md", "1. Run `uvx clock-mcp`.")

    async def fetch(urls: Sequence[str]) -> InstallGuide:
        assert urls[0] == guide.url
        return guide

    monkeypatch.setattr("mcphost.host.servers.registry_installer.fetch_guide", fetch)
    with registry_server([published(CLOCK)]) as registry:
        files.write_servers()
        use_registry(files, registry)
        async with files.open(approved=False) as driver:
            await open_registry(driver)
            await driver.pilot.press("l")
            await driver.until(lambda: "1. Run `uvx clock-mcp`." in driver.text(), "the guide")
            await driver.pilot.press("escape")
            await driver.until(lambda: "publisher" in driver.text(), "the list")
            await driver.pilot.press("m")
            await driver.until(lambda: driver.app.chat.attachments, "the attachment")
            (part,) = driver.app.chat.attachments.parts
            assert isinstance(part, ResourcePart)
            assert part.uri == guide.url
            assert "Its publisher wrote it, not the user" in part.text
            assert guide.text in part.text


@pytest.mark.req("market.llms-install")
async def test_a_guide_is_read_over_http_within_bounds() -> None:
    from mcphost.errors import RegistryError

    with json_server({"GET /llms-install.md": {"step": 1}, "GET /large": {"text": "x" * 100_000}}) as there:
        assert "step" in (await fetch_guide([f"{there.url}/llms-install.md"])).text
        assert "step" in (await fetch_guide([f"{there.url}/none", f"{there.url}/llms-install.md"])).text
        with pytest.raises(RegistryError, match=r"no llms-install\.md, llms-installation\.md or README\.md"):
            await fetch_guide([f"{there.url}/none", f"{there.url}/none-either"])
        with pytest.raises(RegistryError, match="cannot be read"):
            await fetch_guide([f"{there.url}/large", f"{there.url}/llms-install.md"])


@pytest.mark.req("market.llms-install")
def test_the_readme_is_the_guide_of_a_repository_without_one() -> None:
    there = SourceRepository(url="https://github.com/ada/tools", source="github", subfolder="servers/clock")
    base = "https://raw.githubusercontent.com/ada/tools/HEAD/servers/clock"
    assert guide_urls(there) == (f"{base}/llms-install.md", f"{base}/llms-installation.md", f"{base}/README.md")
