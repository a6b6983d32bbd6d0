"""Formatting of the estimated cost of a model request."""

from mcphost.host.questions.questions import ModelCandidate


def format_cost(offer: ModelCandidate | None, tokens: int, max_tokens: int) -> str:
    """Return the maximum cost of a request with `tokens` in and `max_tokens` out, as text."""
    if offer is None or offer.input_price is None or offer.output_price is None:
        return "cost not known"
    dollars = tokens * offer.input_price + max_tokens * offer.output_price
    return f"about {format_dollars(dollars)}" if dollars > 0 else "costs nothing"


def format_dollars(dollars: float) -> str:
    """Return an amount in US dollars; less than a cent keeps four decimals."""
    if dollars <= 0:
        return "nothing"
    return f"${dollars:.2f}" if dollars >= 0.01 else f"${max(dollars, 0.0001):.4f}"
