"""Skills of servers: found, loaded and read file by file, each file checked against what its server listed.

Nothing is read before it is asked for. A skill of which one file is not what was listed is refused, and nothing more of
it is read until its server lists it differently (extension io.modelcontextprotocol/skills, integrity and verification).
"""

import base64
import binascii
from collections.abc import Sequence

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
    """A checked file of a skill; `text` is empty for what is not UTF-8."""

    server: str
    skill: Skill
    uri: str
    raw: bytes

    @property
    def text(self) -> str:
        """The file as text; a sentence in its place when it is none."""
        try:
            return self.raw.decode()
        except UnicodeDecodeError:
            return f"[{self.uri}: {len(self.raw):,} bytes that are no text]"


class Skills:
    """Reached as `host.features.skills`. A skill is named by its server's configured name and its address, or its name.

    Every method that waits for a server starts it when it is not started, and raises ServerError, Declined or
    UsageError; MalformedMessage names a skill that is not what was listed.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._loaded: dict[_Key, Skill] = {}
        self._model_approvals: dict[_Key, tuple[str, str]] = {}
        """Which files the user let the model load, by their digest, and with which account."""
        self._refused: dict[_Key, tuple[Skill, str]] = {}
        self._cache: dict[tuple[str, str, str], bytes] = {}

    def ready_skills(self) -> list[tuple[str, Skill]]:
        """The skills of every ready server, with the server's name."""
        return [
            (connection.config.name, skill)
            for connection in self._servers
            if connection.is_ready
            for skill in connection.listing.catalog.skills
        ]

    def find_listed(self, server: str, which: str) -> Skill:
        """A skill that a ready server lists, by its address or by a name that is clear; nothing is started or sent.

        Raises UsageError, which names nothing but skills that are listed, and their servers.
        """
        every = self.ready_skills()
        here = [skill for name, skill in every if name == server]
        if not here:
            names = ", ".join(dict.fromkeys(repr(name) for name, _ in every)) or "none"
            raise UsageError(f"No server named {server[:200]!r} offers skills now.", f"Servers that do: {names}.")
        return _find_unique(server, which, here)

    def is_current(self, server: str, skill: Skill, account: str) -> bool:
        """Whether a ready server still lists this skill with exactly these files, and is used with that account."""
        now = self._servers.find(server)
        digest = skills.contents_digest(skill)
        return (
            now.is_ready
            and now.account == account
            and any(
                one.uri == skill.uri and skills.contents_digest(one) == digest for one in now.listing.catalog.skills
            )
        )

    def digest(self, server: str) -> str:
        """The digest of what runs or is reached under a server's name: part of what an approval is bound to."""
        return self._servers.find(server).digest

    def account(self, server: str) -> str:
        """The account that is read with; see Connection."""
        return self._servers.find(server).account

    async def list_skills(self, server: str) -> tuple[Skill, ...]:
        """What one server lists; it may have more."""
        connection = self._servers.start(server)
        await connection.session()
        return connection.listing.catalog.skills

    async def find(self, server: str, which: str) -> Skill:
        """One skill by its address, listed or not, or by its name when that is clear: for the user's own request.

        An address that is not listed is sent to the server; see `listed_as` for the model.
        """
        listed = await self.list_skills(server)
        session = await self._servers.start(server).session()
        is_address = which.endswith("/SKILL.md") and skills.has_skills(session.facts.capabilities)
        if not is_address or any(which in (skill.uri, skill.name) for skill in listed):
            return _find_unique(server, which, listed)
        skill = decode((await session.request(GetSkill(which))).skill, Skill, "skill")
        fault = "it is another one" if skill.uri != which else skills.find_skill_problem(skill)
        if fault:
            raise MalformedMessage(f"The skill {which[:200]!r} of {server!r} cannot be used: {fault}.", server=server)
        return skill

    def find_loaded(self, server: str, skill: Skill) -> Skill | None:
        """The entry under which the model loaded these very files in this conversation, with the account of now."""
        key = server, skill.uri
        held = self._loaded.get(key)
        digest = skills.contents_digest(skill)
        if held is None or self._model_approvals.get(key) != (digest, self.account(server)):
            return None
        return held if skills.contents_digest(held) == digest else None

    async def load(
        self, server: str, skill: Skill, *, for_model: bool = False, before_send: BeforeSendFn | None = None
    ) -> SkillContent:
        """Its SKILL.md, checked; from now on its files are read under this entry.

        `for_model`: the user let the model load it. `again`: see Session.request; may refuse the sending.
        """
        account = self.account(server)
        content = await self._get_file(server, skill, skill.uri, before_send)
        self._loaded[server, skill.uri] = skill
        if for_model:
            self._model_approvals[server, skill.uri] = skills.contents_digest(skill), account
        return content

    async def read(
        self, server: str, skill: Skill, path: str, *, before_send: BeforeSendFn | None = None
    ) -> SkillContent:
        """One file of a loaded skill, by its path below SKILL.md's directory or its address, checked."""
        if self._loaded.get((server, skill.uri)) != skill:
            raise UsageError(f"The skill {skill.name!r} of {server!r} is not loaded.", "Load it first.")
        uri = path if path.startswith(f"{skill.root}/") else f"{skill.root}/{path.removeprefix('./')}"
        return await self._get_file(server, skill, uri, before_send)

    def unload_all(self) -> None:
        """No skill is loaded any more: their words left the conversation."""
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
                f"The skill {skill.name!r} of {server!r} has no file {uri[:200]!r}.", "Its SKILL.md says which it has."
            )
        kept = self._cache.get((server, uri, file.digest))
        if kept is not None and not skills.find_file_mismatch(skill, file, kept):
            return SkillContent(server, skill, uri, kept)
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
        """The bytes of a file, or why there are none."""
        session = await self._servers.start(server).session()
        contents = (await session.request(ReadResource(file.uri), before_send=before_send)).contents
        if len(contents) != 1 or contents[0].uri != file.uri:
            return b"", "the answer is not that one file"
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
            "Restart the server to list its skills anew; tell its author when it stays so.",
            server=server,
        )


def _find_unique(server: str, which: str, listed: Sequence[Skill]) -> Skill:
    """The one that is meant. Raises UsageError for none, and for several of one name."""
    found = [skill for skill in listed if which in (skill.uri, skill.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"The server {server!r} has {len(found)} skills named {which!r}.",
            f"Take one address: {', '.join(skill.uri[:200] for skill in found[:10])}.",
        )
    names = ", ".join(skill.name for skill in listed[:20]) or "none"
    raise UsageError(f"The server {server!r} has no skill {which[:200]!r}.", f"Its skills: {names}.")
