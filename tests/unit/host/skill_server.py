"""A server that offers skills."""

import base64
from hashlib import sha256
from typing import Any

from mcphost.protocol.jsonrpc import ErrorData
from tests.unit.host.scripted_host import InProcessServer, create_peer

SKILL_ROOT = "skill://acme/pdf"


SKILL_FRONTMATTER = "---\nname: pdf\ndescription: Fill PDF forms\n---\n\n"


SKILL_FILES = {
    f"{SKILL_ROOT}/SKILL.md": f"{SKILL_FRONTMATTER}Read references/FORMS.md first.\n".encode(),
    f"{SKILL_ROOT}/references/FORMS.md": b"Forms have fields.\n",
    f"{SKILL_ROOT}/assets/logo.bin": b"\x00\xff\x80",
}


SKILL_CAPABILITIES = {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}


def skill_entry(files: dict[str, bytes] | None = None, root: str = SKILL_ROOT, **members: Any) -> dict[str, Any]:
    listed = [
        {"uri": uri, "digest": f"sha256:{sha256(raw).hexdigest()}", "size": len(raw)}
        for uri, raw in (files or SKILL_FILES).items()
    ]
    name = root.rpartition("/")[2]
    frontend = {"name": name, "description": "Fill PDF forms"}
    return {"uri": f"{root}/SKILL.md", "frontmatter": frontend, "resources": listed, **members}


def read_file_answer(files: dict[str, bytes]) -> Any:
    def answer(params: dict[str, Any]) -> Any:
        raw = files.get(params["uri"])
        if raw is None:
            return ErrorData(code=-32602, message="no such file")
        try:
            content = {"text": raw.decode()}
        except UnicodeDecodeError:
            content = {"blob": base64.b64encode(raw).decode()}
        return {"contents": [{"uri": params["uri"], **content}], "ttlMs": 0, "cacheScope": "private"}

    return answer


def create_skill_server(
    *entries: Any, files: dict[str, bytes] | None = None, revision: str = "2026-07-28", **answers: Any
) -> InProcessServer:
    listed = {"skills": list(entries or (skill_entry(),)), "ttlMs": 0, "cacheScope": "private"}
    given = {
        "skills__list": listed,
        "resources__read": read_file_answer(SKILL_FILES if files is None else files),
        **answers,
    }
    return create_peer(revision, SKILL_CAPABILITIES, **given)
