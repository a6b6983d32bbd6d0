"""Amplification cases for hostile server requests, tools and tasks, and for data that is read back from disk."""

# pyright: basic

import sys
from collections.abc import Callable
from typing import Any

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_host import Work
from benchmarks.amplification_session import LISTS, answered, listed, page
from benchmarks.amplification_wire import session_with

Make = Callable[[], tuple[int, Work]]


def work_case(name: str) -> Callable[[Make], Make]:
    """Register a case called *name*; the decorated function returns the input size and the work to measure."""

    def register(make: Make) -> Make:
        @case(name, size=0)
        async def run(meter: Meter, size: int) -> None:
            del size
            fed, work = make()
            kept: list[Any] = []
            with meter.measuring(fed):
                kept.append(await work())

        return make

    return register


def read_of(method: str, params: bytes) -> tuple[int, Work]:
    """Return the size of *params* and a function that decodes a server's request with them."""
    from mcphost.protocol.server_requests import parse_server_request
    from mcphost.serialization import Raw
    from mcphost.transport.flow_control import run_steps_cooperatively

    async def work() -> object:
        return await run_steps_cooperatively(parse_server_request(method, Raw(params)))

    return len(params), work


@work_case("request: an elicitation with 15 MB of schema")
def _long_schema() -> tuple[int, Work]:
    fields = b",".join(b'"f%d":{"type":"string"}' % n for n in range(600_000))
    schema = b'{"type":"object","properties":{' + fields + b"}}"
    return read_of("elicitation/create", b'{"message":"m","requestedSchema":' + schema + b"}")


@work_case("request: an elicitation with a message of 15 MB")
def _long_message() -> tuple[int, Work]:
    return read_of("elicitation/create", b'{"message":"' + b"m" * 15 * MB + b'","requestedSchema":{"type":"object"}}')


@work_case("request: roots with 15 MB of nothing")
def _roots() -> tuple[int, Work]:
    return read_of("roots/list", b'{"_meta":{"a":' + b"[" + b",".join([b"[]"] * 5_000_000) + b"]}}")


@work_case("request: 10 MB of sampling tools")
def _sampling_tools() -> tuple[int, Work]:
    tools = b",".join([b'{"name":"a","inputSchema":{}}'] * 330_000)
    return read_of("sampling/createMessage", b'{"maxTokens":1,"messages":[],"tools":[' + tools + b"]}")


DATE = b'"2026-01-01T00:00:00Z"'
TASK = b'{"taskId":"a","status":"working","createdAt":' + DATE + b',"lastUpdatedAt":' + DATE + b',"ttl":1'


@work_case("task: a state with 15 MB of message")
def _task() -> tuple[int, Work]:
    from mcphost.protocol.tasks import Task
    from mcphost.serialization import decode

    raw = TASK + b',"statusMessage":"' + b"m" * 15 * MB + b'"}'

    async def work() -> object:
        return decode(raw, Task)

    return len(raw), work


@case("list: 10 MB of tools with input schemas", size=10 * MB)
async def schemas(meter: Meter, size: int) -> None:
    schema = b'{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"number"}}}}'
    await listed(meter, page("tools", b'{"name":"t%N%","inputSchema":' + schema + b"}", size), size)


@case("list: a page of icons as data URLs", size=10 * MB)
async def icons(meter: Meter, size: int) -> None:
    icon = b'{"src":"data:image/png;base64,' + b"A" * 20_000 + b'"}'
    await listed(meter, page("tools", b'{"name":"t","inputSchema":{},"icons":[' + icon + b"]}", size), size)


@case("completion: one value of 10 MB", size=10 * MB)
async def completion(meter: Meter, size: int) -> None:
    await answered(meter, "completion/complete", b'{"completion":{"values":["' + b"v" * size + b'"]}}')


def _schema_case(name: str, raw: bytes) -> None:
    @work_case(f"schema: {name}")
    def _made() -> tuple[int, Work]:
        from mcphost.sandbox.schema_limits import find_external_reference, find_schema_problem, find_size_problem

        checks: tuple[Callable[[bytes], str], ...] = (find_size_problem, find_schema_problem, find_external_reference)
        for check in checks:
            check(b'{"type":"object"}')

        async def work() -> object:
            return find_size_problem(raw) or [check(raw) for check in checks]

        return len(raw), work


_schema_case("250 kB of properties", b'{"properties":{' + b",".join(b'"p%d":{}' % n for n in range(20_000)) + b"}}")
_schema_case("250 kB of references", b'{"allOf":[' + b",".join([b'{"$ref":"#"}'] * 18_000) + b"]}")
_schema_case("nested as deep as it goes", b'{"not":' * 30_000 + b"{}" + b"}" * 30_000)


def _template_case(name: str, template: str) -> None:
    @work_case(f"resource template: {name}")
    def _made() -> tuple[int, Work]:
        from mcphost.errors import UsageError
        from mcphost.host.servers.features import required_variables, template_variables

        template_variables("a:{b}")

        async def work() -> object:
            try:
                return template_variables(template), required_variables(template)
            except UsageError as error:
                return error.message

        return len(template), work


_template_case("8 kB of variables", "a:" + "{b,c}" * 1_600)
_template_case("8 kB of open braces", "a:" + "{" * 8_000)
_template_case("1 MB of template", "a:" + "{b}" * 330_000)


