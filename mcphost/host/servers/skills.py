"""Skills offered by servers: list, load and read; each file is verified against the digest in the listing.

Files are read only on request. If a file differs from the listing, its skill is refused: no file of the skill
is read until the server lists the skill with different content (extension io.modelcontextprotocol/skills,
integrity and verification).
"""

import base64
import binascii
from collections.abc import Sequence
from typing import NamedTuple

from mcphost.client.session import BeforeSendFn
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.servers.servers import Servers
from mcphost.protocol import skills
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.skills import GetSkill, Skill, SkillFile
from mcphost.serialization import Struct, decode

CACHE_SIZE = 8 * 1024 * 1024
_Key = tuple[str, str]


class SkillContent(Struct, frozen=True):
    """A file of a skill, verified against the server's listing."""

    server: str
    skill: Skill
    uri: str
    raw: bytes

    @property
    def text(self) -> str:
        """The file decoded as UTF-8; if that fails, a placeholder that states the file's size."""
        try:
            return self.raw.decode()
        except UnicodeDecodeError:
            return f"[{self.uri}: {len(self.raw):,} bytes, not text]"


class _ModelApproval(NamedTuple):
    """The user's permission for the model to load a skill.

    It applies only while `contents` (the digest of the skill's files), the account and `server_digest` (the digest of
    the server's settings) stay the same. `grant_id` is the id of the grant that allowed loading the skill, "" for none.
    """

    contents: str
    account: str
    server_digest: str
    grant_id: str


