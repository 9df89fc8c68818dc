"""A running `ropeway serve`, as the tests start it and ask it."""
import http.client
import json
import pathlib
import re
import subprocess
import tempfile
import time

import child

# A bound for what hangs: no machine is so busy.
PATIENCE = 120


def eventually(holds, what, patience=PATIENCE, pause=0.01):
    """Waits until holds()."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(pause)


def metric(text, name, labels=None):
    """Of the text of /metrics: the sum over the series of that name, or the one series with exactly these labels."""
    which = r"(?:\{[^}]*\})?" if labels is None else re.escape(f"{{{labels}}}")
    found = re.findall(rf"^{name}{which} ([0-9.e+-]+)$", text, re.MULTILINE)
    assert found, f"no metric {name} in:\n{text}"
    return sum(map(float, found))


class RopewayServer:
    """It is ready, on a port of its own choice unless one is given. Start it in the main thread (child.py)."""

    key = ""  # Of requests that name none.
    admin_key = ""  # Of --admin-key: sees the numbers of all tenants.
    patience = PATIENCE  # With its start, and with each answer, in seconds.
    failure = RuntimeError  # What is raised where it does not start.
    stderr = subprocess.STDOUT  # Where it writes its log; by default beside what it prints.

    def __init__(self, ropeway, model, *flags, port=0, environment=None):
        self.launch([ropeway, "serve", "--model", model, "--port", port, *flags], environment)

    def launch(self, command, environment=None, ready=True):
        """Starts it; with `ready`, waits until it takes requests."""
        # A file, not a pipe, which would fill up: the log is read at the end.
        self.log = tempfile.NamedTemporaryFile("w+", prefix="ropeway-serve-")
        self.process = child.start(command, stdout=self.log, stderr=self.stderr, env=environment)
        try:
            self.port = self.wait_for_port()
            if ready:
                self.wait_until_ready()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def wait_for_port(self):
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            found = re.search(r" on https?://\S+:(\d+)\n", self.output())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                raise self.failure(f"it ended early: {self.output()}")
            time.sleep(0.005)
        raise self.failure(f"no address within {self.patience} s: {self.output()}")

    def wait_until_ready(self):
        eventually(lambda: self.get("/readyz")[0] == 200, "/readyz says 200", self.patience)

    def output(self):
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")

    def connect(self, timeout):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, key="", timeout=None):
        """Status, text and headers of the answer. The body is bytes, or what becomes JSON."""
        connection = self.connect(timeout or self.patience)
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            key = key or self.key
            connection.request(method, path, data, {"Content-Type": "application/json",
                                                    **({"Authorization": f"Bearer {key}"} if key else {})})
            reply = connection.getresponse()
            return reply.status, reply.read().decode(), reply.headers
        finally:
            connection.close()

    def get(self, path, key=""):
        return self.request("GET", path, key=key)

    def metric(self, name, tenant=None):
        """The sum over its series, or the series of a tenant."""
        text = self.get("/metrics", self.admin_key)[1]
        return metric(text, name, tenant and f'tenant="{tenant}"')
