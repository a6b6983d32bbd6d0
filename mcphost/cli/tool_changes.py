"""mcphost servers changes: the tools of a server that are held back because they changed; `--keep` accepts them."""

from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcphost.cli.confirm import Confirmation
    from mcphost.cli.options import Options
    from mcphost.host.questions.questions import ToolChange


async def review_changes(options: "Options", name: str, *, keep: bool, yes: bool, as_json: bool) -> int:
    """Show them; with `keep` they may be what was shown, after a question or with `yes`.

    Returns 5 when tools are held back still, 0 when none is. Raises ConsentDenied, UsageError.
    """
    from mcphost.cli.bootstrap import open_host
    from mcphost.cli.command_runner import remove_model, require_server
    from mcphost.cli.confirm import Confirmation
    from mcphost.cli.output import print_json, print_text
    from mcphost.host.questions.frontend import RefusingFrontend

    async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
        require_server(host.config, name)
        changed = await host.quarantine.list_changes(name)
        review = Confirmation(yes=yes or not keep, as_json=as_json)
        _print_changes(name, changed, review)
        kept: tuple[str, ...] = ()
        if keep and changed:
            review.confirm(f"Keep {'all of them' if len(changed) > 1 else 'it'} as shown?", "Nothing was kept.")
            kept = await host.quarantine.accept(name, changed)
        held = [one.tool for one in changed if one.tool not in kept]
    if as_json:
        print_json(
            {"changes": [{"tool": one.tool, "difference": list(one.difference)} for one in changed],
             "kept": list(kept), "held": held}
        )  # fmt: skip
    elif kept:
        print_text(f"Kept: {len(kept)}." if len(kept) > 1 else "Kept.")
    elif changed:
        print_text(f"Held back from the model. To keep them: mcphost servers changes {quote(name)} --keep")
    return 5 if held else 0


def _print_changes(name: str, changed: "tuple[ToolChange, ...]", review: "Confirmation") -> None:
    from mcphost.cli.output import print_note

    if not changed:
        print_note(f"No tool of {name} is held back.")
    for one in changed:
        review.show(f"{one.tool}\n" + "\n".join(f"  {line}" for line in one.difference) + "\n")
