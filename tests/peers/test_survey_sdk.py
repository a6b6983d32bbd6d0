"""Tests that use all features of a 2026-07-28 server written with the SDK, over stdio and HTTP."""

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.fork_server import sdk_server_command
from tests.flows.program import Program
from tests.peers.pipe_survey import SERVER, PipeSurvey, open_survey

SERVERS = Path(__file__).with_name("sdk_feature_server.py")
ADA = {"fill_form": {"accept": {"name": "Ada"}}}


@pytest.fixture(scope="module", params=["stdio", "http", "http json"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def survey(transport: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PipeSurvey]:
    """Open one pipe to the server for all tests of a transport."""
    program = Program(tmp_path_factory.mktemp("survey"))
    if transport == "stdio":
        command, *arguments = sdk_server_command(SERVERS, "stdio")
        with open_survey(program, {"command": command, "args": arguments}) as survey:
            yield survey
        return
    with subprocess.Popen(
        sdk_server_command(SERVERS, *transport.split()), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            address = f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
            with open_survey(program, {"url": address}) as survey:
                yield survey
        finally:
            process.kill()


def test_it_speaks_the_newest_revision_and_all_it_offers_is_listed(survey: PipeSurvey) -> None:
    facts = survey.run("connect")["result"]
    assert (facts["revision"], facts["era"]) == ("2026-07-28", "stateless")
    tools = {"add", "slow", "fail", "big", "greet", "survey", "change", "weather", "gallery", "note", "touch", "rounds"}
    assert tools <= set(survey.list_names("tools"))
    assert set(survey.list_names("resources")) == {"greeting", "pixel"}
    assert set(survey.list_names("templates")) == {"item", "locked"}
    assert set(survey.list_names("prompts")) == {"review", "letter"}


def test_tools_answer_with_every_kind_of_content(survey: PipeSurvey) -> None:
    assert survey.call("add", a=2, b=40)["structuredContent"] == {"result": 42}
    weather = survey.call("weather", city="Oslo")
    assert (weather["structuredContent"], weather["check"]["outcome"]) == ({"city": "Oslo", "degrees": 21.5}, "fits")
    text, image, link = survey.call("gallery")["content"]
    assert (text["text"], image["mimeType"], link["type"]) == ("text", "image/png", "resource_link")
    assert "it went wrong" in survey.call_failing("fail")
    assert len(survey.call("big", size=2_000_000)["content"][0]["text"]) == 2_000_000


def test_progress_arrives_in_order(survey: PipeSurvey, transport: str) -> None:
    mark = survey.mark
    assert survey.call("slow", steps=3, seconds=0.15)["content"][0]["text"] == "done"
    steps = [(item["progress"], item["message"]) for item in survey.events_since(mark) if item["event"] == "progress"]
    # A plain JSON answer cannot carry anything before it.
    assert steps == ([] if transport == "http json" else [(1, "step 1"), (2, "step 2"), (3, "step 3")])


def test_input_rounds_of_tools_are_answered_with_forms_the_model_and_folders(survey: PipeSurvey) -> None:
    assert survey.call("greet", ADA)["text"] == "Hello Ada, state remember me"
    reply = {"accept": {"content": [{"type": "text", "text": "Paris"}]}}
    told = survey.call("rounds", {"review_sampling": "once", "review_reply": reply, **ADA})["text"]
    assert told == "Ada: Paris in 1 folder"
    kinds = [question["kind"] for question in survey.questions]
    assert kinds[0] == "fill_form"
    assert {"review_sampling", "review_reply"} <= set(kinds[1:])


def test_an_input_round_that_is_declined_ends_the_call_and_not_the_session(survey: PipeSurvey) -> None:
    declined = survey.run("call", {"fill_form": "decline"}, tool="greet", arguments={})
    assert declined["exit"] != 0
    assert survey.call("add", a=1, b=1)["structuredContent"] == {"result": 2}


def test_prompts_and_resources_are_used_and_may_ask_back(survey: PipeSurvey) -> None:
    def prompt(name: str, answers: dict[str, Any] | None = None, **arguments: str) -> str:
        filled = survey.run("prompt", answers, name=name, arguments=arguments)
        return filled["result"]["messages"][0]["content"]["text"]

    def read(answers: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        return survey.run("read", answers, **fields)["result"]["contents"][0]

    assert prompt("review", code="x = 1") == "Please review: x = 1"
    assert prompt("letter", ADA, to="Bob") == "Write to Bob, signed Ada"
    assert read(uri="demo://greeting")["text"] == "hello"
    assert base64.b64decode(read(uri="demo://pixel")["blob"]).startswith(b"\x89PNG")
    assert read(template="demo://items/{ident}", values={"ident": "7"})["text"] == "item 7"
    assert read(ADA, template="demo://locked/{name}", values={"name": "diary"})["text"] == "diary of Ada"
    assert survey.run("read", uri="demo://nothing")["exit"] == 4


def test_arguments_are_completed(survey: PipeSurvey) -> None:
    def values(**fields: Any) -> list[str]:
        return survey.run("complete", **fields)["result"]["values"]

    assert values(prompt="review", argument="code", value="p") == ["python", "pascal"]
    assert values(prompt="review", argument="code", value="p", arguments={"style": "old"}) == ["pascal"]
    assert values(template="demo://items/{ident}", argument="ident", value="7") == ["7", "77"]


def test_log_messages_come_once_a_level_is_set(survey: PipeSurvey, transport: str) -> None:
    assert survey.run("log_level", level="info")["ok"]
    mark = survey.mark
    assert survey.call("note", text="look here")["text"] == "noted look here"
    logs = [item for item in survey.events_since(mark) if item["event"] == "log" and item["source"] == "server"]
    logged = [(log["level"], log["text"]) for log in logs]
    assert logged == ([] if transport == "http json" else [("warning", "look here")])


def test_changes_of_lists_and_of_watched_resources_are_reported(survey: PipeSurvey) -> None:
    assert survey.run("subscribe", uri="demo://greeting")["ok"]
    survey.call("touch")
    told = survey.pipe.wait(lambda event: event["event"] == "resource_updated")
    assert told["uri"] == "demo://greeting"
    assert survey.run("unsubscribe", uri="demo://greeting")["result"] == {"was_subscribed": True}
    survey.call("change")
    survey.pipe.wait(lambda event: event["event"] == "tools_changed" and "added" in str(event))
    assert "added" in survey.list_names("tools", refresh=False)


def test_one_shot_commands_do_the_same(survey: PipeSurvey, transport: str) -> None:
    assert survey.run_command("call", SERVER, "add", "a=2", "b=40")["structuredContent"] == {"result": 42}
    if transport == "stdio":
        return  # each start of this server takes seconds, and the rest does not depend on the transport
    assert survey.run_command("read", SERVER, "demo://greeting")["contents"][0]["text"] == "hello"
    filled = survey.run_command("prompt", SERVER, "review", "code=y")
    assert filled["messages"][0]["content"]["text"] == "Please review: y"
    assert len(survey.run_command("templates", SERVER)) == 2
    assert survey.run_command("complete", SERVER, "prompt", "review", "code", "p")["values"] == ["python", "pascal"]
