"""Tests that every benchmark that measures a ratio has a bound, and fails when it exceeds the bound."""

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as all_benchmarks
from benchmarks import bounds, calls
from tests.architecture.source_tree import ROOT

START = {"first frame": 1.2, "typed key": 1.2, "CPU to the first frame": 1.2, "memory": 1.3}


def test_every_bounded_script_exists_and_writes_its_ratios() -> None:
    for script in bounds.load():
        source = Path(ROOT, "benchmarks", f"{script}.py").read_text()
        assert "--ratios" in source, script
        assert f'report("{script}"' in source, script


def test_ratios_within_their_bounds_pass(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "ratios.json"
    assert bounds.report("startup", START, file=str(file)) == 0
    assert "BROKEN" not in capsys.readouterr().out
    assert '"memory": 1.3' in file.read_text()


def test_a_broken_bound_fails_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert bounds.report("startup", START | {"typed key": 1.4}) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]
    assert line.split() == ["startup", "typed", "key", "1.40", "at", "most", "1.25", "BROKEN"]


def test_a_broken_bound_may_not_become_worse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bounds, "HERE", tmp_path)
    file = tmp_path / "bounds.toml"
    file.write_text("[a]\nx = { at_most = 2, reached = 3 }\ny = { at_least = 5, reached = 4 }")
    assert bounds.table("a", {"x": 1.0, "y": 6.0})[1] == 0
    lines, broken = bounds.table("a", {"x": 2.5, "y": 4.5})
    assert [line.rpartition("  ")[2] for line in lines] == ["not met, kept within 3", "not met, kept within 4"]
    assert broken == 0
    assert bounds.table("a", {"x": 3.5, "y": 3.5})[1] == 2
    file.write_text("[a]\nx = { at_most = 2, reached = 1 }")
    with pytest.raises(ValueError, match="better than the bound"):
        bounds.load()


def test_on_a_busy_machine_wall_times_are_shown_but_not_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bounds, "HERE", tmp_path)
    (tmp_path / "bounds.toml").write_text("[a]\nx = { at_most = 2, wall = true }\ny = { at_most = 2 }")
    assert bounds.broken("a", {"x": 3.0, "y": 3.0}) == ["x", "y"]
    lines, count = bounds.table("a", {"x": 3.0, "y": 3.0}, is_busy=True)
    assert [line.rpartition("  ")[2] for line in lines] == ["not judged on a busy machine", "BROKEN"]
    assert count == 1
    assert bounds.table("a", {"x": 1.0, "y": 1.0}, is_busy=True)[1] == 0
    assert bounds.table("a", {"y": 1.0}, is_busy=True)[1] == 1, "it must still be measured"


def test_the_last_lines_of_all_benchmarks_name_each_broken_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(bounds, "HERE", tmp_path)
    file = tmp_path / "bounds.toml"
    file.write_text(
        "[a]\nx = { at_most = 2, reached = 3 }\ny = { at_least = 5 }\nz = { at_most = 1 }\n[b]\nv = { at_most = 9 }"
    )
    measured = {"a": {"x": 3.5, "y": 6.0}, "b": {"v": 8.0}}
    monkeypatch.setattr(all_benchmarks, "_measured", lambda name, *_: measured[name])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "a", "b", "--again", "1"])
    assert all_benchmarks.main() == 1
    last = ["4 bounds, 2 broken", "broken bound: a, x: 3.50, at most 3", "broken bound: a, z: nan, at most 1"]
    assert capsys.readouterr().out.splitlines()[-3:] == last
    measured["a"] |= {"x": 1.0, "z": 1.0}
    assert all_benchmarks.main() == 0
    assert capsys.readouterr().out.endswith("\n4 bounds, 0 broken\n")


def test_only_the_broken_ratios_of_calls_are_measured_again() -> None:
    assert calls.needed("stdio", ["stdio 100 B, 16 in flight, CPU"]) == [(100, 16, 3200)]
    assert calls.needed("json", ["stdio 100 B, 16 in flight, CPU"]) == []
    large = calls.needed("stdio", ["stdio 50 MB, a byte against one of 5 MB"])
    assert [size for size, _, _ in large] == [5_000_000, 50_000_000]
    for name in bounds.load()["calls"]:
        assert calls.needed(name.partition(" ")[0], [name]), name


def test_a_bound_without_a_measurement_fails() -> None:
    assert bounds.report("lists", {"10,000 tools, CPU": 40.0}) == 1
    assert bounds.report("lists", {"10,000 tools, CPU": 40.0}, is_partial=True) == 0


def test_of_two_runs_the_better_value_of_each_ratio_counts() -> None:
    first = {"first frame": 1.4, "memory": 1.3}
    second = {"first frame": 1.1, "memory": 1.5, "typed key": 1.0}
    assert bounds.best("startup", first, second) == {"first frame": 1.1, "memory": 1.3, "typed key": 1.0}
    assert bounds.best("lists", {"10,000 tools, CPU": 29.0}, {"10,000 tools, CPU": 31.0}) == {"10,000 tools, CPU": 31.0}
    assert bounds.best("startup", {}, second) == second
