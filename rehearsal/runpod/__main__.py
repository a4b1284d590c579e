"""`python -m rehearsal.runpod --state DIR`: serve the double until it is told to end."""

import argparse
import json
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from rehearsal.runpod.containers import birth
from rehearsal.runpod.platform import Answer, Request, RunPod


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    platform: RunPod
    timeout = 60
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(url.query))
        self._send(self.platform.answer(Request(self.command, url.path, query, headers, body)))

    do_GET = do_POST = do_DELETE = do_PATCH = _serve  # noqa: N815 - http.server's names

    def _send(self, answer: Answer) -> None:
        time.sleep(answer.wait_s)
        if answer.fate == "lost":
            return self._break()
        is_stream = answer.kind == "text/event-stream"
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", answer.kind)
        if not is_stream:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.fate == "cut":
            self.wfile.write(answer.body[: len(answer.body) // 2])
            return self._break()
        self.wfile.write(answer.body)
        return self._stay() if is_stream else None

    def _stay(self) -> None:
        """A stream of logs goes on: nothing more comes, and nothing says that it is over."""
        self.close_connection = True
        self.wfile.flush()
        for _ in range(600):
            time.sleep(0.1)
            try:
                self.wfile.write(b": still there\n\n")
            except OSError:
                return

    def _break(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed: requests are in the state's folder."""


class Server(ThreadingHTTPServer):
    """A server whose threads end with it."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder of everything it knows")
    parser.add_argument("--factor", type=float, default=1.0, help="how much faster time passes")
    parser.add_argument("--until", type=int, default=0, help="process with which it ends as well")
    options = parser.parse_args()
    options.state.mkdir(parents=True, exist_ok=True)
    address = options.state / "address.json"
    port = json.loads(address.read_text())["port"] if address.exists() else 0
    server = Server(("127.0.0.1", port), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    Handler.platform = RunPod(options.state.absolute(), url, options.factor)
    keys = Handler.platform.state["keys"]
    key = next(name for name, value in keys.items() if value["pod"] is None)
    part = address.with_suffix(".part")
    part.write_text(json.dumps({"port": server.server_port, "url": url, "key": key}))
    part.replace(address)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    threading.Thread(target=Handler.platform.live, daemon=True).start()
    if options.until:
        threading.Thread(target=_follow, args=(options.until, server), daemon=True).start()
    server.serve_forever(poll_interval=0.05)
    Handler.platform.close()


def _follow(pid: int, server: Server) -> None:
    """A test that was killed leaves nothing running."""
    born = birth(pid)
    while born and birth(pid) == born:
        time.sleep(1)
    server.shutdown()


if __name__ == "__main__":
    main()
