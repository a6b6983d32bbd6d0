"""Download of MCPB bundles, verification of their SHA-256, and safe extraction of the ZIP file."""

import hashlib
import os
import re
import secrets
import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import anyio
import anyio.to_thread

from mcphost.auth.url_policy import UnsafeUrl, UrlPolicy
from mcphost.errors import McpHostError, RegistryError
from mcphost.paths import make_private_directory
from mcphost.proxies import proxy_for
from mcphost.registry.bundle_manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, BundleManifest, decode_manifest
from mcphost.registry.entries import RegistryPackage
from mcphost.sanitize import quote_text
from mcphost.serialization import Struct
from mcphost.transport.http_client import HttpResponse
from mcphost.transport.http_pool import HttpConnectionPool
from mcphost.unicode_forms import join_url, split_url

MAX_BUNDLE_BYTES = 200 * 1024 * 1024
DOWNLOAD_TIMEOUT = 300.0
MAX_REDIRECTS = 5
MAX_FILES = 50_000
"""Maximum number of files in a bundle; the number of folders has the same limit."""
MAX_EXTRACTED_BYTES = 1024 * 1024 * 1024
MAX_RATIO = 100
"""Maximum compression ratio (extracted bytes per byte of the bundle) after the first 10 MB."""
_RATIO_ALLOWANCE = 10 * 1024 * 1024
_MAX_DIRECTORY_BYTES = 8 * 1024 * 1024
_MAX_PATH_LENGTH = 400
_MAX_PATH_PARTS = 40
_COPY_SIZE = 256 * 1024
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_END_RECORD = b"PK\x05\x06"
_END_RECORD_SIZE = 22
_ZIP64_LOCATOR = b"PK\x06\x07"
_ZIP64_LOCATOR_SIZE = 20
_MAX_COMMENT = 65_535
_DRIVE = re.compile(r"[A-Za-z]:")
_WHAT = "address of the bundle"


class OpenedBundle(Struct, frozen=True):
    """An extracted bundle: its folder and manifest, and whether the folder was newly created."""

    folder: Path
    manifest: BundleManifest
    is_new: bool

    def discard(self) -> None:
        """Delete the folder of the bundle, unless the folder already existed before the download."""
        if self.is_new:
            shutil.rmtree(self.folder, ignore_errors=True)


