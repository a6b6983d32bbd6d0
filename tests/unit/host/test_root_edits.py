"""Tests for changing the list of shared folders (roots) while mcphost runs, and notifying the servers."""

import json
import os
from pathlib import Path, PureWindowsPath
from typing import Any

import anyio
import pytest

from mcphost.config.loader import load_config, read_project_file
from mcphost.config.schema import AuditConfig, HostConfig, RootConfig
from mcphost.config.settings import WORKSPACE_FOLDER
from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.events import RootsChanged, RootsShared
from mcphost.host.questions.questions import Accept, DoNotShare, FillForm, ShareOnce, ShareRoots, ShareSession
from mcphost.host.server_requests import roots as module
from mcphost.host.server_requests.root_folders import configured_roots, file_uri, inspect_roots, uri_path
from mcphost.host.server_requests.roots import Roots
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from mcphost.store.roots import FolderEditStore
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.asking_server import HANDSHAKE, ROOTS, STATELESS, AskingServer, form_request, open_asking_host

pytestmark = pytest.mark.anyio
ASK: dict[str, Any] = {"a": ROOTS}
CHANGED = "notifications/roots/list_changed"


@pytest.fixture
def work_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, ...]:
    """Create three folders, the first of which is the working directory."""
    folders = tuple(tmp_path / name for name in ("work", "notes", "third"))
    for item in folders:
        item.mkdir()
    monkeypatch.chdir(folders[0])
    return folders


# -- origin
async def test_folders_come_from_the_start_the_users_settings_and_a_trusted_file_in_this_order(
    work_folders: tuple[Path, ...], tmp_path: Path
) -> None:
    settings, mcp = tmp_path / "config", work_folders[0] / ".mcp.json"
    settings.mkdir()
    mcp.write_text(json.dumps({"mcphost": {"roots": [".", {"path": "../third", "name": "lib"}, 5]}}))
    project = read_project_file(work_folders[0])
    assert project is not None
    untrusted, trusted = load_config(settings), load_config(settings, project=project)
    assert [root.path for root in configured_roots(untrusted)] == [str(work_folders[0])]
    found = inspect_roots(configured_roots(trusted)).folders
    assert [(item.path, item.name, item.source) for item in found] == [
        (str(work_folders[0]), "work", "started"),
        (str(work_folders[2]), "lib", "project"),
    ]
    assert found[1].origin == f"in {mcp}, which you trusted"
    assert "outside" in found[1].warning
    assert [problem for problem in trusted.problems if '"roots"' in problem and "is not one" in problem]
    (settings / "config.toml").write_text(f'roots = ["{work_folders[1]}", "{WORKSPACE_FOLDER}"]')
    found = inspect_roots(configured_roots(load_config(settings, project=project))).folders
    assert [(item.path, item.source) for item in found] == [
        (str(work_folders[1]), "user"),
        (str(work_folders[0]), "started"),
        (str(work_folders[2]), "project"),
    ]


def test_a_users_empty_list_is_not_overridden_by_a_file(work_folders: tuple[Path, ...]) -> None:
    assert (
        configured_roots(HostConfig(roots=(), project_roots=(RootConfig(str(work_folders[1]), source="project"),)))
        == ()
    )


def test_folders_in_the_users_own_list_of_servers_are_named_as_misplaced(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}, "mcphost": {"roots": ["/"]}}')
    config = load_config(tmp_path)
    assert config.project_roots == ()
    assert "config.toml" in config.problems[0]


@pytest.mark.req("roots.permissions")
def test_a_too_broad_folder_shows_a_warning_and_an_unsendable_one_the_reason(
    work_folders: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(work_folders[0]))
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(work_folders[1])
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    paths = ["/", "~", str(tmp_path), f"{tmp_path}/link", f"{tmp_path}/file", f"{tmp_path}/no", f"{tmp_path}/loop"]
    found = inspect_roots(RootConfig(path) for path in paths).folders
    assert [item.warning[:24] for item in found[:4]] == [
        "It is the whole file sys",
        "It is your whole home fo",
        "It contains your home fo",
        "",
    ]
    assert (found[3].path, found[3].configured_path) == (str(work_folders[1]), f"{tmp_path}/link")
    assert [(item.state, item.why) for item in found[4:6]] == [
        ("gone", "it is not a folder"),
        ("gone", "it does not exist"),
    ]
    assert found[6].state == "gone"
    for path, warns in ((work_folders[0] / "in", False), (tmp_path / "workshop", True), (work_folders[1], True)):
        path.mkdir(exist_ok=True)
        (one,) = inspect_roots(
            [RootConfig(str(path), source="project", file=str(work_folders[0] / ".mcp.json"))]
        ).folders
        assert ("outside the project" in one.warning) is warns, path


