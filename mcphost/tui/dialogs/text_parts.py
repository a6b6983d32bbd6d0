"""The texts among content blocks as fields of a form, and the blocks with what was filled in."""

from typing import Any, cast

from mcphost.host.questions.form_fields import Field

MAX_TEXTS = 50
"""Texts of one message that can be edited: the last ones; a form of thousands of fields holds up the screen."""


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
    """A field for each text, named by its place after `prefix`, and what is in it now."""
    found = _text_blocks(content)
    fields = [Field(name=f"{prefix}{at}", kind="text", title=title) for at, _ in found]
    return fields, {f"{prefix}{at}": block["text"] or None for at, block in found}


def replace_texts(content: Any, prefix: str, values: dict[str, Any]) -> Any:
    """The content with those texts; one that was emptied is left out. None when nothing is left."""
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
