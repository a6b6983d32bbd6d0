"""The folders page: entries, their origin and who knows them; add, rename, remove and undo by keyboard."""

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
    SharePerServer,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests.root_list import KnownRoots, file_uri
from mcphost.host.server_requests.roots import Roots, complete_path
from mcphost.protocol.server_requests import Root
from mcphost.serialization import replace
from mcphost.store.database import Database
from mcphost.store.roots import FolderEditStore
from tests.screens.ask_question import PendingQuestion, ask_and_press
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Below a path that is short enough to be one line on every screen."""
    with tempfile.TemporaryDirectory(prefix="f-") as folder:
        yield world(Path(folder).resolve(), monkeypatch)
        monkeypatch.undo()


def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("proj/src", "proj/.hidden", "proj/spare", "notes", "[bold]"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "proj")
    monkeypatch.setenv("HOME", str(tmp_path / "notes"))
    return tmp_path / "proj"


def roots_of(it: Any, work: Path) -> Roots:
    gone = RootConfig(f"{work}/lost\x1b[2J", "odd\u202e")
    it.host.roots = Roots((RootConfig(str(work), "proj", "started"), RootConfig(f"{work.parent}/[bold]"), gone))
    return it.host.roots


@pytest.mark.req("roots.consent")
@pytest.mark.req("roots.monitor")
async def test_the_page_says_of_each_folder_where_it_comes_from_and_which_server_knows_it(run: Run, work: Path) -> None:
    async with run(size=(120, 40)) as it:
        roots_of(it, work)
        told = KnownRoots((Root(file_uri(work)),), is_approved=True)
        it.host.views = (
            replace(it.host.views[0], known_roots=told),
            replace(it.host.views[1], known_roots=KnownRoots(is_refused=True)),
        )
        await it.pilot.press("f3")
        await it.until(lambda: "was told 1 folder; updated without" in it.text(), "the servers' page says it")
        assert "asking for folders is deprecated" in " ".join(it.text().split())
        await it.pilot.press("f")
        await it.until(lambda: "files: knows it" in it.text(), "the folder of the start")
        for words in ("where mcphost was started", str(work), "github: you refused", "[bold]"):
            assert words in it.text(), words
        await it.pilot.press("down", "down")
        await it.until(lambda: "no: it does not exist" in it.text(), "why it is not told")
        assert "lost␛[2J" in it.text()
        assert not {"\x1b", "\u202e"} & set(it.text())
        it.host.views = (replace(it.host.views[0], known_roots=KnownRoots(())),)
        it.host.put(RootsShared("files", ()))
        await it.pilot.press("up", "up")
        await it.until(lambda: "does not know it, was told there are none" in it.text(), "the news")


async def test_a_folder_is_added_with_suggestions_and_for_as_long_as_the_person_says(
    run: Run, work: Path, tmp_path: Path
) -> None:
    database = Database(tmp_path / "store.db")
    async with run(size=(80, 24)) as it:
        stored = FolderEditStore(database)
        roots = it.host.roots = Roots((RootConfig(str(work), "proj", "started"),), stored)
        await it.pilot.press("ctrl+o")
        await it.until(lambda: "where mcphost was started" in it.text())
        await it.pilot.press("a")
        await it.type("sr")
        await it.until(lambda: "src/" in it.text() and "spare/" not in it.text(), "suggestions")
        await it.pilot.press("down", "enter")
        await it.until(lambda: f"{work}/src" in it.text(), "where it leads")
        await it.pilot.press("enter", *"code", "enter", "right")
        await it.until(lambda: f"Whenever mcphost is started in {work}"[:60] in it.text().replace("\n", " "))
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "applies for this project" in it.text(), "the folder, under the cursor")
        found = (await roots.refresh()).find(str(work / "src"))
        assert found is not None
        assert found.name == "code"
        assert [edit.path for edit in await stored.list_for_place(str(work))] == [str(work / "src")]
        assert await stored.list_for_place("") == ()
    await database.close()


async def test_escape_changes_nothing_and_errors_keep_the_input(run: Run, work: Path) -> None:
    async with run(size=(80, 24)) as it:
        roots = roots_of(it, work)
        before = await roots.refresh()
        await it.pilot.press("ctrl+o", "a")
        await it.type("nowhere")
        await it.pilot.press("ctrl+s")
        await it.until(lambda: it.text().count("nowhere cannot be shared with servers: it does not exist.") == 2)
        await it.until(lambda: not it.app.screen.query(OptionList), "suggestions for what was typed before are gone")
        await it.pilot.press("escape")
        await it.until(lambda: "ctrl+s add" not in it.text())
        await it.pilot.press("x")
        await it.until(lambda: "Remove a folder" in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: "Remove a folder" not in it.text())
        assert await roots.refresh() == before


@pytest.mark.req("roots.permissions")
async def test_the_home_folder_is_added_only_when_asked_for_twice(run: Run, work: Path) -> None:
    async with run(size=(80, 24)) as it:
        roots = roots_of(it, work)
        await it.pilot.press("ctrl+o", "a", "tilde", "ctrl+s")
        await it.until(lambda: "press Ctrl+S or the button again" in it.text())
        assert "whole home folder" in it.text()
        assert len((await roots.refresh()).folders) == 3
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "again." not in it.text())
        assert [one.warning for one in (await roots.refresh()).available if one.warning]


async def test_a_folder_is_taken_out_put_back_and_named(run: Run, work: Path) -> None:
    async with run(size=(120, 40)) as it:
        roots = roots_of(it, work)
        await it.pilot.press("ctrl+o")
        await it.until(lambda: "where mcphost was started" in it.text())
        await it.pilot.press("x", "ctrl+s")
        await it.until(lambda: "removed for this run" in it.text())
        await it.pilot.press("n")
        await it.until(lambda: any("can be named" in one.message for one in it.app._notifications))
        await it.pilot.press("x")
        await it.until(lambda: "Restore a folder" in it.text())
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "taken out" not in it.text())
        await it.pilot.press("n")
        await it.until(lambda: "Name a folder" in it.text())
        await it.pilot.press("end", *"2", "ctrl+s")
        await it.until(lambda: "proj2" in it.text() and "Name a folder" not in it.text())
        found = (await roots.refresh()).available[0]
        assert (found.name, found.source) == ("proj2", "started")


def test_only_folders_are_suggested_hidden_ones_when_their_dot_is_typed_and_never_too_many(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "script").write_text("x")
    (work / "slink").symlink_to(work.parent / "notes")
    (work / "sloop").symlink_to(work / "sloop")
    assert complete_path("S").values == ("slink/", "spare/", "src/")
    assert complete_path(f"{work}/.").values == (f"{work}/.hidden/",)
    assert complete_path("~").values == ("~/",)
    assert complete_path("~/../p").values == ("~/../proj/",)
    assert complete_path("/no/such/").values == complete_path("a\0b").values == ()
    for number in range(60):
        (work / f"m{number}").mkdir()
    found = complete_path("m")
    assert (len(found.values), found.has_more) == (50, True)


@pytest.mark.req("roots.consent")
async def test_no_key_shares_folders_before_all_of_them_were_on_the_screen(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        many = tuple(Root(f"file:///srv/{number}") for number in range(100))
        asked = PendingQuestion(it, ShareRoots(server="files", why="it asks", roots=many))
        await it.enter_question()
        await it.pilot.press("s", "o")
        assert asked.answer is None
        await it.pilot.press("end")
        await it.until(lambda: "/srv/99" in it.text())
        await it.pilot.press("s")
        await it.until(lambda: asked.answer == ShareSession())


def each(*names: str) -> ShareRoots:
    """A question about several servers."""
    root = Root("file:///srv/a")
    askers = tuple(RequestingServer(server=name, why=f"why {name}", roots=(root,)) for name in names)
    return ShareRoots(server=names[0], why="it asks", roots=(root,), askers=askers)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), DoNotShare()),
        (("enter",), DoNotShare()),
        (("f",), SharePerServer({"one": "deny", "two": "deny", "three": "deny"})),
        (("end", "a", "n", "s", "f"), SharePerServer({"one": "always", "two": "never", "three": "session"})),
        (("end", "down", "o", "f"), SharePerServer({"one": "deny", "two": "once", "three": "deny"})),
        (("end", "o", "up", "d", "f"), SharePerServer({"one": "deny", "two": "deny", "three": "deny"})),
        (("end", "O"), SharePerServer(dict.fromkeys(("one", "two", "three"), "once"))),
        (("end", "S"), SharePerServer(dict.fromkeys(("one", "two", "three"), "session"))),
        (("end", "A"), SharePerServer(dict.fromkeys(("one", "two", "three"), "always"))),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
async def test_each_server_of_a_list_is_answered_by_itself_or_all_by_one_key(
    run: Run, keys: tuple[str, ...], answer: Any
) -> None:
    async with run(size=(80, 40)) as it:
        assert await ask_and_press(it, each("one", "two", "three"), *keys) == answer


async def test_a_list_of_servers_shows_each_reason_and_approves_nothing_unread(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        names = ("one\x1b[2J", *(f"server{number}" for number in range(12)))
        asked = PendingQuestion(it, each(*names))
        await it.enter_question()
        assert "Share your folder paths with 13 servers?" in it.text()
        assert "why one" in it.text()
        assert not {"\x1b", "\u202e"} & set(it.text())
        await it.pilot.press("A", "a", "f")
        assert asked.answer is None
        assert "read to the end first" in it.text()
        await it.pilot.press("end")
        await it.until(lambda: "F7" in it.text())
        await it.pilot.press("A")
        await it.until(lambda: asked.answer == SharePerServer(dict.fromkeys(names, "always")))


@pytest.mark.parametrize(("key", "answer"), [("a", ShareAlways()), ("n", NeverShare())])
async def test_a_folder_question_is_answered_for_good_by_one_key(run: Run, key: str, answer: Any) -> None:
    async with run(size=(80, 24)) as it:
        question = ShareRoots(server="files", why="it asks", roots=(Root("file:///srv/a"),))
        assert await ask_and_press(it, question, "end", key) == answer
