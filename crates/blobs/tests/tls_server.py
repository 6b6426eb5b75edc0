"""A server of one bucket that speaks S3 over TLS: whole objects, ranges and lists.

Arguments: the certificate and its key. Prints its port.
"""
import re
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

DATE = "Sat, 01 Jan 2028 00:00:00 GMT"
objects = {}


class Bucket(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def name(self):
        return unquote(urlsplit(self.path).path).removeprefix("/bucket").lstrip("/")

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in (("Last-Modified", DATE), ("ETag", '"1"'), *headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self):
        objects[self.name()] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200)

    def do_POST(self):
        """Removes the objects that the body names."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        names = [unescape(name) for name in re.findall("<Key>(.*?)</Key>", body)]
        for name in names:
            objects.pop(name, None)
        removed = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        self.answer(200, f"<DeleteResult>{removed}</DeleteResult>".encode())

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self.answer(200, listed(query.get("prefix", [""])[0]))
        elif self.name() not in objects:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif "Range" in self.headers:
            whole = objects[self.name()]
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            part = whole[first : last + 1]
            end = first + len(part) - 1
            self.answer(206, part, [("Content-Range", f"bytes {first}-{end}/{len(whole)}")])
        else:
            self.answer(200, objects[self.name()])

    def log_message(self, *_):
        pass


def listed(prefix):
    inside = [name for name in objects if name.startswith(prefix)]
    below = {prefix + name[len(prefix) :].split("/")[0] for name in inside}
    files = [
        f"<Contents><Key>{escape(name)}</Key><Size>{len(objects[name])}</Size><ETag>1</ETag>"
        "<LastModified>2028-01-01T00:00:00.000Z</LastModified></Contents>"
        for name in sorted(below & set(objects))
    ]
    directories = [
        f"<CommonPrefixes><Prefix>{escape(name)}/</Prefix></CommonPrefixes>"
        for name in sorted(below - set(objects))
    ]
    return f"<ListBucketResult>{''.join(files + directories)}</ListBucketResult>".encode()


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that refuses the certificate ends its connection."""


server = Server(("127.0.0.1", 0), Bucket)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
# Each thread makes the handshake of its own connection.
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
