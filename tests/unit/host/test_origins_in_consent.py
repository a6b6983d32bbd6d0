"""Tests for arguments copied from another server: marked in the consent question, matched by rules, and audited."""

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.rules import FILES
from mcphost.config.schema import ConsentConfig, HostConfig
from mcphost.host.argument_origins import MediaOrigin
from mcphost.host.builtin_tool_names import READ_RESULT
from mcphost.host.events import ToolFinished
from mcphost.host.host import Host
from mcphost.host.origins import conversation_origins
from mcphost.host.origins.outside_texts import OutsideTexts, index_newest
from mcphost.host.questions.questions import AllowOnce, AllowRule, AllowSession, ApproveTool, Deny, TrustOnce
from mcphost.llm.messages import FilePart, ImagePart, ResourcePart, ToolReturnPart, with_target
from mcphost.llm.model import ModelFacts, ModelRequest
from mcphost.serialization import replace
from mcphost.store.large_results import ResultStore
from mcphost.store.unsent_texts import UnsentText
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.parsed_settings import parse_settings
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.scripted_host import (
    PIXEL,
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio
SECRET = "The door code of the office is 4711-0815-XY"
READ = tool_round(("mail__read", {}))
POST = tool_round(("web__post", {"body": f"fyi: {SECRET}"}))
HARMLESS = tool_round(("web__post", {"body": "Good morning"}))


def open_peers() -> dict[str, InProcessServer]:
    return {
        "mail": create_peer(tools__list=tools_result(tool_definition("read")), tools__call=text_result(SECRET)),
        "web": create_peer(tools__list=tools_result(tool_definition("post")), tools__call=text_result("posted")),
    }


def never_rules(*texts: str) -> Any:
    rules = ", ".join(json.dumps(text) for text in texts)
    return parse_settings(f"[consent]\nnever = [{rules}]\n", "config.toml", lambda problem: None).never_rules


def last_result(host: Host) -> ToolReturnPart:
    parts = [part for message in host.conversation.messages for part in message.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)][-1]


async def ask(folder: Path, *rounds: Any, answers: tuple[Any, ...] = (), **more: Any) -> tuple[list[ApproveTool], Any]:
    """Run one turn in which the model plays *rounds*; return the consent questions and the last tool result."""
    frontend = ScriptedFrontend(*answers)
    model = ScriptedModel(*rounds, text_round("done"))
    async with open_host_with(folder, open_peers(), model, frontend, **more) as host:
        await host.conversation.send("what is new?")
        return [question for question in frontend.asked if isinstance(question, ApproveTool)], last_result(host)


async def test_the_question_marks_what_came_from_another_server(tmp_path: Path) -> None:
    questions, _ = await ask(tmp_path, READ, POST, answers=(AllowOnce(), AllowOnce()))
    assert questions[0].origins == ()
    (origin,) = questions[1].origins
    assert (origin.argument, origin.server, origin.source) == ("body", "mail", "read")
    assert (origin.characters, origin.spans) == (len(SECRET), ((5, 5 + len(SECRET)),))


async def test_instructions_of_a_server_are_a_source(tmp_path: Path) -> None:
    peers = open_peers()
    peers["notes"] = create_peer(
        tools__list=tools_result(tool_definition("read")), info={"instructions": f"Remember: {SECRET}"}
    )
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers, ScriptedModel(POST, text_round("done")), frontend) as host:
        await host.conversation.send("go")
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert [(origin.server, origin.source) for origin in question.origins] == [("notes", "instructions")]


@pytest.mark.parametrize("is_removed", [False, True])
async def test_instructions_stay_a_source_after_their_server_was_stopped_or_removed(
    tmp_path: Path, is_removed: bool
) -> None:
    peers = open_peers()
    peers["notes"] = create_peer(info={"instructions": f"Remember: {SECRET}"})

    def post(request: ModelRequest) -> Any:
        assert SECRET in request.system
        (host.servers.remove if is_removed else host.servers.stop)("notes")
        return POST(request)

    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers, ScriptedModel(post, text_round("done")), frontend) as host:
        await host.conversation.send("go")
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert [(origin.server, origin.source) for origin in question.origins] == [("notes", "instructions")]


async def test_a_server_that_keeps_changing_its_instructions_counts_as_not_compared(tmp_path: Path) -> None:
    peers = open_peers()
    peers["notes"] = create_peer()
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers, ScriptedModel(POST, text_round("done")), frontend) as host:
        for number in range(12):
            peers["notes"] = create_peer(info={"instructions": f"Instructions number {number}"})
            host.servers.restart("notes")
            await host.servers.ensure_ready("notes")
        await host.conversation.send("go")
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert not question.are_origins_complete


