"""Tests for changes to configuration files and profiles while the complete program runs."""

import sys
import tomllib

import pytest

from mcphost.errors import ConsentDenied
from mcphost.host import runtime_settings
from mcphost.tui.screens.help import HelpScreen
from mcphost.tui.screens.profiles import ProfilesScreen
from tests.fakes.clock import ManualClock
from tests.screens.conftest import AppDriver
from tests.screens.real_program import Files, composer_text
from tests.unit.host.setup_host import DEMO_ENTRY

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]


async def command(driver: AppDriver, text: str) -> None:
    await driver.type(text)
    await driver.pilot.press("enter")


async def test_a_server_that_another_program_adds_asks_for_its_approval_without_a_restart(files: Files) -> None:
    async with files.open(approved=False) as driver:
        files.write_servers(time=DEMO_ENTRY)
        await driver.until(lambda: "Use the server time?" in driver.text(), "the approval")
        await driver.enter_question()
        await driver.pilot.press("d")
        await driver.until(lambda: "add time" in driver.text(), "the notice")


async def test_a_file_of_servers_that_cannot_be_read_is_not_shown_as_an_empty_one(files: Files) -> None:
    (files.folder / "mcp.json").write_text('{"mcpServers": {oops}}')
    async with files.open((240, 40), approved=False) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "not valid JSON" in driver.text(), "the problem")
        assert "mcp.json, line 1" in driver.text()
        assert "No servers are configured" not in driver.text()
        await driver.pilot.press("escape")
        files.write_servers(time=DEMO_ENTRY)
        await driver.until(lambda: "Use the server time?" in driver.text(), "the approval")
        await driver.enter_question()
        await driver.pilot.press("d")
        await driver.pilot.press("f3")
        await driver.until(lambda: "configured in" in driver.text(), "the server")
        assert "not valid JSON" not in driver.text()


