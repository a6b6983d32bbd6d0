"""Tests for sign-in with the real program, on the command line and through the pipe."""

import json
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import Program
from tests.flows.sign_in_program import (
    AUTHORIZATION_URL,
    BROWSER_CODE,
    SignedInServer,
    events_until,
    read_authorization_url,
    start_program,
    visit_authorization_page,
)
from tests.flows.typed_answers import answer_prompts
from tests.unit.auth.oauth_peer import query, run_peer

pytestmark = pytest.mark.anyio


@pytest.mark.req("auth.callback.manual", "auth.scope.shown")
async def test_login_shows_where_to_sign_in_and_accepts_the_answer_of_a_browser(program: Program) -> None:
    program.configure_secret_store("session")
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(
            program, "login", "tracker", "--no-browser", "--json", "--mcp-config", config
        ) as process:
            said = bytearray()
            await visit_authorization_page(await read_authorization_url(process, said))
            output = b"".join([chunk async for chunk in process.stdout])
            said += b"".join([chunk async for chunk in process.stderr])
            assert await process.wait() == 0, said.decode()
    told = json.loads(output)
    assert told["issuer"] == peer.origin
    assert told["scopes"] == ["tools:read"]
    assert peer.origin.encode() in said
    assert b"tools:read" in said
    secrets = (*peer.valid, *peer.families, peer.forms[0]["code"], peer.forms[0]["code_verifier"])
    stored = b"".join(path.read_bytes() for path in program.home.rglob("*") if path.is_file())
    assert b"mcphost starts" in stored
    assert not any(secret.encode() in output + said + stored for secret in secrets)


@pytest.mark.parametrize("store", ["", "keyring", "encrypted"])
async def test_login_without_a_terminal_refuses_before_signing_in_if_nothing_can_keep_the_sign_in(
    program: Program, store: str
) -> None:
    if store:
        program.configure_secret_store(store)
    async with run_peer(kind=SignedInServer) as peer:
        command = ("login", "tracker", "--no-browser", "--mcp-config", program.servers(tracker={"url": peer.url}))
        error_text = await anyio.to_thread.run_sync(partial(program.error, *command, code=6, seconds=60))
    assert "would be lost when this command ends" in error_text
    assert '[secrets] store = "file"' in error_text
    assert peer.asked == peer.forms == []


async def test_doctor_without_a_keyring_names_the_setting_for_sign_ins(program: Program) -> None:
    done = await anyio.run_process(program.command("doctor"), env=program.env, cwd=program.work, check=False)
    (keyring,) = (line for line in done.stdout.decode().splitlines() if " keyring: " in line)
    (sign_ins,) = (line for line in done.stdout.decode().splitlines() if " sign-ins: " in line)
    assert f'[secrets] store = "file" or "encrypted" in {program.home / "config" / "config.toml"}' in keyring
    assert "environment variable" not in keyring
    assert "stored only until mcphost quits; the chat asks for another place" in sign_ins


@pytest.mark.req("auth.callback.manual")
async def test_login_accepts_a_pasted_url(program: Program) -> None:
    program.configure_secret_store("session")
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "login", "tracker", "--no-browser", "--mcp-config", config) as process:
            params = query(await read_authorization_url(process, bytearray()))
            peer.codes["typed"] = params
            assert process.stdin
            await process.stdin.send(f"{params['redirect_uri']}?code=typed&state={params['state']}\n".encode())
            output = b"".join([chunk async for chunk in process.stdout])
            told = b"".join([chunk async for chunk in process.stderr]).decode()
            assert await process.wait() == 0
    assert output.startswith(b"Signed in to tracker at http://127.0.0.1:")
    assert f'To keep it, set [secrets] store = "file" in {program.home / "config" / "config.toml"}.' in told


@pytest.fixture
def opened(program: Program) -> Callable[[], bytes]:
    """Make a browser that visits addresses; return a function that returns the addresses which it has opened."""
    program.configure_secret_store("session")
    record, browser = program.home / "opened", program.home / "browser"
    note = f"import sys; open({str(record)!r}, 'a').write(sys.argv[1])"
    browser.write_text(f"#!{sys.executable}\n{note}\n{BROWSER_CODE}\n")
    record.touch()
    browser.chmod(0o755)
    program.env["BROWSER"] = str(browser)
    return record.read_bytes


ASKED = "n ends the sign-in: "


