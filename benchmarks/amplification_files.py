"""Amplification cases for hostile documents: sign-in responses, challenges, front matter and configuration."""

# pyright: basic

from collections.abc import Callable
from functools import partial

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_wire import array, chunked, file_of, gzipped, plain, started

DOCUMENTS = {
    "a list of 250,000 scopes": b'{"resource":"x","scopes_supported":' + array(b'"ab"', MB - 100) + b"}",
    "a list of empty lists": b'{"resource":"x","scopes_supported":' + array(b"[]", MB - 100) + b"}",
    "many small objects": b'{"resource":"x","scopes_supported":' + array(b'{"a":{}}', MB - 100) + b"}",
    "nesting": b"[" * 500_000 + b"]" * 500_000,
    "many members": b"{" + b",".join(b'"k%d":{}' % n for n in range(70_000)) + b"}",
    "a number of 1 MB": b'{"resource":' + b"9" * (MB - 100) + b"}",
    "escapes": b'{"resource":"' + b"\\u0041" * 160_000 + b'"}',
}


def _document_case(name: str, make: Callable[[], bytes]) -> None:
    @case(f"sign-in: {name}", size=0)
    async def entry(meter: Meter, size: int) -> None:
        import httpx  # loaded with the first request

        from mcphost.auth.discovery import discover_resource
        from mcphost.auth.oauth_http import OAuthHttpClient
        from mcphost.auth.url_policy import UrlPolicy

        assert httpx
        answer = make()
        size = len(answer)
        with file_of(plain(b"{}")) as file, started("hostile_http.py", file) as port:
            warm = OAuthHttpClient(UrlPolicy(f"http://127.0.0.1:{port}/"))  # httpx loads more with its first request
            await warm.get(f"http://127.0.0.1:{port}/", "document")
        with file_of(answer) as file, started("hostile_http.py", file) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            requests = OAuthHttpClient(UrlPolicy(url))
            with meter.measuring(size):
                await discover_resource(requests, url, "")


for _name, _body in DOCUMENTS.items():
    _document_case(_name, partial(plain, _body))
