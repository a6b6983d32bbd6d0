"""`python -m mcphost` and the `mcphost` program."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from mcphost.cli import main as cli  # here, so that ctrl+c while it loads is no traceback either

        code = cli.main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
