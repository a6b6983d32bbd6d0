"""Tests for slash commands in Markdown files: what is read, how arguments are filled in, and what is refused."""

import shlex
from contextlib import suppress
from pathlib import Path
from time import thread_time

import pytest

from mcphost.config.custom_commands import (
    MAX_COMMANDS,
    CustomCommand,
    fill_template,
    missing_arguments,
    parse_command,
    read_commands,
    split_arguments,
)
from mcphost.config.project_texts import ProjectPlaces, ProjectText
from mcphost.errors import UsageError

REVIEW = """---
description: Review a change
arguments:
  - path
  - name: focus
    description: What to look at
    default: correctness
model: anthropic/claude-haiku-4-5
send: true
---
Review {path}. Look at {focus}; keep {braces} and $HOME.
"""


def load(tmp_path: Path, files: dict[str, str]) -> tuple[dict[str, CustomCommand], list[str]]:
    """Write files to the configuration folder and a project; return the commands and problems found there."""
    (tmp_path / "repo" / ".git").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    problems: list[str] = []
    places = ProjectPlaces(config_dir=tmp_path / "config", folder=tmp_path / "repo")
    return {one.name: one for one in read_commands(places, problems.append)}, problems


def test_a_command_has_its_description_arguments_model_and_text(tmp_path: Path) -> None:
    commands, problems = load(tmp_path, {"config/commands/review.md": REVIEW})
    command = commands["review"]
    assert problems == []
    assert (command.description, command.model, command.is_sent) == (
        "Review a change",
        "anthropic/claude-haiku-4-5",
        True,
    )
    assert command.usage == "path [focus]"
    assert [one.name for one in missing_arguments(command, {})] == ["path"]
    assert command.text.is_own


def test_a_file_without_front_matter_is_a_text_and_gets_its_arguments_appended(tmp_path: Path) -> None:
    command = load(tmp_path, {"config/commands/fix.md": "Fix the tests.\n"})[0]["fix"]
    assert fill_template(command, "", {}) == "Fix the tests."
    assert fill_template(command, "in tui", {}) == "Fix the tests.\n\nin tui"


def test_arguments_are_taken_by_name_or_in_order_and_defaults_fill_the_rest(tmp_path: Path) -> None:
    command = load(tmp_path, {"config/commands/review.md": REVIEW})[0]["review"]
    for typed in ("a.py", "path=a.py"):
        given = split_arguments(command, typed)
        assert fill_template(command, typed, given) == ("Review a.py. Look at correctness; keep {braces} and $HOME.")
    assert split_arguments(command, '"two words" speed and style') == {"path": "two words", "focus": "speed and style"}
    assert split_arguments(command, "focus=style a.py") == {"path": "a.py", "focus": "style"}
    assert split_arguments(command, "it's odd") == {"path": "it's", "focus": "odd"}


def test_positions_and_all_arguments_are_filled_in_once(tmp_path: Path) -> None:
    text = "All: $ARGUMENTS\nFirst: $1, second: $2, third: $3. Not $10."
    command = load(tmp_path, {"config/commands/many.md": text})[0]["many"]
    filled = fill_template(command, "$2 '{x} $ARGUMENTS'", {})
    assert filled == "All: $2 '{x} $ARGUMENTS'\nFirst: $2, second: {x} $ARGUMENTS, third: . Not $10."


