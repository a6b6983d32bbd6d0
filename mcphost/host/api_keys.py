"""API keys that the user enters for models: checked with the provider, and stored in the keyring."""

from collections.abc import Callable, MutableMapping
from typing import Protocol

from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError, ModelError, UsageError
from mcphost.host.events import NoticeLevel
from mcphost.host.servers.server_data import SecretEntries
from mcphost.llm.api_key_formats import recognize_provider
from mcphost.llm.model_catalog import PROVIDER_TITLES
from mcphost.llm.model_finder import AvailableModel, FoundKey, proposed_model
from mcphost.llm.provider_models import LISTING_PROVIDERS, check_key
from mcphost.llm.providers import (
    LOCAL_PROVIDERS,
    add_default_provider,
    add_local_address,
    find_missing_key,
    key_variables,
    parse_provider,
)
from mcphost.redact import register_secret
from mcphost.translation import N_

_COPY_HINT = "Copy it again, complete and without quotes."

PLACE_LABELS = {
    "keyring": N_("stored in the keyring"),
    "file": N_("stored in a file that only you can read"),
    "session": N_("kept until mcphost quits, because no keyring can be used"),
}
"""Labels of the places in which an API key is kept."""


class SessionSecretEntries(SecretEntries, Protocol):
    """Store of API keys and other secrets, which can also keep a secret only in memory, for this session."""

    async def find_place(self) -> str:
        """Return where secrets are stored: "keyring", "file", or "session" if neither can be used."""
        ...

    async def prepare(self, server: str) -> str:
        """Return where secrets of *server* will be stored; see `find_place`.

        If there is no keyring, the user may first be asked whether to store secrets in a file.
        """
        ...

    def keep_for_session(self, name: str, secret: str) -> None:
        """Keep the secret called *name* in memory until mcphost quits, without storing it on disk."""
        ...

    def is_session_only(self, name: str) -> bool:
        """Return whether the secret called *name* is only in memory and not stored on disk."""
        ...


class ApiKeys:
    """Lookup and storage of the models' API keys."""

    def __init__(
        self,
        environ: MutableMapping[str, str],
        secrets: SessionSecretEntries,
        notify: Callable[[NoticeLevel, str, str], None],
    ) -> None:
        """Create an API key lookup that searches *environ* and *secrets*.

        Pass a copy of the process's environment as *environ*: when the user enters another key, the key in
        *environ* is cleared. *notify* receives the level, text and hint of a notice for the user.
        """
        self._environ = environ
        self._secrets = secrets
        self._notify = notify

    def recognize_provider(self, key: str) -> str:
        """Return the provider whose API keys have the same prefix as *key*; "" if the prefix is unknown."""
        return recognize_provider(_clean_key(key))

    async def find_place(self) -> str:
        """Return the place in which `store` saves an API key, such as "keyring". Safe to cancel.

        The places are listed in PLACE_LABELS.
        """
        return await self._secrets.find_place()

    async def find_missing(self, model: ModelConfig) -> str:
        """Return the name of the environment variable for the API key that a model lacks; "" if no key is missing.

        The key is looked up in the environment and in the keyring. Safe to cancel.
        """
        return await find_missing_key(self._resolve(model), self._environ, self._secrets.get)

    def find_replaceable(self, model: ModelConfig) -> str:
        """Return the environment variable of the model's API key, or "" if `store` must not replace the key.

        For a self-hosted model, or a model with its own base URL, the result is "" unless the model's configuration
        names a variable. Without this exception, the key for the model's server would overwrite the key for the
        provider.
        """
        model = self._resolve(model)
        is_elsewhere = bool(model.api_base) or parse_provider(model.name) in LOCAL_PROVIDERS
        names = () if is_elsewhere and not model.api_key_env else key_variables(model)
        return next(iter(names), "")

    async def store_for_provider(self, key: str, provider: str = "") -> AvailableModel | None:
        """Store an API key as `store` does, and return the provider's default model, or None if it has none.

        Raises UsageError if *provider* is "" and cannot be recognized from the key, and ModelError if the provider
        rejects the key.
        """
        provider = provider or self.recognize_provider(key)
        if not provider:
            raise UsageError("This key does not show which provider it is for.", "Name the provider.")
        config = ModelConfig(name=f"{provider}/")
        await self.store(key, config)
        variable = key_variables(config)[0]
        is_session_only = self._secrets.is_session_only(variable)
        return proposed_model(FoundKey(provider, variable, is_in_keyring=True, is_session_only=is_session_only))

    async def store(self, key: str, model: ModelConfig) -> None:
        """Store the API key of a model in the keyring, under the name of the model's environment variable.

        The key is first checked with the provider, unless the model has its own base URL. If the provider does not
        respond, the key is stored unchecked, and the user is notified. If the keyring cannot be used, the key is
        kept in memory until mcphost quits, and the user is notified.

        Until mcphost quits, the new key takes precedence over a key in the environment. Raises UsageError if *key*
        is empty or contains a space or an unusual character, and ModelError if the provider rejects it.
        """
        key = _clean_key(key)
        if not key:
            raise UsageError("The key is empty.", _COPY_HINT)
        if not key.isascii() or not key.isprintable() or " " in key:
            # No header can contain it, or it is a sentence that was meant for another place.
            raise UsageError("This is not a key: it has a space or an unusual character.", _COPY_HINT)
        register_secret(key)
        model = self._resolve(model)
        provider, variable = parse_provider(model.name), key_variables(model)[0]
        title = PROVIDER_TITLES.get(provider, provider)
        # A key for another address is not sent to the provider's own.
        verdict = "accepted" if model.api_base else await check_key(provider, key, self._environ)
        if verdict == "rejected":
            raise ModelError(f"{title} rejects this key; it was not stored.", _COPY_HINT, model_kind="auth")
        try:
            await self._secrets.set(variable, key)
        except McpHostError as error:
            self._secrets.keep_for_session(variable, key)
            reason = f"The key is kept in memory until mcphost quits. {error.message}"
            self._notify("warning", reason, f"Set {variable} in the environment, and it is found at the next start.")
        if verdict == "unknown":
            reason = f"The key was not checked: {title} did not answer."
            if provider not in LISTING_PROVIDERS:
                reason = f"The key was not checked: mcphost cannot ask {title}."
            self._notify("info", reason, "The first message will show it.")
        hidden = [name for name in key_variables(model) if self._environ.get(name, "").strip()]
        self._environ.update(dict.fromkeys(hidden, ""))
        if hidden:
            self._notify(
                "info",
                f"The key in {hidden[0]} is not used until mcphost quits.",
                "At the next start, the environment comes first again: remove the key there.",
            )

    def _resolve(self, model: ModelConfig) -> ModelConfig:
        return add_local_address(add_default_provider(model), self._environ)


def _clean_key(key: str) -> str:
    """Return a key without the spaces and quotes that may surround it if it was copied."""
    return key.strip().strip("\"'").strip()
