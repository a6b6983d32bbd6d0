"""Compute the contrast of two colours as WCAG 2 defines it."""

from textual.color import Color


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of two opaque colours, from 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Color) -> float:
    parts = [part / 255 for part in color.rgb]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
