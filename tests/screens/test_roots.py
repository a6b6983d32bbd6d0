"""Tests for the page of shared folders: entries, their origin, and add, rename, remove and undo by keyboard."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList

from mcphost.config.schema import RootConfig
from mcphost.host.events import RootsShared
from mcphost.host.questions.questions import (
    DoNotShare,
    NeverShare,
    RequestingServer,
    ShareAlways,
    ShareOnce,
    SharePerServer,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests.root_folders import KnownRoots, file_uri
from mcphost.host.server_requests.roots import Roots, complete_path
from mcphost.protocol.server_requests import Root
from mcphost.serialization import replace
from mcphost.store.database import Database
from mcphost.store.roots import FolderEditStore
from tests.screens.ask_question import PendingQuestion, ask_and_press
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.fixture
def work_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create folders whose paths are short enough for one line of any screen; yield the working directory."""
    with tempfile.TemporaryDirectory(prefix="f-") as folder:
        yield create_folders(Path(folder).resolve(), monkeypatch)
        monkeypatch.undo()


def create_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("proj/src", "proj/.hidden", "proj/spare", "notes", "[bold]"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "proj")
    monkeypatch.setenv("HOME", str(tmp_path / "notes"))
    return tmp_path / "proj"


def roots_of(driver: Any, work: Path) -> Roots:
    gone = RootConfig(f"{work}/lost\x1b[2J", "odd\u202e")
    driver.host.roots = Roots((RootConfig(str(work), "proj", "started"), RootConfig(f"{work.parent}/[bold]"), gone))
    return driver.host.roots


@pytest.mark.req("roots.consent")
@pytest.mark.req("roots.monitor")
async def test_the_page_shows_the_origin_of_each_folder_and_the_servers_that_know_it(
    run: Run, work_folder: Path
) -> None:
    async with run(size=(120, 40)) as driver:
        roots_of(driver, work_folder)
        told = KnownRoots((Root(file_uri(work_folder)),), is_approved=True)
        driver.host.views = (
            replace(driver.host.views[0], known_roots=told),
            replace(driver.host.views[1], known_roots=KnownRoots(is_refused=True)),
        )
        await driver.pilot.press("f3")
        await driver.until(lambda: "received 1 folder; updated without" in driver.text(), "the servers' page says it")
        assert "asking for folders is deprecated" in " ".join(driver.text().split())
        await driver.pilot.press("f")
        await driver.until(lambda: "files: knows it" in driver.text(), "the folder of the start")
        for words in ("where mcphost was started", str(work_folder), "github: you refused", "[bold]"):
            assert words in driver.text(), words
        await driver.pilot.press("down", "down")
        await driver.until(lambda: "no: it does not exist" in driver.text(), "why it is not told")
        assert "lost␛[2J" in driver.text()
        assert not {"\x1b", "\u202e"} & set(driver.text())
        driver.host.views = (replace(driver.host.views[0], known_roots=KnownRoots(())),)
        driver.host.put(RootsShared("files", ()))
        await driver.pilot.press("up", "up")
        await driver.until(lambda: "does not know it, received none" in driver.text(), "the news")


async def test_a_folder_is_added_with_suggestions_for_the_chosen_scope(
    run: Run, work_folder: Path, tmp_path: Path
) -> None:
    database = Database(tmp_path / "store.db")
    async with run(size=(80, 24)) as driver:
        stored = FolderEditStore(database)
        roots = driver.host.roots = Roots((RootConfig(str(work_folder), "proj", "started"),), stored)
        await driver.pilot.press("ctrl+o")
        await driver.until(lambda: "where mcphost was started" in driver.text())
        await driver.pilot.press("a")
        await driver.type("sr")
        await driver.until(lambda: "src/" in driver.text() and "spare/" not in driver.text(), "suggestions")
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: f"{work_folder}/src" in driver.text(), "where it leads")
        await driver.pilot.press("enter", *"code", "enter", "right")
        await driver.until(
            lambda: f"Whenever mcphost is started in {work_folder}"[:60] in driver.text().replace("\n", " ")
        )
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "applies for this project" in driver.text(), "the folder, under the cursor")
        found = (await roots.refresh()).find(str(work_folder / "src"))
        assert found is not None
        assert found.name == "code"
        assert [edit.path for edit in await stored.list_for_place(str(work_folder))] == [str(work_folder / "src")]
        assert await stored.list_for_place("") == ()
    await database.close()


