"""What measures a server from its clients' side where `ropeway bench serve` does not: a relay that sends each connection to a
random server, and thousands of streams that are held open."""
import asyncio
import json
import os
import pathlib
import random
import re
import resource
import selectors
import socket
import threading
import time

from ropeway_bench import BenchError


class RandomRelay:
    """Passes each connection on to one of `ports`, drawn from the seed; on a thread of its own. Use it in a with statement."""

    def __init__(self, ports, seed):
        self.ports, self.numbers = ports, random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=512))
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.server.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    async def serve(self, reader, writer):
        try:
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self.numbers.choice(self.ports))
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(self.copy(reader, onward_writer), self.copy(onward_reader, writer))
        except asyncio.CancelledError:  # The relay ends.
            pass

    @staticmethod
    async def copy(reader, writer):
        try:
            while some := await reader.read(65536):
                writer.write(some)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


def raise_descriptor_limit():
    """The descriptors that this process may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class HeldStreams:
    """Streams that are open at once, each with its first token. Use it in a with statement."""

    def __init__(self, port, count, patience):
        self.sockets = []
        self.selector = selectors.DefaultSelector()
        begin = time.monotonic()
        body = {"prompt": "hold on", "max_tokens": 1000, "stream": True}
        try:
            for i in range(count):
                self.open(port, json.dumps(body | {"user": f"{i}"}).encode())
                if i % 100 == 0:
                    self.read(0.0)
            while self.selector.get_map():
                if time.monotonic() - begin > patience:
                    raise BenchError(f"{len(self.selector.get_map())} of {count} streams had no token after {patience} s")
                self.read(1.0)
        except OSError as error:
            self.close()
            raise BenchError(f"{len(self.sockets)} of {count} streams could be opened: {error}") from error
        except BaseException:
            self.close()
            raise
        self.seconds = time.monotonic() - begin

    def open(self, port, data):
        sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.sockets.append(sock)
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.selector.register(sock, selectors.EVENT_READ, bytearray())

    def read(self, seconds):
        for key, _ in self.selector.select(seconds):
            some = key.fileobj.recv(65536)
            key.data.extend(some)
            if not some or not bytes(key.data).startswith(b"HTTP/1.1 200 "[:len(key.data)]):
                raise BenchError(f"a stream ended: {bytes(key.data[:300])!r}")
            if b"word" in key.data:  # Its first token.
                self.selector.unregister(key.fileobj)

    def close(self):
        for sock in self.sockets:
            sock.close()
        self.selector.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def cpu_seconds(pid):
    """User and system time of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s*(\d+)", status)[1]) / 1024
