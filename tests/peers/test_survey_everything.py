"""Tests that use all features of server-everything, over stdio, Streamable HTTP and HTTP+SSE."""

import base64
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcphost.host.tools.call_executor import RELISTING_PROGRESS
from tests.flows.program import Program
from tests.peers import node
from tests.peers.everything_server import serve_everything
from tests.peers.pipe_survey import SERVER, PipeSurvey, open_survey

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("npm_peers")]
ALWAYS = {
    "echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference", "get-sum",
    "get-structured-content", "get-tiny-image", "gzip-file-as-resource", "toggle-simulated-logging",
    "toggle-subscriber-updates", "trigger-long-running-operation",
}  # fmt: skip
# Registered after the handshake, each because of a capability that the client declared.
BY_CAPABILITY = {
    "get-roots-list", "trigger-sampling-request", "trigger-elicitation-request", "trigger-url-elicitation",
    "simulate-research-query", "trigger-sampling-request-async", "trigger-elicitation-request-async",
}  # fmt: skip
DEFAULTS = ["It was a dark and stormy night.", 42, 3.14, "Monica", ["Guitar"], "hero-1", ["fish-1"], "pet-1"]


@pytest.fixture(scope="module", params=["stdio", "streamableHttp", "sse"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def survey(transport: str, npm_peers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PipeSurvey]:
    """Open one pipe to the server for all tests of a transport."""
    program = Program(tmp_path_factory.mktemp(f"survey-{transport}"))
    (program.home / "config").mkdir()
    roots = [{"path": str(program.work), "name": "alpha"}, str(program.home)]
    (program.home / "config" / "config.toml").write_text(f"roots = {_toml(roots)}\n")
    if transport == "stdio":
        command, *arguments = node.everything_command()
        with open_survey(program, {"command": command, "args": arguments}) as survey:
            yield survey
        return
    with serve_everything(transport) as origin:
        entry = {"url": f"{origin}/sse", "type": "sse"} if transport == "sse" else {"url": f"{origin}/mcp"}
        with open_survey(program, entry) as survey:
            yield survey


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + "}"
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def test_all_it_offers_is_listed(survey: PipeSurvey) -> None:
    assert set(survey.list_names("tools")) == ALWAYS | BY_CAPABILITY
    assert len([name for name in survey.list_names("resources") if name.endswith(".md")]) == 7
    assert survey.list_names("templates") == ["Dynamic Text Resource", "Dynamic Blob Resource"]
    assert survey.list_names("prompts") == ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]


def test_text_round_trips_unchanged_and_mistakes_are_results(survey: PipeSurvey) -> None:
    assert survey.call("echo", message="hé ✓ 漢")["text"] == "Echo: hé ✓ 漢"
    assert survey.call("get-sum", a=2, b=40)["text"] == "The sum of 2 and 40 is 42."
    assert "MCP error -32602" in survey.call_failing("echo")
    unknown = survey.run("call", tool="no-such-tool", arguments={})
    assert (unknown["ok"], unknown["exit"]) == (False, 2)


@pytest.mark.parametrize(
    ("kind", "priority", "audience"),
    [("error", 1.0, ["user", "assistant"]), ("success", 0.7, ["user"]), ("debug", 0.3, ["assistant"])],
)
def test_annotations_are_kept(survey: PipeSurvey, kind: str, priority: float, audience: list[str]) -> None:
    text, image = survey.call("get-annotated-message", messageType=kind, includeImage=True)["content"]
    assert (text["annotations"]["priority"], text["annotations"]["audience"]) == (priority, audience)
    assert (image["type"], image["annotations"]) == ("image", {"audience": ["user"], "priority": 0.5})


WEATHER = {
    "New York": (33, "Cloudy", 82),
    "Chicago": (36, "Light rain / drizzle", 82),
    "Los Angeles": (73, "Sunny / Clear", 48),
}


@pytest.mark.parametrize(("place", "weather"), WEATHER.items())
def test_structured_content_fits_its_schema_and_equals_its_text(
    survey: PipeSurvey, place: str, weather: tuple[int, str, int]
) -> None:
    result = survey.call("get-structured-content", location=place)
    assert result["structuredContent"] == dict(zip(("temperature", "conditions", "humidity"), weather, strict=True))
    assert result["check"]["outcome"] == "fits"
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_links_embedded_resources_and_images_arrive(survey: PipeSurvey) -> None:
    text, *links = survey.call("get-resource-links", count=4)["content"]
    assert text["type"] == "text"
    assert [link["type"] for link in links] == ["resource_link"] * 4
    assert ["blob" in link["uri"] for link in links] == [True, False, True, False]
    _, embedded, _ = survey.call("get-resource-reference", resourceType="Blob", resourceId=7)["content"]
    assert embedded["resource"]["uri"] == "demo://resource/dynamic/blob/7"
    assert base64.b64decode(embedded["resource"]["blob"]).startswith(b"Resource 7")
    assert "Must be a finite positive integer" in survey.call_failing(
        "get-resource-reference", resourceType="Blob", resourceId=0
    )
    _, image, _ = survey.call("get-tiny-image")["content"]
    assert (image["mimeType"], len(image["data"])) == ("image/png", 5380)


def test_our_server_process_gets_few_variables_and_none_of_ours(survey: PipeSurvey, transport: str) -> None:
    seen = json.loads(survey.call("get-env")["text"])
    if transport == "stdio":
        assert (
            {"PATH", "HOME"}
            <= seen.keys()
            <= {"PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR"}
        )
        assert not [name for name in seen if name.startswith(("MCPHOST", "PYTHON"))]


def test_a_file_becomes_a_resource_that_is_read_and_listed_without_being_asked_for(survey: PipeSurvey) -> None:
    data, tool = "data:text/plain;base64," + base64.b64encode(b"hello hello").decode(), "gzip-file-as-resource"
    (block,) = survey.call(tool, name="in.gz", data=data, outputType="resource")["content"]
    inside = block["resource"]
    assert (inside["uri"], inside["mimeType"]) == ("demo://resource/session/in.gz", "application/gzip")
    assert gzip.decompress(base64.b64decode(inside["blob"])) == b"hello hello"
    (link,) = survey.call(tool, name="out.gz", data=data, outputType="resourceLink")["content"]
    read = survey.run("read", uri=link["uri"])["result"]["contents"][0]
    assert gzip.decompress(base64.b64decode(read["blob"])) == b"hello hello"
    until = time.monotonic() + 10
    while not {"in.gz", "out.gz"} <= set(survey.list_names("resources", refresh=False)):
        assert time.monotonic() < until, "the changed list was not read again"
        survey.run("wait", seconds=0.05)


def test_progress_arrives_in_order_and_an_abandoned_call_leaves_the_session_usable(survey: PipeSurvey) -> None:
    mark = survey.mark
    done = survey.call("trigger-long-running-operation", duration=1, steps=4)["text"]
    assert done == "Long running operation completed. Duration: 1 seconds, Steps: 4."
    # The server may have changed its tools since they were listed; progress of that listing counts, too.
    progress = [event for event in survey.events_since(mark) if event["event"] == "progress"]
    steps = [
        (event["progress"], event["total"]) for event in progress if event["message"] != RELISTING_PROGRESS.message
    ]
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with survey.second_pipe("--timeout", "5") as other:
        given_up = other.run("call", tool="trigger-long-running-operation", arguments={"duration": 60, "steps": 2})
        assert (given_up["ok"], given_up["error"]["kind"]) == (False, "timeout")
        assert other.call("echo", message="still")["text"] == "Echo: still"


def test_prompts_are_filled_in(survey: PipeSurvey) -> None:
    def words(prompt: str, /, **arguments: str) -> list[dict[str, Any]]:
        return [
            message["content"]
            for message in survey.run("prompt", name=prompt, arguments=arguments)["result"]["messages"]
        ]

    assert words("simple-prompt")[0]["text"] == "This is a simple prompt without arguments."
    assert words("args-prompt", city="Oslo", state="NO")[0]["text"] == "What's weather in Oslo, NO?"
    assert words("completable-prompt", department="Sales", name="David")[0]["type"] == "text"
    embedded = words("resource-prompt", resourceType="Text", resourceId="2")[1]
    assert (embedded["type"], embedded["resource"]["uri"]) == ("resource", "demo://resource/dynamic/text/2")
    missing = survey.run("prompt", name="args-prompt")
    assert (missing["exit"], "city" in missing["error"]["message"]) == (2, True)


def test_resources_and_templates_are_read(survey: PipeSurvey) -> None:
    for resource in survey.run("list", kind="resources")["result"]["resources"]:
        assert survey.run("read", uri=resource["uri"])["result"]["contents"][0]["uri"] == resource["uri"]
    templates = {
        template["name"]: template["uriTemplate"]
        for template in survey.run("list", kind="templates")["result"]["templates"]
    }
    text = survey.run("read", template=templates["Dynamic Text Resource"], values={"resourceId": "3"})["result"]
    assert text["contents"][0]["text"].startswith("Resource 3")
    blob = survey.run("read", template=templates["Dynamic Blob Resource"], values={"resourceId": "4"})["result"]
    assert base64.b64decode(blob["contents"][0]["blob"]).startswith(b"Resource 4")
    none = survey.run("read", uri="demo://resource/dynamic/text/x")
    assert (none["ok"], none["exit"]) == (False, 4)


def test_completion_requests_include_the_arguments_filled_in_so_far(survey: PipeSurvey) -> None:
    def values(**fields: Any) -> list[str]:
        return survey.run("complete", **fields)["result"]["values"]

    prompt, template = "completable-prompt", "demo://resource/dynamic/text/{resourceId}"
    assert values(prompt=prompt, argument="department", value="S") == ["Sales", "Support"]
    assert values(prompt=prompt, argument="name", value="", arguments={"department": "Sales"}) == [
        "David",
        "Eve",
        "Frank",
    ]
    assert values(prompt=prompt, argument="name", value="") == []
    assert values(template=template, argument="resourceId", value="12") == ["12"]
    assert values(template=template, argument="resourceId", value="x") == []


def test_the_shared_folders_are_sent_to_the_server(survey: PipeSurvey) -> None:
    told = survey.call("get-roots-list", {"share_roots": "session"})["text"]
    assert told.startswith("Current MCP Roots (2 total)")
    assert "1. alpha" in told
    assert "2. Unnamed Root" in told
    assert survey.program.work.as_uri() in told


def test_sampling_shows_the_request_and_sends_the_approved_reply(survey: PipeSurvey) -> None:
    reply = {"accept": {"content": [{"type": "text", "text": "Paris, of course"}]}}
    told = survey.call(
        "trigger-sampling-request", {"review_sampling": "once", "review_reply": reply}, prompt="Capital?", maxTokens=7
    )
    assert "Paris, of course" in told["text"]
    asked = survey.questions[0]
    assert (asked["system"], asked["temperature"], asked["max_tokens"]) == ("You are a helpful test server.", 0.7, 7)
    assert asked["messages"][0]["content"]["text"] == "Resource trigger-sampling-request context: Capital?"


def test_a_form_of_every_kind_of_field_has_three_ways_out(survey: PipeSurvey) -> None:
    accepted = survey.call("trigger-elicitation-request", {"fill_form": {"accept": {"name": "Ada"}}})["text"]
    fields = {field["name"]: field for field in survey.questions[0]["fields"]}
    assert len(fields) == 13
    assert [name for name, field in fields.items() if field["required"]] == ["name"]
    given = [field["default"] for field in fields.values() if field["default"] is not None]
    assert all(default in given for default in DEFAULTS)
    assert len(given) == len(DEFAULTS)
    assert {"email", "uri", "date"} <= {field["format"] for field in fields.values()}
    assert '"action": "accept"' in accepted
    assert "Ada" in accepted
    declined = survey.call("trigger-elicitation-request", {"fill_form": "decline"})["text"]
    cancelled = survey.call("trigger-elicitation-request", {"fill_form": "cancel"})["text"]
    assert '"action": "decline"' in declined
    assert '"action": "cancel"' in cancelled


def test_an_address_is_shown_before_and_after_the_call(survey: PipeSurvey) -> None:
    answers = {"visit_url": "once", "retry_call": "once"}
    tool, url = "trigger-url-elicitation", "https://example.com/a"
    told = survey.call(tool, answers, url=url, elicitationId="e1")["text"]
    assert "e1" in told
    assert "https://example.com/a" in told
    again = survey.call(
        "trigger-url-elicitation", answers, url="https://example.com/a", elicitationId="e2", errorPath=True
    )
    assert "e2" in again["text"]
    kinds = [(question["kind"], question.get("url")) for question in survey.questions]
    assert kinds[0][0] == "visit_url"
    assert kinds[0][1] != url
    assert ("retry_call", None) in kinds
    stopped = survey.run(
        "call",
        {"visit_url": "decline"},
        tool="trigger-url-elicitation",
        arguments={"url": "https://example.com/b", "elicitationId": "e3", "errorPath": True},
    )
    assert stopped["ok"] is False


def test_a_task_reports_progress_asks_in_between_and_returns_a_result(survey: PipeSurvey) -> None:
    mark = survey.mark
    report = survey.call(
        "simulate-research-query",
        {"fill_form": {"accept": {"interpretation": "snake"}}},
        topic="python",
        ambiguous=True,
    )
    assert "python (snake)" in report["text"].splitlines()[0]
    said = [event["message"] for event in survey.events_since(mark) if event["event"] == "progress"]
    assert said[0] == "Gathering sources..."
    assert any("Requesting clarification" in words for words in said)


def test_our_answers_run_as_tasks_when_a_server_asks_so(survey: PipeSurvey) -> None:
    once = {"review_sampling": "once", "review_reply": "once"}
    sampled = survey.call("trigger-sampling-request-async", once, prompt="Capital?", maxTokens=50)["text"]
    assert sampled.startswith("[COMPLETED]")
    filled = survey.call("trigger-elicitation-request-async", {"fill_form": {"accept": {"name": "Ada"}}})["text"]
    assert filled.startswith("[COMPLETED]")
    assert "- Name: Ada" in filled


def test_a_watched_resource_reports_changes_until_it_is_unwatched(survey: PipeSurvey) -> None:
    gone, kept = (f"demo://resource/dynamic/text/{number}" for number in (1, 2))
    for uri in (gone, kept):
        assert survey.run("subscribe", uri=uri)["ok"]
    mark = survey.mark
    survey.call("toggle-subscriber-updates")
    for uri in (gone, kept):
        survey.wait_for_event(mark, event="resource_updated", server=SERVER, uri=uri)
    survey.call("toggle-subscriber-updates")
    assert survey.run("unsubscribe", uri=gone)["result"] == {"was_subscribed": True}
    mark = survey.mark
    survey.call("toggle-subscriber-updates")
    # The server notifies in the order of the subscriptions: an unsubscribed one would come first.
    survey.wait_for_event(mark, event="resource_updated", uri=kept)
    survey.call("toggle-subscriber-updates")
    assert survey.run("unsubscribe", uri=kept)["result"] == {"was_subscribed": True}
    assert {event["uri"] for event in survey.events_since(mark) if event["event"] == "resource_updated"} == {kept}


def test_log_messages_come_at_the_level_that_was_set_and_not_below_it(survey: PipeSurvey) -> None:
    uri = "demo://resource/dynamic/text/3"

    def logged(mark: int) -> list[str]:
        return [
            event["text"]
            for event in survey.events_since(mark)
            if event["event"] == "log" and event["source"] == "server"
        ]

    def until(mark: int, words: str) -> None:
        while not any(words in text for text in logged(mark)):
            assert survey.pipe.read()

    # It logs each new and ended subscription at level info before it answers.
    assert survey.run("log_level", level="warning")["ok"]
    mark = survey.mark
    assert survey.run("subscribe", uri=uri)["ok"]
    assert survey.run("log_level", level="info")["ok"]
    assert survey.run("unsubscribe", uri=uri)["ok"]
    until(mark, "Received Unsubscribe Resource request")
    assert not [text for text in logged(mark) if "Received Subscribe" in text], "that was below the level"
    assert survey.run("subscribe", uri=uri)["ok"]
    until(mark, "Received Subscribe Resource request")

    assert survey.run("log_level", level="debug")["ok"]
    mark = survey.mark
    survey.call("toggle-simulated-logging")
    until(mark, "essage")  # the level of that message is random
    survey.call("toggle-simulated-logging")
    assert survey.run("unsubscribe", uri=uri)["ok"]
    assert survey.run("log_level", level="nonsense")["exit"] == 2


def test_one_shot_commands_do_the_same(survey: PipeSurvey) -> None:
    assert survey.run_command("call", SERVER, "get-sum", "a=2", "b=40")["text"] == "The sum of 2 and 40 is 42."
    assert len(survey.run_command("templates", SERVER)) == 2
    uri = "demo://resource/static/document/features.md"
    assert survey.run_command("read", SERVER, uri)["contents"][0]["uri"] == uri
    filled = survey.run_command("prompt", SERVER, "args-prompt", "city=Oslo")
    assert "Oslo" in filled["messages"][0]["content"]["text"]
    found = survey.run_command("complete", SERVER, "prompt", "completable-prompt", "department", "S")
    assert found["values"] == ["Sales", "Support"]