async def test_escape_changes_nothing_and_errors_keep_the_input(run: Run, work_folder: Path) -> None:
    async with run(size=(80, 24)) as driver:
        roots = roots_of(driver, work_folder)
        before = await roots.refresh()
        await driver.pilot.press("ctrl+o", "a")
        await driver.type("nowhere")
        await driver.pilot.press("ctrl+s")
        await driver.until(
            lambda: driver.text().count("nowhere cannot be shared with servers: it does not exist.") == 2
        )
        await driver.until(
            lambda: not driver.app.screen.query(OptionList), "suggestions for what was typed before are gone"
        )
        await driver.pilot.press("escape")
        await driver.until(lambda: "ctrl+s add" not in driver.text())
        await driver.pilot.press("x")
        await driver.until(lambda: "Remove a folder" in driver.text())
        await driver.pilot.press("enter")
        await driver.until(lambda: "Remove a folder" not in driver.text())
        assert await roots.refresh() == before


@pytest.mark.req("roots.permissions")
async def test_the_home_folder_is_added_only_when_asked_for_twice(run: Run, work_folder: Path) -> None:
    async with run(size=(80, 24)) as driver:
        roots = roots_of(driver, work_folder)
        await driver.pilot.press("ctrl+o", "a", "tilde", "ctrl+s")
        await driver.until(lambda: "press Ctrl+S or the button again" in driver.text())
        assert "whole home folder" in driver.text()
        assert len((await roots.refresh()).folders) == 3
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "again." not in driver.text())
        assert [folder.warning for folder in (await roots.refresh()).available if folder.warning]


async def test_a_folder_is_removed_restored_and_renamed(run: Run, work_folder: Path) -> None:
    async with run(size=(120, 40)) as driver:
        roots = roots_of(driver, work_folder)
        await driver.pilot.press("ctrl+o")
        await driver.until(lambda: "where mcphost was started" in driver.text())
        await driver.pilot.press("x", "ctrl+s")
        await driver.until(lambda: "removed for this run" in driver.text())
        await driver.pilot.press("n")
        await driver.until(
            lambda: any("can be named" in notification.message for notification in driver.app._notifications)
        )
        await driver.pilot.press("x")
        await driver.until(lambda: "Restore a folder" in driver.text())
        await driver.pilot.press("ctrl+s")
        await driver.until(
            lambda: "removed for this run" not in driver.text() and "Restore a folder" not in driver.text()
        )
        await driver.pilot.press("n")
        await driver.until(lambda: "Name a folder" in driver.text())
        await driver.pilot.press("end", *"2", "ctrl+s")
        await driver.until(lambda: "proj2" in driver.text() and "Name a folder" not in driver.text())
        found = (await roots.refresh()).available[0]
        assert (found.name, found.source) == ("proj2", "started")


def test_only_folders_are_suggested_with_hidden_ones_after_a_dot_and_in_bounded_number(
    work_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work_folder / "script").write_text("x")
    (work_folder / "slink").symlink_to(work_folder.parent / "notes")
    (work_folder / "sloop").symlink_to(work_folder / "sloop")
    assert complete_path("S").values == ("slink/", "spare/", "src/")
    assert complete_path(f"{work_folder}/.").values == (f"{work_folder}/.hidden/",)
    assert complete_path("~").values == ("~/",)
    assert complete_path("~/../p").values == ("~/../proj/",)
    assert complete_path("/no/such/").values == complete_path("a\0b").values == ()
    for number in range(60):
        (work_folder / f"m{number}").mkdir()
    found = complete_path("m")
    assert (len(found.values), found.has_more) == (50, True)


