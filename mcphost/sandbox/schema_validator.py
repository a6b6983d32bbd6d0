"""Validation of values against untrusted schemas in a worker process, with a time limit of a second.

The library is fast but cannot be interrupted, and a schema of forty lines can keep it busy for years. The worker is
started on demand, kept, and killed when a check takes too long.
"""

from hashlib import sha256
from typing import Any, Literal

from mcphost.errors import MalformedMessage
from mcphost.sandbox.process import SandboxFailure, SandboxProcess
from mcphost.sandbox.schema_limits import find_schema_problem
from mcphost.serialization import Raw, Struct, decode, encode

VALIDATION_TIMEOUT = 1.0
MAX_TIMEOUTS = 2
MAX_VALUE_SIZE = 2 * 1024 * 1024
_MAX_RESPONSE_SIZE = 64 * 1024
_MAX_REMEMBERED_SCHEMAS = 1_000


class SchemaViolation(Struct, frozen=True):
    """One violation: its location (a JSON pointer, empty for the whole value) and a description."""

    path: str
    message: str


class ValidationResult(Struct, frozen=True):
    """The result of validating a value: valid, the violations found, or not checked.

    `reason` is set only if the check was not possible; it is half a sentence that says why.
    """

    outcome: Literal["fits", "invalid", "unchecked"]
    violations: tuple[SchemaViolation, ...] = ()
    reason: str = ""

    @property
    def summary(self) -> str:
        """All violations in one line; empty if the value is valid."""
        if self.outcome == "unchecked":
            return self.reason
        return "; ".join(f"{fault.path or 'the value'}: {fault.message}" for fault in self.violations)


class _WorkerResponse(Struct, frozen=True):
    faults: tuple[tuple[str, str], ...] = ()
    why: str = ""


class SchemaValidator:
    """Validator that owns the worker process and runs one check at a time.

    *timeout* limits one check, in seconds; it must be below the two seconds after which the worker ends itself. After
    `close`, the next check starts another process.
    """

    def __init__(self, timeout: float = VALIDATION_TIMEOUT) -> None:
        self._timeout = timeout
        self._process = SandboxProcess(
            "mcphost.sandbox.schema_worker", timeout=timeout, max_response_size=_MAX_RESPONSE_SIZE
        )
        self._timeout_counts: dict[bytes, int] = {}

    @property
    def pid(self) -> int | None:
        """The worker's process id while it runs."""
        return self._process.pid

    async def validate(self, schema: Raw | bytes, value: Any) -> ValidationResult:
        """Validate *value* (plain data, or JSON as Raw) against *schema*. Raises nothing but cancellation.

        Takes a second at most, two more if other checks are queued, and the start time of the worker. A schema that
        took too long twice is not tried again.
        """
        problem = find_schema_problem(schema)
        if problem:
            return _unchecked(f"its schema cannot be used: {problem}")
        schema, body = bytes(schema), bytes(value) if isinstance(value, Raw) else encode(value)
        if len(body) > MAX_VALUE_SIZE:
            return _unchecked(f"it is over {MAX_VALUE_SIZE // 1024**2} MB")
        mark = sha256(schema).digest()
        if self._timeout_counts.get(mark, 0) >= MAX_TIMEOUTS:
            return _unchecked("checking against its schema took too long before")
        line = await self._process.request(b"%d %d\n" % (len(schema), len(body)) + schema + body)
        if isinstance(line, str):
            return self._process_failed(line, mark)
        try:
            answer = decode(line, _WorkerResponse, "answer of the schema checker")
        except MalformedMessage:
            await self._process.close()
            return self._process_failed("silent", mark)
        if answer.why:
            return _unchecked(answer.why)
        faults = tuple(SchemaViolation(path, text) for path, text in answer.faults)
        return ValidationResult("invalid" if faults else "fits", faults)

    async def close(self) -> None:
        """End the worker and any running check. Idempotent."""
        await self._process.close()

    def _process_failed(self, failure: SandboxFailure, schema_digest: bytes) -> ValidationResult:
        if failure == "slow" and len(self._timeout_counts) < _MAX_REMEMBERED_SCHEMAS:
            self._timeout_counts[schema_digest] = self._timeout_counts.get(schema_digest, 0) + 1
        return _unchecked(
            {
                "busy": "too many checks are waiting",
                "slow": f"checking it took over {self._timeout:g} s",
                "ended": "the schema checker ended",
                "silent": "the schema checker did not respond",
            }[failure]
        )


def _unchecked(reason: str) -> ValidationResult:
    return ValidationResult("unchecked", reason=reason)
