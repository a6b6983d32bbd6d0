"""Amplification cases for hostile responses from authorization servers and tasks, and for reading audit rows."""

# pyright: basic

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_host import Work
from benchmarks.amplification_requests import TASK, work_case
from benchmarks.amplification_wire import array, file_of, gzipped, plain, started

REPLIES: dict[str, Callable[[], bytes]] = {
    "empty lists": lambda: plain(b'{"client_id":"x","redirect_uris":' + array(b"[]", MB - 100) + b"}"),
    "many members": lambda: plain(b"{" + b",".join(b'"k%d":{}' % n for n in range(70_000)) + b"}"),
    "a long name": lambda: plain(b'{"client_id":"' + b"\\u0041" * 160_000 + b'"}'),
    "a long error": lambda: plain(b'{"error":"' + "\u202e".encode() * 300_000 + b'"}'),
    "a gzip body of 900 MB": lambda: plain(gzipped(b" " * 900 * MB), b"content-encoding: gzip\r\n"),
}


async def _asking(meter: Meter, answer: bytes, ask: Callable[[Any, str], Any]) -> None:
    """Measure *ask*, which sends a sign-in request to a server in another process that responds with *answer*."""
    from mcphost.auth.oauth_http import OAuthHttpClient
    from mcphost.auth.url_policy import UrlPolicy

    size = len(answer)
    with file_of(plain(b"{}")) as file, started("hostile_http.py", file) as port:
        warm = OAuthHttpClient(UrlPolicy(f"http://127.0.0.1:{port}/"))
        await warm.get(f"http://127.0.0.1:{port}/", "document")
    with file_of(answer) as file, started("hostile_http.py", file) as port:
        origin = f"http://127.0.0.1:{port}"
        requests = OAuthHttpClient(UrlPolicy(origin + "/mcp"))
        with meter.measuring(size):
            await ask(requests, origin)


def _registration_case(name: str, make: Callable[[], bytes]) -> None:
    @case(f"sign-in: a registration reply of {name}", size=0)
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.auth.discovery import AuthorizationServerMetadata
        from mcphost.auth.registration import register_client

        async def ask(requests: Any, origin: str) -> None:
            document = AuthorizationServerMetadata(issuer=origin, registration_endpoint=origin + "/register")
            await register_client(requests, document, origin, "http://127.0.0.1/callback", ())

        await _asking(meter, make(), ask)


def _issuer_case(name: str, make: Callable[[], bytes]) -> None:
    @case(f"sign-in: issuer metadata of {name}", size=0)
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.auth.discovery import discover_issuer

        async def ask(requests: Any, origin: str) -> None:
            await discover_issuer(requests, origin, is_legacy=False)

        await _asking(meter, make(), ask)


for _name, _make in REPLIES.items():
    _registration_case(_name, _make)
    _issuer_case(_name, _make)


def _poll_case(name: str, body: bytes) -> None:
    @work_case(f"task: a poll with {name}")
    def _made() -> tuple[int, Work]:
        from mcphost.errors import MalformedMessage
        from mcphost.protocol.tasks import GetTask
        from mcphost.serialization import decode

        async def work() -> object:
            try:
                return decode(body, GetTask.RESULT)
            except MalformedMessage as error:
                return error.message

        return len(body), work


_poll_case("10 MB beside its state", TASK + b',"_meta":{"a":' + array(b"[]", 10 * MB) + b"}}")
_poll_case("10 MB of unknown members", TASK + b"," + b",".join(b'"k%d":1' % n for n in range(900_000)) + b"}")
_poll_case("an id of 10 MB", TASK.replace(b'"taskId":"a"', b'"taskId":"' + b"a" * 10 * MB + b'"') + b"}")


async def _rows_of(folder: str, detail: str, count: int) -> Any:
    """Return the reader of a stored audit log with *count* rows that all have the same *detail*."""
    from mcphost.store.audit_reader import AuditReader
    from mcphost.store.audit_store import AuditRecord, AuditStore

    path = Path(folder) / "audit.db"
    audit_store = AuditStore(path)
    for number in range(count):
        audit_store.enqueue(
            lambda number=number: AuditRecord(at=number, kind="call", event="asked", server="s", detail=detail)
        )
    await audit_store.flush()
    await audit_store.close()
    return AuditReader(path)


