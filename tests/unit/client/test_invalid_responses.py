"""Tests that an invalid JSON-RPC response fails only its own call, promptly and with the reason."""

import anyio
import pytest

from mcphost.client.session import Session
from mcphost.errors import MalformedMessage, RequestRefused, RequestTimeout, ServerError
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallTool
from tests.unit.client.fakes import RecordingObserver
from tests.unit.client.stdio_sessions import call_echo, faulty_server_config, open_stdio_session

pytestmark = pytest.mark.anyio
GOOD = '{"jsonrpc":"2.0","id":@,"result":{"content":[]}}'
# The invalid answer (@ is the id), the resulting error, a word of the reason, and the maximum of seconds.
FAULTS: list[tuple[str, type[ServerError], str]] = [
    ('{"jsonrpc":"2.0","id":"@","result":{}}', MalformedMessage, "an id that is a string"),
    ('{"jsonrpc":"2.0","id":@.0,"result":{}}', MalformedMessage, "an id that is"),
    ('{"jsonrpc":"2.0","id":@,"result":{},"error":{"code":1,"message":"x"}}', MalformedMessage, "both"),
    ('{"jsonrpc":"2.0","id":@}', MalformedMessage, "neither"),
    ('{"id":@,"result":{}}', MalformedMessage, "2.0"),
    ('{"jsonrpc":"1.0","id":@,"result":{}}', MalformedMessage, "2.0"),
    ('{"jsonrpc":"2.0","id":@,"error":5}', MalformedMessage, "error"),
    ('{"jsonrpc":"2.0","id":@,"error":{"code":"x","message":"m"}}', MalformedMessage, "error"),
    ('{"jsonrpc":"2.0","id":@,"error":{}}', RequestRefused, "error 0: no reason given"),
    ('{"jsonrpc":"2.0","id":@,"error":{"code":-32000,"message":"%s"}}' % ("y" * 5_000), RequestRefused, "yyy"),
    ('[{"jsonrpc":"2.0","id":@,"result":{}}]', MalformedMessage, "array"),
    ('{"jsonrpc":"2.0","id":@,"result":{"content":5}}', MalformedMessage, "content"),
    ('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"eh?"}}', RequestTimeout, "did not answer"),
    ('{"jsonrpc":"2.0","id":null,"result":{}}', RequestTimeout, "did not answer"),
]


async def send_raw_lines(session: Session, *lines: str, deadline: float = 30) -> None:
    await session.request(CallTool("raw", {"lines": list(lines)}), deadline=deadline)


@pytest.mark.req("base.response.both-received")
@pytest.mark.req("base.batch.tolerate-elsewhere", revisions=("2025-11-25",))
@pytest.mark.req("base.response.error-without-id", revisions=("2025-11-25",))
@pytest.mark.req("base.jsonrpc.version")
async def test_every_broken_answer_ends_its_own_call_in_time_with_the_reason() -> None:
    observer = RecordingObserver()
    async with (
        open_stdio_session(faulty_server_config(era="handshake"), observer) as session,
        anyio.create_task_group() as group,
    ):

        async def one(line: str, kind: type[ServerError], reason: str) -> None:
            with anyio.fail_after(20), pytest.raises(kind) as exc_info:
                await send_raw_lines(session, line, deadline=0.5 if kind is RequestTimeout else 30)
            assert reason in exc_info.value.message, line
            assert len(exc_info.value.message) < 2_200

        for fault in FAULTS:
            group.start_soon(one, *fault)
    assert len(observer.warnings) == len(set(observer.warnings)) <= 4
    assert any("-32700: eh?" in warning for warning in observer.warnings)
    assert any("array" in warning for warning in observer.warnings)


@pytest.mark.req("base.id.unknown-response")
@pytest.mark.req("cancel.race")
async def test_unexpected_answers_are_counted_and_a_right_one_after_a_wrong_one_is_used() -> None:
    async with open_stdio_session(faulty_server_config(era="handshake")) as session:
        unknown = '{"jsonrpc":"2.0","id":999999999999,"result":{}}'
        late = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":@}}'
        await send_raw_lines(session, GOOD.replace("@", '"@"'), unknown, late, GOOD, GOOD)
        assert await call_echo(session) == "hi"
        assert session.anomaly_counts["answers nobody waits for"] == 3


@pytest.mark.req("base.batch.receive")
@pytest.mark.req("base.batch.reply-to-batch")
async def test_an_array_is_read_by_a_session_of_2025_03_26() -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config("revision 2025-03-26", era="handshake"), observer) as session:
        assert session.facts.revision is Revision.V2025_03_26
        await send_raw_lines(session, f'[{{"jsonrpc":"2.0","id":"p","method":"ping"}},{GOOD}]')
        assert await call_echo(session) == "hi"
        assert session.anomaly_counts == {"pings answered": 1}
        with pytest.raises(MalformedMessage, match=r"more than 1,000 messages"):
            await send_raw_lines(session, "[" + ",".join([GOOD] * 1_001) + "]")
    assert len(observer.warnings) == 1


@pytest.mark.req("base.utf8")
async def test_texts_of_any_alphabet_survive_and_big_numbers_and_depth_are_no_trouble() -> None:
    async with open_stdio_session(faulty_server_config(era="handshake")) as session:
        for text in ("grüße", "日本語", "🙂\u200d", "\u2028\u2029", "a\tb\\n"):
            assert await call_echo(session, text) == text
        deep = "[" * 150 + "]" * 150
        odd = '"a":123456789012345678901234567890,"b":1.5e300,"c":-0.0,"d":' + deep
        await send_raw_lines(session, '{"jsonrpc":"2.0","id":@,"result":{"content":[],' + odd + "}}")
