"""Checker: whether a value fits a schema, found out within a second whatever the schema does.

The library is fast and cannot be interrupted, and a schema of forty lines can keep it busy for years. So it runs in a
child that is started when first needed, kept, and killed when a check takes too long.
"""

from hashlib import sha256
from typing import Any, Literal

from mcphost.errors import MalformedMessage
from mcphost.sandbox.process import Child, Failure
from mcphost.sandbox.schema_limits import fault
from mcphost.serialization import Data, Raw, decode, encode

CHECK_SECONDS = 1.0
PATIENCE = 2
VALUE_SIZE = 2 * 1024 * 1024
_ANSWER_SIZE = 64 * 1024
_MOST_SLOW = 1_000


class Fault(Data, frozen=True):
    """One thing that does not fit: where (a JSON pointer, empty for the whole value) and what."""

    path: str
    text: str


class Verdict(Data, frozen=True):
    """What a check found. `why` says, in half a sentence, what kept it from finding out."""

    outcome: Literal["fits", "misfit", "unchecked"]
    faults: tuple[Fault, ...] = ()
    why: str = ""

    @property
    def sentence(self) -> str:
        """All of it in one line; empty when the value fits."""
        if self.outcome == "unchecked":
            return self.why
        return "; ".join(f"{fault.path or 'the value'}: {fault.text}" for fault in self.faults)


class _Answer(Data, frozen=True):
    faults: tuple[tuple[str, str], ...] = ()
    why: str = ""


class Checker:
    """Owns the child. One check runs at a time; `close` ends the child, the next check would start another.

    `seconds` is what one check may take, at most the two seconds after which the child ends itself.
    """

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._seconds = seconds
        self._child = Child("mcphost.sandbox.schema_worker", seconds=seconds, answer_size=_ANSWER_SIZE)
        self._slow: dict[bytes, int] = {}

    @property
    def pid(self) -> int | None:
        """The child's process id while it lives."""
        return self._child.pid

    async def check(self, schema: Raw | bytes, value: Any) -> Verdict:
        """Whether `value` (plain data, or JSON as Raw) fits `schema`. Raises nothing but cancellation.

        Takes a second at most, two more when others wait before it, and what starting the child takes. A schema that
        took too long twice is not tried again.
        """
        problem = fault(schema)
        if problem:
            return _unchecked(f"its schema cannot be used: {problem}")
        schema, body = bytes(schema), bytes(value) if isinstance(value, Raw) else encode(value)
        if len(body) > VALUE_SIZE:
            return _unchecked(f"it is over {VALUE_SIZE // 1024**2} MB")
        mark = sha256(schema).digest()
        if self._slow.get(mark, 0) >= PATIENCE:
            return _unchecked("checking against its schema took too long before")
        line = await self._child.ask(b"%d %d\n" % (len(schema), len(body)) + schema + body)
        if isinstance(line, str):
            return self._failed(line, mark)
        try:
            answer = decode(line, _Answer, "answer of the schema checker")
        except MalformedMessage:
            await self._child.close()
            return self._failed("silent", mark)
        if answer.why:
            return _unchecked(answer.why)
        faults = tuple(Fault(path, text) for path, text in answer.faults)
        return Verdict("misfit" if faults else "fits", faults)

    async def close(self) -> None:
        """End the child; a check that runs ends with it. Idempotent."""
        await self._child.close()

    def _failed(self, failure: Failure, mark: bytes) -> Verdict:
        if failure == "slow" and len(self._slow) < _MOST_SLOW:
            self._slow[mark] = self._slow.get(mark, 0) + 1
        return _unchecked(
            {
                "busy": "too many checks wait",
                "slow": f"checking it took over {self._seconds:g} s",
                "ended": "the schema checker ended",
                "silent": "the schema checker gave no answer",
            }[failure]
        )


def _unchecked(why: str) -> Verdict:
    return Verdict("unchecked", why=why)
