"""The shipped themes."""

import pytest
from textual.color import Color

from mcphost.tui import themes


def test_a_dark_and_a_light_theme_are_shipped() -> None:
    assert {"dark", "light"} <= set(themes.names())
    assert themes.load("dark").dark
    assert not themes.load("light").dark


def test_a_theme_that_does_not_exist_falls_back_to_usable_colours() -> None:
    assert themes.load("no such theme").foreground


def luminance(color: str) -> float:
    """Return the relative luminance as WCAG 2 defines it."""
    parts = [part / 255 for part in Color.parse(color).rgb]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["dark", "light"])
def test_text_can_be_read_on_every_background(name: str) -> None:
    theme = themes.load(name)
    # The tint is the background of the selected row of a list.
    for back in (theme.background, theme.surface, theme.panel, theme.variables["block-cursor-background"]):
        assert back is not None
        for role, least in (("text", 7.0), ("muted", 4.5), ("faint", 4.5)):
            assert contrast(back, theme.variables[role]) >= least, (back, role)
        for color in (theme.accent, theme.error, theme.warning, theme.success):
            assert color is not None
            assert contrast(back, color) >= 4.5, (back, color)
