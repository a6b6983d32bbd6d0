"""An answer that waits for its turn to be sent is what may be told when it leaves."""

import anyio
import anyio.lowlevel
import pytest

from mcphost.client.answering import SENDING_LIMIT, Answering
from mcphost.client.patience import Pauses
from mcphost.client.session import AskContext
from mcphost.data import Raw, loads
from mcphost.protocol.asks import Reply, Root, RootsReply
from mcphost.protocol.jsonrpc import Message, Request, Response
from tests.unit.client.people import Answers, Notes

pytestmark = pytest.mark.anyio


class Fewer(Answers):
    """Tells of the first folder only, once the others left the list."""

    left = False

    def still(self, reply: Reply) -> Reply:
        assert isinstance(reply, RootsReply)
        return RootsReply(reply.roots[:1]) if self.left else reply


@pytest.mark.req("roots.permissions")
async def test_a_folder_that_left_the_list_while_the_answer_waited_to_be_sent_is_not_in_it() -> None:
    answers = Fewer({"roots/list": RootsReply((Root("file:///a"), Root("file:///b")))})
    sent: list[Message] = []
    go = anyio.Event()

    async def send(message: Message) -> None:
        sent.append(message)
        await go.wait()

    async def untied() -> AskContext:
        return AskContext()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            answering = Answering(
                answers, send, tasks, declared={"roots": {}}, observer=Notes(), server="s", flooded=lambda: None,
                pauses=Pauses({}, hard=False),
            )  # fmt: skip
            for number in range(SENDING_LIMIT + 1):
                answering.take(Request(number, "roots/list", Raw(b"{}")), untied)
            while len(answers.asked) <= SENDING_LIMIT or len(sent) < SENDING_LIMIT:
                await anyio.lowlevel.checkpoint()
            answers.left = True
            go.set()
    counts = [len(loads(one.result)["roots"]) for one in sent if isinstance(one, Response)]
    assert counts == [2] * SENDING_LIMIT + [1]
