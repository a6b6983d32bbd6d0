"""Finds what a task group wrapped."""

from typing import cast

from mcphost.errors import McpHostError


def innermost(error: BaseException) -> BaseException:
    """The one error that matters in a group; our own wins over its companions."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", inner)
        inner = (group.subgroup(McpHostError) or group).exceptions[0]
    return inner
