"""Conversion of the texts in content blocks to form fields and back."""

from typing import Any, cast

from mcphost.host.questions.form_fields import Field

MAX_TEXTS = 50
"""Maximum editable texts of one message, counted from the end; a form with thousands of fields is slow."""


def _content_items(content: Any) -> list[Any]:
    return cast("list[Any]", content) if isinstance(content, list) else [content]


def _text_blocks(content: Any) -> list[tuple[int, dict[str, Any]]]:
    blocks = [
        (at, cast("dict[str, Any]", one)) for at, one in enumerate(_content_items(content)) if isinstance(one, dict)
    ]
    return [(at, one) for at, one in blocks if one.get("type") == "text" and isinstance(one.get("text"), str)][
        -MAX_TEXTS:
    ]


def build_text_fields(content: Any, prefix: str, title: str) -> tuple[list[Field], dict[str, Any]]:
    """Return a field for each text, named `prefix` plus its index, and the current values."""
    found = _text_blocks(content)
    fields = [Field(name=f"{prefix}{at}", kind="text", title=title) for at, _ in found]
    return fields, {f"{prefix}{at}": block["text"] or None for at, block in found}


def replace_texts(content: Any, prefix: str, values: dict[str, Any]) -> Any:
    """Return the content with the edited texts and without emptied ones; None if nothing is left."""
    known = {at for at, _ in _text_blocks(content) if f"{prefix}{at}" in values}
    made: list[Any] = []
    for at, block in enumerate(_content_items(content)):
        if at not in known:
            made.append(block)
        elif text := values[f"{prefix}{at}"]:
            made.append({**block, "text": text})
    if not made:
        return None
    return made if isinstance(content, list) else made[0]
