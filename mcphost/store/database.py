"""An SQLite database that is opened on first use and used by one thread at a time.

A damaged file is renamed, with the date added to its name, and replaced with a new one. If the path cannot be
written, a copy in memory is used for this run. The user is warned in both cases. A file written by a newer
mcphost is left unchanged, and opening it fails. If the disk is full, the current attempt fails, but later
attempts may succeed.
"""

import errno
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import anyio.to_thread

from mcphost.errors import StoreError
from mcphost.paths import make_private_directory
from mcphost.store.migrations import MIGRATIONS, Migrations, migrate
from mcphost.store.valid_rows import StoreConnection

T = TypeVar("T")
CONVERSATION_STORE = "conversation store"
_BUSY_TIMEOUT = 10
_REPAIR_HINT = "Free disk space, check the permissions, or set MCPHOST_DATA_DIR."
SALVAGE_HINT = (
    "Quit every mcphost, rename mcphost.db to NAME and mcphost.db-wal, if it exists, to NAME-wal, and run "
    "mcphost sessions salvage NAME."
)
"""Hint on how to salvage the database in use; the -wal file may contain the newest messages."""

_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PROGRESS_STEPS = 1_000
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors that sqlite3 raises for a damaged file; UnicodeDecodeError if its error message quotes damaged text."""
_UNWRITABLE_CODES = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})
_MAX_COPIED_BYTES = 100_000_000
_FULL_DISK_BYTES = 64 * 1024
_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class _Job(Generic[T]):
    """One call of `Database.run`, with its result or error."""

    def __init__(self, work: Callable[[sqlite3.Connection], T], on_commit: Callable[[T], None]) -> None:
        self.work, self.on_commit = work, on_commit
        self.results: list[T] = []
        self.error: Exception | None = None

    @property
    def is_done(self) -> bool:
        """Whether the job's function has returned or raised an exception."""
        return bool(self.results) or self.error is not None

    def result(self) -> T:
        """Return the result of the job's function, or raise the exception that it raised."""
        if self.error is not None:
            raise self.error
        return self.results[0]


def _decode_text(text: bytes) -> str:
    """Decode stored text, replacing invalid UTF-8, so that other rows can be read despite a damaged one."""
    return text.decode(errors="replace")


