"""Tests for shared folders (roots): checked before each disclosure, shared per server, with changes announced."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.schema import RootConfig
from mcphost.errors import ConsentDenied
from mcphost.host.questions.frontend import RefusingFrontend
from mcphost.host.questions.questions import DoNotShare, ShareOnce, ShareRoots, ShareSession
from mcphost.host.server_requests import roots as roots_module
from mcphost.host.server_requests.root_folders import RootFolders, file_uri, inspect_roots, startup_roots
from mcphost.host.server_requests.roots import Roots
from mcphost.protocol.server_requests import Root
from tests.fakes.frontend import ScriptedFrontend
from tests.parsed_settings import parse_settings
from tests.unit.host.asking_server import (
    BOTH_ERAS,
    HANDSHAKE,
    ROOTS,
    STATELESS,
    AskingServer,
    collect_replies,
    open_asking_host,
)

pytestmark = pytest.mark.anyio
ASK: dict[str, Any] = {"a": ROOTS}


@pytest.fixture
def configured_folders(tmp_path: Path) -> tuple[RootConfig, ...]:
    """Return two configured folders; the first has a display name, and unusual characters in its path."""
    odd, plain = tmp_path / "al pha %#ü", tmp_path / "plain"
    odd.mkdir()
    plain.mkdir()
    return RootConfig(str(odd), "alpha"), RootConfig(str(plain))


@pytest.mark.req("roots.list.legacy")
@pytest.mark.req("roots.list.modern")
@pytest.mark.req("roots.file-uri")
@pytest.mark.parametrize("revision", [*HANDSHAKE, STATELESS])
async def test_a_server_gets_the_folders_the_user_agreed_to_share(
    revision: str, configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    received, _ = await collect_replies(tmp_path, revision, ASK, ShareOnce(), roots=configured_folders)
    alpha, plain = received["a"]["result"]["roots"]
    assert alpha["name"] == "alpha"
    assert "name" not in plain
    assert alpha["uri"].startswith("file:///")
    assert "al%20pha%20%25%23%C3%BC" in alpha["uri"]
    assert alpha["uri"].isascii()
    assert unquote(urlsplit(alpha["uri"]).path) == configured_folders[0].path


@pytest.mark.req("sec.consent.data")
@pytest.mark.req("roots.consent")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_a_server_gets_no_roots_before_approval_and_later_only_as_approved(
    revision: str, configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    peer, frontend = AskingServer(revision, ASK), ScriptedFrontend(ShareOnce(), ShareSession())
    async with open_asking_host(tmp_path, peer, frontend, roots=configured_folders) as host:
        first = (await host.tools.call("peer", "ask", {})).text
        second = (await host.tools.call("peer", "ask", {})).text
        third = (await host.tools.call("peer", "ask", {})).text
    assert first == second == third
    assert [type(question) for question in frontend.asked] == [ShareRoots, ShareRoots]
    question = frontend.asked[0]
    assert isinstance(question, ShareRoots)
    assert (question.server, len(question.roots), question.gone) == ("peer", 2, ())


@pytest.mark.req("roots.consent")
async def test_agreeing_for_one_server_does_not_affect_another(
    configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    peers = {"one": AskingServer("2025-11-25", ASK), "two": AskingServer("2025-11-25", ASK)}
    frontend = ScriptedFrontend(ShareSession(), DoNotShare())
    async with open_asking_host(tmp_path, peers, frontend, roots=configured_folders) as host:
        assert "uri" in (await host.tools.call("one", "ask", {})).text
        assert "-1" in (await host.tools.call("two", "ask", {})).text
    assert [question.server for question in frontend.asked] == ["one", "two"]


@pytest.mark.req("roots.consent")
@pytest.mark.req("mrtr.decline")
async def test_a_refusal_is_an_error_in_one_era_and_ends_the_call_in_the_other(
    configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    received, _ = await collect_replies(tmp_path, "2025-11-25", ASK, DoNotShare(), roots=configured_folders)
    assert received["a"]["error"]["code"] == -1
    peer = AskingServer(STATELESS, ASK)
    async with open_asking_host(tmp_path, peer, ScriptedFrontend(DoNotShare()), roots=configured_folders) as host:
        with pytest.raises(ConsentDenied, match="does not share"):
            await host.tools.call("peer", "ask", {})
    assert len(peer.calls) == 1


@pytest.mark.req("roots.unsupported")
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_without_a_frontend_roots_are_not_declared(revision: str, tmp_path: Path) -> None:
    peer = AskingServer(revision, ASK)
    async with open_asking_host(tmp_path, peer, RefusingFrontend()) as host:
        assert "roots" not in peer.declared
        assert "-32601" in (await host.tools.call("peer", "ask", {})).text


@pytest.mark.req("roots.unsupported")
async def test_a_failure_inside_is_an_internal_error_without_details(
    configured_folders: tuple[RootConfig, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Roots) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Roots, "refresh", broken)
    received, _ = await collect_replies(tmp_path, "2025-11-25", ASK, roots=configured_folders)
    assert received["a"]["error"]["code"] == -32603
    assert "secret" not in received["a"]["error"]["message"]


# -- changes
@pytest.mark.req("roots.changed")
@pytest.mark.req("life.init.caps.roots")
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_each_change_is_announced_in_the_handshake_era_and_only_new_folders_ask(
    revision: str, configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    peer, frontend = AskingServer(revision, ASK), ScriptedFrontend(ShareSession(), ShareSession())
    (tmp_path / "new").mkdir()
    async with open_asking_host(tmp_path, peer, frontend, roots=configured_folders) as host:
        assert peer.declared["roots"] == {"listChanged": True}
        await host.tools.call("peer", "ask", {})
        await host.roots.remove(configured_folders[1].path)
        while "notifications/roots/list_changed" not in peer.notifications:
            await peer.changed.wait()
        assert peer.notifications.count("notifications/roots/list_changed") == 1
        fewer = (await host.tools.call("peer", "ask", {})).text
        assert ("plain" in fewer, len(frontend.asked)) == (False, 1)
        await host.roots.add(str(tmp_path / "new"))
        more = (await host.tools.call("peer", "ask", {})).text
        assert ("/new" in more, len(frontend.asked)) == (True, 2)


async def test_a_folder_removed_while_the_question_was_open_is_not_shared(
    configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    peer, frontend = AskingServer(HANDSHAKE[-1], ASK), ScriptedFrontend()
    async with open_asking_host(tmp_path, peer, frontend, roots=configured_folders) as host:

        async def agree(question: Any) -> ShareOnce:
            del question
            await host.roots.remove(configured_folders[1].path)
            return ShareOnce()

        frontend.answers.append(agree)
        assert "plain" not in (await host.tools.call("peer", "ask", {})).text


@pytest.mark.req("roots.changed-modern")
async def test_in_the_stateless_era_a_change_shows_in_the_next_answer_alone(
    configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    peer, frontend = AskingServer(STATELESS, ASK), ScriptedFrontend(ShareOnce(), ShareOnce())
    async with open_asking_host(tmp_path, peer, frontend, roots=configured_folders) as host:
        assert peer.declared["roots"] == {}
        assert "plain" in (await host.tools.call("peer", "ask", {})).text
        await host.roots.remove(configured_folders[1].path)
        assert "plain" not in (await host.tools.call("peer", "ask", {})).text
    assert not any("roots" in method for method in peer.notifications)


# -- valid roots
@pytest.mark.req("roots.permissions")
@pytest.mark.req("roots.monitor")
async def test_only_existing_readable_folders_are_shared_by_their_real_paths(
    configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(configured_folders[1].path)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    gone = [str(tmp_path / name) for name in ("file", "missing", "broken", "loop")]
    given = (*configured_folders, RootConfig(str(tmp_path / "link")), RootConfig(f"{tmp_path}/plain/../plain"))
    roots = Roots((*given, *(RootConfig(path) for path in gone), RootConfig("bad\0path")))
    now = await roots.refresh()
    assert [root.uri for root in now.roots] == [file_uri(Path(folder.path)) for folder in configured_folders]
    assert now.missing == (*gone, "bad\0path")


@pytest.mark.req("roots.monitor")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_a_folder_that_vanished_is_no_longer_shared_and_is_marked(
    revision: str, configured_folders: tuple[RootConfig, ...], tmp_path: Path
) -> None:
    peer, frontend = AskingServer(revision, ASK), ScriptedFrontend(ShareOnce(), ShareOnce())
    async with open_asking_host(tmp_path, peer, frontend, roots=configured_folders) as host:
        await host.tools.call("peer", "ask", {})
        os.rmdir(configured_folders[1].path)
        text = (await host.tools.call("peer", "ask", {})).text
    assert "plain" not in text
    question = frontend.asked[1]
    assert isinstance(question, ShareRoots)
    assert question.gone == (configured_folders[1].path,)


async def test_without_roots_the_answer_is_empty_and_no_question_is_asked(tmp_path: Path) -> None:
    received, questions = await collect_replies(tmp_path, STATELESS, ASK, roots=())
    assert (received["a"]["result"], questions) == ({"roots": []}, [])


async def test_the_working_directory_is_the_root_if_nothing_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (root,) = (await Roots(startup_roots()).refresh()).roots
    assert root == Root(file_uri(tmp_path), tmp_path.name)


async def test_servers_that_start_together_inspect_the_folders_once(
    configured_folders: tuple[RootConfig, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def counting(*words: Any) -> RootFolders:
        nonlocal looks
        looks += 1
        return inspect_roots(*words)

    monkeypatch.setattr(roots_module, "inspect_roots", counting)
    roots, found = Roots(configured_folders), list[RootFolders]()

    async def one() -> None:
        found.append(await roots.refresh())

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(one)
    assert looks == 1
    assert len(found) == 10
    assert all(len(item.roots) == 2 for item in found)
    await anyio.Path(configured_folders[1].path).rmdir()
    assert len((await roots.refresh()).roots) == 1
    assert looks == 2


async def test_a_cancelled_refresh_is_repeated_for_those_who_joined_it(
    configured_folders: tuple[RootConfig, ...],
) -> None:
    roots, found = Roots(configured_folders), list[RootFolders]()

    async def one(scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await roots.refresh())

    first = anyio.CancelScope()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, first)
            for _ in range(3):
                tasks.start_soon(one, anyio.CancelScope())
            await anyio.lowlevel.checkpoint()
            first.cancel()
    assert [len(item.roots) for item in found] == [2, 2, 2]


def test_names_that_are_not_utf8_are_encoded_byte_for_byte() -> None:
    assert file_uri(Path(os.fsdecode(b"/a/\xff b"))) == "file:///a/%FF%20b"


def test_roots_are_read_from_the_settings_and_wrong_ones_are_named() -> None:
    problems: list[str] = []
    text = 'roots = ["~/a", {path = "/b", name = "bee"}, "relative", 5, {name = "x"}]'
    config = parse_settings(text, "config.toml", problems.append)
    assert config.roots == (RootConfig("~/a"), RootConfig("/b", "bee"))
    assert len(problems) == 3
    assert parse_settings("", "config.toml", problems.append).roots is None
    assert parse_settings("roots = []", "config.toml", problems.append).roots == ()
