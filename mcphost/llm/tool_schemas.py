"""Adaptation of tools' input schemas to the part of JSON Schema that a provider's API accepts.

MCP servers may use any JSON Schema. Providers reject a whole request because of one schema that they do not
accept, and litellm 1.110 damages some schemas: for Gemini, it turns `{"const": "x"}` and an `enum` without a
type into an object, drops `oneOf` and `allOf`, raises AttributeError for the schema `true`, and expands
references without a limit. `adapt_schema` therefore rewrites a schema before it is sent. Arguments are still
validated against the server's own schema before a call, so an adapted schema does not permit any additional
calls.

The limits of the providers, and where they are described:

- OpenAI: the top level is an object with `properties`, without `oneOf`, `anyOf`, `allOf`, `enum` and `not`; arrays have
  `items`, which are a schema. See its error messages in github.com/openai/openai-agents-python/issues/449,
  github.com/langchain-ai/langchainjs/issues/9804. Other servers that implement OpenAI's API have the same limits.
- Anthropic: the same combinators are rejected at the top level (github.com/anthropics/claude-code/issues/5973), schemas
  must be valid for draft 2020-12, and names of top-level properties must match a pattern
  (github.com/anthropics/claude-code/issues/79418). Amazon Bedrock has the same limits for Claude. Properties whose
  names do not match are renamed; see `argument_names`.
- Gemini: the fields of `Schema` (ai.google.dev/api/caching#Schema), a subset of OpenAPI 3.0 without `$ref`, `const`,
  `oneOf`, `allOf` and lists of types; `enum` contains only non-empty strings, and `required` only defined properties
  (github.com/zed-industries/zed/issues/44875, github.com/decolua/9router/issues/359).
- Ollama: the fields of `ToolProperty` (github.com/ollama/ollama, api/types.go). Other fields do not reach the model,
  and a value of another type, such as the schema `true`, is an error.

This module runs in the worker process and, for rejected tools, in the host. It does no I/O.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Literal, cast

from mcphost.llm.argument_names import ARGUMENT_NAME, Names, rename_arguments
from mcphost.llm.worker_protocol import RENAMES_ARGUMENTS
from mcphost.serialization import Raw, Struct, as_object, dumps, encode, is_number, loads

Json = dict[str, Any]
MAX_DEPTH = 12
"""Maximum depth of a rewritten schema; anything deeper accepts any value."""
MAX_NODES = 2_000
"""Maximum number of subschemas and enum values in a rewritten schema; repeated ones count each time."""
MAX_TEXT = 1_000
"""Maximum length of a description, a pattern, an enum value, a reference and a property's name, in characters.

A longer description is truncated, and anything else is left out."""
MAX_ENTRIES = 100_000
"""Maximum number of entries in the objects and lists of the subschemas that are read; repeated ones count each time."""
COMBINATORS = ("oneOf", "anyOf", "allOf")
_ALTERNATIVES = ("anyOf", "oneOf")
_REFUSED_AT_TOP = (*COMBINATORS, "not", "enum", "const")
_TYPES = ("object", "array", "string", "number", "integer", "boolean")
_MAX_LISTED_VALUES = 50
_MAX_TOLD_NAMES = 10
_MAX_CACHED = 1_024
_SUBSCHEMAS = ("items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then",
               "else", "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_SUBSCHEMA_LISTS = (*COMBINATORS, "prefixItems")
SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NUMBER_LIMITS = ("minimum", "maximum")
_TEXT_LIMITS = ("format", "pattern", "minLength", "maxLength")
_LIMITS = {
    "string": _TEXT_LIMITS,
    "number": _NUMBER_LIMITS,
    "integer": _NUMBER_LIMITS,
    "array": ("minItems", "maxItems"),
}


class SchemaDialect(Struct, frozen=True, kw_only=True):
    """Rules for the schemas that a provider accepts and that litellm passes on unchanged."""

    is_rewritten: bool = False
    """Whether the whole schema is rewritten with few keywords and without references."""

    is_rewritten_with_references: bool = False
    """Whether the whole schema is rewritten if it has references, which litellm would expand without a limit."""

    has_limits: bool = False
    """Whether a rewritten schema keeps limits such as `minimum` and `pattern`."""

    has_nullable: bool = False
    """Whether a rewritten schema marks values that may be null with OpenAPI's `nullable`."""

    has_maps: bool = False
    """Whether a rewritten schema keeps the schema in `additionalProperties`."""

    has_any_enum: bool = False
    """Whether `enum` may have values other than strings; if not, the description lists them."""

    any_types: tuple[str, ...] = ("string",)
    """The types that mean "any value" in a rewritten schema; if empty, a schema that accepts any value has no type."""

    checked_names: Literal["none", "top", "all"] = "none"
    """Which properties must have names that match ARGUMENT_NAME.

    At the top, properties with other names are renamed (see `argument_names`). Below the top, a rewritten schema omits
    them, and the description of their object names them."""

    renames_definitions: bool = False
    """Whether `definitions` is renamed to `$defs`, because litellm expands references to `definitions`."""


