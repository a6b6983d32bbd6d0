"""Amplification cases for what registries publish, projects contain and model servers list."""

# pyright: basic

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_wire import array, file_of, gzipped, plain, started

ENTRY = {"server": {"name": "io.github.a/b", "version": "1.0.0", "description": "d"}}
PAGE = b'{"servers":[%s]}'


def _entries(count: int, **more: Any) -> bytes:
    """Return a page of a registry with *count* entries, each with these further members."""
    entries = [{"server": {**ENTRY["server"], "name": f"io.github.a/b{n}", **more}} for n in range(count)]
    return PAGE % b",".join(json.dumps(entry).encode() for entry in entries)


PAGES = {
    "empty objects": lambda: PAGE % array(b"{}", 4 * MB),
    "empty lists": lambda: PAGE % b"[" + array(b"[]", 4 * MB) + b"]",
    "empty lists beside the entries": lambda: b'{"servers":[],"more":[' + array(b"[]", 4 * MB) + b"]}",
    "many members": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(350_000)) + b"}",
    "500 entries of empty lists": lambda: _entries(500, more=[[]] * 1_900),
    "500 entries of packages": lambda: _entries(
        500, packages=[{"registryType": "npm", "identifier": f"p{n}", "version": "1"} for n in range(120)]
    ),
    "500 entries of variables": lambda: _entries(
        500,
        packages=[
            {
                "registryType": "npm",
                "identifier": "p",
                "version": "1",
                "environmentVariables": [{"name": f"V{n}", "value": "x"} for n in range(190)],
            }
        ],
    ),
    "500 entries that are wrong": lambda: _entries(500, name="\u202e" * 1_000, description="\u202e" * 300),
    "500 entries of odd characters": lambda: _entries(500, description="\u202e" * 1_300),
    "a gzip body of 400 MB": lambda: gzipped(b" " * 400 * MB),
}


def _page_case(name: str, make: Callable[[], bytes]) -> None:
    @case(f"registry: a page of {name}", size=0)
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.registry.client import open_registry

        body = make()
        more = b"content-encoding: gzip\r\n" if body[:2] == b"\x1f\x8b" else b""
        answer = plain(body, more)
        with tempfile.TemporaryDirectory() as cache:
            for kind in ("warm", "measured"):
                data = plain(_entries(1)) if kind == "warm" else answer
                with file_of(data) as file, started("hostile_http.py", file) as port:
                    async with open_registry(f"http://127.0.0.1:{port}", Path(cache)) as registry:
                        with meter.measuring(len(data)):
                            await registry.search("", 100)


for _name, _make in PAGES.items():
    _page_case(_name, _make)


MANIFEST = {
    "manifest_version": "0.3",
    "name": "a",
    "version": "1",
    "server": {"type": "node", "entry_point": "a.js", "mcp_config": {"command": "node", "args": ["a.js"]}},
}


def _manifest(**more: Any) -> bytes:
    return json.dumps({**MANIFEST, **more}).encode()


MANIFESTS = {
    "empty lists": lambda: b'{"tools":[' + array(b"[]", MB) + b"]}",
    "nesting": lambda: b"[" * 500_000 + b"]" * 500_000,
    "members": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(80_000)) + b"}",
    "settings": lambda: _manifest(
        user_config={f"s{n}": {"type": "string", "title": "t", "description": "d"} for n in range(14_000)}
    ),
    "arguments": lambda: _manifest(
        server={**MANIFEST["server"], "mcp_config": {"command": "n", "args": ["${x}"] * 120_000}}
    ),
    "a long description": lambda: _manifest(description="\u202e" * 160_000),
}


def _manifest_case(name: str, make: Callable[[], bytes]) -> None:
    @case(f"bundle: a manifest of {name}", size=0)
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.registry.bundle_manifest import decode_manifest

        with contextlib.suppress(Exception):
            decode_manifest(b"{}")
        raw = make()
        with meter.measuring(len(raw)):
            decode_manifest(raw)


for _name, _make in MANIFESTS.items():
    _manifest_case(_name, _make)


def _lock(tools: int, **definition: Any) -> bytes:
    tool = {"digest": f"sha256:{'0' * 64}", "definition": definition}
    identity = {"name": "s", "version": "1", "protocolVersion": "2025-11-25"}
    server = {"command": ["x"], "identity": identity, "tools": {f"t{n}": tool for n in range(tools)}}
    return json.dumps({"lockVersion": 3, "servers": {"s": server}}).encode()


LOCKS = {
    "empty lists": lambda: b'{"lockVersion":3,"servers":{},"x":[' + array(b"[]", 8 * MB - 100) + b"]}",
    "as many empty lists as are read": lambda: b'{"lockVersion":3,"servers":{},"x":[' + array(b"[]", 280_000) + b"]}",
    "members": lambda: b'{"lockVersion":3,' + b",".join(b'"k%d":1' % n for n in range(49_000)) + b"}",
    "tools": lambda: _lock(9_000, description="x" * 600),
    "one long text": lambda: b'{"lockVersion":3,"x":"' + b"a" * (8 * MB - 100) + b'"}',
    "escapes": lambda: b'{"lockVersion":3,"x":"' + b"\\u0041" * 1_300_000 + b'"}',
    "marks of a merge conflict": lambda: b"<<<<<<" * 1_300_000,
    "line ends": lambda: b"\n<" * 3_900_000,
}