def test_a_projects_command_is_no_own_one_and_never_replaces_one_of_the_user(tmp_path: Path) -> None:
    commands, problems = load(
        tmp_path,
        {
            "config/commands/review.md": "mine",
            "repo/.mcphost/commands/review.md": "theirs",
            "repo/.mcphost/commands/git/commit.md": "Commit.",
        },
    )
    assert commands["review"].template == "mine"
    assert not commands["git:commit"].text.is_own
    assert len(problems) == 1
    assert "already has that name" in problems[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\ndescription: x\n", "does not end"),
        ("---\ncommand: rm\n---\nx", 'bad.md is not used: Line 2 of its front matter has the unknown key "command".'),
        (
            "---\nsend: true\ndesciption: x\n---\nx",
            'bad.md is not used: Line 3 of its front matter has the unknown key "desciption". '
            'Did you mean "description"?',
        ),
        (
            "---\narguments:\n  - path\n  - name: focus\n    defualt: x\n---\nx",
            'Line 5 of its front matter has the unknown key "defualt". Did you mean "default"?',
        ),
        ("---\narguments: [{name: focus, 'Default': x}]\n---\nx", "Line 2 of its front matter has the unknown key"),
        ('---\n"\\x1b[31m": x\n---\nx', 'has the unknown key "␛[31m".'),
        ("---\narguments: path\n---\nx", '"arguments" is not a list'),
        ("---\narguments: [path, path]\n---\nx", "twice"),
        ("---\narguments:\n  - name: a b\n---\nx", "simple names"),
        ("---\nsend: maybe\n---\nx", '"send" is not true or false'),
        ("---\ndescription: [a]\n---\nx", '"description" is not a string'),
        ("---\na: &x 1\n---\nx", "does not support"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported_and_left_out(tmp_path: Path, text: str, reason: str) -> None:
    commands, problems = load(tmp_path, {"config/commands/bad.md": text, "config/commands/good.md": "x"})
    assert list(commands) == ["good"]
    assert len(problems) == 1
    assert reason in problems[0]


def test_a_link_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("s3cret")
    (tmp_path / "repo/.mcphost/commands").mkdir(parents=True)
    (tmp_path / "repo/.mcphost/commands/leak.md").symlink_to(tmp_path / "secret.md")
    commands, problems = load(tmp_path, {})
    assert commands == {}
    assert "leads out of the project" in problems[0]


@pytest.mark.parametrize("folder", ["config/commands", "repo/.mcphost/commands"])
def test_an_entry_that_cannot_be_examined_is_reported_and_the_others_are_used(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for name in ("unusable", "bad.md"):
        (tmp_path / folder / name).symlink_to("x" * 300)
    commands, problems = load(tmp_path, {f"{folder}/good.md": "x", f"{folder}/git/commit.md": "x"})
    assert sorted(commands) == ["git:commit", "good"]
    assert len(problems) == 2
    for problem, name in zip(sorted(problems), ("bad.md", "unusable"), strict=True):
        assert problem.startswith("Not used: ")
        assert f"{tmp_path / folder / name}" in problem


@pytest.mark.parametrize("folder", ["config/commands", "repo/.mcphost/commands", "config/commands/git"])
@pytest.mark.parametrize("kind", ["file", "loop", "long name"])
def test_a_folder_that_cannot_be_listed_is_reported_once(tmp_path: Path, folder: str, kind: str) -> None:
    (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        (tmp_path / folder).write_text("x")
    else:
        (tmp_path / folder).symlink_to(tmp_path / folder if kind == "loop" else "x" * 300)
    commands, problems = load(tmp_path, {})
    assert commands == {}
    if folder.endswith("git") and kind == "file":
        assert problems == []  # an entry that is no folder
        return
    (problem,) = problems
    assert str(tmp_path / folder) in problem
    assert "\n" not in problem


def test_no_folder_of_commands_is_no_problem(tmp_path: Path) -> None:
    assert load(tmp_path, {}) == ({}, [])


def test_there_are_bounds_for_the_number_of_files_and_the_length_of_a_text(tmp_path: Path) -> None:
    commands, problems = load(tmp_path, {f"config/commands/c{n}.md": "$ARGUMENTS" * 9 for n in range(MAX_COMMANDS + 1)})
    assert len(commands) == MAX_COMMANDS
    assert f"the first {MAX_COMMANDS} are used" in problems[0]
    with pytest.raises(UsageError, match="over 200,000 characters"):
        fill_template(commands["c1"], "x" * 100_000, {})


def test_the_front_matter_of_all_commands_together_is_bounded(tmp_path: Path) -> None:
    dear = "---\ndescription: " + "b " * 15_000 + "\n---\nx"
    files = {f"repo/.mcphost/commands/c{n:03}.md": dear for n in range(MAX_COMMANDS)}
    commands, problems = load(tmp_path, {**files, "config/commands/mine.md": REVIEW})
    assert list(commands) == ["mine", "c000", "c001"]
    assert len(problems) == 1
    assert "c002.md and later ones are not used" in problems[0]
    long_templates = {f"repo/.mcphost/commands/c{n:03}.md": REVIEW + "x" * 30_000 for n in range(10)}
    assert len(load(tmp_path / "other", long_templates)[0]) == 10


def test_a_folder_of_commands_that_leads_out_of_the_project_is_not_listed(tmp_path: Path) -> None:
    repo, elsewhere = tmp_path / "repo", tmp_path / "elsewhere"
    for folder in (repo / ".git", repo / ".mcphost" / "commands", elsewhere):
        folder.mkdir(parents=True)
    (elsewhere / "private.md").write_text("x")
    (repo / ".mcphost" / "commands" / "notes").symlink_to(elsewhere)
    problems: list[str] = []
    places = ProjectPlaces(config_dir=tmp_path / "config", folder=repo)
    assert read_commands(places, problems.append) == ()
    (repo / ".mcphost" / "commands").rename(repo / "old")
    (repo / ".mcphost" / "commands").symlink_to(elsewhere)
    assert read_commands(places, problems.append) == ()
    assert len(problems) == 2
    assert all("leads out of the project" in text and "private" not in text for text in problems)


def test_the_reports_about_a_folder_of_commands_are_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "repo" / ".mcphost" / "commands"
    folder.mkdir(parents=True)
    for number in range(60):
        (folder / f"a{number}.md").write_text("---\nbroken: 1\n---\n")
    problems: list[str] = []
    read_commands(ProjectPlaces(config_dir=tmp_path / "config", folder=tmp_path / "repo"), problems.append)
    assert len(problems) == 11
    assert problems[-1].endswith("50 more files cannot be used for similar reasons.")


@pytest.mark.parametrize(
    "field",
    [
        'arguments: [{name: a, default: "\\x49gnore \\u0061ll"}]',
        'description: "\\U00000041"',
        'model: "o\\x70enai/x"',
        'description: "\\\\\\\nx41"\nmodel: "o\\x70enai/x"',
    ],
)
def test_a_projects_command_cannot_hide_what_it_sends_behind_escapes(tmp_path: Path, field: str) -> None:
    text = f"---\n{field}\n---\nDo it. {{a}}\n"
    commands, problems = load(tmp_path, {"repo/.mcphost/commands/theirs.md": text, "config/commands/mine.md": text})
    assert list(commands) == ["mine"]
    assert "escape sequences" in problems[0]


def test_a_projects_command_may_have_backslashes_and_folded_lines(tmp_path: Path) -> None:
    text = (
        "---\ndescription: >\n  Reads C:\\x20 and\n  more\narguments: [{name: a, default: 'it''s \\u0041'}]\n---\n{a}\n"
    )
    commands, problems = load(tmp_path, {"repo/.mcphost/commands/theirs.md": text})
    assert problems == []
    assert commands["theirs"].arguments[0].default == "it's \\u0041"


def make_command(text: str) -> CustomCommand:
    return parse_command("review", ProjectText(path="/review.md", text=text, digest="", is_own=True))


@pytest.mark.parametrize(
    "text", ["a" * 199_000, "a " * 99_000, "'" + "a" * 198_000 + "'", '\\a"b"' * 39_000, "'a' " * 49_000, "'a" * 99_000]
)
def test_a_long_paste_as_an_argument_takes_little_time(text: str) -> None:
    command = make_command("---\narguments: [what]\n---\nReview {what} of $2")
    began = thread_time()
    given = split_arguments(command, text)
    with suppress(UsageError):
        fill_template(command, text, given)
    assert thread_time() - began < 0.4


def test_arguments_that_are_too_long_are_refused_before_they_are_split() -> None:
    with pytest.raises(UsageError, match="too long"):
        split_arguments(make_command("Review $1"), "a" * 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        *("", " a  b ", "a'b c'd", '"a \\" b" c', "a\\ b c", "'it''s' x", '"a\\nb"', "a\tb\nc", '""', "x '' y"),
        *("é “q q”", "\\'a b", '"\\\\" a', "a#b #c", "a\\\nb c", "a\u00a0b c"),
    ],
)
def test_words_are_split_as_a_shell_splits_them(text: str) -> None:
    words = [*shlex.split(text), "", "", ""]
    assert fill_template(make_command("<$1><$2><$3>"), text, {}) == f"<{words[0]}><{words[1]}><{words[2]}>"


@pytest.mark.parametrize("text", ["it's odd", 'a "b c', "a b\\"])
def test_words_are_split_at_blanks_if_a_quote_is_not_closed(text: str) -> None:
    words = [*text.split(), "", ""]
    assert fill_template(make_command("<$1><$2><$3>"), text, {}) == f"<{words[0]}><{words[1]}><{words[2]}>"
