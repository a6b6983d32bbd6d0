"""Names of mcphost's built-in tools; no server's tool is offered to the model under one of these names."""

LOAD_SKILL = "load_skill"
READ_RESULT = "read_result"
READ_CONVERSATION = "read_conversation"
SEARCH_TOOLS = "search_tools"
RESERVED_TOOL_NAMES = (LOAD_SKILL, READ_RESULT, READ_CONVERSATION, SEARCH_TOOLS)
