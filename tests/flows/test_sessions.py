"""Tests for `mcphost sessions`: searching, exporting, renaming, deleting and salvaging saved conversations."""

import json
import re
import sqlite3
from contextlib import closing

from mcphost.host.conversation.export import ENDINGS
from tests.flows.program import DEMO, Program


def save_conversation(program: Program, prompt: str) -> str:
    """Let the demo model answer *prompt*; return the id of the saved conversation."""
    program.text("run", prompt, "--model", "demo")
    return json.loads(program.text("sessions", "--json"))["sessions"][0]["id"]


def test_a_search_is_limited_to_a_period_by_options(program: Program) -> None:
    kept = save_conversation(program, "Plan the harbour festival")
    assert kept in program.text("sessions", "search", "harbour", "--since", "today")
    assert kept in program.text("sessions", "search", "--since", "7d")
    assert "Nothing was found." in program.run("sessions", "search", "harbour", "--until", "today").stderr.decode()
    assert "Nothing was found." in program.run("sessions", "search", "--since", "2999-01-01").stderr.decode()
    for refused in (("search", "x", "--since", "soon"), ("list", "--since", "today"), ("search",)):
        run = program.run("sessions", *refused)
        assert run.returncode == 2, refused
    assert (
        "--since soon is not a date or an age."
        in program.run("sessions", "search", "x", "--since", "soon").stderr.decode()
    )


def test_a_search_may_begin_with_a_word_that_is_left_out(program: Program) -> None:
    harbour, hello = save_conversation(program, "Plan the harbour festival"), save_conversation(program, "hello there")

    def found(*words: str) -> set[str]:
        return {one["id"] for one in json.loads(program.text("sessions", "search", *words))["conversations"]}

    assert found("-hello", "role:user", "--json") == {harbour}
    assert found("--json", "role:user", "-hello") == found("--json", "--", "-hello", "role:user") == {harbour}
    assert found("there", "-octopus", "--since", "today", "--json") == {hello}
    assert "usage: mcphost sessions" in program.text("sessions", "search", "-h")
    assert "Unrecognized arguments: --hello" in program.error("sessions", "search", "--hello", code=2)
    assert "Unrecognized arguments: -x" in program.error("sessions", "rename", hello, "search", "-x", code=2)


def test_a_search_finds_only_runs_or_none_of_them(program: Program) -> None:
    run, named = (
        save_conversation(program, "Plan the harbour festival"),
        save_conversation(program, "The harbour again"),
    )
    program.text("sessions", "rename", named, "Harbour notes")

    def found(*words: str) -> set[str]:
        return {one["id"] for one in json.loads(program.text("sessions", "search", *words, "--json"))["conversations"]}

    assert found("harbour") == {run, named}
    assert found("from:run") == found("harbour", "from:RUN") == found("-from:chat", "festival") == {run}
    assert found("from:chat") == found("harbour", "-from:run") == {named}
    assert found("from:harbour") == set()  # other words after from: are text


def test_a_conversation_is_found_renamed_and_deleted_without_a_trace(program: Program) -> None:
    kept = save_conversation(program, "Plan the harbour festival")
    gone = save_conversation(program, "The secret ingredient is saffron 藏红花粉")
    assert json.loads(program.text("sessions", "search", "红花", "--json"))["conversations"][0]["id"] == gone
    assert "»saffron«" in program.text("sessions", "search", "saffron")
    program.text("sessions", "rename", gone[:8], "Kitchen", "notes")
    assert [row["title"] for row in json.loads(program.text("sessions", "--json"))["sessions"]] == [
        "Kitchen notes",
        "run: Plan the harbour festival",
    ]
    assert gone in program.text("sessions", "search", "kitchen")
    refused = program.run("sessions", "delete", gone)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr.decode()
    program.text("sessions", "delete", gone, "--yes")
    assert "Nothing was found." in program.run("sessions", "search", "saffron").stderr.decode()
    assert kept in program.text("sessions", "search", "harbour")
    files = [file for file in (program.home / "data").glob("mcphost.db*") if file.is_file()]
    assert files
    for file in files:
        for word in (b"saffron", b"Kitchen", "藏红".encode()):
            assert word not in file.read_bytes(), (file, word)


