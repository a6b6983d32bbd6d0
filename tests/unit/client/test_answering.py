"""Requests of a server, and what takes them back."""

from typing import cast

import anyio
import pytest

from mcphost.client.incoming_requests import Answering
from mcphost.client.session import AskContext
from mcphost.client.timeouts import Pauses
from mcphost.protocol.jsonrpc import Message, Request, Response
from mcphost.protocol.server_requests import RootsReply
from mcphost.serialization import Raw
from tests.unit.client.people import Answers, Notes

pytestmark = pytest.mark.anyio


async def tied() -> AskContext:
    return AskContext("tools/call", "t", 1)


async def test_a_request_that_is_taken_back_in_the_same_turn_is_not_answered() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    answers = Answers({"roots/list": RootsReply(())})
    async with anyio.create_task_group() as tasks:
        answering = Answering(
            answers,
            send,
            tasks,
            declared={"roots": {}},
            observer=Notes(),
            server="s",
            flooded=print,
            pauses=Pauses({}, hard=False),
        )
        answering.take(Request(1, "roots/list", Raw()), tied)
        answering.take(Request(2, "roots/list", Raw()), tied)
        assert answering.taken_back(1)
    assert [cast("Response", message).id for message in sent] == [2]
    assert len(answers.asked) == 1
    assert answers.given_up == ["roots/list"], "whoever answers may want to know what was asked for"
    assert not answering.taken_back(1)
    assert not answering.taken_back(2)
