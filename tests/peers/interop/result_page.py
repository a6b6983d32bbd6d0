"""The page docs/interop.md: the result of the last run of the whole matrix as a table, with what the peers lack."""

import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.peers.interop.installs import HERE, REQUIREMENTS
from tests.peers.interop.peers import Cell, KnownLimitation, Peer
from tests.peers.interop.probes import ALL, ProbeOutcome

PAGE = HERE.parents[2] / "docs" / "interop.md"
MAX_FAULT = 200
_NONE = "-"
_HEAD = """# Interoperability

mcphost is tried with servers that are written with releases of the official SDKs and of FastMCP, over every transport
that a release has and, on stdio, with servers that start after 0, 1 and 3 seconds. This page is the result of the last
run of all combinations. `uv run python -m tests.peers.interop --write` repeats the run and writes the page.

Last run on {date}: {cells} combinations with {count} probes each; {passed} of {tried} probes passed, {lacking} failed
as expected because the peer lacks something, {failed} failed for another reason. Combinations that were tried a second
time, alone, because a probe failed: {repeated}.

The probes: {probes}. An "old era" peer supports both eras of the protocol and is configured with `"era": "handshake"`.

| Peer | Release | Transport | Start | Passed | What the peer lacks | Failed |
|---|---|---|---|---|---|---|
"""
_COLUMN = re.compile(r"(?<!\\)\|")
_LACKING = re.compile(r"([a-z ]+) \[(\d+)\]")
_NOTE = re.compile(r"^(\d+)\. \S", re.MULTILINE)


class ResultRow(NamedTuple):
    """A row of the table: the name of the combination, and the outcomes of its probes.

    `lacking` contains each probe that cannot pass, with the number of the note that gives the reason; `failed` is ""
    or describes the probes that failed for another reason.
    """

    cell: str
    passed: int
    total: int
    lacking: tuple[tuple[str, int], ...]
    failed: str


def render_page(found: Mapping[Cell, Sequence[ProbeOutcome] | str], date: str, repeated: int = 0) -> str:
    """Return the page for a run on *date*; the rows have the order of *found*.

    *repeated* is the number of combinations that were tried a second time.
    """
    notes: dict[KnownLimitation, int] = {}
    rows = [_render_row(cell, outcomes, notes) for cell, outcomes in found.items()]
    tried = [one for outcomes in found.values() if not isinstance(outcomes, str) for one in outcomes]
    lacking, failed = sum(_is_lacking(one) for one in tried), sum(not one.is_good for one in tried)
    head = _HEAD.format(
        date=date,
        cells=len(found),
        count=len(ALL),
        passed=len(tried) - lacking - failed,
        tried=len(tried),
        lacking=lacking,
        failed=failed,
        repeated=repeated,
        probes=", ".join(ALL),
    )
    reasons = "".join(f"{number}. {limit.reason}\n" for limit, number in notes.items())
    return head + "\n".join(rows) + "\n\nWhat the peers lack:\n\n" + reasons


def _render_row(cell: Cell, outcomes: Sequence[ProbeOutcome] | str, notes: dict[KnownLimitation, int]) -> str:
    if isinstance(outcomes, str):
        passed, marks, faults = 0, "", f"not run: {outcomes}"
    else:
        passed = sum(one.is_good and one.limit is None for one in outcomes)
        marks = ", ".join(
            f"{one.probe} [{notes.setdefault(one.limit, len(notes) + 1)}]"
            for one in outcomes
            if one.limit is not None and one.is_good
        )
        faults = "; ".join(f"{one.probe}: {one.fault or 'it works now'}" for one in outcomes if not one.is_good)
    faults = " ".join(faults[:MAX_FAULT].replace("|", "\\|").split())
    columns = (
        cell.peer.name,
        release_of(cell.peer),
        cell.transport,
        f"{cell.delay} s",
        f"{passed} of {len(ALL)}",
        marks or _NONE,
        faults or _NONE,
    )
    return f"| {' | '.join(columns)} |"


def _is_lacking(outcome: ProbeOutcome) -> bool:
    return outcome.limit is not None and outcome.is_good


def release_of(peer: Peer) -> str:
    """Return the name and version of the package that the peer is written with."""
    if peer.is_typescript:
        wanted = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
        package = "@modelcontextprotocol/server" if peer.library == "server" else peer.library
        name, _, version = wanted[package].removeprefix("npm:").rpartition("@")
        return f"{name or package} {version}"
    if peer.library in REQUIREMENTS:
        return REQUIREMENTS[peer.library].replace("==", " ")
    return f"mcp {importlib.metadata.version('mcp')}"


def parse_page(page: str) -> tuple[list[ResultRow], set[int]]:
    """Return the rows of the table, and the numbers of the notes."""
    rows: list[ResultRow] = []
    for line in page.splitlines():
        columns = [text.strip() for text in _COLUMN.split(line)[1:-1]]
        if len(columns) != 7 or " of " not in columns[4]:
            continue
        name, _, transport, start, passed, lacks, failed = columns
        late = "" if start == "0 s" else f" +{start}"
        count, _, total = passed.partition(" of ")
        lacking = tuple((probe.strip(), int(number)) for probe, number in _LACKING.findall(lacks))
        rows.append(
            ResultRow(f"{name} {transport}{late}", int(count), int(total), lacking, "" if failed == _NONE else failed)
        )
    return rows, {int(number) for number in _NOTE.findall(page)}
