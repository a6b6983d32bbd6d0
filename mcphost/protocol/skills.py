"""Messages for Agent Skills, and validation of skills (SEP-2640, io.modelcontextprotocol/skills)."""

import re
from hashlib import sha256
from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import CacheableResult, ClientRequest, PaginatedResult, is_set
from mcphost.protocol.lifecycle import ServerCapabilities
from mcphost.serialization import Raw, WireStruct, decode, decode_or_none, encode

EXTENSION = "io.modelcontextprotocol/skills"
MAX_FILES = 512
MAX_TOTAL_SIZE = 16 * 1024 * 1024
NAME_LIMIT = 64
DYNAMIC = b'"dynamic"'
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ESCAPED_DOT = re.compile(r"%2e", re.IGNORECASE)


class SkillFile(WireStruct, frozen=True):
    """One file of a skill: its URI, the SHA-256 of its bytes as `sha256:HEX`, and its size in bytes."""

    uri: str
    digest: str
    size: int


class Skill(WireStruct, frozen=True):
    """A skill in the result of skills/list: the URI of the SKILL.md, its front matter as JSON, and the files.

    `resources` is raw JSON: a list of SkillFile, or the string "dynamic" if the content has no digests.
    """

    uri: str
    frontmatter: dict[str, Any]
    resources: Raw = Raw()

    @property
    def name(self) -> str:
        """The name from the front matter, which is not necessarily unique."""
        return str(self.frontmatter.get("name", ""))

    @property
    def description(self) -> str:
        """The description from the front matter."""
        return str(self.frontmatter.get("description", ""))

    @property
    def root(self) -> str:
        """The URI of the skill's directory, without a trailing slash."""
        return self.uri.removesuffix("/SKILL.md")


class ListSkillsResult(PaginatedResult, frozen=True):
    """One page of skills, each as raw JSON."""

    skills: tuple[Raw, ...] = ()


class ListSkills(ClientRequest[ListSkillsResult], frozen=True):
    """The skills/list request; sent only to servers that declare the skills extension."""

    METHOD: ClassVar[str] = "skills/list"
    RESULT: ClassVar[type[Any]] = ListSkillsResult
    cursor: str | None = None


class GetSkillResult(CacheableResult, frozen=True):
    """Result of skills/get: one skill, as in skills/list."""

    skill: Raw = Raw()


class GetSkill(ClientRequest[GetSkillResult], frozen=True):
    """The skills/get request, which returns one skill, even if skills/list does not include it."""

    METHOD: ClassVar[str] = "skills/get"
    RESULT: ClassVar[type[Any]] = GetSkillResult
    uri: str


class _Extensions(WireStruct, frozen=True, rename={"skills": EXTENSION}):
    skills: Raw = Raw()


def has_skills(capabilities: ServerCapabilities) -> bool:
    """Return whether *capabilities*, declared by a server, include the skills extension."""
    if EXTENSION.encode() not in bytes(capabilities.extensions):
        return False
    extensions = decode_or_none(capabilities.extensions, _Extensions)
    return extensions is not None and bytes(extensions.skills).lstrip().startswith(b"{")


def parse_skill_files(skill: Skill) -> tuple[SkillFile, ...]:
    """Return the files of a skill, or () if its content is dynamic.

    Raises MalformedMessage if `resources` is neither "dynamic" nor a list of files.
    """
    if bytes(skill.resources) == DYNAMIC:
        return ()
    if not is_set(skill.resources):
        raise MalformedMessage("it does not list its files")
    return decode(skill.resources, tuple[SkillFile, ...], "list of its files")


def find_skill_problem(skill: Skill) -> str:
    """Explain why a skill cannot be loaded, for example "it has no description"; return "" if it can be."""
    name, description = skill.frontmatter.get("name"), skill.frontmatter.get("description")
    if not isinstance(name, str) or len(name) > NAME_LIMIT or not _NAME.fullmatch(name):
        return "its name is not one of lower-case letters, digits and single hyphens"
    if not isinstance(description, str) or not description.strip():
        return "it has no description"
    if not skill.uri.endswith(f"/{name}/SKILL.md"):
        return "its address does not end with its name and SKILL.md"
    if bytes(skill.resources) == DYNAMIC:
        return "its content is dynamic, so it cannot be checked"
    try:
        listed = parse_skill_files(skill)
    except MalformedMessage as error:
        return error.message[:300]
    return _find_file_problem(skill, listed)


def _find_file_problem(skill: Skill, listed: tuple[SkillFile, ...]) -> str:
    addresses = {file.uri for file in listed}
    if len(listed) > MAX_FILES:
        return f"it has over {MAX_FILES} files"
    if sum(max(file.size, 0) for file in listed) > MAX_TOTAL_SIZE:
        return f"its files are over {MAX_TOTAL_SIZE // 1024**2} MB"
    if len(addresses) < len(listed):
        return "it lists a file twice"
    if skill.uri not in addresses:
        return "its own SKILL.md is not among its files"
    for file in listed:
        inside = file.uri.removeprefix(f"{skill.root}/")
        if inside == file.uri or not inside or {"", ".", ".."} & set(_ESCAPED_DOT.sub(".", inside).split("/")):
            return f"the file {file.uri[:200]!r} is not in its directory"
        if file.size < 0 or not _DIGEST.fullmatch(file.digest):
            return f"the file {file.uri[:200]!r} has no valid digest or size"
    return ""


def contents_digest(skill: Skill) -> str:
    """Return a digest of the URIs and digests of all files in a skill.

    The user's approval of the skill is valid only for this digest.
    """
    pairs = sorted((file.uri, file.digest) for file in parse_skill_files(skill))
    return sha256(encode(pairs)).hexdigest()


def find_file_mismatch(skill: Skill, file: SkillFile, content: bytes) -> str:
    """Explain how *content* differs from the listed *file*, for example "its SHA-256 differs".

    The size and the SHA-256 are compared and, for SKILL.md, also each field of the front matter. Returns "" if
    everything matches.
    """
    if len(content) != file.size:
        return f"it has {len(content):,} bytes and not {file.size:,}"
    if f"sha256:{sha256(content).hexdigest()}" != file.digest:
        return "its SHA-256 differs"
    if file.uri != skill.uri:
        return ""
    from mcphost.protocol.frontmatter import find_difference, parse_frontmatter  # imported with the first skill

    try:
        where = find_difference(parse_frontmatter(content.decode()), skill.frontmatter)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except MalformedMessage as error:
        return f"{error.message[0].lower()}{error.message[1:].rstrip('.')}"
    return f"its front matter differs at {where[:200]!r}" if where else ""
