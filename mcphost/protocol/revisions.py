"""Supported protocol revisions, with their features and eras.

See https://modelcontextprotocol.io/specification. There are two eras. In the handshake era (up to revision
2025-11-25), a connection begins with an initialize handshake. In the stateless era (revision 2026-07-28 and
later), each request contains everything that the server needs to know about the client.
"""

from enum import StrEnum
from typing import Literal

Era = Literal["handshake", "stateless"]
ServerEras = Literal["handshake", "stateless", "dual"]
"""The eras that a server supports; "dual" means both."""


class Revision(StrEnum):
    """A protocol revision; revisions are ordered by date."""

    V2024_11_05 = "2024-11-05"
    V2025_03_26 = "2025-03-26"
    V2025_06_18 = "2025-06-18"
    V2025_11_25 = "2025-11-25"
    V2026_07_28 = "2026-07-28"

    @property
    def era(self) -> Era:
        """The protocol era: "stateless" for revision 2026-07-28 and later, "handshake" for earlier revisions."""
        return "stateless" if self >= Revision.V2026_07_28 else "handshake"

    @property
    def has_version_header(self) -> bool:
        """Whether HTTP requests have the header MCP-Protocol-Version (revision 2025-06-18 and later)."""
        return self >= Revision.V2025_06_18

    @property
    def has_output_schemas(self) -> bool:
        """Whether tools may declare an output schema (revision 2025-06-18 and later)."""
        return self >= Revision.V2025_06_18

    @property
    def has_non_object_output(self) -> bool:
        """Whether structured output may be any JSON value, not only an object (revision 2026-07-28 and later)."""
        return self >= Revision.V2026_07_28

    @property
    def has_batches(self) -> bool:
        """Whether JSON-RPC batches are allowed (only in revision 2025-03-26)."""
        return self is Revision.V2025_03_26


HANDSHAKE_REVISIONS = tuple(r for r in Revision if r.era == "handshake")
STATELESS_REVISIONS = tuple(r for r in Revision if r.era == "stateless")
LATEST_HANDSHAKE = HANDSHAKE_REVISIONS[-1]
LATEST_STATELESS = STATELESS_REVISIONS[-1]


def parse_revision(text: str) -> Revision | None:
    """Return the revision with the date *text*, or None if mcphost does not support that revision."""
    try:
        return Revision(text)
    except ValueError:
        return None
