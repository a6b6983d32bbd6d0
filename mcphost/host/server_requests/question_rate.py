"""How many questions one server may open and take back: each leaves a row in the ledger, and nobody could answer it."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic

from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.questions.question_budget import TooManyQuestions

BURST = 20
SECONDS_EACH = 3.0
"""One more question may be taken back after so long."""
ROW_SECONDS = 600.0
"""Refusals of so long have one row together."""


class QuestionRate:
    """A token bucket for the questions of one server; only one that is taken back costs a token."""

    def __init__(self, server: str, journal: Journal) -> None:
        self._server = server
        self._journal = journal
        self._tokens = float(BURST)
        self._filled = monotonic()
        self._refused = 0
        self._row = -math.inf

    @contextmanager
    def one(self) -> Generator[None]:
        """Stand around one question. Raises TooManyQuestions when too many were taken back before."""
        now = monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._filled) / SECONDS_EACH)
        self._filled = now
        if self._tokens < 1:
            self._refuse(now)
            seconds = math.ceil((1 - self._tokens) * SECONDS_EACH)
            raise TooManyQuestions(f"Too many questions were taken back; ask again in {seconds} seconds.")
        try:
            yield
        except Exception:
            raise
        except BaseException:  # cancelled
            self._tokens -= 1
            raise

    def _refuse(self, now: float) -> None:
        self._refused += 1
        if now - self._row >= ROW_SECONDS:
            self._row = now
            act = Act(kind="form", server=self._server, subject="too many questions")
            self._journal.note(act, "refused", detail={"questions": self._refused})
            self._refused = 0
