"""Run mcphost with the model worker given as JSON in the first argument; the other arguments are passed on."""

import json
import sys

from mcphost.__main__ import main
from mcphost.llm import worker_client

worker_client.WORKER_COMMAND = tuple(json.loads(sys.argv.pop(1)))
main()
