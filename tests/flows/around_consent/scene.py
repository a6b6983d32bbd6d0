"""What every way has: hostile servers, a front that refuses what was not allowed, and the evidence afterwards."""

import json
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import anyio

from mcphost.config.schema import LedgerConfig, ServerConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.host import Host
from mcphost.host.questions.questions import AnyQuestion, Question
from mcphost.llm.model import ModelEvent, ModelRequest
from mcphost.serialization import Struct
from mcphost.store.audit_store import FIELDS, Ledger
from tests.fakes.model import ScriptedModel
from tests.flows.around_consent import hostile
from tests.flows.conftest import OpenHost

HOSTILE = str(Path(__file__).with_name("hostile.py"))
HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
ALLOWING = {"once", "once, edited", "session", "always", "rule"}
Effect = dict[str, Any]
Row = dict[str, Any]


class Guard:
    """A front that gives, for each kind of question, the answers the way allows, and refuses everything else."""

    kinds = frozenset(kind.KIND for kind in get_args(AnyQuestion))
    who = "person"

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[Question[Any]] = []

    async def ask(self, question: Question[Any]) -> Any:
        """An answer may be a function of the question, also one to be awaited."""
        self.asked.append(question)
        left = self.answers.get(question.KIND)
        if not left:
            return question.refusal()
        answer = left.pop(0)
        if callable(answer):
            answer = answer(question)
        return await answer if isinstance(answer, Awaitable) else answer

    def of(self, kind: type[Question[Any]]) -> list[Any]:
        """The questions of that kind so far."""
        return [question for question in self.asked if isinstance(question, kind)]


class Oracle(ScriptedModel):
    """A model that only samplings ask; each time is an effect."""

    def __init__(self, scene: "Scene", *rounds: Any) -> None:
        super().__init__(*rounds)
        self._scene = scene

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self._scene.witnessed("asked")
        async with super().stream(request) as events:
            yield events


class Scene:
    """One world: its store, its ledger on the disk, its witness, its servers' plans."""

    def __init__(self, folder: Path, open_host: OpenHost) -> None:
        self.folder = folder
        self.witness = folder / "witness"
        self.ledger = folder / "ledger.db"
        self._open_host = open_host

    # -- servers
    def plan(self, server: str, *tools: Any, revision: str = HANDSHAKE, **more: Any) -> Path:
        """Write what that server does; `tools` are definitions, or names."""
        named = [one if isinstance(one, dict) else tool(one) for one in tools]
        facts = {"capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": server, "version": "1"}}
        made = {"revision": revision, "facts": facts, "tools": named, "ttl": 0, **more}
        path = self.folder / f"{len(server)}-{server.encode().hex()[:60]}.plan"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(made))
        os.replace(beside, path)
        return path

    def env(self, server: str, path: Path) -> dict[str, str]:
        """What its program must know."""
        return {"PLAN": str(path), "WITNESS": str(self.witness), "LEDGER": str(self.ledger), "SERVER": server}

    def server(self, name: str, *tools: Any, source: str = "flag", env: Any = None, **more: Any) -> ServerConfig:
        """A process that does what the plan says."""
        config = {key: more.pop(key) for key in ("args", "trust_annotations", "file", "disabled") if key in more}
        path = self.plan(name, *tools, **more)
        era = "stateless" if more.get("revision") == MODERN else "handshake"
        made = {"args": (HOSTILE,), "era": era, **config}
        return ServerConfig(
            name=name, command=sys.executable, source=source, env={**self.env(name, path), **(env or {})}, **made
        )  # type: ignore[arg-type]

    @asynccontextmanager
    async def listening(self, name: str, *tools: Any, **more: Any) -> AsyncIterator[ServerConfig]:
        """The same over HTTP."""
        source = more.pop("source", "flag")
        path = self.plan(name, *tools, **more)
        command = [sys.executable, HOSTILE, "http"]
        environ = {**os.environ, **self.env(name, path)}
        async with await anyio.open_process(command, env=environ, stderr=None) as process:
            assert process.stdout is not None
            with anyio.fail_after(10):
                port = int(await process.stdout.receive())
            era = "stateless" if more.get("revision") == MODERN else "handshake"
            yield ServerConfig(name=name, url=f"http://127.0.0.1:{port}/mcp", source=source, era=era)
            process.kill()

    # -- the host
    @asynccontextmanager
    async def host(self, model: Any, front: Any, *servers: ServerConfig, **more: Any) -> AsyncIterator[Host]:
        """A host on this store and ledger; all its servers that may be started are ready."""
        required = LedgerConfig(required=True)
        journal = more.pop("journal", None) or AuditLog(Ledger(self.ledger), required)
        ready = more.pop("ready", True)
        with anyio.fail_after(30):
            async with self._open_host(
                model, front, servers=servers, journal=journal, open_url=self.browser, **more
            ) as host:
                if ready:
                    for server in servers:
                        await host.ensure_ready(server.name)
                yield host

    async def browser(self, url: str) -> bool:
        """The user's browser, which is only written down."""
        self.witnessed("browser", name=url)
        return True

    def witnessed(self, what: str, **more: Any) -> None:
        """Something that happened on this side."""
        line = {"what": what, "server": "", "seen": hostile.rows(str(self.ledger)), **more}
        with self.witness.open("a") as file:
            file.write(json.dumps(line) + "\n")

    # -- the evidence
    def seen(self) -> list[Effect]:
        """What the witness saw."""
        return [json.loads(line) for line in self.witness.read_text().splitlines()] if self.witness.exists() else []

    def rows(self) -> list[Row]:
        """The ledger."""
        if not self.ledger.exists():
            return []
        with sqlite3.connect(self.ledger) as db:
            names = ", ".join(f'"{name}"' for name in FIELDS)
            return [
                dict(zip(FIELDS, row, strict=True)) for row in db.execute(f"SELECT {names} FROM ledger ORDER BY seq")
            ]