async def test_the_servers_page_shows_the_folder_that_a_server_runs_in(files: Files) -> None:
    (files.folder / "work").mkdir()
    files.write_servers(time={**DEMO_ENTRY, "cwd": "work"})
    async with files.open((240, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "runs in" in driver.text(), "the server")
        assert str(files.folder / "work") in driver.text()


async def test_changes_are_reported_reviewed_and_applied_together(files: Files) -> None:
    files.write_servers(time={"command": "/nowhere/a", "env": {"KEY": "secret-one"}}, gone={"command": "/nowhere/b"})
    async with files.open((120, 40)) as driver:
        files.write_servers(time={"command": "/nowhere/c", "env": {"KEY": "secret-two"}})
        files.write_settings('[consent]\nnever = ["fs/delete"]\n')
        await driver.until(lambda: "forbid fs/delete" in driver.text(), "the notice")
        assert driver.host.servers.find("time").config.command == "/nowhere/a"
        await command(driver, "/reload")
        await driver.until(lambda: "Changes in the configuration files" in driver.text(), "the page")
        shown = driver.text()
        for part in ("changed server", "removed server", "new never-rule", "/nowhere/a → /nowhere/c", "changed: KEY"):
            assert part in shown, part
        assert "secret-" not in shown
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Applied from" in driver.text(), "the notice")
        assert driver.host.servers.find("time").config.command == "/nowhere/c"
        assert [view.name for view in driver.host.servers.views()] == ["time"]
        await command(driver, "/reload")
        await driver.until(lambda: "Nothing changed in the configuration files." in driver.text(), "the answer")


async def test_a_server_added_while_another_change_waits_is_said_to_wait_for_it(files: Files) -> None:
    files.write_servers(time={"command": "/nowhere/a"})
    async with files.open((200, 40)) as driver:
        files.write_settings('[consent]\nnever = ["fs/delete"]\n')
        await driver.until(lambda: "forbid fs/delete" in driver.transcript(), "the notice")
        assert "New servers wait" not in driver.transcript()
        files.write_servers(time={"command": "/nowhere/a"}, clock={"command": "/nowhere/b"})
        await driver.until(lambda: "add clock" in driver.transcript(), "the newer notice")
        hint = "New servers wait until you apply the other changes. Review and apply all with /reload."
        assert hint in " ".join(driver.transcript().split())
        await command(driver, "/reload")
        await driver.until(lambda: "new server" in driver.text(), "the page")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Applied from" in driver.transcript(), "the notice")
        assert [view.name for view in driver.host.servers.views()] == ["time", "clock"]


async def test_a_hook_runs_from_the_next_call_after_it_was_reviewed_and_until_its_removal_is(files: Files) -> None:
    files.write_servers(demo=DEMO_ENTRY)
    async with files.open((120, 40)) as driver:
        host = driver.host

        async def call() -> str:
            return (await host.tools.call("demo", "add", {"a": 1, "b": 2})).text

        async def review(change: str) -> None:
            await driver.until(lambda: change in driver.text(), "the notice")
            await command(driver, "/reload")
            await driver.until(lambda: "Changes in the configuration files" in driver.text(), "the page")

        assert "3" in await call()
        program = files.folder / "deny.py"
        program.write_text("import sys\nsys.exit('not today')\n")
        files.write_settings(f'[[hooks]]\nevent = "before_call"\ncommand = [{sys.executable!r}, {str(program)!r}]\n')
        await review("run the hook")
        assert "new hook" in driver.text()
        assert "before_call" in driver.text()
        assert "3" in await call()  # nothing is applied yet
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Applied from" in driver.text(), "the notice")
        with pytest.raises(ConsentDenied):
            await call()
        files.write_settings("")
        await review("no longer run the hook")
        assert "removed hook" in driver.text()
        with pytest.raises(ConsentDenied):
            await call()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: driver.text().count("Applied from") == 2, "the notice")
        assert "3" in await call()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_raised_limit_counts_only_after_the_page_has_shown_it(files: Files, size: tuple[int, int]) -> None:
    files.write_settings("[budget]\nper_day = 1\n")
    async with files.open(size) as driver:
        files.write_settings("[budget]\nper_day = 5\nshow_in_answers = false\n[notifications]\nmode = 'off'\n")
        await driver.until(lambda: "budget.per_day = 5" in driver.text(), "the notice")
        await command(driver, "/reload")
        await driver.until(lambda: "1 → 5 · allows more" in driver.text(), "the page")
        assert driver.host.settings.budget.per_day == 1
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Applied from" in driver.text(), "the notice")
        assert (driver.host.settings.budget.per_day, driver.host.settings.notifications.mode) == (5, "off")


async def test_what_counts_only_after_a_restart_is_named_with_the_reason_and_reviewed(files: Files) -> None:
    reasons = {name: runtime_settings.AFTER_RESTART[name] for name in ("screen.language", "secrets.store")}
    async with files.open((120, 40)) as driver:

        def told() -> str:
            return " ".join(driver.transcript().split())

        files.write_settings("[budget]\nper_day = 5\n[screen]\nlanguage = 'zh-CN'\n[secrets]\nstore = 'file'\n")
        await driver.until(lambda: "budget.per_day = 5" in told(), "the notice")
        after = f"After a restart: screen.language = zh-CN, secrets.store = file. {' '.join(reasons.values())}"
        assert after in told()
        await command(driver, "/reload")
        await driver.until(lambda: "auto → zh-CN · after a restart" in driver.text(), "the page")
        await driver.pilot.press("end")
        await driver.until(lambda: reasons["secrets.store"][:40] in driver.text(), "the reason")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: f"budget.per_day = 5. {after}" in told(), "what was applied")
        assert (driver.host.settings.budget.per_day, driver.host.settings.screen.language) == (5, "auto")
        files.write_settings("[budget]\nper_day = 5\n[screen]\nlanguage = 'en'\n")  # no other store than at the start
        await driver.until(lambda: "After a restart: screen.language = en." in told(), "the notice")


