"""Tests for syntax highlighting: line breaks, marks for invisible characters, and all other characters unchanged."""

from itertools import islice, pairwise
from time import thread_time

import pytest
from pygments.lexers import find_lexer_class_by_name, get_lexer_by_name

from mcphost.tui.file_diff import detect_language, render_code, show_whitespace
from mcphost.tui.screen_text import clean
from mcphost.tui.transcript.code_theme import LANGUAGES, MAX_CHARACTERS, MAX_LINE, highlight


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


UNITS = (
    "0", "0_", "a", "A", "_", " ", "\t", "\r", "\\", '"', '"\\', "'", "`", "/", "/*", "<", "<a", "(", "[", "{", "$",
    "${", "#", "-", "=", ".", "a ", "a.", "a-", "@a ", "\u3000", "é",
)  # fmt: skip
"""Text that is repeated without a line break."""
SHORT_LINES = (
    "\n", " \n", "a\n", "a a\n", "\\\n", "/*\n", "'\n", '"\n', "\'\'\'\n", '"""\n', "`\n", "<a\n", "(\n", "{\n", "[[\n",
    "{-\n", "#|\n", "<<a\n", "def \n", "@a\n", "a=\\\n",
)  # fmt: skip
"""Lines that are repeated up to the longest text that is highlighted."""
ORDINARY = "def add(one, other):\n    return one + other  # the sum\n"
MOST_EXPENSIVE = 3
"""Times the CPU time of a whole ordinary Python text that one token of a hostile text of the same length may take."""


def longest_search(language: str, text: str) -> float:
    """Return the CPU seconds of the longest search for one of the first 20 tokens, which nothing can interrupt."""
    tokens = get_lexer_by_name(language).get_tokens_unprocessed(text)
    times = [thread_time()]
    for _token in islice(tokens, 20):
        times.append(thread_time())  # noqa: PERF401 - the time is taken between the tokens
    return max((after - before for before, after in pairwise(times)), default=0.0)


def highlights_quickly(language: str, text: str) -> bool:
    """Return whether no search in *text* takes long, measured by ordinary text of the same length."""
    highlight("x = 1\n", "python")  # the first use of a language imports its lexer
    ordinary = (ORDINARY * (len(text) // len(ORDINARY) + 1))[: len(text)]
    for _attempt in range(3):  # the processor is shared with other processes
        found = longest_search(language, text)
        if found < 0.0005:
            return True
        begun = thread_time()
        highlight(ordinary, "python", max_tokens=len(text), max_seconds=10)
        if found <= MOST_EXPENSIVE * (thread_time() - begun):
            return True
    return False


def language_per_lexer() -> list[str]:
    """Return one language for each lexer; other languages are names of the same ones, or have no lexer.

    No lexer is created here: the first one of a class compiles all its patterns, in every test worker.
    """
    lexers: dict[type, str] = {}
    for language in sorted(LANGUAGES - {"kt", "patch"}):
        lexers.setdefault(find_lexer_class_by_name(language), language)
    return list(lexers.values())


@pytest.mark.parametrize("language", language_per_lexer())
def test_no_lexer_searches_long_for_one_token_of_hostile_text(language: str) -> None:
    texts = [(begun + unit * 4 * MAX_LINE)[: 4 * MAX_LINE] for unit in UNITS for begun in ("", "x = ")]
    texts += [(unit * MAX_CHARACTERS)[:MAX_CHARACTERS] for unit in SHORT_LINES]
    assert [text[:10] for text in texts if not highlights_quickly(language, text)] == []


def test_a_lexer_with_a_slow_search_is_found() -> None:
    # The ordinary text may take longer, too, while other processes use the processor.
    assert any(not highlights_quickly("ocaml", "0" * 4 * MAX_LINE) for _attempt in range(5))


def test_text_is_coloured_up_to_the_first_overlong_line() -> None:
    for overlong in ("0" * (MAX_LINE + 1), "x = " + "\t" * MAX_LINE):
        code = f"x = 1\n{overlong}\ny = 2\n"
        shown = highlight(code, "python")
        assert shown.plain == code
        assert max(span.end for span in shown.spans[1:]) <= len("x = 1\n")
    assert max(span.end for span in highlight("x = 1\n" + "0" * MAX_LINE, "python").spans[1:]) == 6 + MAX_LINE
    assert not highlight("0" * 12_000, "ocaml").spans
    assert not highlight("0" * 12_000, "python").spans


def test_only_the_beginning_of_a_long_text_is_coloured() -> None:
    code = "x = 1\n" * MAX_CHARACTERS
    shown = highlight(code, "python", max_tokens=10**6, max_seconds=10)
    assert shown.plain == code
    assert MAX_CHARACTERS - 10 < max(span.end for span in shown.spans[1:]) <= MAX_CHARACTERS
