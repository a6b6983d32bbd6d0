"""Tests that commit subjects are short and imperative (see CONTRIBUTING.md); older commits are exempt."""

import re
import subprocess

import pytest

from tests.architecture.source_tree import ROOT

LAST_BEFORE_THE_RULE = "54715c6"
MAX_SUBJECT = 60
NOT_IMPERATIVE = re.compile(r"[A-Z][a-z]+(?:ed|ing|[^s]s)\b")
"""A first word that tells what a commit did or does: "Added", "Adding", "Adds"."""
IMPERATIVE = {
    "Bring",
    "Embed",
    "Exceed",
    "Feed",
    "Need",
    "Proceed",
    "Shed",
    "Speed",
    "String",
    "Focus",
    "Alias",
    "Bias",
}


def faults(subject: str) -> list[str]:
    """Return what is wrong with the subject of a commit."""
    found: list[str] = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"{len(subject)} characters, at most {MAX_SUBJECT}")
    if not subject[:1].isupper():
        found.append("begins with a small letter")
    if subject.endswith("."):
        found.append("ends with a period")
    if (first := NOT_IMPERATIVE.match(subject)) and first[0] not in IMPERATIVE:
        found.append(f"{first[0]!r} is not imperative")
    return found


def subjects() -> list[str]:
    """Return the subjects of the commits since the rule was introduced, or all if the history is incomplete."""
    command = ["git", "log", "--no-merges", "--format=%s"]
    since = subprocess.run([*command, f"{LAST_BEFORE_THE_RULE}..HEAD"], cwd=ROOT, capture_output=True, text=True)
    if since.returncode == 0:
        return since.stdout.splitlines()
    every = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return every.stdout.splitlines()  # none in an unpacked source archive


def test_every_commit_subject_is_short_and_imperative() -> None:
    assert {subject: reason for subject in subjects() if (reason := faults(subject))} == {}


@pytest.mark.parametrize(
    "subject", ["Added a rule", "Adds a rule", "Adding a rule", "add a rule", "Add a rule.", "Add " + "a" * 60]
)
def test_other_subjects_are_refused(subject: str) -> None:
    assert faults(subject)


@pytest.mark.parametrize("subject", ["Add a rule", "Press a key again", "Bring the list back", "Pass the token on"])
def test_imperative_subjects_are_accepted(subject: str) -> None:
    assert faults(subject) == []
