"""Tests for requests from real servers, answered by keyboard in the dialogs of the complete program."""

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste

from mcphost.auth.browser import open_url
from mcphost.cli.build_host import open_host
from mcphost.cli.parser import Options
from mcphost.host.events import NoticeEvent, ToolFinished
from mcphost.tui.app import McpHostApp
from mcphost.tui.dialogs.fill_form import FillFormDialog
from mcphost.tui.dialogs.review_sampling import ReviewSamplingDialog
from mcphost.tui.dialogs.review_sampling_reply import ReviewReplyDialog
from mcphost.tui.dialogs.share_roots import ShareRootsDialog
from mcphost.tui.dialogs.visit_url import RetryCallDialog, VisitUrlDialog
from mcphost.tui.forms.form import Form
from mcphost.tui.frontend import TuiFrontend
from mcphost.tui.input_guard import GUARD_SECONDS
from mcphost.tui.widgets.composer import Composer
from tests.peers import node
from tests.screens.conftest import AppDriver, Run

# Each test starts a real server, and some fill in long forms key by key.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
SDK = str(Path(__file__).parents[1] / "peers" / "sdk_feature_server.py")
SECONDS = 60
APPROVING_KEYS = frozenset({"a", "s"})
"""Keys that a dialog ignores until it has shown its content to the end, which takes longer on a loaded machine."""
BROWSER = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + chr(10))"


class RealAppDriver(AppDriver):
    """A driver for the complete program; `visited` contains the URLs with which the browser was started."""

    def __init__(self, folder: Path, *run: Run) -> None:
        super().__init__(*run)
        self.folder = folder
        self.finished: list[ToolFinished] = []
        self.told: list[str] = []

    async def until(self, truth: Callable[[], Any], what: str = "") -> None:
        """Wait until *truth* returns a true value, for longer than AppDriver does, because processes must start."""
        until = time.monotonic() + SECONDS
        while not truth():
            if time.monotonic() > until:
                pytest.fail(f"never came: {what or truth}\n{self.text()}")
            await self.pilot.pause(0.02)

    async def listen(self) -> None:
        """Collect the results of calls, and the notices to the user, until the host closes."""
        async for event in self.host.events.subscribe():
            if isinstance(event, ToolFinished):
                self.finished.append(event)
            elif isinstance(event, NoticeEvent):
                self.told.append(event.text)

    async def ready(self, tools: int) -> None:
        """Wait until the server is ready and has *tools* tools, some of which it adds after the handshake."""

        def is_there() -> bool:
            view = self.host.servers.view("peer")
            return view.state == "ready" and view.facts is not None and len(view.catalog.tools) == tools

        await self.until(is_there, f"{tools} tools")

    async def call(self, tool: str, **arguments: Any) -> None:
        """Start a tool call by the user, with a command in the composer."""
        self.finished.clear()
        self.app.chat.query_one(Composer).set_text(f"!peer/{tool} {json.dumps(arguments)}", "typed")
        await self.pilot.press("enter")

    async def asked(self, kind: type[Any]) -> Any:
        """Wait for a question, give it the focus, and return its dialog, which must be of this kind."""
        await self.until(lambda: self.is_asked, kind.__name__)
        await self.enter()
        assert isinstance(self.dialog, kind)
        assert self.app.focused.id == "refuse"
        return self.dialog

    @property
    def is_asked(self) -> bool:
        """Whether a question is open, or waits as a card without the focus."""
        return bool(self.dialog or self.app.screen.query("QuestionCard"))

    async def answer(self, kind: type[Any], *keys: str) -> str:
        """Answer the question with these keys; return the text that was on the screen before."""
        dialog = await self.asked(kind)
        shown = self.text()
        for key in keys:
            if key in APPROVING_KEYS:
                await self.until(lambda: dialog.is_read, "the end of the content")
            await self.pilot.press(key)
        await self.until(lambda: self.app.screen is not dialog, "that it closes")
        return shown

    async def result(self) -> ToolFinished:
        """Wait for the result of the call, and return it."""
        await self.until(lambda: self.finished, "the result")
        assert self.app.screen is self.app.chat, "no question is left"
        return self.finished.pop()

    @property
    def visited(self) -> list[str]:
        path = self.folder / "visited"
        return path.read_text().splitlines() if path.exists() else []

    async def step(self, step: str) -> None:
        """Press a key, or enter a text: `'text` is typed, and `+text` is pasted."""
        if step.startswith("'"):
            await self.type(step[1:])
        elif step.startswith("+"):
            self.app.post_message(Paste(step[1:]))
            await self.pilot.pause()
            pasted_at = time.monotonic()  # a key that follows at once may belong to the paste, and is ignored
            await self.until(lambda: time.monotonic() - pasted_at > GUARD_SECONDS, "a pause")
        else:
            await self.pilot.press(step)


