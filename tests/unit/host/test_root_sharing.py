"""Tests for sharing folders (roots) with a server while the list changes or an answer cannot be stored."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from mcphost.client.session import ServerRequestContext
from mcphost.config.schema import AuditConfig, RootConfig
from mcphost.config.settings import MAX_ROOTS
from mcphost.errors import StoreError, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.questions import (
    AllowOnce,
    DoNotShare,
    NeverShare,
    ShareAlways,
    ShareOnce,
    SharePerServer,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests import root_sharing as sharing_module
from mcphost.host.server_requests.root_folders import FolderQuestions
from mcphost.host.server_requests.root_sharing import MAX_HELD_REQUESTS, RootSharing
from mcphost.host.server_requests.roots import Roots
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ListRootsResult, ServerRequestRejection
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from mcphost.store.roots import FolderAnswer, FolderAnswerStore, FolderEdit, FolderEditStore
from tests.fakes.frontend import ScriptedFrontend

pytestmark = pytest.mark.anyio


class RecordingAuditLog(AuditLog):
    """An audit log that runs the callback `before` and then records each disclosure in `told`."""

    def __init__(self) -> None:
        super().__init__(AuditStore(None), AuditConfig())
        self.before: Callable[[], Any] | None = None
        self.told: list[tuple[str, Any]] = []

    async def record_event(self, subject: AuditSubject, event: str, *, decision: str = "", **more: Any) -> None:
        if self.before is not None:
            await self.before()
        self.told.append((decision, subject.arguments))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "one", tmp_path / "two"
    for item in folders:
        item.mkdir()
    return folders


def create_sharing(
    folders: tuple[Path, Path], *answers: Any
) -> tuple[RootSharing, Roots, RecordingAuditLog, ScriptedFrontend]:
    audit_log, roots, frontend = (
        RecordingAuditLog(),
        Roots(tuple(RootConfig(str(item)) for item in folders)),
        ScriptedFrontend(*answers),
    )
    return RootSharing("s", roots, frontend, audit_log), roots, audit_log, frontend


def root_uris(reply: ListRootsResult | ServerRequestRejection) -> list[str]:
    assert isinstance(reply, ListRootsResult)
    return [root.uri for root in reply.roots]


async def test_a_folder_deleted_before_the_answer_is_not_shared(folders: tuple[Path, Path]) -> None:
    def gone(_: ShareRoots) -> ShareOnce:
        folders[1].rmdir()
        return ShareOnce()

    sharing, _, audit_log, _ = create_sharing(folders, gone)
    assert root_uris(await sharing.answer("")) == [folders[0].as_uri()]
    assert audit_log.told == [("1 folder", {"roots": [folders[0].as_uri()]})]


async def test_a_folder_removed_while_the_disclosure_is_recorded_is_not_shared(folders: tuple[Path, Path]) -> None:
    sharing, roots, audit_log, _ = create_sharing(folders, ShareOnce())

    async def out() -> None:
        await roots.remove(str(folders[1]))

    audit_log.before = out
    reply = await sharing.answer("")
    assert root_uris(reply) == [folders[0].as_uri()]
    assert sharing.known_roots.roots == (reply.roots if isinstance(reply, ListRootsResult) else None)


async def test_a_removed_folder_leaves_every_answer_at_once(folders: tuple[Path, Path]) -> None:
    sharing, roots, _, _ = create_sharing(folders, ShareOnce())
    reply = await sharing.answer("")
    assert isinstance(reply, ListRootsResult)
    recorded: list[int] = []
    unwatched = roots._remove_folder  # pyright: ignore[reportPrivateUsage]

    async def watched(*given: Any) -> None:
        recorded.append(len(roots.filter_reply(reply).roots))  # nothing is removed yet
        await unwatched(*given)

    roots._remove_folder = watched  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]
    await roots.remove(str(folders[0]))
    assert recorded == [1]


@pytest.mark.parametrize("answer", [None, True, "once", AllowOnce()])
async def test_an_invalid_answer_shares_nothing(folders: tuple[Path, Path], answer: Any) -> None:
    sharing, _, audit_log, _ = create_sharing(folders, answer)
    assert isinstance(await sharing.answer(""), ServerRequestRejection)
    assert audit_log.told == []


async def test_once_covers_one_request_and_this_run_covers_what_was_shown_and_less(folders: tuple[Path, Path]) -> None:
    sharing, roots, _, frontend = create_sharing(folders, ShareOnce(), ShareSession(), ShareOnce())
    for _ in range(4):
        assert len(root_uris(await sharing.answer(""))) == 2
    assert len(frontend.asked) == 2
    await roots.remove(str(folders[1]))
    assert root_uris(await sharing.answer("")) == [folders[0].as_uri()]
    assert len(frontend.asked) == 2
    await roots.add(str(folders[1].parent))
    assert len(root_uris(await sharing.answer(""))) == 2
    assert len(frontend.asked) == 3


async def test_an_unsaved_removal_applies_to_this_run(folders: tuple[Path, Path], tmp_path: Path) -> None:
    class FailingEditStore(FolderEditStore):
        async def save(self, place: str, edit: FolderEdit) -> None:
            raise StoreError("The disk is full.")

    roots = Roots((RootConfig(str(folders[0])),), FailingEditStore(Database(tmp_path / "s.db")))
    with pytest.raises(StoreError):
        await roots.remove(str(folders[0]), "user")
    assert (await roots.refresh()).available == ()


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5_000])
async def test_an_invalid_path_is_neither_added_nor_inspected(folders: tuple[Path, Path], path: str) -> None:
    roots = create_sharing(folders)[1]
    for act in (roots.add, roots.remove, roots.inspect_folder):
        with pytest.raises(UsageError, match="A path has 1 to"):
            await act(path)


async def test_the_number_of_shared_folders_is_bounded(folders: tuple[Path, Path], tmp_path: Path) -> None:
    paths = [tmp_path / f"n{number}" for number in range(MAX_ROOTS)]
    for item in paths:
        item.mkdir()
    roots = Roots(tuple(RootConfig(str(item)) for item in paths))
    with pytest.raises(UsageError, match="At most"):
        await roots.add(str(folders[0]))
    await roots.remove(str(paths[0]))
    await roots.add(str(folders[0]))
    with pytest.raises(UsageError, match="At most"):
        await roots.add(str(paths[0]))


async def test_an_unreadable_folder_is_not_shared(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    sharing, _, _, frontend = create_sharing(folders, ShareOnce())
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(folders[1]))
    assert root_uris(await sharing.answer("")) == [folders[0].as_uri()]
    question = frontend.asked[0]
    assert isinstance(question, ShareRoots)
    assert question.gone == (str(folders[1]),)


def create_stored_sharing(
    path: Path, folders: tuple[Path, Path], *answers: Any, digest: str = "d"
) -> tuple[RootSharing, RecordingAuditLog, ScriptedFrontend]:
    """Return the RootSharing of one run that stores the user's answers, with its audit log and front end."""
    audit_log, frontend = RecordingAuditLog(), ScriptedFrontend(*answers)
    roots = Roots(tuple(RootConfig(str(item)) for item in folders))
    store = FolderAnswerStore(Database(path / "answers.db"))
    return (
        RootSharing(
            "s", roots, frontend, audit_log, folder_questions=FolderQuestions(answers=store), digest=lambda: digest
        ),
        audit_log,
        frontend,
    )


