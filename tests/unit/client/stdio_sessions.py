"""Sessions over stdio with the faulty server in tests/peers."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import Session
from mcphost.config.schema import Limits, ServerConfig
from mcphost.protocol.tools import CallTool
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text

FAULTY_SERVER = str(Path(__file__).parents[2] / "peers" / "faulty_server.py")


def faulty_server_config(fault: str = "", note: str = "", **more: Any) -> ServerConfig:
    return ServerConfig(name="peer", command=sys.executable, args=(FAULTY_SERVER, fault, note), **more)


@asynccontextmanager
async def open_stdio_session(
    server: ServerConfig,
    observer: RecordingObserver | None = None,
    answers: FakeRequestHandler | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Session]:
    opener = ClientSessionOpener(limits=limits)
    async with opener.open(server, answers or FakeRequestHandler(), observer or RecordingObserver()) as session:
        yield session


async def call_echo(session: Session, text: str = "hi") -> str:
    return single_text(await session.request(CallTool("echo", {"text": text})))
