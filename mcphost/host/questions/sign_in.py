"""Questions about a sign-in and about where to store it, their prompts, and the meaning of scopes."""

import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import ClassVar, Literal

from mcphost.host.questions.frontend import Frontend, Question
from mcphost.serialization import Struct, field
from mcphost.sign_in import SignInTerms
from mcphost.unicode_forms import split_url

OPENED = "Opened in your browser. This question closes when the sign-in is complete."
NO_BROWSER = "No browser could be opened. Open the address yourself and paste the final address here."
NO_BROWSER_FOR_CODE = "No browser could be opened. Open the address yourself, on any machine."
_KNOWN = {
    "offline_access": "stay signed in while you are away",
    "openid": "know that it is you",
    "profile": "see your name and picture",
    "email": "see your e-mail address",
    "phone": "see your phone number",
    "address": "see your postal address",
}
_VERBS = {
    "read": "read", "readonly": "read", "view": "read", "get": "read", "list": "list", "search": "search",
    "write": "read and change", "readwrite": "read and change", "edit": "change", "update": "change",
    "modify": "change", "create": "create", "add": "add", "delete": "delete", "remove": "delete", "send": "send",
    "execute": "run", "exec": "run", "invoke": "run", "call": "run", "run": "run", "use": "use",
    "admin": "administer", "manage": "manage", "full": "do everything with", "all": "do everything with",
}  # fmt: skip
_GENERIC_PARTS = {"api", "auth", "com", "default", "mcp", "scope", "scopes", "user", "v1", "v2"}
_PARTS = re.compile(r"[:./_\-\s]+")
_MAX_LENGTH = 200


class EnteredClient(Struct, frozen=True):
    """The client id, and secret if any, of a registration that the user made."""

    client_id: str
    client_secret: str = ""

    def __repr__(self) -> str:
        return "EnteredClient(…)"


class DeclineClient(Struct, frozen=True):
    """The user has no client id; the sign-in ends."""


ClientVerdict = EnteredClient | DeclineClient


class EnterClientId(Question[ClientVerdict], frozen=True, kw_only=True):
    """The question for mcphost's client id at *issuer*, which has no dynamic registration.

    `note` is the reason; the user registers a client there for `redirect_uri`.
    """

    KIND: ClassVar[str] = "enter_client"
    issuer: str
    redirect_uri: str
    note: str = ""

    def refusal(self) -> ClientVerdict:
        """Return the answer that refuses."""
        return DeclineClient()


class OpenInBrowser(Struct, frozen=True):
    """The address is, or will be, open in a browser; the redirect arrives automatically."""


class PastedRedirect(Struct, frozen=True):
    """The final address of the sign-in, pasted from a browser that could not reach mcphost."""

    redirect_url: str

    def __repr__(self) -> str:
        return "PastedRedirect(…)"


class SwitchSignInMethod(Struct, frozen=True):
    """Use a device code instead of a browser, or the reverse; see `SignInQuestion.other_method`."""


class DeclineSignIn(Struct, frozen=True):
    """Do not sign in."""


SignInVerdict = OpenInBrowser | PastedRedirect | SwitchSignInMethod | DeclineSignIn


class SignInQuestion(Question[SignInVerdict], frozen=True, kw_only=True):
    """A sign-in at *issuer*; `url` is complete, `host` is its host.

    `note` says why the question is repeated. It is withdrawn when the browser's redirect arrives, and after `seconds`;
    `asked_at` is when it was asked, on this machine's monotonic clock. `browser` False: no browser can open on this
    machine.

    With a `code`, the user enters it at the address in any browser, and nothing is pasted. `verification_uri_complete`
    is the address with the code in it ("" for none); the authorization server is polled every `interval` seconds.
    `other_method` is the alternative method: "code", "browser", or "" for none. `other_accounts` are accounts already
    signed in there: to use one of them, the user refuses and selects it. `warnings` are sentences to show first.
    """

    KIND: ClassVar[str] = "sign_in"
    url: str
    host: str
    issuer: str
    scopes: tuple[str, ...] = ()
    code: str = ""
    note: str = ""
    verification_uri_complete: str = field(default="", name="whole")
    seconds: float = 0
    interval: float = 0
    asked_at: float = field(default=0, name="asked")
    other_method: Literal["", "code", "browser"] = field(default="", name="other")
    browser: bool = True
    other_accounts: tuple[str, ...] = field(default=(), name="others")
    warnings: tuple[str, ...] = ()

    def refusal(self) -> SignInVerdict:
        """Return the answer that refuses."""
        return DeclineSignIn()


OpenUrl = Callable[[str], Awaitable[bool]]
"""Opens an http(s) address in a browser and returns whether that worked."""


