"""`python -m mcphost` and the `mcphost` program."""

import sys

from mcphost.cli import main as cli


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(cli.main())


if __name__ == "__main__":
    main()