async def test_a_newer_notice_replaces_the_older_one_and_none_remains_once_the_files_are_as_before(
    files: Files,
) -> None:
    files.write_servers(time={"command": "/nowhere/a"})
    async with files.open((120, 40)) as driver:
        for number in (1, 2):
            files.write_settings(f'[consent]\nnever = ["fs/delete{number}"]\n')
            await driver.until(lambda shown=f"forbid fs/delete{number}": shown in driver.transcript(), "the notice")
        assert driver.transcript().count("The configuration files changed") == 1
        files.write_settings("[consent]\nnever = 3\n")
        await driver.until(lambda: "configuration is not used" in driver.transcript(), "the error")
        assert "The configuration files changed" not in driver.transcript()
        await command(driver, "/reload")
        await driver.until(lambda: "configuration is not used" not in driver.transcript(), "the error as it is now")
        assert driver.transcript().count('"consent.never"') == 1
        files.write_settings("[consent]\nnever = 4\n")
        await driver.until(lambda: "configuration is not used" in driver.transcript(), "the next error")
        assert driver.transcript().count('"consent.never"') == 1
        files.write_settings("")
        await driver.until(lambda: "configuration is not used" not in driver.transcript(), "its end")
        files.write_settings('[consent]\nnever = ["fs/delete3"]\n')
        await driver.until(lambda: "forbid fs/delete3" in driver.transcript(), "the notice")
        await command(driver, "/reload")
        await driver.until(lambda: "Changes in the configuration files" in driver.text(), "the page")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Applied from" in driver.transcript(), "the notice")
        assert "The configuration files changed" not in driver.transcript()


async def test_leaving_the_page_applies_nothing(files: Files) -> None:
    files.write_servers(time={"command": "/nowhere/a"})
    async with files.open() as driver:
        files.write_servers()
        await command(driver, "/reload")
        await driver.until(lambda: "removed server" in driver.text(), "the page")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        assert driver.host.servers.find("time")


async def test_a_file_with_an_error_is_reported_and_nothing_changes(files: Files) -> None:
    files.write_servers(time={"command": "/nowhere/a"})
    async with files.open((200, 40)) as driver:
        (files.folder / "mcp.json").write_text("{")
        await driver.until(lambda: "mcp.json" in driver.text() and "JSON" in driver.text(), "the notice")
        assert driver.host.servers.find("time")
        files.write_settings("[consent]\nnever = 3\n")
        await driver.until(lambda: "configuration is not used" in driver.text(), "the notice")


async def test_a_profile_is_chosen_from_the_list(files: Files) -> None:
    files.write_servers(time={"command": "/nowhere/a"}, git={"command": "/nowhere/b"})
    files.write_settings(
        '[profiles.review]\ndescription = "Careful"\nservers = ["git"]\nsystem_prompt = "Be strict."\n'
    )
    async with files.open() as driver:
        await command(driver, "/profile")
        await driver.until(lambda: "Careful · servers: git" in driver.text(), "the page")
        assert "Be strict." in driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: "Using the profile review" in driver.text(), "the notice")
        assert driver.host.servers.view("time").state == "disabled"
        await driver.until(lambda: " · review" in driver.text().split("\n")[0], "the profile in the top line")
        await command(driver, "/profile")
        await driver.until(lambda: "no profile" in driver.text(), "the page")
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: "Using no profile" in driver.text(), "the notice")
        await driver.until(lambda: "review" not in driver.text().split("\n")[0], "the top line without it")
        assert driver.host.servers.view("time").state != "disabled"


