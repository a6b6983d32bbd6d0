"""What a run sends beside its prompt: files, standard input, and the JSON Schema that the answer must match."""

import os
import re
import select
import stat
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import anyio.to_thread

from mcphost.errors import MalformedMessage, ModelError, UsageError
from mcphost.host.conversation.local_files import (
    MAX_BINARY_BYTES,
    FileReference,
    make_attachment,
    parse_reference,
    read_attachment,
)
from mcphost.host.host import Host
from mcphost.llm.messages import Part
from mcphost.llm.model import ModelFacts
from mcphost.sandbox.schema_limits import find_schema_problem
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import Raw, encode, loads

STDIN = "-"
STDIN_NAME = "standard input"
MAX_FILES = 50
MAX_SCHEMA_BYTES = 256 * 1024
MAX_SYSTEM_BYTES = 200_000
FIRST_BYTE_TIMEOUT = 3.0
"""Seconds to wait for the first byte of a pipe that nobody asked to read."""
_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n```\s*", re.DOTALL | re.IGNORECASE)


def read_stdin(*, is_named: bool) -> bytes:
    """Return what was piped or redirected to standard input; b"" for a terminal. Blocking.

    Unless *is_named*, wait three seconds at most for the beginning, because the pipe may belong to another program.
    Raises UsageError if it is over 8 MB.
    """
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
        if sys.stdin.isatty() or not (is_named or stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            return b""
        if not is_named and not select.select([descriptor], [], [], FIRST_BYTE_TIMEOUT)[0]:
            sys.stderr.write("mcphost: nothing came on standard input; to wait for it: -f -\n")
            return b""
        body = sys.stdin.buffer.read(MAX_BINARY_BYTES + 1)
    except (OSError, ValueError):  # closed
        return b""
    if len(body) > MAX_BINARY_BYTES:
        raise UsageError(f"Standard input is over {MAX_BINARY_BYTES // 1024**2} MB.", "Save it, and attach a part: -f.")
    return body


async def read_files(host: Host, names: Sequence[str], stdin: bytes) -> tuple[Part, ...]:
    """Return the files, folders and ranges of lines in *names*, and what standard input had, as attachments.

    Raises UsageError if one cannot be attached, and ModelError if the provider is unknown.
    """
    names = [name for name in names if name != STDIN]
    if len(names) > MAX_FILES:
        raise UsageError(f"At most {MAX_FILES} files can be attached.", "Attach a folder's files in several runs.")
    model = host.model_selection.model
    if model is None or not (names or stdin):
        return ()
    try:
        await model.load_facts()
    except ModelError as error:
        if model.facts == ModelFacts():
            raise
        del error  # the run itself reports it
    facts, folder = model.facts, os.getcwd()

    def read() -> list[Part]:
        parts = [read_attachment(parse_reference(name), folder, facts).part for name in names]
        if stdin:
            parts.append(make_attachment(FileReference(STDIN_NAME), STDIN_NAME, stdin, facts).part)
        return parts

    return tuple(await anyio.to_thread.run_sync(read))


def read_system_prompt(text: str) -> str:
    """Return the text, or the content of the file in `@FILE`. Raises UsageError."""
    if not text.startswith("@"):
        return text
    body = _read_small(text[1:], MAX_SYSTEM_BYTES, "--system")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"The file of --system is not UTF-8 text: {text[1:]}", "Convert it.") from error


def read_schema(path: str) -> Raw:
    """Return the JSON Schema in a file, as it is. Raises UsageError if it cannot be read or used."""
    body = _read_small(path, MAX_SCHEMA_BYTES, "--schema")
    try:
        value: Any = loads(body, "schema")
    except MalformedMessage as error:
        raise UsageError(f"The file of --schema is not valid JSON: {path}. {error.message}") from error
    problem = find_schema_problem(body) if isinstance(value, dict) else "it is no JSON object"
    if problem:
        raise UsageError(f"The schema in {path} cannot be used: {problem}.", "Correct it.")
    return Raw(encode(value))  # without line breaks, as a request travels on one line


def _read_small(path: str, limit: int, flag: str) -> bytes:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            body = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"The file of {flag} cannot be read: {path}: {error.strerror}.", "Check the path.") from error
    if len(body) > limit:
        raise UsageError(f"The file of {flag} is over {limit // 1000} kB: {path}", "Shorten it.")
    return body


class SchemaCheck(NamedTuple):
    """The value of an answer, and why it does not match the schema, or ""."""

    value: Any
    problem: str


class AnswerSchema:
    """A JSON Schema that the model's answer must match, and the worker process that checks it."""

    def __init__(self, schema: Raw) -> None:
        self.schema = schema
        self._validator = SchemaValidator()

    async def check(self, answer: str) -> SchemaCheck:
        """Parse the answer, with or without a Markdown fence around it, and validate it against the schema."""
        fenced = _FENCED.fullmatch(answer)
        try:
            value = loads(fenced[1] if fenced else answer, "answer")
        except MalformedMessage:
            return SchemaCheck(None, "It is not valid JSON.")
        result = await self._validator.validate(self.schema, value)
        return SchemaCheck(value, "" if result.outcome == "fits" else f"{result.summary[:2000]}.")

    async def close(self) -> None:
        """End the worker process."""
        await self._validator.close()


class RunInput(NamedTuple):
    """What is sent beside the prompt: files as typed, the content of standard input, and a schema of the answer."""

    files: Sequence[str] = ()
    stdin: bytes = b""
    schema: AnswerSchema | None = None


def retry_prompt(problem: str) -> str:
    """Return the message that asks the model once more for an answer that matches the schema."""
    return f"Your answer does not match the JSON Schema. {problem} Answer again with the JSON value and nothing else."
