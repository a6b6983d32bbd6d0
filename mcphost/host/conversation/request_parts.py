"""The objects that build requests to the model for the open conversation."""

from mcphost.config.schema import HostConfig
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.conversation.compaction import SummaryStage
from mcphost.host.conversation.context_report import ContextMeter
from mcphost.host.conversation.instructions import Instructions
from mcphost.host.conversation.model_request import ModelRequestBuilder
from mcphost.host.conversation.result_shortening import ResultShortening
from mcphost.host.conversation.tool_selection import ToolSelection
from mcphost.host.event_bus import EventBus
from mcphost.host.model_selection import ModelSelection
from mcphost.host.servers.servers import Servers, ServerStartup
from mcphost.host.servers.tool_registry import ToolRegistry
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.host.tools.builtin_tools import BuiltinTools


class RequestParts:
    """The request builder with its stages, and the meter that measures its requests."""

    def __init__(  # noqa: PLR0913 - what the stages need
        self,
        config: HostConfig,
        *,
        conversation: ActiveConversation,
        model_selection: ModelSelection,
        events: EventBus,
        servers: Servers,
        startup: ServerStartup,
        tool_registry: ToolRegistry,
        tool_toggles: ToolToggles,
        builtin_tools: BuiltinTools,
        instructions: Instructions,
    ) -> None:
        tools = ToolSelection(
            config,
            tool_registry=tool_registry,
            tool_toggles=tool_toggles,
            builtin_tools=builtin_tools,
            conversation=conversation,
            model_selection=model_selection,
            events=events,
        )
        shortening = ResultShortening(
            config.context,
            active=conversation,
            model_selection=model_selection,
            result_tool=builtin_tools.result_tool,
            events=events,
        )
        self.builder = ModelRequestBuilder(
            config,
            servers=servers,
            startup=startup,
            tools=tools,
            model_selection=model_selection,
            instructions=instructions,
            shortening=shortening,
            message_stages=(SummaryStage(),),
        )
        self.context = ContextMeter(self.builder, tools, conversation, model_selection, instructions)
