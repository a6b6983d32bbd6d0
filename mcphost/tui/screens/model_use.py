"""Functions that switch the chat to a chosen model, and show notices about the result."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mcphost.errors import McpHostError
from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.tui.screens.models import ModelChoice


def begin_use(chat: Any, choice: "ModelChoice") -> Callable[[], Awaitable[None]]:
    """Hold back the user's new messages until the model is switched; return the function that switches it."""
    return chat.model_switches.begin(partial(_use_model, chat, choice))


def start_use(chat: Any, choice: "ModelChoice", then: Callable[[], Awaitable[object]] | None = None) -> None:
    """Start a worker that switches to the chosen model.

    If the switch succeeds, the worker then calls *then*.
    """

    async def use() -> bool:
        has_switched = await _use_model(chat, choice)
        if has_switched and then is not None:
            await then()
        return has_switched

    switch = chat.model_switches.begin(use)
    chat.run_worker(switch, group="setup")


async def _use_model(chat: Any, choice: "ModelChoice") -> bool:
    """Switch to the chosen model, unless a turn is running; return whether the switch succeeded.

    If the model was chosen as the default, it is also saved. A notice in the chat states the result.
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
