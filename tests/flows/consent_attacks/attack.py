"""The setup of all attacks: hostile servers, a user who refuses by default, and a file that records effects."""

import json
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, get_args

import anyio

from mcphost.config.schema import AuditConfig, ServerConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import AnyQuestion
from mcphost.llm.model import ModelEvent, ModelRequest
from mcphost.serialization import Struct
from mcphost.store.audit_store import FIELDS, AuditStore
from tests.fakes.model import ScriptedModel
from tests.flows.conftest import OpenHost
from tests.flows.consent_attacks import hostile_server

HOSTILE = str(Path(__file__).with_name("hostile_server.py"))
HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
ALLOW_DECISIONS = {"once", "once, edited", "session", "always", "rule"}
Effect = dict[str, Any]
Row = dict[str, Any]


class SelectiveFrontend:
    """A front end that answers questions of the kinds given to it, and refuses all others."""

    kinds = frozenset(kind.KIND for kind in get_args(AnyQuestion))
    who = "person"

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[Question[Any]] = []

    async def ask(self, question: Question[Any]) -> Any:
        """Answer with the next prepared answer for this kind of question, or refuse.

        A prepared answer may be a function of the question, also an asynchronous one.
        """
        self.asked.append(question)
        left = self.answers.get(question.KIND)
        if not left:
            return question.refusal()
        answer = left.pop(0)
        if callable(answer):
            answer = answer(question)
        return await answer if isinstance(answer, Awaitable) else answer

    def questions_of(self, kind: type[Question[Any]]) -> list[Any]:
        """Return the questions of the given kind that were asked so far."""
        return [question for question in self.asked if isinstance(question, kind)]


class RecordingModel(ScriptedModel):
    """A model that records each request to it as an effect; it is used only for sampling requests."""

    def __init__(self, setup: "AttackSetup", *rounds: Any) -> None:
        super().__init__(*rounds)
        self._scene = setup

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self._scene.record_effect("asked")
        async with super().stream(request) as events:
            yield events


