"""Tests that the faster parser for large responses gives the same result as the ordinary one."""

import pytest

from mcphost.errors import MalformedMessage
from mcphost.protocol.jsonrpc import JsonRpcResponse, parse_message
from mcphost.serialization import loads

BIG = "a" * 70_000
WAYS_OF_WRITING = (
    '{"jsonrpc":"2.0","id":5,"result":%s}',
    '{"jsonrpc": "2.0", "id": 5, "result": %s}\r',
    '{"result":%s,"jsonrpc":"2.0","id":5}',
    '{"result": %s, "jsonrpc": "2.0", "id": 5} ',
    '{"id":5,"jsonrpc":"2.0","result":%s}',
)
TEXTS = (BIG, BIG + '\\n\\"', BIG + "é", BIG + "\\ud83d", '\\",\\"jsonrpc\\":\\"2.0\\",\\"id\\":6}' + BIG)


@pytest.mark.parametrize("way", WAYS_OF_WRITING)
@pytest.mark.parametrize("text", TEXTS, ids=["plain", "escapes", "not ASCII", "half a character", "an envelope"])
def test_a_large_answer_equals_a_small_one_however_it_is_encoded(way: str, text: str) -> None:
    answer = parse_message((way % f'{{"t":"{text}"}}').encode())
    assert isinstance(answer, JsonRpcResponse)
    assert answer.id == 5
    told = loads(f'"{text}"'.replace("\\ud83d", "\ufffd"))
    assert loads(answer.result) == {"t": told}


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":5,"result":{"t":"%s"},"error":{"code":1,"message":"x"}}',
        '{"jsonrpc":"2.0","id":5,"result":{"t":"%s"},"result":{}}',
        '{"result":{"t":"%s"},"method":"ping","jsonrpc":"2.0","id":5}',
        '{"jsonrpc":"2.0","id":5,"result":{"t":"%s"}}}',
        '{"jsonrpc":"2.0","id":5,"result":{"t":"%s}',
        '{"jsonrpc":"2.0","id":5,"result":}%s',
        '{"jsonrpc":"2.0","id":5,"result":[[%s}',
    ],
)
def test_a_large_line_that_resembles_an_answer_is_never_decoded(line: str) -> None:
    message = line % BIG
    with pytest.raises(MalformedMessage):
        loads(getattr(parse_message(message.encode()), "result", b""))