async def fetch_bundle(package: RegistryPackage, folder: Path, name: str) -> OpenedBundle:
    """Download a package's bundle, verify its SHA-256, and extract it to its own folder below *folder*.

    The name of the new folder consists of the server's *name* and the SHA-256. If RegistryError is raised, no file of
    the bundle is left behind.
    """
    target = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:60]}-{package.file_sha256[:16]}"
    part = folder / f".{secrets.token_hex(8)}.part"
    is_new = not await anyio.to_thread.run_sync(os.path.exists, target)
    try:
        await anyio.to_thread.run_sync(make_private_directory, folder)
        await download(package.identifier, package.file_sha256, part)
        manifest = await anyio.to_thread.run_sync(extract, part, target)
    except OSError as error:
        raise RegistryError(f"The bundle cannot be stored in {folder}: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
    return OpenedBundle(target, manifest, is_new)


async def download(url: str, sha256: str, path: Path) -> None:
    """Download a file of at most MAX_BUNDLE_BYTES to *path* and verify it against *sha256* (hex).

    Redirects to other hosts are followed, because GitHub releases use them. Every URL must be https and resolve to a
    public address. URLs on this machine are accepted only if *url* itself is on this machine. Raises RegistryError if
    the download or the verification fails, and OSError if *path* cannot be written.
    """
    policy = UrlPolicy(url)
    start = url
    try:
        with anyio.fail_after(DOWNLOAD_TIMEOUT):
            for _ in range(MAX_REDIRECTS + 1):
                target = await _download_once(policy, url, sha256, path)
                if not target:
                    return
                url = join_url(url, target)
    except TimeoutError as error:
        raise RegistryError(f"The bundle was not downloaded within {DOWNLOAD_TIMEOUT:g} s.", "Try again.") from error
    except UnsafeUrl as error:
        raise RegistryError(f"The bundle was not downloaded. {error.message}") from error
    except ValueError as error:
        raise RegistryError(f"The bundle at {start[:200]!r} redirects to an address that is not valid.") from error
    raise RegistryError(f"The bundle at {start[:200]!r} redirects more than {MAX_REDIRECTS} times.")


async def _download_once(policy: UrlPolicy, url: str, sha256: str, path: Path) -> str:
    """Download *url* to *path* and verify the body, without following redirects.

    Returns the URL to continue with if the response is a redirect, or "" after a download.
    """
    host = split_url(url).netloc
    try:
        proxy = proxy_for(url)
        if proxy:
            await policy.check_proxied(url, _WHAT)
            pool = HttpConnectionPool(url, proxy=proxy)
        else:
            # Connect to the addresses that were checked: a second lookup could return others (DNS rebinding).
            pool = HttpConnectionPool(url, addresses=await policy.resolve_addresses(url, _WHAT))
        try:
            headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "mcphost"}
            response = HttpResponse(await pool.request("GET", url, headers.items(), b""), pool, host)
            try:
                if response.status in _REDIRECT_STATUSES:
                    return response.header("location") or url
                if response.status != 200:
                    raise RegistryError(f"The bundle was not downloaded: {host} answered HTTP {response.status}.")
                await _save_body(response, sha256, path)
            finally:
                response.close()
        finally:
            await pool.close()
    except (RegistryError, UnsafeUrl):
        raise
    except McpHostError as error:
        reason = error.message.rstrip(".")
        raise RegistryError(
            f"The bundle was not downloaded from {host}: {reason}.", error.hint or "Try again."
        ) from error
    return ""


async def _save_body(response: HttpResponse, sha256: str, path: Path) -> None:
    digest = hashlib.sha256()
    size = 0
    with _create_file(path, 0o600) as file:
        while (chunk := await response.read_chunk()) is not None:
            size += len(chunk)
            if size > MAX_BUNDLE_BYTES:
                raise RegistryError(f"The bundle has more than {MAX_BUNDLE_BYTES // 1024**2} MB.")
            digest.update(chunk)
            await anyio.to_thread.run_sync(file.write, chunk)
    if digest.hexdigest() != sha256:
        raise RegistryError(
            f"The bundle is not the file that was published: its SHA-256 is {digest.hexdigest()}, not {sha256}.",
            "Nothing was opened. Report it to its publisher.",
        )


