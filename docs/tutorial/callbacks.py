"""Plays the callback side of both banks: prints and accepts every message from the switch."""
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Bank(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def take(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        _, bank, path = self.path.split("/", 2)
        sender = self.headers["FSPIOP-Source"]
        line = f"{bank} <- {self.command} /{path} (from {sender}) {body}".rstrip()
        print(line + "\n", end="", flush=True)  # One write, so that lines are not interleaved.
        self.send_response(200 if self.command in ("PUT", "PATCH") else 202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_PATCH = take
    log_message = lambda self, *_: None

server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Bank)
print(f"callbacks: ready on port {server.server_port}", flush=True)
server.serve_forever()
