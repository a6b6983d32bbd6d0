"""The commands of `mcphost pipe` for stored conversations and for the model."""

from collections.abc import Awaitable, Callable
from typing import Any

from mcphost.config.model_form_text import parse_fields
from mcphost.config.profiles import switch_model
from mcphost.errors import UsageError
from mcphost.headless import json_output
from mcphost.headless.command_members import check_members, get_number, get_text
from mcphost.headless.turn_order import TurnOrder
from mcphost.host.host import Host
from mcphost.serialization import replace

_DEMO = "demo"
"""The name of the built-in model, the only one without a provider."""


class ConversationCommands:
    """Handlers for the commands that list, read and open conversations, and that list and switch models.

    Commands take effect in the order in which they were sent. A command that changes the conversation or the model
    of the next message therefore waits in *turn_order* until the earlier commands have started their turns.
    """

    def __init__(self, host: Host, turn_order: TurnOrder) -> None:
        self._host = host
        self._turn_order = turn_order
        self.handlers: dict[str, Callable[[dict[str, Any]], Awaitable[tuple[Any, int]]]] = {
            "conversations": self._conversations,
            "messages": self._messages,
            "open": self._open,
            "new": self._new,
            "models": self._models,
            "use_model": self._use_model,
            "model": self._use_model,  # its earlier name
        }

    async def _conversations(self, message: dict[str, Any]) -> tuple[Any, int]:
        """List the pinned conversations, followed by the newest other conversations, at most `limit` in total."""
        check_members(message, "limit")
        found = await self._host.history.list_recent(get_number(message, "limit", 100, 1_000))
        listed = [json_output.to_json(one) for one in found]
        return {"open": self._host.conversation.id, "conversations": listed}, 0

    async def _messages(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Return the newest messages of the open conversation, with their numbers in the conversation, from 1.

        If `before` is given, only messages with smaller numbers are returned.
        """
        check_members(message, "limit", "before")
        limit, before = get_number(message, "limit", 100, 1_000), get_number(message, "before", 0, 2**53)
        messages = self._host.conversation.messages
        end = min(before - 1, len(messages)) if before else len(messages)
        page = [
            {"number": at + 1, **json_output.to_json(messages[at])} for at in range(max(0, end - limit), max(0, end))
        ]
        return {"conversation": self._host.conversation.id, "count": len(messages), "messages": page}, 0

    async def _open(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Open the stored conversation whose id begins with `conversation`."""
        check_members(message, "conversation")
        prefix = get_text(message, "conversation")
        async with self._turn_order.change():
            info = await self._host.history.find(prefix)
            await self._host.conversation.open(info.id)
        return json_output.to_json(info), 0

    async def _new(self, message: dict[str, Any]) -> tuple[Any, int]:
        check_members(message)
        async with self._turn_order.change():
            self._host.conversation.open_new()
        return {}, 0

    async def _models(self, message: dict[str, Any]) -> tuple[Any, int]:
        """List the models that can be used now or, if `provider` is given, all models of that provider."""
        check_members(message, "provider")
        provider = get_text(message, "provider") if "provider" in message else ""
        setup = self._host.setup
        if setup is None:
            raise UsageError("The demo has only its own model.")
        found = await setup.find_models(provider)
        return json_output.models_json(self._host.model_selection.config.name, found), 0

    async def _use_model(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Use the model named `model`, at the base URL `api_base` if given, until mcphost exits.

        The choice is not saved, as with the flag `--model`.
        """
        check_members(message, "model", "api_base")
        name = get_text(message, "model")
        api_base = get_text(message, "api_base") if "api_base" in message else ""
        if name != _DEMO:
            parse_fields({"name": name, "api_base": api_base})
        async with self._turn_order.change():
            if self._host.conversation.is_busy:
                raise UsageError("The model is still answering.", "Send the command stop first.")
            config = switch_model(self._host.model_selection.config, name)
            if api_base not in ("", config.api_base):
                # The key and the headers are for the previous address.
                config = replace(config, api_base=api_base, api_key_env="", headers={})
            self._host.model_selection.select(config)
        return {"model": config.name, "api_base": config.api_base}, 0
