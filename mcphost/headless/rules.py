"""`--allow` rules: which calls may run when nobody can be asked."""

from mcphost.config.rules import Rule, readings


def parse(texts: tuple[str, ...]) -> tuple[Rule, ...]:
    """Every rule that the texts can stand for. Raises UsageError naming the one that cannot be meant."""
    return tuple(rule for text in texts for rule in readings(text))