async def test_a_permanent_answer_applies_in_later_runs_and_for_this_server_alone(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    first, _, _ = create_stored_sharing(tmp_path, folders, ShareAlways())
    assert len(root_uris(await first.answer(""))) == 2
    assert first.known_roots.is_permanent
    later, audit_log, frontend = create_stored_sharing(tmp_path, folders)
    assert len(root_uris(await later.answer(""))) == 2
    assert frontend.asked == []
    assert audit_log.told == [("2 folders", {"roots": [item.as_uri() for item in folders]})]
    changed, _, frontend = create_stored_sharing(tmp_path, folders, DoNotShare(), digest="another")
    assert isinstance(await changed.answer(""), ServerRequestRejection)
    assert len(frontend.asked) == 1


async def test_a_folder_that_a_server_may_never_know_is_left_out_without_a_question(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    first, _, _ = create_stored_sharing(tmp_path, (folders[0], folders[0]), NeverShare())
    assert root_uris(await first.answer("")) == []
    later, _, frontend = create_stored_sharing(tmp_path, folders, ShareOnce())
    assert root_uris(await later.answer("")) == [folders[1].as_uri()]
    (question,) = frontend.asked
    assert isinstance(question, ShareRoots)
    assert [root.uri for root in question.roots] == [folders[1].as_uri()], "only what nothing was said about"


async def test_a_new_folder_is_asked_about_alone_and_refusing_it_keeps_earlier_answers(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    first, _, _ = create_stored_sharing(tmp_path, (folders[0], folders[0]), ShareAlways())
    await first.answer("")
    later, _, frontend = create_stored_sharing(tmp_path, folders, DoNotShare())
    assert root_uris(await later.answer("")) == [folders[0].as_uri()]
    (question,) = frontend.asked
    assert isinstance(question, ShareRoots)
    assert [root.uri for root in question.roots] == [folders[1].as_uri()]


async def test_a_permanent_answer_that_cannot_be_stored_lasts_for_this_run_and_is_reported(
    folders: tuple[Path, Path],
) -> None:
    class FailingEditStore(FolderAnswerStore):
        async def save(self, *given: Any, **more: Any) -> None:
            raise StoreError("The disk is full.")

        async def find_for_server(self, server: str, digest: str) -> dict[str, FolderAnswer]:
            return {}

    messages: list[str] = []
    roots, frontend = Roots((RootConfig(str(folders[0])),)), ScriptedFrontend(ShareAlways())
    broken = FailingEditStore(Database(folders[0] / "s.db"))
    sharing = RootSharing(
        "s",
        roots,
        frontend,
        RecordingAuditLog(),
        folder_questions=FolderQuestions(answers=broken),
        notify=lambda text, hint: messages.append(text),
    )
    assert len(root_uris(await sharing.answer(""))) == len(root_uris(await sharing.answer(""))) == 1
    assert (len(frontend.asked), messages) == (1, ["The disk is full."])
    assert not sharing.known_roots.is_permanent


# -- deferred requests
PIPE = ServerRequestContext(revision=Revision.V2025_11_25)


class RootsServers:
    """The servers of a run, each of which can request roots at any time."""

    def __init__(self, folders: tuple[Path, Path], *answers: Any, names: tuple[str, ...] = ("s",)) -> None:
        self.audit_log, self.frontend, self.now = RecordingAuditLog(), ScriptedFrontend(*answers), 0.0
        self.roots = Roots(tuple(RootConfig(str(item)) for item in folders))
        self.questions = FolderQuestions(self.audit_log, clock=lambda: self.now)
        self.servers = {
            name: RootSharing(name, self.roots, self.frontend, self.audit_log, folder_questions=self.questions)
            for name in names
        }
        self.replies: dict[str, list[Any]] = {name: [] for name in names}
        for server in self.servers.values():
            server.mark_ready()

    async def ask(self, name: str) -> None:
        """Send a roots/list request from the server *name* that belongs to no call, and record the reply."""
        self.replies[name].append(await self.servers[name].answer("", PIPE))

    async def waiting(self, *names: str, count: int = 1) -> None:
        """Wait until at least *count* requests from each named server are on hold."""
        while not all(self.servers[name].held_count >= count for name in names):
            await anyio.lowlevel.checkpoint()


async def test_a_server_that_requests_roots_unasked_is_asked_about_at_its_first_call(
    folders: tuple[Path, Path],
) -> None:
    servers = RootsServers(folders, ShareOnce())
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_HELD_REQUESTS):
                tasks.start_soon(servers.ask, "s")
            await servers.waiting("s", count=MAX_HELD_REQUESTS)
            assert servers.frontend.asked == []
            with servers.servers["s"].track_request("tools/call"):
                assert await servers.servers["s"].prepare("its tool t is about to run")
    assert [question.why for question in servers.frontend.asked] == ["its tool t is about to run"]
    assert [len(root_uris(reply)) for reply in servers.replies["s"]] == [2] * MAX_HELD_REQUESTS
    assert not await servers.servers["s"].prepare("again")
    servers.frontend.answers.append(DoNotShare())
    with servers.servers["s"].track_request("tools/call"):
        await servers.ask("s")
    assert isinstance(servers.replies["s"][-1], ServerRequestRejection), "once was for those that waited"


async def test_at_most_five_requests_of_a_server_wait_and_the_next_gets_an_empty_list(
    folders: tuple[Path, Path],
) -> None:
    servers = RootsServers(folders)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_HELD_REQUESTS + 3):
                tasks.start_soon(servers.ask, "s")
            while len(servers.replies["s"]) < 3:
                await anyio.lowlevel.checkpoint()
            await servers.waiting("s", count=MAX_HELD_REQUESTS)
            tasks.cancel_scope.cancel()
    assert [root_uris(reply) for reply in servers.replies["s"]] == [[]] * 3
    assert servers.frontend.asked == []


@pytest.mark.parametrize(("limit", "method"), [("HOLD_SECONDS", ""), ("BLOCKED_TIMEOUT", "tools/list")])
async def test_a_server_that_may_not_wait_gets_an_empty_list_without_a_question(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, limit: str, method: str
) -> None:
    monkeypatch.setattr(sharing_module, limit, 0.0)
    servers = RootsServers(folders)
    with anyio.fail_after(20), servers.servers["s"].track_request(method) if method else nullcontext():
        await servers.ask("s")
    assert [root_uris(reply) for reply in servers.replies["s"]] == [[]]
    assert servers.frontend.asked == []
    assert servers.servers["s"].known_roots.roots is None
    assert servers.audit_log.told == []


class RecordingSession:
    """A session that records notifications and, like a server, requests the roots after each of them."""

    facts = SimpleNamespace(era="handshake")

    def __init__(self, servers: RootsServers) -> None:
        self.driver = servers
        self.notices: list[str] = []

    async def notify(self, notice: Any) -> None:
        self.notices.append(notice.METHOD)
        await self.driver.ask("s")


async def test_a_cancelled_request_is_asked_about_with_the_first_call_and_repeated(
    folders: tuple[Path, Path],
) -> None:
    servers = RootsServers(folders, ShareOnce())
    told = RecordingSession(servers)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(servers.servers["s"].send_list_changes, cast("Any", told), print)
            async with anyio.create_task_group() as asking:
                asking.start_soon(servers.ask, "s")
                await servers.waiting("s")
                asking.cancel_scope.cancel()
            assert (servers.frontend.asked, servers.replies["s"]) == ([], [])
            with servers.servers["s"].track_request("tools/call"):
                assert await servers.servers["s"].prepare("its tool t is about to run")
                assert told.notices == ["notifications/roots/list_changed"]
                assert [len(root_uris(reply)) for reply in servers.replies["s"]] == [2], "told again before the call"
            tasks.cancel_scope.cancel()
    assert len(servers.frontend.asked) == 1


async def test_requests_of_an_ended_program_are_not_asked_for_the_next_one(folders: tuple[Path, Path]) -> None:
    servers = RootsServers(folders)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as asking:
            asking.start_soon(servers.ask, "s")
            await servers.waiting("s")
            asking.cancel_scope.cancel()
        await servers.servers["s"].begin_connection()
        servers.servers["s"].mark_ready()
        assert not await servers.servers["s"].prepare("its tool t is about to run")
    assert servers.frontend.asked == []


async def test_a_stopped_call_withdraws_the_question_and_the_next_call_asks_again(
    folders: tuple[Path, Path],
) -> None:
    servers = RootsServers(folders)
    server = servers.servers["s"]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(servers.ask, "s")
            await servers.waiting("s")
            async with anyio.create_task_group() as call:
                call.start_soon(server.prepare, "one")
                await servers.frontend.asked_now.wait()
                call.cancel_scope.cancel()
            assert servers.replies["s"] == []
            servers.frontend.answers.append(ShareSession())
            assert await server.prepare("two")
    assert [question.why for question in servers.frontend.asked] == ["one", "two"]
    assert len(root_uris(servers.replies["s"][0])) == 2


async def test_a_server_keeps_known_folders_while_a_new_one_waits_for_its_next_call(
    folders: tuple[Path, Path],
) -> None:
    servers = RootsServers(folders, ShareSession(), ShareSession())
    told, server = RecordingSession(servers), servers.servers["s"]
    with anyio.fail_after(20):
        assert len(root_uris(await server.answer(""))) == 2
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.send_list_changes, cast("Any", told), print)
            await servers.roots.add(str(folders[0].parent))
            while not servers.replies["s"]:
                await anyio.lowlevel.checkpoint()
            assert len(root_uris(servers.replies["s"][0])) == 2, "what was agreed to, at once"
            assert len(servers.frontend.asked) == 1
            with server.track_request("tools/call"):
                await server.prepare("its tool t is about to run")
            assert len(root_uris(servers.replies["s"][-1])) == 3
            tasks.cancel_scope.cancel()
    assert len(servers.frontend.asked) == 2


