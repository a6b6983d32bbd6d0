"""Command `models`: lists the models that can be used now, with their capabilities."""

import argparse
import os
from typing import TYPE_CHECKING

from mcphost.cli.parser import build_options
from mcphost.cli.printing import print_json, print_note, print_table, print_text, show_status
from mcphost.errors import McpHostError
from mcphost.pluralize import format_prices, translate_count
from mcphost.translation import _, join_list, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import Options
    from mcphost.llm.model_finder import AvailableModel


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `models` command to *parser*."""
    parser.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="list all models of one provider, such as openai"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--retry-tools", action="store_true", help="offer tools again to the models whose provider refused them"
    )


def run(command: str, args: argparse.Namespace) -> int:
    """List the models; with `--retry-tools`, instead clear the record of models whose provider rejected tools.

    The next run then offers tools to those models again.
    """
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        if args.retry_tools:
            return await _retry_tools()
        return await _list(options, args.provider, as_json=args.json)

    return run_command(options, work)


async def _retry_tools() -> int:
    import anyio.to_thread

    from mcphost import paths
    from mcphost.config.remembered_models import ToolRefusals

    try:
        count = await anyio.to_thread.run_sync(ToolRefusals(paths.state_dir()).forget_all)
    except OSError as error:
        raise McpHostError(
            f"The refusals cannot be forgotten: {error.strerror}.", f"Check {paths.state_dir()}."
        ) from error
    models = translate_count(count, "model")
    print_text(
        _("The next run offers tools again to {models}.").format(models=models)
        if count
        else _("No model refused tools in the last week.")
    )
    return 0


async def _list(options: "Options", provider: str | None, *, as_json: bool) -> int:
    from mcphost import paths
    from mcphost.cli.build_host import create_secrets, load_approved_configuration
    from mcphost.config.remembered_models import ToolRefusals
    from mcphost.llm.model_listing import list_models

    config = await load_approved_configuration(options)
    with show_status(_("Searching for models…"), quiet=options.quiet):
        keyring = create_secrets(config.secret_store).get
        refusals = ToolRefusals(paths.state_dir())
        models = await list_models(provider or "", config.model, os.environ, keyring, refusals)
    if as_json:
        from mcphost.headless.json_output import models_json

        print_json(models_json(config.model.name, models))
        return 0
    print_table(
        [_cells(model) for model in models], (_("Model"), _("Available"), _("Context"), _("Abilities"), _("Price"))
    )
    if not models:
        print_note(
            _("No keys and no model servers on this machine were found. Set a key, for example ANTHROPIC_API_KEY.")
        )
    elif provider is None:
        print_note(_("All models of a provider: mcphost models PROVIDER"))
    if config.model.name:
        print_note(_("Selected: {model}").format(model=config.model.name))
    return 0


def _cells(model: "AvailableModel") -> tuple[str, ...]:
    abilities = [
        name
        for name, is_supported in (
            (_("tools"), model.supports_tools),
            (_("images"), model.supports_images),
            (_("reasoning"), model.supports_reasoning),
        )
        if is_supported
    ]
    context = f"{round(model.context_window / 1000)}k" if model.context_window else ""
    origin = translate_sentence(model.origin) or _("needs {variable}").format(variable=model.key_variable)
    return (
        model.config.name,
        origin,
        context,
        join_list(abilities),
        format_prices(model.input_price, model.output_price),
    )
