"""Command `models`: lists the models that can be used now, with their capabilities."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from mcphost.cli.parser import build_options
from mcphost.cli.printing import print_json, print_note, print_table, print_text, show_status
from mcphost.errors import McpHostError, UsageError
from mcphost.pluralize import format_prices, translate_count
from mcphost.translation import _, join_list, translate_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def _explain_no_models(provider: str, providers: "Sequence[str]", missing_key: str) -> UsageError:
    """Return the error for a provider without models.

    *providers* are those with models. *missing_key* is the variable of the provider's missing API key, or "".
    """
    from difflib import get_close_matches

    from mcphost.llm.local_servers import TITLES
    from mcphost.llm.model_catalog import DEFAULT_MODELS
    from mcphost.llm.provider_models import LISTING_PROVIDERS
    from mcphost.llm.providers import LOCAL_PROVIDERS, is_known_provider

    if provider in LOCAL_PROVIDERS or provider in TITLES:
        prefix = provider if provider in LOCAL_PROVIDERS else "openai"
        return UsageError(
            f"No models of {provider} were found on this machine.",
            f"Start its server, or give its address: mcphost --model {prefix}/NAME --api-base URL",
        )
    if provider in LISTING_PROVIDERS and missing_key:
        return UsageError(
            f"No models of {provider} are known, and no key to ask it for them was found.", f"Set {missing_key}."
        )
    if provider in LISTING_PROVIDERS:
        return UsageError(f"{provider} did not list its models.", "Check the key and the network.")
    if is_known_provider(provider):
        return UsageError(
            f"There is no list of the models of {provider}.", f"Name a model: mcphost --model {provider}/NAME"
        )
    similar = ", ".join(get_close_matches(provider[:100], [*providers, *LOCAL_PROVIDERS], 5))
    examples = ", ".join([*DEFAULT_MODELS][:6])
    return UsageError(
        f"No provider {provider!r} is known.",
        f"Similar: {similar}." if similar else f"Known are for example {examples}.",
    )


async def _list(options: "Options", provider: str | None, *, as_json: bool) -> int:
    from mcphost import paths
    from mcphost.cli.build_host import create_secrets, load_configuration, open_grants
    from mcphost.config.remembered_models import ToolRefusals
    from mcphost.config.schema import ModelConfig
    from mcphost.llm.local_servers import LATE_PROBE_SECONDS
    from mcphost.llm.model_finder import DEMO, ModelFinder, make_demo_model
    from mcphost.llm.providers import add_default_provider, add_local_address, find_missing_key

    provider = provider.casefold() if provider else None
    async with open_grants() as grants:
        config = await load_configuration(options, grants)
    with show_status(_("Searching for models…"), quiet=options.quiet):
        refusals = ToolRefusals(paths.state_dir())
        keyring = create_secrets(config.secret_store).get
        finder = ModelFinder(os.environ, keyring, refusals=refusals, probe_seconds=LATE_PROBE_SECONDS)
        selected = add_local_address(add_default_provider(config.model), os.environ)
        if provider is None:
            models = await finder.find_proposed(selected)
        elif provider == DEMO:
            models = (make_demo_model(),)
        else:
            models, providers = await finder.list_provider(provider, selected)
            if not models:
                missing_key = await find_missing_key(ModelConfig(name=f"{provider}/"), os.environ, keyring)
                raise _explain_no_models(provider, providers, missing_key)
    if as_json:
        print_json({"selected": config.model.name, "models": [_model_json(model) for model in models]})
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


def _model_json(model: "AvailableModel") -> dict[str, Any]:
    return {
        "name": model.config.name,
        "provider": model.provider,
        "usable": model.is_usable,
        "origin": model.origin,
        "key_variable": model.key_variable,
        "api_base": model.config.api_base,
        "context_window": model.context_window or None,
        "tools": model.supports_tools,
        "images": model.supports_images,
        "reasoning": model.supports_reasoning,
        "input_price": model.input_price,
        "output_price": model.output_price,
    }
