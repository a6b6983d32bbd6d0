"""Tests for skills, and for tools that violate their own schemas: text output, JSON output and exit codes."""

import json
import sys
from hashlib import sha256
from typing import Any

from tests.flows.program import Program

FRONT = "---\nname: pdf\ndescription: Fill forms\n---\n"
FILES = {"skill://pdf/SKILL.md": f"{FRONT}Use it well.\n", "skill://pdf/references/a.md": "More.\n"}
SERVER = """
import json, sys
files, listed, tool = json.loads(sys.argv[1])
caps = {"tools": {}, "resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}
answers = {
    "initialize": lambda p: {"protocolVersion": "2025-11-25", "capabilities": caps, "serverInfo": {"name": "s"}},
    "tools/list": lambda p: {"tools": [tool]},
    "tools/call": lambda p: {"content": [{"type": "text", "text": "7"}], "structuredContent": {"n": "seven"}},
    "skills/list": lambda p: {"skills": listed},
    "resources/list": lambda p: {"resources": []},
    "resources/read": lambda p: {"contents": [{"uri": p["uri"], "text": files[p["uri"]]}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        do = answers.get(asked["method"])
        said = {"result": do(asked.get("params", {}))} if do else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}}


def skill_server_entry(files: dict[str, str] = FILES) -> dict[str, Any]:
    listed = [
        {"uri": uri, "digest": f"sha256:{sha256(text.encode()).hexdigest()}", "size": len(text)}
        for uri, text in FILES.items()
    ]
    frontend = {"name": "pdf", "description": "Fill forms"}
    skill = {"uri": "skill://pdf/SKILL.md", "frontmatter": frontend, "resources": listed}
    tool = {"name": "n", "inputSchema": {"type": "object"}, "outputSchema": OUTPUT}
    return {"command": sys.executable, "args": ["-c", SERVER, json.dumps([files, [skill], tool])]}


def test_skills_are_listed_and_shown(program: Program) -> None:
    file = program.servers(s=skill_server_entry())
    assert program.text("skills", "--mcp-config", file).split() == ["s", "pdf", "Fill", "forms"]
    listed = json.loads(program.text("skills", "s", "--json", "--mcp-config", file))
    (one,) = listed["skills"]
    assert (one["server"], one["name"], one["uri"]) == ("s", "pdf", "skill://pdf/SKILL.md")
    assert program.text("skill", "s", "pdf", "--mcp-config", file) == FILES["skill://pdf/SKILL.md"]
    shown = json.loads(program.text("skill", "s", "pdf", "references/a.md", "--json", "--mcp-config", file))
    assert (shown["text"], shown["uri"]) == ("More.\n", "skill://pdf/references/a.md")


def test_a_tampered_skill_is_an_error_of_its_server(program: Program) -> None:
    file = program.servers(s=skill_server_entry({**FILES, "skill://pdf/SKILL.md": f"{FRONT}Use it evil.\n"}))
    error_text = program.error("skill", "s", "pdf", "--mcp-config", file, code=4)
    assert "was refused" in error_text
    assert "SHA-256" in error_text


def test_a_broken_promise_is_shown_with_the_result_and_exits_4(program: Program) -> None:
    file = program.servers(s=skill_server_entry())
    done = program.run("call", "s", "n", "--mcp-config", file)
    assert done.returncode == 4
    assert '/n: "seven" is not of type "integer"' in done.stderr.decode()
    assert done.stdout.decode().splitlines()[0] == "7"
    document = json.loads(program.text("call", "s", "n", "--json", "--mcp-config", file, code=4))
    assert document["check"]["outcome"] == "misfit"
    assert document["structuredContent"] == {"n": "seven"}


def test_the_pipe_lists_and_shows_skills(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(s=skill_server_entry())) as end:
        assert end.ask("list", server="s", kind="skills")["result"]["skills"][0]["name"] == "pdf"
        assert end.ask("skill", server="s", skill="pdf")["result"]["text"] == FILES["skill://pdf/SKILL.md"]
        assert end.ask("skill", server="s", skill="pdf", file="none.md")["exit"] == 2
