"""Attacks with server requests (forms, URLs, sampling, roots) in both protocol eras, also at unexpected moments."""

from contextlib import suppress
from typing import Any
from unittest.mock import patch

import anyio

from mcphost.config.schema import RootConfig
from mcphost.errors import McpHostError
from mcphost.host.questions.questions import (
    Accept,
    AcceptUrl,
    AllowOnce,
    ApproveUnchanged,
    Decline,
    Deny,
    FillForm,
    ReviewSampling,
    ShareOnce,
    ShareRoots,
    VisitUrl,
)
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.consent_attacks.attack import HANDSHAKE, MODERN, AttackSetup, RecordingModel, SelectiveFrontend, attack

ServerRequest = list[Any]
URL = "https://example.com/pay?x=1"


def attack_form_request(*names: str, **properties: Any) -> ServerRequest:
    """Return an elicitation request for a form with this message and these fields."""
    fields = {**{name: {"type": "string"} for name in names}, **properties}
    schema = {"type": "object", "properties": fields}
    return ["elicitation/create", {"message": "?", "requestedSchema": schema}]


def attack_url_request(url: str = URL) -> ServerRequest:
    """Return an elicitation request that asks the user to visit this URL."""
    return ["elicitation/create", {"mode": "url", "message": "?", "url": url, "elicitationId": "e1"}]


def attack_sampling_request(**more: Any) -> ServerRequest:
    """Return a sampling request."""
    said = {"role": "user", "content": {"type": "text", "text": "Capital of France?"}}
    return ["sampling/createMessage", {"messages": [said], "maxTokens": 100, **more}]


ROOTS: ServerRequest = ["roots/list", {}]


async def call_manually(
    setup: AttackSetup,
    frontend: SelectiveFrontend,
    *steps: Any,
    model: Any = None,
    revision: str = HANDSHAKE,
    **more: Any,
) -> None:
    """Call the server's tool as the user would; errors end the call silently.

    Each step of the server is a set of requests, keyed by name, or a complete result.
    """
    plan = [step if "asks" in step or "answer" in step else {"asks": step} for step in steps]
    server = setup.stdio_server("s", "t", revision=revision, calls={"t": plan})
    async with setup.open_host(model, frontend, server, **more) as host:
        try:
            await host.tools.call("s", "t", {})
        except McpHostError:
            return


@attack("A form full of defaults is declined: the defaults go out as its content.", "tool t")
async def defaults_of_a_declined_form(setup: AttackSetup) -> None:
    request = attack_form_request(name={"type": "string", "default": "me"}, pay={"type": "boolean", "default": True})
    await call_manually(setup, SelectiveFrontend(fill_form=[Decline()]), {"a": request})


@attack(
    "A form that was accepted as it stood goes out with its defaults: the ledger has what went out.", "tool t", "form"
)
async def defaults_of_an_accepted_form(setup: AttackSetup) -> None:
    request = attack_form_request(name={"type": "string", "default": "me"}, pay={"type": "boolean", "default": True})
    await call_manually(setup, SelectiveFrontend(fill_form=[Accept({"pay": False})]), {"a": request})


@attack("The same form in the stateless era, left without an answer.", "tool t")
async def defaults_of_a_form_that_was_left(setup: AttackSetup) -> None:
    request = attack_form_request(pay={"type": "boolean", "default": True})
    await call_manually(setup, SelectiveFrontend(), {"a": request}, revision=MODERN)


@attack("A front fills a form with what the form has no place for.", "tool t")
async def content_that_does_not_fit(setup: AttackSetup) -> None:
    await call_manually(
        setup,
        SelectiveFrontend(fill_form=[Accept({"other": "x", "n": "no number"})]),
        {"a": attack_form_request(n={"type": "integer"})},
    )


@attack("A front answers a form, and the model's two reviews, with something that is no answer.", *["tool t"] * 4)
async def unanswered_server_requests(setup: AttackSetup) -> None:
    for answer in (None, True, AcceptUrl(), AllowOnce()):
        frontend = SelectiveFrontend(fill_form=[answer], review_sampling=[answer], share_roots=[answer])
        asks = {"a": attack_form_request("x"), "b": attack_sampling_request(), "c": ROOTS}
        await call_manually(
            setup,
            frontend,
            asks,
            model=RecordingModel(setup, text_round("Paris")),
            roots=(RootConfig(path=str(setup.folder)),),
        )
        assert len(frontend.asked) == 3


