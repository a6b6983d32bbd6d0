"""Tests for the English labels of audit rows; tests/screens/test_chinese.py has tests of their translation."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcphost.host.audit.answer_summary import ANSWER_LABELS, answer_label
from mcphost.host.audit.audit_labels import KIND_LABELS, SOURCE_LABELS, event_label, outcome_label, search_text
from mcphost.host.questions.cost import SendOnce


@pytest.mark.parametrize(
    ("kind", "event", "decision", "label"),
    [
        ("tool", "answered", "once", "tool allowed once"),
        ("tool", "answered", "once, edited", "tool edited, then allowed once"),
        ("tool", "answered", "deny", "tool denied"),
        ("tool", "decided", "allow", "tool allowed"),
        ("tool", "started", "", "tool started"),
        ("tool", "ended", "ok", "tool finished"),
        ("tool", "ended", "not sent: the tool changed", "tool not sent: the tool changed"),
        ("process", "started", "", "server starting"),
        ("process", "ended", "failed", "server did not start"),
        ("process", "ended", "lost", "server crashed"),
        ("connection", "started", "", "connection opening"),
        ("connection", "ended", "failed", "connection failed"),
        ("connection", "ended", "lost", "connection lost"),
        ("trust", "kept", "always", "server approved"),
        ("roots", "kept", "never", "folders never allowed"),
        ("roots", "told", "2 folders", "folders shared: 2 folders"),
        ("file", "removed", "always", "file removed"),
        ("drift", "answered", "held back", "changed tools quarantined"),
        ("ledger", "broken", "hash", "audit log broken: hash"),
        ("tool", "ended", "", "tool ended"),
        ("new kind", "new event", "new word", "new kind new event: new word"),
    ],
)
def test_an_event_is_described_as_a_person_would(kind: str, event: str, decision: str, label: str) -> None:
    assert event_label(kind, event, decision) == label


def test_every_answer_has_a_label_of_its_own() -> None:
    for answer in ANSWER_LABELS.values():
        assert outcome_label("tool", "answered", answer) != ""
        assert event_label("tool", "answered", answer) != f"tool answered: {answer}"


def test_a_row_is_found_by_its_label_and_by_who_decided() -> None:
    assert search_text("tool", "answered", "deny", "person") == "tool denied\nyou"


def test_each_source_of_an_approval_has_a_label_of_its_own() -> None:
    """A call that a trusted claim allowed must not look like one in auto-approve mode."""
    sources = (
        "session",
        "always",
        "rule",
        "claim",
        "autonomy",
        "config",
        "hook",
        "flag",
        "nobody",
        "person",
        "program",
    )
    labels = [SOURCE_LABELS.get(source, "") for source in sources]
    assert "" not in labels
    assert len(set(labels)) == len(labels)


def test_the_documentation_lists_every_kind_of_row() -> None:
    document = (Path(__file__).parents[3] / "docs" / "audit.md").read_text(encoding="utf-8")
    (line,) = (line for line in document.splitlines() if line.startswith("| `kind` |"))
    listed = re.sub(r"\([^)]*\)", "", line.split("|")[2]).replace(" and ", ", ")
    assert {word.strip(" `") for word in listed.split(",")} == set(KIND_LABELS)


@pytest.mark.parametrize(
    ("decision", "label"), [("endTurn", "end of turn"), ("maxTokens", "token limit"), ("stopSequence", "stop sequence")]
)
def test_the_outcome_of_a_sampling_request_is_shown_in_words(decision: str, label: str) -> None:
    assert outcome_label("sampling", "ended", decision) == label


def test_a_request_that_is_sent_with_a_shorter_answer_is_recorded_with_its_length() -> None:
    question = SimpleNamespace(KIND="approve_cost")
    assert answer_label(question, SendOnce()) == "once"  # type: ignore[arg-type]
    assert answer_label(question, SendOnce(1_500)) == "once, 1,500 tokens at most"  # type: ignore[arg-type]
    assert outcome_label("budget", "answered", "once, 1,500 tokens at most") == "allowed once, 1,500 tokens at most"