COMMON = SchemaDialect(is_rewritten=True, checked_names="all")
"""Dialect with the few keywords that all providers accept."""
_OPENAI = SchemaDialect()
_ANTHROPIC = SchemaDialect(checked_names="top", renames_definitions=True)
_BEDROCK = SchemaDialect(
    is_rewritten_with_references=True,
    has_limits=True,
    has_maps=True,
    has_any_enum=True,
    any_types=(),
    checked_names="top",
)
_GEMINI = SchemaDialect(
    is_rewritten=True, has_limits=True, has_nullable=True, any_types=("string", "number", "boolean", "object")
)
_OLLAMA = SchemaDialect(is_rewritten=True, has_any_enum=True, any_types=())
_DIALECTS = {
    "anthropic": _ANTHROPIC,
    "fireworks_ai": SchemaDialect(renames_definitions=True),
    "bedrock": _BEDROCK,
    "bedrock_converse": _BEDROCK,
    "gemini": _GEMINI,
    "vertex_ai": _GEMINI,
    "vertex_ai_beta": _GEMINI,
    "ollama": _OLLAMA,
    "ollama_chat": _OLLAMA,
}

_CLAUDE_PROVIDERS = ("vertex_ai", "vertex_ai_beta", "openrouter", "azure_ai")


def find_dialect(provider: str, model: str) -> SchemaDialect:
    """Return the dialect of JSON Schema that a model accepts; the default is OpenAI's dialect."""
    if provider in _CLAUDE_PROVIDERS and "claude" in model.lower():
        return _ANTHROPIC
    return _DIALECTS.get(provider, _OPENAI)


class ToolSchemaAdapter:
    """Adapter for the schemas of the tools in requests; each schema is adapted only once per dialect."""

    def __init__(self) -> None:
        self._adapted: dict[tuple[SchemaDialect, bool, bytes], tuple[Raw, Names]] = {}

    def adapt_tools(self, tools: list[Json], provider: str, model: str) -> tuple[list[Json], dict[str, Names]]:
        """Return tools in Chat Completions format with schemas that the provider accepts.

        Also returns the renamed arguments of each tool, keyed by tool name; see `argument_names`.
        """
        dialect = find_dialect(provider, model)
        adapted: list[Json] = []
        names: dict[str, Names] = {}
        for tool in tools:
            function = as_object(tool.get("function"))
            is_renamed = tool.pop(RENAMES_ARGUMENTS, False) or dialect.checked_names != "none"
            parameters, renamed = self._adapt(encode(function.get("parameters")), dialect, is_renamed=is_renamed)
            adapted.append({**tool, "function": {**function, "parameters": parameters}})
            if renamed:
                names[str(function.get("name"))] = renamed
        return adapted, names

    def _adapt(self, schema: bytes, dialect: SchemaDialect, *, is_renamed: bool) -> tuple[Json, Names]:
        key = (dialect, is_renamed, sha256(schema).digest())
        if key not in self._adapted:
            if len(self._adapted) >= _MAX_CACHED:
                self._adapted.clear()
            adapted = adapt_schema(loads(schema), dialect)
            names: Names = {}
            if is_renamed:
                adapted, names = rename_arguments(adapted)
            self._adapted[key] = Raw(encode(adapted)), names
        raw, names = self._adapted[key]
        return loads(raw), names


def adapt_schema(schema: Any, dialect: SchemaDialect) -> Json:
    """Return a tool's input schema in a form that a provider accepts; *schema* may be changed in place.

    Arguments are not renamed; see `argument_names`. The time is proportional to the size of the schema, or to
    MAX_ENTRIES if references repeat parts of it.
    """
    root = as_object(schema)
    has_references = dialect.is_rewritten_with_references and b'"$ref"' in encode(root)
    if dialect.is_rewritten or has_references:
        adapted = _SchemaRewriter(root, dialect).rewrite_top()
    else:
        adapted = _adapt_top(root, dialect)
        for node in _iter_subschemas(adapted):
            _modernize(node)
    return adapted


