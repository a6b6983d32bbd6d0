"""Tests for `mcphost run` with the real model worker and a loopback server as the provider."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.flows.program import DEMO, Program
from tests.packaging.openai_stub import run_openai_stub


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.fork_model_workers()
    return program


@pytest.mark.timeout(240)  # importing litellm takes seconds on a busy machine
def test_model_that_cannot_be_reached_exits_7_naming_its_address(program: Program) -> None:
    flags = ("--model", "openai/x", "--api-base", "http://127.0.0.1:9/v1", "--api-key-env", "K")
    done = program.run("run", "hi", *flags, "--output", "events", seconds=100, K="sk-not-a-key")
    last = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == last["exit_code"] == 7
    assert "127.0.0.1:9" in last["error"]
    assert b"sk-not-a-key" not in done.stdout + done.stderr


class TruncatingHandler(BaseHTTPRequestHandler):
    """A provider that streams half an answer and closes the connection; if the path contains `hang`, it stays open."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        choice = {"index": 0, "delta": {"role": "assistant", "content": "half an answer"}, "finish_reason": None}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b'\n\ndata: {"id": "c", "cho')
        self.wfile.flush()
        if "hang" in self.path:
            self.connection.recv(1)

    def log_message(self, *_args: object) -> None:
        """Do not print requests to standard error."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("path", "flags", "said"),
    [("v1", (), b"The answer was cut off"), ("hang", ("--timeout", "6"), b" within 6 s")],
)
def test_an_answer_that_is_not_complete_is_printed_and_exits_7(
    program: Program, path: str, flags: tuple[str, ...], said: bytes
) -> None:
    """With `--timeout`, the output may be empty, because on a busy machine not even one word arrives in time."""
    with ThreadingHTTPServer(("127.0.0.1", 0), TruncatingHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}/{path}"
        done = program.run("run", "hi", "--model", "openai/x", "--api-base", base, *flags, seconds=100)
        server.shutdown()
    assert done.returncode == 7
    assert done.stdout == b"half an answer\n" or (flags and not done.stdout)
    assert said in done.stderr


def test_the_time_limit_of_an_answer_includes_loading_the_library_for_models(program: Program) -> None:
    flags = ("--model", "openai/x", "--api-base", "http://127.0.0.1:9/v1", "--timeout", "0.1")
    for more in ((), ("--max-cost", "1")):
        done = program.run("run", "hi", *flags, *more)
        assert (done.returncode, done.stdout) == (7, b"")
        assert b"The model was not ready within 0.1 s, which includes loading litellm" in done.stderr


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("rule", "code", "text"), [("demo", 0, "2 + 40 = 42"), ("demo/other", 5, "was not allowed")])
def test_consent_decides_with_a_real_wire_format_too(program: Program, rule: str, code: int, text: str) -> None:
    file = program.servers(demo=DEMO)
    with run_openai_stub("add", {"a": 2, "b": 40}) as stub:
        flags = ("--model", "openai/x", "--api-base", stub.api_base, "--api-key-env", "K", "--mcp-config", file)
        out = program.text("run", "what is 2 + 40?", "--allow", rule, *flags, code=code, seconds=100, K="sk-test")
    assert out.startswith("The tool said: ")
    assert text in out
    assert ("42" in out) is (code == 0)


@pytest.mark.timeout(240)
def test_a_model_on_this_machine_is_reached_without_the_proxy(program: Program) -> None:
    with run_openai_stub("", {}) as stub:
        flags = ("--model", "openai/x", "--api-base", stub.api_base)
        proxies = {"HTTP_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "socks5://127.0.0.1:9"}
        assert program.text("run", "hi", *flags, seconds=100, **proxies) == "Nothing to do for a tool.\n"


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("proxy", "reason"),
    [("socks5://127.0.0.1:9", "has the scheme 'socks5'; mcphost supports http and https."), ("http://", "not valid.")],
)
def test_nothing_is_sent_to_a_model_if_its_proxy_cannot_be_used(program: Program, proxy: str, reason: str) -> None:
    flags = ("--model", "openai/x", "--api-base", "http://model.invalid/v1")
    done = program.run("run", "hi", *flags, seconds=100, ALL_PROXY=proxy)
    said = done.stderr.decode()
    assert done.returncode == 7
    assert reason in said
    assert "add model.invalid to NO_PROXY" in said
    assert "retrying" not in said
