"""Tests that results of servers under review reach the model only in the form that the user released."""

import base64
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.schema import AuditConfig
from mcphost.headless.run_rules import parse_rules
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.builtin_tool_names import LOAD_SKILL, READ_RESULT
from mcphost.host.conversation.rewind import list_completed_calls
from mcphost.host.events import ResultReviewed, ToolFinished
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    Accept,
    AllowOnce,
    AllowSession,
    ApproveTool,
    ApproveUnchanged,
    FillForm,
    PassEditedResult,
    PassResult,
    ReviewResult,
    WithholdResult,
)
from mcphost.host.tools.call_scheduler import NEVER_RAN_TEXT, STOPPED_AFTER_RUN_TEXT
from mcphost.host.tools.result_review import ATTACHMENT_WITHHELD, REVIEW_UNAVAILABLE, WITHHELD
from mcphost.llm.messages import ImagePart, ResourcePart, ToolReturnPart
from mcphost.llm.model import ModelRequest
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.serialization import replace
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditRow, AuditStore
from mcphost.store.large_results import ResultStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.auth.storage import read_all_files
from tests.unit.host.asking_server import BOTH_ERAS, AskingServer, form_request
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)
from tests.unit.host.skill_server import create_skill_server as skilled

pytestmark = pytest.mark.anyio
SECRET = "the key is hunter2"
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde"
).decode()
GO = tool_round(("peer__it", {"n": 1}))