@pytest.mark.parametrize(
    ("answers", "code"), [(("",), 0), (("c", "what", ""), 0), (("n",), 6), (("c", "N"), 6)], ids=repr
)
async def test_login_on_a_terminal_shows_the_address_and_opens_it_only_after_enter(
    program: Program, opened: Callable[[], bytes], answers: tuple[str, ...], code: int
) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        typed = [(ASKED, answer) for answer in answers]
        command = ("login", "tracker", "--mcp-config", program.servers(tracker={"url": peer.url}))
        done, shown = await anyio.to_thread.run_sync(partial(answer_prompts, program, typed, *command))
    assert done == code, shown
    address = AUTHORIZATION_URL.search(shown.encode())
    assert address
    assert shown.index(address[0].decode()) < shown.index(ASKED)
    assert opened() == (b"" if code else address[0])
    assert (f"\x1b]52;c;{b64encode(address[0]).decode()}\a" in shown) == ("c" in answers)


async def test_login_on_a_terminal_accepts_the_final_address_in_place_of_opening_a_browser(
    program: Program, opened: Callable[[], bytes]
) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url, "mcphost": {"oauth": {"seconds": 5}}})
        typed = [(ASKED, "http://127.0.0.1:1/callback?code=typed&state=wrong")]
        command = ("login", "tracker", "--mcp-config", config)
        done, shown = await anyio.to_thread.run_sync(partial(answer_prompts, program, typed, *command))
    assert (done, opened()) == (6, b""), shown
    assert "not the redirect URL of this sign-in" in shown


@pytest.mark.parametrize(("flags", "opens"), [((), False), (("--yes",), True), (("--yes", "--no-browser"), False)])
async def test_login_without_a_terminal_opens_a_browser_only_with_yes(
    program: Program, opened: Callable[[], bytes], flags: tuple[str, ...], opens: bool
) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "login", "tracker", *flags, "--mcp-config", config) as process:
            address = await read_authorization_url(process, bytearray())
            if not opens:
                await visit_authorization_page(address)
            assert await process.wait() == 0
    assert opened() == (address.encode() if opens else b"")


async def test_login_can_be_interrupted_and_closes_its_port(program: Program) -> None:
    program.configure_secret_store("session")
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "login", "tracker", "--no-browser", "--mcp-config", config) as process:
            params = query(await read_authorization_url(process, bytearray()))
            process.send_signal(signal.SIGINT)
            with anyio.fail_after(10):
                assert await process.wait() == 130
        port = int(params["redirect_uri"].rpartition(":")[2].partition("/")[0])
        with pytest.raises(OSError, match="connection"):
            await anyio.connect_tcp("127.0.0.1", port)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("login", "local"), 2, "nothing to sign in to. Its secrets are set in its entry: mcphost servers edit local"),
        (("login", "none"), 2, "no server named"),
        (("login", "fixed"), 6, "Authorization header"),
        (("login", "tracker", "--device"), 6, "does not offer device codes"),
        (("login", "robot", "--device"), 2, "without user interaction"),
        (("login", "robot", "--scope", "more"), 2, "without user interaction"),
        (("logout", "tracker"), 0, ""),
    ],
)
async def test_unsupported_logins_are_a_message_and_an_exit_code(
    program: Program, arguments: tuple[str, ...], code: int, text: str
) -> None:
    program.configure_secret_store("session")
    async with run_peer(kind=SignedInServer) as peer, run_peer() as free:
        free.answers = dict.fromkeys(("/mcp", "/.well-known/oauth-protected-resource/mcp"), (404, b"", ""))
        config = program.servers(
            tracker={"url": peer.url},
            open={"url": free.url},
            fixed={"url": peer.url, "headers": {"Authorization": "${env:MY_TOKEN}"}},
            local={"command": "true"},
            robot={"url": peer.url, "mcphost": {"oauth": {"grant": "workload", "assertion": "${env:MY_TOKEN}"}}},
        )
        done = await anyio.run_process(
            program.command(*arguments, "--mcp-config", config),
            env={**program.env, "MY_TOKEN": "Bearer x-1234567"},
            cwd=program.work,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert text in done.stderr.decode()
    assert peer.asked == free.asked == []


@pytest.mark.req("auth.401-starts")
async def test_the_pipe_asks_for_a_sign_in_and_continues_when_the_browser_answered(program: Program) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "pipe", "--mcp-config", config) as process:
            step, events = await events_until(process, "signing_in", b"")
            assert (step["server"], step["step"]) == ("tracker", "resource")
            question, events = await events_until(process, "question", events)
            assert question["kind"] == "sign_in"
            assert question["issuer"] == peer.origin
            assert question["host"] == peer.origin.removeprefix("http://")
            assert question["choices"] == ["once", "deny", {"accept": {"redirect_url": ""}}]
            answer = {"id": 1, "do": "answer", "question": question["question"], "answer": "once"}
            await process.stdin.send(json.dumps(answer).encode() + b"\n")
            await visit_authorization_page(question["url"])
            await process.stdin.send(b'{"id": 2, "do": "list", "server": "tracker", "kind": "tools"}\n')
            result, _ = await events_until(process, "result", events, id=2)
            assert [tool["name"] for tool in result["result"]["tools"]] == ["hello"]
            await process.stdin.send(b'{"id": 3, "do": "quit"}\n')
            await process.wait()


