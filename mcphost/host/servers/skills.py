"""Skills of servers: found, loaded and read file by file, each file checked against what its server listed.

Nothing is read before it is asked for. A skill of which one file is not what was listed is refused, and nothing more of
it is read until its server lists it differently (extension io.modelcontextprotocol/skills, integrity and verification).
"""

import base64
import binascii

from mcphost.data import Data, decode
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.servers.servers import Servers
from mcphost.protocol import skills
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.skills import GetSkill, Skill, SkillFile

CACHE_SIZE = 8 * 1024 * 1024
_Key = tuple[str, str]


class SkillContent(Data, frozen=True):
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
        self._held: dict[_Key, Skill] = {}
        self._refused: dict[_Key, tuple[Skill, str]] = {}
        self._cache: dict[tuple[str, str, str], bytes] = {}

    def listed(self) -> list[tuple[str, Skill]]:
        """The skills of every ready server, with the server's name."""
        return [
            (connection.config.name, skill)
            for connection in self._servers
            if connection.is_ready
            for skill in connection.offers.catalog.skills
        ]

    def digest(self, server: str) -> str:
        """The digest of what runs or is reached under a server's name: part of what an approval is bound to."""
        return self._servers.find(server).digest

    def account(self, server: str) -> str:
        """The account that is read with; see Connection."""
        return self._servers.find(server).account

    async def offered(self, server: str) -> tuple[Skill, ...]:
        """What one server lists; it may have more."""
        connection = self._servers.start(server)
        await connection.session()
        return connection.offers.catalog.skills

    async def find(self, server: str, which: str) -> Skill:
        """One skill by its address, listed or not, or by its name when that is clear."""
        listed = await self.offered(server)
        found = [skill for skill in listed if which in (skill.uri, skill.name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"The server {server!r} has {len(found)} skills named {which!r}.",
                f"Take one address: {', '.join(skill.uri[:200] for skill in found[:10])}.",
            )
        session = await self._servers.start(server).session()
        if not which.endswith("/SKILL.md") or not skills.declared(session.facts.capabilities):
            names = ", ".join(skill.name for skill in listed[:20]) or "none"
            raise UsageError(f"The server {server!r} has no skill {which[:200]!r}.", f"Its skills: {names}.")
        skill = decode((await session.request(GetSkill(which))).skill, Skill, "skill")
        fault = "it is another one" if skill.uri != which else skills.fault(skill)
        if fault:
            raise MalformedMessage(f"The skill {which[:200]!r} of {server!r} cannot be used: {fault}.", server=server)
        return skill

    def held(self, server: str, which: str) -> Skill | None:
        """The entry under which a skill was loaded in this conversation; by address, or by a name that is clear."""
        found = [
            skill for (name, _), skill in self._held.items() if name == server and which in (skill.uri, skill.name)
        ]
        return found[0] if len(found) == 1 else None

    async def load(self, server: str, skill: Skill) -> SkillContent:
        """Its SKILL.md, checked; from now on its files are read under this entry."""
        content = await self._file(server, skill, skill.uri)
        self._held[server, skill.uri] = skill
        return content

    async def read(self, server: str, skill: Skill, path: str) -> SkillContent:
        """One file of a loaded skill, by its path below SKILL.md's directory or its address, checked."""
        if self._held.get((server, skill.uri)) != skill:
            raise UsageError(f"The skill {skill.name!r} of {server!r} is not loaded.", "Load it first.")
        uri = path if path.startswith(f"{skill.root}/") else f"{skill.root}/{path.removeprefix('./')}"
        return await self._file(server, skill, uri)

    def forget(self) -> None:
        """No skill is loaded any more: their words left the conversation."""
        self._held.clear()

    async def _file(self, server: str, skill: Skill, uri: str) -> SkillContent:
        key = server, skill.uri
        refused = self._refused.get(key)
        if refused is not None and refused[0] == skill:
            raise self._fault(server, skill, refused[1])
        file = next((file for file in skills.files(skill) if file.uri == uri), None)
        if file is None:
            raise UsageError(
                f"The skill {skill.name!r} of {server!r} has no file {uri[:200]!r}.", "Its SKILL.md says which it has."
            )
        kept = self._cache.get((server, uri, file.digest))
        if kept is not None and not skills.mismatch(skill, file, kept):
            return SkillContent(server, skill, uri, kept)
        raw, why = await self._read(server, file)
        why = why or skills.mismatch(skill, file, raw)
        if why:
            why = f"{uri[:200]!r} is not what the server listed: {why}"
            self._held.pop(key, None)
            self._refused[key] = (skill, why)
            raise self._fault(server, skill, why)
        self._keep((server, uri, file.digest), raw)
        return SkillContent(server, skill, uri, raw)

    async def _read(self, server: str, file: SkillFile) -> tuple[bytes, str]:
        """The bytes of a file, or why there are none."""
        session = await self._servers.start(server).session()
        contents = (await session.request(ReadResource(file.uri))).contents
        if len(contents) != 1 or contents[0].uri != file.uri:
            return b"", "the answer is not that one file"
        text, blob = contents[0].text, contents[0].blob
        if text is not None:
            return text.encode("utf-8", "surrogatepass"), ""
        try:
            return base64.b64decode(blob or "", validate=True), ""
        except (binascii.Error, ValueError):
            return b"", "it is not valid base64"

    def _keep(self, key: tuple[str, str, str], raw: bytes) -> None:
        if sum(map(len, self._cache.values())) + len(raw) > CACHE_SIZE:
            self._cache.clear()
        if len(raw) <= CACHE_SIZE:
            self._cache[key] = raw

    @staticmethod
    def _fault(server: str, skill: Skill, why: str) -> MalformedMessage:
        return MalformedMessage(
            f"The skill {skill.name!r} of {server!r} was refused: {why}.",
            "Restart the server to list its skills anew; tell its author when it stays so.",
            server=server,
        )