# -- several servers
async def test_servers_that_wait_at_once_are_one_question_with_an_answer_for_each(
    folders: tuple[Path, Path],
) -> None:
    names = ("a", "b", "c", "d")
    servers = RootsServers(folders, SharePerServer({"a": "once", "b": "session", "d": "never"}), names=names)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(servers.ask, name)
            await servers.waiting(*names)
            await servers.servers["b"].prepare("its tool t is about to run")
    (question,) = servers.frontend.asked
    assert isinstance(question, ShareRoots)
    assert (question.server, sorted(asker.server for asker in question.askers)) == ("b", list(names))
    assert [len(root_uris(servers.replies[name][0])) for name in ("a", "b", "d")] == [2, 2, 0]
    assert isinstance(servers.replies["c"][0], ServerRequestRejection)


@pytest.mark.parametrize(("answer", "counts"), [(DoNotShare(), (0, 0)), (ShareAlways(), (2, 0)), (None, (0, 0))])
async def test_an_answer_that_names_no_server_covers_only_the_first_one(
    folders: tuple[Path, Path], answer: Any, counts: tuple[int, int]
) -> None:
    servers = RootsServers(folders, answer, names=("a", "b"))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for name in servers.servers:
                tasks.start_soon(servers.ask, name)
            await servers.waiting(*servers.servers)
            await servers.servers["a"].prepare("")
    received = [servers.replies[name][0] for name in servers.servers]
    assert tuple(len(message.roots) if isinstance(message, ListRootsResult) else 0 for message in received) == counts


