"""Amplification cases for untrusted results, answers, questions and text in the host, the model worker and the UI."""

# pyright: basic

import json
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.amplification import Meter, case

Work = Callable[[], Awaitable[object]]
Input = Callable[[], tuple[int, Work]]


def host_case(make: Input) -> Input:
    """Register a case; *make* returns the number of input bytes and the function whose cost is measured."""

    @case(f"host: {make.__name__.replace('_', ' ')}", size=0)
    async def run(meter: Meter, size: int) -> None:
        import anyio.to_thread

        del size
        await anyio.to_thread.run_sync(int)  # the first thread of a process costs more
        fed, work = make()
        kept: list[object] = []
        with meter.measuring(fed):
            kept.append(await work())

    return make


def result_of(raw: bytes) -> Any:
    """Return a tool's result, decoded from the JSON that a server sent."""
    from mcphost.protocol.tools import CallToolResult
    from mcphost.serialization import decode

    return decode(raw, CallToolResult)


def rendering(raw: bytes) -> tuple[int, Work]:
    """Return the size of *raw* and a function that decodes this tool result and renders it for user and model."""
    from mcphost.host.content_rendering import join_parts, make_parts_async, render

    render(result_of(b'{"content":[{"type":"text","text":"x"}]}'))
    size = len(raw)

    async def work() -> object:
        result = result_of(raw)
        rendered = join_parts(await make_parts_async(result, null_counts=True))
        return result, rendered, rendered.bounded_model_text("kept")

    return size, work


@host_case
def result_of_empty_parts() -> tuple[int, Work]:
    return rendering(b'{"content":[' + b",".join([b"{}"] * 1_300_000) + b"]}")


@host_case
def result_of_short_texts() -> tuple[int, Work]:
    return rendering(b'{"content":[' + b",".join([b'{"type":"text","text":""}'] * 160_000) + b"]}")


@host_case
def result_nested_deep() -> tuple[int, Work]:
    deep = b"[" * 900 + b"1," * 450_000 + b"1" + b"]" * 900
    return rendering(b'{"content":[],"structuredContent":' + deep + b"}")


@host_case
def result_of_one_long_text() -> tuple[int, Work]:
    return rendering(json.dumps({"content": [{"type": "text", "text": "word " * 3_000_000}]}).encode())


@host_case
def result_of_odd_text() -> tuple[int, Work]:
    text = "\u202e" * 3_000_000
    return rendering(json.dumps({"content": [{"type": "text", "text": text}]}, ensure_ascii=False).encode())


def _text_result(text: str) -> tuple[int, Work]:
    return rendering(json.dumps({"content": [{"type": "text", "text": text}]}).encode())


def _structured_result(text: str) -> tuple[int, Work]:
    return rendering(json.dumps({"content": [], "structuredContent": {"data": text}}).encode())


@host_case
def result_of_base64_and_words() -> tuple[int, Work]:
    return _text_result("Ab3d" * 300 + " abcdefg" * 1_800_000)


@host_case
def result_of_base64_and_almost_base64() -> tuple[int, Work]:
    return _text_result("Ab3d" * 300 + (" " + "Ab3d" * 250) * 14_000)


@host_case
def result_of_base64_in_lines() -> tuple[int, Work]:
    return _text_result(("Ab3d" * 19 + "\n") * 190_000)


@host_case
def result_of_almost_base64_in_lines() -> tuple[int, Work]:
    return _text_result((("Ab3d" * 19 + "\n") * 60 + "!\n") * 3_000)


@host_case
def result_structure_of_words() -> tuple[int, Work]:
    return _structured_result("abcdefg " * 1_800_000)


@host_case
def result_structure_of_base64_in_lines() -> tuple[int, Work]:
    return _structured_result(("Ab3d" * 19 + "\n") * 180_000)


def _structured_items(items: bytes, count: int) -> tuple[int, Work]:
    return rendering(b'{"content":[],"structuredContent":{"list":[' + b",".join([items] * count) + b"]}}")


