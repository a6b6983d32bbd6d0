"""Functions that switch the chat to a chosen model, and show notices about the result.

The user can also enter the URL of a model API, such as a gateway or a vLLM server on an unusual port.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError
from mcphost.translation import _
from mcphost.unicode_forms import split_url

if TYPE_CHECKING:
    from mcphost.tui.screens.models import ModelChoice

_MAX_LENGTH = 2_000


def begin_use(chat: Any, choice: "ModelChoice") -> Callable[[], Awaitable[None]]:
    """Hold back the messages that the user enters from now on; return the function that switches the model.

    The returned function must be called exactly once. After the switch, it sends the messages or, if the switch failed,
    returns them to the composer.
    """
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


def find_address(text: str) -> str:
    """Return *text* without surrounding whitespace if it is an http or https URL, otherwise ""."""
    url = text.strip()
    if len(url) > _MAX_LENGTH or len(url.split()) != 1 or not url.lower().startswith(("http://", "https://")):
        return ""
    try:
        return url if split_url(url).hostname else ""
    except ValueError:
        return ""


def open_address_form(chat: Any, address: str = "", on_leave: "Callable[[], object]" = lambda: None) -> None:
    """Open the form for a model with *address* as the URL of its API, and switch to the model that the user enters.

    *on_leave* is called if the user closes the form without entering a model, or in the demo, which has no such form.
    """
    from mcphost.tui.screens.models import ModelForm

    setup = chat.host.setup
    if setup is None:
        on_leave()
        return

    def use(choice: "ModelChoice | None") -> None:
        if choice is None:
            on_leave()
        else:
            start_use(chat, choice, None)

    chat.app.push_screen(ModelForm(setup, ModelConfig(api_base=address)), use)  # pyright: ignore[reportUnknownMemberType]


def offer_address(chat: Any, text: str) -> bool:
    """If *text*, a message that the user submitted, is a URL, open the model form with this URL and return True.

    Otherwise, return False. If the user closes the form without entering a model, *text* is put back into the composer,
    unless the composer already contains other text.
    """
    address = find_address(text) if chat.host.setup is not None else ""
    if not address:
        return False
    from mcphost.tui.widgets.composer import Composer

    composer = chat.query_one(Composer)
    composer.mark_sent()

    def restore() -> None:
        if not composer.draft.text:
            composer.set_text(text)

    open_address_form(chat, address, restore)
    return True
