"""Encode JSON schemas in the form that the schema validator receives."""

from typing import Any

from mcphost.serialization import Raw, encode


def encode_schema(schema: Any) -> Raw:
    return Raw(encode(schema))
