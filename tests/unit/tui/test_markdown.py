"""Tests for Markdown written by models: shown completely, and never interpreted as Textual markup."""

import pytest
from textual._cells import cell_len

from mcphost.tui.transcript.blocks import MarkdownBlock
from mcphost.tui.transcript.copying import list_copyable_parts
from mcphost.tui.transcript.line_breaks import NO_ROW_END, NO_ROW_START, break_line, needs_own_breaks
from mcphost.tui.transcript.markdown import render_markdown
from mcphost.tui.transcript.markdown_fragments import split_stream
from mcphost.tui.transcript.streaming import split_into_blocks


def render_lines(source: str, width: int = 80) -> list[str]:
    return [
        piece.first_prefix + line if n == 0 else piece.rest_prefix + line
        for piece in render_markdown(source, width)
        if not piece.is_decoration
        for n, line in enumerate(piece.content.plain.split("\n"))
    ]


def test_html_and_generics_stay_literally() -> None:
    text = "\n".join(render_lines("A `Vec<T>` and Vec<T> in a <div> here.\n\n<div>block</div>\n\n<script>x</script>"))
    assert "A Vec<T> and Vec<T> in a <div> here." in text
    assert "<div>block</div>" in text
    assert "<script>x</script>" in text


@pytest.mark.parametrize("text", ["[/]", "[/bold]", "[red]x", "[@click=app.quit]press[/]", "[[", "[b", "a[/][/][/]"])
def test_square_brackets_are_text(text: str) -> None:
    assert render_lines(text) == [text]
    assert render_markdown(text, 40)[0].content.spans == []


def test_links_carry_their_address_and_no_action() -> None:
    content = render_markdown("See [here](https://example.com/a) and https://example.com/b.", 80)[0].content
    targets = [span.style.meta for span in content.spans if not isinstance(span.style, str)]
    assert targets == [{"href": "https://example.com/a"}, {"href": "https://example.com/b"}]
    assert content.plain == "See here and https://example.com/b."


def test_script_addresses_are_no_links() -> None:
    content = render_markdown("[x](javascript:alert(1))", 80)[0].content
    assert content.plain == "[x](javascript:alert(1))"


def test_entities_cannot_smuggle_control_characters() -> None:
    # markdown-it itself replaces numeric control characters
    assert render_lines("a&#27;[31m b&#x202e;c") == ["a\ufffd[31m b‹U+202E›c"]
    assert render_lines("a\x1b[31m") == ["a␛[31m"]


def test_images_are_named_and_never_fetched() -> None:
    assert render_lines("![a cat](https://example.com/cat.png)") == ["[image: a cat]"]


def test_lists_keep_their_numbers_and_nest() -> None:
    assert render_lines("3. three\n4. four\n   - inner\n") == ["3. three", "4. four", "   • inner"]


def test_code_keeps_its_lines_and_indentation() -> None:
    assert render_lines("```python\ndef f():\n\treturn 1\n```") == [" def f():", "     return 1"]


def test_a_table_is_aligned_by_cells_not_by_characters() -> None:
    rows = render_lines("|a|b|\n|---|---|\n|中文|x|\n|long|y|\n")
    assert [cell_len(row.rstrip()[:-1]) for row in rows[1:]] == [6, 6]


def test_a_table_that_is_too_wide_wraps_inside_its_columns() -> None:
    rows = render_lines("|name|text|\n|---|---|\n|one|" + "many words " * 20 + "|\n", 40)
    assert all(cell_len(row) <= 40 for row in rows)
    assert sum("many" in row for row in rows) > 3


def test_a_narrow_table_becomes_a_list() -> None:
    rows = render_lines("|a|b|c|d|\n|-|-|-|-|\n|1|2|3|4|\n", 20)
    assert rows == ["• a 1", "  b 2", "  c 3", "  d 4"]


def test_a_quotation_is_marked_on_every_line() -> None:
    assert render_lines("> one\n>\n> two") == ["▎ one", "▎ ", "▎ two"]