@host_case
def result_structure_of_base64_in_pieces() -> tuple[int, Work]:
    return _structured_items(b'"' + b"Ab3d" * 19 + b'"', 190_000)


@host_case
def result_structure_of_almost_pieces() -> tuple[int, Work]:
    return _structured_items(b'"' + b"Ab3d" * 15 + b'","x"', 220_000)


@host_case
def result_structure_of_base64_in_escapes() -> tuple[int, Work]:
    return _structured_items(b'"' + rb"\u0041b\/d" * 1_000 + b'"', 1_400)


@host_case
def result_structure_of_backslashes() -> tuple[int, Work]:
    return _structured_items(b'"' + rb"\\" * 5_000 + rb"\u0041" * 800 + b'"', 1_000)


@host_case
def result_structure_of_spaces_between_pieces() -> tuple[int, Work]:
    return _structured_items(b'"' + b"Ab3d" * 15 + b'"' + b" " * 60_000, 250)


@host_case
def result_structure_and_long_texts() -> tuple[int, Work]:
    block = json.dumps({"type": "text", "text": "word " * 1_000}).encode()
    words = b",".join([b'"word word word "'] * 600_000)
    return rendering(b'{"content":[' + b",".join([block] * 900) + b'],"structuredContent":{"a":[' + words + b"]}}")


@host_case
def result_structure_and_text() -> tuple[int, Work]:
    inner = json.dumps([[]] * 120_000)
    return rendering(
        json.dumps({"content": [{"type": "text", "text": inner}]}).encode()[:-1]
        + b',"structuredContent":'
        + inner.encode()
        + b"}"
    )


@host_case
def result_structure_of_empty_lists() -> tuple[int, Work]:
    return rendering(b'{"content":[],"structuredContent":[' + b",".join([b"[]"] * 340_000) + b"]}")


@host_case
def result_many_texts_with_structure() -> tuple[int, Work]:
    texts = b",".join([b'{"type":"text","text":"[[[[[[[[]]]]]]]]"}'] * 20_000)
    return rendering(b'{"content":[' + texts + b'],"structuredContent":{"a":[[[]]]}}')