def _adapt_top(root: Json, dialect: SchemaDialect) -> Json:
    """Return the schema as an object schema without combinators at the top level.

    Properties from the alternatives of `anyOf` and `oneOf` become optional.
    """
    if "$ref" in root or any(name in root for name in _REFUSED_AT_TOP):
        root = _SchemaRewriter(root, dialect).merge_top()
    adapted = root | {"type": "object", "properties": dict(as_object(root.get("properties")))}
    if "required" in adapted:
        adapted["required"] = [*_names(adapted)]
    if dialect.renames_definitions and isinstance(adapted.get("definitions"), dict):
        adapted["$defs"] = as_object(adapted.get("$defs")) | as_object(adapted.pop("definitions"))
        for node in _iter_subschemas(adapted):
            if isinstance(reference := node.get("$ref"), str) and reference.startswith("#/definitions/"):
                node["$ref"] = f"#/$defs/{reference.removeprefix('#/definitions/')}"
    return adapted


def _modernize(node: Json) -> None:
    """Convert older forms of JSON Schema to draft 2020-12, and add `items` to arrays that lack it.

    OpenAI requires `items`. The schema is changed in place.
    """
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node["items"]
        node["items"] = node.pop("additionalItems", {})
    if "array" in (node.get("type"), *_list(node.get("type"))) and "items" not in node:
        node["items"] = {}
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(node.get(exclusive), bool):
            is_exclusive = node.pop(exclusive)
            if is_exclusive and limit in node:
                node[exclusive] = node.pop(limit)


def _iter_subschemas(root: Json) -> Iterator[Json]:
    """Yield a schema and all schemas nested in it.

    If null is used in place of a schema, which providers reject, it is replaced with `{}`.
    """
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        for name in SUBSCHEMA_MAPS:
            members = as_object(node.get(name))
            members |= {key: {} for key, value in members.items() if value is None}
            waiting += [cast("Json", value) for value in members.values() if isinstance(value, dict)]
        found = [node.get(name) for name in _SUBSCHEMAS]
        found += [value for name in (*_SUBSCHEMA_LISTS, "items") for value in _list(node.get(name))]
        waiting += [cast("Json", value) for value in found if isinstance(value, dict)]


