"""Preparation for connecting to a server: importing modules and expanding `${…}` references, both in a thread."""

import os
import sys
from importlib import import_module

from mcphost import paths
from mcphost.config.schema import ServerConfig
from mcphost.config.target_secrets import find_target_secrets
from mcphost.config.variable_references import expand_target, has_target_references, register_setting
from mcphost.errors import ConfigError
from mcphost.serialization import replace


def _required_modules(server: ServerConfig) -> tuple[str, ...]:
    modules = ("transport.stdio",) if server.is_stdio else ("transport.streamable_http", "auth.oauth_registry")
    return tuple(f"mcphost.{name}" for name in ("client.connect", *modules))


def is_loaded(server: ServerConfig) -> bool:
    """Return whether the modules needed to connect to *server* have been imported."""
    return all(name in sys.modules for name in _required_modules(server))


def load_modules(server: ServerConfig) -> None:
    """Import the modules needed to connect to *server*. Call this function in a thread, because it is slow."""
    for name in _required_modules(server):
        import_module(name)


def needs_expansion(server: ServerConfig) -> bool:
    """Return whether the server's entry may contain `${…}` references to expand or secrets to redact."""
    if server.env or server.env_file or server.headers or not server.is_stdio:
        return True
    return has_target_references(server) or bool(find_target_secrets(server))


def expand_references(server: ServerConfig) -> ServerConfig:
    """Return the server with all `${…}` references expanded, after importing the modules needed to connect to it.

    Must be called in an anyio worker thread. Raises ConfigError if a reference cannot be expanded.
    """
    load_modules(server)
    from mcphost.config.env_file import read_env_file
    from mcphost.config.secrets import expand_oauth, expand_server

    def look_up(name: str) -> str | None:
        import anyio.from_thread

        from mcphost.auth.keyring_backend import KeyringBackend
        from mcphost.auth.secret_store import resolve_reference

        return anyio.from_thread.run(resolve_reference, KeyringBackend(), paths.data_dir(), name)

    try:
        target = expand_target(server, os.environ, look_up)
        env, headers = expand_server(server, os.environ, look_up, read_env_file(server, os.environ))
        oauth = expand_oauth(server, os.environ, look_up)
        for span in find_target_secrets(server):
            register_setting(server, span.value, span.value, os.environ)
    except ConfigError as error:
        raise ConfigError(f"The server {server.name!r} was not started. {error.message}", error.hint) from error
    return replace(target, env=env, headers=headers, oauth=oauth)
