"""Tests for forms and URLs requested by a server: how the user is asked, and the reply, in both protocol eras."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from mcphost.client.capabilities import capabilities_for
from mcphost.client.session import ServerRequestContext
from mcphost.errors import ConsentDenied, MalformedMessage, RequestRefused
from mcphost.host.events import CallEnded
from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.frontend import MAX_SERVER_QUESTIONS, RefusingFrontend
from mcphost.host.questions.questions import Accept, AcceptUrl, Cancel, Decline, FillForm, RetryCall, VisitUrl
from mcphost.host.server_requests.elicitation import MAX_NOTICES, MAX_PENDING, ElicitationHandler
from mcphost.protocol.jsonrpc import ErrorData, JsonRpcErrorResponse
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import Elicit, ServerRequestRejection, UrlElicitationRequired
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw, encode
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.asking_server import (
    BOTH_ERAS,
    HANDSHAKE,
    STATELESS,
    AskingServer,
    collect_replies,
    form_request,
    open_asking_host,
    url_request,
)

pytestmark = pytest.mark.anyio
NAME = {"name": {"type": "string", "description": "Your name"}}
PAGE = "https://example.com/connect?id=1"


@pytest.mark.req("sec.consent.data")
@pytest.mark.req("elic.wire.legacy")
@pytest.mark.req("elic.wire.modern")
@pytest.mark.req("elic.actions")
@pytest.mark.req("elic.content-accept-only")
@pytest.mark.req("mrtr.decline")
@pytest.mark.parametrize("revision", BOTH_ERAS)
@pytest.mark.parametrize(
    ("verdict", "reply"),
    [
        (Accept({"name": "Ada"}), {"action": "accept", "content": {"name": "Ada"}}),
        (Decline(), {"action": "decline"}),
        (Cancel(), {"action": "cancel"}),
    ],
)
async def test_accept_decline_and_cancel_of_a_form_reach_the_server_as_such(
    revision: str, verdict: Any, reply: dict[str, Any], tmp_path: Path
) -> None:
    replies, questions = await collect_replies(tmp_path, revision, {"a": form_request(NAME)}, verdict)
    assert replies == {"a": {"result": reply}}
    assert isinstance(questions[0], FillForm)


@pytest.mark.req("elic.which-server")
@pytest.mark.req("elic.why")
@pytest.mark.req("elic.form.mode-absent")
@pytest.mark.req("mrtr.trust")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_the_question_shows_the_asker_the_request_and_the_reason(revision: str, tmp_path: Path) -> None:
    _, (question,) = await collect_replies(tmp_path, revision, {"a": form_request(NAME)}, Decline())
    assert question == FillForm(
        server="peer",
        number=1,
        why="requested by its tool ask",
        message="Who are you?",
        fields=(Field(name="name", kind="text", description="Your name"),),
    )


@pytest.mark.req("elic.form.empty")
@pytest.mark.req("elic.form.defaults")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_an_empty_form_is_confirmed_with_an_empty_content(revision: str, tmp_path: Path) -> None:
    replies, _ = await collect_replies(
        tmp_path,
        revision,
        {"a": form_request(), "b": form_request({"n": {"type": "number", "default": 95.5}})},
        Accept(),
        Accept(),
    )
    assert replies == {
        "a": {"result": {"action": "accept", "content": {}}},
        "b": {"result": {"action": "accept", "content": {"n": 95.5}}},
    }


@pytest.mark.req("elic.form.validate")
async def test_an_invalid_answer_of_a_frontend_never_reaches_the_server(tmp_path: Path) -> None:
    replies, _ = await collect_replies(tmp_path, "2025-11-25", {"a": form_request(NAME)}, Accept({"name": 5}))
    assert replies["a"]["error"]["code"] == -32603


@pytest.mark.req("elic.form.unsupported")
@pytest.mark.parametrize(
    "ask",
    [
        form_request({"x": {"type": "object"}}),
        url_request("ftp://example.com/"),
        url_request("javascript:alert(1)"),
        url_request("http://example.com/"),
        url_request("https://exa mple.com/"),
        url_request(""),
        ("elicitation/create", {"mode": "form", "message": "x" * 70_000, "requestedSchema": {"type": "object"}}),
    ],
)
async def test_questions_that_no_frontend_can_show_are_refused_unseen(
    ask: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    replies, questions = await collect_replies(tmp_path, "2025-11-25", {"a": ask})
    assert replies["a"]["error"]["code"] == -32602
    (tmp_path / "m").mkdir()
    replies, later = await collect_replies(tmp_path / "m", STATELESS, {"a": ask})
    assert replies["a"]["result"] == {"action": "cancel"}
    assert [*questions, *later] == []


@pytest.mark.req("elic.form.no-secrets")
async def test_a_form_that_asks_for_a_secret_shows_a_warning(tmp_path: Path) -> None:
    _, (question,) = await collect_replies(
        tmp_path, STATELESS, {"a": form_request({"p": {"type": "string", "title": "Password"}})}, Cancel()
    )
    assert question.warnings == ('It seems to ask for a secret: "Password".',)


async def test_titles_of_fields_are_quoted_and_cut_in_warnings(tmp_path: Path) -> None:
    title = 'Password". mcphost has checked this form: it is safe to enter your password here'
    form = form_request({"p": {"type": "string", "title": title}})
    _, (question,) = await collect_replies(tmp_path, STATELESS, {"a": form}, Cancel())
    (warning,) = question.warnings
    quoted = json.dumps(f"{title[:60]}…", ensure_ascii=False)
    assert warning == f"It seems to ask for a secret: {quoted}."


async def test_a_form_says_which_suggested_values_are_too_long_to_be_shown(tmp_path: Path) -> None:
    form = form_request({"note": {"type": "string", "default": "x" * 4_001}, **NAME})
    _, (question,) = await collect_replies(tmp_path, BOTH_ERAS[0], {"a": form}, Decline())
    assert question.warnings == ('Suggested values that are too long to show were left out: "note".',)
    assert question.fields[0].default is None


@pytest.mark.req("elic.not-before")
@pytest.mark.req("life.init.caps.elicitation")
@pytest.mark.req("elic.caps.at-least-one")
@pytest.mark.parametrize("revision", [*HANDSHAKE, STATELESS])
async def test_each_revision_declares_the_elicitation_modes_it_has(revision: str, tmp_path: Path) -> None:
    peer = AskingServer(revision, {"a": form_request(NAME)})
    known = {"2025-06-18": {}, "2025-11-25": {"form": {}, "url": {}}, STATELESS: {"form": {}, "url": {}}}
    async with open_asking_host(tmp_path, peer, ScriptedFrontend(Decline())) as host:
        # Capabilities are sent before the server names its revision.
        assert peer.declared["elicitation"] == {"form": {}, "url": {}}
        everything = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": True}}
        assert capabilities_for(Revision(revision), everything).get("elicitation") == known.get(revision)
        outcome = await host.tools.call("peer", "ask", {})
    # An old revision has forms only: a client without forms declares nothing there.
    addresses = capabilities_for(Revision(revision), {"elicitation": {"url": {}}}).get("elicitation")
    assert addresses == {**known, "2025-06-18": None}.get(revision) if revision < "2025-11-25" else {"url": {}}
    if revision in known:
        assert "decline" in outcome.text
    else:
        assert "-32601" in outcome.text


class FormFrontend(ScriptedFrontend):
    """A front end that can only ask for forms."""

    kinds = frozenset({FillForm.KIND})
    who = "person"


@pytest.mark.req("elic.mode-undeclared")
@pytest.mark.parametrize("ask", [url_request(PAGE), ("elicitation/create", {"mode": "video", "message": "?"})])
async def test_a_mode_that_was_not_declared_is_refused_without_a_question(
    ask: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    peer, frontend = AskingServer("2025-11-25", {"a": ask}), FormFrontend()
    async with open_asking_host(tmp_path, peer, frontend) as host:
        assert peer.declared["elicitation"] == {"form": {}}
        assert '"code": -32602' in (await host.tools.call("peer", "ask", {})).text
    peer = AskingServer(STATELESS, {"a": ask})
    async with open_asking_host(tmp_path, peer, frontend) as host:
        with pytest.raises(MalformedMessage, match="is not supported"):
            await host.tools.call("peer", "ask", {})
    assert len(peer.calls) == 1
    assert frontend.asked == []


@pytest.mark.req("elic.mode-undeclared")
async def test_a_server_of_a_revision_without_addresses_gets_no_question_about_one(tmp_path: Path) -> None:
    replies, questions = await collect_replies(tmp_path, "2025-06-18", {"a": url_request(PAGE)}, AcceptUrl())
    assert replies["a"]["error"]["code"] == -32602
    assert questions == []


@pytest.mark.req("life.init.caps.sampling")
@pytest.mark.req("life.init.caps.roots")
@pytest.mark.req("mrtr.undeclared")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_noninteractive_runs_declare_no_elicitation(revision: str, tmp_path: Path) -> None:
    peer = AskingServer(revision, {"a": form_request(NAME)})
    async with open_asking_host(tmp_path, peer, RefusingFrontend()) as host:
        assert not {"elicitation", "sampling", "roots"} & set(peer.declared)
        if revision == STATELESS:
            with pytest.raises(MalformedMessage, match="elicitation/create"):
                await host.tools.call("peer", "ask", {})
        else:
            assert "-32601" in (await host.tools.call("peer", "ask", {})).text


# -- addresses
@pytest.mark.req("elic.url.consent")
@pytest.mark.req("elic.url.accept-meaning")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_a_url_is_shown_in_full_with_its_host_and_accepted_without_content(revision: str, tmp_path: Path) -> None:
    replies, (question,) = await collect_replies(tmp_path, revision, {"a": url_request(PAGE)}, AcceptUrl())
    assert replies == {"a": {"result": {"action": "accept"}}}
    assert (question.url, question.host, question.elicitation, question.warnings) == (PAGE, "example.com", "e1", ())
    assert (question.server, question.message) == ("peer", "Go there.")


@pytest.mark.req("elic.url.no-prefetch")
async def test_only_the_browser_connects_to_an_elicited_url(tmp_path: Path) -> None:
    came: list[object] = []

    async def note(stream: SocketStream) -> None:
        came.append(stream.extra(SocketAttribute.remote_address))
        await stream.aclose()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, note)
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/"
        replies, questions = await collect_replies(tmp_path, STATELESS, {"a": url_request(url)}, AcceptUrl())
        tasks.cancel_scope.cancel()
    assert replies == {"a": {"result": {"action": "accept"}}}
    assert [question.url for question in questions] == [url]
    assert came == []


@pytest.mark.req("elic.actions")
@pytest.mark.parametrize("revision", BOTH_ERAS)
@pytest.mark.parametrize(("verdict", "action"), [(Decline(), "decline"), (Cancel(), "cancel")])
async def test_an_address_can_be_declined_or_left(revision: str, verdict: Any, action: str, tmp_path: Path) -> None:
    replies, _ = await collect_replies(tmp_path, revision, {"a": url_request(PAGE)}, verdict)
    assert replies == {"a": {"result": {"action": action}}}


@pytest.mark.req("elic.url.no-prefetch")
@pytest.mark.req("elic.actions")
async def test_the_browser_gets_the_address_after_consent_alone(tmp_path: Path) -> None:
    opened: list[str] = []

    async def open_url(url: str) -> bool:
        opened.append(url)
        return True

    peer, frontend = AskingServer(STATELESS, {"a": url_request(PAGE)}), ScriptedFrontend(Decline(), AcceptUrl())
    async with open_asking_host(tmp_path, peer, frontend, open_url=open_url) as host:
        assert "decline" in (await host.tools.call("peer", "ask", {})).text
        assert opened == []
        assert "accept" in (await host.tools.call("peer", "ask", {})).text
    assert opened == [PAGE]


@pytest.mark.req("elic.actions")
@pytest.mark.parametrize(("second", "action"), [(AcceptUrl(), "accept"), (Decline(), "decline"), (Cancel(), "cancel")])
async def test_without_a_browser_the_user_says_whether_they_opened_the_address_elsewhere(
    second: Any, action: str, tmp_path: Path
) -> None:
    opened: list[str] = []

    async def open_url(url: str) -> bool:
        opened.append(url)
        return False

    peer, frontend = AskingServer(STATELESS, {"a": url_request(PAGE)}), ScriptedFrontend(AcceptUrl(), second)
    async with open_asking_host(tmp_path, peer, frontend, open_url=open_url) as host:
        assert f'"{action}"' in (await host.tools.call("peer", "ask", {})).text
    assert opened == [PAGE]
    assert [question.is_browser_missing for question in frontend.asked] == [False, True]  # type: ignore[attr-defined]


@pytest.mark.req("elic.url.id")
async def test_an_address_needs_its_id_in_the_handshake_era_only(tmp_path: Path) -> None:
    ask = ("elicitation/create", {"mode": "url", "message": "Go.", "url": PAGE})
    replies, _ = await collect_replies(tmp_path, "2025-11-25", {"a": ask})
    assert replies["a"]["error"]["code"] == -32602
    (tmp_path / "m").mkdir()
    replies, _ = await collect_replies(tmp_path / "m", STATELESS, {"a": ask}, AcceptUrl())
    assert replies["a"]["result"] == {"action": "accept"}


@pytest.mark.req("elic.url.complete")
@pytest.mark.req("elic.url.complete-unknown")
async def test_a_completion_notice_is_reported_once_and_unknown_ids_are_ignored(tmp_path: Path) -> None:
    peer = AskingServer("2025-11-25", {"a": url_request(PAGE)})
    async with open_asking_host(tmp_path, peer, ScriptedFrontend(AcceptUrl())) as host:
        feed = host.events.subscribe()
        await host.tools.call("peer", "ask", {})
        for ident in ("other", "e1", "e1", ""):
            peer.say("notifications/elicitation/complete", elicitationId=ident)
        peer.send_raw(b'{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":5}}')
        await host.tools.call("peer", "plain", {})
        events = [event for event in feed.drain() if type(event).__name__ == "NoticeEvent"]
    assert [event.text for event in events] == ["peer reports that you are done in the browser."]  # type: ignore[attr-defined]


def create_elicitation(frontend: ScriptedFrontend) -> tuple[ElicitationHandler, list[str]]:
    """Return the elicitation handler of one server, and the list of messages that it reports to the user."""
    messages: list[str] = []
    return ElicitationHandler("peer", frontend, lambda text, hint: messages.append(text)), messages


@pytest.mark.parametrize("verdict", [Decline(), Cancel()])
@pytest.mark.parametrize("needed", [True, False], ids=["a call needs it", "asked by itself"])
async def test_completion_of_an_unvisited_url_is_not_reported(verdict: Any, needed: bool) -> None:
    one, told = create_elicitation(ScriptedFrontend(verdict))
    ask, context = Elicit(message="Go.", mode="url", url=PAGE, elicitation_id="e1"), ServerRequestContext()
    await (
        one.visit_required_urls(UrlElicitationRequired((ask,)), "", context) if needed else one.answer(ask, "", context)
    )
    one.on_elicitation_complete("e1")
    assert told == []


async def test_a_server_that_sends_to_address_after_address_is_remembered_with_the_newest_of_them() -> None:
    one, told = create_elicitation(ScriptedFrontend(*[AcceptUrl()] * (MAX_PENDING + 1)))
    for number in range(MAX_PENDING + 1):
        await one.answer(
            Elicit(message="Go.", mode="url", url=PAGE, elicitation_id=f"e{number}"), "", ServerRequestContext()
        )
    one.on_elicitation_complete("e0")
    assert told == []
    one.on_elicitation_complete(f"e{MAX_PENDING}")
    assert told == ["peer reports that you are done in the browser."]


class UrlGateServer(AskingServer):
    """A server whose tool asks the user to visit URLs first, and works once the test sets `open`."""

    def __init__(self, *urls: str) -> None:
        super().__init__("2025-11-25")
        self.urls, self.open = urls, False

    def _call(self, ident: Any, params: dict[str, Any]) -> None:
        if self.open:
            super()._call(ident, params)
            return
        listed = [
            {"mode": "url", "message": "First this.", "url": url, "elicitationId": f"g{number}"}
            for number, url in enumerate(self.urls)
        ]
        self.send(JsonRpcErrorResponse(ident, ErrorData(-32042, "Not yet.", Raw(encode({"elicitations": listed})))))


@pytest.mark.req("elic.url.required-error")
@pytest.mark.req("elic.url.manual-controls")
async def test_a_call_that_needs_addresses_visited_asks_for_each_and_is_repeated_when_the_user_is_done(
    tmp_path: Path,
) -> None:
    peer = UrlGateServer("https://a.example/", "https://b.example/")

    def done(question: RetryCall) -> bool:
        peer.open = True
        return True

    frontend = ScriptedFrontend(AcceptUrl(), AcceptUrl(), done)
    async with open_asking_host(tmp_path, peer, frontend) as host:
        assert (await host.tools.call("peer", "ask", {"k": "v"})).text == "{}"
    assert [type(question) for question in frontend.asked] == [VisitUrl, VisitUrl, RetryCall]
    assert frontend.asked[2].urls == ("https://a.example/", "https://b.example/")  # type: ignore[attr-defined]
    (first, before), (second, after) = peer.calls
    assert first != second
    assert before["arguments"] == after["arguments"] == {"k": "v"}


@pytest.mark.req("elic.url.complete")
async def test_the_call_is_repeated_automatically_when_the_server_reports_completion(tmp_path: Path) -> None:
    peer = UrlGateServer(PAGE)
    frontend = ScriptedFrontend(AcceptUrl())  # the question whether to repeat it is never answered
    async with open_asking_host(tmp_path, peer, frontend) as host, anyio.create_task_group() as group:

        async def finish() -> None:
            while len(frontend.asked) < 2:
                await frontend.asked_now.wait()
            peer.open = True
            peer.say("notifications/elicitation/complete", elicitationId="g0")

        group.start_soon(finish)
        assert (await host.tools.call("peer", "ask", {})).text == "{}"
    assert frontend.waiting == 0


@pytest.mark.parametrize("verdicts", [(Decline(),), (Cancel(),), (AcceptUrl(), False)])
async def test_a_call_whose_address_is_not_visited_is_not_repeated(verdicts: Any, tmp_path: Path) -> None:
    peer = UrlGateServer(PAGE)
    async with open_asking_host(tmp_path, peer, ScriptedFrontend(*verdicts)) as host:
        with pytest.raises(
            ConsentDenied, match="You did not visit it, or cancelled, so the call was not repeated"
        ) as it:
            await host.tools.call("peer", "ask", {})
    assert "Not yet" not in it.value.message, "a server's text would reach the model without a review"
    assert len(peer.calls) == 1


async def test_endless_url_requests_are_reported_as_a_refusal(tmp_path: Path) -> None:
    peer = UrlGateServer(PAGE)
    async with open_asking_host(tmp_path, peer, ScriptedFrontend(*(AcceptUrl(), True) * 3)) as host:
        with pytest.raises(RequestRefused, match="Not yet"):
            await host.tools.call("peer", "ask", {})
    assert len(peer.calls) == 4


@pytest.mark.parametrize("url", ["ftp://x", "http://example.com"])
async def test_an_error_with_invalid_urls_stays_an_error(url: str, tmp_path: Path) -> None:
    peer = UrlGateServer(url)
    frontend = ScriptedFrontend()
    async with open_asking_host(tmp_path, peer, frontend) as host:
        with pytest.raises(RequestRefused, match="Not yet"):
            await host.tools.call("peer", "ask", {})
    peer = UrlGateServer(PAGE)
    (tmp_path / "other").mkdir()
    async with open_asking_host(tmp_path / "other", peer, FormFrontend()) as host:
        with pytest.raises(RequestRefused, match="Not yet"):
            await host.tools.call("peer", "ask", {})
    assert frontend.asked == []


# -- rate and lifetime
@pytest.mark.req("elic.rate-limit")
async def test_a_flood_of_forms_becomes_a_bounded_queue_and_the_rest_is_refused(tmp_path: Path) -> None:
    peer, frontend = AskingServer("2025-11-25"), ScriptedFrontend()
    async with open_asking_host(tmp_path, peer, frontend):
        for number in range(80):
            peer.ask(str(number), *form_request(NAME))
        refused = await peer.until(30)
        assert len(frontend.asked) == 50
        assert all("error" in reply for _, reply in refused)


async def test_forms_that_are_too_big_together_are_refused_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.host.questions.frontend.MAX_SERVER_BYTES", 5_000)
    peer, frontend = AskingServer("2025-11-25"), ScriptedFrontend()
    method, params = form_request(NAME)
    async with open_asking_host(tmp_path, peer, frontend):
        for number in range(6):
            peer.ask(str(number), method, {**params, "message": "x" * 1_500})
        refused = await peer.until(3)
        assert len(frontend.asked) == 3
        assert all("would exceed" in reply["error"]["message"] for _, reply in refused)


async def test_a_server_whose_questions_were_answered_may_ask_as_many_again(tmp_path: Path) -> None:
    peer, frontend = AskingServer("2025-11-25"), ScriptedFrontend(*[Decline()] * (MAX_SERVER_QUESTIONS + 1))
    async with open_asking_host(tmp_path, peer, frontend):
        for number in range(MAX_SERVER_QUESTIONS + 1):
            peer.ask(str(number), *form_request(NAME))
            await peer.until(number + 1)
    assert [reply for _, reply in peer.results] == [{"result": {"action": "decline"}}] * (MAX_SERVER_QUESTIONS + 1)


async def test_the_users_time_counts_for_no_deadline(tmp_path: Path) -> None:
    peer = AskingServer("2025-11-25", {"a": form_request(NAME)})

    class SlowFrontend(ScriptedFrontend):
        async def ask(self, question: Any) -> Any:
            await anyio.sleep(0.4)
            return Decline()

    async with open_asking_host(tmp_path, peer, SlowFrontend()) as host:
        session = await host.servers.find("peer").session()  # pyright: ignore[reportPrivateUsage]
        result = await session.request(CallTool("ask"), deadline=0.2)
    assert b"decline" in bytes(result.content[0])


async def test_a_form_withdrawn_by_the_server_is_not_answered(tmp_path: Path) -> None:
    peer, frontend = AskingServer("2025-11-25"), ScriptedFrontend()
    async with open_asking_host(tmp_path, peer, frontend) as host:
        peer.ask("x", *form_request(NAME))
        while not frontend.waiting:
            await frontend.asked_now.wait()
        peer.say("notifications/cancelled", requestId="x")
        await host.tools.call("peer", "plain", {})
        assert frontend.waiting == 0
        assert peer.results == []


async def test_a_request_id_used_twice_at_once_gets_two_answers_and_ends_nothing(tmp_path: Path) -> None:
    answer = anyio.Event()

    async def slow(question: Any) -> Any:
        await answer.wait()
        return Cancel()

    peer = AskingServer("2025-11-25")
    async with open_asking_host(tmp_path, peer, ScriptedFrontend(slow, Decline())) as host:
        peer.ask("x", *form_request(NAME))
        peer.ask("x", *form_request(NAME))
        await peer.until(1)
        answer.set()
        assert [reply["result"]["action"] for _, reply in await peer.until(2)] == ["decline", "cancel"]
        assert (await host.tools.call("peer", "plain", {})).text == "{}"


async def test_a_form_of_a_stopped_call_stays_marked_until_the_server_withdraws_it(
    tmp_path: Path,
) -> None:
    peer, frontend = AskingServer("2025-11-25", {"a": form_request(NAME)}), ScriptedFrontend()
    async with open_asking_host(tmp_path, peer, frontend) as host:
        feed = host.events.subscribe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.tools.call, "peer", "ask", {})
            while not frontend.waiting:
                await frontend.asked_now.wait()
            assert [event for event in feed.drain() if isinstance(event, CallEnded)] == []
            tasks.cancel_scope.cancel()
        (questions,) = frontend.asked
        assert questions.number == 1
        assert [event for event in feed.drain() if isinstance(event, CallEnded)] == [CallEnded("peer", 1)]
        assert frontend.waiting == 1
        peer.say("notifications/cancelled", requestId=f"{peer.calls[0][0]}/a")
        await host.tools.call("peer", "plain", {})
        assert frontend.waiting == 0
        assert [event for event in feed.drain() if isinstance(event, CallEnded)] == []


@pytest.mark.req("samp.association")
@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_questions_of_one_call_share_a_number_and_unsolicited_ones_have_none(
    tmp_path: Path, revision: str
) -> None:
    peer = AskingServer(revision, {"a": form_request(NAME), "b": form_request(NAME)})
    frontend = ScriptedFrontend(Decline(), Decline(), Decline())
    async with open_asking_host(tmp_path, peer, frontend) as host:
        await host.tools.call("peer", "ask", {})
        first, second = (question.number for question in frontend.asked)
        assert (first, second) == (1, 1)
        if revision < "2026":
            peer.ask("x", *form_request(NAME))
            while len(frontend.asked) < 3:
                await frontend.asked_now.wait()
            assert (frontend.asked[2].number, frontend.asked[2].why) == (0, "asked on its own; no tool is running")


async def test_unshowable_forms_are_reported_once_per_reason_and_bounded() -> None:
    one, told = create_elicitation(ScriptedFrontend())
    context = ServerRequestContext(revision=Revision.V2025_11_25)
    for number in range(200):
        for name in ("same", f"other{number}"):
            schema = Raw(encode({"properties": {name: {"type": "object"}}}))
            reply = await one.answer(Elicit(message="?", requested_schema=schema), "why", context)
            assert isinstance(reply, ServerRequestRejection)
    assert len(told) == MAX_NOTICES
    assert sum("'same'" in text for text in told) == 1
