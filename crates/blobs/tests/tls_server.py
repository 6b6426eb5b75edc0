"""A server of one bucket that speaks S3, and the protocols of Google and Azure, over TLS: whole
objects, ranges and lists.

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
        if "comp" in parse_qs(urlsplit(self.path).query):
            return self.remove_batch(body)
        names = [unescape(name) for name in re.findall("<Key>(.*?)</Key>", body)]
        for name in names:
            objects.pop(name, None)
        removed = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        self.answer(200, f"<DeleteResult>{removed}</DeleteResult>".encode())

    def remove_batch(self, body):
        """The same in the form of Azure: one DELETE after another."""
        parts = []
        for number, name in enumerate(re.findall("DELETE /bucket/(\\S+) HTTP/1.1", body)):
            found = objects.pop(unquote(name), None) is not None
            status = "202 Accepted" if found else "404 Not Found"
            parts.append(
                f"--batch\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n\r\n"
            )
        kind = ("Content-Type", "multipart/mixed; boundary=batch")
        self.answer(202, ("".join(parts) + "--batch--\r\n").encode(), [kind])

    def do_DELETE(self):
        found = objects.pop(self.name(), None) is not None
        self.answer(204 if found else 404)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self.answer(200, listed(query.get("prefix", [""])[0]))
        elif query.get("comp") == ["list"]:
            self.answer(200, listed_for_azure(query.get("prefix", [""])[0]))
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


def below(prefix):
    """Names of files and of directories."""
    inside = [name for name in objects if name.startswith(prefix)]
    found = {prefix + name[len(prefix) :].split("/")[0] for name in inside}
    return sorted(found & set(objects)), sorted(found - set(objects))


def listed_for_azure(prefix):
    names, directories = below(prefix)
    blobs = [
        f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{DATE}</Last-Modified>"
        f"<Etag>1</Etag><Content-Length>{len(objects[name])}</Content-Length>"
        "<Content-Type>binary</Content-Type></Properties></Blob>"
        for name in names
    ]
    blobs += [f"<BlobPrefix><Name>{escape(name)}/</Name></BlobPrefix>" for name in directories]
    blobs = f"<Blobs>{''.join(blobs)}</Blobs>"
    return f"<EnumerationResults>{blobs}<NextMarker/></EnumerationResults>".encode()


def listed(prefix):
    names, directories = below(prefix)
    files = [
        f"<Contents><Key>{escape(name)}</Key><Size>{len(objects[name])}</Size><ETag>1</ETag>"
        "<LastModified>2028-01-01T00:00:00.000Z</LastModified></Contents>"
        for name in names
    ]
    directories = [
        f"<CommonPrefixes><Prefix>{escape(name)}/</Prefix></CommonPrefixes>"
        for name in directories
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