async def test_login_to_a_server_without_accounts_reports_that_and_succeeds(program: Program) -> None:
    async with run_peer() as free:
        free.answers = dict.fromkeys(("/mcp", "/.well-known/oauth-protected-resource/mcp"), (404, b"", ""))
        config = program.servers(open={"url": free.url})
        command = program.command("login", "open", "--mcp-config", config)
        said = await anyio.run_process(command, env=program.env, cwd=program.work)
        as_json = await anyio.run_process([*command, "--json"], env=program.env, cwd=program.work)
    assert b"does not require an account" in said.stdout
    assert json.loads(as_json.stdout)["signed_in"] is False


async def test_login_on_the_pipe_signs_in_again(program: Program) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "pipe", "--mcp-config", config) as process:
            rest = b""
            for number in (1, 2):
                if number == 2:
                    await process.stdin.send(b'{"id": 7, "do": "login", "server": "tracker"}\n')
                question, rest = await events_until(process, "question", rest, kind="sign_in")
                answer = {"id": number, "do": "answer", "question": question["question"], "answer": "once"}
                await process.stdin.send(json.dumps(answer).encode() + b"\n")
                await visit_authorization_page(question["url"])
                _, rest = await events_until(process, "server_state", rest, state="ready")
            result, _ = await events_until(process, "result", rest, id=7)
            assert (result["ok"], result["result"]["state"]) == (True, "ready")
            await process.stdin.send(b'{"id": 3, "do": "quit"}\n')
            await process.wait()
    assert len(peer.asked) == 2


async def test_on_the_pipe_a_refusal_is_exit_code_6(program: Program) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "pipe", "--mcp-config", config) as process:
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


async def test_a_noninteractive_command_explains_how_to_sign_in(program: Program) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        command = program.command("tools", "tracker", "--mcp-config", config)
        done = await anyio.run_process(command, env=program.env, cwd=program.work, check=False)
    assert done.returncode == 6
    assert b"mcphost login tracker" in done.stderr
    assert "/register" not in peer.paths()


async def test_there_are_no_accounts_before_the_first_sign_in(program: Program) -> None:
    done = await anyio.run_process(program.command("accounts", "--json"), env=program.env, cwd=program.work)
    assert json.loads(done.stdout) == {"accounts": []}


@pytest.mark.req("auth.signout")
async def test_an_account_signed_in_by_name_is_used_next_and_signed_out_when_its_server_is_gone(
    program: Program,
) -> None:
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text('[secrets]\nstore = "file"\n')
    async with run_peer(kind=SignedInServer) as peer:
        config, empty = program.servers(tracker={"url": peer.url}), program.servers()

        async def signed_in(name: str) -> None:
            command = ("login", "tracker", "--account", name, "--no-browser", "--mcp-config", config)
            async with await start_program(program, *command) as process:
                await visit_authorization_page(await read_authorization_url(process, bytearray()))
                output = b"".join([chunk async for chunk in process.stdout])
                assert await process.wait() == 0
            assert output.startswith(f"Signed in to tracker as {name} at ".encode())

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
        command = program.command("logout", "tracker", "--account", "zz", "--mcp-config", config)
        wrong = await anyio.run_process(command, env=program.env, cwd=program.work, check=False)
        assert (wrong.returncode, wrong.stdout) == (2, b"")
        assert "You are not signed in to 'tracker' as 'zz'" in wrong.stderr.decode()
        assert "Accounts: home, work." in wrong.stderr.decode()
        gone = await told("logout", "tracker", "--mcp-config", config)
        assert gone == {"server": "tracker", "signed_out": True, "revoked": True, "left": ["work"]}
        await told("tools", "tracker", "--mcp-config", config, code=6)
        (orphan,) = (await told("accounts", "--mcp-config", empty))["accounts"]
        assert (orphan["in_use"], orphan["configured"]) == (False, False)
        gone = await told("logout", "tracker", "--forget-client", "--mcp-config", empty)
        assert gone == {"server": "tracker", "signed_out": True, "revoked": True, "client_forgotten": True}
        assert not peer.valid
        await told("tools", "tracker", "--mcp-config", config, code=6)


