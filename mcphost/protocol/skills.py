"""skills/list and skills/get: Agent Skills that a server offers (SEP-2640, io.modelcontextprotocol/skills)."""

from typing import Any, ClassVar

from mcphost.data import Raw, Wire
from mcphost.protocol.wire import Cacheable, Call, Page

EXTENSION = "io.modelcontextprotocol/skills"
FILE_LIMIT = 512
SIZE_LIMIT = 16 * 1024 * 1024
DYNAMIC = b'"dynamic"'


class SkillFile(Wire, frozen=True):
    """One file of a skill: its address, the SHA-256 of its bytes as `sha256:HEX`, and how many they are."""

    uri: str
    digest: str
    size: int


class Skill(Wire, frozen=True):
    """A skill as listed: the address of its SKILL.md, that file's front matter as JSON, and its files.

    `resources` stays raw: a list of SkillFile, or the word "dynamic" for content without digests.
    """

    uri: str
    frontmatter: dict[str, Any]
    resources: Raw = Raw()

    @property
    def name(self) -> str:
        """Its name by the front matter; a label, not unique."""
        return str(self.frontmatter.get("name", ""))

    @property
    def description(self) -> str:
        """What it is for, in its server's words."""
        return str(self.frontmatter.get("description", ""))

    @property
    def root(self) -> str:
        """The address of its directory, without the slash."""
        return self.uri.removesuffix("/SKILL.md")


class SkillPage(Page, frozen=True):
    """One page of skills, each still raw."""

    skills: tuple[Raw, ...] = ()


class ListSkills(Call[SkillPage], frozen=True):
    """skills/list; only for a server that declared the extension."""

    METHOD: ClassVar[str] = "skills/list"
    RESULT: ClassVar[type[Any]] = SkillPage
    cursor: str | None = None


class SkillResult(Cacheable, frozen=True):
    """One skill by its address."""

    skill: Raw = Raw()


class GetSkill(Call[SkillResult], frozen=True):
    """skills/get; also answers for skills that no list mentions."""

    METHOD: ClassVar[str] = "skills/get"
    RESULT: ClassVar[type[Any]] = SkillResult
    uri: str
