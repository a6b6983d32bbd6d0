"""The five revisions, their era, and what exists in which (https://modelcontextprotocol.io/specification)."""

from enum import StrEnum
from typing import Literal

Era = Literal["handshake", "stateless"]
ServerEras = Literal["handshake", "stateless", "dual"]
"""Which eras a server speaks; `dual` is both."""


class Revision(StrEnum):
    """A protocol revision; members compare and sort by date."""

    V2024_11_05 = "2024-11-05"
    V2025_03_26 = "2025-03-26"
    V2025_06_18 = "2025-06-18"
    V2025_11_25 = "2025-11-25"
    V2026_07_28 = "2026-07-28"

    @property
    def era(self) -> Era:
        """`handshake` up to 2025-11-25, `stateless` from 2026-07-28."""
        return "stateless" if self >= Revision.V2026_07_28 else "handshake"

    @property
    def has_version_header(self) -> bool:
        """HTTP requests carry MCP-Protocol-Version from 2025-06-18 on."""
        return self >= Revision.V2025_06_18

    @property
    def has_output_schemas(self) -> bool:
        """Tools promise structured output from 2025-06-18 on."""
        return self >= Revision.V2025_06_18

    @property
    def has_non_object_output(self) -> bool:
        """Structured output is an object up to 2025-11-25, and any JSON from 2026-07-28 on."""
        return self >= Revision.V2026_07_28

    @property
    def has_batches(self) -> bool:
        """JSON-RPC arrays exist in 2025-03-26 only."""
        return self is Revision.V2025_03_26


HANDSHAKE_REVISIONS = tuple(r for r in Revision if r.era == "handshake")
STATELESS_REVISIONS = tuple(r for r in Revision if r.era == "stateless")
LATEST_HANDSHAKE = HANDSHAKE_REVISIONS[-1]
LATEST_STATELESS = STATELESS_REVISIONS[-1]


def parse_revision(text: str) -> Revision | None:
    """The revision with that date, or None when we do not speak it."""
    try:
        return Revision(text)
    except ValueError:
        return None