async def test_a_new_profile_with_an_unknown_server_is_saved_only_after_a_warning(files: Files) -> None:
    files.write_servers(git={"command": "/nowhere/b"})
    async with files.open() as driver:
        await command(driver, "/profile")
        await driver.until(lambda: "No profiles yet" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "If no server is named, all that are enabled are used." in driver.text(), "the form")
        await driver.pilot.press(*"mine", "tab", "tab", "end", *", nosuch", "ctrl+s")
        await driver.until(lambda: "There is no server named nosuch." in driver.text(), "the warning")
        assert not (files.folder / "config.toml").exists()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Using the profile mine" in driver.text(), "the notice")
    assert 'servers = ["git", "nosuch"]' in (files.folder / "config.toml").read_text()


async def test_a_profile_is_chosen_by_its_name_after_the_command(files: Files) -> None:
    files.write_servers(time={"command": "/nowhere/a"}, git={"command": "/nowhere/b"})
    files.write_settings('[profiles.review]\nservers = ["git"]\n')
    async with files.open() as driver:
        await command(driver, "/profile reviwe")
        await driver.until(lambda: driver.has_notified('There is no profile "reviwe". Similar: review.'), "the error")
        driver.app.chat.composer_input.text = ""
        await command(driver, "/profile review")
        await driver.until(lambda: "Using the profile review" in driver.text(), "the notice")
        assert driver.host.servers.view("time").state == "disabled"
        await command(driver, "/profile none")
        await driver.until(lambda: "Using no profile" in driver.text(), "the notice")
        assert driver.host.servers.view("time").state != "disabled"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_is_in_use_is_saved_as_a_profile_and_used(files: Files, size: tuple[int, int]) -> None:
    files.write_servers(time={"command": "/nowhere/a"}, git={"command": "/nowhere/b"})
    files.write_settings("# mine\n[profiles.old]\nservers = []\n")
    async with files.open(size) as driver:
        await command(driver, "/profile")
        await driver.until(lambda: "n save as new" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "model: demo" in driver.text() and "time, git" in driver.text(), "the form")
        assert str(driver.app.screen.query("#buttons Button").first().label) == "Back"
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "needs a name" in driver.text(), "the demand")
        await driver.pilot.press(*"old", "ctrl+s")
        await driver.until(lambda: "already a profile 'old'" in driver.text(), "the refusal")
        await driver.pilot.press(*"er", "tab", "tab", "end", *("backspace",) * 5, "tab", *"Be strict.", "ctrl+s")
        await driver.until(lambda: "Using the profile older" in driver.text(), "the notice")
        assert driver.host.servers.view("git").state == "disabled"
        assert driver.host.model_selection.system_prompt == "Be strict."
    text = (files.folder / "config.toml").read_text()
    saved = {"model": {"name": "demo"}, "system_prompt": "Be strict.", "servers": ["time"]}
    assert tomllib.loads(text)["profiles"] == {"old": {"servers": []}, "older": saved}
    assert text.startswith("# mine")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_profile_is_edited_and_removed_on_the_page(files: Files, size: tuple[int, int]) -> None:
    files.write_servers(time={"command": "/nowhere/a"}, git={"command": "/nowhere/b"})
    files.write_settings('# mine\n[profiles.quick]\n[profiles.review]\nservers = ["git"]\nsystem_prompt = "Old."\n')
    file = files.folder / "config.toml"
    async with files.open(size) as driver:
        await command(driver, "/profile review")
        await driver.until(lambda: "Using the profile review" in driver.text(), "the profile in use")
        await command(driver, "/profile")
        await driver.until(lambda: "x remove" in driver.text(), "the page")
        await driver.pilot.press("down", "e")
        await driver.until(lambda: "Edit the profile review" in driver.text() and "Old." in driver.text(), "the form")
        await driver.pilot.press(*"Careful", "tab", "end", *", time", "ctrl+s")
        await driver.until(lambda: driver.has_notified("Saved the profile review in"), "the notice")
        assert driver.host.servers.view("time").state != "disabled"
        assert driver.host.settings.profile == "review"
        review = tomllib.loads(file.read_text())["profiles"]["review"]
        assert review == {"servers": ["git", "time"], "system_prompt": "Old.", "description": "Careful"}
        await driver.until(lambda: "x remove" in driver.text() and "Careful" in driver.text(), "the page again")
        await driver.pilot.press("x")  # the cursor is on the saved profile
        await driver.until(lambda: "Press x again to remove it" in driver.text(), "the question")
        assert "review" in file.read_text()
        await driver.pilot.press("x")
        await driver.until(lambda: driver.has_notified("Removed the profile review from"), "the notice")
        assert (driver.host.settings.profile, driver.host.model_selection.system_prompt) == ("", "")
    assert file.read_text() == "# mine\n[profiles.quick]\n"


