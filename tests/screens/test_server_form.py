"""Tests for changing servers on the servers page: the form, disabling, removal with a confirming key, and undo."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from textual.widgets import Input, TextArea

from mcphost.config.typed_servers import parse_entry
from mcphost.errors import ConfigError
from mcphost.host.servers.server_data import ServerData
from mcphost.serialization import replace
from mcphost.tui.key_table import build_key_table
from mcphost.tui.screens.server_form import ServerForm
from mcphost.tui.screens.servers import ServersScreen
from tests.fakes.clock import ManualClock
from tests.screens.conftest import AppDriver, Run
from tests.screens.example_records import example_accounts
from tests.screens.fake_host import sample_server
from tests.screens.rendering import wait_settled

pytestmark = pytest.mark.anyio


class FakeEditor:
    """A fake server editor that records changes; a server named "bad" cannot be saved."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, ...]] = []
        self.folders: list[str] = []
        self.entry: dict[str, Any] = {}
        self.data = ServerData()
        self.other_files: tuple[str, ...] = ()

    @property
    def can_undo(self) -> bool:
        return bool(self.changes)

    async def read_entry(self, name: str) -> dict[str, Any]:
        return self.entry or {"command": name}

    def list_files(self) -> dict[str, Path]:
        return {"user": Path("/home/me/mcp.json"), "local": Path("/home/me/local.json"), "project": Path(".mcp.json")}

    async def find_other_files(self, name: str) -> tuple[str, ...]:
        return self.other_files

    async def add(self, entries: Mapping[str, dict[str, Any]], scope: str) -> list[Any]:
        self.changes.append(("add", *entries, scope))
        self.folders += [entry["cwd"] for entry in entries.values() if "cwd" in entry]
        edit = SimpleNamespace(file=SimpleNamespace(path="/home/me/mcp.json"))
        return [
            SimpleNamespace(
                edit=SimpleNamespace(name=name, file=edit.file), server=None,
                notes=[f"{name} has a note."] if "mcphost" in entry else [],
            )
            for name, entry in entries.items()
        ]  # fmt: skip

    async def change(self, name: str, entry: dict[str, Any], *, expected: Mapping[str, Any]) -> Any:
        if expected != await self.read_entry(name):
            raise ConfigError("The entry was changed meanwhile.", "Edit it again.")
        if entry.get("command") == "bad":
            raise ConfigError("The entry cannot be saved.", "Correct it.")
        self.changes.append(("change", name, entry["command"]))
        edit = SimpleNamespace(name=name, file=SimpleNamespace(path="/home/me/mcp.json"))
        return SimpleNamespace(edit=edit, notes=())

    async def set_disabled(self, name: str, *, disabled: bool) -> None:
        self.changes.append(("disable" if disabled else "enable", name))

    async def find_deletable(self, name: str) -> ServerData:
        return self.data

    async def remove(self, name: str, *, forgets: bool = False) -> None:
        self.changes.append(("remove with data" if forgets else "remove", name))

    async def undo(self) -> None:
        self.changes.append(("undo",))


def create_setup(editor: FakeEditor) -> Any:
    return SimpleNamespace(is_first_run=False, server_editor=editor)


def notices(driver: AppDriver) -> str:
    return " ".join(notification.message for notification in driver.app._notifications)