class ReviewFrontend(ScriptedFrontend):
    """A front end that allows every call and answers result reviews from a list; when the list is empty, it blocks."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.reviews: list[ReviewResult] = []
        self.shown = anyio.Event()

    async def ask(self, question: Question[Any]) -> Any:
        if isinstance(question, ApproveTool):
            return AllowOnce()
        assert isinstance(question, ReviewResult)
        self.reviews.append(question)
        if not self.answers:
            self.shown.set()
            await anyio.sleep_forever()
        answer = self.answers.pop(0)
        return answer(question) if callable(answer) else answer


def review_server(answer: Any, revision: str = "2026-07-28") -> InProcessServer:
    return create_peer(revision, tools__list=tools_result(tool_definition("it")), tools__call=answer)


def tool_returns_of(request: ModelRequest) -> list[ToolReturnPart]:
    return [part for part in request.messages[-1].parts if isinstance(part, ToolReturnPart)]


async def review_result(folder: Path, answer: Any, frontend: Any, **more: Any) -> tuple[ToolReturnPart, list[Any]]:
    """Run a turn with one result under review; return the part that the model received, and the events."""
    model = ScriptedModel(GO, text_round("ok"))
    async with open_host_with(folder, review_server(answer), model, frontend, reviewed=("peer",), **more) as host:
        feed = host.events.subscribe()
        await host.conversation.send("go")
        events = [event for event in feed.drain() if isinstance(event, ToolFinished | ResultReviewed)]
    (part,) = tool_returns_of(model.requests[-1])
    return part, events


# -- one result
async def test_a_result_is_passed_on_exactly_as_shown(tmp_path: Path) -> None:
    frontend = ReviewFrontend(PassResult())
    part, events = await review_result(tmp_path, text_result(SECRET), frontend)
    (questions,) = frontend.reviews
    assert (questions.server, questions.tool, questions.arguments) == ("peer", "it", {"n": 1})
    assert questions.call == part.use_id
    assert [(part.kind, part.text, part.size) for part in questions.parts] == [("text", SECRET, len(SECRET))]
    assert (part.text, part.is_error, part.reviewed) == (SECRET, False, True)
    assert [type(event) for event in events] == [ToolFinished, ResultReviewed]
    assert (events[1].outcome, events[1].text) == ("passed", SECRET)


async def test_the_result_of_a_call_whose_server_is_removed_meanwhile_is_reviewed(tmp_path: Path) -> None:
    peer = create_peer(tools__list=tools_result(tool_definition("it")))

    def remove(_params: dict[str, Any]) -> dict[str, Any]:
        host.servers.remove("peer")
        return text_result(SECRET)

    peer.answers["tools/call"] = remove
    frontend = ReviewFrontend(PassResult())
    async with open_host_with(
        tmp_path, peer, ScriptedModel(GO, text_round("done")), frontend, reviewed=("peer",)
    ) as host:
        assert (await host.conversation.send("go")).outcome == "done"
        (returned,) = host.conversation.messages[2].results
        assert isinstance(returned, ToolReturnPart)
        assert (returned.text, returned.reviewed) == (SECRET, True)
    assert [review.parts[0].text for review in frontend.reviews] == [SECRET]


async def test_what_a_removed_server_provided_is_reviewed_although_nothing_of_it_was_reviewed_before(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(text_round("ok"))
    frontend = ReviewFrontend(WithholdResult())
    async with open_host_with(
        tmp_path, review_server(text_result(SECRET)), model, frontend, reviewed=("peer",)
    ) as host:
        host.servers.remove("peer")
        attached = ResourcePart("peer", "x://y", SECRET, "text/plain")
        await host.conversation.send("look", attachments=(attached,))
    assert [review.parts[0].text for review in frontend.reviews] == [SECRET]
    assert SECRET not in str(model.requests[-1].messages)


async def test_the_model_gets_exactly_the_edited_texts_and_the_original_is_on_no_disk(tmp_path: Path) -> None:
    frontend = ReviewFrontend(PassEditedResult(("the key is [redacted]",)))
    part, events = await review_result(tmp_path, text_result(SECRET), frontend)
    assert part.text == "the key is [redacted]"
    assert events[1].outcome == "changed"
    assert b"[redacted]" in read_all_files(tmp_path)
    assert b"hunter2" not in read_all_files(tmp_path)


@pytest.mark.parametrize(
    "answer",
    [WithholdResult(), None, True, ApproveUnchanged(), AllowOnce(), PassEditedResult(()), PassEditedResult((None,))],
)
async def test_anything_but_an_approval_withholds_the_result(tmp_path: Path, answer: Any) -> None:
    part, events = await review_result(tmp_path, text_result(SECRET), ReviewFrontend(answer))
    assert (part.text, part.is_error, part.images, part.kept) == (WITHHELD, False, (), "")
    assert (events[0].outcome, events[1].outcome, events[1].text) == ("ok", "withheld", "")
    assert b"hunter2" not in read_all_files(tmp_path)


async def test_the_model_reads_why_a_result_was_withheld(tmp_path: Path) -> None:
    part, _ = await review_result(tmp_path, text_result(SECRET), ReviewFrontend(WithholdResult("it has keys in it")))
    assert part.text == f"{WITHHELD} The user says: it has keys in it"


async def test_a_result_that_can_no_longer_be_reviewed_is_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.host.questions.frontend.MAX_TOTAL_BYTES", 100)
    part, events = await review_result(
        tmp_path, {"content": [{"type": "text", "text": "word " * 100}]}, ReviewFrontend(PassResult())
    )
    assert part.text.startswith(REVIEW_UNAVAILABLE)
    assert "word" not in part.text
    assert [event.outcome for event in events if isinstance(event, ResultReviewed)] == ["withheld"]


async def test_a_removed_image_is_removed_completely(tmp_path: Path) -> None:
    answer = {"content": [{"type": "text", "text": "see"}, {"type": "image", "mimeType": "image/png", "data": PNG}]}
    frontend = ReviewFrontend(PassEditedResult(("see", None)))
    part, _ = await review_result(tmp_path, answer, frontend)
    assert [(part.kind, part.mime_type, part.image is not None) for part in frontend.reviews[0].parts] == [
        ("text", "", False),
        ("image", "image/png", True),
    ]
    assert (part.text, part.images) == ("see", ())
    assert PNG.encode() not in read_all_files(tmp_path)


async def test_structured_content_is_a_separate_part_and_stays_json(tmp_path: Path) -> None:
    answer = text_result("two", structuredContent={"key": "hunter2"})

    def edited(question: ReviewResult) -> PassEditedResult:
        return PassEditedResult(("two", question.parts[1].text.replace("hunter2", "-")))

    part, _ = await review_result(tmp_path, answer, ReviewFrontend(edited))
    assert part.text == 'two\nstructured content:\n{\n  "key": "-"\n}'
    broken, _ = await review_result(tmp_path, answer, ReviewFrontend(PassEditedResult(("two", "{"))))
    assert broken.text == WITHHELD


async def test_redacted_text_does_not_reappear_in_structured_content(tmp_path: Path) -> None:
    both = text_result(json.dumps({"key": "hunter2"}), structuredContent={"key": "hunter2"})
    frontend = ReviewFrontend(PassEditedResult(("{}",)))
    part, _ = await review_result(tmp_path, both, frontend)
    assert len(frontend.reviews[0].parts) == 1
    assert part.text == "{}"


async def test_content_for_the_user_alone_is_not_offered(tmp_path: Path) -> None:
    answer = {"content": [{"type": "text", "text": SECRET, "annotations": {"audience": ["user"]}}]}
    frontend = ReviewFrontend(PassResult())
    part, _ = await review_result(tmp_path, answer, frontend)
    assert SECRET not in frontend.reviews[0].parts[0].text
    assert SECRET not in part.text


async def test_an_error_of_the_tool_is_shown_and_stored_as_one(tmp_path: Path) -> None:
    frontend = ReviewFrontend(PassResult())
    part, _ = await review_result(tmp_path, text_result("no such key", isError=True), frontend)
    assert frontend.reviews[0].is_error
    assert (part.is_error, part.text) == (True, "no such key")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_the_error_text_of_a_refused_call_is_the_servers_and_is_reviewed_first(
    tmp_path: Path, revision: str
) -> None:
    frontend, model = ReviewFrontend(WithholdResult()), ScriptedModel(GO, text_round("ok"))
    peer = review_server(ErrorData(code=-32000, message=SECRET), revision)
    async with open_host_with(tmp_path, peer, model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("go")
    assert SECRET in frontend.reviews[0].parts[0].text
    assert tool_returns_of(model.requests[-1])[0].text == WITHHELD


async def test_our_notes_about_a_result_may_quote_it_and_are_withheld_with_it(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"key": {"type": "integer"}}, "required": ["key"]}
    peer = create_peer(tools__list=tools_result(tool_definition("it", outputSchema=schema)),
                     tools__call=text_result("x", structuredContent={"key": "hunter2"}))  # fmt: skip
    frontend, model = (
        ReviewFrontend(PassEditedResult((None, "x", None)), WithholdResult()),
        ScriptedModel(GO, GO, text_round("ok")),
    )
    async with open_host_with(tmp_path, peer, model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("go")
    assert [part.kind for part in frontend.reviews[0].parts] == ["note", "text", "structured"]
    assert [tool_returns_of(request)[0].text for request in model.requests[1:]] == ["x", WITHHELD]


async def test_an_empty_result_needs_no_question(tmp_path: Path) -> None:
    frontend = ReviewFrontend()
    part, _ = await review_result(tmp_path, {"content": []}, frontend)
    assert frontend.reviews == []
    assert part.text == "(the tool returned nothing)"


# -- several, and ends
def numbered_secret(params: dict[str, Any]) -> dict[str, Any]:
    return text_result(f"secret {params['arguments']['n']}")


async def test_waiting_results_block_no_other_call_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    """More results wait for a review than calls may run in parallel."""

    class LateReviewFrontend(ReviewFrontend):
        async def ask(self, question: Question[Any]) -> Any:
            if isinstance(question, ApproveTool):
                return AllowOnce()
            assert isinstance(question, ReviewResult)
            self.reviews.append(question)
            if len(self.reviews) == 12:
                self.shown.set()
            await self.shown.wait()
            return PassEditedResult((f"of {question.arguments['n']}",))

    many = tool_round(*(("peer__it", {"n": n}) for n in range(12)))
    frontend, model = LateReviewFrontend(), ScriptedModel(many, text_round("ok"))
    with anyio.fail_after(10):
        async with open_host_with(
            tmp_path, review_server(numbered_secret), model, frontend, reviewed=("peer",)
        ) as host:
            await host.conversation.send("go")
    result = {part.use_id: part.text for part in tool_returns_of(model.requests[-1])}
    asked = {question.call: question for question in frontend.reviews}
    assert len(result) == 12
    for call, told in result.items():
        n = asked[call].arguments["n"]
        assert (asked[call].parts[0].text, told) == (f"secret {n}", f"of {n}")


async def test_stopping_the_turn_ends_the_review_and_the_call_counts_as_run(tmp_path: Path) -> None:
    frontend, model, audit_log = (
        ReviewFrontend(),
        ScriptedModel(GO, text_round("ok")),
        AuditLog(AuditStore(tmp_path / "l.db"), AuditConfig()),
    )
    async with open_host_with(
        tmp_path, review_server(text_result(SECRET)), model, frontend, reviewed=("peer",), audit_log=audit_log
    ) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "go")
            await frontend.shown.wait()
            host.conversation.stop()
        (part,) = (part for part in host.conversation.messages[-1].parts if isinstance(part, ToolReturnPart))
        assert (part.text, part.is_error) == (STOPPED_AFTER_RUN_TEXT, True)
        rows = await audit_log.read_page(AuditFilter(kind="tool"))
        reviews = await audit_log.read_page(AuditFilter(kind="result"))
    assert [(row.event, row.decision) for row in rows if row.event == "ended"] == [("ended", "ok")]
    assert [row.event for row in reviews] == ["withdrawn"]
    assert b"hunter2" not in read_all_files(tmp_path)


async def test_a_call_stopped_before_it_ran_is_reported_as_such(tmp_path: Path) -> None:
    frontend, model = ScriptedFrontend(), ScriptedModel(GO, text_round("ok"))
    async with open_host_with(
        tmp_path, review_server(text_result(SECRET)), model, frontend, reviewed=("peer",)
    ) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "go")
            await frontend.asked_now.wait()
            host.conversation.stop()
        (part,) = (part for part in host.conversation.messages[-1].parts if isinstance(part, ToolReturnPart))
        assert (part.text, part.outcome) == (NEVER_RAN_TEXT, "stopped")
        assert list_completed_calls(host.conversation.messages, host.servers) == ()
    assert (part.server, part.tool, part.user_text) == ("peer", "it", "Stopped before it ran.")


# -- the audit log
async def audited_reviews(folder: Path, *answers: Any, content: bool = False) -> list[AuditRow]:
    audit_log = AuditLog(AuditStore(folder / "ledger.db"), AuditConfig(content=content))
    model = ScriptedModel(*[GO for _ in answers], text_round("ok"))
    async with open_host_with(
        folder,
        review_server(text_result(SECRET)),
        model,
        ReviewFrontend(*answers),
        reviewed=("peer",),
        audit_log=audit_log,
    ) as host:
        await host.conversation.send("go")
        return list(reversed(await audit_log.read_page(AuditFilter(kind="result"))))


async def test_the_audit_log_records_the_outcome_of_each_result_without_its_text(tmp_path: Path) -> None:
    found = await audited_reviews(tmp_path, PassResult(), PassEditedResult(("the key",)), WithholdResult("no"))
    assert [(row.event, row.decision, row.who, row.server, row.subject) for row in found] == [
        ("answered", decision, "person", "peer", "it") for decision in ("passed", "changed", "withheld")
    ]
    details = [json.loads(row.detail) for row in found]
    assert [(detail["given"], detail["of"]) for detail in details] == [(18, 18), (7, 18), (0, 18)]
    assert len({detail["sha256"] for detail in details}) == 3
    assert details[2]["sha256"] == ""
    assert all(row.shown for row in found)
    assert "the key" not in repr(found)


# -- other ways to the conversation
async def test_a_big_result_is_stored_unchanged_and_read_on_without_another_question(tmp_path: Path) -> None:
    big = SECRET + "x" * 400_000

    def edited(question: ReviewResult) -> PassEditedResult:
        return PassEditedResult((question.parts[0].text.replace("hunter2", "-"),))

    def read_on(request: ModelRequest) -> Any:
        name = Path(tool_returns_of(request)[0].kept).stem
        return tool_round((READ_RESULT, {"result": name, "limit": 20}))(request)

    frontend, model = ReviewFrontend(edited), ScriptedModel(GO, read_on, text_round("ok"))
    async with open_host_with(tmp_path, review_server(text_result(big)), model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("go")
    assert len(frontend.reviews) == 1
    assert "the key is -xxx" in tool_returns_of(model.requests[2])[0].text
    assert b"hunter2" not in read_all_files(tmp_path)


async def test_a_big_result_that_was_withheld_cannot_be_read_on(tmp_path: Path) -> None:
    model = ScriptedModel(GO, text_round("ok"))
    async with open_host_with(
        tmp_path,
        review_server(text_result(SECRET * 50_000)),
        model,
        ReviewFrontend(WithholdResult()),
        reviewed=("peer",),
    ) as host:
        await host.conversation.send("go")
    assert tool_returns_of(model.requests[1])[0].kept == ""
    assert not (tmp_path / "results").exists()
    assert not any(spec.name == READ_RESULT for spec in model.requests[1].tools)


async def test_the_rest_of_a_result_from_before_is_read_first_too(tmp_path: Path) -> None:
    """The user enabled reviews after the model had already received the beginning of the result."""
    peer = review_server(text_result("x" * 300_000 + SECRET))
    kept = ResultStore(tmp_path / "results")
    async with open_host_with(
        tmp_path, peer, ScriptedModel(GO, text_round("ok")), ReviewFrontend(), results=kept
    ) as host:
        await host.conversation.send("go")
        ident = host.conversation.id
        name = next(
            Path(part.kept).stem for part in host.conversation.messages[2].parts if isinstance(part, ToolReturnPart)
        )
    frontend, model = (
        ReviewFrontend(WithholdResult()),
        ScriptedModel(tool_round((READ_RESULT, {"result": name, "offset": 299_999})), text_round("")),
    )
    async with open_host_with(
        tmp_path, review_server(text_result("")), model, frontend, results=kept, reviewed=("peer",)
    ) as host:
        await host.conversation.open(ident)
        await host.conversation.send("read on")
    assert SECRET in frontend.reviews[0].parts[0].text
    assert tool_returns_of(model.requests[-1])[0].text == WITHHELD


async def test_a_resumed_conversation_has_what_the_model_received(tmp_path: Path) -> None:
    async with open_host_with(
        tmp_path,
        review_server(text_result(SECRET)),
        ScriptedModel(GO, text_round("ok")),
        ReviewFrontend(WithholdResult()),
        reviewed=("peer",),
    ) as host:
        await host.conversation.send("go")
        ident = host.conversation.id
    model = ScriptedModel(text_round("ok"))
    async with open_host_with(tmp_path, review_server(text_result("")), model, ReviewFrontend()) as host:
        await host.conversation.open(ident)
        await host.conversation.send("and now?")
    assert SECRET not in repr(model.requests[0].messages)
    assert WITHHELD in repr(model.requests[0].messages)


async def test_a_skill_is_read_before_the_model_follows_it(tmp_path: Path) -> None:
    asked = {"server": "peer", "skill": "pdf"}
    more = {**asked, "file": "references/FORMS.md"}
    model = ScriptedModel(tool_round((LOAD_SKILL, asked)), tool_round((LOAD_SKILL, more)), text_round("ok"))
    frontend = ReviewFrontend(WithholdResult(), PassEditedResult(("Forms are easy.",)))
    async with open_host_with(tmp_path, skilled(), model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("go")
    assert ["FORMS.md first" in review.parts[0].text for review in frontend.reviews] == [True, False]
    first, second = (tool_returns_of(request)[0].text for request in model.requests[1:])
    assert first == WITHHELD
    assert second.endswith("\n\nForms are easy.")


class FormReviewFrontend(ReviewFrontend):
    """A front end for result reviews that also fills in the servers' forms."""

    async def ask(self, question: Question[Any]) -> Any:
        return Accept({}) if isinstance(question, FillForm) else await super().ask(question)