def test_the_audit_log_keeps_the_digests_of_the_calls_of_a_deleted_conversation(program: Program) -> None:
    servers = program.servers(demo=DEMO)
    program.text("run", "add 2 and 8675309135", "--model", "demo", "--mcp-config", servers, "--allow", "demo/add")
    (saved,) = json.loads(program.text("sessions", "--json"))["sessions"]

    def list_calls() -> list[dict[str, object]]:
        return json.loads(program.text("audit", "--json", "--kind", "tool"))["rows"]

    before = list_calls()
    assert before
    assert {row["arguments"] for row in before if row["event"] == "started"} != {""}
    program.text("sessions", "delete", saved["id"], "--yes")
    assert json.loads(program.text("sessions", "--json"))["sessions"] == []
    assert list_calls() == before
    assert "rows are unchanged" in program.text("audit", "verify")


def test_a_damaged_time_or_title_does_not_hide_a_conversation(program: Program) -> None:
    ident = save_conversation(program, "hello")
    for change in ("updated = 1e300, created = -1e18", "title = CAST(x'ff41' AS TEXT)"):
        with closing(sqlite3.connect(program.home / "data" / "mcphost.db")) as db, db:
            db.execute(f"UPDATE conversations SET {change}")
        for words in ((), ("show", ident), ("search", "hello"), ("export", ident)):
            assert "hello" in program.text("sessions", *words) or "\ufffdA" in program.text("sessions", *words)


def test_each_export_has_the_whole_conversation(program: Program) -> None:
    ident = save_conversation(program, "Say <b>hello</b> & goodbye")
    with closing(sqlite3.connect(program.home / "data" / "mcphost.db")) as db, db:  # as an earlier version saved it
        changed = db.execute(
            "UPDATE messages SET body = CAST(replace(CAST(body AS TEXT), 'goodbye', 'good\\u001bbye') AS BLOB)"
        )
        assert changed.rowcount
    markdown = program.text("sessions", "export", ident)
    assert markdown.startswith("# run: Say &lt;b>hello&lt;/b>")
    assert "\x1b" not in markdown
    assert "good␛bye" in markdown
    document = json.loads(program.text("sessions", "export", ident, "--format", "json"))
    assert (document["format"], document["version"]) == ("mcphost-conversation", 1)
    assert [message["role"] for message in document["messages"]][:2] == ["user", "assistant"]
    # The JSON form loses nothing.
    assert document["messages"][0]["parts"][0]["text"] == "Say <b>hello</b> & good\x1bbye"
    page = program.work / "page.html"
    program.text("sessions", "export", ident, "--format", "html", "-o", str(page))
    written = page.read_text()
    assert "&lt;b&gt;hello&lt;/b&gt; &amp;" in written
    assert not re.search(r"<script|\son\w+=|javascript:", written)
    assert page.stat().st_mode & 0o077 == 0


def test_the_ending_of_an_exported_file_chooses_its_format(program: Program) -> None:
    ident = save_conversation(program, "hello")
    for name, start in (
        ("talk.md", "# run: hello"),
        ("talk.HTML", "<!DOCTYPE html>"),
        ("talk.json", "{"),
        ("talk", "# run: hello"),
    ):
        program.text("sessions", "export", ident, "-o", name)
        assert (program.work / name).read_text().startswith(start), name
    program.text("sessions", "export", ident, "-o", "page.txt", "--format", "html")
    assert (program.work / "page.txt").read_text().startswith("<!DOCTYPE html>")
    told = program.error("sessions", "export", ident, "-o", "talk.pdf", code=2)
    assert all(ending in told for ending in ENDINGS), told
    assert not (program.work / "talk.pdf").exists()