@pytest.mark.req("roots.file-uri")
@pytest.mark.parametrize(
    ("path", "uri", "shown"),
    [
        (PureWindowsPath(r"C:\Users\Ann Lee\ä"), "file:///C:/Users/Ann%20Lee/%C3%A4", "C:/Users/Ann Lee/ä"),
        (PureWindowsPath(r"\\nas\share\a#b"), "file://nas/share/a%23b", "//nas/share/a#b"),
        (Path("/srv/日本 %41?"), "file:///srv/%E6%97%A5%E6%9C%AC%20%2541%3F", "/srv/日本 %41?"),
        (Path(os.fsdecode(b"/a/\xff")), "file:///a/%FF", "/a/\\xff"),
    ],
)
def test_paths_become_file_addresses_and_back(path: Any, uri: str, shown: str) -> None:
    assert (file_uri(path), uri_path(uri)) == (uri, shown)


# -- edits
async def test_an_edit_applies_to_its_scope(
    work_folders: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "store.db")
    work, notes, third = map(str, work_folders)

    def fresh() -> Roots:
        return Roots((RootConfig(work, source="started"),), FolderEditStore(database))

    roots = fresh()
    await roots.add("../notes", "n", "run")
    await roots.add(third, "t", "project")
    assert [(folder.path, folder.scope) for folder in (await roots.refresh()).available] == [
        (work, ""),
        (third, "project"),
        (notes, "run"),
    ]
    await roots.remove(work, "user")
    assert [folder.path for folder in (await fresh().refresh()).available] == [third]
    assert [folder.state for folder in (await fresh().refresh()).folders] == ["out", "there"]
    monkeypatch.chdir(work_folders[1])
    assert [folder.path for folder in (await fresh().refresh()).available] == []
    again = await fresh().add(work, scope="user")
    assert (again.state, again.source, again.scope) == ("there", "started", "user")
    monkeypatch.chdir(work_folders[0])
    roots = fresh()
    await roots.remove(third, "run")
    assert [folder.path for folder in (await roots.refresh()).available] == [work]
    assert [folder.path for folder in (await fresh().refresh()).available] == [work, third]
    # A global edit is not undone by an earlier, narrower one.
    await roots.remove(third, "user")
    assert [folder.path for folder in (await fresh().refresh()).folders] == [work]
    await database.close()


async def test_a_folder_named_by_a_link_is_removed_and_restored_like_any_other(
    work_folders: tuple[Path, ...], tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(work_folders[1])
    database = Database(tmp_path / "store.db")
    roots = Roots((RootConfig(f"{tmp_path}/link", "n"),), FolderEditStore(database))
    for out, back in (("run", "user"), ("project", "project"), ("user", "user")):
        assert (await roots.remove(f"{tmp_path}/link", out)).state == "out"
        assert (await roots.refresh()).available == ()
        assert (await roots.add(str(work_folders[1]), scope=back)).state == "there"
        assert [(folder.path, folder.name) for folder in (await roots.refresh()).available] == [
            (str(work_folders[1]), "n")
        ]
    await database.close()


async def test_a_folder_can_be_renamed_and_duplicates_are_reported(work_folders: tuple[Path, ...]) -> None:
    roots = Roots((RootConfig(str(work_folders[1]), "old"),))
    assert (await roots.add(str(work_folders[1]), "new")).name == "new"
    with pytest.raises(UsageError, match="already"):
        await roots.add(str(work_folders[1]), "new")
    assert [root.name for root in (await roots.refresh()).roots] == ["new"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("nowhere", ""),
        ("/etc/passwd", ""),
        ("", ""),
        ("a\0b", ""),
        ("/" + "x" * 5_000, ""),
        ("/", "a\x1b[2J"),
        ("/", "\u202e"),
    ],
)
async def test_unreadable_folders_and_invalid_names_are_not_added(
    path: str, name: str, work_folders: tuple[Path, ...]
) -> None:
    roots = Roots(())
    with pytest.raises(UsageError):
        await roots.add(path, name)
    assert (await roots.refresh()).folders == ()
    with pytest.raises(UsageError):
        await roots.remove(path or "/")


