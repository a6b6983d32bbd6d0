"""Tests for texts from models and servers that are expensive to draw."""

import re
import sys

import pytest
from markdown_it import MarkdownIt

from mcphost.markdown_limits import MAX_SOURCE, fitting_length, is_too_complex
from mcphost.sanitize import sanitize
from mcphost.tui.transcript.blocks import MarkdownBlock, NoticeBlock, ThinkingBlock, UserMessage
from mcphost.tui.transcript.copying import list_copyable_parts
from mcphost.tui.transcript.markdown import highlight_code, render_markdown
from mcphost.tui.transcript.markdown_fragments import MarkdownFragment, split_stream
from mcphost.tui.transcript.message_blocks import build_markdown_blocks
from mcphost.tui.transcript.streaming import MAX_MARKDOWN, StreamingText
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.widget_messages import Section

HOSTILE = {
    "brackets": "[" * 40_000,
    "pictures": "![" * 20_000,
    "stars": "*a_b**c " * 5_000,
    "links": "[a](b) " * 6_000,
    "references": "[a]: b\n\n" * 5_000,
    "nested lists": "".join("  " * (n % 300) + "- x\n" for n in range(200)),
    "nested quotes": ("> " * 500 + "x\n") * 40,
    "a quote with lazy lines": ">" * 20 + " a\n" + "a\n" * 20_000,
    "one line": "x" * 40_000,
    "a table": "|a|b|\n|-|-|\n" + "|x|y|\n" * 6_000,
}


