"""Command `schema`: print the JSON Schema of a configuration file, for editors."""

import argparse
import json

from mcphost.cli.printing import print_text

FILES = ("mcp.json", "config.toml")


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `schema` command to *parser*."""
    parser.add_argument("file", choices=FILES, help="the configuration file")


def run(command: str, args: argparse.Namespace) -> int:
    """Print the JSON Schema of the configuration file that the user named, and return 0.

    The file is mcp.json or config.toml.
    """
    from mcphost.config.json_schemas import config_toml_schema, mcp_json_schema

    schema = mcp_json_schema() if args.file == "mcp.json" else config_toml_schema()
    print_text(json.dumps(schema, indent=2, ensure_ascii=False))
    return 0