def test_a_growing_text_is_finished_block_by_block() -> None:
    done, rest = split_stream("# head\n\nfirst\n\nsecond")
    assert "".join(part.source for part in done) == "# head\n\nfirst\n\n"
    assert rest is not None
    assert rest.source == "second"


def test_a_long_open_code_block_is_cut_between_lines_and_stays_code() -> None:
    source = "```py\n" + "".join(f"x{n} = {n}\n" for n in range(100))
    done, rest = split_stream(source)
    assert rest is not None
    assert rest.is_joined
    assert len(rest.source.splitlines()) < 20
    lines = [line for part in (*done, rest) for line in render_lines(part.source)]
    assert lines == [f" x{n} = {n}" for n in range(100)]


def test_a_long_open_list_is_cut_between_items_and_continues_counting() -> None:
    source = "".join(f"{n}. item\n" for n in range(1, 41))
    done, rest = split_stream(source)
    assert rest is not None
    assert rest.is_joined
    assert [line for part in (*done, rest) for line in render_lines(part.source)] == [
        f"{n}. item" for n in range(1, 41)
    ]


@pytest.mark.parametrize(
    "source",
    [
        "word " * 20_000,
        "x" * 100_000,
        "```\n" + "line of code\n" * 10_000,
        "|a|b|\n|-|-|\n" + "|1|2|\n" * 3000,
        "- item\n" * 5000,
        "    indented\n" * 5000,
        "text\n\n" * 10_000,
    ],
    ids=["paragraph", "one word", "code", "table", "list", "indented", "paragraphs"],
)
def test_no_part_of_a_long_text_is_long(source: str) -> None:
    blocks = split_into_blocks(source)
    assert all(len(block.copy_text()) < 12_000 for block in blocks)
    text = "".join(block.copy_text() for block in blocks)
    assert sum(text.count(word) for word in ("word", "line of code", "item", "indented", "text", "|1|2|")) == sum(
        source.count(word) for word in ("word", "line of code", "item", "indented", "text", "|1|2|")
    )


def test_nothing_open_means_nothing_finished() -> None:
    assert split_stream("\n\n") == ([], None)


def test_a_stream_cut_anywhere_shows_the_same_as_the_whole_text() -> None:
    source = "# a\n\ntext *b*\n\n- one\n- two\n\n```py\nx = 1\n```\n\n|a|b|\n|-|-|\n|1|2|\n\nend\n"
    for cut in range(len(source)):
        done, rest = split_stream(source[:cut])
        tail = rest.source if rest else ""
        parts = [part.source for part in done]
        more, last = split_stream(tail + source[cut:])
        parts += [part.source for part in more] + ([last.source] if last else [])
        lines = [line for part in parts for line in render_lines(part) if line.strip()]
        assert lines == [line for line in render_lines(source) if line.strip()], cut


def test_a_code_block_names_its_language_and_offers_to_copy_it() -> None:
    heading, code = render_markdown("```python title=x\nprint(1)\n```", 60)
    assert heading.content.plain.split() == ["python", "copy"]
    assert heading.is_decoration
    assert [span.style.meta for span in heading.content.spans if not isinstance(span.style, str)] == [{"copy": 0}]
    assert code.content.plain == "print(1)"
    assert code.first_prefix == " "


def test_the_rest_of_a_code_block_has_no_heading_of_its_own() -> None:
    blocks = split_into_blocks("```py\n" + "".join(f"x{n} = {n}\n" for n in range(300)) + "```\n\nend")
    assert len(blocks) > 1
    headings = [piece for block in blocks for piece in block.render(60) if piece.is_decoration]
    assert len(headings) == 1


@pytest.mark.parametrize("index", [0, 1, -1])
def test_a_code_block_is_copied_in_full_from_each_of_its_blocks(index: int) -> None:
    code = "".join(f"x{n} = {n}\n" for n in range(1000))
    blocks = [block for block in split_into_blocks(f"```py\n{code}```") if block.copy_text()]
    assert len(blocks) == 6
    assert [part.text for part in list_copyable_parts(blocks, index % len(blocks))] == [code]


