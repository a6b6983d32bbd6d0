"""Check mcphost's messages against the schema of their protocol revision; unknown members are errors."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

SCHEMAS = Path(__file__).resolve().parent / "schema"
# Members that a revision's schema leaves open on purpose.
_OPEN = {"arguments", "_meta", "content", "data", "experimental", "extensions", "metadata", "structuredContent"}


class RevisionSchema:
    """The schema of a protocol revision: the methods that a client may send, and the form of each message."""

    def __init__(self, revision: str) -> None:
        self._schema = json.loads((SCHEMAS / f"{revision}.json").read_text(encoding="utf-8"))
        self._key = "$defs" if "$defs" in self._schema else "definitions"
        self._defs: dict[str, Any] = self._schema[self._key]
        self._validators: dict[str, Any] = {}
        self.requests = self._methods("ClientRequest")
        self.notifications = self._methods("ClientNotification")

    def _methods(self, union: str) -> dict[str, str]:
        """Return the definition of each method in a union of messages, which may also be a single definition."""
        members = [item["$ref"].rsplit("/", 1)[-1] for item in self._defs[union].get("anyOf", [])] or [union]
        return {self._defs[name]["properties"]["method"]["const"]: name for name in members}

    def find_faults(self, name: str, value: Any) -> list[str]:
        """Return what is wrong with a value according to the definition *name*: schema errors and unknown members."""
        return self.schema_errors(name, value) or self._unknown_members(self._defs[name], value, "")

    def schema_errors(self, name: str, value: Any) -> list[str]:
        """Return the schema errors of a value, without unknown members."""
        if name not in self._validators:
            self._validators[name] = jsonschema_rs.validator_for(
                {"$schema": self._schema["$schema"], "$ref": f"#/{self._key}/{name}", self._key: self._defs}
            )
        errors = self._validators[name].iter_errors(value)
        return [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in errors]

    def _unknown_members(self, schema: Any, value: Any, at: str) -> list[str]:
        """Return members that the schema does not mention; JSON Schema allows them, but other programs may not."""
        shapes = self._object_schemas(schema)
        if isinstance(value, list):
            items = [shape["items"] for shape in shapes if isinstance(shape.get("items"), dict)]
            return [
                fault
                for entry in value
                for item in items[:1]
                for fault in self._unknown_members(item, entry, f"{at}[]")
            ]
        named = [shape["properties"] for shape in shapes if "properties" in shape]
        if not isinstance(value, dict) or not named:
            return []
        found = []
        for member, below in value.items():
            if member == "_meta":
                continue  # the older schemas name it once, for every request
            inside = [properties[member] for properties in named if member in properties]
            if not inside:
                found.append(f"{at}/{member} is not known")
            elif member not in _OPEN:
                found += min((self._unknown_members(item, below, f"{at}/{member}") for item in inside), key=len)
        return found

    def _object_schemas(self, schema: Any) -> list[dict[str, Any]]:
        if "$ref" in schema:
            return self._object_schemas(self._defs[schema["$ref"].rsplit("/", 1)[-1]])
        inner = [*schema.get("anyOf", []), *schema.get("allOf", []), *schema.get("oneOf", [])]
        return [schema, *(shape for item in inner for shape in self._object_schemas(item))]

    def has_definition(self, name: str) -> bool:
        """Return whether the revision has a definition with this name."""
        return name in self._defs

    def check_message(self, message: Any) -> list[str]:
        """Return what is wrong with a request or notification sent by mcphost."""
        if not isinstance(message, dict):
            return ["it is no object"]
        method = message.get("method")
        kinds = self.requests if "id" in message else self.notifications
        if method not in kinds:
            return [f"a client does not send {method!r} in this revision"]
        envelope = "JSONRPCRequest" if "id" in message else "JSONRPCNotification"
        specific = message
        if "jsonrpc" not in self._defs[kinds[method]]["properties"]:
            # The older schemas define the envelope separately.
            specific = {name: value for name, value in message.items() if name not in ("jsonrpc", "id")}
        return [*self.schema_errors(envelope, message), *self.find_faults(kinds[method], specific)]

    def check_response(self, message: Any, result: str) -> list[str]:
        """Return what is wrong with a response sent by mcphost; its result must match the definition *result*."""
        newer = self.has_definition("JSONRPCResultResponse")
        if "error" in message:
            return self.schema_errors("JSONRPCErrorResponse" if newer else "JSONRPCError", message)
        envelope = "JSONRPCResultResponse" if newer else "JSONRPCResponse"
        return [*self.schema_errors(envelope, message), *self.find_faults(result, message["result"])]


@cache
def wire_schema(revision: str) -> RevisionSchema:
    """Return the schema of a revision, which is read only once."""
    return RevisionSchema(revision)
