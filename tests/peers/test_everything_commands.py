"""Tests for mcphost's commands and pipe with server-everything: completion, templates, subscriptions, log levels."""

import json

import pytest

from tests.flows.program import Program

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("npm_peers")]
TEXT = "demo://resource/dynamic/text/{resourceId}"
BLOB = "demo://resource/dynamic/blob/{resourceId}"


@pytest.mark.req("comp.request")
@pytest.mark.req("comp.context")
def test_arguments_of_prompts_and_templates_are_completed(program: Program, everything_config: str) -> None:
    with program.pipe("--mcp-config", everything_config) as pipe:

        def values(**asked: object) -> list[str]:
            return pipe.ask("complete", server="everything", **asked)["result"]["values"]

        assert values(prompt="completable-prompt", argument="department", value="S") == ["Sales", "Support"]
        sales = {"department": "Sales"}
        assert values(prompt="completable-prompt", argument="name", arguments=sales) == ["David", "Eve", "Frank"]
        assert values(template=TEXT, argument="resourceId", value="12") == ["12"]
        assert values(template=TEXT, argument="resourceId", value="x") == []
    of = ("--mcp-config", everything_config, "complete", "everything")
    assert program.text(*of, "prompt", "completable-prompt", "name", "D", "department=Sales") == "David\n"
    document = json.loads(program.text(*of, "resource", TEXT, "resourceId", "12", "--json"))
    assert document == {"values": ["12"], "total": 1, "hasMore": False}


@pytest.mark.req("res.templates.expand")
def test_templates_are_filled_in_and_read(program: Program, everything_config: str) -> None:
    found = json.loads(program.text("--mcp-config", everything_config, "templates", "everything", "--json"))[
        "templates"
    ]
    assert {item["uriTemplate"] for item in found} == {TEXT, BLOB}
    assert "Resource 3" in program.text("--mcp-config", everything_config, "read", "everything", TEXT, "resourceId=3")
    with program.pipe("--mcp-config", everything_config) as pipe:
        read = pipe.ask("read", server="everything", template=BLOB, values={"resourceId": "4"})["result"]
        assert read["uri"] == "demo://resource/dynamic/blob/4"
        assert read["contents"][0]["blob"]
        gone = pipe.ask("read", server="everything", uri="demo://nothing")
        assert gone["error"]["kind"] == "refused"
        assert "does not have or accept the resource" in gone["error"]["message"]


@pytest.mark.req("res.subscribe.legacy")
@pytest.mark.req("res.updated")
def test_updates_of_a_subscribed_resource_are_events(program: Program, everything_config: str) -> None:
    uri = "demo://resource/static/document/features.md"
    with program.pipe("--mcp-config", everything_config) as pipe:
        pipe.answers["share_roots"] = "deny"  # it requests roots after the handshake, sometimes before the first call
        assert pipe.ask("subscribe", server="everything", uri=uri)["ok"]
        pipe.ask("call", server="everything", tool="toggle-subscriber-updates")
        assert pipe.event("resource_updated", server="everything")["uri"] == uri
        assert pipe.ask("unsubscribe", server="everything", uri=uri)["result"] == {"was_subscribed": True}
        assert pipe.ask("unsubscribe", server="everything", uri=uri)["result"] == {"was_subscribed": False}


@pytest.mark.req("log.level.legacy")
def test_log_messages_come_from_the_level_that_was_asked_for(program: Program, everything_config: str) -> None:
    with program.pipe("--mcp-config", everything_config) as pipe:
        pipe.answers["share_roots"] = "deny"  # it asks after the handshake, sometimes before the first call
        assert pipe.ask("log_level", server="everything", level="emergency")["ok"]
        pipe.ask("call", server="everything", tool="toggle-simulated-logging")
        assert pipe.ask("log_level", server="everything", level="debug")["ok"]
        pipe.ask("call", server="everything", tool="toggle-simulated-logging")
        pipe.ask("call", server="everything", tool="toggle-simulated-logging")
        assert pipe.event("log", server="everything", source="server")["text"]


def test_check_reports_revision_era_capabilities_and_round_trip_time(program: Program, everything_config: str) -> None:
    checked = json.loads(program.text("--mcp-config", everything_config, "servers", "check", "everything", "--json"))
    (one,) = checked["servers"]
    assert (one["ok"], one["revision"], one["era"]) == (True, "2025-11-25", "handshake")
    assert {"tools", "resources", "prompts", "completions", "logging"} <= set(one["capabilities"])
    assert 0 < one["latency"] < 5
    assert "round trip" in program.text("--mcp-config", everything_config, "servers", "check")
