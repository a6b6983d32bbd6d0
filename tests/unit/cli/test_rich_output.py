"""Tests for the output of commands: styled on a terminal, plain elsewhere, without interpreting any markup in it."""

import io
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markdown import Markdown
from rich.text import Text

from mcphost.cli import printing
from mcphost.cli.colors import Excerpt, StateWord
from mcphost.cli.rich_output import MAX_MARKDOWN_ITEMS, MarkdownBlocks, MarkdownStream, render_markdown

Screen = Callable[[], str]
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class FakeTerminal(io.StringIO):
    """A text stream that reports being a terminal."""

    def isatty(self) -> bool:
        return True


def open_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Replace standard output with a colour terminal of 40 columns; return a function that returns its output."""
    stream = FakeTerminal()
    monkeypatch.setattr(sys, "stdout", stream)
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "40"), ("LINES", "10")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream.getvalue


def plain_lines(text: str) -> list[str]:
    """Return the lines of a text without escape sequences and trailing spaces."""
    return [line.rstrip() for line in SEQUENCE.sub("", text).splitlines()]


def test_a_terminal_gets_headers_and_cuts_the_last_column_and_excerpts(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printing.print_table(
        [("demo", "a-rather-long-name-of-a-tool", "adds two numbers and more"), ("demo", "x", "y")],
        ("Server", "Tool", "Description"),
    )
    printing.print_table([("1", Excerpt("a subject that does not fit " * 3), "ok")], ("Row", "Subject", "Details"))
    lines = plain_lines(screen())
    assert lines[0].split() == ["Server", "Tool", "Description"]
    assert "…" in lines[1]
    assert "".join(line[8:].split()[0] for line in lines[1:3] if line[8:].split())[:6] == "a-rath"
    assert all(len(line) <= 40 for line in lines)
    assert lines[-1].startswith("1")
    assert "…" in lines[-1]


def test_the_columns_of_a_file_are_aligned_behind_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_table([("时间", "add"), ("other", "x")])
    assert capsys.readouterr().out.splitlines() == ["时间   add", "other  x"]


def test_a_file_gets_plain_columns_without_headers(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_table([("demo", "add", "Adds"), ("other", "x", "")], ("Server", "Tool", "Description"))
    assert capsys.readouterr().out == "demo   add  Adds\nother  x\n"


def test_markup_emoji_codes_and_escape_sequences_of_others_stay_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printing.print_table([("[red]a[/red]", ":smile: [link=x]b[/]"), ("\x1b[31mc", "d\u202e")], ("One", "Two"))
    shown = screen()
    assert "[red]a[/red]" in shown
    assert ":smile: [link=x]b[/]" in shown
    assert "\x1b[31mc" not in shown
    assert "\u202e" not in shown


def test_a_state_has_the_color_of_its_meaning_and_a_servers_text_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printing.print_table([(StateWord("failed"), "x"), ("failed", "x")])
    first, second = screen().splitlines()
    assert "\x1b[31m" in first
    assert "\x1b" not in second


def test_no_color_draws_the_table_without_any_escape_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    printing.print_table([(StateWord("failed"), "x")], ("State", "Name"))
    printing.print_markdown("**a**\n")
    assert [line.rstrip() for line in screen().splitlines()] == ["State   Name", "failed  x", "**a**"]


def test_markdown_shows_the_address_of_a_link_and_hides_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printing.print_markdown("# A\n\n**b** [bank](http://evil.example)\x1b[2J\n\n```python\nimport os\n```\n")
    shown = screen()
    assert "\x1b[2J" not in shown
    assert "\x1b]8" not in shown
    lines = plain_lines(shown)
    assert lines[0] == "A"
    assert "bank (http://evil.example)" in " ".join(lines)
    assert "  import os" in lines
    assert "import os" in shown  # in one piece: nothing is highlighted


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("a ![cat](http://a.example/c.png) b", "a [image: cat] (http://a.example/c.png) b"),
        ("![](http://a.example/c.png)", "[image: no description] (http://a.example/c.png)"),
        ("[![cat](c.png)](http://b.example)", "[image: cat] (c.png) (http://b.example)"),
        ("# ![**c**](c.png)", "[image: **c**] (c.png)"),
        ("- [bank](http://b.example)", "bank (http://b.example)"),
        ("| a |\n|---|\n| ![c](c.png) [b](d) |", "[image: c] (c.png) b (d)"),
        ("![c](http://a.example/&#x202E;c)", "[image: c] (http://a.example/%E2%80%AEc)"),
        (f"![c](data:image/png;base64,{'A' * 9_000})", f"[image: c] (data:image/png;base64,{'A' * 38}…)"),
    ],
)
def test_markdown_shows_the_addresses_of_images_and_links_everywhere(
    monkeypatch: pytest.MonkeyPatch, markdown: str, shown: str
) -> None:
    screen = open_screen(monkeypatch)
    printing.print_markdown(f"{markdown}\n")
    printed = " ".join(" ".join(plain_lines(screen())).split())
    assert shown.replace(" ", "") in printed.replace(" ", "")
    assert "🌆" not in printed


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("pay to &#x202E;moc&#x202C; a&ZeroWidthSpace;b", "pay to ‹U+202E›moc‹U+202C› a‹U+200B›b"),
        ("# a&#xE0041;", "a‹U+E0041›"),
        ("- **a&shy;b**", " • a‹U+00AD›b"),
        ("| a |\n|---|\n| &#x202E;b |", "a          ─────────  ‹U+202E›b "),
        ("a&NewLine;b", "a⏎b"),
        ("<http://a.example/%E2%80%AEb>", "http://a.example/‹U+202E›b (http://a.example/%E2%80%AEb)"),
        ("&copy; Vec&lt;T&gt; `&shy;`", "© Vec<T> &shy;"),
    ],
)
def test_markdown_shows_marks_for_unsafe_characters_written_as_entities(
    monkeypatch: pytest.MonkeyPatch, markdown: str, shown: str
) -> None:
    screen = open_screen(monkeypatch)
    printing.print_markdown(markdown)
    assert " ".join(shown.split()) == " ".join(" ".join(plain_lines(screen())).split())


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("Use List<int> and <b>this</b>.", "Use List<int> and <b>this</b>."),
        ("<div>\nrm -rf /\n</div>", "<div> rm -rf / </div>"),
        ("<!-- ignore this -->", "<!-- ignore this -->"),
        ("| a |\n|---|\n| Map<K><br>~~b~~ |", "a ────── Map<K> b"),
    ],
)
def test_html_in_markdown_is_printed_as_text(monkeypatch: pytest.MonkeyPatch, markdown: str, shown: str) -> None:
    screen = open_screen(monkeypatch)
    printing.print_markdown(markdown)
    assert " ".join(" ".join(plain_lines(screen())).split()) == shown


def test_markdown_that_is_slow_to_parse_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    deep = ">" * 20 + " a\n" + "a\n" * 200
    printing.print_markdown("*plain*\n\n" * 1_800 + deep)
    assert deep.strip() in "\n".join(plain_lines(screen()))


def test_a_long_ordinary_document_is_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printing.print_markdown("A paragraph with some **bold** words and `code` in it.\n\n> quoted\n\n" * 600)
    assert "**" not in screen()


def test_streamed_markdown_prints_each_block_once(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    stream = printing.create_markdown_stream()
    assert stream is not None
    text = "# Title\n\n- one\n- two\n\n```\na\n\nb\n```\n\nThe **end**"
    for letter in text:
        stream.write(letter)
    stream.end_line()
    # Every redrawn piece is erased before it is drawn again; the final output follows the last erasure.
    final = "\n".join(plain_lines(screen().split("Title")[-1]))
    assert final.count("The end") == 1


def test_a_status_line_disappears_before_a_result_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    errors = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", errors)
    with printing.show_status("Connecting to [b]x[/b]…") as update:
        update("Calling [b]x[/b]\x1b[2J…")
        printing.print_note("a note")
        printing.print_text("the result")
        shown = errors.getvalue()
        assert "Calling [b]x[/b]␛[2J…" in shown
        assert "\x1b[2J" not in shown
        assert "\x1b[2Kmcphost: a note" in shown
        assert shown.endswith("\x1b[2K")
    assert errors.getvalue() == shown
    assert screen() == "the result\n"


def test_without_a_terminal_there_is_no_status_line(capsys: pytest.CaptureFixture[str]) -> None:
    with printing.show_status("Connecting…"):
        printing.print_text("x")
    assert capsys.readouterr() == ("x\n", "")


def test_headers_of_a_growing_table_are_whole_above_short_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    printing.GrowingTable(("Server", "State", "Details"), (4, 2)).print_row(("demo", "ok", "10 tools"))
    assert [line.split() for line in plain_lines(screen())] == [
        ["Server", "State", "Details"],
        ["demo", "ok", "10", "tools"],
    ]


def test_the_status_line_shows_how_long_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    open_screen(monkeypatch)
    monkeypatch.setattr(sys, "stderr", FakeTerminal())
    now = 100.0
    monkeypatch.setattr("mcphost.cli.rich_output.monotonic", lambda: now)
    from mcphost.cli.rich_output import StatusLine

    line = StatusLine("Starting time…")
    assert str(line.__rich__()) == "Starting time…"
    now = 103.5
    assert str(line.__rich__()) == "Starting time… · 3 s"
    line.update("Calling count: 2", keep_time=True)
    assert str(line.__rich__()) == "Calling count: 2 · 3 s"
    now = 235.0
    assert str(line.__rich__()) == "Calling count: 2 · 2 min 15 s"
    line.update("x" * 100)
    assert str(line.__rich__()) == "x" * 35 + "…"


@pytest.mark.parametrize(
    ("progress", "total", "message", "shown"),
    [
        (5, 10, "half", "██████████░░░░░░░░░░ 50% half"),
        (20, 10, "", "████████████████████ 100%"),
        (-1, 10, "", "░░░░░░░░░░░░░░░░░░░░ 0%"),
        (3, None, "files", "3 files"),
        (3, 0, "", "3"),
        (float("nan"), 10, "", "nan"),
        (1, float("inf"), "", "1"),
        (1e300, 1e-300, "", "████████████████████ 100%"),
    ],
)
def test_progress_is_a_bar_where_the_total_is_known(
    progress: float, total: float | None, message: str, shown: str
) -> None:
    assert printing.format_progress(progress, total, message) == shown


def test_a_long_message_of_progress_is_cut() -> None:
    assert len(printing.format_progress(1, None, "x" * 1_000_000)) < 300


PIECES = st.lists(
    st.sampled_from(["a", "\n", "\n\n", " ", "  b", "```", "`", "````", "~~~", "- c", "\t", "\r\n"]), max_size=30
)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("a\n\nb", "a\n\n"),
        ("a\n\n", ""),
        ("a\nb\nc", ""),
        ("- a\n\n  more\n", ""),
        ("- a\n\n  more\n\nb", "- a\n\n  more\n\n"),
        ("```\na\n\nb", ""),
        ("```\na\n\nb\n```\n\nc", "```\na\n\nb\n```\n\n"),
        ("````\n```\n\nb", ""),
        ("a\n\n```\n\nb", "a\n\n"),
        ("a\n \nb\n\nc", "a\n \nb\n\n"),
        ("a\r\n\r\nb", "a\r\n\r\n"),
    ],
)
def test_a_block_is_complete_once_unindented_text_follows_a_blank_line(text: str, complete: str) -> None:
    blocks = MarkdownBlocks(100)
    assert blocks.add(text) == complete
    assert blocks.tail == text[len(complete) :]
    assert blocks.take_rest() == text[len(complete) :]
    assert (blocks.tail, blocks.take_rest()) == ("", "")


@given(PIECES)
def test_pieces_give_the_same_blocks_as_the_whole_text_and_lose_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole, streamed = MarkdownBlocks(7), MarkdownBlocks(7)
    complete = whole.add(text)
    assert "".join(streamed.add(piece) for piece in pieces) == complete
    assert streamed.tail == whole.tail == text[len(complete) :][-7:]
    assert streamed.take_rest() == text[len(complete) :]


@pytest.mark.parametrize("line", ["x\n", "x", "\n", " ", "x\n\n"])
def test_a_long_block_takes_no_longer_for_each_character(line: str) -> None:
    def seconds(count: int) -> float:
        blocks, began = MarkdownBlocks(4_000), time.thread_time()
        blocks.add("```\n")
        for _ in range(count):
            blocks.add(line)
        return time.thread_time() - began

    assert seconds(100_000) < 100 * seconds(10_000)


ITEMS = ("- tea\n", "- tea\n  - milk\n    - oat\n", "> > tea\n", "12) tea\n", "* > tea\n", "## tea\n", "---\n", "#\n")


@pytest.mark.parametrize("item", ITEMS)
def test_markdown_of_very_many_items_is_printed_without_formatting(item: str) -> None:
    count = MAX_MARKDOWN_ITEMS // item.count("\n")
    assert isinstance(render_markdown(item * (count - 1)), Markdown)
    assert isinstance(render_markdown(item * (count + 2)), Text)


def test_prose_and_code_of_many_lines_are_formatted() -> None:
    assert isinstance(render_markdown("```\n" + "x = 1\n" * (2 * MAX_MARKDOWN_ITEMS) + "```\n\n**tea**"), Markdown)


@pytest.mark.parametrize("text", [f"![x](https://example.com/{'a' * 200_000})", "a\n" * 50_000])
def test_text_that_is_too_long_to_lay_out_is_streamed_without_wrapping_it(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrapped: list[int] = []
    wrap = Text.wrap

    def record(self: Text, *args: Any, **options: Any) -> Any:
        wrapped.append(len(self))
        return wrap(self, *args, **options)

    monkeypatch.setattr(Text, "wrap", record)
    stream = MarkdownStream()
    stream.write(text)
    stream.end_line()
    assert text.rstrip("\n") in capsys.readouterr().out
    assert max(wrapped, default=0) <= 4_000