@pytest.mark.req("roots.consent")
async def test_no_key_shares_folders_before_all_of_them_were_on_the_screen(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        many = tuple(Root(f"file:///srv/{number}") for number in range(100))
        pending = PendingQuestion(driver, ShareRoots(server="files", why="it asks", roots=many))
        await driver.enter_question()
        await driver.pilot.press("a", "s", "A")
        assert pending.answer is None
        await driver.pilot.press("end")
        await driver.until(lambda: "/srv/99" in driver.text())
        await driver.pilot.press("s")
        await driver.until(lambda: pending.answer == ShareSession())


def sharing_question(*names: str) -> ShareRoots:
    """Return a question about sharing a folder with several servers."""
    root = Root("file:///srv/a")
    askers = tuple(RequestingServer(server=name, why=f"why {name}", roots=(root,)) for name in names)
    return ShareRoots(server=names[0], why="it asks", roots=(root,), askers=askers)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), DoNotShare()),
        (("enter",), DoNotShare()),
        (("f",), SharePerServer({"one": "deny", "two": "deny", "three": "deny"})),
        (("end", "A", "n", "s", "f"), SharePerServer({"one": "always", "two": "never", "three": "session"})),
        (("end", "down", "a", "f"), SharePerServer({"one": "deny", "two": "once", "three": "deny"})),
        (("end", "a", "up", "d", "f"), SharePerServer({"one": "deny", "two": "deny", "three": "deny"})),
        (("end", "1"), SharePerServer(dict.fromkeys(("one", "two", "three"), "once"))),
        (("end", "2"), SharePerServer(dict.fromkeys(("one", "two", "three"), "session"))),
        (("end", "3"), SharePerServer(dict.fromkeys(("one", "two", "three"), "always"))),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
async def test_each_server_of_a_list_is_answered_alone_or_all_by_one_key(
    run: Run, keys: tuple[str, ...], answer: Any
) -> None:
    async with run(size=(80, 40)) as driver:
        assert await ask_and_press(driver, sharing_question("one", "two", "three"), *keys) == answer


async def test_a_list_of_servers_shows_each_reason_and_approves_nothing_unread(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        names = ("one\x1b[2J", *(f"server{number}" for number in range(12)))
        pending = PendingQuestion(driver, sharing_question(*names))
        await driver.enter_question()
        assert "Share your folder paths with 13 servers?" in driver.text()
        assert "why one" in driver.text()
        assert not {"\x1b", "\u202e"} & set(driver.text())
        await driver.pilot.press("3", "A", "f")
        assert pending.answer is None
        assert "read to the end first" in driver.text()
        await driver.pilot.press("end")
        await driver.until(lambda: "why server11" in driver.text(), "the last of the servers")
        await driver.pilot.press("3")
        await driver.until(lambda: pending.answer == SharePerServer(dict.fromkeys(names, "always")))


async def test_the_servers_of_a_short_list_stay_in_view_while_the_folders_are_read(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        roots = tuple(Root(f"file:///srv/{number}") for number in range(40))
        pending = PendingQuestion(driver, replace(sharing_question("one", "two", "three"), roots=roots))
        await driver.enter_question()
        for key in ("end", "home", "end"):
            await driver.pilot.press(key)
            await driver.until(lambda: all(f"why {name}" in driver.text() for name in ("one", "two", "three")), "them")
        await driver.pilot.press("a", "A", "n", "f")
        answer = SharePerServer({"one": "once", "two": "always", "three": "never"})
        await driver.until(lambda: pending.answer == answer, "the answer")


@pytest.mark.parametrize(
    ("key", "answer"), [("a", ShareOnce()), ("s", ShareSession()), ("A", ShareAlways()), ("n", NeverShare())]
)
async def test_a_folder_question_is_answered_with_the_letters_of_a_call(run: Run, key: str, answer: Any) -> None:
    async with run(size=(80, 24)) as driver:
        question = ShareRoots(server="files", why="it asks", roots=(Root("file:///srv/a"),))
        assert await ask_and_press(driver, question, "end", key) == answer
