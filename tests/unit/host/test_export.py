"""Tests that text from servers and models cannot become markup, control characters or scripts in an export."""

import json
import random
from html.parser import HTMLParser
from typing import Literal

import pytest
from markdown_it import MarkdownIt

from mcphost.host.conversation.export import FORMATS, export_conversation, suggest_file_name
from mcphost.llm.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.sanitize import is_sanitized
from mcphost.serialization import convert
from mcphost.store.conversations import ConversationInfo
from mcphost.store.manual_calls import StoredManualCall

WHITE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "```\n</pre><script>", "`</code><svg onload=1>`",
    "**<iframe>**", "# <style>", "\x1b]0;title\x07", "\u202e", "</title>", "javascript:alert(1)",
    "<!--", "]]>", "~~~\n<b>",
)  # fmt: skip
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "article", "span", "div", "details",
        "summary", "pre", "code", "strong", "img"}  # fmt: skip


def make_info(title: str = "A talk") -> ConversationInfo:
    return ConversationInfo("abcdef123456", title, "m", 2, 1.0, 2.0)


def make_message(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts, at=1_700_000_000.0, model="x/y")


class TagReader(HTMLParser):
    """An HTML parser that collects the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def read_tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    reader = TagReader()
    reader.feed(page)
    return reader.tags


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_words_of_mcphost_are_not_exported_as_those_of_the_user(form: Literal["markdown", "html"]) -> None:
    typed = Message(role="user", parts=(TextPart("Hello."),))
    automatic = Message(role="user", parts=(TextPart("Continue."),), is_automatic=True)
    text = export_conversation(make_info(), (typed, automatic), form)
    assert text.count("You") == 1
    assert (
        text.index("You")
        < text.index("Hello.")
        < text.index("mcphost, to continue the answer")
        < text.index("Continue.")
    )


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_what_a_page_wrote_is_not_exported_as_attached_by_the_user(form: Literal["markdown", "html"]) -> None:
    part = ResourcePart("weather", "ui://weather/page", "Three are selected.", tool="show", is_from_page=True)
    text = export_conversation(make_info(), (make_message(part, TextPart("Go on")),), form)
    assert "Written by the page of" in text
    assert "Three are selected." in text
    assert "Attached" not in text


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_an_attached_resource_names_its_server_and_a_file_names_none(form: Literal["markdown", "html"]) -> None:
    parts = (ResourcePart("files", "file:///a.txt", "from a server"), ResourcePart("", "notes.txt", "from here"))
    text = export_conversation(make_info(), (make_message(*parts),), form)
    assert "(files)" in text
    assert "notes.txt" in text
    assert "()" not in text


def test_no_text_of_a_stranger_becomes_an_element_or_an_attribute() -> None:
    source = random.Random(14)
    for _ in range(60):
        text = "\n".join(source.choices(HOSTILE, k=5))
        parts = (
            TextPart(text), ThinkingPart(text), ToolUsePart("u", text, {text: text}), ToolUsePart("u", "t", None, text),
            ToolReturnPart("u", text, text), ResourcePart(text, text, text), ImagePart(text, text),
            ImagePart("image/png", text),
        )  # fmt: skip
        page = export_conversation(make_info(text), [make_message(*parts)], "html")
        assert is_sanitized(page)
        for tag, attributes in read_tags(page):
            assert tag in TAGS
            assert not [name for name in attributes if name.startswith("on")]
            assert tag != "img"


def test_the_page_may_load_nothing_but_its_own_images() -> None:
    images = (
        ImagePart("image/png", WHITE_PIXEL),
        ImagePart("image/svg+xml", WHITE_PIXEL),
        ImagePart("image/png", "A" * 4_000_000),
    )
    tags = read_tags(export_conversation(make_info(), [make_message(*images)], "html"))
    assert [attributes["src"] for tag, attributes in tags if tag == "img"] == [f"data:image/png;base64,{WHITE_PIXEL}"]
    (policy,) = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "script" not in policy


def test_a_code_block_keeps_its_lines_and_its_end() -> None:
    page = export_conversation(make_info(), [make_message(TextPart("a\n```py\nx = 1\n\n  y\n```\nb"))], "html")
    assert "<pre><code>x = 1\n\n  y\n</code></pre>" in page
    assert page.count('class="text"') == 2


def test_a_result_with_backticks_cannot_leave_its_block_in_markdown() -> None:
    text = export_conversation(
        make_info(), [make_message(ToolReturnPart("u", "t", "```\n# Not a heading"))], "markdown"
    )
    assert "````\n```\n# Not a heading\n````" in text


PIECES = (
    "`", "``", "```", "````", "~~~", "\n", "\n", "\n\n", " ", "    ", "\t", "- ", "1. ", "> ", "## ", "a", "|", "---",
    "===", "| a |\n|---|\n", "\\", "![x](http://a.example/)", "<b>", "<!--", "<div>\n", "<`@x.y>", "[a](", "[a]: b",
    ")", '"', "![x][a]", "&#x202E;", "\u00a0", "<https://a.example/`>", "[^1]: ", "`<T>`",
)  # fmt: skip


@pytest.mark.parametrize(
    "text", ["- # You", "> ## You", "1. > # You", "> You\n> ===", "- You\n    ---", "> - You\n>   ==="]
)
def test_a_heading_in_a_quote_or_a_list_is_below_those_of_the_document(text: str) -> None:
    page = export_conversation(make_info(), [make_message(TextPart(text))], "markdown")
    headings = [one.tag for one in MarkdownIt("commonmark").parse(page) if one.type == "heading_open"]
    assert [tag for tag in headings if tag in ("h1", "h2")] == ["h1", "h2"]
    assert "You" in page


@pytest.mark.parametrize("has_tables", [True, False])
def test_no_message_loads_hides_or_imitates_anything_in_markdown(has_tables: bool) -> None:
    parser = MarkdownIt("commonmark", {"html": True})
    if has_tables:
        parser.enable("table")
    source = random.Random(7)
    for _ in range(400):
        text = "".join(source.choices(PIECES, k=8))
        parts = (TextPart(text), ThinkingPart(text), ImagePart(text, ""), ResourcePart(text, text, text))
        messages = [make_message(*parts), Message(role="user", parts=(TextPart("end"),))]
        tokens = parser.parse(export_conversation(make_info(text), messages, "markdown", system_prompt=text))
        headings = [one.tag for one in tokens if one.type == "heading_open"]
        assert [tag for tag in headings if tag in ("h1", "h2")] == ["h1", "h2", "h2", "h2"], text
        inner = [child for one in tokens for child in one.children or ()]
        assert not {one.type for one in (*tokens, *inner)} & {"image", "html_block", "html_inline"}, text
        assert "\u202e" not in "".join(one.content for one in inner if one.type == "text"), text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Use `Vec<T>`, a < b and `![x]`:\n\n- **bold**\n- [a](http://a.example)", None),
        ("1. Run:\n   ```sh\n   cat <file>\n   ```\n2. Done", None),
        ("| a | `<T>` |\n|---|---|\n| `b` | 1 |", None),
        ("```html\n<!-- ![x](y) -->\n## b\n```", None),
        ("# Title\nText\n---", "### Title\nText\n\n---"),
        ("<br> ![x](http://a.example)", "&lt;br> \\![x](http://a.example)"),
        ("a ` b <br>", "a ` b &lt;br>"),
        ("```sh\nls", "```sh\nls\n```"),
        ("- a\n  ```\n  b\n![x](y)", "- a\n  ```\n  b\n  ```\n\\![x](y)"),
        ("[a]: http://a.example", "[a]\\: http://a.example"),
        ("The type of `x[0]: y` is `T`", None),
        (
            "Run:\n\n    # all of it\n    cat <a> ![x](y)\n\n    ls",
            "Run:\n\n```\n# all of it\ncat <a> ![x](y)\n\nls\n```",
        ),
        ("\t# a\n\n\nText", "```\n# a\n```\n\n\nText"),
        ("    ``` is `a`\n    x", "````\n``` is `a`\nx\n````"),
        ("- a\n\n      # b\n\nText\n\n    # c", "- a\n\n      ### b\n\nText\n\n```\n# c\n```"),
        ("1. a\nb\n\n    # c", "1. a\nb\n\n    ### c"),
        ("Text\n    # a", "Text\n    ### a"),
    ],
)
def test_ordinary_markdown_stays_as_it_is_in_an_export(text: str, shown: str | None) -> None:
    exported = export_conversation(make_info(), [Message(role="user", parts=(TextPart(text),))], "markdown")
    assert exported.split("## You\n\n")[1] == f"{shown or text}\n"


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_is_free_of_control_characters(form: str) -> None:
    message = make_message(TextPart("".join(HOSTILE)), ToolReturnPart("u\x1b", "t\x1b", "\x9b31m"))
    assert is_sanitized(export_conversation(make_info("\x1b[2J"), [message], form))  # pyright: ignore[reportArgumentType]


def test_the_json_form_can_be_read_back_to_the_same_messages() -> None:
    image = ImagePart("image/png", WHITE_PIXEL)
    messages = [
        make_message(TextPart("hé \x1b 漢"), ToolUsePart("u1", "s__t", {"a": [1, None]}, "", "prov")),
        Message(role="tool", parts=(ToolReturnPart("u1", "s__t", "42", images=(image,)),), at=3.0),
    ]
    document = json.loads(export_conversation(make_info(), messages, "json"))
    assert [convert(one, Message) for one in document["messages"]] == messages


@pytest.mark.parametrize("form", FORMATS)
def test_a_system_prompt_is_exported_and_cannot_leave_its_place(form: str) -> None:
    message, prompt = make_message(TextPart("hi")), "Answer in French.\x1b[2J<script>"
    text = export_conversation(make_info(), [message], form, system_prompt=prompt)  # pyright: ignore[reportArgumentType]
    assert "Answer in French." in text
    assert is_sanitized(text)
    assert form != "html" or "<script>" not in text
    assert "Answer" not in export_conversation(make_info(), [message], form)  # pyright: ignore[reportArgumentType]


def test_a_file_name_is_made_of_plain_letters() -> None:
    assert suggest_file_name(make_info("../../etc/Pass wd\n\x1b!"), "html") == "etc-pass-wd-abcdef.html"
    assert suggest_file_name(make_info("…"), "markdown") == "conversation-abcdef.md"


@pytest.mark.parametrize("form", ["markdown", "json", "html"])
def test_a_manual_call_is_exported_at_its_place_and_marked_as_not_sent(
    form: Literal["markdown", "json", "html"],
) -> None:
    call = StoredManualCall("demo", "add", {"a": "x\x1b[2J"}, "ok", "the <b>total</b> \x1b[2J", at=1_700_000_000.5)
    later = Message(role="user", parts=(TextPart("a later question"),), at=1_700_000_001.0)
    text = export_conversation(make_info(), [make_message(TextPart("begin")), later], form, manual_calls=[call])
    assert is_sanitized(text)
    if form == "json":
        (exported,) = json.loads(text)["manual_calls"]
        assert (exported["tool"], exported["text"], exported["sent_to_model"]) == ("add", call.text, False)
        return
    heading, result = text.index("By hand, not sent to the model"), text.index("total")
    assert text.index("begin") < heading < text.index("demo/add") < result < text.index("a later question")
    assert form == "markdown" or "<b>" not in text


@pytest.mark.parametrize(
    "text",
    ["[x]: /a 'said'", "> [x]: /a 'said'", "- [x]: /a 'said'", "[a\nx]: /a 'said'", "[x]:\n/a\n'said'", "[^x]: said"],
)
def test_a_link_definition_hides_nothing_and_makes_no_link_of_another_message(text: str) -> None:
    messages = [make_message(TextPart(f"{text}\n\n{text}")), Message(role="user", parts=(TextPart("See [x]."),))]
    shown = MarkdownIt("commonmark").render(export_conversation(make_info(), messages, "markdown"))
    assert shown.count("said") == 2
    assert "<a " not in shown
