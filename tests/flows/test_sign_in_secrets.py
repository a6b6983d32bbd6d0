"""Tests that no secret leaves mcphost's memory while it signs in, refreshes and fails, with full logging."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.flows.program import MCPHOST, Program
from tests.flows.sign_in_program import SignedInServer, events_until, visit_authorization_page
from tests.unit.auth.attacks.leaked_secrets import collect_secrets
from tests.unit.auth.oauth_peer import query, run_peer

pytestmark = pytest.mark.anyio
# A local server of the same configuration: every process of ours could have seen its arguments.
CURIOUS = """
import json, os, sys
open(sys.argv[1], "a").write(repr(sys.argv) + repr(dict(os.environ)) + open("/proc/self/environ").read())
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        r = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": ""}}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
    elif "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
"""


class ShortLivedTokenServer(SignedInServer):
    """A server that records whether mcphost has refreshed its token."""

    @property
    def renewed(self) -> bool:
        return any(form["grant_type"] == "refresh_token" for form in self.forms)


def processes() -> str:
    """Return the arguments and environment variables of every process on this machine that can be read."""
    seen = ""
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            try:
                seen += (process / file).read_text(errors="replace")
            except OSError:
                continue
    return seen


def written_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "servers-" not in path.name]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.req("auth.token.storage", "sec.logs-redact", "auth.bearer.not-in-query")
async def test_no_secret_of_a_sign_in_leaves_the_program(tmp_path: Path) -> None:
    program = Program(tmp_path)
    document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with run_peer(kind=ShortLivedTokenServer, lifetime=1, document=document) as peer:
        assert isinstance(peer, ShortLivedTokenServer)
        note = tmp_path / "note"
        config = program.servers(
            tracker={
                "url": peer.url,
                "mcphost": {
                    "oauth": {"clientId": "me", "clientSecret": "${env:THE_SECRET}", "issuer": peer.origin},
                },
            },
            curious={"command": sys.executable, "args": ["-c", CURIOUS, str(note)]},
        )
        env = {**program.env, "THE_SECRET": "a-secret-of-the-user"}
        command = [*MCPHOST, "pipe", "--log-level", "debug", "--mcp-config", config]
        async with await anyio.open_process(command, env=env, cwd=program.work) as process:
            assert process.stdin
            assert process.stderr
            messages: list[dict[str, Any]] = []

            async def do(number: int, **what: Any) -> None:
                assert process.stdin
                await process.stdin.send(json.dumps({"id": number, **what}).encode() + b"\n")

            question, rest = await events_until(process, "question", b"")
            await do(1, do="answer", question=question["question"], answer="once")
            await visit_authorization_page(question["url"])
            await do(2, do="list", server="tracker", kind="tools")
            result, rest = await events_until(process, "result", rest, id=2)
            messages.append(result)
            while not peer.renewed:
                await do(3, do="list", server="tracker", kind="tools", refresh=True)
                result, rest = await events_until(process, "result", rest, id=3)
                messages.append(result)
            running = processes()
            body = json.dumps({"error": "invalid_grant", "error_description": str(peer.forms[-1])[:200]}).encode()
            peer.answers["/token"] = (400, body, "application/json")
            peer.valid.clear()
            await do(4, do="login", server="tracker")
            question, rest = await events_until(process, "question", rest)
            await do(5, do="answer", question=question["question"], answer="once")
            await visit_authorization_page(question["url"])
            result, rest = await events_until(process, "result", rest, id=4)
            assert not result["ok"]
            messages.append(result)
            await do(6, do="quit")
            async for chunk in process.stdout or ():
                rest += chunk
            stderr = b"".join([chunk async for chunk in process.stderr])
            await process.wait()
        secrets = {*collect_secrets(peer), "a-secret-of-the-user"}
        states = {query(question["url"])["state"], *(question["state"] for question in peer.asked)}
    assert len(peer.forms) >= 2, "a code, and a renewal"
    assert note.read_text()
    files = written_files(tmp_path)
    assert any(path.name == "mcphost.log" for path in files)
    sinks = {
        "events": json.dumps(messages) + rest.decode(),
        "stderr": stderr.decode(),
        "a child": note.read_text(),
        **{str(path): path.read_bytes().decode("latin-1") for path in files},
    }
    # The user's own environment has the user's values; the URL with the state is shown to the user.
    sinks["processes"] = running.replace("a-secret-of-the-user", "")
    sinks["events"] = sinks["events"].replace(question["url"], "")
    assert len(secrets) >= 8
    assert [(where, secret) for where, text in sinks.items() for secret in secrets | states if secret in text] == []