async def test_a_server_is_added_from_a_command_line(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(80, 24), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Type a command, a URL or JSON first." in driver.text(), "the refusal")
        await driver.pilot.press(*"uvx mcp-server-time", "ctrl+s")
        await driver.until(lambda: editor.changes, "the change")
        assert editor.changes == [("add", "time", "user")]
        await driver.until(lambda: "Added time to /home/me/mcp.json. Press u to undo." in notices(driver), "the notice")


async def test_the_form_and_the_removal_name_the_other_file_with_an_entry_of_the_name(run: Run) -> None:
    editor = FakeEditor()
    editor.other_files = ("/home/me/elsewhere.json",)
    told = "Another entry of this name, in /home/me/elsewhere.json, stays as it is."
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("e")
        await driver.until(lambda: "its file" in driver.text(), "the form")
        assert told in driver.text()
        await driver.pilot.press("escape", "x")
        await driver.until(lambda: "again to remove" in notices(driver), "the explanation")
        assert told in notices(driver)


async def test_what_was_left_out_of_a_pasted_entry_is_in_the_notice(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        await driver.pilot.press(*'"time": {"command": "x", "mcphost": {"trustAnnotations": true}}', "ctrl+s")
        await driver.until(lambda: "Press u to undo. time has a note." in notices(driver), "the notice")


async def test_probable_mistakes_are_shown_before_a_second_press_saves_them(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        await driver.pilot.press(*"uvx mcp-server-time | tee log", "ctrl+s")
        await driver.until(lambda: "Press Ctrl+S again" in driver.text(), "the warning")
        assert "The command runs without a shell, so the program gets | as part of its arguments." in driver.text()
        assert editor.changes == []
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: editor.changes == [("add", "time", "user")], "the change")
        await driver.pilot.press("e")
        await driver.until(lambda: '"command": ' in driver.text(), "the entry")
        text = driver.app.screen.query_one("#text", TextArea)
        text.text = '{"command": "x", "mcphost": {"wach": true}}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: 'did you mean "mcphost.watch"?' in driver.text(), "the warning about a key")
        text.text = '{"command": "x", "mcphost": {"watch": true}}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: len(editor.changes) == 2, "the corrected entry")


async def test_a_held_key_opens_one_form_however_slow_the_file_is_read(run: Run) -> None:
    readable = anyio.Event()

    class SlowEditor(FakeEditor):
        async def read_entry(self, name: str) -> dict[str, Any]:
            await readable.wait()
            return await super().read_entry(name)

    async with run(size=(120, 40), setup=create_setup(SlowEditor())) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press(*"eeee")
        readable.set()
        await driver.until(lambda: '"command": ' in driver.text(), "the entry")
        await wait_settled()
        assert [type(screen) for screen in driver.app.screen_stack].count(ServerForm) == 1


async def test_a_new_server_is_selected(run: Run) -> None:
    class AddingEditor(FakeEditor):
        async def add(self, entries: Mapping[str, dict[str, Any]], scope: str) -> list[Any]:
            driver.host.views = (*driver.host.views, *(sample_server(name) for name in entries))
            return await super().add(entries, scope)

    async with run(size=(120, 40), setup=create_setup(AddingEditor())) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        await driver.pilot.press(*"falsy -- /bin/false", "ctrl+s")
        await driver.until(lambda: isinstance(driver.app.screen, ServersScreen), "the page again")
        page = driver.app.screen
        assert isinstance(page, ServersScreen)
        await driver.until(lambda: (row := page.current_row()) is not None and row.value == "falsy", "the new row")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_scope_of_a_new_server_is_chosen_and_its_file_shown(run: Run, size: tuple[int, int]) -> None:
    editor = FakeEditor()
    async with run(size=size, setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "for you, in every folder: /home/me/mcp.json" in driver.text(), "the usual file")
        await driver.pilot.press("ctrl+o")
        await driver.until(lambda: "for you, in this folder only: /home/me/local.json" in driver.text(), "the next")
        await driver.pilot.press("ctrl+o", *"uvx a", "ctrl+s")
        await driver.until(lambda: editor.changes == [("add", "a", "project")], "the change")
        await driver.until(lambda: "servers trust .mcp.json" in notices(driver), "what is left to do")


async def test_the_scope_in_a_pasted_command_chooses_the_file_which_a_second_press_confirms(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(80, 24), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        await driver.pilot.press(*"claude mcp add -s project a -- uvx a", "ctrl+s")
        await driver.until(lambda: "for everyone who has this folder: .mcp.json" in driver.text(), "the chosen file")
        assert "The command has --scope project" in driver.text()
        assert editor.changes == []
        await driver.pilot.press("ctrl+o", "ctrl+s")
        await driver.until(lambda: editor.changes == [("add", "a", "user")], "the user's own choice")


async def test_an_entry_is_edited_and_a_wrong_one_keeps_the_text(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("e")
        await driver.until(lambda: '"command": ' in driver.text(), "the entry")
        driver.app.screen.query_one("#text", TextArea).text = '{"command": "bad"}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "The entry cannot be saved. Correct it." in driver.text(), "the refusal")
        assert '{"command": "bad"}' in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: "Press Esc again to discard them." in driver.text(), "the question")
        assert '{"command": "bad"}' in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: "The entry cannot be saved." not in driver.text(), "the page")
        assert editor.changes == []


async def test_an_entry_that_changed_while_the_form_was_open_is_not_overwritten(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("e")
        await driver.until(lambda: '"command": ' in driver.text(), "the entry")
        editor.entry = {"command": "of another program"}
        driver.app.screen.query_one("#text", TextArea).text = '{"command": "mine"}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "The entry was changed meanwhile." in driver.text(), "the refusal")
        assert '{"command": "mine"}' in driver.text()
        assert editor.changes == []


async def test_escape_that_is_held_down_keeps_changed_text_and_the_cancel_button_discards_it(
    run: Run, clock: ManualClock
) -> None:
    editor = FakeEditor()
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        await driver.pilot.press("escape")
        await driver.until(lambda: "Add a server" not in driver.text(), "the page, because nothing was typed")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        assert str(driver.app.screen.query("#buttons Button").first().label) == "Back"
        await driver.pilot.press(*"uvx a")
        for _ in range(10):
            await driver.pilot.press("escape")
            clock.now += 0.03
        assert "Press Esc again to discard them." in driver.text()
        assert "uvx a" in driver.text()
        await driver.pilot.click("#leave")
        await driver.until(lambda: "Add a server" not in driver.text(), "the page")
        assert editor.changes == []


async def test_an_error_in_an_edited_entry_speaks_of_no_file() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_entry('{"command": }', "files")
    assert caught.value.hint == "Correct it there."


async def test_a_server_is_disabled_with_one_key_and_removed_with_two(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("d")
        await driver.until(lambda: len(editor.changes) == 1, "the change")
        name = editor.changes[0][1]
        assert editor.changes == [("disable", name)]
        await driver.pilot.press("x")
        await driver.until(lambda: f"Press x again to remove {name}" in notices(driver), "the hint")
        assert len(editor.changes) == 1
        await driver.pilot.press("x")
        await driver.until(lambda: len(editor.changes) == 2, "the removal")
        await driver.pilot.press("u")
        await driver.until(lambda: len(editor.changes) == 3, "the undo")
        assert editor.changes[1:] == [("remove", name), ("undo",)]


async def test_the_notice_of_a_change_is_removed_when_it_is_undone_and_when_the_page_is_left(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("d")
        await driver.until(lambda: "Press u to undo." in notices(driver), "the notice")
        await driver.pilot.press("u")
        await driver.until(lambda: "The change was undone." in notices(driver), "the undo")
        assert "Press u to undo." not in notices(driver)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.until(lambda: not notices(driver), "no notice of the page")


async def test_removal_says_what_is_kept_and_another_key_deletes_it_too(run: Run) -> None:
    editor = FakeEditor()
    editor.data = ServerData(secrets=("files-token",), bundle=Path("/data/bundles/files"))
    async with run(size=(120, 40), setup=create_setup(editor)) as driver:
        name = driver.host.servers.views()[0].name
        account = example_accounts()[0]
        driver.host.accounts.kept = [replace(account, servers=(name,)), replace(account, servers=(name, "other"))]
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("x")
        kept = "Kept: its stored secrets, its unpacked bundle, its sign-ins. Press X to delete these as well."
        await driver.until(lambda: kept in notices(driver), "what is kept")
        assert editor.changes == []
        await driver.pilot.press("X")
        await driver.until(lambda: editor.changes, "the removal")
        assert editor.changes == [("remove with data", name)]
        assert [account.servers for account in driver.host.accounts.kept] == [(name, "other")]
        await driver.until(lambda: "undo does not sign you in again" in notices(driver), "the notice")


async def test_the_demo_has_nothing_to_change(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "p stop" in driver.text(), "the page")
        assert "n add" not in driver.text()
        await driver.pilot.press("n", "e", "d", "x", "u")
        await driver.until(lambda: "The demo has only its own server." in notices(driver), "the hint")


async def test_every_key_of_the_page_is_shown_in_a_small_terminal_and_undo_after_a_change(run: Run) -> None:
    async with run(size=(80, 24), setup=create_setup(FakeEditor())) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        for words in ("t tools", "p stop", "e edit", "d disable", "x remove", "tab read", "ctrl+f search", "esc back"):
            assert words in driver.text(), words
        assert "u undo" not in driver.text()
        await driver.pilot.press("d")
        await driver.until(lambda: "u undo" in driver.text(), "the key")


async def test_disabling_a_server_with_a_running_call_takes_a_second_press_and_then_offers_to_enable(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(140, 40), setup=create_setup(editor)) as driver:
        with driver.host.running_calls.track("c1", "files", "index_files", "once"):
            await driver.pilot.press("f3")
            await driver.until(lambda: "d disable" in driver.text(), "the page")
            await driver.pilot.press("d")
            await driver.until(lambda: "index_files is running. Press d again" in notices(driver), "the question")
            assert editor.changes == []
            await driver.pilot.press("d")
            await driver.until(lambda: editor.changes == [("disable", "files")], "the change")
        view = sample_server("files", "disabled")
        driver.host.views = (replace(view, config=replace(view.config, disabled=True)),)
        driver.app.screen.reload()
        await driver.until(lambda: "d enable" in driver.text(), "the other key")


@pytest.mark.parametrize(
    ("action", "pressed", "expected"),
    [
        ("servers-undo", "d", " is disabled. Press { to undo."),
        ("servers-remove", "left_curly_bracket", "Press { again to remove "),
        ("servers-remove-with-data", "left_curly_bracket", "Press x again to remove "),
        ("servers-sign-out", "left_curly_bracket", "Press { again to sign out of "),
    ],
)
async def test_a_brace_as_the_key_of_a_server_action_works_and_is_shown(
    run: Run, action: str, pressed: str, expected: str
) -> None:
    table, _problems = build_key_table({action: ["{"]})
    editor = FakeEditor()
    editor.data = ServerData(secrets=("keyring:files/token",))
    async with run(keys=table, setup=create_setup(editor), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press(pressed)
        await driver.until(lambda: driver.has_notified(expected), expected)


async def test_the_folder_of_a_command_that_names_a_file_in_this_folder_is_filled_in(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = FakeEditor()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text("")
    async with run(size=(80, 24), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "n add" in driver.text(), "the page")
        await driver.pilot.press("n")
        await driver.until(lambda: "Add a server" in driver.text(), "the form")
        await driver.pilot.press(*"python3 shop.py", "ctrl+s")
        await driver.until(lambda: "shop.py is in this folder" in driver.text(), "the notice")
        assert driver.app.screen.query_one("#folder", Input).value == str(tmp_path)
        assert editor.changes == []
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: editor.changes == [("add", "shop", "user")], "the server")
        assert editor.folders == [str(tmp_path)]


async def test_an_entry_that_is_saved_unchanged_is_not_reported_as_changed(run: Run) -> None:
    editor = FakeEditor()
    async with run(size=(80, 24), setup=create_setup(editor)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "e edit" in driver.text(), "the page")
        await driver.pilot.press("e")
        await driver.until(lambda: isinstance(driver.app.screen, ServerForm), "the form")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: isinstance(driver.app.screen, ServersScreen), "the servers")
        await driver.until(lambda: "Nothing was changed." in notices(driver), "the notice")
        assert editor.changes == []
