"""Settings as they are read from the text of a config.toml."""

from mcphost.config.schema import HostConfig
from mcphost.config.settings import convert_settings
from mcphost.config.toml_files import ProblemCallback, parse_toml


def parse_settings(text: str, file: str, on_problem: ProblemCallback) -> HostConfig:
    """Return the settings in a text; see `convert_settings`. Raises ConfigError, too, if the text is not valid TOML."""
    return convert_settings(parse_toml(text, file), text, file, on_problem)