class SignInPrompts:
    """Prompts of auth.authorization_flow through the frontend and the browser."""

    def __init__(
        self,
        frontend: Frontend,
        open_url: OpenUrl | None = None,
        can_open: Callable[[], bool] = lambda: True,
    ) -> None:
        """*can_open* returns whether a browser may be available."""
        self._frontend = frontend
        self._open_url = open_url
        self._can_open = can_open

    async def sign_in(
        self,
        *,
        server: str,
        account: str,
        issuer: str,
        url: str,
        scopes: tuple[str, ...],
        code: str,
        note: str,
        terms: SignInTerms,
    ) -> str | None:
        """Return None for a refusal, "" if the browser answers or the method changed, else the pasted address.

        After opening the browser, the question is asked again, so that the wait is visible and can be cancelled.
        """
        deadline = monotonic() + terms.timeout
        while True:
            now = monotonic()
            question = SignInQuestion(
                server=server,
                why=f"the server {server} wants to know who you are",
                url=url,
                host=split_url(url).netloc,
                issuer=issuer,
                scopes=scopes,
                account=account,
                code=code,
                note=note,
                verification_uri_complete=terms.verification_uri_complete,
                seconds=max(0.0, deadline - now),
                interval=terms.poll_interval,
                asked_at=now,
                other_method="" if terms.switch_method is None else "browser" if code else "code",
                browser=self._open_url is None or self._can_open(),
                other_accounts=terms.other_accounts,
                warnings=terms.warnings,
            )
            verdict = await self._frontend.ask(question)
            if isinstance(verdict, DeclineSignIn):
                return None
            if isinstance(verdict, PastedRedirect):
                return verdict.redirect_url
            if isinstance(verdict, SwitchSignInMethod):
                if terms.switch_method is not None:
                    terms.switch_method()
                return ""
            if self._open_url is None:
                return ""
            opened = await self._open_url(url)
            note = OPENED if opened else NO_BROWSER_FOR_CODE if code else NO_BROWSER

    async def ask_client_id(
        self, *, server: str, account: str, issuer: str, redirect_uri: str, note: str
    ) -> tuple[str, str] | None:
        """Return the client id and secret that the user entered, or None if refused or not possible."""
        if EnterClientId.KIND not in self._frontend.kinds:
            return None
        verdict = await self._frontend.ask(
            EnterClientId(
                server=server,
                why=f"the server {server} wants to know who you are",
                issuer=issuer,
                redirect_uri=redirect_uri,
                account=account,
                note=note,
            )
        )
        return (verdict.client_id, verdict.client_secret) if isinstance(verdict, EnteredClient) else None


def describe_scope(scope: str) -> str:
    """Return what a scope seems to permit, guessed from its name; "" if it is unclear."""
    if scope.lower() in _KNOWN:
        return _KNOWN[scope.lower()]
    name = scope[:_MAX_LENGTH]
    if "://" in name:
        name = name.rpartition("/")[2]  # the last segment of an address names the scope
    parts = [part for part in _PARTS.split(name.lower()) if part]
    if not parts or not all(part.isascii() and part.isalnum() for part in parts):
        return ""
    verb = next((part for part in parts if part in _VERBS), "")
    things = [part for part in parts if part != verb]
    plain = [part for part in things if part not in _GENERIC_PARTS] or things
    if not verb:
        return ""
    return f"{_VERBS[verb]} {' '.join(plain) or 'everything'}"


class KeepInMemory(Struct, frozen=True):
    """Store the sign-in in memory until mcphost exits."""


class KeepInPlainFile(Struct, frozen=True):
    """Store sign-ins unencrypted, in a file that only the user may read."""


class KeepInEncryptedFile(Struct, frozen=True):
    """Store sign-ins in a file encrypted with this passphrase."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "KeepInEncryptedFile(…)"


SecretStorageVerdict = KeepInMemory | KeepInPlainFile | KeepInEncryptedFile


class ChooseSecretStorage(Question[SecretStorageVerdict], frozen=True, kw_only=True):
    """Where to store these sign-ins, as no keyring is usable (`reason`); they are in use already.

    `is_new`: the encrypted file does not exist yet, so the passphrase is chosen now. `note`: why the question is
    repeated.
    """

    KIND: ClassVar[str] = "keep_secrets"
    servers: tuple[str, ...]
    reason: str
    plain_file: str
    sealed_file: str
    is_new: bool = True
    note: str = ""

    def refusal(self) -> SecretStorageVerdict:
        """Return the answer that refuses."""
        return KeepInMemory()


class EnterPassphrase(Struct, frozen=True):
    """The passphrase of the file; never stored."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "EnterPassphrase(…)"


class LeaveLocked(Struct, frozen=True):
    """Continue without the content of the file."""


UnlockVerdict = EnterPassphrase | LeaveLocked


class UnlockSecrets(Question[UnlockVerdict], frozen=True, kw_only=True):
    """The passphrase of the file of sign-ins, asked once in a run.

    `note`: why the question is repeated.
    """

    KIND: ClassVar[str] = "unlock_secrets"
    file: str
    note: str = ""

    def refusal(self) -> UnlockVerdict:
        """Return the answer that refuses."""
        return LeaveLocked()


StorageChoice = tuple[str, str]


class SecretStoragePrompts:
    """Prompts through the frontend.

    A refusal keeps sign-ins in memory for this run and leaves an encrypted file locked.
    """

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def choose_storage(
        self, *, servers: tuple[str, ...], reason: str, plain_file: str, sealed_file: str, is_new: bool, note: str
    ) -> StorageChoice:
        """Return the place, and the passphrase for an encrypted file."""
        verdict = await self._frontend.ask(
            ChooseSecretStorage(
                server="",
                why="a sign-in worked, and no keyring can keep it",
                servers=servers,
                reason=reason,
                plain_file=plain_file,
                sealed_file=sealed_file,
                is_new=is_new,
                note=note,
            )
        )
        if isinstance(verdict, KeepInEncryptedFile):
            return "encrypted", verdict.pass_phrase
        return ("file" if isinstance(verdict, KeepInPlainFile) else "session"), ""

    async def ask_passphrase(self, *, file: str, note: str) -> str | None:
        """Return the passphrase, or None to leave the file locked."""
        verdict = await self._frontend.ask(
            UnlockSecrets(server="", why="sign-ins are kept in an encrypted file", file=file, note=note)
        )
        return verdict.pass_phrase if isinstance(verdict, EnterPassphrase) else None
