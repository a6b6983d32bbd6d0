"""Control how apps under test are rendered, and judge the contrast of what they show.

Tests wait until an app is idle, draw only when needed, and parse style sheets once.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest
from textual._compositor import Compositor
from textual._context import active_app
from textual.app import App
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region
from textual.pilot import Pilot

from tests.contrast import contrast

_FRAME_SECONDS = 1 / 50
_LONGEST_SECONDS = 30
_FEWEST_TURNS = 100


async def wait_settled(*_: float) -> None:
    """Wait until no task of the event loop can run and the screen is up to date.

    This replaces Textual's `wait_for_idle`, which on a busy machine mistakes a process that gets no CPU time for an
    idle one, and which waits a second during an animation.
    """
    await asyncio.sleep(_FRAME_SECONDS)
    await wait_calm()


async def wait_calm() -> None:
    """Wait like `wait_settled`, but without waiting for a frame first."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    app = active_app.get(None)
    deadline = monotonic() + _LONGEST_SECONDS
    calm_turns = turns = 0
    # On a busy machine, the process can stand still beyond the deadline, for example in a garbage collection.
    while calm_turns < 3 and (monotonic() < deadline or turns < _FEWEST_TURNS):
        drawn = app is None or not _needs_drawing(app)
        calm_turns = calm_turns + 1 if drawn and not ready else 0
        turns += 1
        await asyncio.sleep(0 if drawn else 0.005)


async def wait_messages_handled(pilot: Pilot[Any], timeout: float = 30) -> bool:
    """Wait until the app is idle; return False if it has failed.

    This replaces the pilot's own wait, which sends a message to every widget before and after each key.
    """
    del timeout
    await wait_calm()
    return not pilot.app._exception_event.is_set()


def _needs_drawing(app: App[object]) -> bool:
    if not app._screen_stack or not app.is_running:
        return False  # an app that has ended draws nothing
    screen = app.screen
    waiting = screen._layout_required or screen._repaint_required or screen._scroll_required
    return bool(waiting or screen._dirty_widgets or screen._callbacks)


@contextmanager
def frames_on_demand() -> Iterator[None]:
    """Render frames only when `draw` is called or a screenshot is taken.

    A headless app discards its frames, although rendering them takes a third of its CPU time.
    """
    render = Compositor.render_update

    def render_later(compositor: Compositor, full: bool = False, **options: Any) -> Any:
        return render(compositor, full, **options) if full or options.pop("now", False) else None

    with patch.object(Compositor, "render_update", render_later):
        yield


def draw(app: App[object], *, behind: bool = False) -> None:
    """Render all changes since the last call; with *behind*, also those of the dimmed screens behind."""
    if app._screen_stack and app.is_running:
        compositor: Any = app.screen._compositor
        compositor.render_update(screen_stack=app._background_screens if behind else None, now=True)


_PARSED: dict[tuple[tuple[str, str], ...], dict[Any, Any]] = {}
"""The rules of each source, by the values of the variables in it. Textual does not change rules that it has parsed."""


def share_parsed_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all style sheets with the same variables share one cache of parsed rules."""
    start, change = Stylesheet.__init__, Stylesheet.set_variables

    def start_shared(self: Stylesheet, *, variables: dict[str, str] | None = None) -> None:
        start(self, variables=variables)
        self._parse_cache = _PARSED.setdefault(tuple((variables or {}).items()), {})  # type: ignore[assignment]

    def change_shared(self: Stylesheet, variables: dict[str, str]) -> None:
        self._parse_cache = {}  # type: ignore[assignment]
        change(self, variables)
        self._parse_cache = _PARSED.setdefault(tuple(variables.items()), {})  # type: ignore[assignment]

    monkeypatch.setattr(Stylesheet, "__init__", start_shared)
    monkeypatch.setattr(Stylesheet, "set_variables", change_shared)


def outdated_styles(app: App[Any]) -> list[str]:
    """Apply the style sheet to the screen, and name each widget whose styles this changed."""
    nodes = list(app.screen.walk_children(with_self=True))
    before = [_style_rules(node) for node in nodes]
    app.stylesheet.update(app.screen)
    return [repr(node) for node, rules in zip(nodes, before, strict=True) if _style_rules(node) != rules]


def _style_rules(node: DOMNode) -> list[dict[str, Any]]:
    components = [styles.base for _name, styles in sorted(node._component_styles.items())]
    return [dict(styles.get_rules()) for styles in (node.styles.base, *components)]  # type: ignore[attr-defined]


_LEAST_CONTRAST = 4.5
# Shapes, which carry no text: blocks, lines of a frame or a table and the symbol of an empty part of a bar.
_SHAPES = set("▌▎▏▕│─━█▁▂▃▄▅▆▇▀▔▐▊▋▍▉╭╮╰╯ ")


def weak_texts(app: App[Any], region: Region | None = None) -> list[tuple[str, float]]:
    """Return each text on the screen, or in a region of it, whose contrast is too low, with its contrast."""
    weak: list[tuple[str, float]] = []
    x, y, width, height = region or app.screen.region
    for strip in app.screen._compositor.render_strips()[y : y + height]:
        for segment in strip.crop(x, x + width):
            style = segment.style
            if segment.control or style is None or not set(segment.text) - _SHAPES:
                continue
            assert style.color is not None, segment
            assert style.bgcolor is not None, segment
            front, back = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
            if style.reverse:
                front, back = back, front
            ratio = contrast(front, back)
            if ratio < _LEAST_CONTRAST or style.dim:
                weak.append((segment.text, round(ratio, 2)))
    return weak
