"""A stdio server of the handshake era that answers each method with the bytes of a file, using almost no CPU time.

python hostile_server.py REVISION CAPABILITIES [METHOD=FILE ...]

`%N%` in a file is replaced by the number of the message. The file for the METHOD "after" is written as soon as the
handshake is done.
"""

# pyright: basic

import json
import sys
from pathlib import Path


def main() -> None:
    revision, capabilities, *pairs = sys.argv[1:]
    files = {method: Path(file).read_bytes() for method, _, file in (pair.partition("=") for pair in pairs)}
    out = sys.stdout.buffer
    for number, line in enumerate(sys.stdin.buffer):
        message = json.loads(line)
        method = message.get("method", "")
        if method == "notifications/initialized" and "after" in files:
            out.write(files["after"])
        if "id" not in message or not method:
            out.flush()
            continue
        if method == "initialize":
            info = {"name": "hostile", "version": "1"}
            body = json.dumps(
                {"protocolVersion": revision, "capabilities": json.loads(capabilities), "serverInfo": info}
            ).encode()
        else:
            body = files.get(method, b"{}").replace(b"%N%", b"%d" % number)
        out.write(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (message["id"], body))
        out.flush()


if __name__ == "__main__":
    main()
