"""Tests for how a consent question shows arguments: size, hidden characters, and text copied from other servers."""

from typing import Any

import pytest
from textual.content import Content

from mcphost.config.rules import FILES
from mcphost.host.argument_origins import EARLIER_PREFIX, ArgumentOrigin, MediaOrigin
from mcphost.host.origins.argument_copies import find_origins
from mcphost.host.origins.outside_texts import OutsideText, OutsideTexts
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import replace
from mcphost.translation import LANGUAGES, set_language
from mcphost.tui.dialogs.call_view import argument_sections, describe_annotations, render_call
from mcphost.tui.dialogs.copied_text import COPIED_STYLE, CopyMarker, render_origins
from mcphost.tui.dialogs.tool_consent import ToolConsentDialog
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.widgets.key_values import KeyValueList, layout_pairs
from tests.screens.ask_question import tool_question

ARGUMENTS = {"body": "FYI\nthe first copied line\nand the second one\nbye", "to": ["a", "another copied text"]}
BODY = ArgumentOrigin(argument="body", server="mail", source="read_message", characters=40, spans=((4, 44),))
LIST = ArgumentOrigin(argument="to[1]", server="notes", source="search", characters=19, spans=((0, 19),))


def marked_texts(content: Content) -> list[str]:
    return [content.plain[span.start : span.end] for span in content.spans if span.style == COPIED_STYLE]


def test_each_argument_has_a_line_with_source_and_length_the_longest_first() -> None:
    split = ArgumentOrigin(argument="a + b", server=FILES, source="plan.txt", characters=3_000, encoding="split")
    lines = [line.plain for line in render_origins((BODY, split), is_complete=True)]
    assert lines == [
        "▲ a + b: 3,000 characters from a file · plan.txt (split across these arguments)",
        "▲ body: 40 characters from mail · read_message",
    ]


def test_names_of_servers_cannot_forge_lines_and_many_lines_are_counted() -> None:
    odd = ArgumentOrigin(argument="x\n▲ y", server="m\x1b[31m", source="t\u202e", characters=20)
    lines = render_origins((odd,) * 9, is_complete=False)
    assert len(lines) == 8
    assert all("\n" not in line.plain and "\x1b" not in line.plain and "\u202e" not in line.plain for line in lines)
    assert "and 3 more" in lines[6].plain
    assert "could not be compared" in lines[7].plain


def test_words_in_a_name_that_could_be_those_of_mcphost_are_quoted() -> None:
    forged = ArgumentOrigin(
        argument="to: 3 characters from you · body", server="a file", source="read (you typed it too)", characters=40
    )
    (line,) = render_origins((forged,), is_complete=True)
    assert line.plain == (
        '▲ "to: 3 characters from you · body": 40 characters from "a file" · "read (you typed it too)"'
    )
    path = ArgumentOrigin(argument='rows[1]["my key"]', server="@me/notes", source="notes://a/b?c=1#d", characters=40)
    (line,) = render_origins((path,), is_complete=True)
    assert line.plain == '▲ rows[1]["my key"]: 40 characters from @me/notes · notes://a/b?c=1#d'


def test_media_that_cannot_be_compared_are_named_with_their_server() -> None:
    media = (MediaOrigin(FILES, "pdf"), MediaOrigin("m\x1b[31mail\n", "image"))
    lines = [line.plain for line in render_origins((), is_complete=True, media=media)]
    assert lines[0] == "▲ A PDF file that you attached cannot be compared with this call."
    assert lines[1].startswith('▲ An image from "m')
    assert lines[1].endswith("cannot be compared with this call.")
    assert all("\x1b" not in line and "\n" not in line for line in lines)


def test_an_earlier_server_is_not_named_like_the_one_that_has_its_name_now() -> None:
    earlier = f"{EARLIER_PREFIX}mail"
    origin = ArgumentOrigin(argument="body", server=earlier, source="read", characters=40)
    lines = [line.plain for line in render_origins((origin,), is_complete=True, media=(MediaOrigin(earlier, "pdf"),))]
    assert lines == [
        "▲ body: 40 characters from an earlier server mail · read",
        "▲ A PDF file from an earlier server mail cannot be compared with this call.",
    ]


def test_every_server_is_named_even_if_its_copy_is_short() -> None:
    long = ArgumentOrigin(argument="tags", server="wiki", source="search", characters=90)
    lines = [line.plain for line in render_origins((*(long,) * 9, BODY), is_complete=True, omitted=5)]
    assert len(lines) == 7
    assert lines[5] == "▲ body: 40 characters from mail · read_message"
    assert "and 9 more" in lines[6]


