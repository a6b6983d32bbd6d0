"""Run mcphost with the arguments after the first one, which is the command of the model worker as JSON."""

import json
import sys

from mcphost.__main__ import main
from mcphost.llm import worker_client

worker_client.WORKER_COMMAND = tuple(json.loads(sys.argv.pop(1)))
main()
