"""An HTTP server that answers the first request with the raw bytes of a file, and later requests with 404.

python hostile_http.py FILE
"""

# pyright: basic

import socket
import sys
from contextlib import suppress
from pathlib import Path


def main() -> None:
    answer = Path(sys.argv[1]).read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                data = answer
                answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
                asked = b""
                while b"\r\n\r\n" not in asked:
                    more = connection.recv(65536)
                    if not more:
                        break
                    asked += more
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass


if __name__ == "__main__":
    main()
