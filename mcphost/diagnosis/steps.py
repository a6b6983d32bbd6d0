"""Steps in a diagnosis: what was checked, the result, and what to do about it."""

from typing import Literal

from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct
from mcphost.translation import N_

StepStatus = Literal["ok", "warning", "failed"]
MAX_DETAIL_LENGTH = 1_000

STEP_NAMES = (
    N_("configuration"), N_("folder"), N_("command"), N_("interpreter"), N_("arguments"), N_("URL"), N_("proxy"),
    N_("name"), N_("port"), N_("certificate"), N_("well-known"), N_("approval"), N_("process"), N_("HTTP"),
    N_("answer"), N_("output"), N_("protocol"), N_("version"), N_("capabilities"), N_("sign-in"), N_("lists"),
    N_("tools"), N_("latency"),
)  # fmt: skip
"""Names of the steps, for translation."""


class DiagnosisStep(Struct, frozen=True):
    """Result of one step of a diagnosis.

    `hint` tells the user what to do. A diagnosis ends at the first step that failed.
    """

    name: str
    status: StepStatus
    detail: str
    hint: str = ""


def make_step(name: str, status: StepStatus, detail: str, hint: str = "") -> DiagnosisStep:
    """Return a diagnosis step; *detail* and *hint* are sanitized and shortened.

    Both may quote a server, so they are untrusted.
    """
    return DiagnosisStep(name, status, _clean(detail), _clean(hint))


def _clean(text: str) -> str:
    shown = sanitize_line(text, 2 * MAX_DETAIL_LENGTH)
    return shown if len(shown) <= MAX_DETAIL_LENGTH else f"{shown[: MAX_DETAIL_LENGTH - 1]}…"
