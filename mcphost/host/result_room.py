"""How much of a tool's result a request has room for, by the model's context window."""

from mcphost.config.schema import ContextConfig
from mcphost.host.model_selection import ModelSelection
from mcphost.host.results.presentation import MODEL_TEXT_LIMIT

BYTES_PER_TOKEN = 3
"""A cautious figure: English has four bytes a token and Chinese three."""
MIN_RESULT_BYTES = 2_000


class ResultRoom:
    """The limits on results that are sent to the selected model, in bytes of UTF-8."""

    def __init__(self, config: ContextConfig, model_selection: ModelSelection) -> None:
        self._config = config
        self._model_selection = model_selection

    @property
    def result_bytes(self) -> int:
        """The limit on one result: a share of the window, at most 256 KB."""
        share = int(self._model_selection.window * self._config.result_share * BYTES_PER_TOKEN)
        return min(max(share, MIN_RESULT_BYTES), MODEL_TEXT_LIMIT)

    @property
    def round_bytes(self) -> int:
        """The limit on the results of one round of calls together."""
        return 2 * self.result_bytes
