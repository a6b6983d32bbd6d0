"""mcphost servers changes: the tools of a server that are held back because they changed; `--keep` accepts them."""

from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcphost.cli.confirm import Confirmation
    from mcphost.cli.options import Options
    from mcphost.host.questions.questions import ToolChange


async def changes(options: "Options", name: str, *, keep: bool, yes: bool, as_json: bool) -> int:
    """Show them; with `keep` they may be what was shown, after a question or with `yes`.

    Returns 5 when tools are held back still, 0 when none is. Raises ConsentDenied, UsageError.
    """
    from mcphost.cli.bootstrap import open_host
    from mcphost.cli.command_runner import known, without_model
    from mcphost.cli.confirm import Confirmation
    from mcphost.cli.output import document, say
    from mcphost.host.questions.frontend import RefusingFrontend

    async with open_host(options, RefusingFrontend(), only=without_model) as host:
        known(host.config, name)
        changed = await host.quarantine.list_changes(name)
        review = Confirmation(yes=yes or not keep, as_json=as_json)
        _show(name, changed, review)
        kept: tuple[str, ...] = ()
        if keep and changed:
            review.confirm(f"Keep {'all of them' if len(changed) > 1 else 'it'} as shown?", "Nothing was kept.")
            kept = await host.quarantine.accept(name, changed)
        held = [one.tool for one in changed if one.tool not in kept]
    if as_json:
        document(
            {"changes": [{"tool": one.tool, "difference": list(one.difference)} for one in changed],
             "kept": list(kept), "held": held}
        )  # fmt: skip
    elif kept:
        say(f"Kept: {len(kept)}." if len(kept) > 1 else "Kept.")
    elif changed:
        say(f"Held back from the model. To keep them: mcphost servers changes {quote(name)} --keep")
    return 5 if held else 0


def _show(name: str, changed: "tuple[ToolChange, ...]", review: "Confirmation") -> None:
    from mcphost.cli.output import note

    if not changed:
        note(f"No tool of {name} is held back.")
    for one in changed:
        review.show(f"{one.tool}\n" + "\n".join(f"  {line}" for line in one.difference) + "\n")