async def test_long_instructions_do_not_index_the_conversation_again_for_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = list[int]()

    def build(messages: Any, **more: Any) -> OutsideTexts:
        built.append(len(messages))
        return index_newest(messages, **more)

    monkeypatch.setattr(conversation_origins, "index_newest", build)
    monkeypatch.setattr(conversation_origins, "MAX_CHARACTERS", 2_000)
    peers = open_peers()
    peers["notes"] = create_peer(info={"instructions": "".join(f"Line {number}. " for number in range(300))})
    model = ScriptedModel(HARMLESS, HARMLESS, POST, text_round("done"))
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend) as host:
        await host.conversation.send("go")
    assert len(built) == 1
    assert len(frontend.asked) == 3


async def test_a_prompt_of_a_server_is_a_source(tmp_path: Path) -> None:
    message = {"role": "user", "content": {"type": "text", "text": f"Do this.\n{SECRET}"}}
    peers = open_peers()
    peers["crm"] = create_peer(capabilities={"prompts": {}}, prompts__get={"messages": [message]})
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers, ScriptedModel(POST, text_round("done")), frontend) as host:
        await host.features.get_prompt("crm", "customer", {})
        await host.conversation.send(f"Do this.\n{SECRET}")
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    (origin,) = question.origins
    assert (origin.server, origin.source, origin.is_typed) == ("crm", "prompt customer", True)


@pytest.mark.parametrize("rule", ["web/* never-from:big", "web/* never-from:crm"])
async def test_a_huge_prompt_counts_as_unchecked_and_hides_no_later_one(tmp_path: Path, rule: str) -> None:
    peers = open_peers()
    for name, text in (("big", "x" * 1_000_000), ("crm", SECRET)):
        message = {"role": "user", "content": {"type": "text", "text": text}}
        peers[name] = create_peer(capabilities={"prompts": {}}, prompts__get={"messages": [message]})
    model = ScriptedModel(HARMLESS, text_round("ok"), POST, text_round("done"))
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend, never=never_rules(rule)) as host:
        await host.conversation.send("go")
        for name in ("big", "crm"):
            await host.features.get_prompt(name, "prompt", {})
        await host.conversation.send("post it")
        assert rule.removeprefix("web/* never-") in last_result(host).text
    assert [params["arguments"] for params in peers["web"].asked("tools/call")] == [{"body": "Good morning"}]


async def ask_in_later_run(folder: Path, program: str, **more: Any) -> tuple[tuple[ApproveTool, ...], ToolReturnPart]:
    """Read a secret from the server `mail`, and post it to the server of that name that runs *program* later.

    Returns the consent questions of the later run and its last tool result.
    """
    async with open_host_with(
        folder, open_peers(), ScriptedModel(READ, text_round("done")), ScriptedFrontend(AllowOnce()),
        args={"mail": ("company-mail@1.2",)},
    ) as host:  # fmt: skip
        await host.conversation.send("what is new?")
        conversation = host.conversation.id
    peers = {"mail": create_peer(tools__list=tools_result(tool_definition("post")), tools__call=text_result("posted"))}
    model = ScriptedModel(tool_round(("mail__post", {"body": f"fyi: {SECRET}"})), text_round("done"))
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(folder, peers, model, frontend, args={"mail": (program,)}, **more) as host:
        await host.conversation.open(conversation)
        await host.conversation.send("post it")
        return tuple(one for one in frontend.asked if isinstance(one, ApproveTool)), last_result(host)


async def test_text_of_an_earlier_server_of_the_same_name_is_marked(tmp_path: Path) -> None:
    (question,), _ = await ask_in_later_run(tmp_path, "other-mail")
    assert [(one.argument, one.server, one.source) for one in question.origins] == [("body", "/earlier/mail", "read")]


async def test_text_of_a_server_stays_its_own_in_a_later_run_and_with_another_version(tmp_path: Path) -> None:
    (question,), _ = await ask_in_later_run(tmp_path, "company-mail@1.3")
    assert question.origins == ()


@pytest.mark.parametrize("rule", ["mail never-from:mail", "mail never-from:other", "mail never-from:*"])
async def test_a_never_rule_refuses_data_of_an_earlier_server_of_the_same_name(tmp_path: Path, rule: str) -> None:
    questions, result = await ask_in_later_run(tmp_path, "other-mail", never=never_rules(rule))
    assert (questions, result.outcome) == ((), "declined")