@attack("One form was filled; the next one comes under the same key and wants the same field.", "tool t", "form")
async def reused_request_key(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(fill_form=[Accept({"name": "me"})])
    await call_manually(
        setup,
        frontend,
        {"a": attack_form_request("name")},
        {"a": attack_form_request("name", "password")},
        revision=MODERN,
    )
    assert len(frontend.questions_of(FillForm)) == 2


@attack("Round after round of forms in the stateless era, until somebody gives in; one was filled.", "tool t", "form")
async def endless_rounds(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(fill_form=[Accept({"x": "1"}), Decline()])
    await call_manually(setup, frontend, *({"a": attack_form_request("x")} for _ in range(15)), revision=MODERN)


@attack("A state without a question sends the call round and round.", "tool t")
async def state_without_requests(setup: AttackSetup) -> None:
    steps = [{"asks": {}, "state": "x" * 10_000} for _ in range(50)]
    with patch("mcphost.client.input_required.MAX_DELAY", 0.1):  # tests the limit of ten rounds, not the half minute
        await call_manually(setup, SelectiveFrontend(), *steps, revision=MODERN)
    assert len([effect for effect in setup.effects() if effect["what"] == "again"]) <= 10


@attack(
    "A state that names another call, and more arguments beside it, to be sent back with the call.", "tool t", "form"
)
async def foreign_state(setup: AttackSetup) -> None:
    step = {
        "asks": {"a": attack_form_request("x")},
        "state": '{"name": "wipe"}',
        "more": {"arguments": {"all": True}, "name": "wipe"},
    }
    await call_manually(setup, SelectiveFrontend(fill_form=[Accept({"x": "1"})]), step, revision=MODERN)
    assert [effect["arguments"] for effect in setup.effects() if effect["what"] == "again"] == [{}]


@attack("The rounds of the stateless era carry requests that are no questions: call a tool, open a page.", "tool t")
async def unsupported_requests(setup: AttackSetup) -> None:
    asks = {"a": ["tools/call", {"name": "t", "arguments": {}}], "b": ["browser/open", {"url": URL}]}
    await call_manually(setup, SelectiveFrontend(fill_form=[Accept()]), asks, revision=MODERN)


@attack("The list of tools itself answers with questions.")
async def questions_while_listing(setup: AttackSetup) -> None:
    asks = {"a": {"method": "elicitation/create", "params": attack_form_request("x")[1]}}
    answer = {"resultType": "input_required", "inputRequests": asks, "requestState": "1/"}
    frontend = SelectiveFrontend(fill_form=[Accept({"x": "1"})])
    server = setup.stdio_server("s", "t", revision=MODERN, list=answer)
    async with setup.open_host(None, frontend, server, ready=False) as host:
        with suppress(McpHostError):
            await host.tools.call("s", "t", {})
    assert frontend.asked == []


@attack("An address that was declined is opened.", "tool t")
async def address_declined(setup: AttackSetup) -> None:
    await call_manually(setup, SelectiveFrontend(visit_url=[Decline()]), {"a": attack_url_request()})


@attack("Addresses that no browser should get: javascript, file, data, a command.", *["tool t"] * 5)
async def unsupported_addresses(setup: AttackSetup) -> None:
    for url in (
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "--version",
        "https://a@b\u202e.com\n",
    ):
        frontend = SelectiveFrontend(visit_url=[AcceptUrl()])
        await call_manually(setup, frontend, {"a": attack_url_request(url)})
        assert frontend.questions_of(VisitUrl) == [], url


@attack("The server says that the user is done at an address before anybody agreed to go there.", "tool t")
async def completed_before_consent(setup: AttackSetup) -> None:
    answer = {"error": {"code": -32042, "message": "?", "data": {"elicitations": [
        {"mode": "url", "message": "?", "url": URL, "elicitationId": "e1"}]}}}  # fmt: skip
    done = {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e1"}}

    def late(question: VisitUrl) -> Any:
        setup.write_plan("s", "t", push=[done])
        return question.refusal()

    await call_manually(setup, SelectiveFrontend(visit_url=[late]), {"answer": answer})
    assert not [effect for effect in setup.effects() if effect["what"] == "again"]


@attack("An error that wants an address visited: it was agreed to, and no more than that is opened.",
     "tool t", f"browser {URL}")  # fmt: skip
async def one_of_two_addresses(setup: AttackSetup) -> None:
    expected = [{"mode": "url", "message": "?", "url": url, "elicitationId": url} for url in (URL, URL + "&y")]
    answer = {"error": {"code": -32042, "message": "?", "data": {"elicitations": expected}}}
    await call_manually(setup, SelectiveFrontend(visit_url=[AcceptUrl()]), {"answer": answer})


@attack("The model is asked though nobody said yes.", "tool t")
async def sampling_refused(setup: AttackSetup) -> None:
    await call_manually(
        setup, SelectiveFrontend(), {"a": attack_sampling_request()}, model=RecordingModel(setup, text_round("Paris"))
    )


@attack("The model was asked with a yes; its answer leaves though that was refused.", "tool t", "asked")
async def reply_refused(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(review_sampling=[ApproveUnchanged()], review_reply=[Deny()])
    await call_manually(
        setup, frontend, {"a": attack_sampling_request()}, model=RecordingModel(setup, text_round("Paris"))
    )


@attack("A flood of samplings of one call: a yes to one of them is a yes to one.", "tool t", "asked", "sampling")
async def flood_of_samplings(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(
        review_sampling=[ApproveUnchanged()], review_reply=[ApproveUnchanged(), ApproveUnchanged()]
    )
    asks = {f"k{number}": attack_sampling_request() for number in range(30)}
    await call_manually(setup, frontend, asks, model=RecordingModel(setup, *(text_round("Paris") for _ in asks)))


@attack("In a sampling the model calls a tool by the name of one that the host has.", "tool t", "asked", "sampling")
async def tools_in_a_sampling(setup: AttackSetup) -> None:
    tools = [{"name": "s__t", "description": "x", "inputSchema": {"type": "object"}}]
    frontend = SelectiveFrontend(
        review_sampling=[ApproveUnchanged()], review_reply=[ApproveUnchanged()], approve_tool=[AllowOnce()]
    )
    await call_manually(
        setup,
        frontend,
        {"a": attack_sampling_request(tools=tools)},
        model=RecordingModel(setup, tool_round(("s__t", {}))),
    )


@attack("A sampling within a sampling: the second waits for the first one's reply, and has no yes of its own.",
     "tool t", "asked", "sampling")  # fmt: skip
async def nested_sampling(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(review_sampling=[ApproveUnchanged()], review_reply=[ApproveUnchanged()])
    model = RecordingModel(setup, text_round("Paris"), text_round("Rome"))
    request = {"a": attack_sampling_request()}
    await call_manually(setup, frontend, request, request, revision=MODERN, model=model)
    assert len(frontend.questions_of(ReviewSampling)) == 2


@attack("Folders that were shared once are asked for again.", "tool t", "roots")
async def folders_requested_again(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(share_roots=[ShareOnce()])
    await call_manually(
        setup, frontend, {"a": ROOTS}, {"a": ROOTS}, revision=MODERN, roots=(RootConfig(path=str(setup.folder)),)
    )


@attack("The folders change while the question about them is open: a new one was not shown, and one is gone.",
     "tool t", "roots")  # fmt: skip
async def folders_changed_while_asked(setup: AttackSetup) -> None:
    old, gone, new, stays = (setup.folder / name for name in ("old", "gone", "new", "stays"))
    for item in (old, gone, stays):
        item.mkdir()
    link = setup.folder / "link"
    link.symlink_to(old)

    def changed(_: ShareRoots) -> ShareOnce:
        gone.rmdir()
        new.mkdir()
        link.unlink()
        link.symlink_to(new)
        return ShareOnce()

    named = tuple(RootConfig(path=str(path)) for path in (link, gone, new, stays))
    await call_manually(setup, SelectiveFrontend(share_roots=[changed]), {"a": ROOTS}, roots=named)
    (told,) = [effect["content"] for effect in setup.effects() if effect["what"] == "roots"]
    assert [root["uri"] for root in told] == [stays.as_uri()]


@attack("A form in the middle of a sampling in the middle of a call: the yes to the sampling is none to the form.",
     "tool t", "asked", "sampling")  # fmt: skip
async def form_during_sampling(setup: AttackSetup) -> None:
    plan = [{"asks": {"a": attack_sampling_request()}}]

    async def between(_: ReviewSampling) -> ApproveUnchanged:
        ask = {"id": "f", "method": attack_form_request()[0], "params": attack_form_request("x")[1]}
        setup.write_plan("s", "t", calls={"t": plan}, push=[ask])
        await wait_for_refusals(setup, 1)
        return ApproveUnchanged()

    frontend = SelectiveFrontend(review_sampling=[between], review_reply=[ApproveUnchanged()])
    await call_manually(setup, frontend, *plan, model=RecordingModel(setup, text_round("Paris")))
    assert len(frontend.questions_of(FillForm)) == 1


@attack("Asks outside of any call, when nobody waits for anything.", "tool t")
async def unrelated_request(setup: AttackSetup) -> None:
    asks = [
        {"id": f"x{n}", "method": ask[0], "params": ask[1]}
        for n, ask in enumerate((attack_form_request("x"), attack_sampling_request(), attack_url_request()))
    ]
    server = setup.stdio_server("s", "t")
    async with setup.open_host(RecordingModel(setup, text_round("Paris")), SelectiveFrontend(), server) as host:
        setup.write_plan("s", "t", push=asks)
        await wait_for_refusals(setup, 3)
        await host.tools.call("s", "t", {})


async def wait_for_refusals(setup: AttackSetup, count: int) -> None:
    """Wait until the server has received *count* refusals."""
    with anyio.fail_after(10):
        while len([effect for effect in setup.effects() if effect["what"] == "refused"]) < count:
            await anyio.to_thread.run_sync(setup.effect_file.stat)


@attack("The server sends requests that are the host's own: call a tool, list, open a page.", "tool t")
async def host_request_methods(setup: AttackSetup) -> None:
    methods = ("tools/call", "tools/list", "browser/open", "process/start", "elicitation/accept")
    asks = [{"id": f"x{n}", "method": name, "params": {"name": "t", "url": URL}} for n, name in enumerate(methods)]
    server = setup.stdio_server("s", "t")
    async with setup.open_host(None, SelectiveFrontend(fill_form=[Accept()]), server) as host:
        setup.write_plan("s", "t", push=asks)
        await wait_for_refusals(setup, len(methods))
        await host.tools.call("s", "t", {})


@attack("A form is taken back while it is shown, and the yes comes after that.", "tool t")
async def late_form_answer(setup: AttackSetup) -> None:
    gone = anyio.Event()

    async def late(_: FillForm) -> Accept:
        setup.write_plan("s", "t", push=[{"method": "notifications/cancelled", "params": {"requestId": "x"}}])
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            gone.set()
        return Accept({"x": "1"})

    server = setup.stdio_server("s", "t")
    async with setup.open_host(None, SelectiveFrontend(fill_form=[late]), server) as host:
        setup.write_plan(
            "s", "t", push=[{"id": "x", "method": attack_form_request()[0], "params": attack_form_request("x")[1]}]
        )
        await gone.wait()
        await host.tools.call("s", "t", {})


@attack("The turn is stopped while a call is shown, and the yes comes after that.")
async def late_call_answer(setup: AttackSetup) -> None:
    hosts: list[Any] = []

    async def late(_: Any) -> AllowOnce:
        hosts[0].conversation.stop()
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        return AllowOnce()

    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"))
    async with setup.open_host(model, SelectiveFrontend(approve_tool=[late]), setup.stdio_server("s", "t")) as host:
        hosts.append(host)
        await host.conversation.send("go")


async def remove_during_question(setup: AttackSetup, kind: str, request: Any, revision: str) -> None:
    """Remove the server while its question is open, and agree after that.

    *request* is the server's request, or a complete result of its tool.
    """
    opened, removed = anyio.Event(), anyio.Event()

    async def agree_late(_question: Any) -> Any:
        opened.set()
        await removed.wait()
        return AcceptUrl() if kind == "visit_url" else ApproveUnchanged()

    frontend = SelectiveFrontend(approve_tool=[AllowOnce()], **{kind: [agree_late]})
    step = request if isinstance(request, dict) else {"asks": {"a": request}}
    server = setup.stdio_server("s", "t", revision=revision, calls={"t": [step]})
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), text_round("asked by a server that is gone"))
    async with setup.open_host(model, frontend, server) as host, anyio.create_task_group() as tasks:

        async def send() -> None:
            await host.conversation.send("go")  # it ends, although nobody has answered
            removed.set()

        tasks.start_soon(send)
        await opened.wait()
        host.servers.remove("s")
    assert len(model.requests) == 2


@attack("A server is removed while it asks for a visit to an address, and the yes comes after that.", *["tool t"] * 2)
async def late_visit_for_a_removed_server(setup: AttackSetup) -> None:
    for revision in (HANDSHAKE, MODERN):
        await remove_during_question(setup, "visit_url", attack_url_request(), revision)


@attack("A server is removed while it asks to use the model, and the yes comes after that.", *["tool t"] * 2)
async def late_sampling_for_a_removed_server(setup: AttackSetup) -> None:
    for revision in (HANDSHAKE, MODERN):
        await remove_during_question(setup, "review_sampling", attack_sampling_request(), revision)


@attack("A server is removed while its error wants an address visited, and the yes comes after that.", "tool t")
async def late_visit_after_an_error(setup: AttackSetup) -> None:
    wanted = [{"mode": "url", "message": "?", "url": URL, "elicitationId": "e1"}]
    answer = {"error": {"code": -32042, "message": "?", "data": {"elicitations": wanted}}}
    await remove_during_question(setup, "visit_url", {"answer": answer}, HANDSHAKE)
