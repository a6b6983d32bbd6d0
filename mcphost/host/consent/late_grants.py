"""The active grants, with their rule matcher and schema validator; each is imported and created on first use."""

from functools import cached_property
from typing import TYPE_CHECKING

from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lifetime
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.store.grants import GrantStore

if TYPE_CHECKING:
    from mcphost.host.consent.grants import ActiveGrants
    from mcphost.host.consent.rule_matching import RuleMatcher
    from mcphost.sandbox.schema_validator import SchemaValidator


class LateGrants:
    """Holder of the active grants and of the rule matcher and schema validator that they need.

    Each of these objects is created when it is first used.
    """

    def __init__(
        self,
        store: GrantStore,
        settings: RuntimeSettings,
        conversation: ActiveConversation,
        events: EventBus,
        lifetime: Lifetime,
    ) -> None:
        self._store = store
        self._settings = settings
        self._conversation = conversation
        self._events = events
        self._lifetime = lifetime

    @cached_property
    def validator(self) -> "SchemaValidator":
        """The validator of schemas and regular expressions, which is closed when the host is closed."""
        from mcphost.sandbox.schema_validator import SchemaValidator

        validator = SchemaValidator()
        self._lifetime.on_close(validator.close)
        return validator

    @cached_property
    def matcher(self) -> "RuleMatcher":
        """The matcher that checks which rules cover a tool call."""
        from mcphost.host.consent.rule_matching import RuleMatcher

        return RuleMatcher(self.validator, self._settings)

    @cached_property
    def active_grants(self) -> "ActiveGrants":
        """The session grants and stored grants that are checked for each tool call."""
        from mcphost.host.consent.grants import ActiveGrants

        grants = ActiveGrants(self._store, self.matcher, self._conversation, self._events.report_error)
        self._lifetime.start_soon(grants.write_uses, name="uses of grants")
        return grants

    async def carry_over(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """Transfer a tool's grants to its new definition, which the user accepted; see `ActiveGrants.carry_over`."""
        await self.active_grants.carry_over(server, server_digest, tool, before, after)