async def test_text_of_a_server_that_was_replaced_while_the_conversation_is_open_is_marked(tmp_path: Path) -> None:
    peers = open_peers()
    model = ScriptedModel(READ, text_round("done"), tool_round(("mail__post", {"body": SECRET})), text_round("done"))
    frontend = ScriptedFrontend(AllowOnce(), TrustOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend) as host:
        await host.conversation.send("what is new?")
        definition = tool_definition("post")
        peers["mail"] = create_peer(tools__list=tools_result(definition), tools__call=text_result("posted"))
        host.servers.update(replace(host.servers.view("mail").config, args=("other-mail",)))
        await host.servers.ensure_ready("mail")
        await host.conversation.send("post it")
    question = frontend.asked[-1]
    assert isinstance(question, ApproveTool)
    assert [(one.argument, one.server) for one in question.origins] == [("body", "/earlier/mail")]


def replace_mail(host: Host, peers: dict[str, InProcessServer], program: str) -> None:
    """Replace the server `mail` with another one of that name, which has the tool `post`."""
    peers["mail"] = create_peer(tools__list=tools_result(tool_definition("post")), tools__call=text_result("posted"))
    host.servers.update(replace(host.servers.view("mail").config, args=(program,)))


def asked_origins(frontend: ScriptedFrontend) -> list[str]:
    """Return the servers that the last consent question names."""
    question = frontend.asked[-1]
    assert isinstance(question, ApproveTool)
    return [one.server for one in question.origins]


@pytest.mark.parametrize(("program", "servers"), [("other-mail", ["/earlier/mail"]), ("mail@2", [])])
async def test_a_result_that_is_added_after_its_server_was_replaced_is_that_of_the_earlier_one(
    tmp_path: Path, program: str, servers: list[str]
) -> None:
    peers = open_peers()
    both = tool_round(("mail__read", {}), ("web__post", {"body": "Good morning"}))
    model = ScriptedModel(both, text_round("done"), tool_round(("mail__post", {"body": SECRET})), text_round("done"))

    async def allow(question: ApproveTool) -> AllowOnce:
        if question.server == "web":
            async for event in feed:  # until the other result of the round has arrived
                if isinstance(event, ToolFinished) and event.server == "mail":
                    break
            replace_mail(host, peers, program)
        return AllowOnce()

    frontend = ScriptedFrontend(allow, allow, TrustOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend, args={"mail": ("mail@1",)}) as host:
        feed = host.events.subscribe()
        await host.conversation.send("what is new?")
        await host.servers.ensure_ready("mail")
        await host.conversation.send("post it")
    assert asked_origins(frontend) == servers


async def test_an_attachment_read_before_its_server_was_replaced_is_that_of_the_earlier_one(tmp_path: Path) -> None:
    peers = open_peers()
    model = ScriptedModel(tool_round(("mail__post", {"body": SECRET})), text_round("done"))
    frontend = ScriptedFrontend(TrustOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend) as host:
        await host.servers.ensure_ready("mail")
        part = with_target(ResourcePart("mail", "mail://1", SECRET), host.servers.targets)
        host.history.unsent.keep("place", UnsentText("post this", attachments=(part,)))
        await host.history.unsent.flush()
        replace_mail(host, peers, "other-mail")
        await host.servers.ensure_ready("mail")
        unsent = await host.history.unsent.load("place")
        await host.conversation.send(unsent.text, unsent.attachments)
    assert asked_origins(frontend) == ["/earlier/mail"]


async def test_a_draft_of_a_prompt_stays_that_of_the_server_which_sent_it(tmp_path: Path) -> None:
    peers = peers_with_prompt()
    peers["mail"] = peers.pop("crm")
    peers["mail"].answers["tools/list"] = tools_result(tool_definition("read"))
    model = ScriptedModel(tool_round(("mail__post", {"body": PROMPT})), text_round("done"))
    frontend = ScriptedFrontend(TrustOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend) as host:
        await host.features.get_prompt("mail", "customer", {})
        host.history.unsent.keep("place", UnsentText(PROMPT, "mixed", sources=("mail",)))
        await host.history.unsent.flush()
        replace_mail(host, peers, "other-mail")
        await host.servers.ensure_ready("mail")
        unsent = await host.history.unsent.load("place")
        await host.conversation.send(unsent.text)
    assert asked_origins(frontend) == ["/earlier/mail"]


