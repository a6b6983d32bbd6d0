"""Tests for long pastes, which are shown as placeholders, and for pasted file paths."""

import pytest
from textual.widgets.text_area import Edit

from mcphost.tui.widgets.pasted_text import FoldedPastes, parse_pasted_paths

FORTY_LINES = "row\n" * 39 + "row"


def test_a_long_paste_becomes_a_placeholder_and_returns_in_full() -> None:
    pastes = FoldedPastes()
    assert pastes.fold("short\n" * 5) is None
    first, second = pastes.fold(FORTY_LINES), pastes.fold(FORTY_LINES + "\n")
    assert (first, second) == ("[pasted 40 lines]", "[pasted 40 lines #2]")
    assert pastes.expand(f"a {first} b {second}") == f"a {FORTY_LINES} b {FORTY_LINES}\n"
    assert pastes.fold("x" * 5_000) == "[pasted 1 lines]".replace("1 lines", "5,000 characters")


def test_the_same_words_typed_by_the_user_stay_words() -> None:
    pastes = FoldedPastes()
    placeholder = pastes.fold(FORTY_LINES)
    assert pastes.expand(f"{placeholder} [pasted 40 lines] [pasted 7 lines]") == (
        f"{FORTY_LINES} [pasted 40 lines] [pasted 7 lines]"
    )
    pastes.clear()
    assert pastes.expand("[pasted 40 lines]") == "[pasted 40 lines]"


@pytest.mark.parametrize(
    ("start", "end", "widened"),
    [
        ((0, 18), (0, 19), ((0, 2), (0, 19))),  # backspace behind it
        ((0, 2), (0, 3), ((0, 2), (0, 19))),  # delete before it
        ((0, 10), (0, 10), ((0, 19), (0, 19))),  # a letter inside of it
        ((0, 0), (0, 10), ((0, 0), (0, 19))),  # a selection that ends in it
        ((0, 19), (0, 20), ((0, 19), (0, 20))),  # behind it
        ((1, 0), (0, 5), ((0, 2), (1, 0))),  # backwards, over a line break
    ],
)
def test_edits_take_a_placeholder_as_a_whole(
    start: tuple[int, int], end: tuple[int, int], widened: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    pastes = FoldedPastes()
    lines = [f"a {pastes.fold(FORTY_LINES)} b", ""]
    edit = Edit("", start, end, maintain_selection_offset=False)
    pastes.extend_edit(edit, lines)
    assert (edit.from_location, edit.to_location) == widened


@pytest.mark.parametrize(
    ("pasted", "paths"),
    [
        ("/home/me/a.pdf", ("/home/me/a.pdf",)),
        ("/home/me/two words.pdf\n", ("/home/me/two words.pdf",)),
        (r"/home/me/two\ words.pdf ", ("/home/me/two words.pdf",)),
        ("'/home/me/two words.pdf'", ("/home/me/two words.pdf",)),
        ('"/a b" /c', ("/a b", "/c")),
        ("/a /b", ("/a", "/b")),
        ("/a\n/b c\n", ("/a", "/b c")),
        ("file:///home/me/two%20words.pdf", ("/home/me/two words.pdf",)),
        ("file://localhost/a file:///b", ("/a", "/b")),
        ("~/notes.md", ("~/notes.md",)),
        ("file://server/share", ()),
        ("file:///%ff", ()),
        ("notes.md", ()),
        ("/", ()),
        ("look at /home/me", ()),
        ("'/unclosed", ()),
        ("/a\x1b[2J", ()),
        (" ".join(["/a"] * 21), ()),
    ],
)
def test_paths_are_recognized_in_the_forms_of_terminals(pasted: str, paths: tuple[str, ...]) -> None:
    assert parse_pasted_paths(pasted) == paths