@host_case
def result_of_pictures() -> tuple[int, Work]:
    block = json.dumps({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo" + "A" * 1_400_001}).encode()
    return rendering(b'{"content":[' + b",".join([block] * 10) + b"]}")


@host_case
def result_of_tiny_pictures() -> tuple[int, Work]:
    block = json.dumps({"type": "image", "mimeType": "image/png", "data": ""}).encode()
    return rendering(b'{"content":[' + b",".join([block] * 90_000) + b"]}")


@host_case
def result_of_audio() -> tuple[int, Work]:
    block = json.dumps({"type": "audio", "mimeType": "audio/wav", "data": "A" * 15_000_000}).encode()
    return rendering(b'{"content":[' + block + b"]}")


@host_case
def result_of_links() -> tuple[int, Work]:
    block = json.dumps({"type": "resource_link", "uri": "a:b"}).encode()
    return rendering(b'{"content":[' + b",".join([block] * 100_000) + b"]}")


@host_case
def result_of_unfit_annotations() -> tuple[int, Work]:
    block = b'{"type":"text","text":"","annotations":[' + b",".join([b"[]"] * 1_300_000) + b"]}"
    return rendering(b'{"content":[' + block + b"]}")


@host_case
def result_of_an_unknown_kind() -> tuple[int, Work]:
    block = json.dumps({"type": "x" * 4_000_000}).encode()
    return rendering(b'{"content":[' + b",".join([block] * 3) + b"]}")


# -- the screen


def drawing(make_block: Callable[[], Any], size: int) -> tuple[int, Work]:
    """Return *size* and a function that draws the transcript blocks from *make_block*, 120 columns wide."""

    async def work() -> object:
        import asyncio

        from mcphost.tui.transcript.blocks import TranscriptBlock

        made = make_block()
        blocks: list[TranscriptBlock] = made if isinstance(made, list) else [made]
        await asyncio.sleep(0)  # what was loaded is drawn with the next frame
        out: list[Any] = []
        rows = 0
        for block in blocks:
            block.estimate_height(120)
            if rows < 200:  # as much as two screens show
                out.append(block.render(120))
                rows += sum(piece.content.plain.count("\n") + 1 for piece in out[-1])
            await asyncio.sleep(0)
        return blocks, out

    return size, work


def prose(text: str) -> tuple[int, Work]:
    """Return the size of *text* and a function that draws it as a finished model answer loaded from the store."""
    from mcphost.tui.transcript.markdown import warm_up
    from mcphost.tui.transcript.message_blocks import build_markdown_blocks

    warm_up()
    return drawing(lambda: build_markdown_blocks(text), len(text.encode()))


@host_case
def markdown_of_nested_quotes() -> tuple[int, Work]:
    return prose(("> " * 500 + "x\n") * 900)


@host_case
def markdown_of_nested_lists() -> tuple[int, Work]:
    return prose("".join("  " * (n % 300) + "- x\n" for n in range(3000)))


@host_case
def markdown_of_brackets() -> tuple[int, Work]:
    return prose("[" * 500_000)


@host_case
def markdown_of_links() -> tuple[int, Work]:
    return prose("[a](b) " * 130_000)


@host_case
def markdown_of_emphasis() -> tuple[int, Work]:
    return prose("*a_b**c " * 120_000)


@host_case
def markdown_of_one_long_line() -> tuple[int, Work]:
    return prose("x" * 1_000_000)


@host_case
def markdown_of_a_long_table() -> tuple[int, Work]:
    return prose("|a|b|\n|-|-|\n" + "|x|y|\n" * 150_000)


@host_case
def markdown_of_a_wide_cell() -> tuple[int, Work]:
    return prose("|a|b|\n|-|-|\n|" + "x " * 40_000 + "|y|\n")


@host_case
def markdown_of_a_wide_table() -> tuple[int, Work]:
    return prose("|" + "a|" * 2_000 + "\n|" + "-|" * 2_000 + "\n" + ("|" + "x|" * 2_000 + "\n") * 20)


@host_case
def markdown_of_a_giant_fence() -> tuple[int, Work]:
    return prose("```python\n" + "x = 1\n" * 160_000 + "```\n")


@host_case
def markdown_of_a_fence_of_blank_lines() -> tuple[int, Work]:
    return prose("```c\n" + "\n" * 500_000 + "```\n")


@host_case
def markdown_of_a_fence_of_one_line() -> tuple[int, Work]:
    return prose("```json\n" + "[" * 500_000 + "\n```\n")


@host_case
def markdown_of_backticks() -> tuple[int, Work]:
    return prose("".join("`" * (n % 600 + 1) + "a" for n in range(3_000)))


@host_case
def markdown_of_references() -> tuple[int, Work]:
    return prose("[a]: b\n\n" * 100_000)


@host_case
def reasoning_that_is_long() -> tuple[int, Work]:
    from mcphost.tui.transcript.blocks import ThinkingBlock

    def make() -> Any:
        block = ThinkingBlock("word " * 200_000)
        block.is_expanded = True
        return block

    return drawing(make, 1_000_000)


@host_case
def reasoning_that_is_folded() -> tuple[int, Work]:
    from mcphost.tui.transcript.blocks import ThinkingBlock

    return drawing(lambda: ThinkingBlock("word " * 200_000), 1_000_000)


def card(arguments: Any, result: str = "") -> tuple[int, Work]:
    from mcphost.serialization import encode
    from mcphost.tui.transcript.tool_card import ToolCard

    def make() -> Any:
        block = ToolCard("c", "server", "tool", arguments)
        block.finish("ok", result, 1.0)
        return block

    return drawing(make, len(encode(arguments)) + len(result.encode()))


@host_case
def card_of_a_long_result() -> tuple[int, Work]:
    return card({}, "line\n" * 3_000_000)


@host_case
def card_of_many_arguments() -> tuple[int, Work]:
    return card({f"name {n}": n for n in range(60_000)})


@host_case
def card_of_nested_arguments() -> tuple[int, Work]:
    from mcphost.serialization import loads

    return card({"a": loads(b"[" * 100 + b"1," * 99_000 + b"1" + b"]" * 100)})


@host_case
def card_of_empty_lists() -> tuple[int, Work]:
    return card({"a": [[] for _ in range(300_000)]})


@host_case
def raw_arguments_unfolded() -> tuple[int, Work]:
    from mcphost.tui.transcript.tool_card import ToolCard

    def make() -> Any:
        block = ToolCard("c", "server", "tool", None, "x" * 1_000_000)
        block.is_expanded = True
        return block

    return drawing(make, 1_000_000)


def rows(text: str) -> tuple[int, Work]:
    """Return the size of *text* and a function that splits it into the rows shown by the viewer for long texts."""
    from mcphost.tui.widgets.long_text import RowIndex, prepare_text

    async def work() -> object:
        drawn, is_cleaned = prepare_text(text)
        index = RowIndex(drawn, 100, is_cleaned=is_cleaned)
        await index.advance_to(len(drawn))
        return [index.span(row) for row in range(min(50, index.rows))], index

    return len(text.encode()), work


@host_case
def viewer_of_one_long_line() -> tuple[int, Work]:
    return rows("x" * 15_000_000)


@host_case
def viewer_of_words() -> tuple[int, Work]:
    return rows("word " * 3_000_000)


@host_case
def viewer_of_empty_lines() -> tuple[int, Work]:
    return rows("\n" * 15_000_000)


@host_case
def viewer_of_wide_characters() -> tuple[int, Work]:
    return rows("語" * 5_000_000)


@host_case
def viewer_of_odd_characters() -> tuple[int, Work]:
    return rows("\u202e" * 99_000)


@host_case
def viewer_of_very_many_odd_characters() -> tuple[int, Work]:
    return rows("\u202e" * 5_000_000)


@host_case
def viewer_of_very_many_marks() -> tuple[int, Work]:
    return rows("\u0301" * 7_500_000)


@host_case
def viewer_of_tabs() -> tuple[int, Work]:
    return rows("\t" * 99_000 + "é")


@host_case
def viewer_of_short_lines_between_long_ones() -> tuple[int, Work]:
    return rows(("\n" * 100 + "x" * 101) * 75_000)


@host_case
def viewer_of_lines_of_one_letter() -> tuple[int, Work]:
    return rows("é\n" * 5_000_000)


@host_case
def viewer_of_marks() -> tuple[int, Work]:
    return rows("e\u0301" * 49_000)


# -- what servers ask, and what is compared


@host_case
def form_of_many_fields() -> tuple[int, Work]:
    from mcphost.host.questions.forms import parse_form
    from mcphost.serialization import Raw, encode

    raw = Raw(encode({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(7_000)}}))

    async def work() -> object:
        return parse_form(raw)

    return len(bytes(raw)), work


@host_case
def form_of_a_huge_choice() -> tuple[int, Work]:
    from mcphost.host.questions.forms import parse_form
    from mcphost.serialization import Raw, encode

    choice = {"type": "string", "enum": [f"{n}" for n in range(1_000)]}
    raw = Raw(encode({"type": "object", "properties": {f"f{n}": choice for n in range(30)}}))

    async def work() -> object:
        return parse_form(raw)

    return len(bytes(raw)), work


@host_case
def form_of_ligatures() -> tuple[int, Work]:
    from mcphost.host.questions.forms import parse_form
    from mcphost.serialization import Raw, encode

    field = {"type": "string", "description": "\ufdfa" * 10_000}
    raw = Raw(encode({"type": "object", "properties": {f"f{n}": field for n in range(3)}}))

    async def work() -> object:
        return parse_form(raw)

    return len(bytes(raw)), work


@host_case
def form_for_arguments_that_refer_to_one_definition() -> tuple[int, Work]:
    from mcphost.host.questions.forms import argument_fields
    from mcphost.serialization import Raw, encode

    definition = {"type": "string", "description": "\ufdfa" * 10_000}
    names = {f"f{n}": {"$ref": "#/$defs/a"} for n in range(100)}
    raw = Raw(encode({"properties": names, "$defs": {"a": definition}}))

    async def work() -> object:
        return argument_fields(raw, {})

    return len(bytes(raw)), work


def sampling(params: bytes) -> tuple[int, Work]:
    """Return the size of *params* and a function that converts this sampling request to a model request."""
    from mcphost.host.server_requests.sampling import _parse_request
    from mcphost.protocol.revisions import Revision
    from mcphost.protocol.server_requests import parse_server_request
    from mcphost.serialization import Raw
    from mcphost.transport.flow_control import run_steps_cooperatively

    async def work() -> object:
        got = await run_steps_cooperatively(parse_server_request("sampling/createMessage", Raw(params)))
        return got, _parse_request(got, Revision.V2025_11_25, ())  # type: ignore[arg-type]

    return len(params), work


def message_of(content: bytes) -> bytes:
    return b'{"maxTokens":5,"messages":[{"role":"user","content":' + content + b"}]}"


@host_case
def sampling_of_many_messages() -> tuple[int, Work]:
    one = b'{"role":"user","content":{"type":"text","text":"x"}}'
    return sampling(b'{"maxTokens":5,"messages":[' + b",".join([one] * 250_000) + b"]}")


@host_case
def sampling_of_empty_messages() -> tuple[int, Work]:
    return sampling(b'{"maxTokens":5,"messages":[' + b",".join([b"{}"] * 4_000_000) + b"]}")


@host_case
def sampling_of_a_long_text() -> tuple[int, Work]:
    return sampling(message_of(b'{"type":"text","text":"' + b"word, " * 2_500_000 + b'"}'))


@host_case
def sampling_of_a_big_picture() -> tuple[int, Work]:
    picture = b'{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo' + b"A" * 15_000_001 + b'"}'
    return sampling(message_of(picture))


@host_case
def sampling_of_preferences() -> tuple[int, Work]:
    text = b'{"type":"text","text":"x"}'
    params = message_of(text)[:-1] + b',"modelPreferences":[' + b"[]," * 4_000_000 + b"[]]}"
    return sampling(params)


@host_case
def difference_of_definitions() -> tuple[int, Work]:
    from mcphost.host.servers.definition_diff import diff_definitions
    from mcphost.serialization import encode

    old = encode({f"k{n}": "same" for n in range(1_000)} | {"d": "x y. " * 50_000})
    new = encode({f"k{n + 1}": "same" for n in range(1_000)} | {"d": "y x. " * 50_000})

    async def work() -> object:
        return diff_definitions(old, new)

    return len(old) + len(new), work


@host_case
def difference_below_a_long_key() -> tuple[int, Work]:
    from mcphost.host.servers.definition_diff import diff_definitions
    from mcphost.serialization import encode

    old, new = (encode({"k" * 500_000 + last: {f"p{n}": n for n in range(900)}}) for last in "ab")

    async def work() -> object:
        return diff_definitions(old, new)

    return len(old) + len(new), work


@host_case
def definition_of_many_values_is_fingerprinted() -> tuple[int, Work]:
    from mcphost.host.servers.catalog import fingerprint

    raw = b'{"x":[' + b",".join([b"{}"] * 1_300_000) + b"]}"

    async def work() -> object:
        return fingerprint(raw)

    return len(raw), work


@host_case
def names_of_very_many_tools() -> tuple[int, Work]:
    from mcphost.host.servers.tool_registry import ToolRegistry

    registry = ToolRegistry(())

    async def work() -> object:
        return [registry.model_name("server", "x" * 900 + f"{n}") for n in range(10_000)]

    return 9_000_000, work


@host_case
def outgoing_log_line_of_long_arguments() -> tuple[int, Work]:
    from mcphost.host.tools.tool_outcome import log_call

    arguments = {"text": "word " * 200_000}

    async def work() -> object:
        return log_call("server", "tool", arguments, "by", "ok")

    return 1_000_000, work


def _question_case(arguments: dict[str, Any]) -> tuple[int, Work]:
    from mcphost.tui.dialogs.call_view import render_call

    async def work() -> object:
        return render_call(arguments)

    return len(json.dumps(arguments)), work


@host_case
def question_about_80_000_arguments() -> tuple[int, Work]:
    return _question_case({f"k{number}": number for number in range(80_000)})


@host_case
def question_about_200_000_texts() -> tuple[int, Work]:
    return _question_case({"a": ["x"] * 200_000})


@host_case
def question_about_330_000_lines() -> tuple[int, Work]:
    return _question_case({"a": "x\n" * 333_000})


@host_case
def arguments_of_a_model() -> tuple[int, Work]:
    from mcphost.llm import worker_protocol
    from mcphost.llm.chat_completions import AnswerAssembler

    notes: list[Any] = [worker_protocol.WorkerToolCallDelta(1, 0, "id", "tool", '{"a":[')]
    notes += [worker_protocol.WorkerToolCallDelta(1, 0, "", "", "[],") for _ in range(249_000)]
    notes += [worker_protocol.WorkerToolCallDelta(1, 0, "", "", "[]]}"), worker_protocol.WorkerFinished(call_id=1)]

    async def work() -> object:
        import asyncio

        gathering, events = AnswerAssembler("openai"), []
        for number, note in enumerate(notes):
            events.extend(gathering.feed(note))
            if number % 500 == 0:
                await asyncio.sleep(0)
        return gathering, events[-2:]

    return sum(len(worker_protocol.encode_line(note)) for note in notes), work


@host_case
def reasoning_of_a_model() -> tuple[int, Work]:
    from mcphost.llm import worker_protocol
    from mcphost.llm.chat_completions import AnswerAssembler

    piece = ({"type": "thinking", "thinking": "abcd"},)
    notes = [worker_protocol.WorkerThinkingDelta(1, "abcd", piece) for _ in range(100_000)] + [
        worker_protocol.WorkerThinkingDelta(1, "", ({"type": "thinking", "thinking": "", "signature": "S" * 30},))
        for _ in range(2_000)
    ]

    async def work() -> object:
        import asyncio

        gathering = AnswerAssembler("anthropic")
        for number, note in enumerate([*notes, worker_protocol.WorkerFinished(call_id=1)]):
            for _ in gathering.feed(note):
                pass
            if number % 500 == 0:
                await asyncio.sleep(0)
        return gathering

    return sum(len(worker_protocol.encode_line(note)) for note in notes), work


@host_case
def document_of_a_result() -> tuple[int, Work]:
    from mcphost.headless.json_output import parse_wire_json
    from mcphost.serialization import dumps

    raw = result_of(b'{"content":[' + b",".join([b"{}"] * 1_300_000) + b"]}").raw_content

    async def work() -> object:
        return dumps({"content": parse_wire_json(raw)}, indent=2)

    return len(bytes(raw)), work


@host_case
def resource_preview_of_json() -> tuple[int, Work]:
    from mcphost.tui.screens.resources import format_text

    text = "[" * 100 + "1," * 95_000 + "1" + "]" * 100

    async def work() -> object:
        return format_text(text, "application/json")

    return len(text), work


@host_case
def audit_detail_of_json() -> tuple[int, Work]:
    from mcphost.serialization import dumps, loads

    text = "[" * 500 + "1," * 30_000 + "1" + "]" * 500

    async def work() -> object:
        return dumps(loads(text), indent=2)

    return len(text), work