async def test_the_rest_of_a_long_result_is_that_of_the_server_which_sent_the_result(tmp_path: Path) -> None:
    peers, results = open_peers(), ResultStore(tmp_path / "results")
    peers["mail"].answers["tools/call"] = text_result(f"{'long text ' * 50_000}{SECRET}")

    def read_end(request: ModelRequest) -> Any:
        kept = next(one.kept for message in request.messages for one in message.results if one.kept)
        return tool_round((READ_RESULT, {"result": Path(kept).stem, "offset": 499_900}))(request)

    post = tool_round(("mail__post", {"body": SECRET}))
    model = ScriptedModel(READ, text_round("done"), read_end, post, text_round("done"))
    frontend = ScriptedFrontend(AllowOnce(), TrustOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend, results=results) as host:
        await host.conversation.send("what is new?")
        replace_mail(host, peers, "other-mail")
        await host.servers.ensure_ready("mail")
        await host.conversation.send("post the end")
    assert asked_origins(frontend) == ["/earlier/mail"]


@pytest.mark.parametrize(("program", "servers"), [("other-mail", ["/earlier/mail"]), ("mail@2", [])])
async def test_instructions_of_a_server_that_was_replaced_are_those_of_an_earlier_one(
    tmp_path: Path, program: str, servers: list[str]
) -> None:
    peers = open_peers()
    peers["mail"] = create_peer(info={"instructions": f"Remember: {SECRET}"})
    model = ScriptedModel(text_round("hello"), tool_round(("mail__post", {"body": SECRET})), text_round("done"))
    frontend = ScriptedFrontend(TrustOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend, args={"mail": ("mail@1",)}) as host:
        await host.conversation.send("hello")
        peers["mail"] = create_peer(
            tools__list=tools_result(tool_definition("post")), tools__call=text_result("posted")
        )
        host.servers.update(replace(host.servers.view("mail").config, args=(program,)))
        await host.servers.ensure_ready("mail")
        await host.conversation.send("post it")
    question = frontend.asked[-1]
    assert isinstance(question, ApproveTool)
    assert [one.server for one in question.origins] == servers


async def test_a_conversation_that_was_opened_again_remembers_its_sources(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce(), AllowOnce())
    model = ScriptedModel(READ, text_round("read"), HARMLESS, text_round("ok"), POST, text_round("done"))
    async with open_host_with(tmp_path, open_peers(), model, frontend) as host:
        await host.conversation.send("read")
        first = host.conversation.id
        host.conversation.open_new()
        await host.conversation.send("post")
        await host.conversation.open(first)
        await host.conversation.send("post")
    assert [isinstance(it, ApproveTool) and bool(it.origins) for it in frontend.asked] == [False, False, True]


@pytest.mark.parametrize(
    "rule", ["web/* never-from:mail", "web never-from:mail", "web/post?from:mail", "web/post?from:*", "web from:a,mail"]
)
async def test_a_never_rule_refuses_data_of_a_server_and_no_grant_overrides_it(tmp_path: Path, rule: str) -> None:
    allowed = (AllowOnce(), AllowSession())
    questions, result = await ask(tmp_path, READ, HARMLESS, POST, answers=allowed, never=never_rules(rule))
    assert len(questions) == 2
    assert (result.outcome, SECRET in result.text) == ("declined", False)
    assert "from:" in result.text


async def test_copies_of_one_server_neither_hide_another_one_nor_push_it_out_of_the_audit_log(tmp_path: Path) -> None:
    lines = [f"public paragraph number {number:04d} of the wiki page" for number in range(120)]
    post = tool_round(("web__post", {"tags": lines, "body": SECRET}))
    rounds = (READ, tool_round(("wiki__read", {})), post, text_round("done"))
    log = create_audit_log(tmp_path)
    for number, never in enumerate(((), never_rules("web/* never-from:mail"))):
        peers = open_peers()
        peers["wiki"] = create_peer(
            tools__list=tools_result(tool_definition("read")), tools__call=text_result("\n".join(lines))
        )
        frontend = ScriptedFrontend(AllowOnce(), AllowOnce(), AllowOnce())
        folder = tmp_path / str(number)
        folder.mkdir()
        async with open_host_with(folder, peers, ScriptedModel(*rounds), frontend, never=never, audit_log=log) as host:
            await host.conversation.send("go")
            assert last_result(host).outcome == ("declined" if never else "ok")
    rows = [row for row in await read_rows(log, "tool") if row.server == "web"]
    assert [row.event for row in rows] == ["answered", "started", "ended", "decided"]
    for row in rows:
        servers = {origin["server"] for origin in json.loads(row.detail or "{}").get("origins", ())}
        assert servers == (set() if row.event == "ended" else {"wiki", "mail"})
    await log.close()