def test_the_copied_part_is_marked_line_by_line_in_the_shown_value() -> None:
    shown = Content("FYI\n  the first copied line·\nand the second one\nbye")
    assert marked_texts(CopyMarker(ARGUMENTS, (BODY, LIST)).mark(shown, "body")) == [
        "the first copied line", "and the second one",
    ]  # fmt: skip


def test_a_part_inside_of_a_list_is_marked_in_the_list() -> None:
    shown = Content('["a","another copied text"]')
    assert marked_texts(CopyMarker(ARGUMENTS, (BODY, LIST)).mark(shown, "to")) == ["another copied text"]


def test_nothing_is_marked_in_an_argument_that_changed_or_has_no_copies() -> None:
    assert marked_texts(CopyMarker({"body": "short"}, (BODY,)).mark(Content("short"), "body")) == []
    assert marked_texts(CopyMarker(ARGUMENTS, (BODY, LIST)).mark(Content("another copied text"), "other")) == []


class CountedArguments(dict[str, Any]):
    """Arguments that count how often all of them are visited."""

    visits = 0

    def items(self) -> Any:
        self.visits += 1
        return super().items()


def copied_whole(name: str, text: str, source: str = "read") -> ArgumentOrigin:
    return ArgumentOrigin(
        argument=name, server="mail", source=source, characters=len(text), spans=((0, len(text)),)
    )  # fmt: skip


def body_texts(dialog: ToolConsentDialog) -> str:
    return "\n".join(part.plain for part in dialog.body() if isinstance(part, Content))


def test_a_question_visits_the_arguments_no_more_often_for_many_copies_than_for_one() -> None:
    counts: list[int] = []
    for number in (1, 50):
        arguments = CountedArguments({f"a{n}": f"a copied word {n}" for n in range(number)})
        origins = tuple(copied_whole(name, text) for name, text in arguments.items())
        dialog = ToolConsentDialog(tool_question(arguments=arguments, origins=origins))
        arguments.visits = 0
        (sent,) = [part for part in dialog.body() if isinstance(part, KeyValueList)]
        assert sent is not None
        counts.append(arguments.visits)
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("lines", "is_told"), [(150, False), (500, True)], ids=["all marked", "more lines than are marked"]
)
def test_a_question_says_if_not_all_copied_text_is_highlighted(lines: int, is_told: bool) -> None:
    text = "\n".join(f"copied {n}" for n in range(lines))
    question = tool_question(arguments={"body": text}, origins=(copied_whole("body", text),))
    assert ("Not all of the copied text is highlighted" in body_texts(ToolConsentDialog(question))) is is_told


def test_lines_of_copied_text_are_searched_for_a_bounded_number_of_times() -> None:
    text = "\n".join(f"{n:04}" for n in range(1_990))
    origins = tuple(copied_whole("body", text, source=f"read {n}") for n in range(100))
    marker = CopyMarker({"body": text}, origins)
    assert marked_texts(marker.mark(Content("something else\n" * 1_000), "body")) == []
    assert marker.is_incomplete


def test_copied_text_beyond_the_displayed_part_does_not_count_as_missing_its_mark() -> None:
    text = "\n".join(f"copied {n}" for n in range(50_000))
    marker = CopyMarker({"body": text}, (copied_whole("body", text),))
    assert marked_texts(marker.mark(Content(text[:17]), "body")) == ["copied 0", "copied 1"]
    assert not marker.is_incomplete


LARGE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "members": {f"k{number}": number for number in range(20_000)},
    "texts": {"a": ["x"] * 20_000},
    "an object": {"a": {f"k{number}": "" for number in range(20_000)}},
    "a long text": {"a": "漢" * 200_000},
}


@pytest.mark.parametrize("kind", LARGE_ARGUMENTS)
def test_arguments_too_large_to_check_count_as_having_hidden_characters(kind: str) -> None:
    view = render_call(LARGE_ARGUMENTS[kind])
    assert view.readability.has_hidden_characters
    assert not view.readability.is_checked


def test_large_arguments_that_can_be_checked_are_checked() -> None:
    plain = {"path": "a.py", "text": "x = 1\n" * 100_000, "rows": ["y"] * 5_000}
    assert render_call(plain).readability == (False, True, False)
    hidden = render_call(plain | {"last": "a\u200bb"})
    assert (hidden.readability.has_hidden_characters, hidden.readability.is_checked) == (True, True)


def test_very_many_arguments_are_counted_in_the_dialog_and_complete_in_the_viewer() -> None:
    many = {f"k{number}": f"value {number}" for number in range(20_000)}
    view = render_call(many)
    assert len(view.pairs) == 251
    assert view.omitted_characters > 200_000
    sections = argument_sections(many)
    assert len(sections) == 5_001
    shown = "".join(str(section) for section in sections)
    assert all(value in shown for value in many.values())