def _lock_case(name: str, make: Callable[[], bytes]) -> None:
    @case(f"mcphost.lock: {name}", size=0)
    async def entry(meter: Meter, size: int) -> None:
        import anyio.to_thread

        from mcphost.config.lock_file import read_lock

        await anyio.to_thread.run_sync(int)
        raw = make()
        with file_of(raw) as file, meter.measuring(len(raw)):
            await anyio.to_thread.run_sync(read_lock, Path(file))


for _name, _make in LOCKS.items():
    _lock_case(_name, _make)

HOOK = '[[hooks]]\nevent = "before_call"\ncommand = ["c"]\nmatch = ["a/b"'
HOOKS = {
    "tables": "[[hooks]]\n" * 3_200,
    "hooks": (HOOK + "]\n") * 50,
    "rules": HOOK + ', "a/b?c=d&e=f"' * 2_000 + "]\n",
}


def _hooks_case(name: str, text: str) -> None:
    @case(f"hooks.toml: {name}", size=len(text))
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.config.hooks import parse_project_hooks
        from mcphost.config.project_texts import ProjectText

        root = Path("/project")
        parse_project_hooks(ProjectText(path="hooks.toml", text=HOOK + "]", digest=""), root)
        with meter.measuring(size):
            parse_project_hooks(ProjectText(path="hooks.toml", text=text, digest=""), root)


for _name, _text in HOOKS.items():
    _hooks_case(_name, _text)


MODELS = {
    "empty objects": lambda: b'{"data":[' + array(b"{}", 4 * MB - 100) + b"]}",
    "empty lists": lambda: b'{"data":[' + array(b"[]", 4 * MB - 100) + b"]}",
    "names": lambda: b'{"data":[' + b",".join(b'{"id":"m%d"}' % n for n in range(220_000)) + b"]}",
    "as many names as are read": lambda: b'{"data":[' + b",".join(b'{"id":"m%d"}' % n for n in range(30_000)) + b"]}",
    "nesting": lambda: b"[" * 2_000_000,
    "members": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(300_000)) + b"}",
    "escapes": lambda: b'{"data":[{"id":"' + b"\\u0041" * 600_000 + b'"}]}',
    "a gzip body of 400 MB": lambda: gzipped(b" " * 400 * MB),
}


def _models_case(name: str, make: Callable[[], bytes]) -> None:
    @case(f"list of models: {name}", size=0)
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.config.schema import ModelConfig
        from mcphost.llm.provider_models import list_endpoint_models

        body = make()
        more = b"content-encoding: gzip\r\n" if body[:2] == b"\x1f\x8b" else b""
        for kind in ("warm", "measured"):
            data = plain(b'{"data":[{"id":"m"}]}') if kind == "warm" else plain(body, more)
            with file_of(data) as file, started("hostile_http.py", file) as port:
                endpoint = ModelConfig(name="openai/x", api_base=f"http://127.0.0.1:{port}/v1")
                with meter.measuring(len(data)):
                    await list_endpoint_models([endpoint], {})


for _name, _make in MODELS.items():
    _models_case(_name, _make)


ENV_FILES = {
    "variables": "".join(f"A{n}=b\n" for n in range(490)),
    "quotes": "A='" + "\\'" * 32_000 + "'",
    "lines": "\n" * 64_000,
    "one long value": "A=" + "b" * 65_000,
    "odd characters": "A=" + "\u202e" * 21_000,
}


def _env_case(name: str, text: str) -> None:
    @case(f"envFile: {name}", size=len(text.encode()))
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.config.env_file import parse_env_file

        with contextlib.suppress(Exception):
            parse_env_file("A=b", "f")
        with meter.measuring(size):
            parse_env_file(text, "f")


for _name, _text in ENV_FILES.items():
    _env_case(_name, _text)

_IGNORED = {
    "stars": "\n".join("*a" * 90 for _ in range(360)),
    "double stars": "\n".join("**/a/**/b/**/c" for _ in range(500)),
    "brackets": "\n".join("[" * 190 for _ in range(340)),
}


def _write_ignored(folder: str, text: str) -> int:
    """Fill *folder* with long names and a `.gitignore`; return their size in bytes."""
    for number in range(200):
        Path(folder, "a" * 200 + str(number)).touch()
    Path(folder, ".gitignore").write_text(text)
    return len(text) + sum(map(len, os.listdir(folder)))


def _ignore_case(name: str, text: str) -> None:
    @case(f".gitignore: {name}", size=len(text))
    async def entry(meter: Meter, size: int) -> None:
        import anyio.to_thread

        from mcphost.host.conversation.file_index import build_index

        with tempfile.TemporaryDirectory() as folder:
            _write_ignored(folder, "*.log\n")
            await anyio.to_thread.run_sync(build_index, folder)
            fed = _write_ignored(folder, text)
            with meter.measuring(fed):
                await anyio.to_thread.run_sync(build_index, folder)


for _name, _text in _IGNORED.items():
    _ignore_case(_name, _text)
