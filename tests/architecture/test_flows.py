"""Tests of the main flows (a message, a sign-in): each passes all stages, stays short, and matches ARCHITECTURE.md."""

import pytest

from tests.architecture import trace_flows
from tests.architecture.flow_trace import FlowTrace
from tests.architecture.trace_flows import DOCUMENT, diagram

MAX_FUNCTIONS = {"message": 55, "sign-in": 24, "refresh": 10}
"""Functions on the path; of a 401 those after it was received."""
MAX_MODULES = {"message": 28}


@pytest.fixture(scope="module")
def traces() -> dict[str, FlowTrace]:
    """Trace all flows once for all tests in this file."""
    return trace_flows.trace_all()


def test_each_flow_reaches_all_its_stages(traces: dict[str, FlowTrace]) -> None:
    assert {name: sorted(trace.missing) for name, trace in traces.items()} == {name: [] for name in traces}


def test_each_flow_is_short(traces: dict[str, FlowTrace]) -> None:
    lengths = {name: len(trace_flows.flow_hops(name, trace)) for name, trace in traces.items()}
    assert all(lengths[name] <= most for name, most in MAX_FUNCTIONS.items()), lengths
    assert len(traces["message"].modules) <= MAX_MODULES["message"]


@pytest.mark.parametrize("name", ["message", "sign-in"])
def test_the_architecture_document_shows_the_current_flow(name: str, traces: dict[str, FlowTrace]) -> None:
    assert diagram(traces[name]) in DOCUMENT.read_text(encoding="utf-8"), (
        "Update it: uv run python -m tests.architecture.trace_flows --write"
    )
