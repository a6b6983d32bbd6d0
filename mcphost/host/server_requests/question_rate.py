"""Rate limit of one server's questions that are opened and withdrawn.

Each leaves an audit row, and the user could not answer them.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic

from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.question_budget import TooManyQuestions

BURST = 20
SECONDS_PER_TOKEN = 3.0
"""Seconds until another question may be withdrawn."""
AUDIT_INTERVAL = 600.0
"""Seconds of refusals that share one audit row."""


class QuestionRateLimiter:
    """A token bucket for one server's questions; only withdrawn ones cost a token."""

    def __init__(self, server: str, audit: AuditLog) -> None:
        self._server = server
        self._audit = audit
        self._tokens = float(BURST)
        self._refilled_at = monotonic()
        self._refused = 0
        self._recorded_at = -math.inf

    @contextmanager
    def acquire(self) -> Generator[None]:
        """Track one question. Raises TooManyQuestions after too many withdrawn ones."""
        now = monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._refilled_at) / SECONDS_PER_TOKEN)
        self._refilled_at = now
        if self._tokens < 1:
            self._record_refusal(now)
            seconds = math.ceil((1 - self._tokens) * SECONDS_PER_TOKEN)
            raise TooManyQuestions(f"Too many questions were withdrawn; ask again in {seconds} seconds.")
        try:
            yield
        except Exception:
            raise
        except BaseException:  # cancelled
            self._tokens -= 1
            raise

    def _record_refusal(self, now: float) -> None:
        self._refused += 1
        if now - self._recorded_at >= AUDIT_INTERVAL:
            self._recorded_at = now
            subject = AuditSubject(kind="form", server=self._server, name="too many questions")
            self._audit.queue_event(subject, "refused", detail={"questions": self._refused})
            self._refused = 0