class _SchemaRewriter:
    """Converter that rewrites one schema so that it uses only a few keywords and no references."""

    def __init__(self, root: Json, dialect: SchemaDialect) -> None:
        self._root = root
        self._dialect = dialect
        self._left = MAX_NODES
        self._entries_left = MAX_ENTRIES

    def merge_top(self) -> Json:
        """Return the root schema without combinators at the top level; nested schemas are unchanged."""
        merged = self._merge(self._root, 0, frozenset())
        return {name: value for name, value in merged.items() if name not in _REFUSED_AT_TOP}

    def rewrite_top(self) -> Json:
        """Return the rewritten root schema, which is always an object schema.

        Properties from the alternatives of `anyOf` and `oneOf` become optional.
        """
        simple = self._rewrite(self.merge_top() | {"type": "object"}, 0, frozenset())
        empty: Json = {"type": "object", "properties": {}}
        return empty | simple

    def _rewrite(self, schema: Any, depth: int, chain: frozenset[str]) -> Json:
        """Return a rewritten subschema, or `{}` if it accepts any value or a limit is exceeded.

        *depth* is the nesting depth, and *chain* contains the references that lead to this subschema.
        """
        self._left -= 1
        if depth > MAX_DEPTH or self._is_exhausted or not isinstance(schema, dict):
            return {}
        members, chain = self._resolve(cast("Json", schema), chain)
        if depth and not self._count_entries(members):
            return {}
        branches = [branch for key in _ALTERNATIVES for branch in _list(members.get(key))]
        is_object = "object" in _find_types(members)
        if "allOf" in members or (branches and is_object):
            members, branches = self._merge(members, depth, chain), []
        simple: Json = {}
        if isinstance(about := members.get("description"), str):
            simple["description"] = about[:MAX_TEXT]
        values = [members["const"]] if "const" in members else _list(members.get("enum"))
        is_nullable = self._dialect.has_nullable and _accepts_null(members, branches, values)
        branches = [branch for branch in branches if not _is_null(branch)]
        if branches and "type" not in members and not values:
            found = self._join([self._rewrite(branch, depth + 1, chain) for branch in branches])
            return simple | (_make_nullable(found) if is_nullable else found)
        values = [value for value in values if value is not None]
        if values and len(values) <= self._left:
            self._left -= len(values)
            found = self._rewrite_values(values, simple.get("description", ""))
        else:
            kinds = _find_types(members)
            found = self._join([self._rewrite_type(members, kind, depth, chain) for kind in kinds])
        return simple | (_make_nullable(found) if is_nullable else found)

    @property
    def _is_exhausted(self) -> bool:
        return self._left < 0 or self._entries_left < 0

    def _count_entries(self, members: Json) -> bool:
        """Add the entries of a subschema to the total for the schema; return False if a limit is exceeded."""
        lists = (cast("list[Any] | Json", value) for value in members.values() if isinstance(value, list | dict))
        self._entries_left -= len(members) + sum(map(len, lists))
        return not self._is_exhausted

    def _join(self, branches: list[Json]) -> Json:
        """Return a schema that accepts every value that at least one of *branches* accepts.

        Duplicate and empty branches are dropped.
        """
        kept = [*{encode(branch): branch for branch in branches if branch}.values()]
        return {"anyOf": kept} if len(kept) > 1 else kept[0] if kept else {}

    def _rewrite_values(self, values: list[Any], about: str) -> Json:
        """Return a schema for a value that must be one of *values*.

        The values are listed in `enum` or, if the dialect does not allow that, in the description *about*. If the
        description cannot list them either, the schema contains only their type, or is `{}` if they are arrays or have
        different types.
        """
        kinds = dict.fromkeys(_value_type(value) for value in values)
        kind = "number" if set(kinds) == {"number", "integer"} else next(iter(kinds)) if len(kinds) == 1 else ""
        if kind in ("", "object", "array") or any(isinstance(value, str) and len(value) > MAX_TEXT for value in values):
            return {"type": kind} if kind and kind != "array" else {}
        if kind == "string":
            listed = [value for value in values if value]
            return {"type": kind, "enum": listed} if listed else {"type": kind}
        if self._dialect.has_any_enum:
            return {"type": kind, "enum": values}
        if kind == "boolean" or len(values) > _MAX_LISTED_VALUES:
            return {"type": kind}
        listed = f"One of: {', '.join(str(value) for value in values)}."
        return {"type": kind, "description": f"{about} {listed}".strip()[:MAX_TEXT]}

    def _rewrite_type(self, members: Json, kind: str, depth: int, chain: frozenset[str]) -> Json:
        simple: Json = {"type": kind}
        if self._dialect.has_limits:
            simple |= {name: members[name] for name in _LIMITS.get(kind, ()) if _is_limit(name, members.get(name))}
        if kind == "array":
            items: Any = members.get("items")
            if isinstance(items, list) or "prefixItems" in members:
                parts = [*_list(members.get("prefixItems")), *_list(items)]
                simple["items"] = self._typed(self._join([self._rewrite(part, depth + 1, chain) for part in parts]))
            else:
                simple["items"] = self._typed(self._rewrite(items, depth + 1, chain))
        elif kind == "object":
            simple |= self._rewrite_properties(members, depth, chain)
        return simple

    def _rewrite_properties(self, members: Json, depth: int, chain: frozenset[str]) -> Json:
        checks_names = depth and self._dialect.checked_names == "all"
        properties = as_object(members.get("properties"))
        omitted = {
            name
            for name in properties
            if name == "$ref"  # litellm takes it for a reference
            or len(name) > MAX_TEXT
            or (checks_names and not ARGUMENT_NAME.fullmatch(name))
        }
        simple = {
            name: self._typed(self._rewrite(value, depth + 1, chain))
            for name, value in properties.items()
            if name not in omitted
        }
        required = dict.fromkeys(
            name for name in _list(members.get("required")) if isinstance(name, str) and name in simple
        )
        result: Json = {"properties": simple} | ({"required": [*required]} if required else {})
        if self._dialect.has_maps and isinstance(others := members.get("additionalProperties"), dict | bool):
            result["additionalProperties"] = self._rewrite(others, depth + 1, chain) if others else others
        if omitted:
            note = _describe_omitted({name: properties[name] for name in properties if name in omitted}, members)
            about = members.get("description")
            about = about[: MAX_TEXT - len(note) - 1] if isinstance(about, str) else ""
            result["description"] = f"{about} {note}".strip()
        return result

    def _typed(self, schema: Json) -> Json:
        """Return *schema* with a type; if it has none, add the types that mean "any value" in the dialect.

        Without a type, litellm would add the type `object` for Gemini.
        """
        if "type" in schema or "anyOf" in schema:
            return schema
        return schema | self._join([{"type": kind} for kind in self._dialect.any_types])

    def _merge(self, schema: Json, depth: int, chain: frozenset[str]) -> Json:
        """Return a schema into which the subschemas of its `allOf`, `anyOf` and `oneOf` are merged.

        All their properties are included, but a property is required only if the schema itself or `allOf` requires
        it. For *depth* and *chain*, see `_rewrite`.
        """
        members, chain = self._resolve(schema, chain)
        if depth and not self._count_entries(members):
            return {}
        merged: Json = {key: value for key, value in members.items() if key not in (*COMBINATORS, "not")}
        properties: Json = {}
        required = _names(members)
        for key in ("allOf", *_ALTERNATIVES):
            for branch in _list(members.get(key)):
                self._left -= 1
                if depth > MAX_DEPTH or self._is_exhausted or not isinstance(branch, dict):
                    continue
                inner = self._merge(cast("Json", branch), depth + 1, chain)
                properties |= as_object(inner.get("properties"))
                if key == "allOf":
                    required |= _names(inner)
                    for name, value in inner.items():
                        if name != "required":
                            merged.setdefault(name, value)
        properties |= as_object(members.get("properties"))
        found: Json = {"properties": properties, "required": [*required]}
        return merged | {key: value for key, value in found.items() if value}

    def _resolve(self, schema: Json, chain: frozenset[str]) -> tuple[Json, frozenset[str]]:
        """Replace a local `$ref` with its target; a circular or broken reference is dropped.

        *chain* contains the references that lead to the schema. Returns the new schema and the new chain, which also
        contains the references that were replaced.
        """
        for _ in range(MAX_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema, chain
            self._entries_left -= len(schema)
            if self._is_exhausted:
                break
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            if reference in chain:
                target = self._find_target(reference)
                kinds = _find_types(target) if self._count_entries(target) else []
                return (rest | {"type": kinds[0]} if kinds else rest), chain
            chain |= {reference}
            schema = self._find_target(reference) | rest
        return {}, chain

    def _find_target(self, reference: str) -> Json:
        if len(reference) > MAX_TEXT:
            return {}
        found: Any = self._root
        for word in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]:
            found = as_object(found).get(word.replace("~1", "/").replace("~0", "~"))
        return as_object(found)


