"""Tests for validation in a separate process: correct results, and at most a second for hostile schemas."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from mcphost.sandbox.schema_validator import MAX_VALUE_SIZE, SchemaValidator, SchemaViolation
from mcphost.serialization import Raw, encode
from tests.unit.sandbox.schemas import encode_schema

pytestmark = pytest.mark.anyio


@pytest.fixture
async def checker() -> AsyncIterator[SchemaValidator]:
    validator = SchemaValidator()
    yield validator
    await validator.close()


def doubling_schema(levels: int) -> Raw:
    """Return a schema in which each level refers twice to the next, so that a validator makes 2^levels checks."""
    steps = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return encode_schema({"$ref": "#/$defs/a0", "$defs": {**steps, f"a{levels}": {"type": "integer"}}})


FROZEN = doubling_schema(40)


@pytest.mark.req("base.schema.default-dialect")
async def test_a_schema_without_a_dialect_is_2020_12(checker: SchemaValidator) -> None:
    schema = encode_schema({"prefixItems": [{"type": "integer"}], "unevaluatedItems": False})
    assert (await checker.validate(schema, [1])).outcome == "fits"
    assert (await checker.validate(schema, ["x"])).outcome == "invalid"
    assert (await checker.validate(schema, [1, 2])).outcome == "invalid"


@pytest.mark.req("base.schema.declared-dialect", "base.schema.dialect-before")
async def test_draft_07_is_honoured_when_it_is_named(checker: SchemaValidator) -> None:
    schema: dict[str, Any] = {"items": [{"type": "integer"}], "additionalItems": False}
    named = encode_schema({"$schema": "http://json-schema.org/draft-07/schema#", **schema})
    assert (await checker.validate(named, [1, 2])).outcome == "invalid"
    assert (await checker.validate(named, [1])).outcome == "fits"
    unknown = await checker.validate(encode_schema({"$schema": "https://example.com/mine", **schema}), [1])
    assert unknown.outcome == "unchecked"
    assert "https://example.com/mine" in unknown.summary


async def test_invalid_values_are_reported_with_their_place(checker: SchemaValidator) -> None:
    schema = encode_schema({"type": "object", "properties": {"a/b": {"items": {"type": "number"}}}, "required": ["c"]})
    verdict = await checker.validate(schema, {"a/b": [1, "two"]})
    assert verdict.outcome == "invalid"
    assert {fault.path for fault in verdict.violations} == {"", "/a~1b/1"}
    assert '/a~1b/1: "two" is not of type "number"' in verdict.summary
    assert 'the value: "c" is a required property' in verdict.summary


async def test_the_answer_is_bounded_for_any_value(checker: SchemaValidator) -> None:
    verdict = await checker.validate(
        encode_schema({"items": {"type": "string"}}), [{"x" * 1000: n} for n in range(500)]
    )
    assert len(verdict.violations) == 5
    assert all(len(fault.message) <= 300 for fault in verdict.violations)


@pytest.mark.parametrize("value", [3, "x", None, True, 1.5, [], {}])
async def test_any_json_can_be_checked(checker: SchemaValidator, value: object) -> None:
    assert (await checker.validate(Raw(b"true"), value)).outcome == "fits"
    assert (await checker.validate(Raw(b"false"), Raw(encode(value)))).outcome == "invalid"


@pytest.mark.parametrize("pattern", ["^(a+)+$", r"^(a+)+\1$", "^(?=(a+)+b)(a+)+$", r"^(([a-z])+.)+\2[A-Z]([a-z])+$"])
async def test_an_endless_pattern_ends(checker: SchemaValidator, pattern: str) -> None:
    with anyio.fail_after(20):
        verdict = await checker.validate(encode_schema({"pattern": pattern}), "a" * 50_000 + "!")
    assert verdict.outcome in ("invalid", "unchecked")


async def test_a_pattern_that_compiles_to_gigabytes_is_refused(checker: SchemaValidator) -> None:
    with anyio.fail_after(20):
        verdict = await checker.validate(encode_schema({"pattern": "(((a{1,1000}){1,1000}){1,1000})"}), "a")
    assert verdict.outcome == "unchecked"


@pytest.mark.req("base.schema.bounds")
async def test_combinations_without_end_are_killed_and_the_next_check_works(checker: SchemaValidator) -> None:
    await checker.validate(Raw(b"true"), 1)
    child = checker.pid
    with anyio.fail_after(20):
        verdict = await checker.validate(FROZEN, "x")
    assert (verdict.outcome, verdict.reason) == ("unchecked", "checking it took over 1 s")
    assert child is not None
    assert not psutil.pid_exists(child)
    assert (await checker.validate(encode_schema({"type": "string"}), "x")).outcome == "fits"


async def test_a_schema_that_was_too_slow_twice_is_not_tried_again() -> None:
    quick = SchemaValidator(timeout=0.2)
    for _ in range(2):
        assert "took over 0.2 s" in (await quick.validate(FROZEN, "x")).reason
    assert "too long before" in (await quick.validate(FROZEN, "x")).reason
    assert quick.pid is None  # no process was started for it
    await quick.close()


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"properties": {"child": {"$ref": "#"}}, "anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$dynamicRef": "#x", "$dynamicAnchor": "x"},
        {"not": {"$ref": "#"}},
    ],
)
async def test_a_schema_that_refers_to_itself_ends(checker: SchemaValidator, schema: dict[str, Any]) -> None:
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"child": value}
    with anyio.fail_after(20):
        await checker.validate(encode_schema(schema), value)
    assert (await checker.validate(Raw(b"true"), 1)).outcome == "fits"


@pytest.mark.req("base.schema.no-network-ref", "base.schema.unresolved-ref")
async def test_a_reference_to_the_network_is_never_followed_and_the_value_counts_as_invalid(
    checker: SchemaValidator,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        for name in ("$ref", "$dynamicRef"):
            verdict = await checker.validate(encode_schema({"properties": {"a": {name: address}}}), {"a": 1})
            assert verdict.outcome == "unchecked"
            assert address in verdict.reason
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("reference", ["file:///etc/hostname", "other.json", "#/$defs/none", "ftp://x.example/y"])
async def test_a_dangling_reference_leaves_the_value_unchecked(checker: SchemaValidator, reference: str) -> None:
    verdict = await checker.validate(encode_schema({"$ref": reference}), 1)
    assert verdict.outcome == "unchecked"
    assert "invalid" in verdict.reason


@pytest.mark.parametrize("schema", [{"type": "objct"}, {"properties": 3}, {"pattern": "("}, {"minimum": "x"}])
async def test_a_broken_schema_is_reported_without_judging_the_value(checker: SchemaValidator, schema: Any) -> None:
    verdict = await checker.validate(encode_schema(schema), {})
    assert verdict.outcome == "unchecked"
    assert verdict.reason.startswith("its schema is invalid: ")


async def test_schemas_and_values_over_the_limits_start_nothing() -> None:
    idle = SchemaValidator()
    assert "256 kB" in (await idle.validate(encode_schema({"description": "x" * 10_000_000}), 1)).reason
    assert "levels" in (await idle.validate(Raw(b'{"not":' * 900 + b"true" + b"}" * 900), 1)).reason
    assert "2 MB" in (await idle.validate(Raw(b"true"), "x" * MAX_VALUE_SIZE)).reason
    assert idle.pid is None
    await idle.close()


@pytest.mark.parametrize("value", [b"NaN", b"[Infinity]", b"[" * 100_000, b"\xff", b'{"a":', b"1" * 10_000])
async def test_invalid_json_is_not_validated(checker: SchemaValidator, value: bytes) -> None:
    assert (await checker.validate(Raw(b"true"), Raw(value))).outcome == "unchecked"
    assert (await checker.validate(Raw(b"true"), 1)).outcome == "fits"


async def test_numbers_at_the_edges_are_checked(checker: SchemaValidator) -> None:
    assert (await checker.validate(encode_schema({"type": "integer"}), Raw(b"1" + b"0" * 400))).outcome == "fits"
    with anyio.fail_after(20):
        await checker.validate(Raw(b'{"multipleOf":1e-300}'), Raw(b"1e300"))


async def test_a_child_that_dies_costs_at_most_one_answer(checker: SchemaValidator) -> None:
    await checker.validate(Raw(b"true"), 1)
    assert checker.pid is not None
    os.kill(checker.pid, signal.SIGKILL)
    first = await checker.validate(Raw(b"true"), 1)
    assert first.outcome in ("fits", "unchecked")
    assert (await checker.validate(Raw(b"true"), 1)).outcome == "fits"


async def test_a_cancelled_check_leaves_nothing_behind(checker: SchemaValidator) -> None:
    await checker.validate(Raw(b"true"), 1)
    child = checker.pid
    with anyio.move_on_after(0.1):
        await checker.validate(FROZEN, "x")
    assert child is not None
    assert not psutil.pid_exists(child)
    assert (await checker.validate(encode_schema({"type": "string"}), "x")).violations == ()


async def test_checks_side_by_side_wait_for_each_other(checker: SchemaValidator) -> None:
    found: dict[int, tuple[SchemaViolation, ...]] = {}

    async def one(number: int) -> None:
        found[number] = (await checker.validate(encode_schema({"const": number}), number + number % 2)).violations

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, number)
    assert [bool(found[number]) for number in range(20)] == [bool(number % 2) for number in range(20)]


async def test_closing_does_not_wait_for_a_check_that_has_no_end(caplog: pytest.LogCaptureFixture) -> None:
    patient = SchemaValidator(timeout=60)
    await patient.validate(Raw(b"true"), 1)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(patient.validate, FROZEN, "x")
            await anyio.wait_all_tasks_blocked()
            await patient.close()
    assert patient.pid is None
    assert caplog.records == []  # asyncio warns of a child that something else has waited for


async def test_closing_ends_the_child(checker: SchemaValidator) -> None:
    await checker.validate(Raw(b"true"), 1)
    child = checker.pid
    await checker.close()
    await checker.close()
    assert child is not None
    assert not psutil.pid_exists(child)


_HOST = """
import anyio, sys
from mcphost.serialization import Raw
from mcphost.sandbox.schema_validator import SchemaValidator
async def main():
    validator = SchemaValidator(timeout=60)
    await validator.validate(Raw(b"true"), 1)
    print(validator.pid, flush=True)
    await validator.validate(Raw(sys.stdin.buffer.read()), "x")
anyio.run(main)
"""


def killed_in_the_middle() -> bool:
    """Kill a host during an endless validation and wait for its child; return False if the child ended too early."""
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert host.stdin is not None
    assert host.stdout is not None
    child = psutil.Process(int(host.stdout.readline()))
    before = child.cpu_times().user
    host.stdin.write(bytes(FROZEN))
    host.stdin.close()
    is_busy = False
    with contextlib.suppress(psutil.NoSuchProcess):
        while child.cpu_times().user < before + 0.1:
            time.sleep(0.02)
        is_busy = True
    host.kill()
    host.wait()
    host.stdout.close()
    child.wait(timeout=10)
    return is_busy


def test_no_child_stays_when_the_host_is_killed_in_the_middle_of_an_endless_check() -> None:
    # A child ends itself two seconds after it began a check; a busy machine may run others meanwhile.
    assert any(killed_in_the_middle() for _ in range(5))
