"""A real HTTP server of this machine that keeps what is posted to it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Listener:
    """What was posted, and how the server answers."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.heard: list[dict[str, Any]] = []
        self.status = 200
        self.hangs = threading.Event()
        self.address = f"http://127.0.0.1:{server.server_port}/hooks/secret-part"


@contextmanager
def listening() -> Iterator[Listener]:
    """A server that ends with the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listener.heard.append(json.loads(body))
            if listener.hangs.is_set():
                over.wait(600)
            self.send_response(listener.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener = Listener(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield listener
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
