"""Prompt caching: which models need explicit cache breakpoints, and where a request needs them."""

from typing import Any, cast

from mcphost.llm.providers import parse_provider

_CLAUDE_PROVIDERS = ("bedrock", "vertex_ai", "openrouter", "azure_ai")


def marks_cache(model: str) -> bool:
    """Return whether a model needs explicit cache breakpoints in its prompts.

    Only Claude models do, at Anthropic and at those other providers to which litellm passes the breakpoints.
    """
    provider = parse_provider(model)
    return provider == "anthropic" or (provider in _CLAUDE_PROVIDERS and "claude" in model.lower())


def mark_cache(chat: list[dict[str, Any]]) -> None:
    """Add Anthropic's cache breakpoints to the system prompt and to two input messages.

    The two messages are the last input message of this request and the last one of the previous request. The breakpoint
    on the system prompt also covers the tools. Anthropic allows four breakpoints per request, and ignores a breakpoint
    if fewer than about 1,000 tokens precede it. See "Prompt caching" in Anthropic's documentation.
    """
    inputs = [at for at, message in enumerate(chat) if message["role"] in ("user", "tool")]
    answered = max((at for at, message in enumerate(chat) if message["role"] == "assistant"), default=0)
    earlier = [at for at in inputs if at < answered]
    for at in {*([0] if chat[:1] and chat[0]["role"] == "system" else []), *inputs[-1:], *earlier[-1:]}:
        content = chat[at]["content"]
        # litellm expects the breakpoint on the message if the content is a string, and on the part if it is a list.
        in_part = isinstance(content, list) and chat[at]["role"] == "user"
        marked: dict[str, Any] = cast("list[dict[str, Any]]", content)[-1] if in_part else chat[at]
        marked["cache_control"] = {"type": "ephemeral"}
