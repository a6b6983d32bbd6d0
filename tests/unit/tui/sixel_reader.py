"""A decoder for Sixel graphics, written from the VT340 manual without looking at mcphost's encoder."""

import re

Pixels = dict[tuple[int, int], tuple[int, int, int]]
SIXEL = re.compile(r'\x1bP0;1;0q"1;1;(\d+);(\d+)([^\x1b]*)\x1b\\')


def read_sixel(sequence: str) -> tuple[int, int, Pixels]:
    """Return the width, the height and the drawn pixels; colours are percentages of red, green and blue."""
    found = SIXEL.fullmatch(sequence)
    assert found, sequence[:80]
    palette: dict[int, tuple[int, int, int]] = {}
    pixels: Pixels = {}
    x = y = color = 0
    tokens = re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|([$-])", found[3])
    for defined, red, green, blue, chosen, count, repeated, single, move in tokens:
        if defined:
            palette[int(defined)] = (int(red), int(green), int(blue))
        elif chosen:
            color = int(chosen)
        elif move:
            x, y = 0, y + (6 if move == "-" else 0)
        else:
            bits = ord(repeated or single) - 63
            for column in range(x, x + int(count or 1)):
                pixels.update(((column, y + bit), palette[color]) for bit in range(6) if bits >> bit & 1)
            x += int(count or 1)
    return int(found[1]), int(found[2]), pixels
