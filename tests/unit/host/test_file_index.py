"""Tests for the list of files that completes `@path`: content, exclusions, limits and ranking."""

import re
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcphost.host.conversation import file_index
from mcphost.host.conversation.file_index import (
    FileIndex,
    FileMatch,
    IgnoreRules,
    build_index,
    complete_typed_path,
    find_exact,
)


def create(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()


def search(index: FileIndex, query: str) -> list[str]:
    return [one.path for one in index.search(query)]


def test_files_and_folders_are_found_shallow_ones_first(tmp_path: Path) -> None:
    create(tmp_path, "src/deep/a.py", "b.txt", ".github/ci.yml")
    assert build_index(str(tmp_path)).paths == (
        ".github/", "b.txt", "src/", ".github/ci.yml", "src/deep/", "src/deep/a.py",
    )  # fmt: skip


def test_what_gitignore_names_is_left_out_and_exceptions_are_kept(tmp_path: Path) -> None:
    create(tmp_path, "a.log", "keep.log", "build/x", "src/build/y", "src/a.tmp", "src/b.tmp", "docs/gen/z", "docs/z")
    create(tmp_path, ".git/config", "node_modules/m/index.js")
    (tmp_path / ".gitignore").write_text("# comment\n*.log\n!keep.log\n/build/\ndocs/**/gen\n")
    (tmp_path / "src" / ".gitignore").write_text("*.tmp\n!b.tmp\n")
    paths = set(build_index(str(tmp_path)).paths)
    assert paths == {
        ".gitignore", "keep.log", "src/", "src/.gitignore", "src/build/", "src/build/y", "src/b.tmp", "docs/", "docs/z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "path", "ignored"),
    [
        ("target/", "a/target", True),
        ("/target/", "a/target", None),
        ("a/*.c", "a/x.c", True),
        ("a/*.c", "b/a/x.c", None),
        ("**/logs", "x/y/logs", True),
        ("abc/**", "abc/x/y", True),
        ("abc/**", "abc", None),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("[ab].txt", "b.txt", True),
        ("*.txt\n!b.txt", "b.txt", False),
        ("!b.txt\n*.txt", "b.txt", True),
        (r"\#x", "#x", True),
        ("trailing   ", "trailing", True),
    ],
)
def test_rules_mean_what_they_mean_to_git(rules: str, path: str, *, ignored: bool | None) -> None:
    assert IgnoreRules(rules).decide(tuple(path.split("/")), is_folder=True) is ignored


def test_rules_for_folders_leave_files_alone() -> None:
    assert IgnoreRules("build/").decide(("build",), is_folder=False) is None


def test_hostile_rules_cost_little_time() -> None:
    hostile = "\n".join(["*a" * 90 + "b", "/" + "**/" * 3 + "*a" * 60 + "c", "[" * 180, "(" * 100, *["*x*"] * 5_000])
    rules = IgnoreRules(hostile)
    began = time.thread_time()
    for _ in range(50):
        rules.decide(("a" * 200, "a" * 200, "a" * 250), is_folder=True)
    assert time.thread_time() - began < 2


@pytest.mark.parametrize("line", ["*a" * 90, "[" * 190, "?" * 190, "/" + "*a/" * 60, "a[b-c]" * 30])
def test_only_the_first_wildcards_of_a_file_are_used(line: str) -> None:
    """Compiling a pattern takes far longer than reading it, and keeps the interpreter busy."""

    def measure(lines: int) -> float:
        text, seconds = "\n".join(f"{line}{number}" for number in range(lines)), list[float]()
        for _ in range(3):
            re.purge()
            began = time.thread_time()
            IgnoreRules(text)
            seconds.append(time.thread_time() - began)
        return min(seconds)

    assert measure(340) < 3 * measure(25)


def test_names_without_wildcards_are_used_however_many_wildcards_there_are() -> None:
    rules = IgnoreRules("\n".join([*["*a" * 90] * 300, "secret", "/build/out", "!*.keep"]))
    assert rules.decide(("secret",), is_folder=False)
    assert rules.decide(("build", "out"), is_folder=False)
    assert rules.decide(("x.keep",), is_folder=False) is None, "beyond the wildcards that are used"
    assert IgnoreRules("*.log\n!*.keep").decide(("x.keep",), is_folder=False) is False


@pytest.mark.parametrize("name", ["a.b", "a+b", "(a)", "a|b", "a\\b", "^a$", "a b", "é"])
def test_a_name_without_wildcards_is_matched_as_it_is(name: str) -> None:
    rules = IgnoreRules(f"{name}\n/x/{name}/z")
    assert rules.decide((name,), is_folder=False)
    assert rules.decide(("x", name, "z"), is_folder=False)
    assert rules.decide((f"{name}x",), is_folder=False) is None
    assert rules.decide((name.replace("a", "A").replace("é", "É"),), is_folder=False) is None


def test_links_are_not_followed(tmp_path: Path) -> None:
    create(tmp_path / "outside", "secret")
    create(tmp_path / "inside", "a")
    (tmp_path / "inside" / "up").symlink_to(tmp_path)
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside" / "secret")
    (tmp_path / "inside" / ".gitignore").symlink_to(tmp_path / "inside" / "a")
    assert build_index(str(tmp_path / "inside")).paths == ("a",)


def test_a_folder_named_gitignore_does_not_hide_the_files(tmp_path: Path) -> None:
    create(tmp_path, "a", "sub/.gitignore/b", ".gitignore/c")
    assert set(build_index(str(tmp_path)).paths) == {
        "a", ".gitignore/", ".gitignore/c", "sub/", "sub/.gitignore/", "sub/.gitignore/b",
    }  # fmt: skip


def test_shared_roots_outside_of_the_folder_are_named_absolutely(tmp_path: Path) -> None:
    create(tmp_path / "work", "a", "sub/b")
    create(tmp_path / "root", "c")
    index = build_index(str(tmp_path / "work"), [str(tmp_path / "root"), str(tmp_path / "work" / "sub")])
    assert index.paths == ("a", "sub/", "sub/b", f"{tmp_path}/root/c")


def test_files_depth_and_time_are_bounded_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path, *(f"{number}" for number in range(20)), "/".join(["d"] * 30 + ["file"]))
    assert "/".join(["d"] * 30 + ["file"]) not in build_index(str(tmp_path)).paths
    monkeypatch.setattr(file_index, "MAX_FILES", 10)
    index = build_index(str(tmp_path))
    assert (len(index.paths), index.cut) == (10, "the first 10 files")
    create(tmp_path, *(f"more/{number}" for number in range(300)))
    monkeypatch.setattr(file_index, "MAX_FILES", 1_000)
    assert build_index(str(tmp_path), max_seconds=0).cut == "what was found in time"


