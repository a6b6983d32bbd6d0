"""Tests for `input_required` results: nothing leaks from one call to another or is sent needlessly."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.schema import RootConfig
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    Accept,
    ApproveUnchanged,
    Decline,
    FillForm,
    ReviewSampling,
    ShareOnce,
    ShareRoots,
)
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round
from tests.unit.host.asking_server import (
    ROOTS,
    STATELESS,
    AskingServer,
    form_request,
    open_asking_host,
    sampling_request,
)
from tests.unit.host.scripted_host import create_peer, open_host_with

pytestmark = pytest.mark.anyio


class ParallelServer(AskingServer):
    """A server that asks for a number in each call, under one of two keys, with a request state for each call."""

    @staticmethod
    def key(number: int) -> str:
        return f"who {number}" if number % 2 else "who"

    def _call(self, ident: Any, params: dict[str, Any]) -> None:
        number = params["arguments"].get("n")
        self.state = {"requestState": f"state of {number}"}
        self.asks = (
            {self.key(number): form_request({"n": {"type": "integer", "default": number}})}
            if number is not None
            else {}
        )
        super()._call(ident, params)


@pytest.mark.req("mrtr.isolation")
async def test_answers_and_states_are_sent_with_their_own_call_and_no_parallel_one(tmp_path: Path) -> None:
    count = 8
    peer = ParallelServer(STATELESS)

    class SimultaneousFrontend(ScriptedFrontend):
        """A front end that waits until all questions are asked, and answers the last one first."""

        async def ask(self, question: Question[Any]) -> Any:
            self.asked.append(question)
            mine = len(self.asked)
            self.asked_now.set()
            self.asked_now = anyio.Event()
            while len(self.asked) < count:
                await self.asked_now.wait()
            for _ in range(count - mine):
                await anyio.lowlevel.checkpoint()
            return Accept()

    async with open_asking_host(tmp_path, peer, SimultaneousFrontend()) as host, anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(host.tools.call, "peer", "ask", {"n": number})
        group.start_soon(host.tools.call, "peer", "plain", {})
    assert len(peer.calls) == 2 * count + 1
    for ident, params in peer.calls:
        number = params["arguments"].get("n")
        if "inputResponses" in params:
            answer = {"action": "accept", "content": {"n": number}}
            assert params["inputResponses"] == {ParallelServer.key(number): answer}
            assert params["requestState"] == f"state of {number}"
        else:
            assert "requestState" not in params
        assert len([one for one, _ in peer.calls if one == ident]) == 1


@pytest.mark.req("mrtr.fulfil")
@pytest.mark.req("mrtr.trust")
@pytest.mark.req("mrtr.keys")
async def test_every_kind_of_input_of_one_round_gets_its_own_question(tmp_path: Path) -> None:
    asks = {"login": form_request({"name": {"type": "string"}}), "ask": sampling_request(), "dirs": ROOTS}
    peer = AskingServer(STATELESS, asks)

    class FrontendByKind(ScriptedFrontend):
        async def ask(self, question: Question[Any]) -> Any:
            self.asked.append(question)
            if isinstance(question, FillForm):
                return Accept({"name": "octocat"})
            return ShareOnce() if isinstance(question, ShareRoots) else ApproveUnchanged()

    frontend = FrontendByKind()
    roots = (RootConfig(str(tmp_path), "here"),)
    async with open_asking_host(tmp_path, peer, frontend, ScriptedModel(text_round("Paris")), roots=roots) as host:
        result = json.loads((await host.tools.call("peer", "ask", {})).text)
    assert {type(question) for question in frontend.asked} >= {FillForm, ReviewSampling, ShareRoots}
    assert list(peer.calls[1][1]["inputResponses"]) == ["login", "ask", "dirs"]
    assert result["login"]["result"] == {"action": "accept", "content": {"name": "octocat"}}
    assert result["ask"]["result"]["content"]["text"] == "Paris"
    assert result["dirs"]["result"]["roots"][0]["name"] == "here"


@pytest.mark.req("mrtr.cancel")
async def test_cancelling_while_gathering_input_drops_the_retry_silently(
    tmp_path: Path,
) -> None:
    peer, frontend = AskingServer(STATELESS, {"a": form_request(), "b": form_request()}), ScriptedFrontend()
    async with open_asking_host(tmp_path, peer, frontend) as host:
        async with anyio.create_task_group() as group:
            group.start_soon(host.tools.call, "peer", "ask", {})
            while frontend.waiting < 2:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert frontend.waiting == 0
        await host.tools.call("peer", "plain", {})
    assert len(peer.calls) == 2
    assert peer.notifications == []


@pytest.mark.req("res.mrtr")
@pytest.mark.req("prompts.mrtr")
@pytest.mark.req("mrtr.where")
@pytest.mark.req("mrtr.state.echo")
async def test_reading_a_resource_and_filling_a_prompt_may_ask_first(tmp_path: Path) -> None:
    state = b'{"n":1.0,"e":"\\u00e9","deep":[null]}'

    def first(result: dict[str, Any]) -> Any:
        def answer(params: dict[str, Any]) -> Any:
            if "inputResponses" in params:
                return result
            asks = json.dumps({"k": {"method": form_request()[0], "params": form_request()[1]}}).encode()
            return b'{"resultType":"input_required","inputRequests":' + asks + b',"requestState":' + state + b"}"

        return answer

    contents = {"contents": [{"uri": "a:b", "text": "hello"}]}
    messages = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
    peer = create_peer(
        capabilities={"tools": {}, "resources": {}, "prompts": {}},
        resources__read=first(contents),
        prompts__get=first(messages),
    )
    frontend = ScriptedFrontend(Decline(), Accept())
    async with open_host_with(tmp_path, peer, frontend=frontend) as host:
        assert (await host.features.read_resource("peer", "a:b")).contents[0].text == "hello"
        assert len((await host.features.get_prompt("peer", "p", {"x": "y"})).messages) == 1
    assert [question.why for question in frontend.asked] == [
        "requested before it returns a:b",
        "requested to fill in its prompt p",
    ]
    read, again = peer.asked("resources/read")
    assert (again["uri"], again["inputResponses"]) == (read["uri"], {"k": {"action": "decline"}})
    assert again["requestState"] == json.loads(state)
    _, again = peer.asked("prompts/get")
    assert (again["name"], again["arguments"]) == ("p", {"x": "y"})
    assert again["inputResponses"] == {"k": {"action": "accept", "content": {}}}
