"""Entry point for `python -m mcphost` and for the `mcphost` command."""

import sys


def main() -> None:
    """Run the command-line interface, and exit with its exit code."""
    try:
        from mcphost.cli import main as cli  # imported here, so that Ctrl+C during the import prints no traceback

        code = cli.main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
