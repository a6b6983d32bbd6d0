"""Errors of several commands: what a task group wrapped, and the conversation that does not exist."""

from typing import cast

from mcphost.errors import McpHostError, UsageError


def unwrap_error(error: BaseException) -> BaseException:
    """The one error that matters in a group; our own wins over its companions."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", inner)
        inner = (group.subgroup(McpHostError) or group).exceptions[0]
    return inner


def conversation_not_found(id_prefix: str) -> UsageError:
    """The error for `--resume` with an id prefix, or "" for the latest, that no stored conversation has."""
    wanted = f"There is no conversation {id_prefix!r}." if id_prefix else "There is no conversation yet."
    return UsageError(wanted, "List them with: mcphost sessions")
