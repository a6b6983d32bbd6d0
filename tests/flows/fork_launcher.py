"""A program that asks a fork server to run a command with the program's own streams, and exits with its status.

Other programs, such as the conformance suite, run it in place of the command.
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ.get("MCPHOST_TEST_FORKS") or sys.argv.pop(1))
    request = {
        "script": os.environ.get("MCPHOST_TEST_SCRIPT", ""),
        "arguments": sys.argv[1:],
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "launched": True,
    }
    line = json.dumps(request).encode() + b"\n"
    server.sendall(line[socket.send_fds(server, [line], [0, 1, 2]) :])
    with server.makefile("rb") as told:
        pid = int(told.readline())
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda number, _: os.kill(pid, number))
        sys.exit(int(told.readline()))
