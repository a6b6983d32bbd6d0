"""Tests for syntax highlighting: line breaks, marks for invisible characters, and all other characters unchanged."""

import pytest

from mcphost.tui.file_diff import detect_language, render_code, show_whitespace
from mcphost.tui.screen_text import clean


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("src/a.py", "python"), ("/x/A.PY", "python"), ("b.tsx", "typescript"), ("Makefile", "make"), ("x", ""),
        ("a.py.exe", ""), ("a.unknown", ""), ("", ""), ("x" * 100_000 + ".rs", "rust"),
    ],
)  # fmt: skip
def test_the_language_is_that_of_the_files_name(path: str, language: str) -> None:
    assert detect_language(path) == language


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\nb"),
        ("a\nb\n", "a\nb⏎"),
        ("a\n\n", "a\n⏎"),
        ("\n", "⏎"),
        ("\ta\n\tb", "→   a\n→   b"),
        ("a  \nb ", "a··\nb·"),
        ("a \t\nb", "a·→   \nb"),
        ("  \n", "··⏎"),
        ("a\r\nb\r\n", "a␍\nb\r⏎"),
        ("a b\n c", "a b\n c"),
    ],
)
def test_blanks_that_decide_and_the_end_of_the_last_line_have_signs(text: str, shown: str) -> None:
    assert show_whitespace(text) == shown


@pytest.mark.parametrize("language", ["python", "json", "make", "", "no-such-language"])
@pytest.mark.parametrize(
    "text",
    ["", "\n", "def f():\n\treturn '→   x·'\n", "a\x0bb\x0c\n\u2028", "\\\n`${x}`\n", '"""\n', "x" * 3_000 + "\ny"],
)
def test_every_character_stays_whatever_the_language_is(text: str, language: str) -> None:
    shown = clean(show_whitespace(text))
    assert render_code(shown, language).plain == shown


def test_code_is_coloured_and_its_signs_step_back() -> None:
    styles = {
        (span.start, span.end): str(span.style) for span in render_code("def f():\n→   return 1⏎", "python").spans
    }
    assert styles[(0, 3)] == "$accent"
    assert styles[(9, 13)] == "$faint"
