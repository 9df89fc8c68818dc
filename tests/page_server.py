#!/usr/bin/env python3
"""Shows the page without a model, for people who work on it: the files of web/, read anew each time, under the program's policy,
and the recorded minute of events again and again as /admin/events. Chats are answered with a few words.

usage: page_server.py [--port 8090] [--speed 1]     then open http://127.0.0.1:8090/
"""
import argparse
import gzip
import http.server
import json
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
WEB = HERE.parent / "web"
CHART = pathlib.Path("/usr/share/javascript/chart.js/chart.min.js")
RECORDED = HERE / "data" / "events" / "minute.sse.gz"
# As src/server/web_handlers.cc sends it.
POLICY = "".join(re.findall(r'"([^"\n]*)"', re.search(r"kPolicy =\n(.*?);\n", (
    HERE.parent / "src/server/web_handlers.cc").read_text(encoding="utf-8"), re.S).group(1)))
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml", ".png": "image/png"}


class Handler(http.server.BaseHTTPRequestHandler):
    speed = 1.0

    def changed(self, frame):
        """The frame as it is sent; a test may have others."""
        return frame

    def start_answer(self, status, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()

    def answer(self, status, body, kind="application/json"):
        self.start_answer(status, kind)
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # The page was closed.

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/admin/events":
            self.replay()
        elif path == "/v1/models":
            self.answer(200, {"object": "list", "data": [{"id": "recorded", "object": "model", "max_model_len": 2048}]})
        else:
            name = {"/": "index.html", "/chat": "chat.html"}.get(path, path.removeprefix("/web/"))
            file = CHART if name == "chart.js" else WEB / name
            if "/" in name or not file.is_file():
                self.answer(404, {"error": {"message": "There is nothing at this path."}})
            else:
                self.answer(200, file.read_bytes(), TYPES[file.suffix])

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.start_answer(200, "text/event-stream")
        words = "This answer comes from **page_server.py**:\n\n```python\nprint('no model')\n```\n".split(" ")
        for number, word in enumerate(words):
            choice = {"index": 0, "delta": {"content": (" " if number else "") + word}, "finish_reason": None}
            self.event({"object": "chat.completion.chunk", "model": "recorded", "choices": [choice]})
            time.sleep(0.05)
        self.event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        usage = {"prompt_tokens": 12, "completion_tokens": len(words), "total_tokens": 12 + len(words)}
        self.event({"object": "chat.completion.chunk", "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, data, name=None):
        self.wfile.write(((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n").encode())
        self.wfile.flush()

    def replay(self):
        """The minute at its own pace, as if it were now, and again from its begin, where the ids are the same."""
        events = [re.fullmatch(r"event: (\w+)\ndata: (.*)", one).groups()
                  for one in gzip.decompress(RECORDED.read_bytes()).decode().split("\n\n") if one.startswith("event")]
        self.start_answer(200, "text/event-stream")
        self.event(json.loads(events[0][1]), "hello")
        first = json.loads(events[1][1])["at"]
        while True:
            begin = time.time()
            for name, text in events[1:]:
                frame = json.loads(text)
                pause = begin + (frame["at"] - first) / self.speed - time.time()
                time.sleep(max(0.0, pause))
                moved = time.time() - frame["at"]
                frame["at"] += moved
                for ended in frame["ended"]:
                    ended["at"] += moved
                self.event(self.changed(frame), name)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--speed", type=float, default=1)
    args = parser.parse_args()
    Handler.speed = args.speed
    with http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