class Skills:
    """Skills of all servers, available as `host.features.skills`.

    Methods take the server's configured name, and the URI or name of the skill. If they need a running server, they
    start it, and raise ServerError, ConsentDenied or UsageError. They raise MalformedMessage if a file of a skill
    differs from the server's listing.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._loaded: dict[_Key, Skill] = {}
        self._model_approvals: dict[_Key, _ModelApproval] = {}
        """Approvals of the skills that the user allowed the model to load, keyed by server and URI."""
        self._refused: dict[_Key, tuple[Skill, str]] = {}
        self._cache: dict[tuple[str, str, str], bytes] = {}

    def ready_skills(self) -> list[tuple[str, Skill]]:
        """Return the skills of all ready servers, each with its server's name."""
        return [
            (connection.config.name, skill)
            for connection in self._servers
            if connection.is_ready
            for skill in connection.listing.catalog.skills
        ]

    def find_listed(self, server: str, which: str) -> Skill:
        """Return the skill with this URI or unique name from a ready server's listing; send no request.

        Raises UsageError if the server is not ready, or if no skill or more than one matches. The error names only
        listed skills and their servers.
        """
        ready = self.ready_skills()
        here = [skill for name, skill in ready if name == server]
        if not here:
            names = ", ".join(dict.fromkeys(repr(name) for name, _ in ready)) or "none"
            raise UsageError(f"No ready server named {server[:200]!r} has skills.", f"Servers with skills: {names}.")
        return _find_unique(server, which, here)

    def is_current(self, server: str, skill: Skill, account: str) -> bool:
        """Return whether the server is ready, uses this account and still lists the skill with the same files."""
        connection = self._servers.find(server)
        digest = skills.contents_digest(skill)
        return (
            connection.is_ready
            and connection.account == account
            and any(
                listed.uri == skill.uri and skills.contents_digest(listed) == digest
                for listed in connection.listing.catalog.skills
            )
        )

    def digest(self, server: str) -> str:
        """Return the digest of the server's settings that determine what is started or contacted.

        Approvals are bound to this digest.
        """
        return self._servers.find(server).digest

    def account(self, server: str) -> str:
        """Return the name of the account that is used to read this server's skills."""
        return self._servers.find(server).account

    async def list_skills(self, server: str) -> tuple[Skill, ...]:
        """Return the skills that a server lists; the server may have others that it does not list."""
        connection = self._servers.start(server)
        await connection.session()
        return connection.listing.catalog.skills

    async def find(self, server: str, which: str) -> Skill:
        """Find a skill by its URI or unique name on behalf of the user; for the model, use `find_listed`.

        A URI that is not listed is requested from the server.
        """
        listed = await self.list_skills(server)
        session = await self._servers.start(server).session()
        is_address = which.endswith("/SKILL.md") and skills.has_skills(session.facts.capabilities)
        if not is_address or any(which in (skill.uri, skill.name) for skill in listed):
            return _find_unique(server, which, listed)
        skill = decode((await session.request(GetSkill(which))).skill, Skill, "skill")
        fault = "its address differs" if skill.uri != which else skills.find_skill_problem(skill)
        if fault:
            raise MalformedMessage(f"The skill {which[:200]!r} of {server!r} cannot be used: {fault}.", server=server)
        return skill

    def find_loaded(self, server: str, skill: Skill) -> tuple[Skill, str] | None:
        """Return the skill and the id of its grant if the model has loaded it with exactly these files, else None.

        The result is also None if the server's settings or the account have changed since then. The grant is the one
        that allowed loading the skill; the id is "" if the skill was allowed without a grant.
        """
        key = server, skill.uri
        loaded, approval = self._loaded.get(key), self._model_approvals.get(key)
        digest = skills.contents_digest(skill)
        if loaded is None or approval is None or approval[:3] != self._bind(server, digest):
            return None
        return (loaded, approval.grant_id) if skills.contents_digest(loaded) == digest else None

    def _bind(self, server: str, contents: str) -> tuple[str, str, str]:
        return contents, self.account(server), self.digest(server)

    async def load(
        self, server: str, skill: Skill, *, grant_id: str | None = None, before_send: BeforeSendFn | None = None
    ) -> SkillContent:
        """Return the verified SKILL.md and mark the skill as loaded, so that its other files can be read.

        *grant_id* is None if the user loads the skill. If the model loads it, *grant_id* is the id of the grant that
        allows this, or "" if the user allowed it when asked; `find_loaded` then returns the skill. *before_send* is
        called before the request and may raise an error to prevent it; see Session.request.
        """
        bound = self._bind(server, skills.contents_digest(skill))
        content = await self._get_file(server, skill, skill.uri, before_send)
        self._loaded[server, skill.uri] = skill
        if grant_id is not None:
            self._model_approvals[server, skill.uri] = _ModelApproval(*bound, grant_id)
        return content

    async def read(
        self, server: str, skill: Skill, path: str, *, before_send: BeforeSendFn | None = None
    ) -> SkillContent:
        """Return one verified file of a loaded skill; *path* is the file's URI or a path relative to SKILL.md.

        See `load` for *before_send*.
        """
        if self._loaded.get((server, skill.uri)) != skill:
            raise UsageError(f"The skill {skill.name!r} of {server!r} is not loaded.", "Load it first.")
        uri = path if path.startswith(f"{skill.root}/") else f"{skill.root}/{path.removeprefix('./')}"
        return await self._get_file(server, skill, uri, before_send)

    def unload_all(self) -> None:
        """Mark all skills as not loaded, because messages that may have contained their text were removed.

        The model must load a skill again before it can read the skill's other files.
        """
        self._loaded.clear()
        self._model_approvals.clear()

    async def _get_file(self, server: str, skill: Skill, uri: str, before_send: BeforeSendFn | None) -> SkillContent:
        key = server, skill.uri
        refused = self._refused.get(key)
        if refused is not None and refused[0] == skill:
            raise self._make_error(server, skill, refused[1])
        file = next((file for file in skills.parse_skill_files(skill) if file.uri == uri), None)
        if file is None:
            raise UsageError(
                f"The skill {skill.name!r} of {server!r} has no file {uri[:200]!r}.",
                "See the files named in its SKILL.md.",
            )
        cached = self._cache.get((server, uri, file.digest))
        if cached is not None and not skills.find_file_mismatch(skill, file, cached):
            return SkillContent(server, skill, uri, cached)
        raw, why = await self._read_bytes(server, file, before_send)
        why = why or skills.find_file_mismatch(skill, file, raw)
        if why:
            why = f"{uri[:200]!r} is not what the server listed: {why}"
            self._loaded.pop(key, None)
            self._refused[key] = (skill, why)
            raise self._make_error(server, skill, why)
        self._cache_file((server, uri, file.digest), raw)
        return SkillContent(server, skill, uri, raw)

    async def _read_bytes(self, server: str, file: SkillFile, before_send: BeforeSendFn | None) -> tuple[bytes, str]:
        """Return a file's bytes and "", or empty bytes and the reason why it cannot be read."""
        session = await self._servers.start(server).session()
        contents = (await session.request(ReadResource(file.uri), before_send=before_send)).contents
        if len(contents) != 1 or contents[0].uri != file.uri:
            return b"", "the response is not this one file"
        text, blob = contents[0].text, contents[0].blob
        if text is not None:
            return text.encode("utf-8", "surrogatepass"), ""
        try:
            return base64.b64decode(blob or "", validate=True), ""
        except (binascii.Error, ValueError):
            return b"", "it is not valid base64"

    def _cache_file(self, key: tuple[str, str, str], raw: bytes) -> None:
        if sum(map(len, self._cache.values())) + len(raw) > CACHE_SIZE:
            self._cache.clear()
        if len(raw) <= CACHE_SIZE:
            self._cache[key] = raw

    @staticmethod
    def _make_error(server: str, skill: Skill, why: str) -> MalformedMessage:
        return MalformedMessage(
            f"The skill {skill.name!r} of {server!r} was refused: {why}.",
            "Restart the server to list its skills again; report it to the author if it persists.",
            server=server,
        )


def _find_unique(server: str, which: str, listed: Sequence[Skill]) -> Skill:
    """Return the skill with this URI or unique name. Raises UsageError if there is none or more than one."""
    matches = [skill for skill in listed if which in (skill.uri, skill.name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"The server {server!r} has {len(matches)} skills named {which!r}.",
            f"Use the address of one of them: {', '.join(skill.uri[:200] for skill in matches[:10])}.",
        )
    names = ", ".join(skill.name for skill in listed[:20])
    raise UsageError(
        f"The server {server!r} has no skill {which[:200]!r}.",
        f"Its skills: {names}." if names else "It has no skills.",
    )
