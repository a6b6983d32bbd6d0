"""Tests for Sixel images: the bytes that are written to the terminal in place of the cells of an image."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from textual.color import Color

from mcphost.config.schema import ScreenConfig
from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.sandbox.image_formats import DecodedImage
from mcphost.serialization import replace
from mcphost.tui import sixel_graphics
from mcphost.tui.image_cache import ImageCache
from mcphost.tui.kitty_graphics import PLACEHOLDER, PlacedImage, render_placeholders
from mcphost.tui.sixel_graphics import SixelGraphics
from mcphost.tui.terminal_graphics import TerminalGraphics
from tests.screens.conftest import Run
from tests.screens.sample_images import sunset_image
from tests.unit.tui.sixel_reader import SIXEL, read_sixel

pytestmark = pytest.mark.anyio

DRAWN = re.compile(r"\x1b7\x1b\[([0-9;]*)m( +)\x1b\[0m\x1b8(\x1bP[^\x1b]*\x1b\\)\x1b8\x1b\[(\d+)C")
BACKGROUND = Color(9, 9, 9)
CONSOLE = Console(color_system="truecolor", force_terminal=True)


class FakeTerminal:
    """A fake terminal whose cells have a known size in pixels."""

    def __init__(self, size: tuple[int, int] = (8, 17)) -> None:
        self.size = size
        self.transform_output: Callable[[str], str] | None = None

    def cell_size(self) -> tuple[int, int]:
        return self.size


class WritingTerminal(FakeTerminal):
    """A fake terminal that keeps what is written to it."""

    is_web = False

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)


async def decode_stripes(width: int, height: int) -> DecodedImage | str:
    """Return an image with alternating red and blue columns."""
    row = b"".join(b"\xff\x00\x00\xff" if x % 2 else b"\x00\x00\xff\xff" for x in range(width))
    return DecodedImage(width, height, row * height)


async def place(pictures: SixelGraphics, columns: int = 6, rows: int = 3) -> PlacedImage:
    placed = await pictures.show("data", columns, rows, decode_stripes)
    assert isinstance(placed, PlacedImage)
    return placed


def rendered(placed: PlacedImage, row: int, begin: int = 0, end: int = 99) -> str:
    """Return a row of the image's cells as Textual writes it, from column *begin* to *end*."""
    return render_placeholders(placed, BACKGROUND)[row].crop(begin, end).render(CONSOLE)


async def test_a_row_of_cells_becomes_its_part_of_the_image_and_the_cursor_ends_behind_it() -> None:
    pictures = SixelGraphics(FakeTerminal())
    placed = await place(pictures)
    for row in range(3):
        found = DRAWN.fullmatch(pictures.draw(rendered(placed, row)))
        assert found
        assert found[2] == " " * 6
        assert found[4] == "6"
        width, height, pixels = read_sixel(found[3])
        assert (width, height, len(pixels)) == (48, 17, 48 * 17)
        assert pixels[0, 0] == (0, 0, 100)
        assert pixels[1, 0] == (100, 0, 0)


async def test_what_is_covered_is_not_drawn_and_the_rest_is() -> None:
    pictures = SixelGraphics(FakeTerminal())
    placed = await place(pictures)
    output = pictures.draw(f"{rendered(placed, 1, 0, 2)}text{rendered(placed, 1, 4)}")
    assert DRAWN.sub("", output) == "text"
    assert [read_sixel(found[2])[0] for found in DRAWN.findall(output)] == [16, 16]


async def test_rows_of_several_pictures_and_other_text_stay_apart() -> None:
    pictures = SixelGraphics(FakeTerminal())
    placed = await place(pictures)
    other = await pictures.show("other", 4, 2, decode_stripes)
    assert isinstance(other, PlacedImage)
    output = pictures.draw(f"a{rendered(placed, 0)}{rendered(other, 1)}\x1b[2;1Hb{rendered(placed, 1)}")
    assert DRAWN.sub("", output) == "a\x1b[2;1Hb"
    assert [len(found[1]) for found in DRAWN.findall(output)] == [6, 4, 6]


async def test_cells_that_belong_to_no_picture_become_spaces() -> None:
    pictures = SixelGraphics(FakeTerminal())
    placed = replace(await place(pictures), number=1)
    assert pictures.draw(rendered(placed, 0)) == f"\x1b[38;2;0;0;1;48;2;9;9;9m{' ' * 6}\x1b[0m"
    assert pictures.draw(f"a{PLACEHOLDER}\u0305\u0305b{PLACEHOLDER}") == "a b "
    assert pictures.draw(f"{PLACEHOLDER}10{PLACEHOLDER}\x1b[0m") == " 10 \x1b[0m"  # what follows is no part of a cell
    assert pictures.draw("plain") == "plain"


