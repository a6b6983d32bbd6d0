"""JSON schemas for the arguments of tools."""

from typing import Any


def an_object(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties."""
    return {"type": "object", "properties": properties}
