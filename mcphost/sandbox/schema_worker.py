"""Worker process that validates values against JSON schemas; the only module that imports jsonschema_rs.

Run as `python -m mcphost.sandbox.schema_worker`. A request is a line with two numbers (the sizes of the schema
and of the value in bytes), followed by both; a response is one line of JSON. A validation cannot be interrupted
from inside the process, so the parent process kills the worker if it takes too long. If the parent process has
exited, an alarm signal ends the worker.
"""

import itertools
import json
import signal
import sys
from typing import Any, NoReturn

from mcphost.sandbox.process_limits import apply_worker_limits

MAX_VIOLATIONS = 5
MAX_TEXT_LENGTH = 300
ALARM_SECONDS = 2
"""Seconds after which the kernel ends this process if it is still busy with one validation."""
MAX_MEMORY = 1024**3


def main() -> None:
    """Handle requests from standard input until the end of the input."""
    apply_worker_limits(MAX_MEMORY)
    import jsonschema_rs

    out = sys.stdout.buffer
    out.write(b"{}\n")
    out.flush()
    source = sys.stdin.buffer
    while head := source.readline(64):
        schema_size, value_size = map(int, head.split())
        schema, value = source.read(schema_size), source.read(value_size)
        signal.alarm(ALARM_SECONDS)
        answer = validate(jsonschema_rs, schema, value)
        signal.alarm(0)
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()


def validate(library: Any, schema: bytes, value: bytes) -> dict[str, Any]:
    """Validate *value*; return its violations (`faults`), or the reason why it was not validated (`why`).

    `faults` is a list of at most five pairs of JSON Pointer and message; it is empty if the value is valid. The
    caller must limit the time.
    """
    try:
        decoded = _loads(value)
    except (ValueError, RecursionError):
        return {"why": "the value cannot be read"}
    try:
        validator = library.validator_for(_loads(schema), retriever=_refuse_download)
    except (library.ValidationError, ValueError, RecursionError) as error:
        return {"why": f"its schema is invalid: {_first_line(error)}"}
    faults: list[list[str]] = []
    try:
        for error in itertools.islice(validator.iter_errors(decoded), MAX_VIOLATIONS):
            if "BacktrackLimit" in error.kind.name:
                return {"why": "a pattern takes too long"}
            faults.append([_pointer(error.instance_path), _first_line(error)])
    except (ValueError, RecursionError) as error:
        return {"why": f"the check failed: {_first_line(error)}"}
    return {"faults": faults}


def _refuse_download(address: str) -> NoReturn:
    raise ValueError(f"mcphost downloads no schemas: {address[:100]}")


def _loads(raw: bytes) -> Any:
    def no_number(name: str) -> NoReturn:
        raise ValueError(name)

    return json.loads(raw, parse_constant=no_number)


def _first_line(error: BaseException) -> str:
    text = str(getattr(error, "message", "") or error).strip()
    return text.splitlines()[0][:MAX_TEXT_LENGTH] if text else type(error).__name__


def _pointer(path: Any) -> str:
    names = (str(name).replace("~", "~0").replace("/", "~1") for name in path)
    return "".join(f"/{name}" for name in names)[:MAX_TEXT_LENGTH]


if __name__ == "__main__":
    main()