Open = Callable[..., AbstractAsyncContextManager[RealAppDriver]]


@pytest.fixture
def open_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Return `open_app(command, tools, …)`, a context manager that runs mcphost with the server `peer`.

    The server has that command, and is ready when it lists that number of tools.
    """
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"MCPHOST_{kind}_DIR", str(tmp_path / kind.lower()))
    for name in ("config", "al pha", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f'roots = [{{path = "{tmp_path / "al pha"}", name = "alpha"}}, "{tmp_path / "b"}"]\n'
    )
    (tmp_path / "browser.py").write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {tmp_path / 'browser.py'} {tmp_path / 'visited'} %s")

    @asynccontextmanager
    async def opened(command: list[str], tools: int, **options: Any) -> AsyncIterator[RealAppDriver]:
        (tmp_path / "servers.json").write_text(
            json.dumps({"mcpServers": {"peer": {"command": command[0], "args": command[1:]}}})
        )
        chosen = Options(mcp_config=(str(tmp_path / "servers.json"),), model="demo", **options)
        frontend = TuiFrontend()
        async with open_host(chosen, frontend, open_url=open_url) as host:
            app = McpHostApp(host, frontend)
            async with app.run_test(size=(100, 40)) as pilot:
                driver = RealAppDriver(tmp_path, app, host, frontend, pilot)
                app.run_worker(driver.listen())
                frontend.bind(app)
                await driver.ready(tools)
                yield driver
                app.request_quit()

    return opened


@pytest.fixture
def open_everything(open_app: Open, npm_peers: Path) -> Callable[..., AbstractAsyncContextManager[RealAppDriver]]:
    """Return `open_everything(*roots)`, which runs mcphost with server-everything, a server that requests roots.

    The keys in *roots* answer the question whether to share the folders.
    """

    @asynccontextmanager
    async def opened(*roots: str) -> AsyncIterator[RealAppDriver]:
        async with open_app(node.everything_command(), 19) as driver:
            sharing = driver.host.servers.find("peer").request_handler.root_sharing
            await driver.until(lambda: sharing.is_waiting, "that the server asked")
            assert not driver.is_asked
            first = driver.call

            async def call(tool: str, **arguments: Any) -> None:
                driver.call = first  # type: ignore[method-assign]
                await first(tool, **arguments)
                await driver.answer(ShareRootsDialog, *(roots or ("escape",)))

            driver.call = call  # type: ignore[method-assign]
            yield driver

    return opened


@pytest.mark.peer
@pytest.mark.req("roots.list.legacy")
async def test_folders_are_shared_with_the_reference_server_after_approval(
    open_everything: Open, tmp_path: Path
) -> None:
    async with open_everything("s") as driver:
        await driver.call("get-roots-list")
        told = (await driver.result()).text
    assert "Current MCP Roots (2 total)" in told
    assert f"1. alpha\n   URI: file://{tmp_path}/al%20pha" in told
    assert f"2. Unnamed Root\n   URI: file://{tmp_path}/b" in told


@pytest.mark.peer
@pytest.mark.req("sec.consent.data")
async def test_the_reference_server_gets_no_folder_that_the_user_withholds(
    open_everything: Open, tmp_path: Path
) -> None:
    async with open_everything("escape") as driver:
        await driver.call("get-roots-list")
        # The server asks again; mcphost does not ask the user again.
        told = (await driver.result()).text
    assert "alpha" not in told
    assert str(tmp_path) not in told


@pytest.mark.peer
@pytest.mark.req("samp.legacy-wire")
async def test_the_reference_server_gets_the_models_answer_or_the_refusal(open_everything: Open) -> None:
    async with open_everything() as driver:
        await driver.call("trigger-sampling-request", prompt="hello", maxTokens=7)
        shown = await driver.answer(ReviewSamplingDialog, "end", "a")
        for words in ("Resource trigger-sampling-request context: hello", "You are a helpful test server.", "7 tokens"):
            assert words in shown, words
        assert "maxTokens" in await driver.answer(ReviewReplyDialog, "a")
        result = await driver.result()
        assert result.outcome == "ok"
        assert '"model": "demo"' in result.text
        assert '"stopReason": "maxTokens"' in result.text

        await driver.call("trigger-sampling-request", prompt="hello", maxTokens=7)
        await driver.answer(ReviewSamplingDialog, "end", "a")
        await driver.answer(ReviewReplyDialog, "escape")
        second_result = await driver.result()
        assert second_result.outcome == "error"
        assert "-1" in second_result.text

        await driver.call("trigger-sampling-request", prompt="hello", maxTokens=7)
        await driver.answer(ReviewSamplingDialog, "escape")
        refused = await driver.result()
    assert refused.outcome == "error"
    assert "-1" in refused.text


FILLED: dict[str, tuple[tuple[str, ...], Any]] = {
    "name": (("'Ada",), "Ada"),
    "check": (("space",), True),
    "firstLine": (("ctrl+u", "'It"), "It"),
    "email": (("+ada@example.com",), "ada@example.com"),
    "homepage": (("+https://example.com",), "https://example.com"),
    "birthdate": (("+1815-12-10",), "1815-12-10"),
    "integer": (("ctrl+u", "'7"), 7),
    "number": (("ctrl+u", "'2.5"), 2.5),
    "untitledSingleSelectEnum": (("end", "space"), "Phoebe"),
    "untitledMultipleSelectEnum": (("end", "space"), ["Guitar", "Bass"]),
    "titledSingleSelectEnum": (("down", "space"), "hero-2"),
    "titledMultipleSelectEnum": (("down", "space"), ["fish-1", "fish-2"]),
    "legacyTitledEnum": (("down", "space"), "pet-2"),
}
"""The keys pressed in each field, text typed after a quote or pasted after a plus; and what the server is to get."""


async def _form(driver: RealAppDriver) -> FillFormDialog:
    await driver.call("trigger-elicitation-request")
    return await driver.asked(FillFormDialog)


async def _raw(driver: RealAppDriver) -> Any:
    result = await driver.result()
    assert result.outcome == "ok"
    return json.loads(result.text.partition("Raw result: ")[2])


@pytest.mark.peer
@pytest.mark.req("elic.actions", "elic.review", "elic.wire.legacy")
async def test_the_reference_servers_thirteen_fields_arrive_as_typed(open_everything: Open) -> None:
    async with open_everything() as driver:
        dialog = await _form(driver)
        await driver.pilot.press("tab")
        rows = dialog.query_one(Form).rows
        assert [row.field.name for row in rows if row.field.required] == ["name"]
        assert {row.field.name for row in rows} == set(FILLED)
        for row in rows:
            assert driver.app.focused is row.field_widget
            for step in FILLED[row.field.name][0]:
                await driver.step(step)
            await driver.pilot.press("tab")
        assert driver.app.focused.id == "send"
        await driver.pilot.press("enter")
        assert await _raw(driver) == {"action": "accept", "content": {name: sent for name, (_, sent) in FILLED.items()}}


@pytest.mark.peer
@pytest.mark.req("elic.form.defaults", "elic.form.validate")
async def test_the_reference_server_gets_its_own_defaults_and_no_invalid_number(
    open_everything: Open,
) -> None:
    async with open_everything() as driver:
        await _form(driver)
        await driver.pilot.press("tab")
        await driver.type("Ada")
        await driver.pilot.press(*["tab"] * 6, "1")
        await driver.until(lambda: "✗ must be at most 100" in driver.text(), "what is wrong")
        await driver.pilot.press("ctrl+s")
        await driver.pilot.pause()
        assert not driver.finished, "nothing was sent"
        await driver.pilot.press("backspace", "ctrl+s")
        assert await _raw(driver) == {
            "action": "accept",
            "content": {
                "name": "Ada", "firstLine": "It was a dark and stormy night.", "integer": 42, "number": 3.14,
                "untitledSingleSelectEnum": "Monica", "untitledMultipleSelectEnum": ["Guitar"],
                "titledSingleSelectEnum": "hero-1", "titledMultipleSelectEnum": ["fish-1"], "legacyTitledEnum": "pet-1",
            },
        }  # fmt: skip


@pytest.mark.peer
@pytest.mark.req("elic.actions")
async def test_the_reference_server_distinguishes_declined_from_cancelled_forms(open_everything: Open) -> None:
    async with open_everything() as driver:
        for keys, action, words in (
            (("ctrl+d",), "decline", "declined to provide"),
            (("right", "enter"), "decline", "declined to provide"),
            (("escape",), "cancel", "cancelled the elicitation"),
        ):
            await driver.call("trigger-elicitation-request")
            await driver.answer(FillFormDialog, *keys)
            result = await driver.result()
            assert words in result.text
            assert json.loads(result.text.partition("Raw result: ")[2])["action"] == action


@pytest.mark.peer
@pytest.mark.req("elic.url.consent", "elic.url.required-error")
async def test_the_reference_servers_urls_open_only_with_the_users_consent(open_everything: Open) -> None:
    there = {"url": "https://example.com/x?a=1&b=2", "elicitationId": "e1"}
    async with open_everything() as driver:
        await driver.call("trigger-url-elicitation", **there)
        shown = await driver.answer(VisitUrlDialog, "escape")
        assert there["url"] in shown
        assert "cancel" in (await driver.result()).text
        await driver.call("trigger-url-elicitation", **there)
        await driver.answer(VisitUrlDialog, "d")
        assert "decline" in (await driver.result()).text
        assert driver.visited == []

        await driver.call("trigger-url-elicitation", **there)
        await driver.answer(VisitUrlDialog, "o")
        result = await driver.result()
        assert "Elicitation ID: e1" in result.text
        assert driver.visited == [there["url"]]

        # The call fails with -32042 and another URL; after the visit the same call continues.
        await driver.call("trigger-url-elicitation", **there, errorPath=True)
        await driver.answer(VisitUrlDialog, "o")
        await driver.answer(RetryCallDialog, "r")
        await driver.answer(VisitUrlDialog, "o")
        assert (await driver.result()).outcome == "ok"
        first, second, third = driver.visited
        assert (first, third) == (there["url"], there["url"])
        assert second != there["url"]

        await driver.call("trigger-url-elicitation", **there, errorPath=True)
        await driver.answer(VisitUrlDialog, "d")
        await driver.until(lambda: "declined" in driver.transcript(), "what came of it")
        assert len(driver.visited) == 3


# -- a server of the Python SDK, at 2026-07-28
AGREED: dict[type[Any], tuple[str, ...]] = {
    FillFormDialog: ("tab", "A", "d", "a", "ctrl+s"),
    VisitUrlDialog: ("o",),
    ReviewSamplingDialog: ("end", "a"),
    ReviewReplyDialog: ("a",),
    ShareRootsDialog: ("a",),
}


async def _answered(driver: RealAppDriver, tool: str, **keys: tuple[str, ...]) -> list[str]:
    """Call a tool and agree to each question, or press the keys given for it; return the class names of the dialogs."""
    await driver.call(tool)
    recorded: list[str] = []
    while True:
        await driver.until(
            lambda: driver.is_asked or driver.finished or "declined" in driver.transcript(), "a question, or the end"
        )
        if not driver.is_asked:
            return recorded
        await driver.enter()
        dialog = driver.dialog
        assert driver.app.focused.id == "refuse"
        recorded.append(type(dialog).__name__)
        await driver.pilot.press(*keys.get(recorded[-1], AGREED[type(dialog)]))
        await driver.until(lambda left=dialog: driver.app.screen is not left, "that it closes")


@pytest.mark.req("mrtr.fulfil", "elic.wire.modern", "samp.modern-wire", "roots.list.modern", revisions=("2026-07-28",))
async def test_an_sdk_server_of_2026_gets_all_its_requests_answered_in_one_round_or_several(
    open_app: Open, tmp_path: Path
) -> None:
    folders = f"file://{tmp_path}/al%20pha | file://{tmp_path}/b"
    async with open_app([sys.executable, SDK, "stdio"], 13, era="stateless") as driver:
        assert driver.host.servers.view("peer").facts.revision == "2026-07-28"
        seen = await _answered(driver, "survey")
        assert sorted(seen) == sorted(kind.__name__ for kind in AGREED)
        given = (await driver.result()).text
        assert given.startswith("Ada 30 | accept | "), given
        assert given.endswith(f" | demo | {folders}"), given
        assert driver.visited == ["https://example.com/in"]

        await _answered(driver, "survey", FillFormDialog=("ctrl+d",), VisitUrlDialog=("escape",))
        assert (await driver.result()).text.startswith("decline | cancel | ")
        assert len(driver.visited) == 1

        seen = await _answered(driver, "rounds")
        assert seen[0] == "FillFormDialog"
        assert sorted(seen[1:]) == ["ReviewReplyDialog", "ReviewSamplingDialog", "ShareRootsDialog"]
        given = (await driver.result()).text
        assert given.startswith("Ada: ")
        assert given.endswith(" in 2 folder")


@pytest.mark.req("mrtr.decline", "samp.reject.modern", "sec.consent.data")
@pytest.mark.parametrize("dialog", ["ReviewSamplingDialog", "ReviewReplyDialog", "ShareRootsDialog"])
async def test_escape_ends_the_call_of_an_sdk_server_of_2026_and_nothing_of_that_round_is_sent(
    open_app: Open, dialog: str
) -> None:
    async with open_app([sys.executable, SDK, "stdio"], 13, era="stateless") as driver:
        seen = await _answered(driver, "survey", **{dialog: ("escape",)})
        assert dialog in seen
        await driver.until(lambda: driver.app.screen is driver.app.chat, "that no question is left")
        assert "Ada 30" not in driver.transcript()
        await driver.call("add", a=2, b=40)
        assert (await driver.result()).text == "42"
