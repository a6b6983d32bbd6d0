"""Message that a chat without a model shows, with the reason if config.toml could not be read."""

from typing import TYPE_CHECKING

from mcphost.translation import N_, _, translate_sentence

if TYPE_CHECKING:
    from mcphost.host.host import Host

_NO_MODEL = N_("Choose a model to start chatting.")
_NO_MODEL_HINT = N_(
    "/setup searches this machine for keys, local models and servers of other hosts; "
    "{model} lists all models, and {models-add} there enters an address of your own (a gateway, vLLM). "
    "Tools work without a model: type !server/tool key=value."
)
_UNREAD_HINT = N_("A model set there is not used. {model} lists all models.")


def find_reason(host: "Host") -> str:
    """Return the reason why config.toml could not be read, or "" if it could be read."""
    from mcphost.config.schema import find_unread_settings

    live = host.config_change_detector
    return find_unread_settings((host.config if live is None else live.config).problems)


def describe_missing_model(host: "Host") -> tuple[str, str]:
    """Return the message and the hint to show while no model is chosen.

    If config.toml could not be read, the message states the reason. In the hint, an action name in braces stands
    for the action's key.
    """
    if unread := find_reason(host):
        return translate_sentence(unread), _(_UNREAD_HINT)
    return _(_NO_MODEL), _(_NO_MODEL_HINT)
