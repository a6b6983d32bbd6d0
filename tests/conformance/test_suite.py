"""Tests that run the official conformance suite on the real Host: no failed check, no warning, a clean exit."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from select import select

import pytest

from tests.conformance.cases import EXTENSION_SCENARIOS, REVISION_SCENARIOS, SUITE, SUITE_CASES, SuiteCase
from tests.conformance.claims import PROVED_REQUIREMENTS
from tests.flows.fork_server import LAUNCHER, ForkServer, can_fork
from tests.peers import node

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("npm_peers")]
ADAPTER = Path(__file__).with_name("suite_client.py")
SCORE = re.compile(r"^Passed:\s+(\d+)/(\d+),\s+0 failed,\s+0 warnings", re.MULTILINE)
CODES = re.compile(r"\x1b\[[0-9;]*m")
LISTED = re.compile(r"^\s+- (\S+) \[(.*)\]$", re.MULTILINE)


CASES = [
    pytest.param(
        pair,
        id=str(pair),
        marks=pytest.mark.req(*PROVED_REQUIREMENTS.get(pair.scenario, ()), revisions=(pair.revision,)),
    )
    for pair in SUITE_CASES
]


class Suite:
    """The suite's Node.js program in a process that can run it many times (`suite.mjs`)."""

    def __init__(self) -> None:
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        interpreter, program = node.conformance_command()
        return subprocess.Popen(
            [interpreter, str(Path(__file__).with_name("suite.mjs")), program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "NODE_COMPILE_CACHE": str(node.cache_folder() / "compiled")},
        )

    def run(self, *arguments: str, environment: dict[str, str], folder: Path) -> tuple[int, str]:
        """Run the suite once; return its exit status and output."""
        if self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin
        assert self._process.stdout
        order = {"arguments": arguments, "environment": environment, "folder": str(folder)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answered, _, _ = select([self._process.stdout], [], [], 50)
        line = self._process.stdout.readline() if answered else b""
        if not line:
            self.close()
            pytest.fail("the suite hangs or ended")
        done = json.loads(line)
        return done["code"], CODES.sub("", done["output"])

    def close(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    suite = Suite()
    yield suite
    suite.close()


@pytest.mark.parametrize("pair", CASES)
def test_the_official_suite_passes(pair: SuiteCase, suite: Suite, tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "NO_PROXY": "*"}
    adapter = ADAPTER
    if can_fork():
        adapter = LAUNCHER
        environment["MCPHOST_TEST_FORKS"] = ForkServer.for_environment(environment).address
        environment["MCPHOST_TEST_SCRIPT"] = str(ADAPTER)
    # The suite splits the command at spaces and does not support quotes.
    command = f"{sys.executable} {adapter}"
    assert command.count(" ") == 1, "no folder with a space in its name"
    flags = ("--command", command, *pair.arguments, "--timeout", "40000", "-o", str(tmp_path))
    code, said = suite.run("client", *flags, environment=environment, folder=tmp_path)
    assert code == 0, said
    # The suite also prints "passed" for a client that did nothing, and for a pair that it skipped.
    score = SCORE.search(said)
    assert score, said
    assert int(score[1]) == int(score[2]) >= 1, said
    judged = [check["status"] for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    assert judged.count("SUCCESS") == int(score[1]), said
    assert not {"FAILURE", "WARNING"} & set(judged), said


def test_every_scenario_of_the_suite_is_here() -> None:
    told = subprocess.run(
        [*node.conformance_command(), "list", "--client"], capture_output=True, text=True, timeout=20
    ).stdout
    tags = {name: marks.split(",") for name, marks in LISTED.findall(CODES.sub("", told))}
    assert {name: list(revisions) for name, revisions in REVISION_SCENARIOS.items()} | {
        name: ["extension"] for name in EXTENSION_SCENARIOS
    } == tags


def test_the_suite_is_the_pinned_one(npm_peers: Path) -> None:
    manifest = npm_peers / "node_modules/@modelcontextprotocol/conformance/package.json"
    assert json.loads(manifest.read_text())["version"] == SUITE