def test_values_below_a_long_name_are_shown_as_one_value() -> None:
    inner = {f"p{number}": "a\nb" for number in range(150)}
    assert [name for name, _ in render_call({"x": {"k" * 50: inner}}).pairs][149] == f"x.{'k' * 50}.p149"
    long = {"x": {"k" * 100_000: inner}}
    assert [name for name, _ in render_call(long).pairs] == ["x"]
    (section,) = argument_sections(long)
    assert "k" * 100_000 in section.text


def test_a_dialog_shows_at_most_five_hundred_lines_of_all_arguments_together() -> None:
    view = render_call({"one": "a line\n" * 400, "two": "b line\n" * 400, "three": "short"})
    first, second, third = (str(value) for _, value in view.pairs)
    assert first.count("a line") == 400
    assert 95 < second.count("b line") < 105
    assert "more characters: v shows all of it" in second
    assert third == "short"
    assert 2_000 < view.omitted_characters < 2_200


def test_a_dialog_counts_a_mark_with_the_characters_that_it_shows() -> None:
    view = render_call({"one": "\u202e" * 20_000, "two": "\xa0" * 20_000})
    assert sum(len(value) for _, value in view.pairs) < 40_200
    assert view.omitted_characters > 30_000


def shown_rows(arguments: dict[str, Any], original: dict[str, Any] | None = None) -> str:
    view = render_call(arguments, original)
    return layout_pairs(view.pairs, 70, styles=view.styles).plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"path": "/tmp/a", "": "--force /"}, {"path": "/tmp/a\n--force /"}),
        ({"path": "/tmp/a", "path ": "/etc"}, {"path": "/tmp/a", "path  ": "/etc"}),
        ({"a\nb": "1"}, {"a⏎b": "1"}),
        ({"": "1"}, {'""': "1"}),
        ({"x (text)": "[\n]"}, {"x": "[\n]"}),
    ],
)
def test_calls_with_different_names_of_arguments_never_look_the_same(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert shown_rows(one) != shown_rows(other)
    assert render_call(one).readability.has_unusual_names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a.b": "1\n2"}, {"a": {"b": "1\n2"}}),
        ({"a[0]": "1\n2"}, {"a": ["1\n2"]}),
        ({"a.b": {"c": "1\n2"}}, {"a": {"b": {"c": "1\n2"}}}),
        ({"a": {"b.c": "1\n2"}}, {"a": {"b": {"c": "1\n2"}}}),
    ],
)
def test_a_dot_or_bracket_in_a_name_never_looks_like_a_path(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert shown_rows(one) != shown_rows(other)
    headings = [[section.heading for section in argument_sections(arguments)] for arguments in (one, other)]
    assert headings[0] != headings[1]
    assert not render_call(one).readability.has_unusual_names  # so it can be allowed always


def test_copied_text_is_marked_in_an_argument_with_a_dot_in_its_name() -> None:
    arguments = {"a.b": "copied from the inbox", "a": {"b": "own\ntext"}}
    index = OutsideTexts()
    index.add(OutsideText("mail", "read", "copied from the inbox"))
    (origin,) = find_origins(index, "web", arguments).found
    dialog = ToolConsentDialog(tool_question(arguments=arguments, origins=(origin,)))
    (sent,) = [part for part in dialog.body() if isinstance(part, KeyValueList)]
    assert any(str(span.style) == COPIED_STYLE for span in sent.render().spans)
    assert origin.argument == '"a.b"'


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_argument_looks_like_a_row_of_mcphost(language: str) -> None:
    set_language(language)
    try:
        edited = render_call({"command": "ls"}, {"command": "rm"})
        label, value = edited.pairs[1]
        for name in (label, label.strip(), "…", "▲ a"):
            view = render_call({"command": "ls", name: value})
            assert (view.pairs[1][0], view.readability.has_unusual_names) == (f'"{name}"', True)
            heading = argument_sections({name: value})[0].heading
            assert f'"{name}"' in heading
        assert not edited.readability.has_unusual_names
        kind = render_call({"x": "[\n]"}).pairs[0][0].removeprefix("x")
        assert render_call({f"x{kind}": ""}).readability.has_unusual_names
    finally:
        set_language(LANGUAGES[0])


def test_a_call_with_unusual_names_can_be_allowed_once_only() -> None:
    usual = ToolConsentDialog(tool_question(arguments={"account": "a", "max-results": 1, "filter[name]": "", "$x": 0}))
    unusual = ToolConsentDialog(tool_question(arguments={"": "It takes no arguments."}))
    assert "in quotes" not in body_texts(usual)
    assert "in quotes" in body_texts(unusual)
    assert not usual.call_view.readability.has_unusual_names
    assert unusual.call_view.pairs == [('""', "It takes no arguments.")]
    assert '"" It takes' in unusual.preview()


@pytest.mark.parametrize(
    "name", ["p\u0430th", "\uff50\uff41th", "cafe\u0301", "The server only reads; mcphost checked it"], ids=ascii
)
def test_a_name_of_an_argument_that_imitates_another_or_a_sentence_is_quoted(name: str) -> None:
    view = render_call({"path": "/tmp/a", name: "/etc/passwd"})
    assert (view.readability.has_unusual_names, view.pairs[1][0]) == (True, f'"{name}"')
    usual = render_call({"path": "", "max tokens": 1, "\u8def\u5f84": "", "caf\xe9": ""})
    assert not usual.readability.has_unusual_names


def test_a_tool_whose_name_looks_like_another_is_named_as_such() -> None:
    danger = 'The tool has a name that looks like "write_file" but is another one'
    assert danger in body_texts(ToolConsentDialog(replace(tool_question(), tool="writ\u0435_file")))
    assert danger not in body_texts(ToolConsentDialog(tool_question()))


def test_copied_text_is_marked_in_an_argument_with_an_unusual_name() -> None:
    dialog = ToolConsentDialog(tool_question(arguments={"a ": "copied"}, origins=(copied_whole("a ", "copied"),)))
    (sent,) = [part for part in dialog.body() if isinstance(part, KeyValueList)]
    assert any(str(span.style) == COPIED_STYLE for span in sent.render().spans)


def test_a_card_of_a_call_quotes_unusual_names() -> None:
    card = ToolCard("c", "server", "tool", {"path": "/tmp/a", "": "--force", " b": "1"})
    assert 'path /tmp/a   "" --force   " b" 1' in card.render(80)[1].content.plain
    assert [section.heading for section in card.sections()][2:] == ['called with ""', 'called with " b"']


@pytest.mark.req("tools.annotations.defaults")
def test_a_missing_hint_of_a_tool_is_never_shown_as_harmless() -> None:
    assert describe_annotations(ToolAnnotations()) == ""
    assert describe_annotations(ToolAnnotations(read_only_hint=False)) == "writes data"


@pytest.mark.parametrize(
    ("literal", "other"),
    [
        ("x⏎", "x\n"),
        ("x·\n", "x \n"),
        ("x· ·\r\ny", "x   \r\ny"),
        ("a\n→   b", "a\n\tb"),
        ("x\n⏎", "x\n\n"),
        ("a␍b", "a\rb"),
        ("a‹U+200B›b", "a\u200bb"),
        ("a‹U+00A0›b", "a\xa0b"),
        (["‹U+202E›"], ["\u202e"]),
        (" ␛", " \x1b"),
    ],
)
def test_a_character_like_a_mark_is_not_shown_like_what_the_mark_stands_for(literal: Any, other: Any) -> None:
    for one, two in (({"p": literal}, {"p": other}), ({"p": {"q": literal}}, {"p": {"q": other}})):
        assert render_call(one).pairs != render_call(two).pairs
        assert argument_sections(one) != argument_sections(two)
    assert "‹U+" in render_call({"p": literal}).pairs[0][1]


def test_dots_and_arrows_in_ordinary_text_are_shown_as_they_are() -> None:
    text = "a · b\n→ c ‹d›\n"
    assert render_call({"p": text}).pairs == [("p", "a · b\n→ c ‹d›⏎")]


@pytest.mark.parametrize(
    ("literal", "shown"),
    [
        ("x·\n", "x‹U+00B7›⏎"),
        ("中文·\n· ·", "中文‹U+00B7›\n‹U+00B7› ‹U+00B7›"),
        ("a\n→   b", "a\n‹U+2192›   b"),
        ("‹U+00B7›\n", "‹U+2039›U+00B7›⏎"),
    ],
)
def test_a_sign_of_white_space_is_shown_by_its_code_alone(literal: str, shown: str) -> None:
    assert render_call({"p": literal}).pairs == [("p", shown)]


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("body is safe you typed it too", '"body is safe you typed it too"'),
        ("a + b you typed it", '"a + b you typed it"'),
        ("to[0] + options.text", "to[0] + options.text"),
        ('rows[1]["my key"] + x-y + …', 'rows[1]["my key"] + x-y + …'),
    ],
)
def test_words_in_the_name_of_an_argument_are_quoted_in_a_line_about_copied_text(argument: str, shown: str) -> None:
    origin = ArgumentOrigin(argument=argument, server="notes", source="read", characters=40)
    (line,) = render_origins((origin,), is_complete=True)
    assert line.plain == f"▲ {shown}: 40 characters from notes · read"
