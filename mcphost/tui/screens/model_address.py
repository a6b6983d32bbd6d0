"""Form for a model at an address of one's own, such as a gateway or a vLLM server on an unusual port."""

from typing import TYPE_CHECKING, Any

from mcphost.config.schema import ModelConfig
from mcphost.unicode_forms import split_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcphost.tui.screens.models import ModelChoice

_MAX_LENGTH = 2_000


def find_address(text: str) -> str:
    """Return the http or https URL that is all of *text*, or "" if *text* is something else."""
    url = text.strip()
    if len(url) > _MAX_LENGTH or len(url.split()) != 1 or not url.lower().startswith(("http://", "https://")):
        return ""
    try:
        return url if split_url(url).hostname else ""
    except ValueError:
        return ""


def open_address_form(chat: Any, address: str = "", on_leave: "Callable[[], object]" = lambda: None) -> None:
    """Open the form for another model, with *address* as its address, and use the model that the user enters.

    *on_leave* is called if the user leaves the form without a model.
    """
    from mcphost.tui.screens.model_use import start_use
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
    """Open the form with the URL that the user wrote as a message; return False if it is no URL.

    The URL stays in the composer if the user leaves the form.
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