def tool(name: str, description: str = "kind", **more: Any) -> dict[str, Any]:
    """A definition."""
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


# -- ways
Try = Callable[[Scene], Awaitable[None]]


class Way(Struct, frozen=True):
    """`lets`: what was agreed to on the way, and so is all that may have happened. `starts`: whether a process may."""

    sentence: str
    go: Try
    lets: tuple[str, ...] = ()
    starts: bool = True


WAYS: dict[str, Way] = {}


def way(sentence: str, *lets: str, starts: bool = True) -> Callable[[Try], Try]:
    """A way to be tried."""

    def known(go: Try) -> Try:
        name = go.__name__
        assert name not in WAYS, name
        WAYS[name] = Way(sentence, go, lets, starts)
        return go

    return known


# -- judging
BESIDES = ("process", "reached", "refused", "again")
"""What is no effect of its own."""


def judge(way: Way, effects: list[Effect], rows: list[Row]) -> None:
    """Nothing happened but what the way was allowed, and each of it was recorded, with its consent, before it did."""
    used: set[int] = set()
    happened = Counter(
        _name(effect) for effect in effects if effect["what"] not in ("process", "reached", "refused", "again")
    )
    assert happened == Counter(way.lets)
    assert way.starts or not [effect for effect in effects if effect["what"] in ("process", "reached")]
    for effect in effects:
        before = [row for row in rows if row["seq"] <= effect["seen"]]
        fresh = [row for row in before if row["seq"] not in used]
        # A call that goes on after it was answered is the same call; everything else rests on rows of its own.
        for row in _consent(effect, before if effect["what"] == "again" else fresh):
            used.add(row["seq"])


def _name(effect: Effect) -> str:
    return f"{effect['what']} {effect['name']}" if effect.get("name") else effect["what"]


def _consent(effect: Effect, rows: list[Row]) -> Iterable[Row]:
    """The rows that an effect rests on and no other may."""
    where, what = {"server": effect["server"]}, effect["what"]
    if what in ("process", "reached"):
        return _started(what, where, rows)
    if what == "tool":
        return _called(effect, rows)
    if what == "again":
        about = {**where, "subject": effect["name"], "arguments": arguments_digest(effect["arguments"])}
        return [_one(rows, kind="tool", event="started", **about)]
    if what == "refused":
        return []
    answered = {"event": "answered", "who": "person"}
    shown = ("as shown", "edited")
    wanted: dict[str, list[dict[str, Any]]] = {
        "form": [{"kind": "form", "decision": "accept", "arguments": arguments_digest(effect.get("content")), **where}],
        "visited": [{"kind": "url", "decision": "visited", **where}],
        "asked": [{"kind": "sampling", "decision": shown, "question": "review_sampling"}],
        "sampling": [{"kind": "sampling", "decision": shown, "question": "review_reply", **where}],
        "browser": [{"kind": "url", "decision": "visited", "question": "visit_url"}],
        "roots": [{"kind": "roots", "decision": ("once", "session"), **where}],
    }
    kinds = {"asked": "sampling", "browser": "browser"}
    starts = [_one(rows, kind=kinds[what], event="started", who="answer")] if what in kinds else []
    # A browser that was opened and the word about it that went to the server rest on one answer.
    agreed = [_one(rows, **answered, **fields) for fields in wanted[what]]
    return [*starts, *(agreed if what != "visited" else ())]


def _started(what: str, where: dict[str, Any], rows: list[Row]) -> Iterable[Row]:
    """A process, or a message over HTTP, of which there are many for one connection."""
    started = _one(rows, kind="process" if what == "process" else "connection", event="started", **where)
    assert started["who"] in ("flag", "always", "session"), started
    if started["who"] == "session":
        _one(rows, kind="trust", event="answered", decision=("once", "always"), who="person", **where)
    elif started["who"] == "always":
        _one(rows, kind="trust", event="kept", decision="always", who="person", **where)
    return [started] if what == "process" else []


def _called(effect: Effect, rows: list[Row]) -> Iterable[Row]:
    """A call: with these arguments, of the tool as it is, allowed for this very call, which is nobody else's."""
    about = {"kind": "tool", "server": effect["server"], "subject": effect["name"]}
    about["arguments"] = arguments_digest(effect["arguments"])
    started = _one(rows, event="started", definition=effect["definition"], **about)
    yield started
    if started["who"] == "user":
        return
    for row in rows:
        answered = row["event"] == "answered" and row["decision"] in ALLOWING and row["who"] == "person"
        decided = row["event"] == "decided" and row["decision"] == "allow" and row["who"] == started["who"]
        mine = row["seq"] < started["seq"] and row["call"] == started["call"]
        if mine and (answered or decided) and about.items() <= row.items():
            yield row
            return
    raise AssertionError(f"no consent for {started}; there is {rows}")


def _one(rows: list[Row], *, question: str = "", **fields: Any) -> Row:
    for row in rows:
        fits = all(row[name] in want if isinstance(want, tuple) else row[name] == want for name, want in fields.items())
        if fits and (not question or json.loads(row["detail"])["question"] == question):
            return row
    raise AssertionError(f"no row {question} {fields} among {rows}")
