"""Names of the host's own tools, which are reserved: no tool of a server is offered to the model under them."""

LOAD_SKILL = "load_skill"
READ_RESULT = "read_result"
RESERVED_TOOL_NAMES = (LOAD_SKILL, READ_RESULT)
