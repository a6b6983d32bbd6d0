"""Limits on the size of tool results in a request, derived from the model's context window."""

from mcphost.config.schema import ContextConfig
from mcphost.host.model_selection import ModelSelection
from mcphost.host.results.presentation import MODEL_TEXT_LIMIT
from mcphost.llm.token_estimate import BYTES_PER_TOKEN

MIN_RESULT_BYTES = 2_000


class ResultRoom:
    """Limits on the size of results sent to the selected model, in bytes of UTF-8."""

    def __init__(self, config: ContextConfig, model_selection: ModelSelection) -> None:
        self._config = config
        self._model_selection = model_selection

    @property
    def result_bytes(self) -> int:
        """The limit for one result: a share of the context window, at most 256 KB."""
        share = int(self._model_selection.window * self._config.result_share * BYTES_PER_TOKEN)
        return min(max(share, MIN_RESULT_BYTES), MODEL_TEXT_LIMIT)

    @property
    def round_bytes(self) -> int:
        """The limit for all results of one round together."""
        return 2 * self.result_bytes
