"""Elicitation requests, in which a server asks the user to fill in a form or to open a URL."""

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, urlunsplit

import anyio

from mcphost.client.session import ServerRequestContext
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.questions.form_fields import Field, validate_content
from mcphost.host.questions.forms import parse_form
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import (
    Accept,
    AcceptUrl,
    Cancel,
    Decline,
    FillForm,
    RetryCall,
    UrlVerdict,
    VisitUrl,
)
from mcphost.host.questions.sign_in import OpenUrl
from mcphost.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import Elicit, ElicitResult, ServerRequestRejection, UrlElicitationRequired
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, dumps, replace
from mcphost.threads import run_in_parsing_thread
from mcphost.unicode_forms import HOST_LIMIT, is_loopback_host, split_url

MAX_URL = 16 * 1024
_SAFE_CHARACTERS = "%/:=&?~+!$,;'@()*[]"
# Other characters are refused: browsers decode percent codes in a host, and some look like its end to a reader.
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_NUMBER = re.compile(r"(0x[0-9a-f]*|\d+)", re.IGNORECASE)
# Suffixes that readers take for the end of a host, even in the middle of it.
_COMMON_SUFFIXES = frozenset({"com", "org", "net", "io", "dev", "gov", "edu", "app"})


class InspectedUrl(Struct, frozen=True):
    """A URL that may be opened: `url` as the browser receives it, its `host`, and warnings for the user."""

    url: str
    host: str
    warnings: tuple[str, ...] = ()


