"""Run by a program that starts commands itself: lets a fork server run a script with these streams and arguments.

The server's address and the script are in the environment: MCPHOST_TEST_FORKS, MCPHOST_TEST_SCRIPT.
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["MCPHOST_TEST_FORKS"])
    script = os.environ["MCPHOST_TEST_SCRIPT"]
    request = {"script": script, "arguments": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}
    line = json.dumps(request).encode() + b"\n"
    server.sendall(line[socket.send_fds(server, [line], [0, 1, 2]) :])
    with server.makefile("rb") as told:
        pid = int(told.readline())
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
        sys.exit(int(told.readline()))
