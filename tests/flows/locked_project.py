"""A project with a lock file, for the tests of `mcphost servers lock` and `mcphost servers verify`."""

import json
import os
import sys
from typing import Any

from tests.fakes.package_tools import FakePackageTools
from tests.flows.inline_servers import FILE_DEFINED_SERVER
from tests.flows.program import Program

READ = {
    "name": "read",
    "title": "Read",
    "description": "Read one file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
WRITE = {"name": "write", "description": "Write one file.", "inputSchema": {"type": "object"}}


class LockedProject:
    """A folder whose `.mcp.json` has a server `files`; a test can change the version and tools of the server."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.file = program.work / ".mcp.json"
        self.lock_path = program.work / "mcphost.lock"
        self.served = program.home / "served.json"
        self.started = program.home / "started"
        self.tools = FakePackageTools(program.home)
        program.env["PATH"] = os.pathsep.join([str(self.tools.folder), program.env["PATH"]])
        self.serve(READ, WRITE)
        self.configure()

    def serve(self, *tools: Any, version: str = "1.0", **more: Any) -> None:
        """Set the tools and the version that the server reports."""
        self.served.write_text(json.dumps({"info": {"name": "files", "version": version}, "tools": tools, **more}))

    def entry(self, *arguments: str, **more: Any) -> dict[str, Any]:
        """Return the server's entry for `.mcp.json`."""
        source = f"open({str(self.started)!r}, 'a').write('x')\n{FILE_DEFINED_SERVER}"
        more["env"] = {"SERVED": str(self.served), **more.get("env", {})}
        return {"command": sys.executable, "args": ["-c", source, *arguments], **more}

    def configure(self, **servers: Any) -> None:
        """Write `.mcp.json`, with the server `files` unless *servers* are given."""
        self.file.write_text(json.dumps({"mcpServers": servers or {"files": self.entry()}}))

    def lock(self, *arguments: str, **more: Any) -> str:
        """Write the lock file; `--mcp-config` approves the servers, as in CI."""
        return self.program.text("--mcp-config", ".mcp.json", "servers", "lock", *arguments, **more)

    def verify(self, *arguments: str, code: int = 0, **more: Any) -> str:
        """Run `mcphost servers verify`, which must exit with *code*, and return its output."""
        return self.program.text("--mcp-config", ".mcp.json", "servers", "verify", *arguments, code=code, **more)

    def accept(self) -> None:
        """Accept the changed tools of `files` that are in quarantine."""
        self.program.text("--mcp-config", ".mcp.json", "servers", "changes", "files", "--keep", "--yes")

    def drift(self, *arguments: str) -> dict[tuple[str, str], list[str]]:
        """Run a verification that must find differences; return them by kind and name."""
        found = json.loads(self.verify("--json", *arguments, code=9))
        return {(one["kind"], one["name"]): one["difference"] for server in found["servers"] for one in server["drift"]}


def trusted(project: LockedProject, **env: Any) -> None:
    """Approve `.mcp.json` and its server."""
    project.program.text("servers", "trust", ".mcp.json", "--yes", **env)
    project.program.text("servers", "trust", "files", "--yes", **env)


def checked_out(project: LockedProject, **env: Any) -> None:
    """Continue as another user, who has never seen the server before, and approve it."""
    project.program.env["MCPHOST_DATA_DIR"] = str(project.program.home / "data-of-another")
    trusted(project, **env)
