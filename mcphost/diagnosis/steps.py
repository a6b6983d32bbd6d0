"""A step of a diagnosis: what was checked, with which result, and what to do."""

from typing import Literal

from mcphost.sanitize import sanitize
from mcphost.serialization import Struct

StepStatus = Literal["ok", "warning", "failed"]
MAX_DETAIL_LENGTH = 1_000


class DiagnosisStep(Struct, frozen=True):
    """Result of one step; the first failed one ends a diagnosis. `hint` is what to do."""

    name: str
    status: StepStatus
    detail: str
    hint: str = ""


def make_step(name: str, status: StepStatus, detail: str, hint: str = "") -> DiagnosisStep:
    """Return a step whose texts, which may quote a server, are bounded and have no control characters."""
    return DiagnosisStep(name, status, _clean(detail), _clean(hint))


def _clean(text: str) -> str:
    shown = sanitize(text[: 2 * MAX_DETAIL_LENGTH], keep_newlines=False)
    return shown if len(shown) <= MAX_DETAIL_LENGTH else f"{shown[: MAX_DETAIL_LENGTH - 1]}…"