async def test_cells_of_another_size_get_an_image_of_that_size() -> None:
    terminal = FakeTerminal()
    pictures = SixelGraphics(terminal)
    placed = await place(pictures)
    terminal.size = (16, 34)
    found = DRAWN.fullmatch(pictures.draw(rendered(placed, 2)))
    assert found
    assert read_sixel(found[3])[:2] == (96, 34)
    terminal.size = (0, 0)
    assert "\x1bP" not in pictures.draw(rendered(placed, 2))


@pytest.mark.parametrize("size", [(0, 0), (5_000, 20)])
async def test_a_terminal_that_does_not_tell_the_size_of_its_cells_gets_half_blocks(size: tuple[int, int]) -> None:
    asked: list[tuple[int, int]] = []

    async def decode(width: int, height: int) -> DecodedImage | str:
        asked.append((width, height))
        return DecodedImage(1, 1, b"abcd")

    shown = await SixelGraphics(FakeTerminal(size)).show("data", 20, 7, decode)
    assert shown == DecodedImage(1, 1, b"abcd")
    assert asked == [(20, 14)]


async def test_number_and_size_of_pictures_are_bounded_and_an_error_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sixel_graphics, "MAX_PICTURES", 2)
    pictures = SixelGraphics(FakeTerminal((20, 40)))
    asked: list[tuple[int, int]] = []

    async def decode(width: int, height: int) -> DecodedImage | str:
        asked.append((width, height))
        return await decode_stripes(2, 2)

    async def fail(width: int, height: int) -> DecodedImage | str:
        return f"not {width} × {height}"

    assert await pictures.show("bad", 2, 2, fail) == "not 40 × 80"
    for name in "ab":
        assert isinstance(await pictures.show(name, 120, 14, decode), PlacedImage)
    assert not isinstance(await pictures.show("c", 120, 14, decode), PlacedImage)
    assert asked == [(400, 400), (400, 400), (120, 28)]


async def test_the_setting_draws_pictures_in_the_chat(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    async with run() as driver:
        terminal: Any = driver.app.terminal
        terminal.transform_output = None
        terminal.cell_size = lambda: (9, 18)
        driver.host.settings.screen = ScreenConfig(pictures="sixel")
        driver.host.put(events.TurnStarted(1, Message(role="user", parts=(TextPart("What is it?"), sunset_image()))))
        await driver.until(lambda: PLACEHOLDER in driver.text(), "the cells")
        assert "▀" not in driver.text()
        lines = driver.app.screen._compositor.render_full_update().render_segments(CONSOLE)
        drawn = terminal.transform_output(lines)
        assert PLACEHOLDER not in drawn
        sixels = [read_sixel(found[0]) for found in SIXEL.finditer(drawn)]
        assert len(sixels) == 14
        assert {(width, height) for width, height, _ in sixels} == {(450, 18)}
        assert len({color for _, _, pixels in sixels for color in pixels.values()}) > 8


async def test_a_run_that_changes_from_sixel_over_half_blocks_to_kitty_draws_each_image_as_it_was_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TMUX", "STY", "ZELLIJ"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = WritingTerminal()
    settings = SimpleNamespace(screen=ScreenConfig(pictures="sixel"))
    cache = ImageCache()
    graphics = TerminalGraphics(terminal, settings, cache)  # type: ignore[arg-type]
    data = sunset_image().data
    try:
        sixel = await graphics.show(data, 6, 6)
        settings.screen = ScreenConfig(pictures="half-blocks")
        assert not isinstance(await graphics.show(data, 6, 6), PlacedImage)
        settings.screen = ScreenConfig(pictures="kitty")
        kitty = await graphics.show(data, 6, 6)
    finally:
        await cache.close()
    assert isinstance(sixel, PlacedImage)
    assert isinstance(kitty, PlacedImage)
    assert f"i={kitty.number}," in "".join(terminal.written)
    assert terminal.transform_output is not None
    output = terminal.transform_output(f"{rendered(sixel, 0)}{rendered(kitty, 0)}{rendered(kitty, 1, 1, 3)}")
    (drawn,) = DRAWN.findall(output)
    assert len(drawn[1]) == sixel.columns
    rest = DRAWN.sub("", output)
    assert rest == rendered(kitty, 0) + rendered(kitty, 1, 1, 3)
