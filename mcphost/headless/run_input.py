"""Input of `mcphost run` in addition to the prompt: files, standard input, and a JSON Schema for the answer."""

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
    Attachment,
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
from mcphost.translation import _

STDIN = "-"
STDIN_NAME = "standard input"
MAX_FILES = 50
MAX_SCHEMA_BYTES = 256 * 1024
MAX_SYSTEM_BYTES = 200_000
FIRST_BYTE_TIMEOUT = 3.0
"""Seconds to wait for the first byte from standard input if the user did not request standard input with `-f -`."""
_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n```\s*", re.DOTALL | re.IGNORECASE)


def read_stdin(*, is_named: bool) -> bytes:
    """Return the data piped or redirected to standard input, or b"" if it is a terminal. Blocks.

    *is_named* means that the user requested standard input with `-f -`. If it is False, the pipe may be meant for
    another program: the function then waits at most three seconds for the first byte, and returns b"" if none arrives.
    Raises UsageError if standard input contains more than 8 MB.
    """
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
        if sys.stdin.isatty() or not (is_named or stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            return b""
        if not is_named and not select.select([descriptor], [], [], FIRST_BYTE_TIMEOUT)[0]:
            sys.stderr.write(_("mcphost: nothing came on standard input; to wait for it: -f -\n"))
            return b""
        body = sys.stdin.buffer.read(MAX_BINARY_BYTES + 1)
    except (OSError, ValueError):  # closed
        return b""
    if len(body) > MAX_BINARY_BYTES:
        raise UsageError(f"Standard input is over {MAX_BINARY_BYTES // 1024**2} MB.", "Save it, and attach a part: -f.")
    return body


async def read_files(host: Host, names: Sequence[str], stdin: bytes) -> tuple[Part, ...]:
    """Return attachments for the files, folders and line ranges in *names*, and for *stdin* unless it is empty.

    Raises UsageError if an item cannot be attached, and ModelError if the selected model's provider is unknown.
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
        del error  # the run itself reports the error
    facts, folder = model.facts, os.getcwd()

    def read() -> list[Attachment]:
        found = [read_attachment(parse_reference(name), folder, facts) for name in names]
        if stdin:
            found.append(make_attachment(STDIN_NAME, stdin, facts))
        return found

    return tuple([(await host.attachments.fit(one, facts)).part for one in await anyio.to_thread.run_sync(read)])


def read_system_prompt(text: str) -> str:
    """Return *text* or, if it has the form `@FILE`, the content of that file.

    Raises UsageError if the file is unreadable, too large or not UTF-8.
    """
    if not text.startswith("@"):
        return text
    body = _read_small(text[1:], MAX_SYSTEM_BYTES, "--system")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"The file of --system is not UTF-8 text: {text[1:]}", "Convert it.") from error


def read_schema(path: str) -> Raw:
    """Read a JSON Schema from a file. Raises UsageError if it cannot be read or is not a usable schema."""
    body = _read_small(path, MAX_SCHEMA_BYTES, "--schema")
    try:
        value: Any = loads(body, "schema")
    except MalformedMessage as error:
        raise UsageError(f"The file of --schema is not valid JSON: {path}. {error.message}") from error
    problem = find_schema_problem(body) if isinstance(value, dict) else "it is not a JSON object"
    if problem:
        raise UsageError(f"The schema in {path} cannot be used: {problem}.", "Correct it.")
    return Raw(encode(value))  # without line breaks, because a request is sent as one line


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
    """Result of validating an answer.

    - `value`: the parsed JSON, or None if the answer is not JSON.
    - `problem`: a sentence that says why the answer does not match the schema, or "" if it matches.
    - `is_checked`: False if the answer could not be validated, so that asking the model again would not help.
    """

    value: Any
    problem: str
    is_checked: bool = True


class AnswerSchema:
    """JSON Schema for the model's answer, with the worker process that validates answers against it."""

    def __init__(self, schema: Raw) -> None:
        self.schema = schema
        self._validator = SchemaValidator()

    async def find_problem(self) -> str:
        """Return the reason why no answer can be validated against the schema, such as an unknown type, or "".

        To find out, the worker process validates a trivial value. The process then ends; the next validation starts a
        new one.
        """
        try:
            result = await self._validator.validate(self.schema, None)
        finally:
            await self._validator.close()
        return result.reason.replace("its schema is invalid", "it is invalid", 1)

    async def check(self, answer: str) -> SchemaCheck:
        """Parse an answer, which may be in a Markdown code fence, and validate it against the schema."""
        fenced = _FENCED.fullmatch(answer)
        try:
            value = loads(fenced[1] if fenced else answer, "answer")
        except MalformedMessage:
            return SchemaCheck(None, "It is not valid JSON.")
        result = await self._validator.validate(self.schema, value)
        if result.outcome == "unchecked":
            return SchemaCheck(value, f"{result.reason[:1].upper()}{result.reason[1:2000]}.", is_checked=False)
        return SchemaCheck(value, "" if result.outcome == "fits" else f"{result.summary[:2000]}.")

    async def close(self) -> None:
        """Stop the worker process."""
        await self._validator.close()


async def open_answer_schema(path: str) -> AnswerSchema:
    """Read the schema in a file, and check it against the meta-schema of its dialect.

    Raises UsageError if the file cannot be read or the schema cannot be used.
    """
    schema = AnswerSchema(read_schema(path))
    problem = await schema.find_problem()
    if problem:
        raise UsageError(f"The schema in {path} cannot be used: {problem}.", "Correct it.")
    return schema


class RunInput(NamedTuple):
    """Input of `mcphost run` in addition to the prompt: file names, standard input, and a schema for the answer."""

    files: Sequence[str] = ()
    stdin: bytes = b""
    schema: AnswerSchema | None = None


def retry_prompt(problem: str) -> str:
    """Return the message that asks the model to answer again.

    *problem* is the reason why the previous answer was rejected.
    """
    return f"Your answer does not match the JSON Schema. {problem} Answer again with the JSON value and nothing else."