class Database:
    """One SQLite file in WAL mode, which several processes can share."""

    def __init__(
        self,
        path: Path | None,
        warn: Callable[[str, str], None] = lambda text, hint: None,
        *,
        migrations: Migrations = MIGRATIONS,
        durable: bool = False,
        name: str = CONVERSATION_STORE,
        companion: Path | None = None,
    ) -> None:
        """Create a database in the file at *path*, or in memory if *path* is None.

        - *warn*: called on the event loop with a warning and a hint.
        - *durable*: if True, data written by a finished `run` survives a power failure, a file that was deleted or
          replaced is reopened, and every `run` raises StoreError if the path cannot be written. If False, memory is
          used instead of a path that cannot be written.
        - *name*: denotes the database in error messages.
        - *companion*: the path of a file that another part of the program creates once the database has been used. If
          it exists but the database has no tables, the user is warned that the data was lost.
        """
        self._path = path
        self._migrations = migrations
        self._durable = durable
        self._warn = warn
        self._name = name
        self._label = f"{name} {path or 'in memory'}"  # a single value, so that it is translated as a whole
        self._companion = companion
        self._db: StoreConnection | None = None
        self._copy: StoreConnection | None = None  # see `_read_copy`
        self._copied_state: tuple[int, int] | None = None
        self._file_id: tuple[int, int] | None = None
        self._lock = anyio.Lock()
        self._jobs: deque[_Job[Any]] = deque()
        # Cancelling an asyncio task, as Textual does with its workers, leaves anyio's shield and `_lock`, while the
        # thread goes on with the connection.
        self._thread_lock = threading.Lock()
        self._pending_warning: tuple[str, str] | None = None
        self._is_in_memory = path is None
        self._read_lock = anyio.Lock()
        self._has_reported_rows = False

    @property
    def is_in_memory(self) -> bool:
        """Whether the data is kept only in memory, because there is no file or the file could not be written."""
        return self._is_in_memory

    async def run(
        self, work: Callable[[sqlite3.Connection], T], on_commit: Callable[[T], None] = lambda done: None
    ) -> T:
        """Call *work* in one transaction on a worker thread and return its result. Raises StoreError.

        After the commit, *on_commit* is called with the result on the same thread; it must not raise an error.
        Cancellation does not interrupt *work*:

        - If an anyio cancel scope is cancelled, this method first waits until *work* has finished.
        - If the asyncio task is cancelled, as Textual does with its workers, this method does not wait. If *work* has
          not begun by then, the next call of this method executes it.
        """
        job = _Job(work, on_commit)
        self._jobs.append(job)
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if not job.is_done:
                    try:
                        await anyio.to_thread.run_sync(self._run_jobs)
                    finally:
                        warning, self._pending_warning = self._pending_warning, None
                        if warning:
                            self._warn(*warning)
        return job.result()

    def _run_jobs(self) -> None:
        """Run all waiting jobs on one thread, because a thread switch takes longer than a typical job."""
        with self._thread_lock:
            while self._jobs:
                job = self._jobs.popleft()
                try:
                    job.results.append(self._run_job(job.work, job.on_commit))
                except Exception as error:  # noqa: BLE001 - raised again by the caller of `run`
                    job.error = error

    async def read(self, work: Callable[[sqlite3.Connection], T], *, seconds: float) -> T:
        """Call *work* on a thread with a read-only connection, concurrently with calls of `run`.

        Raises StoreError if the database cannot be read, or if *work* takes longer than *seconds*. Cancellation
        interrupts the running statement.
        """
        if self._db is None:
            await self.run(lambda db: None)
        if self._db is None or self._is_in_memory or self._path is None:
            return await self.run(work)
        path, deadline, cancelled = self._path, time.monotonic() + seconds, threading.Event()

        def is_over() -> bool:
            return cancelled.is_set() or time.monotonic() > deadline

        def read() -> tuple[T, int]:
            with closing(_connect_checked(path)) as db:
                db.text_factory = _decode_text
                db.execute("PRAGMA query_only = ON")
                db.set_progress_handler(is_over, _PROGRESS_STEPS)
                return work(db), db.damaged_rows

        async with self._read_lock:
            try:
                result, damaged_rows = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
                if damaged_rows and (warning := self._describe_damaged_rows()):
                    self._warn(*warning)
                return result
            except DATABASE_ERRORS as error:
                raise self._describe_failure(error) from error
            finally:
                cancelled.set()

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the database file and empty the log.

        Afterwards, the log no longer contains deleted data. Does nothing while another connection is reading. Raises
        StoreError.
        """

        def work() -> None:
            with self._thread_lock:
                if self._db is not None and not self._is_in_memory:
                    self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        with anyio.CancelScope(shield=True):
            async with self._lock:
                try:
                    await anyio.to_thread.run_sync(work)
                except DATABASE_ERRORS as error:
                    raise self._describe_failure(error) from error

    def _describe_failure(self, error: Exception) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _is_disk_full(error, self._path):
            return self._describe_full_disk()
        if code in _UNWRITABLE_CODES:
            return StoreError(f"The {self._label} cannot be written ({error}).", _REPAIR_HINT)
        is_salvageable = code in _DAMAGE_CODES and self._name == CONVERSATION_STORE
        hint = SALVAGE_HINT if is_salvageable else "Check the disk."
        return StoreError(f"The {self._label} failed: {error}.", hint)

    def _describe_full_disk(self) -> "_DiskFullError":
        return _DiskFullError(f"The disk is full: the {self._label} cannot be written.", "Free disk space.")

    async def close(self) -> None:
        """Wait for running work and close the file."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await anyio.to_thread.run_sync(self._close_connection)

    def _close_connection(self) -> None:
        with self._thread_lock:
            db, self._db = self._db, None
            if db is not None:
                db.close()
            self._close_copy()

    def _run_job(self, work: Callable[[sqlite3.Connection], T], on_commit: Callable[[T], None]) -> T:
        if (
            self._durable
            and self._db is not None
            and self._path is not None
            and _file_identity(self._path) != self._file_id
        ):
            # SQLite would continue to write to the deleted file.
            self._db.close()
            self._db = None
        if self._db is None:
            try:
                self._db = self._open()
            except _DiskFullError as error:
                return self._read_copy(work, error)
            self._close_copy()
            self._file_id = None if self._path is None else _file_identity(self._path)
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                result = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except DATABASE_ERRORS as error:
            raise self._describe_failure(error) from error
        if db.damaged_rows and self._pending_warning is None:
            self._pending_warning = self._describe_damaged_rows()
        on_commit(result)
        return result

    def _describe_damaged_rows(self) -> tuple[str, str] | None:
        """Return a warning about rows that were left out, or None if the user was already warned in this run."""
        if self._has_reported_rows:
            return None
        self._has_reported_rows = True
        hint = SALVAGE_HINT if self._name == CONVERSATION_STORE else "Check the disk."
        return f"The {self._label} is damaged: rows that cannot be read were left out.", hint

    def _open(self) -> StoreConnection:
        if self._path is None:
            return self._connect(":memory:")
        try:
            make_private_directory(self._path.parent)
            # Not `touch`, which would change the time of the last change. An existing file is not opened: closing it
            # would release the POSIX locks of the other connections in this process (sqlite.org/howtocorrupt.html).
            if not self._path.exists():
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            elif not os.access(self._path, os.W_OK):  # SQLite would open it for reading, and fail at the first write
                is_read_only = os.statvfs(self._path).f_flag & os.ST_RDONLY
                number = errno.EROFS if is_read_only else errno.EACCES
                raise OSError(number, os.strerror(number), str(self._path))
            return self._connect_with_retries(str(self._path))
        except LookupError as error:
            raise StoreError(
                f"The {self._label} was written by a newer mcphost ({error}).",
                "Update mcphost; the file was not changed.",
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if _is_disk_full(error, self._path):
                raise self._describe_full_disk() from error
            if isinstance(error, sqlite3.OperationalError):
                return self._fall_back_to_memory(error)
            damage = error
        except OSError as error:
            if error.errno in _FULL_ERRORS:
                raise self._describe_full_disk() from error
            return self._fall_back_to_memory(error)
        try:
            return self._replace_damaged_file(self._path, damage)
        except (*DATABASE_ERRORS, OSError) as error:
            # Not _DiskFullError: there is nothing to read, and an empty store would look as if it was intact.
            is_full = getattr(error, "errno", 0) in _FULL_ERRORS or _is_disk_full(error, self._path)
            failure = self._describe_full_disk() if is_full else self._describe_failure(error)
            raise StoreError(failure.message, failure.hint) from error

    def _replace_damaged_file(self, path: Path, error: Exception) -> StoreConnection:
        from shlex import quote  # seldom needed, and this module is loaded at each start

        aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        for suffix in ("", "-wal", "-shm"):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        label = f"{self._name} {path.name}"
        self._pending_warning = (
            f"The {label} was damaged ({error}) and a new one was started.",
            f"Run mcphost sessions salvage {quote(str(aside))} to bring its conversations back."
            if self._name == CONVERSATION_STORE
            else f"The damaged file was moved to {aside}.",
        )
        path.touch(mode=0o600)
        return self._connect(str(path))

    def _fall_back_to_memory(self, error: Exception) -> StoreConnection:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        if self._durable:
            raise StoreError(f"The {self._label} cannot be written ({reason}).", _REPAIR_HINT) from error
        self._pending_warning = (
            f"Nothing will be saved: the {self._label} cannot be written ({reason}).",
            _REPAIR_HINT,
        )
        self._is_in_memory = True
        return self._copy_to_memory() or self._connect(":memory:")

    def _copy_to_memory(self) -> StoreConnection | None:
        """Return an in-memory copy of the database, so that its data can at least be read in this run.

        Return None if the file is missing, too large, unreadable, damaged, or from a newer version.
        """
        path = self._path
        memory = _connect_checked(":memory:")
        try:
            if path is not None and path.is_file() and path.stat().st_size <= _MAX_COPIED_BYTES:
                # Immutable, because SQLite cannot create its shared memory on a read-only file system.
                with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as file:
                    file.backup(memory)
                self._prepare(memory)
                memory.text_factory = _decode_text
                return memory
        except (*DATABASE_ERRORS, OSError, LookupError):
            pass
        memory.close()
        return None

    def _read_copy(self, work: Callable[[sqlite3.Connection], T], error: "_DiskFullError") -> T:
        """Return the result of *work*, which only reads, using an in-memory copy of the file.

        The copy is used if SQLite cannot open the file because the disk is full. Raises *error*, so that the next job
        tries to open the file again, in these cases:

        - The database is durable or in memory.
        - There is a write-ahead log, which the copy would lack.
        - The file cannot be copied, or changes during the copy.
        - *work* changes data.
        """
        path = self._path
        if self._durable or path is None:
            raise error
        if size_of(path.with_name(f"{path.name}-wal")):
            raise error
        db = self._copy_for_reading(path, error)
        changes = db.total_changes
        try:
            result = work(db)
        except DATABASE_ERRORS as failure:
            raise self._describe_failure(failure) from failure
        finally:
            if has_changed := db.total_changes != changes:
                self._close_copy()
        if has_changed:
            raise error
        return result

    def _copy_for_reading(self, path: Path, error: "_DiskFullError") -> StoreConnection:
        """Return an in-memory copy of the file; later calls return the same copy until the file changes.

        Raises *error* if the file cannot be copied, or changes during the copy.
        """
        before = _file_state(path)
        if self._copy is None or self._copied_state != before:
            self._close_copy()
            copy = self._connect(":memory:") if before is None else self._copy_to_memory()
            if copy is None:
                raise error
            self._copy, self._copied_state = copy, before
        if _file_state(path) != before:
            raise error
        return self._copy

    def _close_copy(self) -> None:
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.close()

    def _connect_with_retries(self, path: str) -> StoreConnection:
        """Open the database at *path*, retrying while another process is creating it.

        SQLite's busy timeout does not cover the switch to WAL mode.
        """
        deadline = time.monotonic() + _BUSY_TIMEOUT
        while True:
            try:
                return self._connect(path)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY_CODES or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _connect(self, path: str) -> StoreConnection:
        # `run` allows one thread at a time. With isolation_level None, `_run_job` controls the transactions.
        db = _connect_checked(path)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        db.text_factory = _decode_text
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode = WAL")
        # In WAL mode, NORMAL survives a crash of the program, FULL also a power cut; macOS also needs fullfsync.
        db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        db.execute(f"PRAGMA fullfsync = {int(self._durable)}")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")
        if self._pending_warning is None and self._is_lost(db):
            self._pending_warning = (
                f"The {self._label} was missing, or has none of the data stored before; a new one was started.",
                "If you have a backup, quit mcphost and restore it.",
            )
        migrate(db, self._migrations)

    def _is_lost(self, db: sqlite3.Connection) -> bool:
        if self._is_in_memory or self._companion is None or not self._companion.exists():
            return False
        return not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone()


def _connect_checked(path: Path | str) -> StoreConnection:
    # `run` and `read` allow one thread at a time.
    return sqlite3.connect(
        path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, factory=StoreConnection
    )


class _DiskFullError(StoreError):
    """Raised when the disk is full."""


def size_of(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if there is no such file."""
    state = _file_state(path)
    return 0 if state is None else state[0]


def _file_state(path: Path) -> tuple[int, int] | None:
    """Return the size and the modification time of a file, or None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _is_disk_full(error: Exception, path: Path | None) -> bool:
    """Return whether SQLite failed with *error* because the disk is full.

    If there is no space for SQLite's shared-memory file, SQLite reports an I/O error. To recognize this error, the free
    space on the disk of *path* is checked.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code != sqlite3.SQLITE_IOERR or path is None:
        return code == sqlite3.SQLITE_FULL
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _FULL_DISK_BYTES


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode numbers of the file, or None if it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
