"""A server that is a package of npm and of PyPI, and the real npx and uvx that run it from this machine."""

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import skip_or_fail
from tests.fakes.registry_entries import package, server
from tests.fakes.registry_server import RegistryServer, published, registry_server
from tests.peers import node

PYTHON_SERVER = """
import json, sys
def main():
    for line in sys.stdin:
        request = json.loads(line)
        method, result = request.get("method"), {}
        if "id" not in request:
            continue
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "real", "version": "1.0.0"}}
        elif method == "tools/list":
            text = " ".join(sys.argv[1:])
            result = {"tools": [{"name": "say", "description": text, "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "said by python"}]}
        answer = {"result": result}
        if not result and method != "ping":
            answer = {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""
NODE_SERVER = """#!/usr/bin/env node
const rl = require("readline").createInterface({input: process.stdin});
rl.on("line", line => {
  const {id, method} = JSON.parse(line);
  if (id === undefined) return;
  const results = {
    "initialize": {
      protocolVersion: "2025-06-18", capabilities: {tools: {}}, serverInfo: {name: "real", version: "1.0.0"},
    },
    "tools/list": {
      tools: [{name: "say", description: process.argv.slice(2).join(" "), inputSchema: {type: "object"}}],
    },
    "tools/call": {content: [{type: "text", text: "said by node"}]},
    "ping": {},
  };
  const answer = method in results ? {result: results[method]} : {error: {code: -32601, message: "no"}};
  console.log(JSON.stringify({jsonrpc: "2.0", id, ...answer}));
});
"""


def build_wheel(folder: Path) -> None:
    """Write the wheel of real-mcp 1.0.0, which has a program of that name."""
    info = "real_mcp-1.0.0.dist-info"
    files = {
        "real_mcp.py": PYTHON_SERVER,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: real-mcp\nVersion: 1.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nreal-mcp = real_mcp:main\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    folder.mkdir()
    with zipfile.ZipFile(folder / "real_mcp-1.0.0-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)


def build_npm_package() -> bytes:
    """Return the package real-mcp 1.0.0 as npm publishes it."""
    about = {"name": "real-mcp", "version": "1.0.0", "bin": {"real-mcp": "index.js"}}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in {"package.json": json.dumps(about), "index.js": NODE_SERVER}.items():
            member = tarfile.TarInfo(f"package/{name}")
            content = text.encode()
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def npm_document(url: str, tarball: bytes) -> bytes:
    """Return what an npm registry says about real-mcp."""
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(tarball).digest()).decode()}"
    version = {"name": "real-mcp", "version": "1.0.0", "bin": {"real-mcp": "index.js"},
               "dist": {"tarball": f"{url}/real-mcp-1.0.0.tgz", "integrity": integrity}}  # fmt: skip
    document = {"name": "real-mcp", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    return json.dumps(document).encode()


ARGUMENTS = [{"type": "positional", "value": "serve"}, {"type": "named", "name": "--fast", "value": "yes"}]
ENTRY = published(server("io.github.ada/real", packages=[
    package(kind, "real-mcp", packageArguments=ARGUMENTS) for kind in ("npm", "pypi")
]))  # fmt: skip


@contextmanager
def serve_real_package(kind: str, home: Path) -> Generator[tuple[RegistryServer, str]]:
    """Serve a registry with the package of this kind ("npm" or "pypi"); yield it with the PATH of the real runner.

    A runner reads its settings from *home*, which must be the HOME of the program.
    """
    with registry_server([ENTRY]) as registry:
        if kind == "npm":
            yield registry, _prepare_npx(registry, home)
        else:
            yield registry, _prepare_uvx(home)


def _prepare_uvx(home: Path) -> str:
    uv = os.environ.get("UV") or shutil.which("uv")
    uvx = Path(uv or "").resolve().with_name("uvx")
    if not uv or not uvx.exists():
        skip_or_fail("there is no uvx")
    build_wheel(home / "wheels")
    settings = home / ".config" / "uv"
    settings.mkdir(parents=True)
    (settings / "uv.toml").write_text(f'no-index = true\nfind-links = ["{home / "wheels"}"]\n')
    return os.pathsep.join([str(uvx.parent), os.environ["PATH"]])


def _prepare_npx(registry: RegistryServer, home: Path) -> str:
    try:
        executable = Path(node.node_executable())
    except node.PeersMissing as error:
        skip_or_fail(str(error))
    npx = executable.parents[1] / "lib/node_modules/npm/bin/npx-cli.js"
    folder = home / "bin"
    folder.mkdir()
    (folder / "npx").write_text(f'#!/bin/sh\nexec "{executable}" "{npx}" "$@"\n')
    (folder / "npx").chmod(0o755)
    tarball = build_npm_package()
    (home / ".npmrc").write_text(f"registry={registry.url}/\nupdate-notifier=false\n")
    answers = {"/real-mcp": npm_document(registry.url, tarball), "/real-mcp-1.0.0.tgz": tarball}
    registry.override = lambda path: (200, {}, answers[path]) if path in answers else None
    return os.pathsep.join([str(folder), str(executable.parent), os.environ["PATH"]])
