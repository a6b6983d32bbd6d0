"""The official conformance suite judges the real Host, strictly: no failed check, no warning, a clean exit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import node

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("npm_peers")]
ADAPTER = Path(__file__).with_name("client.py")
SCORE = re.compile(r"^Passed:\s+(\d+)/(\d+),\s+0 failed,\s+0 warnings", re.MULTILINE)
CODES = re.compile(r"\x1b\[[0-9;]*m")
# Every scenario without sign-in, elicitation or skills, at each revision it is tagged with.
PAIRS = [
    ("initialize", "2025-06-18"),
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-06-18"),
    ("tools_call", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("sse-retry", "2025-11-25"),
    ("request-metadata", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
]


@pytest.mark.parametrize(("scenario", "version"), PAIRS, ids=["@".join(pair) for pair in PAIRS])
def test_the_official_suite_passes(scenario: str, version: str, tmp_path: Path) -> None:
    # The suite splits the command at spaces and knows no quotes.
    command = f"{sys.executable} {ADAPTER}"
    assert command.count(" ") == 1, "no folder with a space in its name"
    flags = ["--spec-version", version, "--timeout", "40000", "-o", str(tmp_path)]
    done = subprocess.run(
        [*node.conformance(), "client", "--command", command, "--scenario", scenario, *flags],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    said = CODES.sub("", done.stdout + done.stderr)
    assert done.returncode == 0, said
    # The suite alone also says "passed" of a client that did nothing.
    score = SCORE.search(said)
    assert score, said
    assert int(score[1]) == int(score[2]) >= 1, said
