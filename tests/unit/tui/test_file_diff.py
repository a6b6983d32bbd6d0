"""Tests for showing a diff of calls that change a file: only if the target is certain, and at limited cost."""

import os
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from mcphost.bounded_diff import compare_lines
from mcphost.host.questions.questions import ApproveTool
from mcphost.tui.file_diff import (
    FILE_LIMIT,
    MAX_REPLACED,
    diff_file,
    diff_replacements,
    diff_texts,
    find_file_write,
    mark_literal_signs,
    show_whitespace,
)


def write_file_question(tool: str = "write_file", folder: str | None = "/srv", **arguments: Any) -> ApproveTool:
    return ApproveTool(server="files", why="", call="c", tool=tool, arguments=arguments, folder=folder)


def proposed_write(question: ApproveTool) -> Any:
    return find_file_write(question, question.arguments)


def test_the_file_is_the_one_path_beside_the_one_text() -> None:
    found = proposed_write(write_file_question(path="src/a.py", content="x", encoding="utf-8"))
    assert (found.path, found.display_path, found.text) == ("/srv/src/a.py", "src/a.py", "x")
    assert proposed_write(write_file_question(file_path="/x/a.py", file_text="/* x */")).path == "/x/a.py"


@pytest.mark.parametrize(
    "question",
    [
        write_file_question(folder=None, path="a", content="x"),
        write_file_question(tool="append_to_file", path="a", content="x"),
        write_file_question(tool="search", path="a", text="x"),
        write_file_question(path="a"),
        write_file_question(content="x"),
        write_file_question(path="a", file="b", content="x"),
        write_file_question(path="a", content="x", text="y"),
        write_file_question(path="a", content="x", old_string="1", new_string="2"),
        write_file_question(path="~/a", content="x"),
        write_file_question(path="-a", content="x"),
        write_file_question(path="@a", content="x"),
        write_file_question(path="file:///a", content="x"),
        write_file_question(path="a\n", content="x"),
        write_file_question(path="a\u200b", content="x"),
        write_file_question(path="", content="x"),
        write_file_question(path=["a"], content="x"),
        write_file_question(path="a" * 5_000, content="x"),
    ],
)
def test_an_uncertain_file_is_not_read(question: ApproveTool) -> None:
    assert proposed_write(question) is None


def diff_with(path: Path, text: str) -> Any:
    return diff_file(proposed_write(write_file_question(path=str(path), content=text)))


def test_a_file_is_compared_by_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("".join(f"line {n}\n" for n in range(20)))
    text = file.read_text().replace("line 10\n", "line ten\nand a half\n")
    found = diff_with(file, text)
    assert found.title.endswith("a.py now, compared with this text: +2 −1 lines")
    assert found.rows == (
        "@ line 8", "  line 7", "  line 8", "  line 9", "- line 10", "+ line ten", "+ and a half", "  line 11",
        "  line 12", "  line 13",
    )  # fmt: skip
    assert diff_with(file, file.read_text()).title.endswith("no difference")


def test_differences_in_blanks_or_the_last_line_end_are_shown() -> None:
    assert diff_texts("t", "a\n", "a").rows == ("@ line 1", "- a", "+ a", "\\ no newline at end")
    assert diff_texts("t", "\ta\n", "    a \n").rows[1:] == ("- →   a", "+     a·")
    assert diff_texts("t", "a\r\n", "a\n").rows[1:] == ("- a␍", "+ a")


def test_the_content_of_the_file_is_cleaned(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("\x1b[2J\u202e\n")
    assert diff_with(file, "x\n").rows == ("@ line 1", "- ␛[2J‹U+202E›", "+ x")


def test_a_missing_too_large_or_binary_file_is_reported_as_such(tmp_path: Path) -> None:
    file = tmp_path / "a"
    assert diff_with(file, "x").title.endswith("does not exist yet")
    file.write_bytes(b"x" * (FILE_LIMIT + 1))
    assert "over 256 kB" in diff_with(file, "x").title
    file.write_bytes(b"\xff\xfe")
    assert "is not text" in diff_with(file, "x").title
    assert diff_with(file, "x").rows == ()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/stdin")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "link", Path("/proc/self/environ"), Path("/dev/zero")):
        assert diff_with(path, "x") is None
    (tmp_path / "secret").write_text("x")
    assert diff_with(tmp_path / "secret" / "below", "x") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [("a\nb\n" * 2_400, "b\na\n" * 2_400), ("\n" * 900, " \n" * 450 + "\n" * 450), ("x\n" * 6_000, "y\n")],
)
def test_texts_that_are_slow_to_compare_are_not_compared(before: str, after: str) -> None:
    found = diff_texts("t", before, after)
    assert len(found.rows) <= 301
    assert len(found.rows) < 301 or "more rows of differences" in found.rows[-1]


def test_matches_that_split_off_one_line_at_a_time_are_not_searched_for() -> None:
    old = [line for number in range(450) for line in ("x", f"old {number}")]
    new = [line for number in range(99) for line in ("x", f"new {number}")]
    assert compare_lines(old, new) == ([("equal", 0, 1, 0, 1), ("replace", 1, 900, 1, 198)], False)
    assert compare_lines(old[:40], new[:40]).is_exact


def test_ordinary_differences_are_those_of_difflib() -> None:
    old = [f"line {number % 400}" for number in range(900)]
    new = ["first", *old[5:400], "middle", *old[410:], "last"]
    assert compare_lines(old, new) == (SequenceMatcher(None, old, new).get_opcodes(), True)


def test_very_many_or_long_replacements_are_left_out_and_said_to_be() -> None:
    edit = {"oldText": "a\n", "newText": "b\n"}
    assert len(diff_replacements({f"edits{number}": [edit] * 20 for number in range(20)})) == 20
    long = {"oldText": "a" * MAX_REPLACED, "newText": "b"}
    found = diff_replacements({"edits": [edit, long, edit]})
    assert [diff.title for diff in found] == [
        "edits[0].oldText → edits[0].newText: +1 −1 lines",
        "edits[1].oldText → edits[1].newText is over 100 kB and was not compared",
    ]


def test_replaced_values_are_differences_of_their_own() -> None:
    edits = [{"oldText": "a\nb\n", "newText": "a\nc\n"}, {"oldText": 5, "newText": "x"}, "x"]
    (found,) = diff_replacements({"path": "a.py", "edits": edits})
    assert found.title == "edits[0].oldText → edits[0].newText: +1 −1 lines"
    assert found.rows == ("@ line 1", "  a", "- b", "+ c")
    (top,) = diff_replacements({"old_string": "a", "new_string": "b"})
    assert top.title == "old_string → new_string: +1 −1 lines"
    assert diff_replacements({"path": "a", "content": "b"}) == ()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_white_space_at_the_end_of_a_line_is_marked_in_texts_of_any_length(ending: str) -> None:
    lines = 40_000
    shown = show_whitespace(f"a \t {ending}b c{ending}" * lines)
    assert shown.count("a·→   ·") == lines
    assert shown.count("b c") == lines
    literal = mark_literal_signs(f"a· ·{ending}b · c{ending}" * lines)
    assert literal.count("a‹U+00B7› ‹U+00B7›") == lines
    assert literal.count("b · c") == lines
