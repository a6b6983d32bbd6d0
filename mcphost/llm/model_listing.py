"""Lists of models for `mcphost models` and for the command `models` of `mcphost pipe`.

A list contains the models that can be used now, or all models of one provider.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from mcphost.config.remembered_models import ToolRefusals
from mcphost.config.schema import ModelConfig
from mcphost.errors import UsageError
from mcphost.llm.local_servers import LATE_PROBE_SECONDS, TITLES
from mcphost.llm.model_catalog import DEFAULT_MODELS
from mcphost.llm.model_finder import DEMO, AvailableModel, ModelFinder, make_demo_model
from mcphost.llm.provider_models import LISTING_PROVIDERS
from mcphost.llm.providers import (
    LOCAL_PROVIDERS,
    KeyLookup,
    add_default_provider,
    add_local_address,
    find_missing_key,
    is_known_provider,
)


async def list_models(
    provider: str,
    selected: ModelConfig,
    environ: Mapping[str, str],
    keyring: KeyLookup,
    refusals: ToolRefusals,
    is_session_only: Callable[[str], bool] = lambda name: False,
) -> tuple[AvailableModel, ...]:
    """Return the models that can be used now, beginning with the *selected* one.

    If *provider* is not "", all models of that provider are returned instead. Raises UsageError if no model of
    *provider* is known. Safe to cancel. See `ModelFinder` for the other arguments.
    """
    finder = ModelFinder(environ, keyring, is_session_only, refusals, LATE_PROBE_SECONDS)
    selected = add_local_address(add_default_provider(selected), environ)
    if not provider:
        return await finder.find_proposed(selected)
    provider = provider.casefold()
    if provider == DEMO:
        return (make_demo_model(),)
    models, providers = await finder.list_provider(provider, selected)
    if not models:
        missing_key = await find_missing_key(ModelConfig(name=f"{provider}/"), environ, keyring)
        raise _explain_no_models(provider, providers, missing_key)
    return models


def _explain_no_models(provider: str, providers: "Sequence[str]", missing_key: str) -> UsageError:
    """Return the error for a provider without models; the hint suggests a fix.

    *providers* are the names of providers that have models. *missing_key* is the environment variable for the
    provider's API key if no key was found, otherwise "".
    """
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
        f"No provider {provider[:100]!r} is known.",
        f"Similar: {similar}." if similar else f"Known are for example {examples}.",
    )
