"""The form requested by the npm package server-everything (2026.8.31): thirteen fields of every kind, one required."""

from typing import Any

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.forms import parse_form
from mcphost.serialization import Raw, encode


def _titled_options(*titles: str, stem: str) -> list[dict[str, str]]:
    return [{"const": f"{stem}-{number}", "title": title} for number, title in enumerate(titles, 1)]


PROPERTIES: dict[str, dict[str, Any]] = {
    "name": {"title": "String", "type": "string", "description": "Your full, legal name"},
    "check": {"title": "Boolean", "type": "boolean", "description": "Agree to the terms and conditions"},
    "firstLine": {
        "title": "String with default", "type": "string", "description": "Favorite first line of a story",
        "default": "It was a dark and stormy night.",
    },
    "email": {
        "title": "String with email format", "type": "string", "format": "email",
        "description": "Your email address (will be verified, and never shared with anyone else)",
    },
    "homepage": {
        "type": "string", "format": "uri", "title": "String with uri format",
        "description": "Portfolio / personal website",
    },
    "birthdate": {
        "title": "String with date format", "type": "string", "format": "date", "description": "Your date of birth",
    },
    "integer": {
        "title": "Integer", "type": "integer", "minimum": 1, "maximum": 100, "default": 42,
        "description": "Your favorite integer (do not give us your phone number, pin, or other sensitive info)",
    },
    "number": {
        "title": "Number in range 1-1000", "type": "number", "minimum": 0, "maximum": 1000, "default": 3.14,
        "description": "Favorite number (there are no wrong answers)",
    },
    "untitledSingleSelectEnum": {
        "type": "string", "title": "Untitled Single Select Enum", "description": "Choose your favorite friend",
        "enum": ["Monica", "Rachel", "Joey", "Chandler", "Ross", "Phoebe"], "default": "Monica",
    },
    "untitledMultipleSelectEnum": {
        "type": "array", "title": "Untitled Multiple Select Enum", "description": "Choose your favorite instruments",
        "minItems": 1, "maxItems": 3, "default": ["Guitar"],
        "items": {"type": "string", "enum": ["Guitar", "Piano", "Violin", "Drums", "Bass"]},
    },
    "titledSingleSelectEnum": {
        "type": "string", "title": "Titled Single Select Enum", "description": "Choose your favorite hero",
        "oneOf": _titled_options("Superman", "Green Lantern", "Wonder Woman", stem="hero"), "default": "hero-1",
    },
    "titledMultipleSelectEnum": {
        "type": "array", "title": "Titled Multiple Select Enum", "description": "Choose your favorite types of fish",
        "minItems": 1, "maxItems": 3, "default": ["fish-1"],
        "items": {"anyOf": _titled_options("Tuna", "Salmon", "Trout", stem="fish")},
    },
    "legacyTitledEnum": {
        "type": "string", "title": "Legacy Titled Single Select Enum",
        "description": "Choose your favorite type of pet",
        "enum": ["pet-1", "pet-2", "pet-3", "pet-4", "pet-5"], "default": "pet-1",
        "enumNames": ["Cats", "Dogs", "Birds", "Fish", "Reptiles"],
    },
}  # fmt: skip


def everything_fields() -> tuple[Field, ...]:
    """Return the thirteen fields of the form."""
    return parse_form(Raw(encode({"type": "object", "properties": PROPERTIES, "required": ["name"]})))