async def test_a_key_that_is_held_down_removes_no_second_profile(files: Files) -> None:
    files.write_settings("[profiles.a]\n[profiles.b]\n[profiles.c]\n")
    async with files.open() as driver:
        await command(driver, "/profile")
        await driver.until(lambda: "x remove" in driver.text(), "the page")
        await driver.pilot.press("down", "x", "x")
        await driver.until(lambda: driver.has_notified("Removed the profile b from"), "the notice")
        await driver.until(lambda: "x remove" in driver.text(), "the page again")
        await driver.pilot.press("x", "x", "x")
        assert "again to remove it" not in driver.text()
        assert isinstance(driver.app.screen, ProfilesScreen)
    assert list(tomllib.loads((files.folder / "config.toml").read_text())["profiles"]) == ["a", "c"]


async def test_enter_that_is_held_down_since_a_profile_was_saved_does_not_use_it(
    files: Files, clock: ManualClock
) -> None:
    files.write_settings("[profiles.a]\n[profiles.b]\n")
    async with files.open() as driver:
        await command(driver, "/profile")
        await driver.until(lambda: "x remove" in driver.text(), "the page")
        await driver.pilot.press("down", "e")
        await driver.until(lambda: "Edit the profile b" in driver.text(), "the form")
        await driver.pilot.press("x", "ctrl+s")
        await driver.until(lambda: driver.has_notified("Saved the profile b in"), "the notice")
        await driver.until(lambda: "x remove" in driver.text(), "the page again")
        await driver.pilot.press("enter", "enter")
        assert isinstance(driver.app.screen, ProfilesScreen)
        clock.now += 1
        await driver.pilot.press("enter")
        await driver.until(lambda: "Using the profile b" in driver.text(), "the profile in use")


async def test_what_is_not_edited_in_a_profile_stays_as_it_is(files: Files) -> None:
    files.write_servers(git={"command": "/nowhere/b"})
    kept = 'servers = []\nsystem_prompt = ""\n\n[profiles.text]\nsystem_prompt = """\nLine 1\nLine 2\n"""\n'
    files.write_settings(f'[profiles.none]\ndescription = "a"\n{kept}')
    file = files.folder / "config.toml"
    async with files.open() as driver:
        await command(driver, "/profile")
        await driver.until(lambda: "x remove" in driver.text(), "the page")
        await driver.pilot.press("e")
        await driver.until(lambda: "Edit the profile none" in driver.text(), "the form")
        assert "all that are enabled" not in driver.text()
        await driver.pilot.press("end", "b", "ctrl+s")
        await driver.until(lambda: driver.has_notified("Saved the profile none in"), "the notice")
        assert file.read_text() == f'[profiles.none]\ndescription = "ab"\n{kept}'
        await driver.until(lambda: "x remove" in driver.text(), "the page again")
        await driver.pilot.press("down", "e")
        await driver.until(lambda: "Edit the profile text" in driver.text(), "the form")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: driver.has_notified("Saved the profile text in"), "the notice")
    assert file.read_text() == f'[profiles.none]\ndescription = "ab"\n{kept}'


