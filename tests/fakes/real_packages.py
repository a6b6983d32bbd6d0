"""A server packaged for npm and PyPI, and the settings with which real npx and uvx install it from this machine."""

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
from typing import Any

from tests.conftest import skip_or_fail
from tests.fakes.registry_entries import BAD, ENTRIES, package, server
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


def build_wheel(folder: Path, version: str) -> None:
    """Build the wheel of one version of real-mcp, a package with a program of the same name."""
    info = f"real_mcp-{version}.dist-info"
    files = {
        "real_mcp.py": PYTHON_SERVER.replace("1.0.0", version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: real-mcp\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nreal-mcp = real_mcp:main\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"real_mcp-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)


def build_npm_package(version: str) -> bytes:
    """Return a version of the package real-mcp as a tarball for npm."""
    about = {"name": "real-mcp", "version": version, "bin": {"real-mcp": "index.js"}}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        program = NODE_SERVER.replace("1.0.0", version)
        for name, text in {"package.json": json.dumps(about), "index.js": program}.items():
            member = tarfile.TarInfo(f"package/{name}")
            content = text.encode()
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def npm_document(url: str, tarballs: dict[str, bytes]) -> bytes:
    """Return the document in which an npm registry describes real-mcp; *tarballs* are keyed by version."""
    versions = {}
    for version, tarball in tarballs.items():
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(tarball).digest()).decode()}"
        dist = {"tarball": f"{url}/real-mcp-{version}.tgz", "integrity": integrity}
        versions[version] = {"name": "real-mcp", "version": version, "bin": {"real-mcp": "index.js"}, "dist": dist}
    return json.dumps({"name": "real-mcp", "dist-tags": {"latest": VERSIONS[-1]}, "versions": versions}).encode()


ARGUMENTS = [{"type": "positional", "value": "serve"}, {"type": "named", "name": "--fast", "value": "yes"}]
VERSIONS = ("1.0.0", "1.1.0")


def real_entry(version: str) -> dict[str, Any]:
    """Return the MCP registry's entry for a version of real-mcp."""
    packages = [package(kind, "real-mcp", version, packageArguments=ARGUMENTS) for kind in ("npm", "pypi")]
    return published(server("io.github.ada/real", version, packages=packages))


@contextmanager
def serve_real_package(kind: str, home: Path) -> Generator[tuple[RegistryServer, str]]:
    """Serve an MCP registry with an "npm" or "pypi" package; yield it, and the PATH with the real npx or uvx.

    The registry has version 1.0.0 among many other entries, some of them invalid; a test may add version 1.1.0. The
    runner reads its settings from *home*, which must be the HOME of the program.
    """
    with registry_server([*BAD, *ENTRIES, real_entry("1.0.0")]) as registry:
        registry.page_size = 20
        if kind == "npm":
            yield registry, _prepare_npx(registry, home)
        else:
            yield registry, _prepare_uvx(registry, home)


def _prepare_uvx(registry: RegistryServer, home: Path) -> str:
    uv, found = os.environ.get("UV"), shutil.which("uvx")
    uvx = Path(uv or found or "").resolve().with_name("uvx")
    if not uvx.exists():
        skip_or_fail("there is no uvx")
    for version in VERSIONS:
        build_wheel(home / "wheels", version)
    settings = home / ".config" / "uv"
    settings.mkdir(parents=True)
    (settings / "uv.toml").write_text(f'index-url = "{registry.url}/simple/"\n')
    wheels = {f"/{path.name}": path.read_bytes() for path in (home / "wheels").iterdir()}
    links = (
        f'<a href="{name}#sha256={hashlib.sha256(wheel).hexdigest()}">{name[1:]}</a>' for name, wheel in wheels.items()
    )
    answers = wheels | {"/simple/real-mcp/": f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()}
    headers = {"content-type": "text/html"}
    registry.override = lambda path: (200, headers, answers[path]) if path in answers else None
    return os.pathsep.join([str(uvx.parent), os.environ["PATH"]])


def _prepare_npx(registry: RegistryServer, home: Path) -> str:
    try:
        executable = Path(node.node_executable())
    except node.PeersMissing as error:
        skip_or_fail(str(error))
    folder = home / "bin"
    folder.mkdir()
    for name in ("npx", "npm"):
        script = executable.parents[1] / f"lib/node_modules/npm/bin/{name}-cli.js"
        (folder / name).write_text(f'#!/bin/sh\nexec "{executable}" "{script}" "$@"\n')
        (folder / name).chmod(0o755)
    tarballs = {version: build_npm_package(version) for version in VERSIONS}
    (home / ".npmrc").write_text(f"registry={registry.url}/\nupdate-notifier=false\n")
    answers = {f"/real-mcp-{version}.tgz": tarball for version, tarball in tarballs.items()}
    answers["/real-mcp"] = npm_document(registry.url, tarballs)
    registry.override = lambda path: (200, {}, answers[path]) if path in answers else None
    return os.pathsep.join([str(folder), str(executable.parent), os.environ["PATH"]])
