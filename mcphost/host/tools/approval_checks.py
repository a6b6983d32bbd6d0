"""Final checks, immediately before an approved tool call is sent, that the call is still allowed.

The rules, the grant, the account and the tool's definition must not have changed since the approval.
"""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, NamedTuple

from mcphost.errors import ConsentDenied
from mcphost.host.consent.grants import GrantEnd
from mcphost.host.consent.policy import Approval
from mcphost.host.servers.tool_registry import OfferedTool

_ASK_AGAIN = "Repeat the call to be asked again."


class ApprovalVoid(ConsentDenied):
    """Base class of errors raised when an approved call is no longer allowed; the call was not sent."""

    reason: ClassVar[str]
    """Why the call was not sent, as a phrase for the audit log."""


class ToolChanged(ApprovalVoid):
    """Raised when a tool changed after the user approved the call."""

    reason = "the tool changed"


class AccountChanged(ApprovalVoid):
    """Raised when the server no longer uses the account for which the call was approved."""

    reason = "another account is used"


class GrantRevoked(ApprovalVoid):
    """Raised when the grant that allowed the call was revoked."""

    reason = "its grant was revoked"


class GrantEnded(ApprovalVoid):
    """Raised when the grant that allowed the call expired or was suspended."""

    reason = "its grant no longer applies"


class AutoApprovalEnded(ApprovalVoid):
    """Raised when the auto-approve mode that allowed the call has ended."""

    reason = "auto-approve ended"


class CallForbidden(ApprovalVoid):
    """Raised when a new `never` rule in the configuration forbids an approved call."""

    reason = "a rule forbids it"


class ApprovalChecks(NamedTuple):
    """Final checks, immediately before an approved call is sent, that the call is still allowed.

    - `find_grant_end`: receives the id of a grant and the name of a server. Returns the reason why the grant no longer
      allows calls to the server, or None if it still does; any mcphost process may have revoked it.
    - `is_forbidden`: receives a tool and arguments. Returns whether a `never` rule forbids a call of the tool with
      these arguments.
    - `may_auto_send`: receives the number of the auto-approve period in which a call was approved. Returns whether the
      call may still be sent.
    """

    find_grant_end: Callable[[str, str], Awaitable[GrantEnd | None]]
    is_forbidden: Callable[[OfferedTool, dict[str, Any]], Awaitable[bool]]
    may_auto_send: Callable[[int], bool]

    async def check(self, offered: OfferedTool, approval: Approval, account: str) -> None:
        """Raise a subclass of ApprovalVoid if an approved call must no longer be sent.

        The call must not be sent if the tool or the account changed since the approval, if the grant or the
        auto-approve mode that allowed the call has ended, or if a new `never` rule forbids it. *account* is the
        account for which the call was approved.
        """
        grant_id, period = approval.grant_id, approval.auto_period
        if await self.is_forbidden(offered, approval.arguments):
            raise CallForbidden(
                "A new rule in the user's configuration forbids this call of "
                f"{offered.definition.name!r}; it did not run.",
                "To allow it, change [consent] never in config.toml.",
            )
        grant_end = await self.find_grant_end(grant_id, offered.connection.config.name) if grant_id else None
        # Last and without waiting, so that nothing can change between these checks and the request.
        _check_unchanged(offered, account)
        server, tool = offered.connection.config.name, offered.definition.name
        if grant_end == "revoked":
            raise GrantRevoked(
                f"The permission for the tool {tool!r} of {server!r} was revoked before the call was sent; it did not "
                "run.",
                _ASK_AGAIN,
            )
        if grant_end is not None:
            raise GrantEnded(
                f"The permission for the tool {tool!r} of {server!r} ended before the call was sent; it did not run.",
                _ASK_AGAIN,
            )
        if period and not self.may_auto_send(period):
            raise AutoApprovalEnded(
                f"Auto-approve ended before the call of {offered.definition.name!r} was sent; it did not run.",
                "Repeat the call to be asked.",
            )


def _check_unchanged(offered: OfferedTool, account: str) -> None:
    """Raise ToolChanged if the tool, or AccountChanged if the server's account, is no longer the approved one."""
    account_now = offered.connection.account
    if account_now not in ("", account):
        raise AccountChanged(
            f"The server {offered.connection.config.name!r} now uses the account {account_now!r}, but the call was "
            f"approved for {account or 'none'!r}; it did not run.",
            "Repeat the call to use that account.",
        )
    if not offered.is_current:
        raise ToolChanged(
            f"The tool {offered.definition.name!r} of {offered.connection.config.name!r} changed after the call was "
            "approved; it did not run.",
            "Review the tool and repeat the call.",
        )