# -- floods
async def test_a_refusal_answers_for_a_minute_or_until_the_list_changes(folders: tuple[Path, Path]) -> None:
    servers = RootsServers(folders, DoNotShare(), DoNotShare(), ShareSession())
    server = servers.servers["s"]
    for _ in range(20):
        assert isinstance(await server.answer(""), ServerRequestRejection)
    assert len(servers.frontend.asked) == 1
    servers.now = 59.9
    assert isinstance(await server.answer(""), ServerRequestRejection)
    assert len(servers.frontend.asked) == 1
    servers.now = 60.1
    assert isinstance(await server.answer(""), ServerRequestRejection)
    assert len(servers.frontend.asked) == 2
    await servers.roots.remove(str(folders[1]))
    assert len(root_uris(await server.answer(""))) == 1
    assert len(servers.frontend.asked) == 3


async def test_the_same_disclosure_is_recorded_once(folders: tuple[Path, Path]) -> None:
    servers = RootsServers(folders, ShareSession())
    server = servers.servers["s"]
    for _ in range(20):
        assert len(root_uris(await server.answer(""))) == 2
    assert len(servers.audit_log.told) == 1
    await servers.roots.remove(str(folders[1]))
    assert len(root_uris(await server.answer(""))) == 1
    assert [decision for decision, _ in servers.audit_log.told] == ["2 folders", "1 folder"]
