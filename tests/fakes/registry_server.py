"""A fake MCP registry on loopback with the published API: pages, search, versions, status, and deleted entries."""

import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

OFFICIAL = "io.modelcontextprotocol.registry/official"


def published(server: dict[str, Any], **about: Any) -> dict[str, Any]:
    """Return a server.json with the metadata that a registry adds, in the API's format ServerResponse."""
    metadata = {"status": "active", "publishedAt": "2025-10-01T10:00:00Z", "updatedAt": "2025-10-01T10:00:00Z"}
    return {"server": server, "_meta": {OFFICIAL: {**metadata, **about}}}


class RegistryServer(ThreadingHTTPServer):
    """A registry that serves its entries in order; by default, the last entry of a server is the latest version."""

    daemon_threads = True

    def __init__(self, entries: Sequence[Any], api: str) -> None:
        super().__init__(("127.0.0.1", 0), _RegistryHandler)
        self.entries = list(entries)
        self.api = api
        self.paths: list[str] = []
        self.page_size = 100
        self.override: Callable[[str], tuple[int, dict[str, str], bytes] | None] = lambda _: None
        """Returns status, headers and body for a path with query, or None for the usual answer."""

    @property
    def url(self) -> str:
        """The base URL of the registry."""
        return f"http://127.0.0.1:{self.server_port}"

    def versions(self, name: str, *, deleted: bool = False) -> list[Any]:
        """Return all versions of a server, newest first."""
        found = [entry for entry in self.entries if isinstance(entry, dict) and _name(entry) == name]
        return [entry for entry in reversed(found) if deleted or _status(entry) != "deleted"]

    def answer(self, path: str) -> Any:
        """Return the JSON response for a path with a query, or None for status 404."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if not parts.path.startswith(f"{self.api}/servers"):
            return None
        words = [unquote(word) for word in parts.path.removeprefix(f"{self.api}/servers").split("/") if word]
        match words:
            case []:
                return self._list(query)
            case [name, "versions"]:
                found = self.versions(name)
                return {"servers": found, "metadata": {"count": len(found)}} if found else None
            case [name, "versions", version]:
                found = self.versions(name)
                return next((one for one in found if version in ("latest", one["server"]["version"])), None)
            case _:
                return None

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        found = list(self.entries)
        if "search" in query:
            found = [entry for entry in found if query["search"].lower() in _name(entry).lower()]
        if query.get("version") == "latest":
            deleted = "updated_since" in query
            names = dict.fromkeys(map(_name, found))
            latest = [one for name in names for one in self.versions(name, deleted=deleted)[:1]]
            found = [entry for entry in found if _name(entry) == "" or any(entry is one for one in latest)]
        start = int(query.get("cursor", "0"))
        size = min(int(query.get("limit", "30")), self.page_size)
        page = found[start : start + size]
        more = {"nextCursor": str(start + size)} if start + size < len(found) else {}
        return {"servers": page, "metadata": {"count": len(page), **more}}


def _name(entry: Any) -> str:
    server = entry.get("server") if isinstance(entry, dict) else None
    name = server.get("name", "") if isinstance(server, dict) else ""
    return name if isinstance(name, str) else ""


def _status(entry: Any) -> str:
    return str(entry.get("_meta", {}).get(OFFICIAL, {}).get("status", ""))


class _RegistryHandler(BaseHTTPRequestHandler):
    server: RegistryServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        override = self.server.override(self.path)
        if override is not None:
            status, headers, body = override
        else:
            answer = self.server.answer(self.path)
            status, headers = (404, {}) if answer is None else (200, {})
            body = json.dumps(answer if answer is not None else {"error": "Server not found"}).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Do not print requests to standard error."""


@contextmanager
def registry_server(entries: Sequence[Any], api: str = "/v0.1") -> Generator[RegistryServer]:
    """Run a registry until the block ends."""
    server = RegistryServer(entries, api)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