def _describe_omitted(properties: Json, members: Json) -> str:
    """Return a sentence for the model that lists the properties omitted from an object's schema.

    *properties* are the omitted properties, and *members* are the members of the object's original schema. If many
    properties were omitted, only some are listed, followed by the number of the others.
    """
    required, told, length = _names(members), list[str](), 0
    for name, value in properties.items():
        if len(told) == _MAX_TOLD_NAMES:
            break
        if length + len(name) > MAX_TEXT // 2:
            continue  # before it is encoded: a reference may repeat a name of a megabyte two thousand times
        facts = [*_find_types(as_object(value))[:1], *(["required"] if name in required else [])]
        words = dumps(name) + (f" ({', '.join(facts)})" if facts else "")
        if length + len(words) <= MAX_TEXT // 2:
            length += len(words)
            told.append(words)
    if left := len(properties) - len(told):
        told.append(f"{left:,} more")
    return f"It also has {', '.join(told)}."


def _find_types(members: Json) -> list[str]:
    kinds = [members.get("type")] if isinstance(members.get("type"), str) else _list(members.get("type"))
    known = [kind for kind in _TYPES if kind in kinds]
    return known or (["object"] if "properties" in members else ["array"] if "items" in members else [])


def _value_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "array" if isinstance(value, list) else "object"


def _accepts_null(members: Json, branches: list[Any], values: list[Any]) -> bool:
    is_listed = "null" in _list(members.get("type")) or None in values
    return is_listed or members.get("nullable") is True or any(_is_null(branch) for branch in branches)


def _make_nullable(schema: Json) -> Json:
    """Add OpenAPI's `nullable` to a schema or, if the schema has `anyOf`, to each of its alternatives.

    litellm drops all other members of a schema with `anyOf`.
    """
    if "anyOf" in schema:
        return schema | {"anyOf": [branch | {"nullable": True} for branch in schema["anyOf"]]}
    return schema | {"nullable": True}


def _is_null(schema: Any) -> bool:
    return as_object(schema).get("type") == "null"


def _is_limit(name: str, value: Any) -> bool:
    if name in ("format", "pattern"):
        return isinstance(value, str) and len(value) <= MAX_TEXT
    return is_number(value) and (name in _NUMBER_LIMITS or (isinstance(value, int) and value >= 0))


def _names(members: Json) -> dict[str, None]:
    return dict.fromkeys(name for name in _list(members.get("required")) if isinstance(name, str))


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
