"""A host with hooks that run as real programs, for the tests of hooks."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcphost.config.hooks import parse_hooks
from mcphost.config.schema import HookConfig
from mcphost.host.events import NoticeEvent
from mcphost.host.host import Host
from mcphost.transport.hook_process import HookRunner
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.audit_rows import create_audit_log
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}


class HookedHost:
    """A host with hooks, a server `peer` that has a tool `write`, and what the user and the model were shown."""

    def __init__(self, host: Host, peer: InProcessServer, model: ScriptedModel, frontend: ScriptedFrontend) -> None:
        self.host, self.peer, self.model, self.frontend = host, peer, model, frontend
        self.feed = host.events.subscribe()

    async def call(self) -> str:
        """Let the model call `write` with the path `a`, and return the result that the model receives."""
        await self.host.conversation.send("go")
        message = next(one for one in reversed(self.host.conversation.messages) if one.role == "tool")
        return message.parts[0].text  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def called(self) -> list[Any]:
        return [params["arguments"] for params in self.peer.asked("tools/call")]

    def notices(self) -> list[str]:
        return [event.text for event in self.feed.drain() if isinstance(event, NoticeEvent)]


def make_hook(folder: Path, code: str, event: str = "before_call", **settings: Any) -> HookConfig:
    """Write a hook program with *code* to *folder*, and return its configuration."""
    path = folder / f"hook{len(list(folder.glob('hook*.py')))}.py"
    path.write_text(f"import json, os, sys, time\ncall = json.load(sys.stdin)\n{code}\n")
    entry = {"event": event, "command": [sys.executable, str(path)], **settings}
    return parse_hooks([entry], str(folder / "config.toml"))[0]


@asynccontextmanager
async def open_hooked_host(
    folder: Path, *hooks: HookConfig, answers: tuple[Any, ...] = (), **more: Any
) -> AsyncIterator[HookedHost]:
    """Open a host with *hooks*, whose user gives *answers*; *more* are settings of `open_host_with`."""
    definition = tool_definition("write", inputSchema=SCHEMA)
    peer = create_peer(tools__list=tools_result(definition), tools__call=text_result("done"))
    model = ScriptedModel(*[tool_round(("peer__write", {"path": "a"})), text_round("ok")] * 2)
    frontend, runner = ScriptedFrontend(*answers), HookRunner()
    try:
        async with open_host_with(
            folder, peer, model, frontend, hooks=hooks, run_hook=runner.run,
            audit_log=create_audit_log(folder), **more,
        ) as host:  # fmt: skip
            yield HookedHost(host, peer, model, frontend)
    finally:
        await runner.close()