async def test_a_profile_that_is_not_in_use_is_changed_without_a_switch(files: Files) -> None:
    files.write_servers(git={"command": "/nowhere/b"})
    files.write_settings("[profiles.quick]\n[profiles.review]\nservers = []\n")
    async with files.open() as driver:
        await command(driver, "/profile quick")
        await driver.until(lambda: "Using the profile quick" in driver.text(), "the profile in use")
        await command(driver, "/profile")
        await driver.until(lambda: "x remove" in driver.text(), "the page")
        await driver.pilot.press("down", "x", "x")
        await driver.until(lambda: driver.has_notified("Removed the profile review from"), "the notice")
        assert driver.host.settings.profile == "quick"
    assert tomllib.loads((files.folder / "config.toml").read_text()) == {"profiles": {"quick": {}}}


async def test_without_profiles_the_page_shows_how_to_write_one(files: Files) -> None:
    async with files.open() as driver:
        await command(driver, "/profile")
        await driver.until(lambda: "[profiles.review]" in driver.text(), "the example")


async def test_settings_that_cannot_be_read_are_the_reason_shown_for_a_missing_model(files: Files) -> None:
    def words_of(driver: AppDriver) -> str:
        return " ".join(driver.transcript().split())

    files.write_settings('[model\nname = "demo"\n')
    async with files.open((240, 40), approved=False, model="") as driver:
        await driver.until(lambda: "config.toml: not valid TOML" in words_of(driver), "the problem")
        assert driver.host.setup is not None
        assert not driver.host.setup.is_first_run, "the setup screen must not hide the problem"
        assert words_of(driver).count("not valid TOML") == 1
        await command(driver, "hi")
        await driver.until(lambda: "model set there is not used" in words_of(driver), "the reason once more")
        assert words_of(driver).count("not valid TOML") == 2
        assert "Choose a model to start chatting" not in words_of(driver)


async def test_mistakes_in_a_changed_file_are_still_reported_after_the_change_was_applied(files: Files) -> None:
    files.write_settings("")
    async with files.open((120, 40)) as driver:
        files.write_settings("[limits]\nmax_rounds = 30\nfoo = 1\n")
        await driver.until(lambda: '"limits.foo" is unknown' in driver.transcript(), "the mistake")
        await command(driver, "/reload")
        await driver.until(lambda: "25 → 30" in driver.text(), "the page")
        await driver.until(lambda: "not yet" not in driver.text(), "that it was read")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Applied from the configuration files" in driver.transcript(), "the notice")
        assert driver.transcript().count('"limits.foo" is unknown') == 1


async def test_changed_keys_work_and_are_shown_once_they_are_applied(files: Files) -> None:
    files.write_settings("[keys]\nhelp = 'ctrl+k'\n")
    async with files.open((120, 40)) as driver:
        driver.app.use_keys(driver.host.config.keys)  # as the program does before its first frame
        await driver.until(lambda: "ctrl+k help" in driver.text(), "the key")
        files.write_settings("[keys]\nhelp = 'ctrl+e'\nservers-tools = 'z'\n")
        await driver.until(
            lambda: "keys.help = [ctrl+e], keys.servers-tools = [z]" in driver.transcript(), "the notice"
        )
        await command(driver, "/reload")
        await driver.until(lambda: "default → [z]" in driver.text(), "the page")
        assert "[ctrl+k] → [ctrl+e]" in driver.text()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "ctrl+e help" in driver.text(), "the key")
        await driver.type("draft")
        await driver.pilot.press("ctrl+k")
        assert driver.app.screen is driver.app.chat
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: isinstance(driver.app.screen, HelpScreen), "the help")
        assert "z" in driver.app.key_table.keys_of("servers-tools")
        await driver.pilot.press("escape")
        files.write_settings("")
        await driver.until(lambda: "keys.help = default" in driver.transcript(), "the notice")
        await driver.pilot.press("ctrl+u")
        await command(driver, "/reload")
        await driver.until(lambda: "[ctrl+e] → default" in driver.text(), "the page")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "F1 help" in driver.text(), "the key")
        await driver.type("draft")
        await driver.pilot.press("home", "ctrl+e", "x")  # moves the cursor again
        assert composer_text(driver) == "draftx"