async def test_an_older_refresh_does_not_restore_a_removed_folder(
    work_folders: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = Roots((RootConfig(str(work_folders[1])),))
    await roots.refresh()
    go, looks = anyio.Event(), []

    async def slow(work: Any, *given: Any, **how: Any) -> Any:
        found = work(*given)
        looks.append(found)
        if len(looks) == 1:
            await go.wait()
        return found

    monkeypatch.setattr(module.anyio.to_thread, "run_sync", slow)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(roots.refresh)
            while not looks:
                await anyio.lowlevel.checkpoint()
            await roots.remove(str(work_folders[1]))
            go.set()
    assert roots.filter_reply(module.ListRootsResult(looks[0].roots)).roots == ()


# -- notifications of changes
@pytest.mark.req("roots.changed")
@pytest.mark.req("roots.consent")
async def test_only_servers_that_got_the_roots_are_notified_of_changes(
    work_folders: tuple[Path, ...], tmp_path: Path
) -> None:
    peers = {name: AskingServer(HANDSHAKE[-1], ASK) for name in ("told", "refused", "quiet")}
    peers["modern"] = AskingServer(STATELESS, ASK)
    frontend = ScriptedFrontend(ShareSession(), DoNotShare(), ShareSession())
    named = (RootConfig(str(work_folders[0])),)
    async with open_asking_host(tmp_path, peers, frontend, roots=named) as host:
        for name in ("told", "refused", "modern"):
            await host.tools.call(name, "ask", {})
        assert host.servers.view("refused").known_roots.is_refused
        assert host.servers.view("quiet").known_roots.roots is None
        assert [root.uri for root in host.servers.view("told").known_roots.roots or ()] == [file_uri(work_folders[0])]
        for name in ("x", "y"):
            await host.roots.add(str(work_folders[1]), name)
            while CHANGED not in peers["told"].notifications:
                await peers["told"].changed.wait()
            peers["told"].notifications.clear()
        for name in peers:
            await host.tools.call(name, "plain", {})
    assert [name for name, peer in peers.items() if CHANGED in peer.notifications] == []


async def test_a_change_during_a_notification_is_announced_as_well(
    work_folders: tuple[Path, ...], tmp_path: Path
) -> None:
    peer, frontend = AskingServer(HANDSHAKE[-1], ASK), ScriptedFrontend(ShareSession())
    async with open_asking_host(tmp_path, peer, frontend, roots=(RootConfig(str(work_folders[0])),)) as host:
        await host.tools.call("peer", "ask", {})
        for count, path in enumerate(work_folders[1:], 1):
            await host.roots.add(str(path))
            while peer.notifications.count(CHANGED) < count:
                await peer.changed.wait()


@pytest.mark.req("roots.changed-modern")
async def test_a_folder_removed_during_another_question_is_not_shared(
    work_folders: tuple[Path, ...], tmp_path: Path
) -> None:
    asks = {"dirs": ROOTS, "more": form_request({"n": {"type": "string"}})}
    peer, frontend = AskingServer(STATELESS, asks), ScriptedFrontend()
    named = tuple(RootConfig(str(folder)) for folder in work_folders[:2])
    async with open_asking_host(tmp_path, peer, frontend, roots=named) as host:
        shared = anyio.Event()

        async def reply(question: Any) -> Any:
            if isinstance(question, ShareRoots):
                return ShareOnce()
            assert isinstance(question, FillForm)
            async for event in feed:
                if isinstance(event, RootsShared):
                    shared.set()
                    break
            await host.roots.remove(str(work_folders[1]))
            return Accept({"n": "x"})

        feed = host.events.subscribe()
        frontend.answers += [reply, reply]
        result = json.loads((await host.tools.call("peer", "ask", {})).text)
    assert shared.is_set()
    assert [root["uri"] for root in result["dirs"]["result"]["roots"]] == [file_uri(work_folders[0])]


async def test_each_edit_and_each_disclosure_is_audited_and_published(
    work_folders: tuple[Path, ...], tmp_path: Path
) -> None:
    peer, frontend = AskingServer(HANDSHAKE[-1], ASK), ScriptedFrontend(ShareSession())
    audit_log = AuditLog(AuditStore(tmp_path / "l.db", tmp_path / "l.head"), AuditConfig())
    async with open_asking_host(
        tmp_path, peer, frontend, roots=(RootConfig(str(work_folders[0])),), audit_log=audit_log
    ) as host:
        feed = host.events.subscribe()
        await host.roots.add(str(work_folders[1]), "n", "user")
        await host.tools.call("peer", "ask", {})
        await host.roots.remove(str(work_folders[1]), "user")
        await host.tools.call("peer", "ask", {})
        rows = [row for row in await host.audit.read_page(AuditFilter(kind="roots")) if row.event != "withdrawn"]
        events = [event for event in feed.drain() if isinstance(event, RootsChanged | RootsShared)]
    assert [(row.event, row.server, row.subject, row.decision, row.who) for row in reversed(rows)] == [
        ("added", "", str(work_folders[1]), "user", "person"),
        ("answered", "peer", "", "session", "person"),
        ("told", "peer", "", "2 folders", "answer"),
        ("removed", "", str(work_folders[1]), "user", "person"),
        ("decided", "peer", "", "shared", "session"),
        ("told", "peer", "", "1 folder", "session"),
    ]
    assert len({row.arguments for row in rows if row.event == "told"}) == 2
    assert [len(text.folders) if isinstance(text, RootsChanged) else text.uris for text in events] == [
        2,
        (file_uri(work_folders[0]), file_uri(work_folders[1])),
        1,
        (file_uri(work_folders[0]),),
    ]