async def test_an_answer_with_edited_arguments_is_checked_again(tmp_path: Path) -> None:
    edited = AllowOnce({"body": SECRET})
    _, result = await ask(
        tmp_path, READ, HARMLESS, answers=(AllowOnce(), edited), never=never_rules("web never-from:mail")
    )
    assert result.outcome == "declined"


@pytest.mark.parametrize(("policy", "asked"), [("mark", 2), ("ask", 3)])
async def test_a_grant_covers_foreign_data_unless_the_user_wants_to_be_asked(
    tmp_path: Path, policy: Any, asked: int
) -> None:
    answers = (AllowOnce(), AllowSession(), Deny())
    consent = ConsentConfig(origins=policy)
    questions, result = await ask(tmp_path, READ, HARMLESS, POST, answers=answers, consent=consent)
    assert (len(questions), result.outcome) == (asked, "ok" if policy == "mark" else "declined")


async def test_a_grant_still_covers_calls_without_foreign_data_when_origins_are_asked_about(tmp_path: Path) -> None:
    answers = (AllowOnce(), AllowSession())
    consent = ConsentConfig(origins="ask")
    questions, result = await ask(tmp_path, READ, HARMLESS, HARMLESS, answers=answers, consent=consent)
    assert (len(questions), result.outcome) == (2, "ok")


@pytest.mark.parametrize(
    ("rule", "asked"), [("web/post?from:mail", 2), ("web/post?from:*", 2), ("web/post?never-from:mail", 2)]
)
async def test_a_rule_that_names_the_server_covers_its_data(tmp_path: Path, rule: str, asked: int) -> None:
    is_allowed = "never" not in rule
    answers = (AllowOnce(), AllowRule(parse_rule(rule)))
    consent = ConsentConfig(origins="ask")
    questions, result = await ask(tmp_path, READ, POST, POST, answers=answers, consent=consent) if is_allowed else (
        await ask(tmp_path, READ, POST, answers=answers, consent=consent)
    )  # fmt: skip
    assert (len(questions), result.outcome) == (asked, "ok" if is_allowed else "declined")


async def test_a_never_rule_sees_the_default_of_an_argument_that_is_left_out(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"dry_run": {"type": "boolean", "default": False}}}
    peers = {"web": create_peer(tools__list=tools_result({"name": "post", "inputSchema": schema}))}
    model = ScriptedModel(tool_round(("web__post", {})), text_round("done"))
    never = never_rules("web/post?dry_run=false")
    async with open_host_with(tmp_path, peers, model, ScriptedFrontend(), never=never) as host:
        await host.conversation.send("go")
        assert "never allows" in last_result(host).text
        with pytest.raises(Exception, match="never allows"):
            await host.tools.call("web", "post", {})


async def test_a_call_by_the_user_obeys_the_never_rule(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(AllowOnce())
    model = ScriptedModel(READ, text_round("read"))
    async with open_host_with(
        tmp_path, open_peers(), model, frontend, never=never_rules("web never-from:mail")
    ) as host:
        await host.conversation.send("read")
        with pytest.raises(Exception, match="never allows"):
            await host.tools.call("web", "post", {"body": SECRET})


async def test_names_in_the_schema_of_the_tool_do_not_make_ordinary_values_foreign(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"repository": {"type": "string"}, "branch": {"type": "string"}}}
    peers = open_peers()
    peers["web"] = create_peer(tools__list=tools_result({"name": "post", "inputSchema": schema}))
    listed = '{"repository": "acme", "branch": "main"}'
    peers["mail"] = create_peer(tools__list=tools_result(tool_definition("read")), tools__call=text_result(listed))
    post = tool_round(("web__post", json.loads(listed)))
    frontend = ScriptedFrontend(AllowOnce(), Deny())
    async with open_host_with(tmp_path, peers, ScriptedModel(READ, post, text_round("done")), frontend) as host:
        await host.conversation.send("go")
    question = frontend.asked[-1]
    assert isinstance(question, ApproveTool)
    assert (question.tool, question.origins) == ("post", ())


async def test_the_audit_log_has_the_origins_and_not_the_text(tmp_path: Path) -> None:
    log = create_audit_log(tmp_path)
    await ask(tmp_path, READ, POST, answers=(AllowOnce(), AllowOnce()), audit_log=log)
    rows = [row for row in await read_rows(log, "tool") if row.server == "web"]
    for row in [row for row in rows if row.event in ("answered", "started")]:
        (origin,) = json.loads(row.detail)["origins"]
        assert (origin["server"], origin["tool"], origin["argument"]) == ("mail", "read", "body")
        assert (origin["characters"], len(origin["sha256"])) == (len(SECRET), 64)
        assert "door code" not in row.detail
    assert [row.event for row in rows] == ["answered", "started", "ended"]
    await log.close()