def test_code_and_tables_are_copied_by_their_number() -> None:
    block = MarkdownBlock("```\na\n```\n\n| x | y |\n|:-:|--:|\n| a\\|b | **2** |\n| 3 |\n\n- ```sh\n  ls\n  ```\n")
    code, table, nested = list_copyable_parts([block], 0)
    assert code.text == "a\n"
    assert table.text == "| x | y |\n| :---: | ---: |\n| a\\|b | **2** |\n| 3 |  |\n"
    assert table.tsv == "x\ty\na|b\t2\n3\t\n"
    assert (nested.name, nested.text) == ("the sh code", "ls\n")


def test_a_table_copied_for_a_spreadsheet_has_no_formulas_but_keeps_its_numbers() -> None:
    cells = ['=HYPERLINK("http://a.example")', "@SUM(1)*cmd", "+1+cmd", "-5", "+1,000.5 %", "-", "a=b"]
    block = MarkdownBlock("| x |\n|---|\n" + "".join(f"| {cell} |\n" for cell in cells))
    (table,) = list_copyable_parts([block], 0)
    assert table.tsv.splitlines()[1:] == [f"'{cell}" for cell in cells[:3]] + cells[3:]


def test_table_columns_are_aligned_as_the_source_says() -> None:
    lines = render_lines("| left | center | right |\n|:---|:---:|---:|\n| a | b | c |\n| dd | eee | f |", 60)
    assert lines == [
        "left  center  right",
        "a       b         c",
        "dd     eee        f",
    ]


def test_br_breaks_a_line_in_a_table_and_is_text_elsewhere() -> None:
    assert render_lines("| a |\n|---|\n| one<br>two<BR/>three |", 60)[1:] == ["one  ", "two  ", "three"]
    assert render_lines("one<br>two") == ["one<br>two"]


def test_a_heading_of_the_first_level_is_underlined() -> None:
    first = render_markdown("# Title", 60)
    second = render_markdown("## Title", 60)
    assert [piece.content.plain for piece in first] == ["Title", "━━━━━"]
    assert [piece.content.plain for piece in second] == ["Title"]


def test_only_tables_and_code_may_be_wider_than_prose() -> None:
    source = f"{'word ' * 60}\n\n```\n{'x' * 150}\n```\n\n| {'a ' * 60} | {'b ' * 60} |\n|---|---|\n"
    widths = {piece.content.plain[:4]: piece.max_width for piece in render_markdown(source, 200)}
    assert widths["word"] == 100
    assert widths["xxxx"] == 152
    assert widths["a a "] == 0


@pytest.mark.parametrize("width", [8, 11, 20, 33, 60])
@pytest.mark.parametrize(
    "text",
    [
        "今天天气很好，我们去公园。然后（如果有时间）去看“电影”！" * 6,
        "模型 claude-sonnet 调用了工具 search_files，结果是：共 14 个文件。" * 5,
        "「はい」と言って、ちょっと待った。ラーメンを食べよう！" * 6,
        "。。。，，，！！！" * 20,
    ],
)
def test_no_row_of_chinese_or_japanese_starts_with_closing_punctuation(text: str, width: int) -> None:
    assert needs_own_breaks(text, width)
    breaks = break_line(text, width)
    rows = [text[start:end] for start, end in zip([0, *breaks], [*breaks, len(text)], strict=True)]
    assert "".join(rows) == text
    assert all(rows)
    assert max(cell_len(row.rstrip()) for row in rows) <= width
    if "。。" not in text:  # a run of punctuation has no other place to break
        assert not [row for row in rows[1:] if row[0] in NO_ROW_START]
        assert not [row for row in rows[:-1] if row.rstrip()[-1] in NO_ROW_END]
