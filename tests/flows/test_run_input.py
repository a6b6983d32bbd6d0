"""Tests for `mcphost run` with files, standard input and a system prompt, using the demo model."""

import json
import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

from tests.fakes.pdf_files import make_pdf
from tests.flows.program import Program

ASK = ("run", "what did I attach?", "--model", "demo")


def test_files_lines_and_folders_are_attached(program: Program) -> None:
    (program.home / "docs").mkdir()
    (program.home / "docs" / "a.md").write_text("one\ntwo\nthree\n")
    folder = str(program.home / "docs")
    done = program.run(*ASK, "-f", f"{folder}/a.md:2-3", "--file", folder)
    assert done.returncode == 0
    assert f"`{folder}/a.md:2-3`, 10 characters".encode() in done.stdout
    assert f"`{folder}`, 4 characters".encode() in done.stdout


def test_standard_input_beside_a_prompt_is_an_attachment(program: Program) -> None:
    done = program.run(*ASK, stdin="from a pipe")
    assert b"`standard input`, 11 characters" in done.stdout
    assert b"You attached" not in program.run(*ASK).stdout


def test_a_pipe_that_stays_silent_is_not_waited_for_and_that_is_reported(program: Program) -> None:
    reader, writer = os.pipe()
    try:
        with program.start(*ASK, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=30)
            assert process.returncode == 0
            assert b"nothing came on standard input" in err
            assert b"You attached" not in out
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-f", "/missing"), b"/missing cannot be read"),
        (("-f", "/dev/zero"), b"/dev/zero is not a file"),
        (("--system", "@/missing"), b"The file of --system cannot be read"),
        (("--schema", "/dev/null"), b"The file of --schema is not valid JSON"),
    ],
)
def test_what_cannot_be_read_ends_the_run_before_the_model_is_asked(
    program: Program, arguments: tuple[str, ...], message: bytes
) -> None:
    done = program.run(*ASK, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr


def test_a_pdf_file_reaches_a_model_that_takes_none_as_text(program: Program) -> None:
    body = make_pdf("The tide is high", "and rising")
    (program.home / "a.pdf").write_bytes(body)
    text = "[Page 1]\nThe tide is high\n\n[Page 2]\nand rising\n\n"
    size = len(text) + len("[only the text of the PDF file is attached, without its pictures and layout]")
    done = program.run(*ASK, "-f", str(program.home / "a.pdf"))
    assert done.returncode == 0, done.stderr
    assert f"`{program.home}/a.pdf`, {size} characters".encode() in done.stdout


def test_an_image_is_refused_by_a_model_that_takes_none(program: Program) -> None:
    (program.home / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (1).to_bytes(4, "big") * 2)
    done = program.run(*ASK, "-f", str(program.home / "a.png"))
    assert done.returncode == 2
    assert b"is an image, which this model does not accept" in done.stderr


@pytest.mark.parametrize(
    "schema", ['{"type": "objet"}', '{"$ref": "https://x.example/y"}', '{"minimum": "3"}', '{"pattern": "("}']
)
def test_an_invalid_schema_ends_the_run_before_the_model_is_asked(program: Program, schema: str) -> None:
    path = program.home / "schema.json"
    path.write_text(schema)
    done = program.run(*ASK, "--schema", str(path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"The schema in {path} cannot be used: it is invalid: ".encode() in done.stderr


def test_an_answer_that_never_matches_its_schema_is_exit_code_7(program: Program) -> None:
    schema = program.home / "schema.json"
    schema.write_text('{"type": "object", "required": ["total"]}')
    done = program.run(*ASK, "--schema", str(schema), "--output", "json")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 7
    assert "does not match the schema" in document["error"]
    assert document["value"] is None
    assert b"asking again" in done.stderr


def test_the_flag_takes_the_place_of_the_system_prompt_of_a_resumed_conversation(program: Program) -> None:
    flags = ("--model", "demo", "--output", "json")
    conversation = json.loads(program.text("run", "hello", *flags))["conversation"]
    (file,) = program.home.rglob("mcphost.db")

    def prompts() -> list[str]:
        with closing(sqlite3.connect(file)) as db:
            return [text for (text,) in db.execute("SELECT text FROM system_prompts ORDER BY number")]

    program.text("run", "again", "--resume", conversation, "--system", "Be brief.", *flags)
    assert prompts() == [], "a conversation without one of its own does not get one"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("INSERT INTO system_prompts (conversation, text, at) VALUES (?, 'Rhyme.', 0)", (conversation,))
    program.text("run", "again", "--resume", conversation, *flags)
    assert prompts() == ["Rhyme."]
    program.text("run", "again", "--resume", conversation, "--system", "Be brief.", *flags)
    assert prompts() == ["Rhyme.", "Be brief."]
