"""JSON Schemas of mcp.json and config.toml, for editors that complete keys and mark errors.

Types and limits come from the structs that validate the files. The schemas use draft-07, the newest draft that common
editors support for both formats (VS Code: https://code.visualstudio.com/docs/languages/json, Taplo for TOML:
https://taplo.tamasfe.dev/configuration/using-schemas.html). In mcp.json, keys of other hosts are allowed
outside of "mcphost".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mcphost.config.mcp_json import TRANSPORTS
from mcphost.config.oauth_settings import FIELD_BY_KEY
from mcphost.config.schema import (
    SAMPLING_FIELD_BY_KEY,
    AuditConfig,
    BudgetConfig,
    CompactionConfig,
    ConsentConfig,
    ContextConfig,
    HookSettings,
    HostConfig,
    Limits,
    ModelConfig,
    NotificationsConfig,
    OAuthConfig,
    Profile,
    RegistryConfig,
    ResultsConfig,
    SamplingLimits,
    ScreenConfig,
    SecretStore,
    TitlesConfig,
)
from mcphost.config.value_conversion import build_json_schema, settable_fields
from mcphost.protocol.notifications import LEVELS
from mcphost.protocol.revisions import Revision
from mcphost.serialization import Struct

Schema = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"
_REFERENCES = (
    "May contain ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:ID} and ${workspaceFolder}; "
    "${$} is a dollar sign, so ${$}{NAME} is the text ${NAME}."
)

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_PAIRS: Schema = {"type": "object", "maxProperties": 500, "additionalProperties": {"type": ["string", "number"]}}


def mcp_json_schema() -> Schema:
    """Return the schema of mcp.json and .mcp.json."""
    servers = {"type": "object", "additionalProperties": {"$ref": "#/definitions/server"}}
    return {
        "$schema": DRAFT,
        "title": "MCP servers of mcphost",
        "type": "object",
        "properties": {
            "mcpServers": _describe(servers, "The servers by name."),
            "servers": _describe(servers, "The servers by name, as VS Code writes it."),
            "inputs": _describe(_INPUTS, "Values that the user is asked for, as ${input:ID}."),
            "mcphost": _closed({"roots": _ROOTS}),
        },
        "definitions": {"server": _server_schema(), "input": _INPUT, "oauth": _oauth_schema()},
    }


def config_toml_schema() -> Schema:
    """Return the schema of config.toml."""
    model: Schema = {"anyOf": [_TEXT, _table(ModelConfig, settable_fields(ModelConfig))]}
    limits = [key for key in settable_fields(Limits) if key != "includes_user_time"]
    sampling = _table(SamplingLimits, settable_fields(SamplingLimits))
    sampling["properties"]["models"] = {"type": "array", "items": model, "maxItems": 20}
    hook = _table(HookSettings, settable_fields(HookSettings))
    hook["required"] = ["event", "command"]
    hook["properties"]["match"] = {"anyOf": [_TEXT, hook["properties"]["match"]]}
    profile = _table(Profile, ("description", "system_prompt", "servers"))
    profile["properties"]["model"] = model
    return {
        "$schema": DRAFT,
        "title": "Settings of mcphost",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **_table(HostConfig, ("theme", "system_prompt", "profile"))["properties"],
            "model": _describe(model, "The model to start with: provider/model, or a table."),
            "limits": _describe(_table(Limits, limits), "Time limits in seconds, and limits on calls and tools."),
            "roots": _describe(_ROOTS, "Folders to share with servers."),
            "secrets": _closed({"store": _describe(build_json_schema(SecretStore), "Where sign-ins are stored.")}),
            "consent": _closed(
                {
                    "never": _describe(_TEXTS, 'Calls that are always refused, such as "fs/delete*".'),
                    **_table(ConsentConfig, ("origins",))["properties"],
                }
            ),
            "hooks": _describe(
                {"type": "array", "maxItems": 50, "items": hook}, "Programs that run before or after tool calls."
            ),
            "audit": _describe(_table(AuditConfig, settable_fields(AuditConfig)), "The record of what was done."),
            "budget": _describe(
                _table(BudgetConfig, settable_fields(BudgetConfig)), "Limits on the cost of requests, in US dollars."
            ),
            "sampling": _describe(sampling, "Limits on requests of servers to the model, and models for them."),
            "compaction": _describe(
                _table(CompactionConfig, settable_fields(CompactionConfig)), "Summaries of long conversations."
            ),
            "titles": _describe(_table(TitlesConfig, settable_fields(TitlesConfig)), "Titles of conversations."),
            "results": _describe(_table(ResultsConfig, settable_fields(ResultsConfig)), "Stored tool results."),
            "context": _describe(
                _table(ContextConfig, settable_fields(ContextConfig)), "What fills the model's context window."
            ),
            "registry": _describe(_table(RegistryConfig, settable_fields(RegistryConfig)), "Where servers are found."),
            "notifications": _describe(
                _table(NotificationsConfig, settable_fields(NotificationsConfig)),
                "Notifications while the terminal has no focus, and the terminal's title.",
            ),
            "screen": _describe(
                _table(ScreenConfig, settable_fields(ScreenConfig)), "The screen, also for screen readers."
            ),
            "keys": _KEYS,
            "profiles": {
                "type": "object",
                "description": "Named sets of settings, selected with --profile or /profile.",
                "additionalProperties": profile,
            },
        },
    }


_KEYS: Schema = {
    "type": "object",
    "description": 'Keys of actions, such as theme = "ctrl+k" or servers-restart = "R"; an empty list removes them.',
    "maxProperties": 200,
    "additionalProperties": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "maxItems": 5}]},
}
_ROOTS: Schema = {
    "type": "array",
    "maxItems": 100,
    "items": {
        "anyOf": [
            _TEXT,
            {"type": "object", "properties": {"path": _TEXT, "name": _TEXT}, "required": ["path"]},
        ]
    },
}
_INPUT: Schema = {
    "type": "object",
    "required": ["id", "type"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "type": {"enum": ["promptString", "pickString"]},
        "description": _TEXT,
        "default": _TEXT,
        "password": {"type": "boolean", "description": "Whether it is typed unseen and stored in the keyring."},
        "options": {"type": "array", "items": {"anyOf": [_TEXT, {"type": "object", "required": ["value"]}]}},
    },
}
_INPUTS: Schema = {"type": "array", "items": {"$ref": "#/definitions/input"}}


def _server_schema() -> Schema:
    return {
        "type": "object",
        "properties": {
            "command": _describe(_TEXT, f"The program of a stdio server, without its arguments. {_REFERENCES}"),
            "args": _describe(
                _TEXTS, f"The program's arguments. {_REFERENCES} In your own files, also ${{keyring:NAME}}."
            ),
            "env": _describe(_PAIRS, f"Environment variables. {_REFERENCES} Also ${{keyring:NAME}}, for secrets."),
            "envFile": _describe(_TEXT, "A file with more environment variables."),
            "cwd": _describe(_TEXT, "The folder to start the program in, relative to this file."),
            "url": _describe(
                _TEXT, f"The address of an HTTP server. {_REFERENCES} In your own files, also ${{keyring:NAME}}."
            ),
            "headers": _describe(_PAIRS, f"HTTP headers. {_REFERENCES} Also ${{keyring:NAME}}, for secrets."),
            "type": _describe({"enum": [*TRANSPORTS]}, 'The transport; "http" tries Streamable HTTP, then HTTP+SSE.'),
            "transport": _describe({"enum": [*TRANSPORTS]}, 'The same as "type", as other hosts write it.'),
            "disabled": _describe({"type": "boolean"}, "Whether the server is kept here without being started."),
            "disabledTools": _describe(_TEXTS, "Names or patterns of tools that the model does not see."),
            "dev": {"type": "object", "properties": {"watch": _TEXT}},
            "mcphost": _own_schema(),
        },
        "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
    }


def _own_schema() -> Schema:
    """Return the schema of the "mcphost" member of a server's entry, which only mcphost reads."""
    sampling = {
        key: build_json_schema(settable_fields(SamplingLimits)[field].type)
        for key, field in SAMPLING_FIELD_BY_KEY.items()
    }
    switch: Schema = {"type": "boolean"}
    return {
        "type": "object",
        "description": "Settings that only mcphost reads.",
        "additionalProperties": False,
        "properties": {
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 86_400,
                "description": "Seconds for one request.",
            },
            "caFile": _describe(_TEXT, "A PEM file with the certificate authority of the server."),
            "logLevel": _describe({"enum": ["", *LEVELS]}, "The least severe log messages to request."),
            "reviewResults": _describe(switch, "Whether you review each result before the model gets it."),
            "trustAnnotations": _describe(switch, "Whether tools declared read-only run without asking."),
            "sampling": {"type": "object", "additionalProperties": False, "properties": sampling},
            "era": {"enum": ["auto", "stateless", "handshake"]},
            "revision": _describe({"enum": [one.value for one in Revision]}, "Use only this protocol revision."),
            "oauth": {"$ref": "#/definitions/oauth"},
            "inputs": _INPUTS,
            "watch": _describe(_TEXTS, "Patterns of files that restart the server when they change."),
            "disabled": switch,
            "disabledTools": _TEXTS,
            "registry": _describe({"type": "object"}, "Where the server was installed from; written by mcphost."),
        },
    }


def _oauth_schema() -> Schema:
    fields = settable_fields(OAuthConfig)
    return _closed({key: build_json_schema(fields[field].type) for key, field in FIELD_BY_KEY.items()})


def _table(kind: type[Struct], keys: Iterable[str]) -> Schema:
    """Return the schema of a TOML table whose *keys* are fields of the struct *kind*.

    Null is removed from the allowed types, because TOML has no null.
    """
    fields = settable_fields(kind)
    return _closed({key: _without_null(build_json_schema(fields[key].type)) for key in keys})


def _without_null(schema: Schema) -> Schema:
    others = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return others[0] if len(others) == 1 else schema


def _closed(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def _describe(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}