async def test_the_pipe_signs_in_by_names_chooses_between_them_and_signs_one_out(program: Program) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        async with await start_program(program, "pipe", "--mcp-config", config) as process:
            question, rest = await events_until(process, "question", b"", kind="sign_in")

            async def did(number: int, do: str, **more: Any) -> Any:
                nonlocal rest
                await process.stdin.send(json.dumps({"id": number, "do": do, **more}).encode() + b"\n")
                if do == "login":
                    asked, rest = await events_until(process, "question", rest, kind="sign_in")
                    assert asked["account"] == more["account"]
                    answer = {"id": f"a{number}", "do": "answer", "question": asked["question"], "answer": "once"}
                    await process.stdin.send(json.dumps(answer).encode() + b"\n")
                    await visit_authorization_page(asked["url"])
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
    program.configure_secret_store("session")
    async with (
        run_peer(kind=SignedInServer) as peer,
        run_peer(kind=SignedInServer, resource={"resource": "https://other.example"}) as two,
    ):
        oauth = {"grant": "client_credentials", "clientId": "c", "issuer": peer.origin, "key": "no key at all"}
        config = program.servers(keyed={"url": peer.url, "mcphost": {"oauth": oauth}}, moved={"url": two.url})
        for words in (("login", "keyed"), ("tools", "keyed")):
            error_text = await anyio.to_thread.run_sync(
                partial(program.error, *words, "--mcp-config", config, code=3, seconds=60)
            )
            assert "is not a private key for ES256" in error_text
            assert f'{config}: server "keyed"' in error_text
        error_text = await anyio.to_thread.run_sync(
            partial(program.error, "login", "moved", "--mcp-config", config, code=6, seconds=60)
        )
    assert "declares another resource" in error_text
    assert f"Check the address in {config}." in error_text


@pytest.mark.req("auth.signout", "market.update-remove")
async def test_removing_a_server_says_that_its_sign_in_is_kept_or_revokes_it_on_request(program: Program) -> None:
    async with run_peer(kind=SignedInServer) as peer:
        program.configure(tracker={"url": peer.url})
        (program.home / "config" / "config.toml").write_text('[secrets]\nstore = "file"\n')

        async def text(*arguments: str) -> str:
            done = await anyio.run_process(
                program.command(*arguments), env=program.env, cwd=program.work, check=False, stderr=subprocess.STDOUT
            )
            return done.stdout.decode()

        await text("servers", "trust", "tracker", "--yes")
        async with await start_program(program, "login", "tracker", "--no-browser") as process:
            await visit_authorization_page(await read_authorization_url(process, bytearray()))
            assert process.stdout
            assert await process.wait() == 0
        index = program.home / "data" / "sign-ins.json"
        stored = index.read_text()
        index.write_text(stored.replace('"file"', '"encrypted"'))
        shown = await text("accounts")
        assert f"{index.with_name('secrets.sealed.json')} is locked." in shown
        assert ("locked  " in shown, "signed in" in shown) == (True, False)
        assert json.loads(await text("accounts", "--json"))["accounts"][0]["state"] == "locked"
        index.write_text(stored)
        shown = await text("accounts")
        assert ("locked" in shown, "signed in" in shown) == (False, True)
        sign_in = f"sign-in: default at {peer.origin}"
        assert f"  kept: {sign_in}\n" in await text("servers", "remove", "tracker")
        await text("servers", "add", "tracker", "--scope", "local", peer.url)
        said = await text("servers", "remove", "tracker", "--scope", "local", "--forget", "--yes")
        assert "sign-in" not in said, "the user's entry of the name uses it"
        said = await text("servers", "remove", "tracker", "--forget", "--yes")
        assert f"  would also delete: {sign_in}\n" in said
        assert f"\n  deleted: {sign_in}\n" in said
        assert json.loads(await text("accounts", "--json")) == {"accounts": []}
        assert peer.valid == {}
