"""Tests for requests from the reference server and SDK servers, answered through `mcphost pipe`, in both eras."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import PipeClient, Program
from tests.peers.sdk_programs import SDK_SERVER


class AnsweringUser:
    """A user who answers the questions on a pipe, each of them once, and records them."""

    def __init__(self, pipe: PipeClient, *, refuses_folders: bool = False) -> None:
        self.pipe = pipe
        self.refuses_folders = refuses_folders
        self.questions: dict[str, dict[str, Any]] = {}

    def next(self, kind: str) -> dict[str, Any]:
        """Wait for the next question of this kind, and return it.

        With `refuses_folders`, questions about sharing folders are refused meanwhile.
        """
        kinds = (kind, "share_roots") if self.refuses_folders else (kind,)
        while True:
            question = self.pipe.wait(
                lambda event: (
                    event["event"] == "question" and event["kind"] in kinds and event["question"] not in self.questions
                )
            )
            self.questions[question["question"]] = question
            if question["kind"] == kind:
                return question
            assert self.pipe.ask("answer", question=question["question"], answer="deny")["ok"]

    def answer(self, kind: str, answer: Any) -> dict[str, Any]:
        """Answer the next question of this kind, and return the question."""
        question = self.next(kind)
        done = self.pipe.ask("answer", question=question["question"], answer=answer)
        assert done["ok"], done
        return question


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    (tmp_path / "config").mkdir()
    for name in ("al pha", "b"):
        (tmp_path / name).mkdir()
    roots = f'roots = [{{path = "{tmp_path / "al pha"}", name = "alpha"}}, "{tmp_path / "b"}"]\n'
    (tmp_path / "config" / "config.toml").write_text(roots)
    return program


def call_over_pipe(pipe: PipeClient, tool: str, **arguments: Any) -> int:
    return pipe.send("call", server="everything", tool=tool, arguments=arguments)


def check_folder_edits(pipe: PipeClient, user: AnsweringUser, program: Program) -> None:
    """Check that the server lists the folders again after each change, and that a new folder causes a question."""
    added = pipe.ask("roots", add=str(program.work), name="w\u00f6rk", keep="project")["result"]
    assert [(folder["source"], folder["keep"]) for folder in added["folders"]] == [
        ("user", ""),
        ("user", ""),
        ("added", "project"),
    ]
    assert added["servers"][0]["agreed"]
    ident = call_over_pipe(pipe, "get-roots-list")
    question = user.answer("share_roots", "session")
    pipe.result(ident)
    assert question["origins"] == ["added by you"]
    heard = pipe.wait(lambda event: event["event"] == "roots_told" and len(event["uris"]) == 3)
    assert heard["uris"][2] == f"file://{program.work}"
    assert f"3. w\u00f6rk\n   URI: file://{program.work}" in wait_for_folders(pipe, 3)
    left = pipe.ask("roots", remove=f"{program.home}/b")["result"]
    assert [folder["state"] for folder in left["folders"]] == ["there", "out", "there"]
    assert f"{program.home}/b" not in wait_for_folders(pipe, 2)


def wait_for_folders(pipe: PipeClient, count: int) -> str:
    """Wait until the server knows *count* folders; return the text in which it lists them."""
    pipe.wait(lambda event: event["event"] == "roots_told" and len(event["uris"]) == count)
    for _ in range(50):  # the answer to its request and our next request may overtake each other inside the server
        text: str = pipe.result(call_over_pipe(pipe, "get-roots-list"))["result"]["text"]
        if f"({count} total)" in text:
            return text
    raise AssertionError(text)


@pytest.mark.peer
@pytest.mark.req("roots.list.legacy")
@pytest.mark.req("roots.changed")
@pytest.mark.req("samp.legacy-wire")
def test_the_reference_server_gets_roots_and_samplings(program: Program, everything_config: str) -> None:
    with program.pipe("--model", "demo", "--mcp-config", everything_config) as pipe:
        user = AnsweringUser(pipe)
        assert pipe.ask("connect", server="everything")["result"]["tools"] == 19
        ident = call_over_pipe(pipe, "get-roots-list")
        user.answer("share_roots", "session")
        roots = pipe.result(ident)["result"]["text"]
        assert "Current MCP Roots (2 total)" in roots
        assert f"1. alpha\n   URI: file://{program.home}/al%20pha" in roots
        assert f"2. Unnamed Root\n   URI: file://{program.home}/b" in roots

        check_folder_edits(pipe, user, program)
        ident = call_over_pipe(pipe, "trigger-sampling-request", prompt="hello", maxTokens=7)
        shown = user.answer("review_sampling", "once")
        assert shown["messages"][0]["content"]["text"] == "Resource trigger-sampling-request context: hello"
        assert (shown["system"], shown["temperature"], shown["max_tokens"]) == (
            "You are a helpful test server.", 0.7, 7,
        )  # fmt: skip
        assert user.answer("review_reply", "once")["stop_reason"] == "maxTokens"
        said = pipe.result(ident)["result"]["text"]
        assert '"model": "demo"' in said
        assert '"stopReason": "maxTokens"' in said

        ident = call_over_pipe(pipe, "trigger-sampling-request", prompt="hello", maxTokens=7)
        user.answer("review_sampling", {"deny": "not now"})
        refused = pipe.result(ident)["result"]
        assert refused["isError"]
        assert "-1" in refused["text"]
        assert "not now" in refused["text"]


FULL = {
    "name": "Ada Lovelace", "check": True, "firstLine": "Once", "email": "ada@example.com",
    "homepage": "https://example.com", "birthdate": "1815-12-10", "integer": 7, "number": 2.5,
    "untitledSingleSelectEnum": "Phoebe", "untitledMultipleSelectEnum": ["Guitar", "Bass"],
    "titledSingleSelectEnum": "hero-2", "titledMultipleSelectEnum": ["fish-1", "fish-2"], "legacyTitledEnum": "pet-2",
}  # fmt: skip


@pytest.mark.peer
@pytest.mark.req("elic.actions")
@pytest.mark.req("elic.form.defaults")
@pytest.mark.req("elic.review")
def test_the_reference_servers_form_of_thirteen_fields_is_filled_in_declined_and_left(
    program: Program, everything_config: str
) -> None:
    with program.pipe("--mcp-config", everything_config) as pipe:
        user = AnsweringUser(pipe, refuses_folders=True)  # a slow server may request them before a call
        pipe.ask("connect", server="everything")
        ident = call_over_pipe(pipe, "trigger-elicitation-request")
        shown = user.next("fill_form")
        assert [field["name"] for field in shown["fields"] if field["required"]] == ["name"]
        assert {field["name"] for field in shown["fields"]} == set(FULL)
        assert [field["kind"] for field in shown["fields"]].count("choices") == 2
        # A wrong answer is reported and the form stays open; the next one counts.
        name = shown["question"]
        wrong = pipe.ask("answer", question=name, answer={"accept": {**FULL, "integer": 101, "email": "ada"}})
        assert not wrong["ok"]
        for words in ("'integer' must be at most 100", "'email' must be an email address"):
            assert words in wrong["error"]["message"]
        assert pipe.ask("answer", question=name, answer={"accept": FULL})["ok"]
        text = pipe.result(ident)["result"]["text"]
        assert json.loads(text.partition("Raw result: ")[2]) == {"action": "accept", "content": FULL}

        ident = call_over_pipe(pipe, "trigger-elicitation-request")
        user.answer("fill_form", {"accept": {"name": "Ada"}})
        text = pipe.result(ident)["result"]["text"]
        sent = json.loads(text.partition("Raw result: ")[2])["content"]
        assert (sent["integer"], sent["number"], sent["untitledSingleSelectEnum"]) == (42, 3.14, "Monica")
        assert (sent["untitledMultipleSelectEnum"], sent["titledSingleSelectEnum"]) == (["Guitar"], "hero-1")
        assert (sent["titledMultipleSelectEnum"], sent["legacyTitledEnum"]) == (["fish-1"], "pet-1")

        texts: list[str] = []
        for answer in ("decline", "cancel"):
            ident = call_over_pipe(pipe, "trigger-elicitation-request")
            user.answer("fill_form", answer)
            texts.append(pipe.result(ident)["result"]["text"])
        assert "declined to provide" in texts[0]
        assert "cancelled the elicitation" in texts[1]


@pytest.mark.peer
@pytest.mark.req("elic.url.consent")
@pytest.mark.req("elic.url.required-error")
def test_the_reference_servers_addresses_are_visited_by_request_and_by_error(
    program: Program, everything_config: str
) -> None:
    there = {"url": "https://example.com/x", "elicitationId": "e1"}
    with program.pipe("--mcp-config", everything_config) as pipe:
        user = AnsweringUser(pipe, refuses_folders=True)
        pipe.ask("connect", server="everything")
        ident = call_over_pipe(pipe, "trigger-url-elicitation", **there)
        shown = user.answer("visit_url", "once")
        assert (shown["url"], shown["host"], shown["elicitation"]) == ("https://example.com/x", "example.com", "e1")
        text = pipe.result(ident)["result"]["text"]
        assert "Elicitation ID: e1" in text
        assert "https://example.com/x" in text

        ident = call_over_pipe(pipe, "trigger-url-elicitation", **there, errorPath=True)
        first = user.answer("visit_url", "once")
        assert first["url"] != there["url"]
        assert user.answer("retry_call", "once")["urls"] == [first["url"]]
        assert user.answer("visit_url", "once")["url"] == there["url"]
        assert pipe.result(ident)["ok"]

        ident = call_over_pipe(pipe, "trigger-url-elicitation", **there, errorPath=True)
        user.answer("visit_url", "decline")
        declined = pipe.result(ident)
        assert (declined["exit"], declined["error"]["kind"]) == (5, "declined")


# -- servers of the Python SDK
@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, SDK_SERVER, "http"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["stdio", "http"])
def sdk(request: pytest.FixtureRequest, program: Program, server_url: str) -> str:
    if request.param == "http":
        return program.servers(everything={"url": server_url})
    return program.servers(everything={"command": sys.executable, "args": [SDK_SERVER, "stdio"]})


def run_survey(pipe: PipeClient, user: AnsweringUser, form: Any) -> dict[str, Any]:
    ident = call_over_pipe(pipe, "survey")
    question = user.answer("fill_form", form)
    assert [(field["name"], field["kind"], field["default"]) for field in question["fields"]] == [
        ("name", "text", None), ("age", "integer", 30),
    ]  # fmt: skip
    user.answer("visit_url", "once")
    user.answer("review_sampling", "once")
    user.answer("review_reply", {"accept": {"content": [{"type": "text", "text": "Paris"}]}})
    user.answer("share_roots", "once")
    return pipe.result(ident)


@pytest.mark.req("elic.wire.modern")
@pytest.mark.req("elic.wire.legacy")
@pytest.mark.req("samp.modern-wire")
@pytest.mark.req("samp.legacy-wire")
@pytest.mark.req("roots.list.modern")
@pytest.mark.req("roots.list.legacy")
@pytest.mark.req("mrtr.fulfil")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_an_sdk_server_gets_a_form_an_address_a_sampling_and_roots(program: Program, sdk: str, era: str) -> None:
    with program.pipe("--model", "demo", "--era", era, "--mcp-config", sdk) as pipe:
        user = AnsweringUser(pipe)
        assert pipe.ask("connect", server="everything")["result"]["era"] == era
        done = run_survey(pipe, user, {"accept": {"name": "Ada"}})
        folders = f"file://{program.home}/al%20pha | file://{program.home}/b"
        assert done["result"]["text"] == f"Ada 30 | accept | Paris | demo | {folders}", done
        assert run_survey(pipe, user, "decline")["result"]["text"].startswith("decline | accept | Paris")


@pytest.mark.req("mrtr.decline")
@pytest.mark.req("samp.reject.modern")
def test_a_refused_sampling_ends_the_call_of_a_stateless_sdk_server(program: Program, sdk: str) -> None:
    with program.pipe("--model", "demo", "--era", "stateless", "--mcp-config", sdk) as pipe:
        user = AnsweringUser(pipe)
        pipe.ask("connect", server="everything")
        ident = call_over_pipe(pipe, "survey")
        user.answer("review_sampling", "deny")
        refused = pipe.result(ident)
        assert (refused["exit"], refused["error"]["kind"]) == (5, "declined")
        pipe.event("question_withdrawn", question=user.next("fill_form")["question"])
