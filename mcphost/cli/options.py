"""Options: what the command line said, for whoever builds a Host from it."""

from typing import Literal

from mcphost.data import Data


class Options(Data, frozen=True, kw_only=True):
    """The flags every command shares, and the few that change how a Host is built.

    Empty strings and None mean "not given": then the environment decides, then the configuration.
    """

    mcp_config: tuple[str, ...] = ()
    """Files of `--mcp-config`, in order; they replace the user's and the project's file."""

    config_dir: str = ""
    model: str = ""
    api_base: str = ""
    api_key_env: str = ""
    era: Literal["", "auto", "stateless", "handshake"] = ""
    """Empty: each server's own setting; anything else wins over it."""

    timeout: float | None = None
    """`--timeout`: the hard limit of every request in seconds, progress included."""

    log_level: str = "info"
    quiet: bool = False
    resume: str | None = None
    """None: a new conversation; empty: the latest one; else its id."""

    allow: tuple[str, ...] = ()
    """`--allow` rules as typed; already checked when they arrive here."""

    pass_results: tuple[str, ...] = ()
    """`--pass-results` rules as typed."""

    yes: bool = False
    max_rounds: int | None = None
    demo: bool = False
    """`mcphost demo`: the folders are temporary and the configuration is built in."""

    one_shot: bool = False
    """A command that does one thing: a broken file named with --mcp-config is an error, not a notice."""