def _export_case(name: str, detail: str, count: int, form: str) -> None:
    @case(f"audit: {count} rows of {name} are exported as {form}", size=count * len(detail.encode()))
    async def export(meter: Meter, size: int) -> None:
        import io

        import anyio.to_thread

        from mcphost.cli.audit import write_rows
        from mcphost.store.audit_reader import AuditFilter

        await anyio.to_thread.run_sync(int)
        with tempfile.TemporaryDirectory() as folder:
            reader = await _rows_of(folder, detail, count)
            fed = sum(len(row.detail.encode()) for row in reader.page(AuditFilter(), count))
            with meter.measuring(fed):
                await anyio.to_thread.run_sync(write_rows, reader, AuditFilter(), io.StringIO(), form)


def _view_case(name: str, detail: str, count: int) -> None:
    @case(f"audit: {count} rows of {name} are read for the screen", size=count * len(detail.encode()))
    async def view(meter: Meter, size: int) -> None:
        import anyio.to_thread

        from mcphost.store.audit_reader import AuditFilter
        from mcphost.tui.screens.audit import _format_detail
        from mcphost.tui.widgets.long_text import RowIndex, prepare_text

        await anyio.to_thread.run_sync(int)
        with tempfile.TemporaryDirectory() as folder:
            reader = await _rows_of(folder, detail, count)
            fed = sum(len(row.detail.encode()) for row in reader.page(AuditFilter(), count))
            with meter.measuring(fed):
                rows = await anyio.to_thread.run_sync(reader.page, AuditFilter(), count)
                drawn, is_cleaned = prepare_text(_format_detail(rows[0].detail))
                index = RowIndex(drawn, 100, is_cleaned=is_cleaned)
                await index.advance_to(len(drawn))


def _audit_case(name: str, detail: str, count: int) -> None:
    for form in ("jsonl", "csv"):
        _export_case(name, detail, count, form)
    _view_case(name, detail, count)


_audit_case("long arguments", json.dumps({"a": "word " * 2_000}), 200)
_audit_case("odd characters", json.dumps({"a": "\u202e" * 3_000}, ensure_ascii=False), 200)
_audit_case("many values", json.dumps({f"{n}": [n] for n in range(800)}), 200)


@case("mcp.json: 1,500 servers of a project beside 20 of the user's own", size=0)
async def _compared(meter: Meter, size: int) -> None:
    from mcphost.config.loader import load_config, read_project_file

    def entries(start: int, count: int) -> bytes:
        scripts = [f"./folder/{n}.py" for n in range(5)]
        servers = {f"{start}-{n}": {"command": "python", "args": [*scripts, f"{start}.py"]} for n in range(count)}
        return json.dumps({"mcpServers": servers}).encode()

    import anyio.to_thread

    await anyio.to_thread.run_sync(int)
    with tempfile.TemporaryDirectory() as folder:
        home, clone = Path(folder, "home"), Path(folder, "clone")
        for path, body in ((home / "mcp.json", entries(1, 20)), (clone / ".mcp.json", entries(2, 1_500))):
            path.parent.mkdir()
            path.write_bytes(body)
        load_config(Path("/nonexistent"))
        with meter.measuring(len(entries(1, 20) + entries(2, 1_500))):
            await anyio.to_thread.run_sync(lambda: load_config(home, project=read_project_file(clone)))


def _warnings_case(name: str, env: dict[str, str]) -> None:
    @work_case(f"question about a project's server: {name}")
    def _made() -> tuple[int, Work]:
        from mcphost.config.schema import ServerConfig
        from mcphost.host.servers.server_approval import make_question

        one = ServerConfig(name="x", source="project", file="/x/.mcp.json", cwd="/x", command="ls", env=env)

        async def work() -> object:
            return make_question(one, None)

        return sum(len(key) + len(value) for key, value in env.items()), work


_warnings_case("many options in one variable", {"NODE_OPTIONS": " ".join(["/x/y"] * 40_000)})
_warnings_case("a long PATH", {"PATH": ":".join(["/x/y"] * 40_000)})
_warnings_case("hundreds of variables", {f"NAME_{n}_OPTS": "/a /b /c" for n in range(500)})
