"""Tests for costs with the real program: `run --max-cost`, configured prices, and `mcphost costs`."""

import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.flows.program import DEMO, Program
from tests.packaging.openai_stub import run_openai_stub

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Program:
    priced = Program(tmp_path)
    priced.fork_model_workers()
    return priced


def configure(program: Program, api_base: str, more: str = "") -> None:
    folder = program.home / "config"
    folder.mkdir(exist_ok=True)
    text = (
        f'[model]\nname = "openai/x"\napi_base = "{api_base}"\napi_key_env = "K"\nmax_output_tokens = 1000\n'
        f"input_price = 1000\noutput_price = 100\n{more}"
    )
    (folder / "config.toml").write_text(text, encoding="utf-8")


def test_a_run_is_recorded_with_prices_of_your_own_and_reported_by_the_costs_command(program: Program) -> None:
    file = program.servers(demo=DEMO)
    with run_openai_stub("add", {"a": 2, "b": 40}) as stub:
        configure(program, stub.api_base)
        flags = ("--allow", "demo", "--mcp-config", file, "--output", "json")
        report = json.loads(program.text("run", "what is 2 + 40?", *flags, seconds=100, K="sk-test"))
    told = json.loads(program.text("costs", "--json", "--days", "2"))
    usage = report["usage"]
    assert usage["input_tokens"] > 0
    assert usage["cost"] == pytest.approx(usage["input_tokens"] * 1e-3 + usage["output_tokens"] * 1e-4)
    assert told["total"]["requests"] == 2
    assert told["total"]["cost"] == told["today"]["cost"] == pytest.approx(usage["cost"])
    assert [row["model"] for row in told["days"]] == ["openai/x"]
    kinds = {(part["kind"], part["server"], part["tool"]) for part in told["parts"]}
    assert {("definitions", "demo", ""), ("results", "demo", "add"), ("answers", "", "")} <= kinds
    shown = program.run("costs")
    assert b"tools of demo" in shown.stdout
    assert b"in the last 30 days (2 requests)" in shown.stderr


def test_a_run_stops_with_7_before_a_request_that_would_exceed_its_budget(program: Program) -> None:
    with run_openai_stub("", {}) as stub:
        configure(program, stub.api_base)
        done = program.run("run", "hello", "--max-cost", "0.05", seconds=100, K="sk-test")
        requests = len(stub.requests)
    assert done.returncode == 7
    assert b"per_turn = $0.05" in done.stderr
    assert b"--max-cost" in done.stderr
    assert requests == 0


def test_the_budget_of_the_day_counts_earlier_runs(program: Program) -> None:
    with run_openai_stub("", {}) as stub:
        configure(program, stub.api_base)
        assert program.run("run", "hello", seconds=100, K="sk-test").returncode == 0
        configure(program, stub.api_base, "[budget]\nper_day = 0.09\n")
        done = program.run("run", "hello", seconds=100, K="sk-test")
        assert len(stub.requests) == 1
    assert done.returncode == 7
    assert b"$0.0125 of per_day = $0.0900 is spent" in done.stderr


def test_what_the_caches_saved_is_reported(program: Program) -> None:
    assert b"saved" not in program.run("costs").stderr
    with closing(sqlite3.connect(program.home / "data" / "mcphost.db", isolation_level=None)) as db:
        db.execute(
            "INSERT INTO spending (at, conversation, turn, purpose, model, input_tokens, output_tokens, cached_tokens,"
            " cost, saved, estimated, shares)"
            " VALUES (?, 'c', 't', 'answer', 'm', 9000, 5, 8000, 0.5, 0.25, 0, x'5b5d')",
            (time.time(),),
        )
    assert b"The providers' caches saved $0.25." in program.run("costs").stderr
    assert json.loads(program.text("costs", "--json"))["total"]["saved"] == 0.25


def test_free_and_unknown_costs_have_one_form_each(program: Program) -> None:
    program.run("costs")
    with closing(sqlite3.connect(program.home / "data" / "mcphost.db", isolation_level=None)) as db:
        db.executemany(
            "INSERT INTO spending (at, conversation, turn, purpose, model, input_tokens, output_tokens, cached_tokens,"
            " cost, saved, estimated, shares) VALUES (?, 'c', 't', 'answer', ?, 9000, 5, 0, ?, 0, 0, x'5b5d')",
            [(time.time(), *row) for row in (("x/free", 0.0), ("x/new", None), ("x/mixed", 0.5), ("x/mixed", None))],
        )
    done = program.run("costs")
    rows = {line.split()[1]: line for line in done.stdout.decode().splitlines() if " x/" in line}
    assert " free " in rows["x/free"]
    assert " unknown " in rows["x/new"]
    assert " $0.50 + unknown " in rows["x/mixed"]
    assert re.search(r"\$0\.00(?!\d)", done.stdout.decode() + done.stderr.decode()) is None
    assert b"; $0.50 + unknown today." in done.stderr
    document = json.loads(program.text("costs", "--json"))
    days = {row["model"]: (row["cost"], row["has_unknown_cost"]) for row in document["days"]}
    assert days == {"x/free": (0, False), "x/new": (0, True), "x/mixed": (0.5, True)}
    assert document["total"]["has_unknown_cost"] is document["today"]["has_unknown_cost"] is True


def test_costs_of_nothing_are_reported(program: Program) -> None:
    assert b"$0.00 in the last 30 days (0 requests); $0.00 today." in program.run("costs").stderr
    assert program.run("costs", "--days", "0").returncode == 2
    assert program.run("run", "hi", "--max-cost", "0").returncode == 2
