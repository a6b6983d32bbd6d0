"""Who answers: the chosen model, prepared beside everything else, changed between turns."""

from collections.abc import Callable

from anyio.abc import TaskGroup

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ModelChanged
from mcphost.llm.model import ChatModel

ModelFactory = Callable[[ModelConfig], ChatModel]


class Answering:
    """The model of this host; `own` gives it a task group to prepare and close models in."""

    def __init__(self, make: ModelFactory, config: ModelConfig, feeds: Feeds) -> None:
        self.config = config
        self.model: ChatModel | None = make(config) if config.name else None
        self._make = make
        self._others: dict[ModelConfig, ChatModel] = {}
        self._feeds = feeds
        self._tasks: TaskGroup | None = None

    def other(self, config: ModelConfig) -> ChatModel:
        """The model of that name for something else than the conversation; made once, closed with the rest."""
        if self.model is not None and config.name == self.config.name:
            return self.model
        if config not in self._others:
            self._others[config] = self._make(config)
        return self._others[config]

    def own(self, tasks: TaskGroup) -> None:
        """The group whose end is the end of preparing."""
        self._tasks = tasks

    def use(self, config: ModelConfig) -> None:
        """Another model from now on; the old one is closed. Raises ModelError."""
        old, self.model = self.model, self._make(config) if config.name else None
        self.config = config
        if old is not None and self._tasks is not None:
            self._tasks.start_soon(old.close, name="close model")
        self.prepare()

    def prepare(self) -> None:
        """Get the model ready in the background, and tell how that goes. Returns at once."""
        model = self.model
        if model is None:
            self._feeds.put(ModelChanged("", "", "none"))
        elif self._tasks is not None:
            self._feeds.put(ModelChanged(model.name, model.label, "loading"))
            self._tasks.start_soon(self._prepare, model, name="prepare model")

    async def close(self) -> None:
        """Whatever the model holds is given back."""
        for model in (self.model, *self._others.values()):
            if model is not None:
                await model.close()

    async def _prepare(self, model: ChatModel) -> None:
        try:
            await model.prepare()
        except ModelError as error:
            self._feeds.put(ModelChanged(model.name, model.label, "failed", str(error)))
            return
        if model is self.model:
            self._feeds.put(ModelChanged(model.name, model.label, "ready"))
