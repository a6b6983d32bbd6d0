"""Outcome of validating a structured result against the tool's schema."""

from typing import Literal

from mcphost.serialization import Struct


class OutputValidation(Struct, frozen=True):
    """Outcome of a validation: `none` if the tool has no schema; `text` is a sentence on the rest."""

    outcome: Literal["none", "fits", "misfit", "unchecked"] = "none"
    text: str = ""
