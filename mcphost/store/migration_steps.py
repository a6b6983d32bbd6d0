"""The steps of the migrations of the database schema, which `mcphost.store.migrations` names and applies.

The step `mNNN_name` belongs to the migration `NNN_name`. Each step runs within a transaction.
"""

import json
import secrets
import sqlite3
from urllib.parse import quote

_UNQUOTED = " !\"#$&'()+,-.:;<=>@[]^_`{|}~"


def m001_first(db: sqlite3.Connection) -> None:
    """Create the tables for conversations, messages, drafts, grants, approved servers and servers' protocol eras.

    A grant is the user's permission to call a tool without asking. See `mcphost.protocol.revisions` for eras.
    """
    _execute_script(
        db,
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY, title TEXT NOT NULL, model TEXT NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL
        ) STRICT;
        CREATE INDEX conversations_updated ON conversations (updated);
        CREATE TABLE messages (
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (conversation, seq)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE drafts (
            conversation TEXT PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE, body BLOB NOT NULL
        ) STRICT;
        CREATE TABLE grants (
            id INTEGER PRIMARY KEY, server TEXT NOT NULL, server_digest TEXT NOT NULL,
            tool TEXT NOT NULL, tool_digest TEXT NOT NULL, created REAL NOT NULL,
            UNIQUE (server, tool)
        ) STRICT;
        CREATE TABLE trust (
            server TEXT NOT NULL, digest TEXT NOT NULL, description TEXT NOT NULL, created REAL NOT NULL,
            PRIMARY KEY (server)
        ) STRICT;
        CREATE TABLE eras (digest TEXT PRIMARY KEY, era TEXT NOT NULL, at REAL NOT NULL) STRICT;
        """,
    )


def m002_tasks(db: sqlite3.Connection) -> None:
    """Create the table for unfinished MCP tasks."""
    _execute_script(
        db,
        """
        CREATE TABLE tasks (
            server TEXT NOT NULL, digest TEXT NOT NULL, task TEXT NOT NULL, tool TEXT NOT NULL,
            conversation TEXT NOT NULL, expires REAL, created REAL NOT NULL, owner INTEGER NOT NULL,
            PRIMARY KEY (digest, task)
        ) STRICT;
        """,
    )


def m003_grants(db: sqlite3.Connection) -> None:
    """Convert the user's grants for individual tools to rules with conditions, scope and expiry.

    The grants remain valid.
    """
    db.execute("ALTER TABLE grants RENAME TO grants_001")
    _execute_script(
        db,
        """
        CREATE TABLE grants (
            id TEXT PRIMARY KEY, server TEXT NOT NULL, server_digest TEXT NOT NULL, rule TEXT NOT NULL,
            tools TEXT NOT NULL, account TEXT, scope TEXT NOT NULL, place TEXT NOT NULL, expires REAL,
            created REAL NOT NULL, uses INTEGER NOT NULL DEFAULT 0, last_used REAL, suspended TEXT NOT NULL DEFAULT '',
            revoked REAL
        ) STRICT;
        CREATE INDEX grants_server ON grants (server) WHERE revoked IS NULL;
        """,
    )
    rows = db.execute("SELECT server, server_digest, tool, tool_digest, created FROM grants_001").fetchall()
    for server, server_digest, tool, tool_digest, created in rows:
        # The text form of rules: special characters are percent-encoded.
        rule = f"{quote(server, safe=_UNQUOTED)}/{quote(tool, safe=_UNQUOTED + '/')}"
        tools = json.dumps({tool: tool_digest})
        db.execute(
            "INSERT INTO grants (id, server, server_digest, rule, tools, scope, place, created)"
            " VALUES (?, ?, ?, ?, ?, 'everywhere', '', ?)",
            (secrets.token_hex(4), server, server_digest, rule, tools, created),
        )
    db.execute("DROP TABLE grants_001")


def m005_pins(db: sqlite3.Connection) -> None:
    """Create the table for fingerprints of tool definitions."""
    _execute_script(
        db,
        """
        CREATE TABLE pins (
            server TEXT NOT NULL, server_digest TEXT NOT NULL, tool TEXT NOT NULL,
            raw TEXT NOT NULL, digest TEXT NOT NULL, definition BLOB NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (server, server_digest, tool)
        ) STRICT, WITHOUT ROWID;
        """,
    )


def m006_folders(db: sqlite3.Connection) -> None:
    """Create the table for the user's changes to the list of shared folders; paths are stored as bytes."""
    _execute_script(
        db,
        """
        CREATE TABLE folders (
            place BLOB NOT NULL, path BLOB NOT NULL, name TEXT NOT NULL, told INTEGER NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (place, path)
        ) STRICT, WITHOUT ROWID;
        """,
    )


def m007_turned(db: sqlite3.Connection) -> None:
    """Add columns for a changed tool definition that the user has not accepted yet.

    The changed definition is kept even if the server returns to the accepted definition later.
    """
    db.execute("ALTER TABLE pins ADD COLUMN turned TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE pins ADD COLUMN meanwhile BLOB NOT NULL DEFAULT x''")


def m008_switches(db: sqlite3.Connection) -> None:
    """Create the table for tools that the user disabled."""
    _execute_script(
        db,
        """
        CREATE TABLE switches (
            server TEXT NOT NULL, tool TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (server, tool)
        ) STRICT, WITHOUT ROWID;
        """,
    )


def m009_folder_answers(db: sqlite3.Connection) -> None:
    """Create the table for permanent decisions about sharing folders with servers."""
    _execute_script(
        db,
        """
        CREATE TABLE folder_answers (
            id TEXT PRIMARY KEY, server TEXT NOT NULL, server_digest TEXT NOT NULL, path BLOB NOT NULL,
            shared INTEGER NOT NULL, created REAL NOT NULL, UNIQUE (server, server_digest, path)
        ) STRICT;
        """,
    )


def m010_branches(db: sqlite3.Connection) -> None:
    """Add columns for branches: each message's predecessor, and the last message of the current branch.

    If the predecessor is NULL, it is the message that was stored just before; if the last message is NULL, it is
    the message that was stored last.
    """
    db.execute("ALTER TABLE messages ADD COLUMN parent INTEGER")
    db.execute("ALTER TABLE conversations ADD COLUMN leaf INTEGER")


def m011_compactions(db: sqlite3.Connection) -> None:
    """Create the table for summaries that replace the beginning of a conversation in model requests."""
    _execute_script(
        db,
        """
        CREATE TABLE compactions (
            number INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            body BLOB NOT NULL, undone REAL
        ) STRICT;
        CREATE INDEX compactions_conversation ON compactions (conversation);
        """,
    )


def m012_spending(db: sqlite3.Connection) -> None:
    """Create the table for the costs of model requests, and fill it from the stored messages.

    A forked conversation contains copies of messages, so messages with the same time, model and usage are treated as
    one request.
    """
    _execute_script(
        db,
        """
        CREATE TABLE spending (
            id INTEGER PRIMARY KEY, at REAL NOT NULL, conversation TEXT NOT NULL, turn TEXT NOT NULL,
            purpose TEXT NOT NULL, model TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
            cached_tokens INTEGER NOT NULL, cost REAL, input_cost REAL, estimated INTEGER NOT NULL, shares BLOB NOT NULL
        ) STRICT;
        CREATE INDEX spending_at ON spending (at);
        CREATE INDEX spending_conversation ON spending (conversation, turn);
        INSERT INTO spending (at, conversation, turn, purpose, model, input_tokens, output_tokens, cached_tokens, cost,
                              estimated, shares)
        SELECT json_extract(b, '$.at'), min(conversation), '', 'answer',
               coalesce(json_extract(b, '$.model'), '') AS model,
               CAST(coalesce(json_extract(b, '$.usage.input_tokens'), 0) AS INTEGER) AS sent,
               CAST(coalesce(json_extract(b, '$.usage.output_tokens'), 0) AS INTEGER) AS received,
               CAST(coalesce(json_extract(b, '$.usage.cached_tokens'), 0) AS INTEGER),
               CAST(json_extract(b, '$.usage.cost') AS REAL), 0, x'5b5d'
        FROM (SELECT conversation, CASE WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS b
              FROM messages WHERE instr(body, CAST('"usage":{' AS BLOB)))
        WHERE typeof(json_extract(b, '$.at')) = 'real' AND json_extract(b, '$.usage') IS NOT NULL
        GROUP BY json_extract(b, '$.at'), model, sent, received ORDER BY 1
        """,
    )


def m013_search(db: sqlite3.Connection) -> None:
    """Create the full-text index; existing conversations are indexed later, in the background."""
    create_search_index(db)
    _execute_script(
        db,
        """
        CREATE TABLE search_documents (
            id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, number INTEGER NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX search_documents_message ON search_documents (conversation, number);
        CREATE TABLE search_pending (conversation TEXT PRIMARY KEY, done INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        INSERT INTO search_pending SELECT id, 0 FROM conversations;
        """,
    )


def m014_conversation_details(db: sqlite3.Connection) -> None:
    """Add columns for named and pinned conversations, and create a table for unsent text.

    `named` is 0 for a title made from the first message and 2 for a title chosen by the user; 1 is no longer used.
    `pinned` is the time at which the conversation was pinned, or NULL.
    """
    db.execute("ALTER TABLE conversations ADD COLUMN named INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE conversations ADD COLUMN pinned REAL")
    _execute_script(
        db,
        """
        CREATE TABLE unsent_texts (
            place TEXT PRIMARY KEY, body BLOB NOT NULL, owner INTEGER NOT NULL, at REAL NOT NULL
        ) STRICT;
        """,
    )


def m015_system_prompts(db: sqlite3.Connection) -> None:
    """Create the table for system prompts that the user set for individual conversations."""
    _execute_script(
        db,
        """
        CREATE TABLE system_prompts (
            number INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            text TEXT NOT NULL, at REAL NOT NULL
        ) STRICT;
        CREATE INDEX system_prompts_conversation ON system_prompts (conversation);
        """,
    )


def m016_character_labels(db: sqlite3.Connection) -> None:
    """Empty the full-text index; the background rebuild adds labels that make single characters searchable."""
    _execute_script(
        db,
        """
        DROP TABLE IF EXISTS search_index;
        DELETE FROM search_documents;
        INSERT OR REPLACE INTO search_pending (conversation, done) SELECT id, 0 FROM conversations;
        """,
    )
    create_search_index(db)


def m017_recorded_results(db: sqlite3.Connection) -> None:
    """Create the table of read-only tool calls whose results can be reused for identical calls.

    `call` is a digest of the server, account, tool, definition and arguments; `definition` is the tool's fingerprint.
    """
    _execute_script(
        db,
        """
        CREATE TABLE recorded_results (
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            use_id TEXT NOT NULL, call TEXT NOT NULL, definition TEXT NOT NULL, grant_id TEXT NOT NULL,
            at REAL NOT NULL,
            PRIMARY KEY (conversation, use_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX recorded_results_call ON recorded_results (conversation, call, at);
        """,
    )


def m018_pinned_tools(db: sqlite3.Connection) -> None:
    """Create the table for pinned tools, which are sent with every model request."""
    _execute_script(
        db,
        """
        CREATE TABLE pinned_tools (
            server TEXT NOT NULL, tool TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (server, tool)
        ) STRICT, WITHOUT ROWID;
        """,
    )


def m019_cache_savings(db: sqlite3.Connection) -> None:
    """Add a column for the amount that the provider's cache saved in each model request.

    For older requests, the amount is unknown, and 0 is stored.
    """
    db.execute("ALTER TABLE spending ADD COLUMN saved REAL NOT NULL DEFAULT 0")


def m020_manual_calls(db: sqlite3.Connection) -> None:
    """Create the table for tool calls that the user made without the model.

    `after` is the number of the message that a call follows, or 0 if it precedes all messages.
    """
    _execute_script(
        db,
        """
        CREATE TABLE manual_calls (
            number INTEGER PRIMARY KEY,
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            after INTEGER NOT NULL, body BLOB NOT NULL
        ) STRICT;
        CREATE INDEX manual_calls_conversation ON manual_calls (conversation);
        """,
    )


def m021_accepted_from(db: sqlite3.Connection) -> None:
    """Add a column for the digest of the definition that was replaced when the user accepted a changed one.

    The column is '' for definitions that were accepted because the tool was new, and for definitions stored by an older
    mcphost.
    """
    db.execute("ALTER TABLE pins ADD COLUMN accepted_from TEXT NOT NULL DEFAULT ''")


def m022_page_results(db: sqlite3.Connection) -> None:
    """Create the table for calls to tools that have an interactive page, with their complete results."""
    _execute_script(
        db,
        """
        CREATE TABLE page_results (
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            use_id TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (conversation, use_id)
        ) STRICT;
        """,
    )


def create_search_index(db: sqlite3.Connection) -> None:
    """Create the full-text index; do nothing if SQLite lacks FTS5.

    The index stores no copy of the indexed text.
    """
    try:
        db.execute(
            "CREATE VIRTUAL TABLE search_index USING fts5("
            "text, labels, content='', prefix='2 3', tokenize='unicode61 remove_diacritics 2')"
        )
    except sqlite3.OperationalError as error:
        if "no such module" not in str(error):
            raise


def _execute_script(db: sqlite3.Connection, script: str) -> None:
    # Connection.executescript would commit the transaction of the migration.
    for statement in script.split(";"):
        if statement.strip():
            db.execute(statement)
