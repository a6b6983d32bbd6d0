"""Questions about signing in to servers and storing credentials, and descriptions of OAuth scopes."""

import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import ClassVar, Literal

from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Frontend, Question
from mcphost.serialization import Struct, field
from mcphost.sign_in_types import WRONG_REDIRECT, SignInTerms
from mcphost.translation import N_
from mcphost.unicode_forms import split_url

OPENED = "Opened in your browser. This question closes when the sign-in is complete."
NO_BROWSER = "No browser could be opened. Open the address yourself and paste the final address here."
NO_BROWSER_FOR_CODE = "No browser could be opened. Open the address yourself, on any machine."
_KNOWN = {
    "offline_access": N_("stay signed in while you are away"),
    "openid": N_("know that it is you"),
    "profile": N_("see your name and picture"),
    "email": N_("see your email address"),
    "phone": N_("see your phone number"),
    "address": N_("see your postal address"),
}
_VERBS = {
    N_("read {things}"): "read readonly view get",
    N_("list {things}"): "list",
    N_("search {things}"): "search",
    N_("read and change {things}"): "write readwrite",
    N_("change {things}"): "edit update modify",
    N_("create {things}"): "create",
    N_("add {things}"): "add",
    N_("delete {things}"): "delete remove",
    N_("send {things}"): "send",
    N_("run {things}"): "execute exec invoke call run",
    N_("use {things}"): "use",
    N_("administer {things}"): "admin",
    N_("manage {things}"): "manage",
    N_("do everything with {things}"): "full all",
}
_PHRASES = {verb: phrase for phrase, verbs in _VERBS.items() for verb in verbs.split()}
_GENERIC_PARTS = {"api", "auth", "com", "default", "mcp", "scope", "scopes", "user", "v1", "v2"}
_PARTS = re.compile(r"[:./_\-\s]+")
_MAX_LENGTH = 200


class EnteredClient(Struct, frozen=True):
    """Answer with a client ID that the user registered; the client secret is "" if there is none."""

    client_id: str
    client_secret: str = ""

    def __repr__(self) -> str:
        return "EnteredClient(…)"


class DeclineClient(Struct, frozen=True):
    """Answer without a client ID, because the user has none; the sign-in ends."""


ClientVerdict = EnteredClient | DeclineClient


class EnterClientId(Question[ClientVerdict], frozen=True, kw_only=True):
    """Prompt for an OAuth client ID, for an authorization server without dynamic registration.

    The user registers mcphost at `issuer`, the authorization server, with `redirect_uri`. `note` gives the reason
    for the prompt.
    """

    KIND: ClassVar[str] = kinds.ENTER_CLIENT
    issuer: str
    redirect_uri: str
    note: str = ""

    def refusal(self) -> ClientVerdict:
        """Return an answer that ends the sign-in."""
        return DeclineClient()


class OpenInBrowser(Struct, frozen=True):
    """Answer that opens the URL in a browser, where the user signs in."""


class PastedRedirect(Struct, frozen=True):
    """Answer with the redirect URL, which the user copied from a browser that could not reach mcphost."""

    redirect_url: str

    def __repr__(self) -> str:
        return "PastedRedirect(…)"


class SwitchSignInMethod(Struct, frozen=True):
    """Answer that switches between signing in with a browser redirect and with a device code."""


class DeclineSignIn(Struct, frozen=True):
    """Answer that declines to sign in."""


SignInVerdict = OpenInBrowser | PastedRedirect | SwitchSignInMethod | DeclineSignIn


class SignInQuestion(Question[SignInVerdict], frozen=True, kw_only=True):
    """Question that asks the user to sign in at an authorization server.

    - `issuer`: the authorization server.
    - `url`, `host`: the URL to open, and its host.
    - `note`: why the question is asked again, "" the first time.
    - `asked_at`: when the question was asked, as a reading of the monotonic clock.
    - `seconds`: how long the question stays open. The question is withdrawn earlier if the sign-in completes.
    - `browser`: whether mcphost can open a browser.
    - `other_method`: the method that the user can switch to, "code" or "browser"; "" for none.
    - `other_accounts`: accounts that are already signed in. To use one, the user declines this sign-in and then selects
      the account.
    - `warnings`: sentences to show first.

    The following are set only for a sign-in with a device code:

    - `code`: the code that the user enters at `url`, in any browser.
    - `verification_uri_complete`: a URL that already includes the code, "" for none.
    - `interval`: how often mcphost polls the authorization server, in seconds.
    """

    KIND: ClassVar[str] = kinds.SIGN_IN
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

    @property
    def is_retry(self) -> bool:
        """Whether the user pasted something other than the redirect URL; see Question.is_retry."""
        return self.note == WRONG_REDIRECT

    def refusal(self) -> SignInVerdict:
        """Return an answer that declines to sign in."""
        return DeclineSignIn()


OpenUrl = Callable[[str], Awaitable[bool]]
"""Opens an http(s) address in a browser and returns whether that worked."""


