"""Tests for the Sixel encoder, checked with an independent decoder."""

import pytest

from mcphost.sandbox.image_formats import DecodedImage
from mcphost.tui.sixel_graphics import MAX_COLORS, encode_sixel, index_colors, resize_image
from tests.unit.tui.sixel_reader import read_sixel

RED, BLUE, INVISIBLE = (255, 0, 0, 255), (0, 0, 255, 255), (9, 9, 9, 0)


def image(*rows: list[tuple[int, int, int, int]]) -> DecodedImage:
    return DecodedImage(len(rows[0]), len(rows), bytes(part for row in rows for pixel in row for part in pixel))


def test_every_pixel_is_drawn_in_its_color_and_what_is_invisible_is_not() -> None:
    rows = [[RED if (x + y) % 3 else BLUE if x % 2 else INVISIBLE for x in range(11)] for y in range(8)]
    width, height, pixels = read_sixel(encode_sixel(index_colors(image(*rows)), 0, 0, 11, 8))
    assert (width, height) == (11, 8)
    expected = {
        (x, y): (100, 0, 0) if color == RED else (0, 0, 100)
        for y, row in enumerate(rows)
        for x, color in enumerate(row)
        if color != INVISIBLE
    }
    assert pixels == expected


@pytest.mark.parametrize(("left", "top", "width", "height"), [(0, 0, 4, 7), (3, 5, 9, 6), (10, 19, 2, 1)])
def test_a_part_is_drawn_as_it_is_in_the_whole(left: int, top: int, width: int, height: int) -> None:
    rows = [[RED if (x * y) % 5 < 2 else BLUE for x in range(12)] for y in range(20)]
    indexed = index_colors(image(*rows))
    _, _, whole = read_sixel(encode_sixel(indexed, 0, 0, 12, 20))
    assert read_sixel(encode_sixel(indexed, left, top, width, height)) == (
        width,
        height,
        {(x, y): whole[left + x, top + y] for x in range(width) for y in range(height)},
    )


def test_an_image_is_stretched_to_its_cells_without_new_colors() -> None:
    indexed = resize_image(index_colors(image([RED, BLUE], [BLUE, RED])), 20, 40)
    _, _, pixels = read_sixel(encode_sixel(indexed, 0, 0, 20, 40))
    assert len(pixels) == 800
    assert pixels[9, 19] == pixels[10, 20] == (100, 0, 0)
    assert pixels[10, 19] == pixels[9, 20] == (0, 0, 100)


def test_an_image_of_too_many_colors_is_drawn_with_some_of_them() -> None:
    rows = [[(x, y, 7, 255) for x in range(30)] for y in range(30)]
    indexed = index_colors(image(*rows))
    assert len(indexed.palette) == MAX_COLORS
    assert len(read_sixel(encode_sixel(indexed, 0, 0, 30, 30))[2]) == 900


def test_an_image_without_a_visible_pixel_draws_nothing() -> None:
    sequence = encode_sixel(index_colors(image([INVISIBLE] * 3)), 0, 0, 3, 1)
    assert read_sixel(sequence) == (3, 1, {})


def test_equal_sixels_are_written_once_with_their_number() -> None:
    sequence = encode_sixel(index_colors(image(*[[RED] * 300] * 12)), 0, 0, 300, 12)
    assert len(sequence) < 60
    assert len(read_sixel(sequence)[2]) == 3_600
