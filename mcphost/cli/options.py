"""The options of the command line from which a Host is built."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags that all commands share, and those that change how a Host is built.

    Empty strings and None mean "not given": the environment decides, then the configuration.
    """

    mcp_config: tuple[str, ...] = ()
    """Files of `--mcp-config`, in order; they replace the user's and the project's file."""

    config_dir: str = ""
    model: str = ""
    api_base: str = ""
    api_key_env: str = ""
    era: Literal["", "auto", "stateless", "handshake"] = ""
    """Empty: each server's own setting; anything else overrides it."""

    timeout: float | None = None
    """`--timeout`: the hard limit of every request in seconds, progress included."""

    log_level: str = "info"
    quiet: bool = False
    resume: str | None = None
    """None: a new conversation; empty: the latest one; else an id prefix."""

    allow: tuple[str, ...] = ()
    """`--allow` rules as typed."""

    pass_results: tuple[str, ...] = ()
    """`--pass-results` rules as typed."""

    yes: bool = False
    max_rounds: int | None = None
    demo: bool = False
    """`mcphost demo`: the folders are temporary and the configuration is built in."""

    one_shot: bool = False
    """A command that does one thing: an invalid file of `--mcp-config` is an error, not a notice."""


_COMMON_FLAGS = (
    "config_dir",
    "model",
    "api_base",
    "api_key_env",
    "era",
    "timeout",
    "quiet",
    "resume",
    "yes",
    "max_rounds",
)


def build_options(args: Namespace, *, one_shot: bool = True, demo: bool = False) -> Options:
    """Return the options of parsed flags; flags that are not given keep their defaults."""
    flags = {name: getattr(args, name) for name in _COMMON_FLAGS if hasattr(args, name)}
    return Options(
        **flags,
        mcp_config=tuple(getattr(args, "mcp_config", ())),
        allow=tuple(getattr(args, "allow", None) or ()),
        pass_results=tuple(getattr(args, "pass_results", None) or ()),
        log_level=getattr(args, "log_level", "info"),
        one_shot=one_shot,
        demo=demo,
    )
