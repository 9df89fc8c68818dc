"""A server on this machine that speaks the Hugging Face hub's documented URLs, for tests without the hub:

    GET /api/models/OWNER/REPO/tree/REVISION[/FOLDER]  the files, as JSON; in pages, of which each names the next (Link)
    GET /OWNER/REPO/resolve/REVISION/PATH              a file: small ones at once, large ones ("LFS") behind a redirect
                                                       to another host, which must not see the token
    GET /simple/PACKAGE/, /files/NAME                  and a package index, for models that pip fetches

Ranges, If-Range and entity tags are the HTTP standard's (RFC 9110, sections 13 and 14).
"""
import hashlib
import html
import http.server
import json
import pathlib
import re
import threading
import urllib.parse

LARGE = 1000  # Bytes from which on a file is stored as LFS.


class HubDouble:
    """Repositories are set by put(); `requests` notes what came: (host, path, headers)."""

    def __init__(self):
        self.repos = {}     # "owner/repo" -> {"files": {path: bytes}, "token": text or None}
        self.packages = {}  # Name -> [paths of wheels]
        self.requests = []
        self.cut = {}       # Path in a repository -> bytes after which the connection ends, once,
        self.hold = {}      # or stays silent until `released`.
        self.released = threading.Event()
        self.ranges = True
        self.sizes = {}     # Path in a repository -> the bytes that it is said to have; none of them are sent.
        self.page = 1000    # Entries on a page of a list.
        self.damaged = set()  # Files that arrive with another byte.
        self.halved = set()   # Files of which half comes, and nothing says how much it should be.
        self.hub = self.listen("hub")
        self.storage = self.listen("storage")

    def listen(self, host):
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                double.requests.append((host, self.path, dict(self.headers)))
                double.answer(host, self)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self):
        for server in (self.hub, self.storage):
            server.shutdown()
            server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.hub.server_address[1]}"

    def put(self, repo, files, token=None):
        self.repos[repo] = {"files": files, "token": token}

    def fetched(self):
        """The files' paths that were asked for, with their ranges."""
        return [(path.split("?")[0].rsplit("/", 1)[-1], headers.get("Range")) for host, path, headers in self.requests
                if host == "storage" or "/resolve/" in path]

    def answer(self, host, request):
        url = urllib.parse.urlparse(request.path)
        path = url.path
        if host == "storage":
            _, owner, repo, name = path.split("/", 3)
            return self.send_file(request, name, self.repos[f"{owner}/{repo}"]["files"][name])
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/main(?:/(.+))?", path):
            return self.send_list(request, *found.groups(), urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/main/(.+)", path):
            return self.send_resolved(request, *found.groups())
        if found := re.fullmatch(r"/simple/([^/]+)/", path):
            return self.send_index(request, found.group(1))
        if found := re.fullmatch(r"/files/([^/]+)", path):
            wheels = {wheel.name: wheel for wheels in self.packages.values() for wheel in wheels}
            return self.send(request, 200, pathlib.Path(wheels[found.group(1)]).read_bytes())
        return self.send(request, 404, b"Not Found")

    def repo(self, request, name):
        """The repository, if it is there and the client may see it."""
        repo = self.repos.get(name)
        wanted = repo and repo["token"]
        if repo is None or (wanted and request.headers.get("Authorization") != f"Bearer {wanted}"):
            self.send(request, 401, b"Invalid username or password.")  # As the hub says of both.
            return None
        return repo

    def send_list(self, request, name, folder, cursor):
        repo = self.repo(request, name)
        if repo is None:
            return
        prefix = folder + "/" if folder else ""
        entries, folders = [], set()
        for path, data in repo["files"].items():
            if not path.startswith(prefix):
                continue
            rest = path[len(prefix):]
            if "/" in rest:
                folders.add(prefix + rest.split("/")[0])
                continue
            size = self.sizes.get(path, len(data))
            entry = {"type": "file", "path": path, "size": size, "oid": hashlib.sha1(data).hexdigest()}
            if len(data) >= LARGE:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": size, "pointerSize": 134}
            entries.append(entry)
        entries += [{"type": "directory", "path": path, "size": 0, "oid": "0"} for path in sorted(folders)]
        end = int(cursor) + self.page
        link = f'<{self.url}{urllib.parse.urlparse(request.path).path}?cursor={end}>; rel="next"'
        self.send(request, 200, json.dumps(entries[int(cursor):end]).encode(), "application/json",
                  **({"Link": link} if end < len(entries) else {}))

    def send_resolved(self, request, name, path):
        repo = self.repo(request, name)
        if repo is None:
            return
        if path not in repo["files"]:
            self.send(request, 404, b"Entry not found")
        elif len(repo["files"][path]) < LARGE:
            self.send_file(request, path, repo["files"][path])
        else:
            request.send_response(302)
            port = self.storage.server_address[1]
            request.send_header("Location", f"http://127.0.0.1:{port}/{name}/{path}?signature=x")
            request.send_header("Content-Length", "0")
            request.end_headers()

    def send_file(self, request, name, data):
        tag = '"' + hashlib.sha256(data).hexdigest()[:16] + '"'
        if name in self.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        begin = int(found.group(1)) if found and self.ranges else 0
        if request.headers.get("If-Range", tag) != tag:
            begin = 0
        if begin >= len(data) > 0:
            self.send(request, 416, b"")
            return
        body = data[begin:]
        if name in self.halved:
            request.send_response(200)
            request.end_headers()
            request.wfile.write(data[:len(data) // 2])
            request.close_connection = True
            return
        if name in self.sizes:
            request.send_response(200)
            request.send_header("Content-Length", str(self.sizes[name]))
            request.end_headers()
            request.close_connection = True
            return
        request.send_response(206 if begin else 200)
        request.send_header("ETag", tag)
        request.send_header("Content-Length", str(len(body)))
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        request.end_headers()
        cut, hold = self.cut.pop(name, None), self.hold.pop(name, None)
        if cut is None and hold is None:
            request.wfile.write(body)
            return
        request.wfile.write(body[:cut if hold is None else hold])
        request.wfile.flush()
        if hold is not None:
            self.released.wait(60)
        request.close_connection = True

    def send_index(self, request, package):
        links = "".join(f'<a href="../../files/{html.escape(wheel.name)}">{html.escape(wheel.name)}</a>'
                        for wheel in self.packages.get(package, ()))
        self.send(request, 200 if links else 404, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(),
                  "text/html")

    def send(self, request, status, body, content_type="text/plain", **fields):
        request.send_response(status)
        request.send_header("Content-Type", content_type)
        for name, value in fields.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