@pytest.fixture
def parsed_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the length of each text that is passed to the full Markdown parser."""
    sizes: list[int] = []
    parse = MarkdownIt.parse

    def record_size(parser: MarkdownIt, source: str) -> object:
        if "inline" in parser.get_active_rules()["core"]:
            sizes.append(len(source))
        return parse(parser, source)

    monkeypatch.setattr(MarkdownIt, "parse", record_size)
    return sizes


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_source_that_is_parsed_is_longer_than_the_bound(kind: str, parsed_sizes: list[int]) -> None:
    text = HOSTILE[kind]
    blocks = build_markdown_blocks(text)
    for block in blocks:
        block.render(80)
    assert max(parsed_sizes, default=0) <= 2 * MAX_SOURCE
    assert sum(parsed_sizes) <= 6 * len(text) + 4 * MAX_SOURCE


@pytest.mark.parametrize("kind", ["brackets", "pictures", "stars"])
def test_a_source_full_of_marks_is_not_parsed_and_shown_as_it_is(kind: str, parsed_sizes: list[int]) -> None:
    text = HOSTILE[kind][:6_000]
    assert is_too_complex(text)
    assert "".join(piece.content.plain for piece in render_markdown(text, 80)) == text
    assert split_stream(text) == ([], MarkdownFragment(text, is_joined=False))
    assert parsed_sizes == []


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_a_long_text_is_lost_where_it_is_cut(kind: str) -> None:
    text = HOSTILE[kind]
    shown = "".join(block.copy_text() for block in build_markdown_blocks(text))
    # A table repeats its head where it is cut, and so do closed fences; nothing else is added.
    assert len(shown) >= len(text.rstrip())
    for letter in set(text) - set("\n "):
        assert shown.count(letter) >= text.count(letter)


def test_the_rest_of_a_very_long_answer_is_shown_as_plain_text(parsed_sizes: list[int]) -> None:
    text = "Some **bold** words in a paragraph.\n\n" * 10_000
    blocks = build_markdown_blocks(text)
    plain = [block for block in blocks if isinstance(block, MarkdownBlock) and block.is_plain]
    assert sum(parsed_sizes) < 6 * MAX_MARKDOWN
    assert "**bold**" in plain[-1].render(80)[0].content.plain
    assert "**" not in blocks[0].render(80)[0].content.plain
    assert "".join(block.copy_text() for block in blocks).count("bold") == 10_000
    assert max(len(block.copy_text()) for block in plain) <= 2 * MAX_SOURCE


@pytest.mark.parametrize("line", ["> a\n", "a\n\n", "1. a\n", "- a\n  ", "a|b\n-|-\n"])
def test_of_an_answer_of_very_many_short_lines_only_the_beginning_is_parsed(line: str) -> None:
    blocks = build_markdown_blocks(line * 20_000)
    parsed = [block for block in blocks if isinstance(block, MarkdownBlock) and not block.is_plain]
    assert 1_000 < sum(block.text.count("\n") for block in parsed) < 8_000
    assert sum(block.copy_text().count("a") for block in blocks) >= 20_000


def test_usual_markdown_is_parsed() -> None:
    text = "".join(f"- **item {n}**: see [a link](https://example.com/{n}) and `code_{n}`\n" for n in range(80))
    assert len(text) < MAX_SOURCE
    assert not is_too_complex(text)
    assert "**" not in "".join(piece.content.plain for piece in render_markdown(text, 80))


def test_long_reasoning_opens_on_its_own_page() -> None:
    short, long = ThinkingBlock("word " * 100), ThinkingBlock("word " * 10_000)
    assert short.activate() is None
    assert short.is_expanded
    assert long.activate() == ("Thinking", long.text)
    assert not long.is_expanded


def test_a_card_draws_a_bounded_number_of_arguments_and_opens_the_rest() -> None:
    card = ToolCard("c", "server", "tool", {f"name {n}": n for n in range(5_000)})
    folded = card.render(80)
    card.is_expanded = True
    assert len(folded) < 20
    assert len(card.render(80)) < 250
    assert "4,800 more arguments" in card.render(80)[-1].content.plain
    assert card.activate() is not None
    assert Section("called with name 4999", "4999") in card.sections()


def test_invalid_json_arguments_are_drawn_in_part_and_opened_in_full() -> None:
    card = ToolCard("c", "server", "tool", None, "x" * 100_000)
    card.is_expanded = True
    assert sum(len(piece.content.plain) for piece in card.render(80)) < 5_000
    assert card.activate() is not None
    assert card.sections()[-1].text == "x" * 100_000


@pytest.mark.parametrize(
    ("hidden", "note"),
    [(1, "… 1 more line · a click"), (2, "… 2 more lines · a click"), (1_000, "… 1,000 more lines ·")],
)
def test_the_number_of_folded_lines_of_a_result_has_the_right_form(hidden: int, note: str) -> None:
    card = ToolCard("c", "server", "tool", {})
    card.state, card.result = "ok", "line\n" * (6 + hidden)
    assert note in "\n".join(piece.content.plain for piece in card.render(100))


def test_a_notice_quotes_at_most_a_few_thousand_characters() -> None:
    (piece,) = NoticeBlock("error", "x" * 1_000_000, "y" * 1_000_000).render(80)
    assert len(piece.content.plain) < 10_000


def test_a_table_whose_short_rows_would_fill_thousands_of_cells_is_drawn_as_it_is() -> None:
    assert is_too_complex("a|" * 160 + "\n" + "-|" * 160 + "\n" + "x\n" * 60)
    assert not is_too_complex("a|b|c\n-|-|-\n" + "1|2|3\n" * 200)


def test_a_source_of_thousands_of_blank_lines_is_drawn_as_it_is() -> None:
    assert is_too_complex("```c\n" + "\n" * 3_000)
    assert not is_too_complex("x = 1\n" * 1_300)


def test_a_source_full_of_link_definitions_is_drawn_as_it_is() -> None:
    assert is_too_complex("[a]: b\n\n" * 500)
    assert not is_too_complex("".join(f"[{n}]: https://example.com/{n}\n" for n in range(50)))


def test_only_the_beginning_of_long_code_is_coloured_and_all_of_it_is_shown() -> None:
    code = "value = compute(argument)\n" * 3_000 + "y = 2"
    content = highlight_code(code, "python")
    assert content.plain == code
    assert 5_000 < max(span.end for span in content.spans) <= 6_000
    assert highlight_code("x = 1", "python").spans
    assert 100 < len(highlight_code("1\n" * 3_000, "python").spans) < 3_002  # words and signs count, too
    assert not highlight_code("x" * 10_000, "python").spans


@pytest.mark.parametrize("language", ["ng2", "amdgpu", "html+ng2", "md", "http", "unheard-of"])
def test_a_language_with_a_slow_lexer_is_not_highlighted(language: str) -> None:
    assert not highlight_code("[(" * 3_000, language).spans
    assert highlight_code("x = 1", "Python").spans


def test_a_message_with_very_many_attachments_shows_the_first_and_opens_all_of_them() -> None:
    names = tuple(f"x:{number}" for number in range(1_000))
    block = UserMessage("Look", names, resources=tuple(("notes", name) for name in names))
    rows = [piece.content.plain for piece in block.render(80)]
    assert rows[-2:] == ["@ x:49", "… 950 more attachments · a click opens all"]
    assert block.estimate_height(80) == len(rows) + block.gap
    opened = block.activate()
    assert opened is not None
    assert opened[1].splitlines()[-1] == "@ x:999"
    assert UserMessage("Look", names[:50]).activate() is None


@pytest.mark.parametrize("line", ["a\n", "\n", "- a\n", "é\n"])
def test_a_block_of_an_answer_draws_few_rows_however_short_its_lines_are(line: str) -> None:
    text = line * 4_000
    blocks = build_markdown_blocks(text)
    assert max(sum(piece.content.plain.count("\n") + 1 for piece in block.render(80)) for block in blocks) <= 510
    assert "".join(block.copy_text() for block in blocks).replace("\n", "") == text.replace("\n", "")


def test_the_plain_rest_of_an_answer_is_split_by_its_lines_too() -> None:
    blocks = build_markdown_blocks("x" * MAX_MARKDOWN + "\n" * 2_000 + "x")
    assert all(block.copy_text().count("\n") <= 100 for block in blocks)


def test_a_table_whose_cells_have_very_many_lines_is_drawn_as_it_is() -> None:
    assert is_too_complex("|a" * 20 + "|\n" + "|-" * 20 + "|\n" + "|" + "x<br>" * 300 + "|\n")
    assert not is_too_complex("|a|b|\n|-|-|\n" + "|x<br>y|z|\n" * 30)
    assert is_too_complex("~" * 1_100)


@pytest.mark.parametrize("marks", [">" * 20, "> " * 20, "> - " * 10, "1. " + ">" * 20])
def test_deep_quotes_with_many_lines_are_drawn_as_they_are(marks: str) -> None:
    text = f"{marks} a\n" + "a\n" * 200
    assert is_too_complex(text)
    assert split_stream(text)[0]
    assert "".join(piece.content.plain for piece in render_markdown(text, 80)) == text.rstrip("\n")
    assert is_too_complex(f"{marks} a\na\na\na\n\n" * 90)
    assert not is_too_complex("> quoted\n" * 300 + "\nanswer\n" * 300)
    assert not is_too_complex(">>> x = 1\n" * 300 + "\n" + "> - a\n>   > b\n" * 100)


def test_a_growing_answer_with_deep_quotes_is_parsed_only_while_it_is_short(parsed_sizes: list[int]) -> None:
    text = ">" * 20 + " a\n" + "a\n" * 1_990
    growing = StreamingText()
    shown = [growing.start_tail(thinking=False)]
    for at in range(0, len(text), 100):
        growing.pending.append(text[at : at + 100])
        shown += growing.flush()
        shown[-1].render(80)
    assert "".join(block.copy_text() for block in shown).count("a") == 1_991
    assert max(parsed_sizes) <= 400


def test_many_lines_of_reasoning_open_on_a_page_and_of_a_message_are_cut() -> None:
    thought = ThinkingBlock("a\n" * 2_000)
    assert thought.activate() == ("Thinking", thought.text)
    assert not thought.is_expanded
    message = UserMessage("a\n" * 2_000)
    assert sum(piece.content.plain.count("\n") + 1 for piece in message.render(80)) < 310
    assert message.activate() == ("You", message.text)
    assert UserMessage("a\n" * 200).activate() is None


def test_a_long_message_is_folded_and_enter_unfolds_and_folds_it() -> None:
    message = UserMessage("".join(f"line {number}\n" for number in range(200)))
    assert message.render(80)[-1].content.plain == "… 188 more lines · a click unfolds", "no key acts on it yet"
    message.has_cursor = True
    folded = [row.content.plain for row in message.render(80)]
    assert folded[-1] == "… 188 more lines · enter unfolds"
    assert "line 11" in folded[1]
    assert "line 12" not in folded[1]
    assert message.activate() is None
    unfolded = [row.content.plain for row in message.render(80)]
    assert "line 199" in unfolded[1]
    assert unfolded[-1] == "▴ enter folds"
    assert message.activate() is None
    assert [row.content.plain for row in message.render(80)] == folded


def test_a_match_in_a_folded_message_unfolds_it() -> None:
    message = UserMessage("line\n" * 100 + "needle")
    message.reveal(re.compile("needle"), 0)
    assert "needle" in message.render(80)[1].content.plain


HIDDEN = {
    "text": "\u200b" * 30_000,
    "words": "a\U000e0041 " * 10_000,
    "code": "```\n" + "\u200b" * 30_000 + "\n```\n",
    "a table": "|a|b|\n|-|-|\n" + ("|" + "\u200b" * 3_900 + "|" + "x" * 3_000 + "|\n") * 3,
    "after plain text": "word " * 1_500 + "\u200b" * 3_000,
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_hidden_character_counts_as_much_as_its_mark(kind: str) -> None:
    text = HIDDEN[kind]
    blocks = build_markdown_blocks(text)
    shown = [sum(len(piece.content.plain) for piece in block.render(120)) for block in blocks]
    assert max(shown) < 2 * MAX_SOURCE
    assert "".join(block.copy_text() for block in blocks).count("\u200b") >= text.count("\u200b")


def test_hidden_characters_in_reasoning_and_in_a_call_are_drawn_in_part() -> None:
    reasoning = ThinkingBlock("\u200b" * 10_000)
    assert reasoning.activate() == ("Thinking", reasoning.text)
    card = ToolCard("c", "server", "tool", {"name": "\u200b" * 1_900})
    card.is_expanded = True
    card.result = ("\u200b" * 390 + "\n") * 12
    assert sum(len(piece.content.plain) for piece in card.render(120)) < 8_000
    assert "more characters" in card.render(120)[1].content.plain


@pytest.mark.parametrize("line", ["\u200b" * 9_000, "\u200b" * 100 + "\n"])
def test_a_message_with_hidden_characters_is_drawn_in_part_and_opened_in_full(line: str) -> None:
    message = UserMessage((line * 90)[:9_000])
    message.is_expanded = True
    assert sum(len(piece.content.plain) for piece in message.render(100)) < 12_000
    assert message.activate() == ("You", message.text)


def test_reasoning_that_grows_too_long_while_it_is_unfolded_is_folded_again() -> None:
    block = ThinkingBlock("word ", is_streaming=True)
    block.activate()
    assert "▾" in block.render(80)[0].content.plain
    block.text = "word " * 20_000
    assert len(block.render(80)) == 1
    assert block.activate() == ("Thinking", block.text)


@pytest.mark.parametrize("separator", ["\x0c", "\u2028", "\x0b", "\x85", "\r"])
def test_other_line_separators_before_streamed_code_change_neither_its_rows_nor_its_copy(separator: str) -> None:
    code = "".join(f"line {n}\n" for n in range(60))
    answer = f"Here it is:{separator * 20}\n\n```sh\n{code}```\n"
    stream = StreamingText()
    blocks = [stream.start_tail(thinking=False)]
    for at in range(0, len(answer), 37):
        stream.pending.append(answer[at : at + 37])
        blocks += stream.flush()
    rows = "\n".join(piece.content.plain for block in blocks for piece in block.render(100))
    assert [n for n in range(60) if f"\nline {n}\n" not in f"\n{rows}\n"] == []
    copies = [part.text for at in range(len(blocks)) for part in list_copyable_parts(blocks, at)]
    assert copies
    assert set(copies) == {code}


@pytest.mark.parametrize("widths", [(300, 20, 5), (40, 40, 40), (7, 90, 90), (100, 99, 98), (500, 3, 501)])
@pytest.mark.parametrize("room", [40, 61, 80])
def test_the_widest_columns_of_a_table_give_way_first(widths: tuple[int, ...], room: int) -> None:
    source = f"|{'|'.join('x' * width for width in widths)}|\n|-|-|-|\n"
    expected, gaps = list(widths), 4
    while sum(expected) > room - gaps:
        expected[expected.index(max(expected))] -= 1
    rule = render_markdown(source, room)[-1].content.plain.split("  ")
    assert [len(part) for part in rule[:3]] == expected


@pytest.mark.parametrize("hidden", ["\u200b", "\u200d", "\U000e0041", "\u200bword "])
def test_a_text_full_of_hidden_characters_is_measured_once(hidden: str) -> None:
    calls = 0

    def count_call(*_event: object) -> None:
        nonlocal calls
        calls += 1

    text = hidden * 50_000
    sys.setprofile(count_call)
    try:
        fragments, rest = split_stream(text)
    finally:
        sys.setprofile(None)
    assert calls < 30 * len(text)
    assert rest is not None
    assert "".join(part.source for part in (*fragments, rest)) == text
    assert max(len(sanitize(part.source)) for part in fragments) <= MAX_SOURCE


USUAL = {"Persian": "می‌خواهم نمی‌شود ", "Hindi": "क्‍ष ", "emoji": "👨‍👩‍👧‍👦❤️ ⚠️ ", "CR LF": "a\r\n"}


@pytest.mark.parametrize("kind", USUAL)
def test_characters_that_are_not_marked_count_as_one(kind: str) -> None:
    beginning = USUAL[kind] * (MAX_SOURCE // len(USUAL[kind]))
    assert fitting_length(beginning) == len(beginning)
    assert not is_too_complex(USUAL[kind] * (1_900 // len(USUAL[kind])))
    thought = ThinkingBlock(USUAL[kind] * (280 if kind == "CR LF" else 18_000 // len(USUAL[kind])))
    assert thought.activate() is None
    assert UserMessage(USUAL[kind] * 250).activate() is None


def test_a_block_of_very_short_paragraphs_draws_few_of_them() -> None:
    blocks = build_markdown_blocks("a\n\n" * 2_000)
    assert max(len(block.render(80)) for block in blocks) <= 60
    assert sum(block.copy_text().count("a") for block in blocks) == 2_000
