"""Where arguments of tool calls came from: text of servers and files that a call would carry elsewhere."""
