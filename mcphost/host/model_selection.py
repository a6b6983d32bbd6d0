"""Who answers: the chosen model, prepared beside everything else, changed between turns."""

from collections.abc import Callable

from anyio.abc import TaskGroup

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.host.event_queue import EventBus
from mcphost.host.events import ModelChanged
from mcphost.llm.model import ChatModel

CreateModelFn = Callable[[ModelConfig], ChatModel]


class ModelSelection:
    """The model of this host; `own` gives it a task group to prepare and close models in."""

    def __init__(self, factory: CreateModelFn, config: ModelConfig, events: EventBus) -> None:
        self.config = config
        self.model: ChatModel | None = factory(config) if config.name else None
        self._factory = factory
        self._cached_models: dict[ModelConfig, ChatModel] = {}
        self._events = events
        self._tasks: TaskGroup | None = None

    def get_model(self, config: ModelConfig) -> ChatModel:
        """The model of that name for something else than the conversation; made once, closed with the rest."""
        if self.model is not None and config.name == self.config.name:
            return self.model
        if config not in self._cached_models:
            self._cached_models[config] = self._factory(config)
        return self._cached_models[config]

    def set_task_group(self, tasks: TaskGroup) -> None:
        """The group whose end is the end of preparing."""
        self._tasks = tasks

    def select(self, config: ModelConfig) -> None:
        """Another model from now on; the old one is closed. Raises ModelError."""
        old, self.model = self.model, self._factory(config) if config.name else None
        self.config = config
        if old is not None and self._tasks is not None:
            self._tasks.start_soon(old.close, name="close model")
        self.prepare()

    def prepare(self) -> None:
        """Get the model ready in the background, and tell how that goes. Returns at once."""
        model = self.model
        if model is None:
            self._events.publish(ModelChanged("", "", "none"))
        elif self._tasks is not None:
            self._events.publish(ModelChanged(model.name, model.label, "loading"))
            self._tasks.start_soon(self._prepare, model, name="prepare model")

    async def close(self) -> None:
        """Whatever the model holds is given back."""
        for model in (self.model, *self._cached_models.values()):
            if model is not None:
                await model.close()

    async def _prepare(self, model: ChatModel) -> None:
        try:
            await model.prepare()
        except ModelError as error:
            self._events.publish(ModelChanged(model.name, model.label, "failed", str(error)))
            return
        if model is self.model:
            self._events.publish(ModelChanged(model.name, model.label, "ready"))