def test_rules_that_take_long_end_with_the_time_for_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path, *(f"{number:03}" for number in range(300)))
    (tmp_path / ".gitignore").write_text("*x")
    reads = count(step=0.001)  # each reading of the clock stands for a name that takes a millisecond
    monkeypatch.setattr(file_index, "time", SimpleNamespace(monotonic=lambda: next(reads)))
    index = build_index(str(tmp_path), max_seconds=0.2)
    assert "in time" in index.cut
    assert 190 < len(index.paths) < 200


def test_names_that_could_deceive_are_left_out(tmp_path: Path) -> None:
    create(tmp_path, "good", "bad\x1b[31m", "line\nbreak", "rtl\u202etxt")
    assert build_index(str(tmp_path)).paths == ("good",)


def test_a_name_that_begins_with_the_query_comes_first() -> None:
    index = FileIndex(["lib/my_chat.py", "tui/chat/view.py", "tui/screens/chat.py", "c/h/a/t.txt", "README.md"])
    assert search(index, "chat") == ["tui/screens/chat.py", "lib/my_chat.py", "tui/chat/view.py", "c/h/a/t.txt"]
    assert search(index, "CHAT.PY")[0] == "tui/screens/chat.py"
    assert search(index, "tscp") == ["tui/screens/chat.py"]
    assert search(index, "[^") == search(index, "zzz") == []
    assert len(search(index, "")) == 5


def test_a_hundred_thousand_files_are_searched_within_the_time_of_a_key(tmp_path: Path) -> None:
    index = FileIndex([f"package_{number % 300}/module_{number}/file_{number}.py" for number in range(100_000)])
    began = time.thread_time()
    assert search(index, "file_99999")[0].endswith("file_99999.py")
    assert time.thread_time() - began < 1  # about 40 ms; on a thread, so that no key waits for it


def test_absolute_and_home_paths_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path, "docs/a", "Data.txt", "other", ".hidden")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [one.path for one in complete_typed_path("~/d")] == ["~/docs/", "~/Data.txt"]
    assert [one.path for one in complete_typed_path(f"{tmp_path}/")] == [
        f"{tmp_path}/docs/", f"{tmp_path}/Data.txt", f"{tmp_path}/other",
    ]  # fmt: skip
    assert [one.path for one in complete_typed_path("~/.")] == ["~/.hidden"]
    assert complete_typed_path("/nowhere/x") == ()


def test_an_exact_relative_path_is_found_also_when_it_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "out.log").write_text("")
    monkeypatch.chdir(tmp_path)
    assert build_index(str(tmp_path)).search("out.log") == ()
    assert find_exact("build/out.log") == (FileMatch("build/out.log"),)
    assert find_exact("build") == find_exact("build/") == (FileMatch("build/", is_folder=True),)
    assert find_exact("out.log") == find_exact("") == find_exact("/") == ()
    assert complete_typed_path("build/o") == (FileMatch("build/out.log"),)
    assert complete_typed_path("b") == (FileMatch("build/", is_folder=True),)
