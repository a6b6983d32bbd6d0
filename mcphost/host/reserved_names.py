"""Names of the host's own tools, which no server's tool may have for the model."""

LOAD_SKILL = "load_skill"
READ_RESULT = "read_result"
RESERVED_TOOL_NAMES = (LOAD_SKILL, READ_RESULT)