@pytest.mark.parametrize("rule", ["web/* never-from:mail", "web/post?from:mail", "web/p%6Fst never-from:mail"])
async def test_the_rule_that_refused_the_data_of_a_server_is_quoted_as_it_was_written(
    tmp_path: Path, rule: str
) -> None:
    log = create_audit_log(tmp_path)
    _, result = await ask(tmp_path, READ, POST, answers=(AllowOnce(),), audit_log=log, never=never_rules(rule))
    assert f"never allows this: {rule}" in result.text
    (row,) = [row for row in await read_rows(log, "tool") if row.server == "web"]
    assert (row.event, row.decision, row.who, row.grant) == ("decided", "deny", "config", rule)
    (origin,) = json.loads(row.detail)["origins"]
    assert (origin["server"], origin["tool"], origin["argument"]) == ("mail", "read", "body")
    await log.close()


async def test_a_result_with_an_endless_character_number_does_not_end_the_turn(tmp_path: Path) -> None:
    peers = open_peers()
    peers["mail"] = create_peer(
        tools__list=tools_result(tool_definition("read")), tools__call=text_result(f"&#{'9' * 5_000};")
    )
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    async with open_host_with(tmp_path, peers, ScriptedModel(READ, POST, text_round("done")), frontend) as host:
        turn = await host.conversation.send("what is new?")
        assert (turn.outcome, last_result(host).text) == ("done", "posted")


@pytest.mark.parametrize("rule", ["web/* never-from:mail", "web from:mail"])
async def test_a_never_rule_refuses_data_of_a_server_under_another_name(tmp_path: Path, rule: str) -> None:
    for args, is_refused in (({"copy": ("mail",)}, True), ({}, False)):
        peers = open_peers()
        peers["copy"] = create_peer(tools__list=tools_result(tool_definition("read")), tools__call=text_result(SECRET))
        folder = tmp_path / str(is_refused)
        folder.mkdir()
        frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
        model = ScriptedModel(tool_round(("copy__read", {})), POST, text_round("done"))
        async with open_host_with(folder, peers, model, frontend, never=never_rules(rule), args=args) as host:
            await host.conversation.send("what is new?")
            assert ("never allows" in last_result(host).text) == is_refused


async def test_data_of_a_server_that_was_removed_may_be_that_of_any_other_server(tmp_path: Path) -> None:
    peers = open_peers()
    peers["copy"] = create_peer(tools__list=tools_result(tool_definition("read")), tools__call=text_result(SECRET))
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    model = ScriptedModel(tool_round(("copy__read", {})), text_round("ok"), POST, HARMLESS, text_round("done"))
    async with open_host_with(tmp_path, peers, model, frontend, never=never_rules("web never-from:mail")) as host:
        await host.conversation.send("what is new?")
        host.servers.remove("copy")
        await host.conversation.send("post it")
        assert last_result(host).text == "posted"
    assert [params["arguments"] for params in peers["web"].asked("tools/call")] == [{"body": "Good morning"}]


PROMPT = f"Do this.\n{SECRET}"


def peers_with_prompt(text: str = PROMPT) -> dict[str, InProcessServer]:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    crm = create_peer(capabilities={"prompts": {}}, prompts__get={"messages": [message]})
    return {**open_peers(), "crm": crm}


ORDER = "Order number 88-1234-5678 of the customer"


def peers_with_two_prompts() -> dict[str, InProcessServer]:
    return {**peers_with_prompt(), "shop": peers_with_prompt(ORDER)["crm"]}


def both_posted() -> Any:
    return tool_round(("web__post", {"body": f"{SECRET} {ORDER}"}))


@pytest.mark.parametrize("when", ["before it was sent", "after it was sent", "after a restart"])
async def test_a_prompt_in_a_typed_message_stays_a_source_in_every_conversation(tmp_path: Path, when: str) -> None:
    peers, never = peers_with_prompt(), never_rules("web/* never-from:crm")
    model, frontend = ScriptedModel(text_round("understood"), POST, text_round("done")), ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers, model, frontend, never=never) as host:
        await host.features.get_prompt("crm", "customer", {})
        if when == "before it was sent":
            host.conversation.open_new()
        await host.conversation.send(f"Please: {PROMPT} Mail it to bob.")
        first = host.conversation.id
        host.conversation.open_new()
        if when != "after a restart":
            await host.conversation.open(first)
            await host.conversation.send("go on")
            assert "from:crm" in last_result(host).text
    if when != "after a restart":
        assert peers["web"].asked("tools/call") == []
        return
    peers = peers_with_prompt()
    async with open_host_with(tmp_path, peers, model, frontend, never=never) as host:
        await host.conversation.open(first)
        await host.conversation.send("go on")
        assert "from:crm" in last_result(host).text
    assert peers["web"].asked("tools/call") == []


