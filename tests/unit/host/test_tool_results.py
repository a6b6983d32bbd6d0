"""Tests for tool results as the model and the user get them: errors, kinds of content, structure and limits."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.headless.json_output import call_json
from mcphost.host.events import NoticeEvent
from mcphost.host.questions.questions import AllowOnce
from mcphost.llm.messages import ImagePart
from mcphost.protocol.jsonrpc import ErrorData
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.spec.manifest import REVISIONS
from tests.unit.host.scripted_host import create_peer, open_host_with, text_result, tool_definition, tools_result
from tests.unit.host.tool_results import call_tool_once

pytestmark = pytest.mark.anyio
AUDIO = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVE").decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0 a picture").decode()


# -- errors
@pytest.mark.req("tools.result.is-error", "tools.input-validation-as-result")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_error_of_a_tool_is_an_error_for_the_model_and_the_user(tmp_path: Path, revision: str) -> None:
    part, finished = await call_tool_once(tmp_path, text_result("n must be positive", isError=True), revision)
    assert (part.is_error, part.text) == (True, "n must be positive")
    assert (finished.outcome, finished.text) == ("error", "n must be positive")


@pytest.mark.req("tools.result.is-error-absent")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("members", [{}, {"isError": False}])
async def test_a_result_without_an_error_flag_is_no_error(tmp_path: Path, revision: str, members: Any) -> None:
    part, finished = await call_tool_once(tmp_path, text_result("fine", **members), revision)
    assert (part.is_error, finished.outcome) == (False, "ok")


@pytest.mark.req("tools.protocol-error", "tools.input-validation-as-result")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("code", [-32602, -32603, -32000])
async def test_a_protocol_error_reaches_model_and_user_as_a_failed_call(
    tmp_path: Path, revision: str, code: int
) -> None:
    part, finished = await call_tool_once(tmp_path, ErrorData(code=code, message="bad argument: n"), revision)
    assert part.is_error
    assert "bad argument: n" in part.text
    assert finished.outcome == "failed"
    assert "bad argument: n" in finished.text


# -- content
@pytest.mark.req("tools.content.empty")
@pytest.mark.parametrize("answer", [{"content": []}, {}, b'{"resultType":"complete","content":[]}'])
async def test_the_model_is_informed_of_an_empty_result(tmp_path: Path, answer: Any) -> None:
    part, finished = await call_tool_once(tmp_path, answer)
    assert part.text == finished.text == "(the tool returned nothing)"
    assert not part.is_error


@pytest.mark.req("tools.content.audio")
@pytest.mark.parametrize("revision", REVISIONS[1:])
async def test_audio_is_named_with_its_type_and_size_and_complete_for_programs(tmp_path: Path, revision: str) -> None:
    sound = {"content": [{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}]}
    part, _ = await call_tool_once(tmp_path, sound, revision)
    assert part.text == "[audio: audio/wav, 12 bytes]"
    peer = create_peer(revision, tools__list=tools_result(tool_definition("it")), tools__call=sound)
    async with open_host_with(tmp_path, peer) as host:
        assert call_json(await host.tools.call("peer", "it", {}))["content"][0]["data"] == AUDIO


@pytest.mark.req("tools.content.bad-base64")
@pytest.mark.parametrize("data", ["!!!", "AAA", "AA=A", "é", "A A", ""])
async def test_bytes_that_are_no_base64_are_named_and_the_rest_stays(tmp_path: Path, data: str) -> None:
    blocks = [
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "x://y", "blob": data}},
        {"type": "text", "text": "the rest"},
    ]
    part, _ = await call_tool_once(tmp_path, {"content": blocks})
    lines = part.text.splitlines()
    assert lines[3] == "the rest"
    assert part.images == ()
    if data:
        assert all("not valid base64" in line for line in lines[:3])


@pytest.mark.req("tools.content.bad-base64", "tools.content.image")
@pytest.mark.parametrize("claimed", ["image/png", "text/html", ""])
async def test_an_image_format_is_detected_from_its_bytes(tmp_path: Path, claimed: str) -> None:
    part, _ = await call_tool_once(tmp_path, {"content": [{"type": "image", "data": JPEG, "mimeType": claimed}]})
    assert part.images == (ImagePart("image/jpeg", JPEG),)
    assert part.text.startswith("[image: image/jpeg, ")


@pytest.mark.req("tools.content.resource-link")
@pytest.mark.parametrize("revision", REVISIONS[2:])
async def test_a_link_is_shown_in_full_and_read_even_if_no_list_has_it(tmp_path: Path, revision: str) -> None:
    link = {"type": "resource_link", "uri": "x://hidden", "name": "n", "mimeType": "text/plain"}
    read = {"contents": [{"uri": "x://hidden", "text": "found"}], "ttlMs": 0, "cacheScope": "private"}
    peer = create_peer(
        revision, {"tools": {}, "resources": {}}, tools__list=tools_result(tool_definition("it")),
        tools__call={"content": [link]},
        resources__read=read,
    )  # fmt: skip
    async with open_host_with(tmp_path, peer) as host:
        shown = (await host.tools.call("peer", "it", {})).text
        assert shown == "[resource: n x://hidden, text/plain]"
        assert peer.asked("resources/read") == []
        assert (await host.features.read_resource("peer", "x://hidden")).contents[0].text == "found"


@pytest.mark.req("tools.content.annotations")
async def test_content_for_the_user_alone_is_shown_and_not_given_to_the_model(tmp_path: Path) -> None:
    blocks = [
        {"type": "text", "text": "for both", "annotations": {"priority": 1, "lastModified": "2026-01-01T00:00:00Z"}},
        {"type": "text", "text": "for you", "annotations": {"audience": ["user"]}},
        {"type": "image", "data": JPEG, "mimeType": "image/jpeg", "annotations": {"audience": ["user"]}},
        {"type": "text", "text": "for the model", "annotations": {"audience": ["assistant"]}},
        {"type": "text", "text": "for all", "annotations": {"audience": ["user", "assistant"]}},
    ]
    part, finished = await call_tool_once(tmp_path, {"content": blocks})
    for words in ("for both", "for you", "for the model", "for all"):
        assert words in finished.text
        assert (words in part.text) is (words != "for you")
    assert part.images == ()
    assert "intended only for the user" in part.text


@pytest.mark.parametrize("annotations", [None, {}, {"audience": "user"}, {"priority": "high"}, {"audience": ["robot"]}])
async def test_odd_annotations_cost_no_text(tmp_path: Path, annotations: Any) -> None:
    block = {"type": "text", "text": "kept", "annotations": annotations}
    _, finished = await call_tool_once(tmp_path, {"content": [block, {"type": "text", "text": "too"}]})
    assert finished.text == "kept\ntoo"


REPEATED = [
    ('{"a": [1, 2]}', {"a": [1, 2]}),
    ('{\n  "a" : [1,2]\n}', {"a": [1, 2]}),
    ("plain words", {"result": "plain words"}),
    ("42", {"result": 42}),
    ("[1, 2]", [1, 2]),
    ("words", "words"),
]


@pytest.mark.req("tools.structured.duplicate-text")
@pytest.mark.parametrize(("text", "structure"), REPEATED)
async def test_a_text_that_repeats_the_structure_is_given_once(tmp_path: Path, text: str, structure: Any) -> None:
    part, _ = await call_tool_once(tmp_path, text_result(text, structuredContent=structure))
    assert part.text == text


@pytest.mark.req("tools.structured.only")
@pytest.mark.parametrize(("text", "structure"), [("Found 2.", {"a": [1, 2]}), ('{"a": 1}', {"a": 2}), ("2", {"n": 2})])
async def test_a_structure_that_no_text_repeats_is_given_too(tmp_path: Path, text: str, structure: Any) -> None:
    part, _ = await call_tool_once(tmp_path, text_result(text, structuredContent=structure))
    first, title, *rest = part.text.splitlines()
    assert (first, title) == (text, "structured content:")
    assert rest[0] == "{"


@pytest.mark.req("tools.validate-result", "sec.size-limits")
async def test_the_model_gets_no_control_characters_no_hidden_words_and_no_endless_text(tmp_path: Path) -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    part, finished = await call_tool_once(
        tmp_path, text_result(f"a\x1b]52;c;x\x07b\x00\x9b\tc\r\nd{hidden}" + "x" * 2_000_000)
    )
    assert part.text.startswith("a]52;c;xb\tc\r\ndxxx")
    assert len(part.text) < 300_000
    assert "To read more, call read_result" in part.text[-200:]
    assert "\x1b" in finished.text  # frontends clean what they show, and keep what they store


@pytest.mark.req("tools.validate-result")
async def test_no_hidden_words_reach_the_model_in_the_error_of_a_call(tmp_path: Path) -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    part, _ = await call_tool_once(tmp_path, ErrorData(code=-32603, message=f"no\x1b[31m{hidden} luck"))
    assert "no[31m luck" in part.text
    assert part.text.isascii()


@pytest.mark.parametrize("escaped", [False, True])
async def test_no_hidden_words_reach_the_model_in_the_schema_of_a_tool(tmp_path: Path, escaped: bool) -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    schema = {"type": "object", "properties": {"n": {"type": "string", "description": f'a "b"\\ {hidden}é\n\x7f'}}}
    listed = json.dumps({"tools": [{"name": "it", "inputSchema": schema}]}, ensure_ascii=escaped).encode()
    model = ScriptedModel(text_round("ok"))
    async with open_host_with(
        tmp_path, create_peer("2025-11-25", tools__list=listed), model, ScriptedFrontend()
    ) as host:
        await host.conversation.send("go")
    (spec,) = model.requests[-1].tools
    assert json.loads(bytes(spec.schema))["properties"]["n"]["description"] == 'a "b"\\ é\n'


async def test_a_huge_structure_is_not_read_again_and_again(tmp_path: Path) -> None:
    huge = {"rows": ["x" * 100] * 20_000}
    part, finished = await call_tool_once(tmp_path, {"content": [], "structuredContent": huge})
    assert finished.text.startswith('{"rows":["xxx')
    assert "To read more, call read_result" in part.text[-200:]
    part, finished = await call_tool_once(tmp_path, text_result("many rows", structuredContent=huge))
    named = "structured content:\n[structured content of 2,060,010 bytes is too large: left out]"
    assert part.text == finished.text == f"many rows\n{named}"


@pytest.mark.req("tools.content.unknown")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_content_of_an_unknown_kind_is_shown_raw_and_bounded(tmp_path: Path, revision: str) -> None:
    blocks = [{"type": "hologram", "x": 1}, {"type": "text", "text": "kept"}, {"type": "blob", "y": "z" * 9_000}, 7]
    part, _ = await call_tool_once(tmp_path, {"content": blocks}, revision)
    first, kept, long, number = part.text.splitlines()
    assert '{"type":"hologram","x":1}' in first
    assert kept == "kept"
    assert len(long) < 2_200
    assert number.endswith("] 7")


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_the_user_is_told_how_a_server_without_a_back_channel_can_ask(tmp_path: Path, revision: str) -> None:
    failure = ErrorData(code=-32603, message="Cannot send 'elicitation/create': there is no back-channel.")
    peer = create_peer(revision, tools__list=tools_result(tool_definition("t")), tools__call=failure)
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"))
    async with open_host_with(tmp_path, {"s": peer}, model, ScriptedFrontend(AllowOnce())) as host:
        feed = host.events.subscribe()
        await host.servers.ensure_ready("s")
        await host.conversation.send("go")
        hints = [event.hint for event in feed.drain() if isinstance(event, NoticeEvent)]
    told = any('"era": "handshake"' in hint for hint in hints)
    assert told == (revision == "2026-07-28")