def _settings_case(name: str, text: str) -> None:
    @work_case(f"config.toml: {name}")
    def _made() -> tuple[int, Work]:
        from mcphost.errors import ConfigError
        from tests.parsed_settings import parse_settings

        parse_settings('theme = "dark"\n', "config.toml", print)

        async def work() -> object:
            import anyio.to_thread

            problems: list[str] = []

            def read() -> object:
                try:
                    return parse_settings(text, "config.toml", problems.append)
                except ConfigError as error:
                    return error.message

            return await anyio.to_thread.run_sync(read), problems

        return len(text), work


_settings_case("nesting", "a = " + "[" * 100_000)
_settings_case("very many keys", "".join(f"k{n} = 1\n" for n in range(28_000)))
_settings_case("as many keys as are read", "".join(f"k{n} = 1\n" for n in range(5_900)))
_settings_case("as many tables as are read", "".join(f"[t{n}]\n" for n in range(5_900)))
_settings_case("one key of 120,000 parts", "a." * 120_000 + "a = 1")
_settings_case("as many dotted keys as are read", "".join(f"k{n}." + "a." * 48 + "a = 1\n" for n in range(200)))
_settings_case("as many escapes as are read", 'a = "' + "\\n" * 11_900 + '"')
_settings_case("comments", "#\n" * 120_000)
_settings_case("quotes", 'a = """' + '"" ' * 80_000 + '"""')
_settings_case("strings", 'a = "' + "\\u0041" * 40_000 + '"')


def _token_case(name: str, body: bytes) -> None:
    @work_case(f"sign-in: a token reply of {name}")
    def _made() -> tuple[int, Work]:
        from mcphost.auth.oauth_http import OAuthResponse
        from mcphost.auth.tokens import parse_token_response
        from mcphost.errors import McpHostError

        async def work() -> object:
            try:
                return parse_token_response(
                    OAuthResponse("https://a.example/token", 200, {}, body), "https://a.example"
                )
            except McpHostError as error:
                return error.message

        return len(body), work


_token_case("one long token", b'{"token_type":"Bearer","access_token":"' + b"t" * MB + b'"}')
_token_case("very many values", b'{"token_type":"Bearer","access_token":"t","x":[' + b"[]," * 330_000 + b"[]]}")
_token_case("many scopes", b'{"token_type":"Bearer","access_token":"t","scope":"' + b"a " * 500_000 + b'"}')


async def _connections(port: int, count: int, send: bytes) -> int:
    import anyio

    async def one() -> None:
        try:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(send)
                while True:
                    await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
            return

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
    return count


def _callback_case(name: str, count: int, send: bytes) -> None:
    @case(f"callback: {name}", size=count * len(send))
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.auth.callback_server import run_callback_server

        async with run_callback_server() as callback:
            await _connections(callback.port, 1, b"\r\n\r\n")
            with meter.measuring(size):
                await _connections(callback.port, count, send)


_callback_case("300 connections with long request lines", 300, b"GET /" + b"a" * 20_000)
_callback_case("200 connections with many parameters", 200, b"GET /callback?" + b"a=b&" * 3_900 + b" HTTP/1.1\r\n\r\n")


def _kept_case(name: str, body: bytes) -> None:
    @work_case(f"conversation read back: {name}")
    def _made() -> tuple[int, Work]:
        from mcphost.store.search_index import decode_message

        async def work() -> object:
            return decode_message(body)

        return len(body), work


_kept_case("a message of 10 MB", b'{"role":"user","parts":[{"type":"text","text":"' + b"a" * 10 * MB + b'"}]}')
_kept_case("100,000 parts", b'{"role":"user","parts":[' + b",".join([b'{"type":"text","text":""}'] * 100_000) + b"]}")


@case("session: 20 forms of 15 MB at the same time", size=20 * 15 * MB)
async def open_questions(meter: Meter, size: int) -> None:
    import anyio

    from mcphost.host.audit.audit_log import create_in_memory_log
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.server_requests.request_handler import ServerRequestHandler, ServerRequestHandlerFactory
    from mcphost.protocol.server_requests import ServerRequestRejection
    from mcphost.protocol.tools import CallTool

    class NeverAnswers(RefusingFrontend):
        kinds = frozenset({"fill_form"})

        async def ask(self, question: Any) -> Any:
            await anyio.sleep_forever()

    rejected: list[str] = []
    all_rejected = anyio.Event()

    class Handler(ServerRequestHandler):
        async def answer(self, request: Any, context: Any) -> Any:
            result = await super().answer(request, context)
            assert isinstance(result, ServerRequestRejection)
            rejected.append(result.message)
            if len(rejected) == 20:
                all_rejected.set()
            return result

    nothing: Any = None
    factory = ServerRequestHandlerFactory(NeverAnswers(), nothing, nothing, print, create_in_memory_log())
    request = b'{"jsonrpc":"2.0","id":"a%d","method":"elicitation/create","params":%s}\n'
    params = b'{"message":"m","requestedSchema":{"type":"object","$comment":"' + b"c" * (size // 20) + b'"}}'
    flood = b"".join(request % (number, params) for number in range(20))
    answers = {"tools/call": b'{"content":[]}}\n' + flood + b'{"jsonrpc":"2.0","id":0,"result":{}'}
    handler = Handler("s", factory, {}, str, str)
    async with session_with(answers, LISTS, responder=handler) as session:
        del answers, flood
        with meter.measuring(size):
            await session.request(CallTool("x"))
            await all_rejected.wait()
        print(rejected[:2], file=sys.stderr)
