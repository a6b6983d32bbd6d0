"""Fixtures that run the app with a scripted host."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from textual._compositor import Compositor
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList

from mcphost.tui import input_guard
from mcphost.tui.app import McpHostApp
from mcphost.tui.frontend import TuiFrontend
from mcphost.tui.key_table import DEFAULT_KEYS, KeyTable
from mcphost.tui.screens.chat import ChatScreen
from mcphost.tui.themes import ThemeOptions
from tests.fakes.clock import ManualClock
from tests.screens.fake_host import FakeHost
from tests.screens.rendering import draw, frames_on_demand, share_parsed_rules, wait_messages_handled, wait_settled

if TYPE_CHECKING:
    from tests.screens.real_program import Files


class AppDriver:
    """A driver for a running app; `draws_behind` says whether dialogs are drawn over the dimmed chat."""

    def __init__(self, app: McpHostApp, host: FakeHost, frontend: TuiFrontend, pilot: Pilot[None]) -> None:
        self.app, self.host, self.frontend, self.pilot = app, host, frontend, pilot
        self.draws_behind = False
        self._drawn: set[Screen[Any]] = set()

    async def until(self, truth: Callable[[], Any], what: str = "") -> None:
        """Wait until *truth* returns a true value, at most a minute; draw each new dialog or page once."""
        deadline = monotonic() + 60
        while not truth():
            if monotonic() > deadline or self.app._exception:
                break
            await asyncio.sleep(0.01)
            self.app.screen._on_timer_update()
        else:
            if not isinstance(self.app.screen, ChatScreen) and self.app.screen not in self._drawn:
                self._drawn.add(self.app.screen)
                draw(self.app, behind=self.draws_behind)
            return
        pytest.fail(f"never came: {what or truth}\n{self.text()}")

    def draw_last(self) -> None:
        """Draw the screen at the end of a test, unless it is the chat and other screens were drawn before."""
        if not self._drawn or not isinstance(self.app.screen, ChatScreen):
            draw(self.app)

    def popup_rows(self) -> list[str]:
        """Return the rows of the open popup with completions."""
        lists = self.app.screen.query(OptionList)
        return [str(option.prompt).strip() for popup in lists for option in popup.options]

    @property
    def dialog(self) -> Any:
        """The topmost screen if it is a dialog that accepts keys, otherwise None."""
        screen = self.app.screen
        return screen if hasattr(screen, "is_guarded") and not screen.is_guarded else None

    async def enter_question(self) -> Any:
        """Wait for a question, give it the focus with F8, and return its dialog once it accepts answers."""
        await self.until(
            lambda: (
                self.app.screen.query("QuestionCard")
                or (self.dialog is not None and self.dialog.query_one("#keys").styles.text_opacity == 1)
            ),
            "a question",
        )
        await self.enter()
        return self.dialog

    async def enter(self) -> None:
        """Give the question the focus with F8, and wait until it accepts keys."""
        await self.pilot.press("f8")
        await self.until(
            lambda: (
                self.dialog is not None
                and self.dialog.query_one("#keys").styles.text_opacity == 1
                and not self.dialog.guard.is_blocking(0, is_letter=True)
            ),
            "a question that hears",
        )

    async def type(self, text: str) -> None:
        """Type text key by key."""
        names = {
            " ": "space",
            "/": "slash",
            "!": "exclamation_mark",
            "@": "at",
            "=": "equals_sign",
            ".": "full_stop",
            "-": "minus",
            "_": "underscore",
            "\n": "ctrl+j",
        }
        await self.pilot.press(*(names.get(char, char) for char in text))

    def press_together(self, *keys: str) -> None:
        """Post several keys before the first one is handled, as they arrive over a slow connection."""
        for key in keys:
            typed = {"enter": "\r", "escape": "\x1b"}.get(key, key if len(key) == 1 else None)
            self.app.post_message(Key("space" if key == " " else key, typed))

    def text(self) -> str:
        """Return the text of the whole screen."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line) for line in lines)

    def has_notified(self, text: str) -> bool:
        """Return whether a notification that contains this text is still visible."""
        return any(text in one.message for one in self.app._notifications)

    def transcript(self) -> str:
        """Return the text of the whole conversation."""
        blocks = self.app.chat.presenter.transcript.blocks
        return "\n".join(piece.content.plain for block in blocks for piece in block.render(100))


Run = Callable[..., AbstractAsyncContextManager[AppDriver]]
_RENDER_UPDATE = Compositor.render_update
GUARD_SECONDS = input_guard.GUARD_SECONDS


@pytest.fixture(autouse=True)
def _patch_idle_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pilot continue after a key or a zero-second pause as soon as the app is idle."""
    monkeypatch.setattr("textual.app.wait_for_idle", wait_settled)
    monkeypatch.setattr("textual.pilot.wait_for_idle", wait_settled)
    monkeypatch.setattr(Pilot, "_wait_for_screen", wait_messages_handled)


@pytest.fixture(autouse=True)
def _require_drawing() -> None:
    """Fail if an earlier test has left a patch in place that keeps apps from being drawn."""
    assert Compositor.render_update is _RENDER_UPDATE, "an earlier test in this worker left it patched"


@pytest.fixture(autouse=True)
def _share_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    share_parsed_rules(monkeypatch)


@pytest.fixture(autouse=True)
def _shorten_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time during which a new question ignores keys, because tests answer hundreds of questions."""
    monkeypatch.setattr(input_guard, "GUARD_SECONDS", 0.01)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Return a manual clock that controls how long a new question ignores keys; the length itself is the real one."""
    clock = ManualClock()
    monkeypatch.setattr(input_guard, "clock", clock)
    monkeypatch.setattr(input_guard, "GUARD_SECONDS", GUARD_SECONDS)
    return clock


@pytest.fixture
def run() -> Run:
    """Return `run`; `async with run(host options) as driver:` runs an app with a scripted host."""

    @asynccontextmanager
    async def running(
        *,
        size: tuple[int, int] = (100, 30),
        demo: bool = False,
        greeting: str = "",
        theme: ThemeOptions | None = None,
        keys: KeyTable = DEFAULT_KEYS,
        reader: bool = False,
        notifications: bool = False,
        **options: Any,
    ) -> AsyncIterator[AppDriver]:
        frontend = TuiFrontend()
        host = FakeHost(frontend, **options)
        app = McpHostApp(host, frontend, demo=demo, greeting=greeting, theme=theme, keys=keys, reader=reader)  # type: ignore[arg-type]
        with frames_on_demand():
            async with app.run_test(size=size, notifications=notifications) as pilot:
                frontend.bind(app)
                driver = AppDriver(app, host, frontend, pilot)
                await driver.until(lambda: host.started, "the start")
                await pilot.pause()
                yield driver
                driver.draw_last()
                app.request_quit()

    return running


Turn = Callable[[FakeHost, int, str], Awaitable[str]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Files":
    """Return the configuration files of the complete program, which `files.open()` runs."""
    from tests.screens.real_program import Files

    return Files.create(tmp_path, monkeypatch)