def inspect_url(url: str) -> InspectedUrl:
    """Inspect a URL from a server. Raises MalformedMessage if it must not be opened in a browser.

    Non-ASCII characters are converted as browsers do: to punycode in the host, with percent-encoding elsewhere.
    """
    if not url or len(url) > MAX_URL:
        raise MalformedMessage(f"The address is empty or longer than {MAX_URL:,} characters.")
    if sanitize(url, keep_newlines=False) != url or any(char.isspace() or char in '\\<>"' for char in url):
        raise MalformedMessage("The address has invalid characters.")
    try:
        parts = split_url(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise MalformedMessage(f"The address cannot be read: {error}.") from error
    if not host or parts.scheme not in ("https", "http"):
        raise MalformedMessage("The address is not an https one.")
    if parts.scheme == "http" and not is_loopback_host(host):
        raise MalformedMessage("The address is not https; http is allowed only for this machine.")
    name = _to_ascii(host)
    if len(name) > HOST_LIMIT:
        raise MalformedMessage(f"The host {name[:100]!r} is longer than {HOST_LIMIT} characters.")
    if not _HOST.fullmatch(name):
        raise MalformedMessage(f"The host {name[:100]!r} has invalid characters.")
    warnings: list[str] = []
    if parts.scheme == "http":
        warnings.append("The connection is not encrypted; it leads to this machine.")
    if parts.username is not None:
        warnings.append(f"The part before the @ is a user name, not the host: it leads to {name}.")
    warnings += _host_warnings(name)
    if port is not None and port not in (80, 443):
        warnings.append(f"It uses the unusual port {port}.")
    bracketed = f"[{name}]" if ":" in name else name
    userinfo = (
        quote(parts.netloc.rpartition("@")[0], safe=_SAFE_CHARACTERS.replace("@", "")) + "@"
        if "@" in parts.netloc
        else ""
    )
    netloc = f"{userinfo}{bracketed}" + (f":{port}" if port is not None else "")
    tail = (quote(part, safe=_SAFE_CHARACTERS) for part in (parts.path, parts.query, parts.fragment))
    # A URL without special characters is not changed.
    full = url if _is_plain(url) else urlunsplit((parts.scheme, netloc, *tail))
    if len(full) > MAX_URL:
        raise MalformedMessage(f"The address is longer than {MAX_URL:,} characters.")
    return InspectedUrl(full, name, tuple(warnings))


def _is_plain(url: str) -> bool:
    return url.isascii() and not any(char in "^`{|}" for char in url)


def _to_ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError as error:
        raise MalformedMessage(f"The host {host[:100]!r} is not a host name.") from error


def _host_warnings(host: str) -> list[str]:
    if "xn--" in host:
        return [f"The host has letters that can look like others: it is {host}, shown as {_display_host(host)}."]
    labels = host.rstrip(".").split(".")
    if ":" in host or _NUMBER.fullmatch(labels[-1]):
        # Browsers also read 2130706433 and 0x7f.1 as IP addresses.
        return [] if is_loopback_host(host) else ["The host is an IP address, not a name."]
    if any(label in _COMMON_SUFFIXES for label in labels[:-2]):
        return [f"The last part of the host name identifies its owner: {'.'.join(labels[-2:])}."]
    return []


def _display_host(ascii_host: str) -> str:
    try:
        return sanitize(ascii_host.encode().decode("idna"), keep_newlines=False)
    except UnicodeError:
        return ascii_host


MAX_MESSAGE = 64 * 1024
MAX_URLS = 10
MAX_PENDING = 100
MAX_NOTICES = 20
_MAX_TITLES = 8
_MAX_TITLE = 60
SHORT_SCHEMA = 8 * 1024
"""Maximum bytes of a form schema to parse on the event loop; a longer one is parsed in a thread."""
Notify = Callable[[str, str], None]


class ElicitationHandler:
    """Handler of one server's elicitation requests; *notify* shows a message and a hint to the user."""

    def __init__(self, server: str, frontend: Frontend, notify: Notify, open_url: OpenUrl | None = None) -> None:
        self._server = server
        self._open_url = open_url
        self._frontend = frontend
        self._notify = notify
        self._pending: dict[str, anyio.Event] = {}
        self._reported: set[str] = set()

    async def answer(
        self, request: Elicit, why: str, context: ServerRequestContext
    ) -> ElicitResult | ServerRequestRejection:
        """Show the form or URL to the user and return the user's action: accept, decline or cancel.

        *why* is the reason shown with the form or URL. *context* is the client request during which the server sent its
        request. A form or URL that violates the specification is not shown. In protocol version 2026-07-28 and later,
        the server then receives the action cancel; in earlier versions, it receives error -32602.
        """
        if request.mode not in ("form", "url") or not self._is_declared(request.mode, context.revision):
            return ServerRequestRejection(f"Elicitation mode {request.mode[:40]!r} is not supported.", INVALID_PARAMS)
        try:
            if len(request.message) > MAX_MESSAGE:
                raise MalformedMessage(f"The message is longer than {MAX_MESSAGE:,} characters.")
            if request.mode == "url":
                return await self._answer_url(request, why, context)
            return await self._answer_form(request, why)
        except MalformedMessage as error:
            self._report_refusal(error.message)
            if context.revision.era == "handshake":
                return ServerRequestRejection(error.message, INVALID_PARAMS)
            return ElicitResult("cancel")

    def _report_refusal(self, why: str) -> None:
        """Notify the user that an invalid request was refused, with the reason *why*.

        Each reason is reported once, and at most 20 reasons are reported, so that a server cannot flood the user
        with notices.
        """
        if why not in self._reported and len(self._reported) < MAX_NOTICES:
            self._reported.add(why)
            self._notify(f"Refused an invalid request of {self._server}: {why}", "")

    def _is_declared(self, mode: str, revision: Revision) -> bool:
        kind = VisitUrl.KIND if mode == "url" else FillForm.KIND
        return kind in self._frontend.kinds and (mode == "form" or revision >= Revision.V2025_11_25)

    async def _answer_form(self, request: Elicit, why: str) -> ElicitResult | ServerRequestRejection:
        if len(bytes(request.requested_schema)) > SHORT_SCHEMA:
            fields = await run_in_parsing_thread(parse_form, request.requested_schema)
        else:
            fields = parse_form(request.requested_schema)
        secrets = _quote_titles(field for field in fields if field.secret)
        warnings = (f"It seems to ask for a secret: {secrets}.",) if secrets else ()
        if names := _quote_titles(one for one in fields if one.is_default_omitted):
            warnings += (f"Suggested values that are too long to show were left out: {names}.",)
        question = FillForm(server=self._server, why=why, message=request.message, fields=fields, warnings=warnings)
        verdict = await self._frontend.ask(question)
        if not isinstance(verdict, Accept):
            return ElicitResult("decline" if isinstance(verdict, Decline) else "cancel")
        try:
            return ElicitResult("accept", validate_content(fields, verdict.content))
        except UsageError as error:
            # The frontend accepted invalid content; the server must not get it.
            return ServerRequestRejection(error.message, INTERNAL_ERROR)

    async def _answer_url(self, request: Elicit, why: str, context: ServerRequestContext) -> ElicitResult:
        if context.revision.era == "handshake" and not request.elicitation_id:
            raise MalformedMessage("The address has no elicitationId.")
        question = self._make_question(request, why)
        # Tracked before it is shown, because the server may report completion before the user answers.
        self._track_pending(question.elicitation)
        verdict, is_open = await self._ask_and_open(question)
        if not isinstance(verdict, AcceptUrl):
            self._pending.pop(question.elicitation, None)
        elif is_open:
            self._notify(
                f"Opened {question.host} in your browser; {self._server} continues when you are done there.",
                "Press Escape to cancel the call.",
            )
        return _make_reply(verdict)

    async def _ask_and_open(self, question: VisitUrl) -> tuple[UrlVerdict, bool]:
        """Ask the user about a URL and open it in a browser if the user agrees.

        Returns the answer, and whether mcphost opened the URL. If the URL cannot be opened, the question is asked
        again, so that the user can open the URL without mcphost.
        """
        verdict = await self._frontend.ask(question)
        if not isinstance(verdict, AcceptUrl) or self._open_url is None:
            return verdict, False
        if await self._open_url(question.url):
            return verdict, True
        return await self._frontend.ask(replace(question, is_browser_missing=True)), False

    def _make_question(self, request: Elicit, why: str) -> VisitUrl:
        inspected = inspect_url(request.url or "")
        return VisitUrl(
            server=self._server, why=why, message=request.message, url=inspected.url, host=inspected.host,
            elicitation=request.elicitation_id or "", warnings=inspected.warnings,
        )  # fmt: skip

    async def visit_required_urls(
        self, request: UrlElicitationRequired, why: str, context: ServerRequestContext
    ) -> ElicitResult | ServerRequestRejection:
        """Ask the user to visit the URLs that a tool call requires, one after another.

        Returns accept when the user wants the call to be retried, or when the server has reported all visits as
        complete. Returns cancel if the user decides not to retry the call. If the user declines or cancels the
        question about a URL, that action is returned without asking about the other URLs. *why* is the reason shown
        with the questions. Returns a rejection, without asking, if there are too many URLs or one is invalid.
        """
        if not 0 < len(request.elicitations) <= MAX_URLS or not self._is_declared("url", context.revision):
            return ServerRequestRejection("The required addresses cannot be shown here.")
        completions: list[anyio.Event] = []
        try:
            questions = [self._make_question(elicitation, why) for elicitation in request.elicitations]
        except MalformedMessage as error:
            return ServerRequestRejection(error.message)
        for elicitation, question in zip(request.elicitations, questions, strict=True):
            completions.append(self._track_pending(elicitation.elicitation_id or ""))
            verdict, _ = await self._ask_and_open(question)
            if not isinstance(verdict, AcceptUrl):
                self._pending.pop(question.elicitation, None)
                return _make_reply(verdict)
        return ElicitResult("accept" if await self._wait_until_done(completions, questions, why) else "cancel")

    async def _wait_until_done(self, completions: list[anyio.Event], questions: list[VisitUrl], why: str) -> bool:
        """Ask the user whether to retry the tool call after visiting the URLs, and return the answer.

        If the server reports all visits as complete before the user answers, the question is withdrawn and True is
        returned. True is also returned if the frontend cannot ask this question. *why* is the reason shown with it.
        """
        if RetryCall.KIND not in self._frontend.kinds:
            return True
        repeat = True
        async with anyio.create_task_group() as group:

            async def wait_for_server() -> None:
                for event in completions:
                    await event.wait()
                group.cancel_scope.cancel()

            group.start_soon(wait_for_server)
            urls = tuple(question.url for question in questions)
            repeat = await self._frontend.ask(RetryCall(server=self._server, why=why, urls=urls))
            group.cancel_scope.cancel()
        return repeat

    def _track_pending(self, elicitation_id: str) -> anyio.Event:
        """Return an event that is set when the server reports the elicitation complete.

        For the id "", the event is never set.
        """
        event = anyio.Event()
        if elicitation_id:
            while len(self._pending) >= MAX_PENDING:
                del self._pending[next(iter(self._pending))]
            event = self._pending.setdefault(elicitation_id, event)
        return event

    def on_elicitation_complete(self, elicitation_id: str) -> None:
        """Handle the server's report that an elicitation is complete: notify the user and stop waiting for it."""
        event = self._pending.pop(elicitation_id, None)
        if event is not None:
            event.set()
            self._notify(f"{self._server} reports that you are done in the browser.", "")


def _quote_titles(fields: Iterable[Field]) -> str:
    """Return the titles of a form's fields for a warning.

    The titles are quoted and truncated, so that a title from the server cannot be mistaken for a part of the warning.
    """
    titles = [sanitize(field.title or field.name, keep_newlines=False) for field in fields]
    more = "…" if len(titles) > _MAX_TITLES else ""
    shown = (dumps(title[:_MAX_TITLE] + ("…" if len(title) > _MAX_TITLE else "")) for title in titles[:_MAX_TITLES])
    return ", ".join(filter(None, (*shown, more)))


def _make_reply(verdict: object) -> ElicitResult:
    if isinstance(verdict, AcceptUrl):
        return ElicitResult("accept")
    return ElicitResult("cancel" if isinstance(verdict, Cancel) else "decline")
