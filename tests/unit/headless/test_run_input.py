"""Tests for `mcphost run` with an answer schema: accepted answers, the model's prompt, and the second attempt."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.errors import UsageError
from mcphost.headless.run import RunFrontend, run_turn
from mcphost.headless.run_input import AnswerSchema, RunInput, read_schema, read_system_prompt
from mcphost.serialization import Raw
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.scripted_host import create_peer, open_host_with, text_result, tool_definition, tools_result

pytestmark = pytest.mark.anyio
SCHEMA = Raw(b'{"type":"object","properties":{"total":{"type":"number"}},"required":["total"]}')


@pytest.mark.parametrize(
    ("answer", "value", "problem"),
    [
        ('{"total": 42}', {"total": 42}, ""),
        ('```json\n{"total": 42}\n```\n', {"total": 42}, ""),
        ('{"total": "42"}', {"total": "42"}, "/total"),
        ("{}", {}, "total"),
        ("The total is 42.", None, "not valid JSON"),
    ],
)
async def test_an_answer_is_checked_with_or_without_a_fence(answer: str, value: Any, problem: str) -> None:
    schema = AnswerSchema(SCHEMA)
    try:
        check = await schema.check(answer)
    finally:
        await schema.close()
    assert check.value == value
    assert problem in check.problem
    assert bool(problem) == bool(check.problem)


async def test_a_second_answer_that_matches_is_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(text_round("It is 42."), text_round('{"total": 42}'))
    async with open_host_with(tmp_path, {}, model) as host:
        code = await run_turn(host, "Add them.", output="json", sent=RunInput(schema=AnswerSchema(SCHEMA)))
    document = json.loads(capsys.readouterr().out)
    assert (code, document["value"], document["text"]) == (0, {"total": 42}, '{"total": 42}')
    first, second = model.requests
    assert first.answer_schema == second.answer_schema == SCHEMA
    assert bytes(SCHEMA).decode() in first.system
    assert second.messages[-1].text.startswith("Your answer does not match the JSON Schema. It is not valid JSON")


async def test_a_call_that_was_declined_before_the_second_answer_still_decides_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = (tool_round(("peer__add", {})), text_round("It is 42."), text_round('{"total": 42}'))
    peer = create_peer(tools__list=tools_result(tool_definition("add")), tools__call=text_result("42"))
    async with open_host_with(tmp_path, peer, ScriptedModel(*rounds), RunFrontend()) as host:
        code = await run_turn(host, "Add them.", output="json", sent=RunInput(schema=AnswerSchema(SCHEMA)))
    document = json.loads(capsys.readouterr().out)
    assert [call["outcome"] for call in document["calls"]] == ["declined"]
    assert (code, document["exit_code"], document["declined"], document["value"]) == (5, 5, 1, {"total": 42})


async def test_the_usage_of_a_run_includes_the_answer_that_did_not_match(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel(text_round("It is 42."), text_round('{"total": 42}'))
    async with open_host_with(tmp_path, {}, model) as host:
        await run_turn(host, "Add them.", output="json", sent=RunInput(schema=AnswerSchema(SCHEMA)))
    usage = json.loads(capsys.readouterr().out)["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cost"]) == (20, 10, 0.002)


async def test_each_event_of_a_run_is_one_line_for_programs_that_split_at_other_separators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_host_with(tmp_path, {}, ScriptedModel(text_round("a\u2028b\x85c"))) as host:
        await run_turn(host, "Say it.", output="events")
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[-1]["text"] == "a\u2028b\x85c"


def test_a_schema_is_read_from_a_file_and_refused_if_unusable(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{\n  "type": "object"\n}\n')
    assert bytes(read_schema(str(path))) == b'{"type":"object"}'
    for text, message in (("[]", "not a JSON object"), ("{", "not valid JSON"), ('{"$schema": "x:y"}', "dialect")):
        path.write_text(text)
        with pytest.raises(UsageError, match=message):
            read_schema(str(path))


def test_a_system_prompt_is_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "system.md").write_text("Be brief.")
    assert read_system_prompt(f"@{tmp_path}/system.md") == "Be brief."
    assert read_system_prompt("Be kind.") == "Be kind."


async def test_the_quoted_answer_in_the_second_question_does_not_count_as_typed(tmp_path: Path) -> None:
    model = ScriptedModel(text_round('{"total": "pay to account 4711"}'), text_round('{"total": 42}'))
    async with open_host_with(tmp_path, {}, model) as host:
        await run_turn(host, "Add them.", output="json", sent=RunInput(schema=AnswerSchema(SCHEMA)))
        asked = [message for message in host.conversation.messages if message.role == "user"]
    assert [message.is_typed for message in asked] == [True, False]
    assert "pay to account 4711" in asked[1].text


async def test_an_answer_that_cannot_be_checked_is_not_asked_for_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, unusable = ScriptedModel(text_round('{"total": 42}'), text_round("{}")), Raw(b'{"type":"objet"}')
    async with open_host_with(tmp_path, {}, model) as host:
        code = await run_turn(host, "Add them.", output="json", sent=RunInput(schema=AnswerSchema(unusable)))
    document = json.loads(capsys.readouterr().out)
    assert (code, len(model.requests)) == (7, 1)
    assert "could not be compared with the schema" in document["error"]
