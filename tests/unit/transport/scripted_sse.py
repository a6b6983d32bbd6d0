"""A scripted server of the HTTP+SSE transport (2024-11-05)."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def format_event(data: str, kind: str = "message") -> bytes:
    return f"event: {kind}\r\ndata: {data}\r\n\r\n".encode()


class ScriptedSseServer:
    """A server whose event stream begins with `start`; `answers` returns the events to send for each posted message."""

    def __init__(self, start: bytes, answers: Callable[[dict[str, Any]], bytes | None] = lambda message: b"") -> None:
        self.start = start
        self.answers = answers
        self.posted: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.port = 0
        self._stream: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                if head.startswith("GET"):
                    writer.write(self.start)
                    self._stream = writer
                    await reader.read()
                    return
                await self._post(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _post(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
        message = json.loads(await reader.readexactly(int(length.split(":")[1])))
        self.posted.append(message)
        said = self.answers(message)
        status = b"202 Accepted" if said is not None else b"400 Bad Request"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nno" % status)
        if said and self._stream is not None:
            self._stream.write(said)

    def drop(self) -> None:
        """End the event stream."""
        assert self._stream is not None
        self._stream.close()