async def test_only_the_copied_part_of_a_typed_message_counts_as_the_servers(tmp_path: Path) -> None:
    own = "Write to bob@example.com about the new printer"
    model = ScriptedModel(text_round("ok"), tool_round(("web__post", {"body": own})), text_round("done"))
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers_with_prompt(), model, frontend) as host:
        await host.features.get_prompt("crm", "customer", {})
        host.conversation.open_new()
        await host.conversation.send(f"{own}. {PROMPT}")
        await host.conversation.send("go on")
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert (question.origins, question.are_origins_complete) == ((), True)


async def test_a_message_that_is_found_again_after_a_restart_keeps_the_prompts_in_it(tmp_path: Path) -> None:
    never = never_rules("web/* never-from:crm")
    async with open_host_with(tmp_path, peers_with_prompt(), ScriptedModel(text_round("ok")), never=never) as host:
        await host.features.get_prompt("crm", "customer", {})
        await host.conversation.send(f"Please: {PROMPT} Mail it to bob.")
    peers, model = peers_with_prompt(), ScriptedModel(POST, text_round("done"))
    async with open_host_with(tmp_path, peers, model, ScriptedFrontend(), never=never) as host:
        (prompt,) = (await host.history.find_prompts("please")).prompts
        host.history.note_prompt(prompt)
        await host.conversation.send(f"{prompt.text} Now.")
        assert "from:crm" in last_result(host).text
    assert peers["web"].asked("tools/call") == []


@pytest.mark.parametrize("rule", ["web/* never-from:crm", "web/* never-from:shop"])
@pytest.mark.parametrize("is_queued", [True, False])
async def test_an_unsent_text_keeps_the_prompts_in_it_over_a_restart(
    tmp_path: Path, rule: str, *, is_queued: bool
) -> None:
    never, written = never_rules(rule), f"Please: {PROMPT} And then: {ORDER}"
    unsent = UnsentText(queued=("first", written)) if is_queued else UnsentText(written, "mixed", sources=("shop",))
    async with open_host_with(tmp_path, peers_with_two_prompts(), ScriptedModel(), never=never) as host:
        for server in ("crm", "shop"):
            await host.features.get_prompt(server, "customer", {})
        host.history.unsent.keep("place", unsent)
        await host.history.unsent.flush()
    peers, model = peers_with_two_prompts(), ScriptedModel(both_posted(), text_round("done"))
    async with open_host_with(tmp_path, peers, model, ScriptedFrontend(AllowOnce()), never=never) as host:
        restored = await host.history.unsent.load("place")
        assert (restored.text, restored.queued) == (unsent.text, unsent.queued)
        await host.conversation.send(written)
        assert rule.removeprefix("web/* never-") in last_result(host).text
    assert peers["web"].asked("tools/call") == []


async def test_only_the_copied_part_of_an_unsent_text_counts_as_the_servers_after_a_restart(tmp_path: Path) -> None:
    own = "Write to bob@example.com about the new printer"
    async with open_host_with(tmp_path, peers_with_prompt(), ScriptedModel()) as host:
        await host.features.get_prompt("crm", "customer", {})
        host.history.unsent.keep("place", UnsentText(queued=(f"{own}. {PROMPT}",)))
    model = ScriptedModel(tool_round(("web__post", {"body": own})), text_round("done"))
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers_with_prompt(), model, frontend) as host:
        (written,) = (await host.history.unsent.load("place")).queued
        await host.conversation.send(written)
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert (question.origins, question.are_origins_complete) == ((), True)


async def test_an_unsent_text_too_long_to_compare_counts_as_the_servers_after_a_restart(tmp_path: Path) -> None:
    never, filler = never_rules("web/* never-from:crm"), " ".join(str(number) for number in range(30_000))
    async with open_host_with(tmp_path, peers_with_prompt(), ScriptedModel()) as host:
        await host.features.get_prompt("crm", "customer", {})
        host.history.unsent.keep("place", UnsentText(f"{filler} {PROMPT}"))
    model, frontend = ScriptedModel(POST, text_round("done")), ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peers_with_prompt(), model, frontend, never=never) as host:
        await host.conversation.send((await host.history.unsent.load("place")).text)
        assert "from:crm" in last_result(host).text


