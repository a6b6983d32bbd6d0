"""Tests for prompts and resources as text: each kind of content, its role and origin, and no control sequences."""

from typing import Any

import pytest

from mcphost.protocol.content import ResourceContents
from mcphost.protocol.prompts import GetPromptResult
from mcphost.protocol.resources import ReadResourceResult, Resource
from mcphost.serialization import decode, encode
from mcphost.tui.screens.prompts import render_prompt_result as prompt_text
from mcphost.tui.screens.resources import describe_annotations, describe_type
from mcphost.tui.screens.resources import render_read_result as resource_text


def prompt_result(*contents: dict[str, Any]) -> GetPromptResult:
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": content} for number, content in enumerate(contents)]
    return decode(encode({"messages": messages}), GetPromptResult)


@pytest.mark.req("prompts.get.messages")
@pytest.mark.req("prompts.content.types")
@pytest.mark.req("prompts.validate")
def test_a_rendered_prompt_names_roles_origins_and_non_text_content() -> None:
    text = prompt_text(
        prompt_result(
            {"type": "text", "text": "Look at \x1b[31mthis"},
            {"type": "text", "text": "I will."},
            {"type": "resource", "resource": {"uri": "file:///a.md", "text": "# A"}},
            {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": "AAE=", "mimeType": "x/y"}},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///c", "name": "see"},
            {"type": "hologram"},
        )
    )
    assert text.split("\n\n") == [
        "user: Look at ␛[31mthis",
        "assistant: I will.",
        "user: ── file:///a.md\n# A",
        "assistant: [file:///b.bin: x/y, 2 bytes]",
        "user: [image: image/png, 8 bytes]",
        "assistant: [audio: audio/wav, 2 bytes]",
        "user: [resource: see file:///c]",
        'assistant: [content of the unsupported type \'hologram\'] {"type":"hologram"}',
    ]


def test_a_prompt_of_one_message_is_rendered_as_its_text_alone() -> None:
    assert prompt_text(prompt_result({"type": "text", "text": "Review this."})) == "Review this."


@pytest.mark.req("res.read.many")
@pytest.mark.req("res.read.empty")
def test_a_resource_of_several_parts_shows_each_with_its_address() -> None:
    parts = (
        ResourceContents(uri="d://x/1", text="one"),
        ResourceContents(uri="d://x/2", blob="AAEC", mime_type="image/png"),
        ResourceContents(uri="d://x/4", blob="AA=EC!"),
        ResourceContents(uri="d://x/3", text='{"a":1}', mime_type="application/json"),
    )
    text = resource_text(ReadResourceResult(contents=parts))
    assert "── d://x/1\none" in text
    assert "[d://x/2: image/png, 3 bytes]" in text
    assert "[d://x/4: binary, not valid base64]" in text
    assert '── d://x/3\n{\n  "a": 1\n}' in text
    assert resource_text(ReadResourceResult()) == "[empty]"


@pytest.mark.req("res.annotations")
@pytest.mark.parametrize(
    ("annotations", "shown"),
    [
        ({"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
         ["you", "50%", "2025-01-12T15:00:58Z"]),
        ({"audience": ["user", "assistant", "robot", 5], "priority": 1}, ["you, the model", "100%", ""]),
        ({"audience": "user", "priority": 7, "lastModified": 5}, ["", "", ""]),
        ({"audience": None, "priority": -0.1, "lastModified": "x" * 100}, ["", "", ""]),
        ({"priority": "high", "mood": "good"}, ["", "", ""]),
        ({"priority": True}, ["", "", ""]),
        ({}, ["", "", ""]),
    ],
)  # fmt: skip
def test_annotations_are_shown_where_they_make_sense(annotations: dict[str, Any], shown: list[str]) -> None:
    item = decode(encode({"uri": "a:1", "name": "a", "annotations": annotations}), Resource)
    assert [text for _, text in describe_annotations(item, "")][:3] == shown


@pytest.mark.req("res.fields")
@pytest.mark.req("res.mime.directory")
def test_one_folder_is_singular_and_an_icon_counts_if_the_rule_accepts_it() -> None:
    icons = [{"src": f"{scheme}://a.example/i.png"} for scheme in ("https", "http")]
    icons += [{"src": "data:image/png;base64,AA=="}]  # that one was in the message
    item = decode(encode({"uri": "file:///d", "mimeType": "inode/directory", "icons": icons}), Resource)
    assert describe_type(item) == "directory (inode/directory)"
    assert describe_annotations(item, "https://a.example/mcp")[3] == ("icon", "1, not fetched")