_document_case("a gzip body of 900 MB", lambda: plain(gzipped(b" " * 900 * MB), b"content-encoding: gzip\r\n"))
_document_case(
    "a body of tiny chunks", lambda: chunked(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", b" ", 6 * MB)
)

CHALLENGES = {
    "commas": "Bearer " + "," * 60_000,
    "parameters": "Bearer " + "a=b," * 15_000,
    "open quotes": "Bearer " + 'a="' * 20_000,
    "backslashes": 'Bearer a="' + "\\" * 60_000,
    "schemes": "a " * 30_000,
    "tokens": "Bearer " + "a" * 60_000 + "=" * 100,
}


def _challenge_case(name: str, header: str) -> None:
    @case(f"WWW-Authenticate: {name}", size=len(header))
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.auth.www_authenticate import select_challenge

        with meter.measuring(size):
            select_challenge(header)


for _name, _header in CHALLENGES.items():
    _challenge_case(_name, _header)

FRONT_MATTER = {
    "fields": "\n".join(f"a{n}: b" for n in range(8_000)),
    "nested lists": "a: " + "[" * 30_000,
    "quotes": 'a: "' + "\\n" * 15_000 + '"',
    "single quotes": "a: '" + "''" * 15_000,
    "empty lines in a block": "a: |\n" + " \n" * 15_000 + " x",
    "growing empty lines": "a: |\n" + "".join(" " * (n % 300) + "\n" for n in range(200)) + " x",
    "a plain text over many lines": "a: b\n" + " c\n" * 10_000,
    "a plain text of many words": "a: " + "b " * 15_000,
    "comments": "#\n" * 15_000,
    "spaces": "a: [" + " " * 30_000,
    "dashes": "- " * 15_000,
}


def _front_case(name: str, text: str) -> None:
    @case(f"front matter: {name}", size=len(text))
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.protocol.frontmatter import parse_frontmatter

        with meter.measuring(size):
            parse_frontmatter(f"---\n{text}\n---\n")


for _name, _text in FRONT_MATTER.items():
    _front_case(_name, _text)

SERVER = b'{"command":"x"}'
CONFIGURATIONS = {
    "13,000 servers": b'{"mcpServers":{' + b",".join(b'"%d":{"url":1}' % n for n in range(13_000)) + b"}}",
    "9,800 good servers": b'{"mcpServers":{' + b",".join(b'"%d":' % n + SERVER for n in range(9_800)) + b"}}",
    "one server of 48,000 arguments": b'{"mcpServers":{"a":{"command":"x","args":' + array(b'"ab"', 240_000) + b"}}}",
    "unknown keys": b'{"mcpServers":{"a":{"command":"x",' + b",".join(b'"%d":1' % n for n in range(22_000)) + b"}}}",
    "comments": b"//\n" * 84_000 + b"{}",
    "open comments": b"/*" * 127_000,
    "quotes": b'"' * 254_000,
    "nesting": b"[" * 254_000,
    "repeated keys": b'{"mcpServers":{' + b'"a":{},' * 36_000 + b'"b":{}}}',
    "references": b'{"mcpServers":{"a":{"command":"' + b"${env:A}" * 30_000 + b'"}}}',
    "trailing commas": b"[" + b"1,\n" * 84_000 + b"]",
    "spaces behind commas": b"[" + b"," + b" " * 254_000,
    "environment": b'{"mcpServers":{"a":{"command":"x","env":{'
    + b",".join(b'"A%d":"${env:B}"' % n for n in range(12_500))
    + b"}}}}",
}


def _config_case(name: str, body: bytes) -> None:
    @case(f"mcp.json: {name}", size=len(body))
    async def entry(meter: Meter, size: int) -> None:
        from pathlib import Path

        import anyio.to_thread

        from mcphost.config.loader import ProjectFile, load_config

        await anyio.to_thread.run_sync(int)  # the first thread of a process costs more
        load_config(
            Path("/nonexistent"), project=ProjectFile("/x/.mcp.json", "0" * 64, b'{"mcpServers":{"a":{"command":"x"}}}')
        )
        with meter.measuring(size):
            read = partial(load_config, Path("/nonexistent"), project=ProjectFile("/x/.mcp.json", "0" * 64, body))
            config = await anyio.to_thread.run_sync(read)
            print(len(config.servers), len(config.problems))


for _name, _body in CONFIGURATIONS.items():
    _config_case(_name, _body)


IMPORTED = {
    "YAML of short values": ("config.yaml", "extensions: [" + "1," * 120_000 + "]"),
    "YAML of as many values as are read": ("config.yaml", "".join(f"a{n}: b\n" for n in range(3_900))),
    "YAML of directives": ("config.yaml", "".join(f"%TAG !{n}! a\n" for n in range(15_000)) + "---\na: b"),
    "YAML of a number in base 60": ("config.yaml", "a: " + "1:" * 120_000 + "1"),
    "YAML of texts": ("config.yaml", 'a: "' + "\\n" * 120_000 + '"'),
    "TOML of one key": ("config.toml", "a." * 120_000 + "a"),
    "TOML of one quoted key": ("config.toml", '"=".' * 2_900 + "a = 1"),
    "TOML of quotes": ("config.toml", "''" * 120_000),
    "JSON of empty lists": ("mcp.json", '{"mcpServers": [' + "[]," * 1_600_000 + "[]]}"),
    "JSON of empty lists elsewhere": ("mcp.json", '{"history": [' + "[]," * 1_600_000 + '[]], "mcpServers": {}}'),
    "JSON of members": ("mcp.json", "{" + '"a":1,' * 800_000 + '"mcpServers": {}}'),
    "JSON of halves of characters": ("mcp.json", '{"a": "' + r"\ud83d" * 800_000 + '"}'),
    "JSON of comments": ("mcp.json", "//\n" * 9_000 + "/*" + "\n*" * 480_000 + "*/{}"),
    "JSON of nesting": ("mcp.json", '{"mcpServers": ' + "[" * 4_900_000),
    "JSON of 5 MB with a comment": ("mcp.json", '{"a": "' + "b" * 4_900_000 + '"} // comment'),
}


def _import_case(name: str, file_name: str, text: str) -> None:
    @case(f"import: {name}", size=len(text))
    async def entry(meter: Meter, size: int) -> None:
        import tempfile
        from pathlib import Path

        import anyio.to_thread
        import yaml

        from mcphost.config.host_formats import find_places
        from mcphost.config.other_hosts import read_named_file

        assert yaml  # loaded before measuring begins
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, file_name)
            file.write_text(text)  # noqa: ASYNC240 - before measuring begins
            places = find_places(Path(folder), Path(folder), {}, "linux")
            await anyio.to_thread.run_sync(int)  # the first thread of a process costs more
            with meter.measuring(size):
                await anyio.to_thread.run_sync(read_named_file, file, places)


for _name, (_file_name, _text) in IMPORTED.items():
    _import_case(_name, _file_name, _text)
