"""Tests for storing a sign-in when the keyring fails at any step: never lost, never written without consent."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.auth.file_backend import ENCRYPTED_FILE, PLAIN_FILE, EncryptedFileBackend
from mcphost.auth.keyring_backend import KeyringBackend
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.secret_store import SecretStorage
from mcphost.auth.sign_in_context import SignInFailed
from mcphost.auth.token_store import TokenStore
from mcphost.client.account_manager import RegistryAccountManager
from mcphost.errors import McpHostError
from tests.unit.auth.oauth_peer import BrowserUser, create_oauth, run_peer, send_request, send_with_sign_in
from tests.unit.auth.storage import OpenMemoryBackend, StorageUser, read_all_files

pytestmark = pytest.mark.anyio


class FailingBackend:
    """A keyring backend with one fault; `kept` contains the secrets it has stored."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.kept: dict[str, str] = {}

    def get_password(self, service: str, name: str) -> Any:
        match self.fault:
            case "locked":
                raise RuntimeError("locked")
            case "bytes":
                return b"bytes"
            case "forgets":
                return None
            case _:
                return self.kept.get(name)

    def set_password(self, service: str, name: str, value: str) -> None:
        if self.fault == "full":
            raise OSError("no room")
        self.kept[name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[name]


class HangingBackend(FailingBackend):
    """A keyring backend that does not answer reads until the test sets `go`; `reads` counts them."""

    def __init__(self) -> None:
        super().__init__("")
        self.go = threading.Event()
        self.reads = 0

    def get_password(self, service: str, name: str) -> Any:
        self.reads += 1
        self.go.wait(30)
        return super().get_password(service, name)


def create_storage(backend: Any, folder: Path, owner: StorageUser | None, **more: Any) -> SecretStorage:
    timeout = 0.3 if isinstance(backend, HangingBackend) else 60.0  # on a busy machine, a working keyring is slow
    keyring = KeyringBackend(find_backend=lambda: backend, timeout=timeout)
    return SecretStorage(keyring, folder, interaction=owner, **more)


@pytest.fixture(autouse=True)
def weak_key_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a fast key derivation; the real one is tested in tests/unit/auth/test_file_backend.py."""
    monkeypatch.setattr("mcphost.auth.secret_store.EncryptedFileBackend", partial(EncryptedFileBackend, log_n=14))


FAULTS = ["locked", "bytes", "forgets", "full", "none", "hangs"]


@pytest.fixture
def create_faulty_backend() -> Any:
    created: list[HangingBackend] = []

    def make(fault: str) -> Any:
        if fault != "hangs":
            return None if fault == "none" else FailingBackend(fault)
        created.append(HangingBackend())
        return created[-1]

    yield make
    for item in created:
        item.go.set()


@pytest.mark.req("auth.token.storage-fallback")
@pytest.mark.parametrize("fault", FAULTS)
async def test_with_any_keyring_fault_the_fresh_token_works_and_is_stored_nowhere_without_consent(
    tmp_path: Path, fault: str, create_faulty_backend: Callable[[str], Any]
) -> None:
    owner = StorageUser(("session", ""))
    token_store = TokenStore(create_storage(create_faulty_backend(fault), tmp_path, owner), tmp_path)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        assert await send_with_sign_in(auth, peer) == 200
        assert not owner.asked, "never inside the sign-in"
        assert [account.place for account in await token_store.accounts()] == ["session"]
        await token_store.store_pending()
        await token_store.store_pending()
        assert len(owner.asked) == 1, "asked once a run"
        assert await send_request(auth, peer) == 200
        secrets = (*peer.valid, *peer.families)
    written = read_all_files(tmp_path)
    assert not any(secret.encode() in written for secret in secrets)
    assert not (tmp_path / PLAIN_FILE).exists()


@pytest.mark.req("auth.token.storage-fallback")
@pytest.mark.parametrize(("answer", "file"), [(("file", ""), PLAIN_FILE), (("encrypted", "pw"), ENCRYPTED_FILE)])
async def test_a_file_that_was_chosen_has_the_sign_in_for_the_next_run(
    tmp_path: Path, answer: tuple[str, str], file: str
) -> None:
    chosen: list[str] = []

    async def remember(place: str) -> str:
        chosen.append(place)
        return "It is written down."

    owner, messages = StorageUser(answer), []
    token_store = TokenStore(create_storage(None, tmp_path, owner, save_choice=remember), tmp_path, messages.append)
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        heard: list[Any] = []
        auth.set_account_listener(heard.append)
        await token_store.store_pending()
        assert heard[-1].place == answer[0], "who shows the account hears of it"
        assert (chosen, messages) == ([answer[0]], ["It is written down."])
        assert (tmp_path / file).stat().st_mode & 0o777 == 0o600
        next_owner = StorageUser(phrases=("wrong", "pw"))
        again = TokenStore(create_storage(None, tmp_path, next_owner, configured_place=answer[0]), tmp_path)
        user = BrowserUser()
        assert await send_with_sign_in(create_oauth(peer, user, again), peer) == 200
        assert user.urls == [], "nobody signs in twice"
        assert len(next_owner.asked) == (2 if answer[0] == "encrypted" else 0)


async def test_a_declined_pass_phrase_starts_a_sign_in_for_this_run(tmp_path: Path) -> None:
    token_store = TokenStore(create_storage(None, tmp_path, StorageUser(("encrypted", "pw"))), tmp_path)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        await token_store.store_pending()
        owner, user = StorageUser(phrases=(None,)), BrowserUser()
        again = TokenStore(create_storage(None, tmp_path, owner, configured_place="encrypted"), tmp_path)
        assert await send_with_sign_in(create_oauth(peer, user, again), peer) == 200
        assert len(user.urls) == 1
        assert len(owner.asked) == 1
        assert [account.place for account in await again.accounts()] == ["session"]


async def test_a_declined_passphrase_is_asked_for_again_only_when_the_user_restarts_a_server(tmp_path: Path) -> None:
    sealed = TokenStore(create_storage(None, tmp_path, StorageUser(("encrypted", "pw"))), tmp_path)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), sealed), peer)
        await sealed.store_pending()
    owner = StorageUser(phrases=(None, "pw"))
    storage = create_storage(None, tmp_path, owner, configured_place="encrypted")
    registry = OAuthRegistry(TokenStore(storage, tmp_path), None, max_timeout=5.0)
    assert [await storage.unlock(), await storage.unlock(), len(owner.asked)] == [False, False, 1]
    RegistryAccountManager(registry).ask_passphrase_again()
    assert [await storage.unlock(), len(owner.asked)] == [True, 2]


@pytest.mark.parametrize("configured", ["encrypted", ""])
async def test_without_a_user_a_locked_sign_in_is_distinguished_from_a_missing_one(
    tmp_path: Path, configured: Any
) -> None:
    token_store = TokenStore(create_storage(None, tmp_path, StorageUser(("encrypted", "pw"))), tmp_path)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        await token_store.store_pending()
        again = TokenStore(create_storage(None, tmp_path, None, configured_place=configured), tmp_path)
        with pytest.raises(SignInFailed) as exc_info:
            await send_with_sign_in(create_oauth(peer, None, again), peer)
        assert f"is stored in {tmp_path / ENCRYPTED_FILE}, which is locked" in exc_info.value.message
        assert "asks for the passphrase" in exc_info.value.hint
        other = TokenStore(create_storage(None, tmp_path / "other", None, configured_place="encrypted"), None)
        with pytest.raises(SignInFailed, match="requires a sign-in"):
            await send_with_sign_in(create_oauth(peer, None, other), peer)


async def test_a_wrong_new_choice_is_asked_again(tmp_path: Path) -> None:
    sealed = TokenStore(create_storage(None, tmp_path, StorageUser(("encrypted", "pw"))), tmp_path)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), sealed), peer)
        await sealed.store_pending()
        owner = StorageUser(("encrypted", ""), ("encrypted", "wrong"), ("encrypted", "pw"))
        token_store = TokenStore(create_storage(None, tmp_path, owner), None)
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        await token_store.store_pending()
        assert [question["is_new"] for question in owner.asked] == [False] * 3
        assert [bool(question["note"]) for question in owner.asked] == [False, True, True]


async def test_an_unusable_encrypted_file_falls_back_to_another_storage(tmp_path: Path) -> None:
    (tmp_path / ENCRYPTED_FILE).symlink_to(tmp_path / "elsewhere")
    owner = StorageUser(("encrypted", "pw"), ("file", ""))
    token_store = TokenStore(create_storage(None, tmp_path, owner), tmp_path)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        await token_store.store_pending()
        assert "symbolic link" in owner.asked[1]["note"]
        assert [account.place for account in await token_store.accounts()] == ["file"]
        later, messages = StorageUser(phrases=("pw",)), list[str]()
        again = TokenStore(create_storage(None, tmp_path, later, configured_place="encrypted"), None, messages.append)
        assert await send_with_sign_in(create_oauth(peer, BrowserUser(), again), peer) == 200
        assert "symbolic link" in messages[0]
    assert not (tmp_path / "elsewhere").exists()


async def test_an_answer_right_before_quitting_still_counts(tmp_path: Path) -> None:
    remembered: list[str] = []

    async def remember(place: str) -> str:
        await anyio.lowlevel.checkpoint()
        remembered.append(place)
        return ""

    class LeavingUser(StorageUser):
        async def choose_storage(self, **asked: Any) -> tuple[str, str]:
            tasks.cancel_scope.cancel()
            return "encrypted", "pw"

    token_store = TokenStore(create_storage(None, tmp_path, LeavingUser(), save_choice=remember), tmp_path)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(token_store.store_pending)
    assert remembered == ["encrypted"]
    assert [account.place for account in await token_store.accounts()] == ["encrypted"]


async def test_session_storage_asks_nothing_and_writes_nothing(tmp_path: Path) -> None:
    backend = OpenMemoryBackend()
    token_store = TokenStore(
        SecretStorage(backend, tmp_path, configured_place="session", interaction=StorageUser()), tmp_path
    )
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        await token_store.store_pending()
        assert backend.secrets == {}
        assert [account.is_stored for account in await token_store.accounts()] == [False]


async def test_a_moved_sign_in_leaves_nothing_behind(tmp_path: Path) -> None:
    backend = OpenMemoryBackend()
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), TokenStore(backend, tmp_path)), peer)
        assert any("tokens" in name for name in backend.secrets)
        token_store = TokenStore(SecretStorage(backend, tmp_path, configured_place="file"), tmp_path)
        await create_oauth(peer, BrowserUser(), token_store).login()
        assert not any("tokens" in name for name in backend.secrets)
        assert [account.place for account in await token_store.accounts()] == ["file"]


@pytest.mark.req("auth.signout")
async def test_an_unreadable_secret_is_not_reported_as_missing(tmp_path: Path) -> None:
    async with run_peer() as peer:
        backend = FailingBackend("")
        await send_with_sign_in(
            create_oauth(peer, BrowserUser(), TokenStore(create_storage(backend, tmp_path, None), tmp_path)), peer
        )
        backend.fault = "locked"
        token_store = TokenStore(create_storage(backend, tmp_path, None), tmp_path)
        with pytest.raises(McpHostError, match="The keyring reported an error"):
            await create_oauth(peer, None, token_store).logout()
        assert len(await token_store.accounts()) == 1
        backend.fault = ""
        gone, revoked = await create_oauth(peer, None, token_store).logout()
        assert gone is not None
        assert revoked


async def test_a_keyring_that_hangs_is_waited_for_once_and_used_once_it_answers(tmp_path: Path) -> None:
    backend = HangingBackend()
    storage = KeyringBackend(find_backend=lambda: backend, timeout=0.3)
    with pytest.raises(McpHostError, match="did not respond"):
        await storage.get("a")
    with pytest.raises(McpHostError, match="still does not respond"):
        await storage.set("a", "b")
    assert (backend.reads, backend.kept) == (1, {})
    backend.go.set()
    with anyio.fail_after(20):
        while True:
            try:
                await storage.set("a", "b")
                break
            except McpHostError:
                await anyio.sleep(0.01)
    assert await storage.get("a") == "b"


class SmallBackend(FailingBackend):
    """A backend with the limit of the Windows keyring: 2560 bytes of UTF-16."""

    def set_password(self, service: str, name: str, value: str) -> None:
        if len(value.encode("utf-16-le")) > 2_560:
            raise OSError("too long")
        super().set_password(service, name, value)


SmallBackend.__module__ = "keyring.backends.Windows"


@pytest.mark.parametrize("secret", ["short", "x" * 1_281, "tök€n😀" * 900, "mcphost-parts:a:1:b"])
async def test_a_secret_too_long_for_the_keyring_is_kept_in_parts_that_are_removed_with_it(secret: str) -> None:
    backend = SmallBackend("")
    storage = KeyringBackend(find_backend=lambda: backend)
    for value in (secret, secret[::-1], secret):
        await storage.set("a", value)
        assert await storage.get("a") == value
    assert len(backend.kept) <= 2 + len(secret.encode("utf-16-le")) // 1_280
    await storage.delete("a")
    assert backend.kept == {}


class LosingBackend(FailingBackend):
    """A keyring backend whose next `left` reads fail, as gnome-keyring's do while something else is being written."""

    def __init__(self, left: int, slowly: float = 0) -> None:
        super().__init__("")
        self.left, self.slowly, self.calls = left, slowly, 0

    def get_password(self, service: str, name: str) -> Any:
        self.calls += 1
        if self.left:
            self.left -= 1
            time.sleep(self.slowly)
            raise RuntimeError("Item does not exist!")
        return super().get_password(service, name)


async def test_a_keyring_that_fails_for_a_moment_is_tried_again() -> None:
    backend = LosingBackend(1)
    storage = KeyringBackend(find_backend=lambda: backend)
    await storage.set("a", "kept")
    assert await storage.get("a") == "kept"


async def test_a_keyring_that_keeps_failing_is_not_tried_again_before_it_answers() -> None:
    backend = LosingBackend(6)
    storage = KeyringBackend(find_backend=lambda: backend)
    for calls in (4, 5, 6):
        with pytest.raises(McpHostError, match="reported an error: RuntimeError"):
            await storage.get("a")
        assert backend.calls == calls
    assert await storage.get("a") is None
    backend.left = 1
    assert await storage.get("a") is None


async def test_a_possibly_refused_request_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.auth.keyring_backend.IMMEDIATE_FAILURE", 0.0)
    backend = LosingBackend(1, slowly=0.01)
    with pytest.raises(McpHostError, match="The keyring reported an error"):
        await KeyringBackend(find_backend=lambda: backend).get("a")
    assert backend.calls == 1


class OverlapBackend(FailingBackend):
    """A keyring backend that detects two concurrent callers."""

    def __init__(self) -> None:
        super().__init__("")
        self.both, self.met = threading.Barrier(2, timeout=0.2), False

    def get_password(self, service: str, name: str) -> Any:
        with suppress(threading.BrokenBarrierError):
            self.both.wait()
            self.met = True
        self.both.reset()
        return super().get_password(service, name)


@pytest.mark.parametrize("one_login", [True, False])
async def test_the_system_keyring_is_used_by_one_mcphost_of_a_login_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_login: bool
) -> None:
    backend = OverlapBackend()
    monkeypatch.setattr("mcphost.auth.keyring_backend.find_secure_backend", lambda: backend)
    async with anyio.create_task_group() as tasks:
        for login in ("1", "1" if one_login else "2"):
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / login))
            tasks.start_soon(KeyringBackend().get, "a")
    assert backend.met is not one_login


async def test_parts_that_do_not_belong_together_are_no_secret() -> None:
    backend = SmallBackend("")
    storage = KeyringBackend(find_backend=lambda: backend)
    await storage.set("a", "y" * 5_000)
    part = next(name for name in backend.kept if name.endswith(".1"))
    backend.kept[part] = "z"
    assert await storage.get("a") is None
    del backend.kept[part]
    assert await storage.get("a") is None
    await storage.set("a", "new")
    assert backend.kept == {"a": "new"}


async def test_a_secret_without_bound_is_refused() -> None:
    with pytest.raises(McpHostError, match="too long"):
        await KeyringBackend(find_backend=lambda: FailingBackend("")).set("a", "x" * 300_000)
