"""What a request to a model can cost, in words."""

from mcphost.host.questions.sampling_context import ModelCandidate


def format_cost(offer: ModelCandidate | None, tokens: int, max_tokens: int) -> str:
    """What a request of about so many tokens, and at most so many in the answer, can cost there."""
    if offer is None or offer.input_price is None or offer.output_price is None:
        return "cost not known"
    dollars = tokens * offer.input_price + max_tokens * offer.output_price
    return f"about {format_dollars(dollars)}" if dollars > 0 else "costs nothing"


def format_dollars(dollars: float) -> str:
    """US dollars; what is less than a cent is not rounded to nothing."""
    if dollars <= 0:
        return "nothing"
    return f"${dollars:.2f}" if dollars >= 0.01 else f"${max(dollars, 0.0001):.4f}"