class AttackSetup:
    """The setup of one attack: its store, audit log and witness file, and the plans that its servers follow."""

    def __init__(self, folder: Path, open_host: OpenHost) -> None:
        self.folder = folder
        self.effect_file = folder / "witness"
        self.ledger = folder / "ledger.db"
        self._host_factory = open_host

    # -- servers
    def write_plan(self, server: str, *tools: Any, revision: str = HANDSHAKE, **more: Any) -> Path:
        """Write the plan that a server follows, and return its path; *tools* are tool definitions or names."""
        named = [tool if isinstance(tool, dict) else attack_tool(tool) for tool in tools]
        facts = {"capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": server, "version": "1"}}
        fields = {"revision": revision, "facts": facts, "tools": named, "ttl": 0, **more}
        path = self.folder / f"{len(server)}-{server.encode().hex()[:60]}.plan"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(fields))
        os.replace(beside, path)
        return path

    def server_environment(self, server: str, path: Path) -> dict[str, str]:
        """Return the environment variables that the hostile server program needs to follow the plan at *path*."""
        return {"PLAN": str(path), "WITNESS": str(self.effect_file), "LEDGER": str(self.ledger), "SERVER": server}

    def stdio_server(self, name: str, *tools: Any, source: str = "flag", env: Any = None, **more: Any) -> ServerConfig:
        """Return the configuration of a hostile server process with a plan of its own."""
        config = {key: more.pop(key) for key in ("args", "trust_annotations", "file", "disabled") if key in more}
        path = self.write_plan(name, *tools, **more)
        era = "stateless" if more.get("revision") == MODERN else "handshake"
        fields = {"args": (HOSTILE,), "era": era, **config}
        return ServerConfig(
            name=name,
            command=sys.executable,
            source=source,
            env={**self.server_environment(name, path), **(env or {})},
            **fields,
        )  # type: ignore[arg-type]

    @asynccontextmanager
    async def http_server(self, name: str, *tools: Any, **more: Any) -> AsyncIterator[ServerConfig]:
        """Run a hostile server over HTTP until the block ends; yield its configuration."""
        source = more.pop("source", "flag")
        path = self.write_plan(name, *tools, **more)
        command = [sys.executable, HOSTILE, "http"]
        environ = {**os.environ, **self.server_environment(name, path)}
        async with await anyio.open_process(command, env=environ, stderr=None) as process:
            assert process.stdout is not None
            with anyio.fail_after(10):
                port = int(await process.stdout.receive())
            era = "stateless" if more.get("revision") == MODERN else "handshake"
            yield ServerConfig(name=name, url=f"http://127.0.0.1:{port}/mcp", source=source, era=era)
            process.kill()

    # -- the host
    @asynccontextmanager
    async def open_host(self, model: Any, frontend: Any, *servers: ServerConfig, **more: Any) -> AsyncIterator[Host]:
        """Open a host with the attack's store and audit log; wait until its servers are ready unless `ready=False`."""
        required = AuditConfig(required=True)
        audit_log = more.pop("audit_log", None) or AuditLog(AuditStore(self.ledger), required)
        ready = more.pop("ready", True)
        with anyio.fail_after(30):
            async with self._host_factory(
                model, frontend, servers=servers, audit_log=audit_log, open_url=self.open_url, **more
            ) as host:
                if ready:
                    for server in servers:
                        await host.servers.ensure_ready(server.name)
                yield host

    async def open_url(self, url: str) -> bool:
        """Record the URL instead of opening a browser."""
        self.record_effect("browser", name=url)
        return True

    def record_effect(self, what: str, **more: Any) -> None:
        """Append an effect on the host's side to the witness file, with the number of audit rows at this moment."""
        line = {"what": what, "server": "", "seen": hostile_server.count_audit_rows(str(self.ledger)), **more}
        with self.effect_file.open("a") as file:
            file.write(json.dumps(line) + "\n")

    # -- the evidence
    def effects(self) -> list[Effect]:
        """Return the effects in the witness file, oldest first."""
        return (
            [json.loads(line) for line in self.effect_file.read_text().splitlines()]
            if self.effect_file.exists()
            else []
        )

    def audit_rows(self) -> list[Row]:
        """Return the rows of the audit log, oldest first."""
        if not self.ledger.exists():
            return []
        with closing(sqlite3.connect(self.ledger)) as db, db:
            names = ", ".join(f'"{name}"' for name in FIELDS)
            return [
                dict(zip(FIELDS, row, strict=True)) for row in db.execute(f"SELECT {names} FROM ledger ORDER BY seq")
            ]


def attack_tool(name: str, description: str = "kind", **more: Any) -> dict[str, Any]:
    """Return the definition of a tool without parameters; *more* adds to it."""
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


# -- attacks
AttackFn = Callable[[AttackSetup], Awaitable[None]]


class Attack(Struct, frozen=True):
    """An attack; the user consents to `allowed_effects`, and `may_start` says whether server processes may start."""

    description: str
    run: AttackFn
    allowed_effects: tuple[str, ...] = ()
    may_start: bool = True


ATTACKS: dict[str, Attack] = {}


def attack(description: str, *allowed_effects: str, may_start: bool = True) -> Callable[[AttackFn], AttackFn]:
    """Return a decorator that registers a function as an attack; *allowed_effects* have the user's consent."""

    def known(go: AttackFn) -> AttackFn:
        name = go.__name__
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(description, go, allowed_effects, may_start)
        return go

    return known


# -- evaluation
NEUTRAL_EFFECTS = ("process", "reached", "refused", "again")
"""What is no effect of its own."""


def check_effects(attack_case: Attack, effects: list[Effect], rows: list[Row]) -> None:
    """Check that only allowed effects happened, and that an earlier audit row records consent to each of them."""
    used: set[int] = set()
    happened = Counter(
        _effect_name(effect) for effect in effects if effect["what"] not in ("process", "reached", "refused", "again")
    )
    assert happened == Counter(attack_case.allowed_effects)
    assert attack_case.may_start or not [effect for effect in effects if effect["what"] in ("process", "reached")]
    for effect in effects:
        before = [row for row in rows if row["seq"] <= effect["seen"]]
        fresh = [row for row in before if row["seq"] not in used]
        # A call that continues after its answer is the same call; every other effect needs rows of its own.
        for row in _consent_rows(effect, before if effect["what"] == "again" else fresh):
            used.add(row["seq"])


