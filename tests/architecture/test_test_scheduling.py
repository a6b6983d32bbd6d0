"""Tests of the file lists in tests/conftest.py: quick tests, tests that run first, and files that may be split."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import (
    HERE,
    LONGEST_FIRST,
    MODEL_SERVERS,
    SLOW_TESTS,
    SPLIT_FILES,
    SYNTAX_TREE_TESTS,
    interleave_tests,
    scheduling_scope,
)
from tests.quick_tests import LONG_TESTS, PROCESS_TESTS, QUICK_FOLDERS, is_quick

WIDER_THAN_A_TEST = re.compile(r"scope=\"(?:class|module|package|session)\"")


def test_every_listed_name_is_the_beginning_of_a_file_with_tests() -> None:
    files = [path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")]
    for name in (*PROCESS_TESTS, *LONG_TESTS, *LONGEST_FIRST, *SPLIT_FILES):
        assert any(file.startswith(name) for file in files), name
    for name in (MODEL_SERVERS, *SLOW_TESTS):
        assert any(file.startswith(name.removeprefix("tests/")) for file in files), name


def test_tests_that_share_a_fixture_stay_on_one_worker() -> None:
    files = [file for file in HERE.rglob("test_*.py") if any(map(_shares, _sources(file)))]
    assert files
    for file in files:
        path = f"tests/{file.relative_to(HERE).as_posix()}"
        assert scheduling_scope(f"{path}::test_it[one]") == scheduling_scope(f"{path}::test_more")


def test_a_split_file_is_given_out_test_by_test() -> None:
    assert scheduling_scope("tests/screens/test_chat.py::test_it[one]") == "tests/screens/test_chat.py::test_it[one]"


def test_two_fifths_of_the_files_of_the_quick_folders_are_quick() -> None:
    files = [path.relative_to(HERE) for folder in QUICK_FOLDERS for path in (HERE / folder).rglob("test_*.py")]
    assert sum(map(is_quick, files)) > len(files) * 0.4


def test_a_quick_test_cannot_start_a_process(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("quick")
    with pytest.raises(pytest.fail.Exception, match="starts no process"):
        subprocess.Popen(["true"])


def _sources(file: Path) -> Iterator[Path]:
    """Yield the files that may define fixtures of a test file: the file itself and the conftest files above it."""
    yield file
    for folder in file.parents:
        if folder == HERE:
            return
        if (folder / "conftest.py").exists():
            yield folder / "conftest.py"


def _shares(source: Path) -> bool:
    return WIDER_THAN_A_TEST.search(source.read_text(encoding="utf-8")) is not None


def test_one_worker_starts_the_servers_of_models() -> None:
    assert scheduling_scope("tests/peers/models/test_aimock.py::test_it") == "tests/peers/models"


def test_one_worker_reads_the_syntax_trees_of_all_modules() -> None:
    assert {scheduling_scope(f"tests/architecture/test_{name}.py::test_it") for name in SYNTAX_TREE_TESTS} == {
        "tests/architecture"
    }


def test_tests_that_wait_are_spread_among_those_that_compute() -> None:
    names = [f"tests/{folder}/test_it.py::test_{n}" for folder in ("screens", "terminal") for n in range(100)]
    names += [f"tests/unit/test_{n // 10}.py::test_{n}" for n in range(50)]
    order = interleave_tests(names, str)
    assert sorted(order) == sorted(names)
    for start in range(0, 250, 50):
        part = order[start : start + 50]
        assert {sum(name.startswith(f"tests/{folder}") for name in part) for folder in ("screens", "terminal")} <= {
            *range(15, 26)
        }
    assert not [name for name in order[-10:] if name.startswith("tests/terminal")], "the slow ones are not the last"
    whole = [name for name in order if name.startswith("tests/unit/test_3.py")]
    first = order.index(whole[0])
    assert order[first : first + 10] == whole
