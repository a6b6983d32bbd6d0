"""Use of a chosen model in the chat, with the notices about it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.tui.screens.chat import ChatScreen
    from mcphost.tui.screens.models import ModelChoice


def begin_use(chat: "ChatScreen", choice: "ModelChoice") -> Callable[[], Awaitable[None]]:
    """Let the user's messages wait for the chosen model from now on; return the function that switches to it."""
    return chat.model_switches.begin(partial(_use_model, chat, choice))


def start_use(chat: "ChatScreen", choice: "ModelChoice", then: Callable[[], Awaitable[object]] | None = None) -> None:
    """Start a worker that switches to the chosen model, and then calls *then* if it was switched.

    The user's messages wait until *then* has returned as well.
    """

    async def use() -> bool:
        has_switched = await _use_model(chat, choice)
        if has_switched and then is not None:
            await then()
        return has_switched

    chat.run_worker(chat.model_switches.begin(use), group="setup")


async def _use_model(chat: "ChatScreen", choice: "ModelChoice") -> bool:
    """Switch to the chosen model, unless a turn is running; save the model if it was chosen as the default.

    Return whether the model was switched.
    """
    setup = chat.host.setup
    if setup is None:
        return False
    if chat.is_turn_active:
        chat.notify(_("Still answering. Press Esc to stop, then choose the model again."), markup=False, timeout=6)
        return False
    try:
        place = await setup.use_model(choice.config, is_default=choice.is_default)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
        return False
    finally:
        chat.refresh_status()
    saved = _(" It is saved as {place}.").format(place=place) if place else ""
    chat.presenter.add_notice(
        "info", _("Using {name} from now on.{saved}").format(name=choice.config.name, saved=saved)
    )
    return True
