"""Tests that changes of the configuration are applied only after what they do has been on the screen."""

import asyncio
import re
from typing import Any

import pytest

from mcphost.config.schema import HookConfig, HookSettings, HostConfig, ServerConfig
from mcphost.host.config_changes import ConfigChanges
from mcphost.host.runtime_settings import SettingChange
from mcphost.serialization import replace
from mcphost.tui.screens.config_changes import ConfigChangesScreen
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio


def hook(*command: str) -> HookConfig:
    return HookConfig(settings=HookSettings(event="before_call", command=command))


async def review(driver: AppDriver, **changes: Any) -> list[ConfigChanges | None]:
    """Show the changes, and return a list that will contain the result."""
    results: list[ConfigChanges | None] = []
    page = ConfigChangesScreen(ConfigChanges(config=HostConfig(), **changes), driver.host.running_calls.list)
    driver.app.push_screen(page, results.append)
    await driver.until(lambda: "Changes in the configuration files" in driver.text(), "the page")
    return results


async def test_what_runs_code_comes_first_with_its_command(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await review(
            driver,
            never_added=tuple(f"files/tool{number}" for number in range(9)),
            added=(ServerConfig(name="remote", url="https://mcp.example"), ServerConfig(name="git", command="uvx")),
            hooks_added=(hook("/bin/check", "all calls"),),
        )
        await driver.until(lambda: "new hook · /bin/check 'all calls'" in driver.text(), "the hook")
        shown = driver.text()
        assert shown.index("new hook") < shown.index("new server · uvx") < shown.index("https://mcp.example")


async def test_changes_are_not_applied_before_the_last_of_them_was_on_the_screen(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        results = await review(driver, never_added=tuple(f"files/tool{number}" for number in range(9)))
        await driver.until(lambda: "read to the end first: 3 more" in driver.text(), "what is left")
        assert "apply all: not yet" in driver.text()
        await driver.pilot.press("ctrl+s")
        assert not results
        await driver.pilot.press("ctrl+f", *"tool8", "enter", "ctrl+s")
        assert not results
        await driver.pilot.press("ctrl+f", *["backspace"] * 5, "enter", "end")
        await driver.until(lambda: "not yet" not in driver.text(), "the key")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: results, "the result")
        assert results[0] is not None


async def test_a_new_hook_is_not_applied_before_its_command_was_read_to_the_end(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        long = hook("/bin/check", "--long " * 300, "THE-END")
        results = await review(driver, hooks_added=(hook("/bin/first"), long))
        await driver.until(lambda: "read the details of 1 more first" in driver.text(), "what is left")
        await driver.pilot.press("down", "ctrl+s")
        await driver.until(lambda: driver.app.screen.query_one("#facts").can_focus, "the long command")
        await driver.pilot.press("ctrl+s")
        assert not results
        await driver.pilot.press("tab", "end")
        await driver.until(lambda: "THE-END" in driver.text() and "not yet" not in driver.text(), "the end")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: results, "the result")


async def test_ctrl_s_names_the_changes_whose_details_are_not_read_yet(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        results = await review(driver, hooks_added=tuple(hook(f"/check{number}") for number in range(5)))
        await driver.until(lambda: "read the details of 4 more first" in driver.text(), "what is left")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: driver.app._notifications, "the notice")
        (notice,) = driver.app._notifications
        assert notice.message == (
            "Nothing is applied yet. Select each of these and read its details: /check1, /check2, /check3 …"
        )
        assert not results
        await driver.pilot.press("down", "down", "down", "down", "ctrl+s")
        await driver.until(lambda: results, "the result")


async def test_secrets_in_arguments_and_urls_are_masked_in_the_changes(run: Run) -> None:
    old = ServerConfig(name="git", command="run", args=("--api-key", "sk-old-0123456789abcdef", "--fast"))
    new = replace(old, args=("--api-key", "sk-new-0123456789abcdef", "--fast"))
    other = replace(new, name="other")
    slower = replace(other, args=("--api-key", "sk-new-0123456789abcdef", "--slow"))
    remote = ServerConfig(name="remote", url="https://mcp.example/?token=tk-old-0123456789abcdef")
    moved = replace(remote, url="https://mcp.example/?token=tk-new-0123456789abcdef")
    async with run(size=(90, 40)) as driver:
        await review(
            driver, added=(replace(new, name="added"),), changed=((old, new), (other, slower), (remote, moved))
        )
        texts: list[str] = []
        for key in ("home", "down", "down", "down"):
            await driver.pilot.press(key)
            await driver.pilot.pause()
            texts.append(driver.text())
        shown = "\n".join(texts)
        assert "0123456789abcdef" not in shown
        assert "[hidden]" in shown
        assert "--api-key '[hidden]' --fast → --api-key '[hidden]' --slow" in shown
        assert re.search(r"args +changed\b", shown)
        assert re.search(r"url +changed\b", shown)


async def test_changes_that_are_closed_while_the_page_opens_leave_the_chat_as_it_was(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        changes = ConfigChanges(config=HostConfig(), never_added=("files/tool",), hooks_added=(hook("/bin/check"),))
        for steps in range(40):
            page = ConfigChangesScreen(changes)
            driver.app.push_screen(page)
            for _ in range(steps):
                await asyncio.sleep(0)
            if driver.app.screen is page:
                page.dismiss(None)
            await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.type("hello")
        await driver.until(lambda: "hello" in driver.text(), "what is typed")


async def test_a_changed_environment_file_is_named_with_its_variables(run: Run) -> None:
    old = ServerConfig(
        name="git", command="run", env_file="git.env", env_file_digest="a" * 64, env_file_names=("GONE", "TOKEN")
    )
    new = replace(old, env_file_digest="b" * 64, env_file_names=("NEW", "TOKEN"))
    values_only = replace(old, name="other", env_file_digest="c" * 64)
    async with run(size=(140, 30)) as driver:
        await review(driver, changed=((old, new), (replace(old, name="other"), values_only)))
        await driver.until(lambda: "git.env: changed; added: NEW; removed: GONE" in driver.text(), "the names")
        await driver.pilot.press("down")
        await driver.until(lambda: re.search(r"git\.env: changed(?!;)", driver.text()), "the other server")
        assert "aaaaaaaa" not in driver.text()


async def test_a_lower_limit_that_deletes_stored_results_is_marked(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await review(driver, settings=(SettingChange("results.days", 30, 1),))
        await driver.until(lambda: "30 → 1 · deletes the stored results above it" in driver.text(), "the mark")


async def test_a_new_folder_is_shown_to_its_end_before_it_is_applied(run: Run) -> None:
    path = f"/srv/{'long/' * 300}END"
    async with run(size=(80, 24)) as driver:
        changes = (SettingChange("roots", None, path), SettingChange("roots", "/a", None))
        results = await review(driver, settings=changes)
        await driver.until(lambda: "removed folder" in driver.text(), "the removed folder")
        await driver.until(lambda: "apply all: not yet" in driver.text(), "what is left")
        await driver.pilot.press("ctrl+s")
        assert not results
        await driver.pilot.press("home", "tab", "end")
        await driver.until(lambda: "END" in driver.text() and "not yet" not in driver.text(), "the end")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: results, "the result")


async def test_a_row_says_how_many_running_calls_end_with_the_change(run: Run) -> None:
    old = ServerConfig(name="git", command="run")
    async with run(size=(100, 30)) as driver:
        calls = driver.host.running_calls
        with calls.track("c1", "git", "index", "once"), calls.track("c2", "files", "index", "once"):
            results = await review(
                driver, changed=((old, replace(old, disabled=True)),), removed=("files",), never_added=("a/b",)
            )
            await driver.until(lambda: "git · 1 running call ends" in driver.text(), "the changed server")
            assert "files · 1 running call ends" in driver.text()
            with calls.track("c3", "git", "index", "once"):
                await driver.pilot.press("ctrl+s")
                await driver.until(lambda: "git · 2 running calls end" in driver.text(), "the new call")
                assert not results
                await driver.pilot.press("ctrl+s")
                await driver.until(lambda: results, "the result")


async def test_a_row_whose_details_are_still_to_be_read_is_marked(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        await review(driver, hooks_added=(hook("/bin/first"), hook("/bin/second")))
        await driver.until(lambda: driver.text().count("details not read yet") == 1, "the second hook")
        await driver.pilot.press("down")
        await driver.until(lambda: "details not read yet" not in driver.text(), "both read")


async def test_a_limit_of_zero_dollars_is_shown_as_no_limit(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        await review(driver, settings=(SettingChange("budget.per_conversation", 0, 0.01),))
        await driver.until(lambda: "no limit → 0.01" in driver.text(), "the change")


def test_one_changed_profile_is_named_in_the_singular() -> None:
    assert ConfigChanges(config=HostConfig(), profiles=("review",)).describe() == ("change the profile review",)