def _create_file(path: Path, mode: int) -> BinaryIO:
    """Create a new file. Raises OSError if *path* exists, even as a symbolic link."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode), "wb")


def extract(bundle: Path, target: Path) -> BundleManifest:
    """Extract a bundle to *target*, replacing the content of *target*, and return the bundle's manifest.

    Only regular files and folders with ordinary names are accepted, within limits on their number, size and
    compression ratio. If RegistryError or OSError is raised, *target* is unchanged.
    """
    _check_directory_size(bundle)
    fresh = target.with_name(f".{secrets.token_hex(8)}.new")
    try:
        with zipfile.ZipFile(bundle) as archive:
            files = _check_members(archive, bundle.stat().st_size)
            fresh.mkdir(mode=0o700)
            left = MAX_EXTRACTED_BYTES
            for info, path in files:
                left -= _extract_file(archive, info, fresh / path, left)
        manifest = _read_manifest(fresh)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    except (
        zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError
    ) as error:  # fmt: skip
        raise RegistryError(f"The bundle is not a valid ZIP file: {str(error)[:200]}.") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return manifest


def _check_directory_size(bundle: Path) -> None:
    """Check the size of the ZIP file's central directory, which `zipfile` reads into memory.

    Raises RegistryError if it is too large.
    """
    with bundle.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MAX_COMMENT - _END_RECORD_SIZE - _ZIP64_LOCATOR_SIZE))
        tail = file.read()
    at = tail.rfind(_END_RECORD)
    if at < 0 or len(tail) - at < _END_RECORD_SIZE:
        raise RegistryError("The bundle is not a ZIP file.")
    if tail[:at][-_ZIP64_LOCATOR_SIZE:].startswith(_ZIP64_LOCATOR):
        # `zipfile` would take the sizes from a ZIP64 record, which no bundle of this size needs.
        raise RegistryError("The bundle is a ZIP64 file.")
    entries, directory_size = struct.unpack_from("<HL", tail, at + 10)
    if directory_size > _MAX_DIRECTORY_BYTES or entries == 0xFFFF:
        raise RegistryError("The bundle has too many files.")


def _check_members(archive: zipfile.ZipFile, size: int) -> list[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Return the files in a bundle with their paths; *size* is the size of the ZIP file.

    Raises RegistryError if the number, total size, type or name of the files is not acceptable.
    """
    members = archive.infolist()
    if len(members) > MAX_FILES:
        raise RegistryError(f"The bundle has more than {MAX_FILES:,} files.")
    total = sum(info.file_size for info in members)
    if total > MAX_EXTRACTED_BYTES or total > _RATIO_ALLOWANCE + MAX_RATIO * size:
        raise RegistryError(f"The bundle would unpack to {total // 1024**2:,} MB, which is too much for its size.")
    seen: set[str] = set()
    folders: set[PurePosixPath] = set()
    files: list[tuple[zipfile.ZipInfo, PurePosixPath]] = []
    for info in members:
        path = _check_path(info.orig_filename)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise RegistryError(f"The bundle has a link or a special file: {quote_text(info.orig_filename)}.")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RegistryError(f"The bundle has an encrypted or unusual file: {quote_text(info.orig_filename)}.")
        if info.is_dir():
            continue
        # A file system may treat two names as the same file, so that the second one could replace a checked file.
        if str(path).casefold() in seen:
            raise RegistryError(f"The bundle contains a file twice: {quote_text(info.orig_filename)}.")
        seen.add(str(path).casefold())
        folders.update(path.parents)
        if len(folders) > MAX_FILES:
            raise RegistryError(f"The bundle has more than {MAX_FILES:,} folders.")
        files.append((info, path))
    return files


def _check_path(name: str) -> PurePosixPath:
    """Return the path of a file in the ZIP, relative to the bundle. Raises RegistryError if *name* is unsafe."""
    parts = name.removesuffix("/").split("/")
    is_plain = (
        name
        and len(name) <= _MAX_PATH_LENGTH
        and len(parts) <= _MAX_PATH_PARTS
        and name.isprintable()
        and "\\" not in name
        and not _DRIVE.match(name)
        and all(part not in ("", ".", "..") and len(part.encode()) <= 255 for part in parts)
    )
    if not is_plain:
        raise RegistryError(f"The bundle has a file with an unsafe name: {quote_text(name)}.")
    return PurePosixPath(*parts)


def _extract_file(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, limit: int) -> int:
    """Extract one file to *path* and return its size in bytes.

    Raises RegistryError if the file is larger than the archive declares, or larger than *limit* bytes.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = 0o700 if info.external_attr >> 16 & stat.S_IXUSR else 0o600
    size = 0
    with _create_file(path, mode) as file, archive.open(info) as source:
        while chunk := source.read(_COPY_SIZE):
            size += len(chunk)
            if size > min(limit, info.file_size):
                raise RegistryError(
                    f"The bundle has a file that is larger than declared: {quote_text(info.orig_filename)}."
                )
            file.write(chunk)
    return size


def _read_manifest(folder: Path) -> BundleManifest:
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise RegistryError(f"The bundle has no {MANIFEST_FILE}.")
    with path.open("rb") as file:
        raw = file.read(MAX_MANIFEST_BYTES + 1)
    return decode_manifest(raw)