def _effect_name(effect: Effect) -> str:
    return f"{effect['what']} {effect['name']}" if effect.get("name") else effect["what"]


def _consent_rows(effect: Effect, rows: list[Row]) -> Iterable[Row]:
    """Return the audit rows that permit this effect; an AssertionError means that one is missing."""
    where, what = {"server": effect["server"]}, effect["what"]
    if what in ("process", "reached"):
        return _start_rows(what, where, rows)
    if what == "tool":
        return _call_rows(effect, rows)
    if what == "again":
        about = {**where, "subject": effect["name"], "arguments": arguments_digest(effect["arguments"])}
        return [_find_row(rows, kind="tool", event="started", **about)]
    if what == "refused":
        return []
    answered = {"event": "answered", "who": "person"}
    shown = ("as shown", "edited")
    expected: dict[str, list[dict[str, Any]]] = {
        "form": [{"kind": "form", "decision": "accept", "arguments": arguments_digest(effect.get("content")), **where}],
        "visited": [{"kind": "url", "decision": "visited", **where}],
        "asked": [{"kind": "sampling", "decision": shown, "question": "review_sampling"}],
        "sampling": [{"kind": "sampling", "decision": shown, "question": "review_reply", **where}],
        "browser": [{"kind": "url", "decision": "visited", "question": "visit_url"}],
        "roots": [{"kind": "roots", "decision": ("once", "session"), **where}],
    }
    kinds = {"asked": "sampling", "browser": "browser"}
    starts = [_find_row(rows, kind=kinds[what], event="started", who="answer")] if what in kinds else []
    # An opened browser and the notification to the server about it are permitted by one answer.
    agreed = [_find_row(rows, **answered, **fields) for fields in expected[what]]
    return [*starts, *(agreed if what != "visited" else ())]


def _start_rows(what: str, where: dict[str, Any], rows: list[Row]) -> Iterable[Row]:
    """Return the audit rows that permit starting a server's process or sending it HTTP messages."""
    started = _find_row(rows, kind="process" if what == "process" else "connection", event="started", **where)
    assert started["who"] in ("flag", "always", "session"), started
    if started["who"] == "session":
        _find_row(rows, kind="trust", event="answered", decision=("once", "always"), who="person", **where)
    elif started["who"] == "always":
        _find_row(rows, kind="trust", event="kept", decision="always", who="person", **where)
    return [started] if what == "process" else []


def _call_rows(effect: Effect, rows: list[Row]) -> Iterable[Row]:
    """Return the audit rows that approve exactly this call, with its arguments and tool definition."""
    about = {"kind": "tool", "server": effect["server"], "subject": effect["name"]}
    about["arguments"] = arguments_digest(effect["arguments"])
    started = _find_row(rows, event="started", definition=effect["definition"], **about)
    yield started
    if started["who"] == "user":
        return
    for row in rows:
        answered = row["event"] == "answered" and row["decision"] in ALLOW_DECISIONS and row["who"] == "person"
        decided = row["event"] == "decided" and row["decision"] == "allow" and row["who"] == started["who"]
        mine = row["seq"] < started["seq"] and row["call"] == started["call"]
        if mine and (answered or decided) and about.items() <= row.items():
            yield row
            return
    raise AssertionError(f"no consent for {started}; there is {rows}")


def _find_row(rows: list[Row], *, question: str = "", **fields: Any) -> Row:
    for row in rows:
        fits = all(row[name] in want if isinstance(want, tuple) else row[name] == want for name, want in fields.items())
        if fits and (not question or json.loads(row["detail"])["question"] == question):
            return row
    raise AssertionError(f"no row {question} {fields} among {rows}")
