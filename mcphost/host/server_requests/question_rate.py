"""How many questions one server may open and take back: each leaves a row in the ledger, and nobody could answer it."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic

from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.question_budget import TooManyQuestions

BURST = 20
SECONDS_PER_TOKEN = 3.0
"""One more question may be taken back after so long."""
AUDIT_INTERVAL = 600.0
"""Refusals of so long have one row together."""


class QuestionRateLimiter:
    """A token bucket for the questions of one server; only one that is taken back costs a token."""

    def __init__(self, server: str, audit: AuditLog) -> None:
        self._server = server
        self._audit = audit
        self._tokens = float(BURST)
        self._refilled_at = monotonic()
        self._refused = 0
        self._recorded_at = -math.inf

    @contextmanager
    def acquire(self) -> Generator[None]:
        """Stand around one question. Raises TooManyQuestions when too many were taken back before."""
        now = monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._refilled_at) / SECONDS_PER_TOKEN)
        self._refilled_at = now
        if self._tokens < 1:
            self._record_refusal(now)
            seconds = math.ceil((1 - self._tokens) * SECONDS_PER_TOKEN)
            raise TooManyQuestions(f"Too many questions were taken back; ask again in {seconds} seconds.")
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
            act = AuditSubject(kind="form", server=self._server, name="too many questions")
            self._audit.queue_event(act, "refused", detail={"questions": self._refused})
            self._refused = 0
