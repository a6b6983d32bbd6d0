"""Validation against untrusted JSON schemas in a worker process, with a time limit of one second.

The validation library is fast but cannot be interrupted, and a schema of forty lines can keep it busy for years. The
worker is started on demand, reused, and killed if a validation takes too long.
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
    """A violation of a schema: its description, and its location as a JSON Pointer ("" for the whole value)."""

    path: str
    message: str


class ValidationResult(Struct, frozen=True):
    """Result of validating a value.

    - `outcome`: "fits" means that the value is valid. "unchecked" means that it could not be validated.
    - `reason`: why the value could not be validated; "" for the other outcomes.
    """

    outcome: Literal["fits", "invalid", "unchecked"]
    violations: tuple[SchemaViolation, ...] = ()
    reason: str = ""

    @property
    def summary(self) -> str:
        """One line with all violations, or with the reason why the value was not validated; "" for a valid value."""
        if self.outcome == "unchecked":
            return self.reason
        return "; ".join(f"{fault.path or 'the value'}: {fault.message}" for fault in self.violations)


class _WorkerResponse(Struct, frozen=True):
    faults: tuple[tuple[str, str], ...] = ()
    why: str = ""


class SchemaValidator(SandboxProcess):
    """Validator that runs in its own worker process and validates one value at a time.

    *timeout* is the time limit for one validation in seconds. *timeout* must be less than two seconds, because the
    worker ends itself after two seconds. After `close`, the next validation starts a new process.
    """

    def __init__(self, timeout: float = VALIDATION_TIMEOUT) -> None:
        super().__init__("mcphost.sandbox.schema_worker", timeout=timeout, max_response_size=_MAX_RESPONSE_SIZE)
        self._timeout_counts: dict[bytes, int] = {}

    async def validate(self, schema: Raw | bytes, value: Any) -> ValidationResult:
        """Validate *value* (plain data, or JSON as Raw) against *schema*.

        Returns after at most one second, plus up to two seconds if other validations are queued, plus the time to start
        the worker. A schema that took too long twice is not tried again. Never raises an error; safe to cancel.
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
        line = await self.request(b"%d %d\n" % (len(schema), len(body)) + schema + body)
        if isinstance(line, str):
            return self._process_failed(line, mark)
        try:
            answer = decode(line, _WorkerResponse, "answer of the schema checker")
        except MalformedMessage:
            await self.close()
            return self._process_failed("silent", mark)
        if answer.why:
            return _unchecked(answer.why)
        faults = tuple(SchemaViolation(path, text) for path, text in answer.faults)
        return ValidationResult("invalid" if faults else "fits", faults)

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
