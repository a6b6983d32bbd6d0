"""Tests that `mcphost doctor --conformance` reports exactly what the tables in the code support."""

import json

import pytest

from mcphost.cli.doctor import CLIENT_REQUESTS, collect_report, format_report, methods_in
from mcphost.cli.main import main
from mcphost.config.schema import Limits
from mcphost.protocol.revisions import Revision


def test_each_revision_is_there_with_its_methods_and_the_capabilities_it_knows() -> None:
    found = {revision.revision: revision for revision in collect_report().revisions}
    assert list(found) == sorted((revision.value for revision in Revision), reverse=True)
    for revision in Revision:
        assert found[revision.value].requests == methods_in(revision, CLIENT_REQUESTS)
    first, last = found["2024-11-05"], found["2026-07-28"]
    assert "elicitation" not in first.capabilities
    assert {"roots", "sampling", "elicitation", "extensions"} <= last.capabilities.keys()
    assert "sse" in first.transports
    assert "sse" not in last.transports
    assert "initialize" in first.requests
    assert "initialize" not in last.requests


def test_limits_are_those_in_force() -> None:
    limits = {limit.name: limit.value for limit in collect_report().limits}
    assert limits["time of a request"] == Limits().request_timeout
    assert limits["message, decoded"] == 16 * 1024 * 1024


def test_users_get_lines_that_fit_a_screen_and_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    lines = format_report(collect_report())
    assert max(map(len, lines)) <= 110
    assert any("server/discover" in line for line in lines)
    assert main(["doctor", "--conformance"]) == 0
    assert "2025-11-25 (handshake era)" in capsys.readouterr().out
    assert main(["doctor", "--conformance", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["revisions"][0]["era"] == "stateless"
