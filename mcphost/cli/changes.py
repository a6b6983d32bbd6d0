"""mcphost servers changes: the tools of a server that are held back because they changed; `--keep` accepts them."""

import sys
from typing import TYPE_CHECKING

from mcphost.errors import Declined

if TYPE_CHECKING:
    from mcphost.cli.options import Options
    from mcphost.host.questions.questions import ToolChange


async def changes(options: "Options", name: str, *, keep: bool, as_json: bool) -> int:
    """Show them; with `keep` they may be what was shown, after a question when somebody can answer. Raises Declined.

    5 when tools are held back still, 0 when none is.
    """
    from mcphost.cli.compose import open_host
    from mcphost.cli.printing import document, say
    from mcphost.cli.running import known, without_model
    from mcphost.host.questions.front import RefusingFront

    async with open_host(options, RefusingFront(), only=without_model) as host:
        known(host.config, name)
        changed = await host.held.changes(name)
        if not as_json:
            _show(name, changed)
        kept: tuple[str, ...] = ()
        if keep and changed:
            _confirm(len(changed), as_json=as_json)
            kept = await host.held.keep(name, changed)
        held = [one.tool for one in changed if one.tool not in kept]
    if as_json:
        document(
            {"changes": [{"tool": one.tool, "difference": list(one.difference)} for one in changed],
             "kept": list(kept), "held": held}
        )  # fmt: skip
    elif kept:
        say(f"Kept: {len(kept)}." if len(kept) > 1 else "Kept.")
    elif changed:
        say(f"Held back from the model. To keep them: mcphost servers changes {name} --keep")
    return 5 if held else 0


def _show(name: str, changed: "tuple[ToolChange, ...]") -> None:
    from mcphost.cli.printing import note, say

    if not changed:
        note(f"No tool of {name} is held back.")
    for one in changed:
        say(f"{one.tool}\n" + "\n".join(f"  {line}" for line in one.difference) + "\n")


def _confirm(count: int, *, as_json: bool) -> None:
    """Ask when somebody can answer. Without a terminal, having typed --keep is the answer. Raises Declined."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    sys.stdout.write(f"Keep {'all of them' if count > 1 else 'it'} as shown? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Declined("Nothing was kept.")
