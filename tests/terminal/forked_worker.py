"""Run mcphost with the model worker that the first argument names, as JSON; the rest are mcphost's own."""

import json
import sys

from mcphost.__main__ import main
from mcphost.llm import worker_client

worker_client.WORKER_COMMAND = tuple(json.loads(sys.argv.pop(1)))
main()
