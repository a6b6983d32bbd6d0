"""Tests for arguments that get another name for a provider, and their names in the calls of an answer."""

import time

from mcphost.llm.argument_names import CallRestorer, rename_arguments
from mcphost.llm.worker_protocol import WorkerEvent, WorkerTextDelta, WorkerToolCallDelta
from tests.fakes.schemas import an_object


def piece(index: int, text: str, call: str = "", name: str = "") -> WorkerToolCallDelta:
    return WorkerToolCallDelta(1, index, call, name, text)


def restore(*events: WorkerEvent) -> list[WorkerEvent]:
    restorer = CallRestorer(1, {"odd": {"a_b": "a/b"}})
    return [*restorer.restore([*events]), *restorer.finish()]


def test_only_the_calls_of_tools_with_renamed_arguments_are_held_back() -> None:
    text = WorkerTextDelta(1, "a_b")
    plain = piece(1, '{"a_b": 1}', "c2", "plain")
    assert restore(piece(0, '{"a_b"', "c1", "odd"), plain, text, piece(0, ": 2}")) == [
        piece(0, "", "c1", "odd"), plain, text, piece(0, ""), piece(0, '{"a/b":2}')
    ]  # fmt: skip


def test_a_name_that_arrives_after_the_first_arguments_is_known_in_time() -> None:
    assert restore(piece(0, '{"a_b": 1', "c1"), piece(0, "}", name="odd"))[-1] == piece(0, '{"a/b":1}')
    assert restore(piece(0, '{"a_b": 1', "c1"), piece(0, "}", name="plain")) == [
        piece(0, "", "c1"), piece(0, '{"a_b": 1}', name="plain")
    ]  # fmt: skip


def test_a_name_that_the_model_wrote_itself_is_not_replaced() -> None:
    assert restore(piece(0, '{"a_b": 1, "a/b": 2}', "c1", "odd"))[-1] == piece(0, '{"a_b":1,"a/b":2}')


def test_names_stay_different_however_many_are_refused() -> None:
    started_at = time.process_time()
    schema, names = rename_arguments(an_object(**{f"a{'/' * at}": {} for at in range(60)}, b={}))
    assert len(schema["properties"]) == len(set(schema["properties"])) == 61
    assert len(names) == 59
    many = {f"a_{at}": True for at in range(30_000)} | {f"a{chr(0x4E00 + at)}": True for at in range(20_000)}
    assert len(rename_arguments(an_object(**many))[0]["properties"]) == 50_000
    assert time.process_time() - started_at < 5
