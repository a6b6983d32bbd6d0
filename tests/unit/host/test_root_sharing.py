"""Folders shared with a server while the list changes, and edits that cannot be stored."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from mcphost.client.session import ServerRequestContext
from mcphost.config.roots import MAX_ROOTS
from mcphost.config.schema import AuditConfig, RootConfig
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
from mcphost.host.server_requests.folder_questions import FolderQuestions
from mcphost.host.server_requests.root_sharing import MAX_HELD_REQUESTS, RootSharing
from mcphost.host.server_requests.roots import Roots
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ListRootsResult, ServerRequestRejection
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from mcphost.store.roots import FolderAnswer, FolderAnswerStore, FolderEdit, FolderEditStore
from tests.fakes.frontend import ScriptedFrontend

pytestmark = pytest.mark.anyio


class Book(AuditLog):
    """An audit log that records disclosures and runs a callback before writing them."""

    def __init__(self) -> None:
        super().__init__(AuditStore(None), AuditConfig())
        self.before: Callable[[], Any] | None = None
        self.told: list[tuple[str, Any]] = []

    async def record_event(self, subject: AuditSubject, event: str, *, decision: str = "", **more: Any) -> None:
        if self.before is not None:
            await self.before()
        self.told.append((decision, subject.arguments))


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "one", tmp_path / "two"
    for item in made:
        item.mkdir()
    return made


def create_sharing(two: tuple[Path, Path], *answers: Any) -> tuple[RootSharing, Roots, Book, ScriptedFrontend]:
    audit_log, roots, frontend = Book(), Roots(tuple(RootConfig(str(item)) for item in two)), ScriptedFrontend(*answers)
    return RootSharing("s", roots, frontend, audit_log), roots, audit_log, frontend


def uris(reply: ListRootsResult | ServerRequestRejection) -> list[str]:
    assert isinstance(reply, ListRootsResult)
    return [root.uri for root in reply.roots]


async def test_a_folder_deleted_before_the_answer_is_not_shared(two: tuple[Path, Path]) -> None:
    def gone(_: ShareRoots) -> ShareOnce:
        two[1].rmdir()
        return ShareOnce()

    sharing, _, audit_log, _ = create_sharing(two, gone)
    assert uris(await sharing.answer("")) == [two[0].as_uri()]
    assert audit_log.told == [("1 folder", {"roots": [two[0].as_uri()]})]


async def test_a_folder_removed_while_the_disclosure_is_recorded_is_not_shared(two: tuple[Path, Path]) -> None:
    sharing, roots, audit_log, _ = create_sharing(two, ShareOnce())

    async def out() -> None:
        await roots.remove(str(two[1]))

    audit_log.before = out
    reply = await sharing.answer("")
    assert uris(reply) == [two[0].as_uri()]
    assert sharing.known_roots.roots == (reply.roots if isinstance(reply, ListRootsResult) else None)


async def test_a_folder_leaves_every_answer_at_the_moment_that_it_is_taken_out(two: tuple[Path, Path]) -> None:
    sharing, roots, _, _ = create_sharing(two, ShareOnce())
    reply = await sharing.answer("")
    assert isinstance(reply, ListRootsResult)
    seen: list[int] = []
    unwatched = roots._remove_folder  # pyright: ignore[reportPrivateUsage]

    async def watched(*given: Any) -> None:
        seen.append(len(roots.filter_reply(reply).roots))  # nothing of it is done yet
        await unwatched(*given)

    roots._remove_folder = watched  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]
    await roots.remove(str(two[0]))
    assert seen == [1]


@pytest.mark.parametrize("answer", [None, True, "once", AllowOnce()])
async def test_what_is_no_answer_shares_nothing(two: tuple[Path, Path], answer: Any) -> None:
    sharing, _, audit_log, _ = create_sharing(two, answer)
    assert isinstance(await sharing.answer(""), ServerRequestRejection)
    assert audit_log.told == []


async def test_once_is_for_once_and_this_run_for_what_was_shown_and_less(two: tuple[Path, Path]) -> None:
    sharing, roots, _, frontend = create_sharing(two, ShareOnce(), ShareSession(), ShareOnce())
    for _ in range(4):
        assert len(uris(await sharing.answer(""))) == 2
    assert len(frontend.asked) == 2
    await roots.remove(str(two[1]))
    assert uris(await sharing.answer("")) == [two[0].as_uri()]
    assert len(frontend.asked) == 2
    await roots.add(str(two[1].parent))
    assert len(uris(await sharing.answer(""))) == 2
    assert len(frontend.asked) == 3


async def test_what_cannot_be_kept_is_out_for_this_run_all_the_same(two: tuple[Path, Path], tmp_path: Path) -> None:
    class Broken(FolderEditStore):
        async def save(self, place: str, edit: FolderEdit) -> None:
            raise StoreError("The disk is full.")

    roots = Roots((RootConfig(str(two[0])),), Broken(Database(tmp_path / "s.db")))
    with pytest.raises(StoreError):
        await roots.remove(str(two[0]), "user")
    assert (await roots.refresh()).available == ()


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5_000])
async def test_a_path_that_is_none_is_neither_added_nor_looked_at(two: tuple[Path, Path], path: str) -> None:
    roots = create_sharing(two)[1]
    for act in (roots.add, roots.remove, roots.inspect_folder):
        with pytest.raises(UsageError, match="A path has 1 to"):
            await act(path)


async def test_the_number_of_shared_folders_is_bounded(two: tuple[Path, Path], tmp_path: Path) -> None:
    made = [tmp_path / f"n{number}" for number in range(MAX_ROOTS)]
    for item in made:
        item.mkdir()
    roots = Roots(tuple(RootConfig(str(item)) for item in made))
    with pytest.raises(UsageError, match="At most"):
        await roots.add(str(two[0]))
    await roots.remove(str(made[0]))
    await roots.add(str(two[0]))
    with pytest.raises(UsageError, match="At most"):
        await roots.add(str(made[0]))


async def test_an_unreadable_folder_is_not_shared(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    sharing, _, _, frontend = create_sharing(two, ShareOnce())
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(two[1]))
    assert uris(await sharing.answer("")) == [two[0].as_uri()]
    question = frontend.asked[0]
    assert isinstance(question, ShareRoots)
    assert question.gone == (str(two[1]),)


def create_stored_sharing(
    path: Path, two: tuple[Path, Path], *answers: Any, digest: str = "d"
) -> tuple[RootSharing, Book, ScriptedFrontend]:
    """One run of mcphost with its answers on the disk."""
    audit_log, frontend = Book(), ScriptedFrontend(*answers)
    roots = Roots(tuple(RootConfig(str(item)) for item in two))
    store = FolderAnswerStore(Database(path / "answers.db"))
    return (
        RootSharing(
            "s", roots, frontend, audit_log, folder_questions=FolderQuestions(answers=store), digest=lambda: digest
        ),
        audit_log,
        frontend,
    )


async def test_an_answer_for_good_holds_in_later_runs_and_for_this_server_alone(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    first, _, _ = create_stored_sharing(tmp_path, two, ShareAlways())
    assert len(uris(await first.answer(""))) == 2
    assert first.known_roots.is_permanent
    later, audit_log, frontend = create_stored_sharing(tmp_path, two)
    assert len(uris(await later.answer(""))) == 2
    assert frontend.asked == []
    assert audit_log.told == [("2 folders", {"roots": [item.as_uri() for item in two]})]
    changed, _, frontend = create_stored_sharing(tmp_path, two, DoNotShare(), digest="another")
    assert isinstance(await changed.answer(""), ServerRequestRejection)
    assert len(frontend.asked) == 1


async def test_a_folder_that_a_server_may_never_know_is_left_out_without_a_question(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    first, _, _ = create_stored_sharing(tmp_path, (two[0], two[0]), NeverShare())
    assert uris(await first.answer("")) == []
    later, _, frontend = create_stored_sharing(tmp_path, two, ShareOnce())
    assert uris(await later.answer("")) == [two[1].as_uri()]
    (question,) = frontend.asked
    assert isinstance(question, ShareRoots)
    assert [root.uri for root in question.roots] == [two[1].as_uri()], "only what nothing was said about"


async def test_a_new_folder_is_asked_about_alone_and_refusing_it_leaves_what_was_agreed_to(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    first, _, _ = create_stored_sharing(tmp_path, (two[0], two[0]), ShareAlways())
    await first.answer("")
    later, _, frontend = create_stored_sharing(tmp_path, two, DoNotShare())
    assert uris(await later.answer("")) == [two[0].as_uri()]
    (question,) = frontend.asked
    assert isinstance(question, ShareRoots)
    assert [root.uri for root in question.roots] == [two[1].as_uri()]


async def test_a_permanent_answer_that_cannot_be_stored_lasts_for_this_run_and_is_reported(
    two: tuple[Path, Path],
) -> None:
    class Broken(FolderAnswerStore):
        async def save(self, *given: Any, **more: Any) -> None:
            raise StoreError("The disk is full.")

        async def find_for_server(self, server: str, digest: str) -> dict[str, FolderAnswer]:
            return {}

    messages: list[str] = []
    roots, frontend = Roots((RootConfig(str(two[0])),)), ScriptedFrontend(ShareAlways())
    broken = Broken(Database(two[0] / "s.db"))
    sharing = RootSharing(
        "s",
        roots,
        frontend,
        Book(),
        folder_questions=FolderQuestions(answers=broken),
        notify=lambda text, hint: messages.append(text),
    )
    assert len(uris(await sharing.answer(""))) == len(uris(await sharing.answer(""))) == 1
    assert (len(frontend.asked), messages) == (1, ["The disk is full."])
    assert not sharing.known_roots.is_permanent


# -- waiting until it is needed
PIPE = ServerRequestContext(revision=Revision.V2025_11_25)


class Asking:
    """Some servers of one run, connected and asking by themselves."""

    def __init__(self, two: tuple[Path, Path], *answers: Any, names: tuple[str, ...] = ("s",)) -> None:
        self.book, self.front, self.now = Book(), ScriptedFrontend(*answers), 0.0
        self.roots = Roots(tuple(RootConfig(str(item)) for item in two))
        self.questions = FolderQuestions(self.book, clock=lambda: self.now)
        self.servers = {
            name: RootSharing(name, self.roots, self.front, self.book, folder_questions=self.questions)
            for name in names
        }
        self.got: dict[str, list[Any]] = {name: [] for name in names}
        for server in self.servers.values():
            server.mark_ready()

    async def ask(self, name: str) -> None:
        """A roots/list of that server, while nothing of it runs."""
        self.got[name].append(await self.servers[name].answer("", PIPE))

    async def waiting(self, *names: str, count: int = 1) -> None:
        """Wait until this many requests of each server are held."""
        while not all(self.servers[name].held_count >= count for name in names):
            await anyio.lowlevel.checkpoint()


async def test_a_server_that_asks_by_itself_is_asked_about_with_its_first_call(two: tuple[Path, Path]) -> None:
    it = Asking(two, ShareOnce())
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_HELD_REQUESTS):
                tasks.start_soon(it.ask, "s")
            await it.waiting("s", count=MAX_HELD_REQUESTS)
            assert it.front.asked == []
            with it.servers["s"].track_request("tools/call"):
                assert await it.servers["s"].prepare("its tool t is about to run")
    assert [question.why for question in it.front.asked] == ["its tool t is about to run"]
    assert [len(uris(reply)) for reply in it.got["s"]] == [2] * MAX_HELD_REQUESTS
    assert not await it.servers["s"].prepare("again")
    it.front.answers.append(DoNotShare())
    with it.servers["s"].track_request("tools/call"):
        await it.ask("s")
    assert isinstance(it.got["s"][-1], ServerRequestRejection), "once was for those that waited"


async def test_at_most_five_requests_of_a_server_wait_and_the_next_gets_an_empty_list(
    two: tuple[Path, Path],
) -> None:
    it = Asking(two)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_HELD_REQUESTS + 3):
                tasks.start_soon(it.ask, "s")
            while len(it.got["s"]) < 3:
                await anyio.lowlevel.checkpoint()
            await it.waiting("s", count=MAX_HELD_REQUESTS)
            tasks.cancel_scope.cancel()
    assert [uris(reply) for reply in it.got["s"]] == [[]] * 3
    assert it.front.asked == []


@pytest.mark.parametrize(("limit", "method"), [("HOLD_SECONDS", ""), ("BLOCKED_TIMEOUT", "tools/list")])
async def test_a_server_that_may_not_wait_gets_an_empty_list_without_a_question(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, limit: str, method: str
) -> None:
    monkeypatch.setattr(sharing_module, limit, 0.0)
    it = Asking(two)
    with anyio.fail_after(20), it.servers["s"].track_request(method) if method else nullcontext():
        await it.ask("s")
    assert [uris(reply) for reply in it.got["s"]] == [[]]
    assert it.front.asked == []
    assert it.servers["s"].known_roots.roots is None
    assert it.book.told == []


class Told:
    """A session that records notifications and requests the roots again, as servers do."""

    facts = SimpleNamespace(era="handshake")

    def __init__(self, it: Asking) -> None:
        self.it = it
        self.notices: list[str] = []

    async def notify(self, notice: Any) -> None:
        self.notices.append(notice.METHOD)
        await self.it.ask("s")


async def test_a_request_that_was_taken_back_is_asked_about_with_the_first_call_and_made_again(
    two: tuple[Path, Path],
) -> None:
    it = Asking(two, ShareOnce())
    told = Told(it)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.servers["s"].send_list_changes, cast("Any", told), print)
            async with anyio.create_task_group() as asking:
                asking.start_soon(it.ask, "s")
                await it.waiting("s")
                asking.cancel_scope.cancel()
            assert (it.front.asked, it.got["s"]) == ([], [])
            with it.servers["s"].track_request("tools/call"):
                assert await it.servers["s"].prepare("its tool t is about to run")
                assert told.notices == ["notifications/roots/list_changed"]
                assert [len(uris(reply)) for reply in it.got["s"]] == [2], "told again before the call"
            tasks.cancel_scope.cancel()
    assert len(it.front.asked) == 1


async def test_what_a_program_that_is_gone_wanted_is_not_asked_for_the_next_one(two: tuple[Path, Path]) -> None:
    it = Asking(two)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as asking:
            asking.start_soon(it.ask, "s")
            await it.waiting("s")
            asking.cancel_scope.cancel()
        await it.servers["s"].begin_connection()
        it.servers["s"].mark_ready()
        assert not await it.servers["s"].prepare("its tool t is about to run")
    assert it.front.asked == []


async def test_a_call_that_is_stopped_withdraws_the_question_and_the_next_one_asks_it(two: tuple[Path, Path]) -> None:
    it = Asking(two)
    server = it.servers["s"]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.ask, "s")
            await it.waiting("s")
            async with anyio.create_task_group() as call:
                call.start_soon(server.prepare, "one")
                await it.front.asked_now.wait()
                call.cancel_scope.cancel()
            assert it.got["s"] == []
            it.front.answers.append(ShareSession())
            assert await server.prepare("two")
    assert [question.why for question in it.front.asked] == ["one", "two"]
    assert len(uris(it.got["s"][0])) == 2


async def test_a_server_keeps_what_it_may_know_while_a_new_folder_waits_for_its_next_call(
    two: tuple[Path, Path],
) -> None:
    it = Asking(two, ShareSession(), ShareSession())
    told, server = Told(it), it.servers["s"]
    with anyio.fail_after(20):
        assert len(uris(await server.answer(""))) == 2
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.send_list_changes, cast("Any", told), print)
            await it.roots.add(str(two[0].parent))
            while not it.got["s"]:
                await anyio.lowlevel.checkpoint()
            assert len(uris(it.got["s"][0])) == 2, "what was agreed to, at once"
            assert len(it.front.asked) == 1
            with server.track_request("tools/call"):
                await server.prepare("its tool t is about to run")
            assert len(uris(it.got["s"][-1])) == 3
            tasks.cancel_scope.cancel()
    assert len(it.front.asked) == 2


# -- several servers
async def test_servers_that_wait_at_the_same_moment_are_one_question_with_an_answer_for_each(
    two: tuple[Path, Path],
) -> None:
    names = ("a", "b", "c", "d")
    it = Asking(two, SharePerServer({"a": "once", "b": "session", "d": "never"}), names=names)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(it.ask, name)
            await it.waiting(*names)
            await it.servers["b"].prepare("its tool t is about to run")
    (question,) = it.front.asked
    assert isinstance(question, ShareRoots)
    assert (question.server, sorted(asker.server for asker in question.askers)) == ("b", list(names))
    assert [len(uris(it.got[name][0])) for name in ("a", "b", "d")] == [2, 2, 0]
    assert isinstance(it.got["c"][0], ServerRequestRejection)


@pytest.mark.parametrize(("answer", "counts"), [(DoNotShare(), (0, 0)), (ShareAlways(), (2, 0)), (None, (0, 0))])
async def test_an_answer_that_names_no_server_is_no_agreement_for_those_beside_the_first(
    two: tuple[Path, Path], answer: Any, counts: tuple[int, int]
) -> None:
    it = Asking(two, answer, names=("a", "b"))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for name in it.servers:
                tasks.start_soon(it.ask, name)
            await it.waiting(*it.servers)
            await it.servers["a"].prepare("")
    received = [it.got[name][0] for name in it.servers]
    assert tuple(len(message.roots) if isinstance(message, ListRootsResult) else 0 for message in received) == counts


# -- floods
async def test_a_refusal_answers_for_a_minute_or_until_the_list_changes(two: tuple[Path, Path]) -> None:
    it = Asking(two, DoNotShare(), DoNotShare(), ShareSession())
    server = it.servers["s"]
    for _ in range(20):
        assert isinstance(await server.answer(""), ServerRequestRejection)
    assert len(it.front.asked) == 1
    it.now = 59.9
    assert isinstance(await server.answer(""), ServerRequestRejection)
    assert len(it.front.asked) == 1
    it.now = 60.1
    assert isinstance(await server.answer(""), ServerRequestRejection)
    assert len(it.front.asked) == 2
    await it.roots.remove(str(two[1]))
    assert len(uris(await server.answer(""))) == 1
    assert len(it.front.asked) == 3


async def test_the_same_telling_is_recorded_once(two: tuple[Path, Path]) -> None:
    it = Asking(two, ShareSession())
    server = it.servers["s"]
    for _ in range(20):
        assert len(uris(await server.answer(""))) == 2
    assert len(it.book.told) == 1
    await it.roots.remove(str(two[1]))
    assert len(uris(await server.answer(""))) == 1
    assert [decision for decision, _ in it.book.told] == ["2 folders", "1 folder"]