def test_an_export_replaces_no_file(program: Program) -> None:
    ident = save_conversation(program, "hello")
    (program.work / "notes.md").write_text("mine")
    told = program.error("sessions", "export", ident, "-o", "notes.md", code=2)
    assert "notes.md cannot be written: File exists. Choose a file that does not exist yet." in told
    assert (program.work / "notes.md").read_text() == "mine"


def test_wrong_uses_say_what_is_missing(program: Program) -> None:
    for arguments, told in (
        (("search",), "What to search for?"),
        (("rename", "x"), "Which title?"),
        (("export",), "Which conversation?"),
        (("show", "x", "y"), "takes one id"),
        (("delete", "nope", "--yes"), "There is no conversation 'nope'"),
        (("list", "--format", "json"), "belong to"),
    ):
        done = program.run("sessions", *arguments)
        assert done.returncode == 2, arguments
        assert told in done.stderr.decode(), arguments


def test_conversations_of_an_earlier_version_are_indexed_before_the_search(program: Program) -> None:
    ident = save_conversation(program, "Remember the lighthouse")
    (file,) = (program.home / "data").glob("mcphost.db")
    with closing(sqlite3.connect(file)) as db, db:
        for table in ("search_index", "search_documents", "search_pending"):
            db.execute(f"DROP TABLE {table}")
        db.execute("DELETE FROM migrations WHERE name = '013_search'")
    assert ident in program.text("sessions", "search", "lighthouse")


def test_the_notice_about_a_damaged_store_names_the_command_that_brings_the_conversations_back(
    program: Program,
) -> None:
    ident = save_conversation(program, "Plan the harbour festival")
    store = program.home / "data" / "mcphost.db"
    audited = program.text("audit", "verify")
    content = store.read_bytes()
    store.write_bytes(b"damaged!" * 12 + content[96:])
    noticed = program.run("sessions").stderr.decode()
    command = re.search(r"mcphost (sessions salvage \S+\.damaged-\S+)", noticed)
    assert command is not None, noticed
    assert "There are no saved conversations yet." in noticed
    salvaged = program.run(*command[1].split())
    assert salvaged.returncode == 0, salvaged.stderr
    assert f"{ident}" in salvaged.stdout.decode()
    told = salvaged.stderr.decode()
    for sentence in (
        "Added as copies: 1 conversation with 2 messages.",
        "No lost messages were found.",
        "The audit log is a separate file and is not changed.",
    ):
        assert sentence in told
    assert "Plan the harbour festival" in program.text("sessions", "show", ident)
    assert ident in program.text("sessions", "search", "harbour")
    assert "Already in the store: 1 conversation." in program.run(*command[1].split()).stderr.decode()
    assert not program.run(*command[1].split(), "--quiet").stderr
    report = json.loads(program.text(*command[1].split(), "--json"))
    assert (report["conversations"], report["present"], report["lost_messages"]) == (0, 1, 0)
    assert program.text("audit", "verify") == audited


def test_salvage_refuses_the_database_in_use_and_says_when_a_file_has_nothing(program: Program) -> None:
    save_conversation(program, "hello")
    told = program.error("sessions", "salvage", str(program.home / "data/mcphost.db"), code=2)
    assert "is the database in use" in told
    assert "mcphost.db-wal, if it exists, to NAME-wal" in told  # it may contain the newest messages
    assert "cannot be read" in program.error("sessions", "salvage", str(program.home), code=2)
    assert "Name the damaged database file." in program.error("sessions", "salvage", code=2)
    (program.work / "noise").write_bytes(b"noise" * 9_999)
    done = program.run("sessions", "salvage", "noise")
    assert done.returncode == 1
    told = done.stderr.decode()
    assert "noise holds no readable page of a conversation store." in told
    assert "mcphost.db.damaged-" in told
    assert "No lost messages" not in told
    assert "Added as copies" not in told
    assert program.run("sessions", "salvage", "noise", "--quiet").stderr.decode() == told[: told.index("\n") + 1]
    report = json.loads(program.run("sessions", "salvage", "noise", "--json").stdout)
    assert (report["conversations"], report["readable_rows"]) == (0, 0)
