"""What became of checking a structured result against the schema of its tool."""

from typing import Literal

from mcphost.serialization import Struct


class OutputValidation(Struct, frozen=True):
    """What became of checking a result: `none` when its tool promises nothing; `text` says the rest in a sentence."""

    outcome: Literal["none", "fits", "misfit", "unchecked"] = "none"
    text: str = ""