class SignInPrompts:
    """Prompts shown during a sign-in, through the frontend and the browser.

    The methods are called by `auth.sign_in_context`.
    """

    def __init__(
        self,
        frontend: Frontend,
        open_url: OpenUrl | None = None,
        can_open: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create prompts that ask through *frontend*; *open_url* opens URLs. If it is None, the frontend opens them.

        *can_open* returns whether a browser can be opened on this computer.
        """
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
        """Ask the user to sign in; return the redirect URL that the user pasted, or None if the user declines.

        If the user agrees to open the URL, either mcphost or the frontend opens it (see `__init__`). After mcphost has
        opened it, the question is asked again, so that the user can still cancel or paste the redirect URL. If the
        frontend opens it, "" is returned. If the user switches to the other sign-in method, `terms.switch_method` is
        called, and "" is returned.

        *code* is the device code, "" for none. *note* is the reason if the user is asked again, otherwise "". *terms*
        contains the time limit and other details. See SignInQuestion for the other parameters.
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
        """Ask the user for an OAuth client ID; return the client ID and the client secret.

        Returns None if the user has no client ID or cannot be asked. See EnterClientId for the parameters.
        """
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


def describe_scope(scope: str, translate: Callable[[str], str] = str) -> str:
    """Return what an OAuth scope seems to permit, such as "read files", or "" if its name is unclear.

    *translate* translates mcphost's own phrases only, before words from the scope's name are inserted.
    """
    if scope.lower() in _KNOWN:
        return translate(_KNOWN[scope.lower()])
    name = scope[:_MAX_LENGTH]
    if "://" in name:
        name = name.rpartition("/")[2]  # a scope that is a URL is named by its last segment
    parts = [part for part in _PARTS.split(name.lower()) if part]
    if not parts or not all(part.isascii() and part.isalnum() for part in parts):
        return ""
    verb = next((part for part in parts if part in _PHRASES), "")
    things = [part for part in parts if part != verb]
    plain = [part for part in things if part not in _GENERIC_PARTS] or things
    if not verb:
        return ""
    return translate(_PHRASES[verb]).format(things=" ".join(plain) or translate(N_("everything")))


class KeepInMemory(Struct, frozen=True):
    """Answer that keeps the credentials in memory until mcphost exits."""


class KeepInPlainFile(Struct, frozen=True):
    """Answer that stores credentials unencrypted in a file that only the user can read."""


class KeepInEncryptedFile(Struct, frozen=True):
    """Answer that stores credentials in a file encrypted with this passphrase."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "KeepInEncryptedFile(…)"


SecretStorageVerdict = KeepInMemory | KeepInPlainFile | KeepInEncryptedFile


class ChooseSecretStorage(Question[SecretStorageVerdict], frozen=True, kw_only=True):
    """Question that asks where to store the credentials or configured secrets of `servers`.

    Credentials from a sign-in are in use even before the user answers. Secrets in a server's configuration entry can be
    stored only in the plain file, so `sealed_file` is "" for them; if the user refuses, the entry is not saved.

    - `reason`: why no keyring can be used.
    - `plain_file`, `sealed_file`: the paths of the unencrypted and of the encrypted file.
    - `is_new`: whether the encrypted file does not exist yet, so that the user chooses its passphrase.
    - `note`: why the question is asked again, "" the first time.
    """

    KIND: ClassVar[str] = kinds.KEEP_SECRETS
    servers: tuple[str, ...]
    reason: str
    plain_file: str
    sealed_file: str
    is_new: bool = True
    note: str = ""

    @property
    def is_retry(self) -> bool:
        """Whether the passphrase was wrong; see Question.is_retry."""
        return bool(self.note)

    def refusal(self) -> SecretStorageVerdict:
        """Return an answer that keeps the credentials in memory."""
        return KeepInMemory()


class EnterPassphrase(Struct, frozen=True):
    """Answer with the passphrase of the encrypted file; the passphrase is not stored."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "EnterPassphrase(…)"


class LeaveLocked(Struct, frozen=True):
    """Answer that leaves the encrypted file locked; the credentials in it are not used."""


UnlockVerdict = EnterPassphrase | LeaveLocked


class UnlockSecrets(Question[UnlockVerdict], frozen=True, kw_only=True):
    """Prompt for the passphrase of the encrypted file of credentials; the user enters it once per run.

    `note` is the reason if the user is asked again.
    """

    KIND: ClassVar[str] = kinds.UNLOCK_SECRETS
    file: str
    note: str = ""

    @property
    def is_retry(self) -> bool:
        """Whether the passphrase was wrong; see Question.is_retry."""
        return bool(self.note)

    def refusal(self) -> UnlockVerdict:
        """Return an answer that leaves the file locked."""
        return LeaveLocked()


StorageChoice = tuple[str, str]


class SecretStoragePrompts:
    """Prompts about storing credentials, shown through the frontend.

    If the user refuses to store credentials, they are kept in memory for this run. If the user does not enter the
    passphrase, the encrypted file stays locked.
    """

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def choose_storage(
        self, *, servers: tuple[str, ...], reason: str, plain_file: str, sealed_file: str, is_new: bool, note: str
    ) -> StorageChoice:
        """Ask where to store credentials; return the kind of storage and the passphrase.

        The kind is "session" (in memory), "file" or "encrypted". The passphrase is "" unless the kind is "encrypted".
        *plain_file* and *sealed_file* are the paths of the two files that the user can choose. See ChooseSecretStorage
        for the other parameters.
        """
        verdict = await self._frontend.ask(
            ChooseSecretStorage(
                server="",
                why="you signed in, and no keyring can store the sign-in",
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
        """Ask for the passphrase of the encrypted file; return None if the file stays locked.

        *note* is the reason if the user is asked again.
        """
        verdict = await self._frontend.ask(
            UnlockSecrets(server="", why="sign-ins are kept in an encrypted file", file=file, note=note)
        )
        return verdict.pass_phrase if isinstance(verdict, EnterPassphrase) else None
