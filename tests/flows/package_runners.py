"""Fake npx, uvx, docker and dnx commands that record their arguments and then run the demo server."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.fakes.package_tools import FakePackageTools
from tests.flows.program import Program

RUNNER = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
if {fails!r}:
    sys.exit("no package here")
os.execv({python!r}, [{python!r}, "-m", "mcphost.demo.server"])
"""


class PackageRunners:
    """A folder with the fake commands, which is first in the program's PATH, and fakes of npm and uv in `tools`."""

    def __init__(self, program: Program, *names: str, fails: bool = False) -> None:
        self.folder = program.home / "bin"
        self.folder.mkdir(exist_ok=True)
        self._log = program.home / "runners.log"
        text = RUNNER.format(python=sys.executable, log=str(self._log), fails=fails)
        for name in names:
            path = self.folder / name
            path.write_text(text)
            path.chmod(0o755)
        self.tools = FakePackageTools(program.home)
        # Nothing else of this machine that runs packages may be found.
        found = [str(self.folder), str(self.tools.folder)]
        program.env["PATH"] = os.pathsep.join(found if names else [*found, "/usr/bin", "/bin"])

    @property
    def started(self) -> list[list[str]]:
        """Return the command lines with which the fake commands were started."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


def configured(program: Program, name: str) -> dict[str, Any]:
    """Return the entry of the server *name* in the user's mcp.json."""
    document = json.loads((Path(program.env["MCPHOST_CONFIG_DIR"]) / "mcp.json").read_text())
    return document["mcpServers"][name]
