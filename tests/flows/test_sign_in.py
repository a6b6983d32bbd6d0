"""Signing in with the real program: on the command line, and through the pipe, against a server that wants it."""

import json
import re
import signal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from anyio.abc import Process

from tests.flows.program import Program
from tests.unit.auth.oauth_peer import OAuthPeer, query, run_peer
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+/authorize\?\S+")


class Talking(OAuthPeer):
    """A peer that can be connected to once somebody signed in."""

    async def mcp(self, one: ReceivedRequest) -> None:
        if one.headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            await OAuthPeer.mcp(self, one)
        elif one.method != "POST":
            await one.reply(405, b"")
        elif one.message["method"] == "server/discover":
            await one.error(404, -32601)
        elif one.message["method"] == "initialize":
            capabilities = {"tools": {}}
            info = {"name": "peer", "version": "1"}
            await one.result({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        elif "id" not in one.message:
            await one.reply(202, b"")
        else:
            await one.result({"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]})


async def visit(url: str) -> None:
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False) as browser:
        assert "Answer received" in (await browser.get(url)).text


async def address(process: Process, said: bytearray) -> str:
    """The address it prints."""
    assert process.stderr
    while not (found := ADDRESS.search(said)):
        said += await process.stderr.receive()
    return found[0].decode()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def started(program: Program, *arguments: str) -> Any:
    return anyio.open_process(program.command(*arguments), env=program.env, cwd=program.work)


@pytest.mark.req("auth.callback.manual", "auth.scope.shown")
async def test_login_shows_where_to_sign_in_and_takes_the_answer_of_a_browser(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        async with await started(
            program, "login", "tracker", "--no-browser", "--json", "--mcp-config", config
        ) as process:
            said = bytearray()
            await visit(await address(process, said))
            out = b"".join([chunk async for chunk in process.stdout])
            said += b"".join([chunk async for chunk in process.stderr])
            assert await process.wait() == 0, said.decode()
    told = json.loads(out)
    assert told["issuer"] == one.origin
    assert told["scopes"] == ["tools:read"]
    assert one.origin.encode() in said
    assert b"tools:read" in said
    secrets = (*one.valid, *one.families, one.forms[0]["code"], one.forms[0]["code_verifier"])
    kept = b"".join(path.read_bytes() for path in program.home.rglob("*") if path.is_file())
    assert b"mcphost starts" in kept
    assert not any(secret.encode() in out + said + kept for secret in secrets)


@pytest.mark.req("auth.callback.manual")
async def test_login_takes_a_pasted_address(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        async with await started(program, "login", "tracker", "--no-browser", "--mcp-config", config) as process:
            asked = query(await address(process, bytearray()))
            one.codes["typed"] = asked
            assert process.stdin
            await process.stdin.send(f"{asked['redirect_uri']}?code=typed&state={asked['state']}\n".encode())
            out = b"".join([chunk async for chunk in process.stdout])
            assert await process.wait() == 0
    assert out.startswith(b"Signed in to tracker at http://127.0.0.1:")


async def test_login_can_be_interrupted_and_closes_its_port(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        async with await started(program, "login", "tracker", "--no-browser", "--mcp-config", config) as process:
            asked = query(await address(process, bytearray()))
            process.send_signal(signal.SIGINT)
            with anyio.fail_after(10):
                assert await process.wait() == 130
        port = int(asked["redirect_uri"].rpartition(":")[2].partition("/")[0])
        with pytest.raises(OSError, match="connection"):
            await anyio.connect_tcp("127.0.0.1", port)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("login", "local"), 2, "nothing to sign in to"),
        (("login", "none"), 2, "no server named"),
        (("login", "fixed"), 6, "Authorization header"),
        (("login", "tracker", "--device"), 6, "does not offer to sign in by a code"),
        (("login", "robot", "--device"), 2, "without a person"),
        (("login", "robot", "--scope", "more"), 2, "without a person"),
        (("logout", "tracker"), 0, ""),
    ],
)
async def test_what_login_cannot_do_is_a_sentence_and_an_exit_code(
    program: Program, arguments: tuple[str, ...], code: int, said: str
) -> None:
    async with run_peer(kind=Talking) as one, run_peer() as free:
        free.answers = dict.fromkeys(("/mcp", "/.well-known/oauth-protected-resource/mcp"), (404, b"", ""))
        config = program.servers(
            tracker={"url": one.url},
            open={"url": free.url},
            fixed={"url": one.url, "headers": {"Authorization": "${env:MY_TOKEN}"}},
            local={"command": "true"},
            robot={"url": one.url, "mcphost": {"oauth": {"grant": "workload", "assertion": "${env:MY_TOKEN}"}}},
        )
        done = await anyio.run_process(
            program.command(*arguments, "--mcp-config", config),
            env={**program.env, "MY_TOKEN": "Bearer x-1234567"},
            cwd=program.work,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert said in done.stderr.decode()
    assert one.asked == free.asked == []


@pytest.mark.req("auth.401-starts")
async def test_the_pipe_asks_for_a_sign_in_and_goes_on_when_the_browser_answered(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        async with await started(program, "pipe", "--mcp-config", config) as process:
            step, events = await events_until(process, "signing_in", b"")
            assert (step["server"], step["step"]) == ("tracker", "resource")
            question, events = await events_until(process, "question", events)
            assert question["kind"] == "sign_in"
            assert question["issuer"] == one.origin
            assert question["host"] == one.origin.removeprefix("http://")
            assert question["choices"] == ["once", "deny", {"accept": {"redirect_url": ""}}]
            answer = {"id": 1, "do": "answer", "question": question["question"], "answer": "once"}
            await process.stdin.send(json.dumps(answer).encode() + b"\n")
            await visit(question["url"])
            await process.stdin.send(b'{"id": 2, "do": "list", "server": "tracker", "kind": "tools"}\n')
            result, _ = await events_until(process, "result", events, id=2)
            assert [tool["name"] for tool in result["result"]["tools"]] == ["hello"]
            await process.stdin.send(b'{"id": 3, "do": "quit"}\n')
            await process.wait()


async def test_login_to_a_server_that_wants_no_account_says_so_and_is_no_failure(program: Program) -> None:
    async with run_peer() as free:
        free.answers = dict.fromkeys(("/mcp", "/.well-known/oauth-protected-resource/mcp"), (404, b"", ""))
        config = program.servers(open={"url": free.url})
        command = program.command("login", "open", "--mcp-config", config)
        said = await anyio.run_process(command, env=program.env, cwd=program.work)
        as_json = await anyio.run_process([*command, "--json"], env=program.env, cwd=program.work)
    assert b"does not ask for an account" in said.stdout
    assert json.loads(as_json.stdout)["signed_in"] is False


async def test_login_on_the_pipe_signs_in_anew(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        async with await started(program, "pipe", "--mcp-config", config) as process:
            rest = b""
            for number in (1, 2):
                if number == 2:
                    await process.stdin.send(b'{"id": 7, "do": "login", "server": "tracker"}\n')
                question, rest = await events_until(process, "question", rest, kind="sign_in")
                answer = {"id": number, "do": "answer", "question": question["question"], "answer": "once"}
                await process.stdin.send(json.dumps(answer).encode() + b"\n")
                await visit(question["url"])
                _, rest = await events_until(process, "server_state", rest, state="ready")
            result, _ = await events_until(process, "result", rest, id=7)
            assert (result["ok"], result["result"]["state"]) == (True, "ready")
            await process.stdin.send(b'{"id": 3, "do": "quit"}\n')
            await process.wait()
    assert len(one.asked) == 2


async def test_on_the_pipe_a_refusal_is_exit_code_6(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        async with await started(program, "pipe", "--mcp-config", config) as process:
            question, rest = await events_until(process, "question", b"")
            command = {"id": 1, "do": "connect", "server": "tracker"}
            answer = {"id": 2, "do": "answer", "question": question["question"], "answer": "deny"}
            for line in (command, answer):
                await process.stdin.send(json.dumps(line).encode() + b"\n")
            _, rest = await events_until(process, "server_state", rest, state="sign_in")
            result, _ = await events_until(process, "result", rest, id=1)
            assert (result["ok"], result["exit"], result["error"]["kind"]) == (False, 6, "sign_in")
            assert "mcphost login tracker" in result["error"]["hint"]
            await process.stdin.send(b'{"id": 3, "do": "quit"}\n')
            await process.wait()


async def test_a_command_without_anybody_to_ask_says_how_to_sign_in(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        command = program.command("tools", "tracker", "--mcp-config", config)
        done = await anyio.run_process(command, env=program.env, cwd=program.work, check=False)
    assert done.returncode == 6
    assert b"mcphost login tracker" in done.stderr
    assert "/register" not in one.paths()


async def test_there_are_no_accounts_before_anybody_signed_in(program: Program) -> None:
    done = await anyio.run_process(program.command("accounts", "--json"), env=program.env, cwd=program.work)
    assert json.loads(done.stdout) == {"accounts": []}


async def events_until(process: Process, name: str, rest: bytes, **fields: Any) -> tuple[dict[str, Any], bytes]:
    """The first event of that name from here on, and what was read beyond it."""
    assert process.stdout
    while True:
        line, ended, left = rest.partition(b"\n")
        if not ended:
            rest += await process.stdout.receive()
            continue
        rest = left
        event = json.loads(line)
        if event["event"] == name and fields.items() <= event.items():
            return event, rest


@pytest.mark.req("auth.signout")
async def test_an_account_signed_in_by_name_is_used_next_and_signed_out_when_its_server_is_gone(
    program: Program,
) -> None:
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text('[secrets]\nstore = "file"\n')
    async with run_peer(kind=Talking) as one:
        config, empty = program.servers(tracker={"url": one.url}), program.servers()

        async def signed_in(name: str) -> None:
            command = ("login", "tracker", "--account", name, "--no-browser", "--mcp-config", config)
            async with await started(program, *command) as process:
                await visit(await address(process, bytearray()))
                out = b"".join([chunk async for chunk in process.stdout])
                assert await process.wait() == 0
            assert out.startswith(f"Signed in to tracker as {name} at ".encode())

        await signed_in("work")

        async def told(*arguments: str, code: int = 0) -> Any:
            done = await anyio.run_process(
                program.command(*arguments, "--json"), env=program.env, cwd=program.work, check=False
            )
            assert done.returncode == code, done.stderr
            return json.loads(done.stdout) if code == 0 else None

        assert (await told("tools", "tracker", "--mcp-config", config))["tools"][0]["name"] == "hello"
        (only,) = (await told("accounts", "--mcp-config", config))["accounts"]
        assert (only["name"], only["in_use"], only["servers"]) == ("work", True, ["tracker"])
        assert await told("accounts", "use", "tracker", "work", "--mcp-config", config)
        await told("accounts", "use", "tracker", "nobody", "--mcp-config", config, code=2)
        await told("accounts", "use", "tracker", "--mcp-config", config, code=2)
        await signed_in("home")
        gone = await told("logout", "tracker", "--mcp-config", config)
        assert gone == {"server": "tracker", "signed_out": True, "revoked": True, "left": ["work"]}
        await told("tools", "tracker", "--mcp-config", config, code=6)
        (orphan,) = (await told("accounts", "--mcp-config", empty))["accounts"]
        assert (orphan["in_use"], orphan["configured"]) == (False, False)
        gone = await told("logout", "tracker", "--forget-client", "--mcp-config", empty)
        assert gone == {"server": "tracker", "signed_out": True, "revoked": True, "client_forgotten": True}
        assert not one.valid
        await told("tools", "tracker", "--mcp-config", config, code=6)


async def test_the_pipe_signs_in_by_names_chooses_between_them_and_signs_one_out(program: Program) -> None:
    async with run_peer(kind=Talking) as one:
        config = program.servers(tracker={"url": one.url})
        async with await started(program, "pipe", "--mcp-config", config) as process:
            question, rest = await events_until(process, "question", b"", kind="sign_in")

            async def did(number: int, do: str, **more: Any) -> Any:
                nonlocal rest
                await process.stdin.send(json.dumps({"id": number, "do": do, **more}).encode() + b"\n")
                if do == "login":
                    asked, rest = await events_until(process, "question", rest, kind="sign_in")
                    assert asked["account"] == more["account"]
                    answer = {"id": f"a{number}", "do": "answer", "question": asked["question"], "answer": "once"}
                    await process.stdin.send(json.dumps(answer).encode() + b"\n")
                    await visit(asked["url"])
                result, rest = await events_until(process, "result", rest, id=number)
                assert result["ok"], result
                return result["result"]

            assert question["account"] == ""
            assert (await did(1, "login", server="tracker", account="work"))["account"] == "work"
            assert (await did(2, "login", server="tracker", account="home"))["account"] == "home"
            assert (await did(3, "use_account", server="tracker", account="work"))["account"] == "work"
            kept = (await did(4, "accounts"))["accounts"]
            assert {(entry["name"], entry["in_use"]) for entry in kept} == {("work", True), ("home", False)}
            assert await did(5, "logout", server="tracker", account="home") == {"revoked": True, "left": []}
            assert [entry["name"] for entry in (await did(6, "accounts"))["accounts"]] == ["work"]
            await process.stdin.send(b'{"id": 9, "do": "quit"}\n')
            await process.wait()


async def test_an_error_of_a_sign_in_names_the_file_that_the_server_is_configured_in(program: Program) -> None:
    async with (
        run_peer(kind=Talking) as one,
        run_peer(kind=Talking, resource={"resource": "https://other.example"}) as two,
    ):
        oauth = {"grant": "client_credentials", "clientId": "c", "issuer": one.origin, "key": "no key at all"}
        config = program.servers(keyed={"url": one.url, "mcphost": {"oauth": oauth}}, moved={"url": two.url})
        for words in (("login", "keyed"), ("tools", "keyed")):
            told = await anyio.to_thread.run_sync(
                partial(program.error, *words, "--mcp-config", config, code=3, seconds=60)
            )
            assert "is not a private key for ES256" in told
            assert f'{config}: server "keyed"' in told
        told = await anyio.to_thread.run_sync(
            partial(program.error, "login", "moved", "--mcp-config", config, code=6, seconds=60)
        )
    assert "says that it is another resource" in told
    assert f"Check the address in {config}." in told