@pytest.mark.parametrize("revision", BOTH_ERAS)
async def test_a_result_that_follows_server_questions_is_read_first(tmp_path: Path, revision: str) -> None:
    frontend, model = (
        FormReviewFrontend(WithholdResult()),
        ScriptedModel(tool_round(("peer__ask", {})), text_round("ok")),
    )
    peer = AskingServer(revision, {"a": form_request({"n": {"type": "string"}})})
    async with open_host_with(tmp_path, peer, model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("go")
    assert '"action": "accept"' in frontend.reviews[0].parts[0].text
    assert tool_returns_of(model.requests[-1])[0].text == WITHHELD


async def test_the_result_of_a_task_is_read_first(tmp_path: Path) -> None:
    at = "2026-01-01T00:00:00Z"
    task = {"resultType": "task", "taskId": "t-1", "status": "working", "createdAt": at, "lastUpdatedAt": at,
            "ttlMs": None, "pollIntervalMs": 1}  # fmt: skip
    done = {**task, "resultType": "complete", "status": "completed", "result": text_result(SECRET)}
    peer = create_peer(capabilities={"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                     tools__list=tools_result(tool_definition("it")), tools__call=task, tasks__get=done)  # fmt: skip
    frontend, model = ReviewFrontend(WithholdResult()), ScriptedModel(GO, text_round("ok"))
    async with open_host_with(tmp_path, peer, model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("go")
    assert frontend.reviews[0].parts[0].text == SECRET
    assert tool_returns_of(model.requests[-1])[0].text == WITHHELD


async def attach_resource(host: Host) -> ResourcePart:
    await host.conversation.send("see this", [ResourcePart("peer", "x://1", SECRET)])
    (part,) = (part for part in host.conversation.messages[0].parts if isinstance(part, ResourcePart))
    return part


@pytest.mark.parametrize(("answer", "text"), [
    (PassResult(), SECRET), (WithholdResult(), ATTACHMENT_WITHHELD), (PassEditedResult(("the key",)), "the key"),
])  # fmt: skip
async def test_an_attached_resource_is_read_before_it_is_sent(tmp_path: Path, answer: Any, text: str) -> None:
    frontend, model = ReviewFrontend(answer), ScriptedModel(text_round("ok"))
    async with open_host_with(tmp_path, review_server(text_result("")), model, frontend, reviewed=("peer",)) as host:
        assert (await attach_resource(host)).text == text
    assert frontend.reviews[0].arguments == {"uri": "x://1"}
    assert (SECRET in repr(model.requests)) == (text == SECRET)


IMAGE = ImagePart("image/png", PNG, "x://2", "peer", target="before")


@pytest.mark.parametrize("answer", [PassResult(), WithholdResult(), PassEditedResult(("the key",))])
@pytest.mark.parametrize("part", [ResourcePart("peer", "x://1", SECRET, target="before"), IMAGE])
async def test_an_attachment_counts_as_text_of_the_server_that_sent_it_also_after_its_review(
    tmp_path: Path, part: ResourcePart | ImagePart, answer: Any
) -> None:
    frontend, model = ReviewFrontend(answer), ScriptedModel(text_round("ok"))
    async with open_host_with(tmp_path, review_server(text_result("")), model, frontend, reviewed=("peer",)) as host:
        await host.conversation.send("see this", [part])
        sent = host.conversation.messages[0].parts[0]
    assert isinstance(sent, ResourcePart | ImagePart)
    assert sent.target == "before"


async def test_stopping_while_a_resource_is_shown_returns_none_and_asks_no_model(tmp_path: Path) -> None:
    frontend, model, parts = ReviewFrontend(), ScriptedModel(text_round("ok")), list[ResourcePart]()
    async with open_host_with(tmp_path, review_server(text_result("")), model, frontend, reviewed=("peer",)) as host:
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                parts.append(await attach_resource(host))

            tasks.start_soon(send)
            await frontend.shown.wait()
            assert host.conversation.is_busy
            host.conversation.stop()
        assert not host.conversation.is_busy
    assert (parts[0].text, model.requests) == (ATTACHMENT_WITHHELD, [])


async def test_servers_without_review_ask_nothing_more(tmp_path: Path) -> None:
    frontend, model = ReviewFrontend(), ScriptedModel(tool_round(("peer__it", {}), ("other__it", {})), text_round("ok"))
    async with open_host_with(
        tmp_path,
        {"peer": review_server(text_result("a")), "other": review_server(text_result("b"))},
        model,
        frontend,
        reviewed=("strange",),
    ) as host:
        await host.conversation.send("go", [ResourcePart("peer", "x://1", "c")])
    assert frontend.reviews == []
    assert [part.text for part in tool_returns_of(model.requests[-1])] == ["a", "b"]


async def test_a_manual_call_is_visible_to_the_user_and_to_no_model(tmp_path: Path) -> None:
    frontend = ReviewFrontend()
    async with open_host_with(
        tmp_path, review_server(text_result(SECRET)), ScriptedModel(text_round("ok")), frontend, reviewed=("peer",)
    ) as host:
        assert (await host.tools.call("peer", "it", {})).text == SECRET
        await host.conversation.send("go")
        assert SECRET not in repr(host.conversation.messages)
    assert frontend.reviews == []


# -- rules of a run
@pytest.mark.parametrize(
    ("rule", "passes"), [("peer/it", True), ("peer", True), ("peer/it?n=1", True), ("peer/it?n=2", False),
                         ("peer/other", False), ("other", False)],
)  # fmt: skip
async def test_a_rule_of_the_run_passes_results_of_the_calls_it_covers(tmp_path: Path, rule: str, passes: bool) -> None:
    audit_log = AuditLog(AuditStore(tmp_path / "ledger.db"), AuditConfig())
    part, _ = await review_result(
        tmp_path,
        text_result(SECRET),
        ReviewFrontend(WithholdResult()),
        passes=parse_rules((rule,)),
        audit_log=audit_log,
    )
    assert part.text == (SECRET if passes else WITHHELD)
    (row,) = await AuditLog(AuditStore(tmp_path / "ledger.db"), AuditConfig()).read_page(AuditFilter(kind="result"))
    assert (row.event, row.decision, row.who) == (
        ("decided", "passed", "rule") if passes else ("answered", "withheld", "person")
    )


async def test_a_call_that_is_allowed_for_longer_has_each_result_reviewed(tmp_path: Path) -> None:
    class SessionReviewFrontend(ReviewFrontend):
        async def ask(self, question: Question[Any]) -> Any:
            return AllowSession() if isinstance(question, ApproveTool) else await super().ask(question)

    frontend, model = SessionReviewFrontend(PassResult(), WithholdResult()), ScriptedModel(GO, GO, text_round("ok"))
    async with open_host_with(
        tmp_path, review_server(text_result(SECRET)), model, frontend, reviewed=("peer",)
    ) as host:
        await host.conversation.send("go")
    assert [tool_returns_of(request)[0].text for request in model.requests[1:]] == [SECRET, WITHHELD]


def test_an_edited_part_keeps_its_kind() -> None:
    from mcphost.host.questions.questions import ResultPart
    from mcphost.host.questions.questions import passed_parts as taken

    piece = ResultPart(kind="text", text="a", size=1)
    question = ReviewResult(
        server="s", why="", call="c", tool="t", arguments={}, parts=(piece, replace(piece, text="b"))
    )
    assert [item.text for item in taken(question, PassEditedResult((None, "c")))] == ["c"]
