"""One step of a diagnosis: what was checked, the result, and what to do about it."""

from typing import Literal

from mcphost.sanitize import sanitize
from mcphost.serialization import Struct

StepStatus = Literal["ok", "warning", "failed"]
MAX_DETAIL_LENGTH = 1_000


class DiagnosisStep(Struct, frozen=True):
    """Result of a diagnosis step, with a `hint` on what to do; a diagnosis ends at the first failed step."""

    name: str
    status: StepStatus
    detail: str
    hint: str = ""


def make_step(name: str, status: StepStatus, detail: str, hint: str = "") -> DiagnosisStep:
    """Return a step; its texts may quote a server, so they are cut to a maximum length and sanitized."""
    return DiagnosisStep(name, status, _clean(detail), _clean(hint))


def _clean(text: str) -> str:
    shown = sanitize(text[: 2 * MAX_DETAIL_LENGTH], keep_newlines=False)
    return shown if len(shown) <= MAX_DETAIL_LENGTH else f"{shown[: MAX_DETAIL_LENGTH - 1]}…"