async def test_a_prompt_too_long_to_remember_leaves_later_conversations_unchecked(tmp_path: Path) -> None:
    model = ScriptedModel(HARMLESS, text_round("done"))
    never = never_rules("web/* never-from:crm")
    async with open_host_with(tmp_path, peers_with_prompt("x" * 1_000_000), model, never=never) as host:
        await host.features.get_prompt("crm", "customer", {})
        host.conversation.open_new()
        await host.conversation.send("post it")
        assert "from:crm" in last_result(host).text


@pytest.mark.parametrize("rule", ["web/* never-from:mail", "web/* never-from:*", "web/* never-from:@file"])
@pytest.mark.parametrize("is_accepted", [True, None, False])
async def test_media_that_the_model_received_cannot_be_compared(
    tmp_path: Path, rule: str, is_accepted: bool | None
) -> None:
    peers = open_peers()
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    peers["mail"] = create_peer(tools__list=tools_result(tool_definition("read")), tools__call={"content": [image]})
    facts = ModelFacts(supports_images=is_accepted, supports_pdf=is_accepted)
    model = ScriptedModel(READ, POST, text_round("done"), facts=facts)
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    attached = FilePart("contract.pdf", "application/pdf", PIXEL)
    async with open_host_with(tmp_path, peers, model, frontend, never=never_rules(rule)) as host:
        await host.conversation.send("read and post", [attached] if "@file" in rule else [])
        assert (last_result(host).outcome == "ok") is (is_accepted is False)


async def test_the_question_names_the_media_that_cannot_be_compared_and_no_grant_covers_the_call(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(HARMLESS, text_round("ok"), HARMLESS, text_round("done"))
    frontend = ScriptedFrontend(AllowSession(), AllowOnce())
    consent = ConsentConfig(origins="ask")
    part = FilePart("mail://1/contract.pdf", "application/pdf", PIXEL, "mail")
    async with open_host_with(tmp_path, open_peers(), model, frontend, consent=consent) as host:
        await host.conversation.send("say good morning")
        await host.conversation.send("and again", [part, ImagePart("image/png", PIXEL)])
    before, question = frontend.asked
    assert isinstance(before, ApproveTool)
    assert isinstance(question, ApproveTool)
    assert before.media_origins == ()
    assert question.media_origins == (MediaOrigin(FILES, "image"), MediaOrigin("mail", "pdf"))
    assert (question.origins, question.are_origins_complete) == ((), True)


async def test_media_count_as_received_after_a_change_to_a_model_that_does_not_accept_them(tmp_path: Path) -> None:
    first = ScriptedModel(text_round("I see a door code."))
    first.name = "eyes"
    blind = ScriptedModel(HARMLESS, text_round("done"), facts=ModelFacts(supports_images=False))
    never = never_rules("web/* never-from:mail")
    image = ImagePart("image/png", PIXEL, "mail://1", "mail")
    async with open_host_with(tmp_path, open_peers(), first, never=never) as host:
        await host.conversation.send("look", [image])
        conversation = host.conversation.id
    async with open_host_with(tmp_path, open_peers(), blind, never=never) as host:
        await host.conversation.open(conversation)
        await host.conversation.send("post it")
        assert last_result(host).outcome == "declined"


async def test_a_call_that_waits_for_its_answer_is_not_allowed_by_a_change_of_the_setting(tmp_path: Path) -> None:
    peers, frontend = open_peers(), ScriptedFrontend()
    both = tool_round(("web__post", {"body": f"fyi: {SECRET}"}), ("web__post", {"body": "Good morning"}))
    model = ScriptedModel(READ, both, text_round("done"))
    ask_about = ConsentConfig(origins="ask")
    async with open_host_with(tmp_path, peers, model, frontend, consent=ask_about) as host:

        async def deny_after_the_other_call(question: ApproveTool) -> Deny:
            assert question.origins
            while not peers["web"].asked("tools/call"):
                await anyio.lowlevel.checkpoint()
            return Deny()

        def change_and_allow(question: ApproveTool) -> AllowSession:
            assert not question.origins
            host.settings.use(HostConfig(consent=ConsentConfig(origins="mark")))
            return AllowSession()

        frontend.answers += [AllowOnce(), deny_after_the_other_call, change_and_allow]
        await host.conversation.send("go")
    assert [params["arguments"] for params in peers["web"].asked("tools/call")] == [{"body": "Good morning"}]
