"""A server like OpenAI's that computes nothing: what stands between it and its clients can be measured by itself.

An answer's first token comes at once, the others `--pause` seconds apart, as many as `max_tokens` says. Run as a program:

    python fast_backend.py --port PORT [--pause SECONDS]
"""
import argparse
import asyncio
import itertools
import json
import resource
import signal

NUMBERS = itertools.count(1)
MODEL = "fast"


def head(content_type, length=None):
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{framing}\r\n\r\n".encode()


def chunk(value):
    data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


class Answer:
    """To one request."""

    def __init__(self, path, body):
        self.chat = path.endswith("/chat/completions")
        self.count = body.get("max_tokens") or body.get("max_completion_tokens") or 16
        prompt = body.get("prompt", "")
        words = len(prompt if isinstance(prompt, list) else str(body.get("messages", prompt)).split())
        self.usage = {"prompt_tokens": words, "completion_tokens": self.count, "total_tokens": words + self.count}
        self.begin = {"id": f"fast-{next(NUMBERS)}", "object": "chat.completion.chunk" if self.chat else "text_completion",
                      "created": 1, "model": MODEL}

    def event(self, text, reason=None):
        said = {"delta": {"content": text}} if self.chat else {"text": text}
        return chunk(self.begin | {"choices": [{"index": 0, **said, "logprobs": None, "finish_reason": reason}]})

    def last(self):
        return (self.event("", "length") + chunk(self.begin | {"choices": [], "usage": self.usage}) + chunk(b"[DONE]")
                + b"0\r\n\r\n")

    def whole(self):
        text = " word" * self.count
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        return self.begin | {"choices": [{"index": 0, **said, "finish_reason": "length"}], "usage": self.usage}


class FastBackend:
    def __init__(self, pause):
        self.pause = pause

    async def serve(self, reader, writer):
        """One connection, and all requests on it."""
        try:
            while True:
                first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ", 2)
                lengths = [field.partition(":")[2] for field in fields if field.lower().startswith("content-length:")]
                data = await reader.readexactly(int(lengths[0])) if lengths else b""
                if method == "POST":
                    body = json.loads(data)
                    await self.generate(Answer(path, body), body.get("stream", False), reader, writer)
                else:
                    self.reply(writer, {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1}],
                                        "status": "ok"})
                await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    @staticmethod
    def reply(writer, value):
        data = json.dumps(value).encode()
        writer.write(head("application/json", len(data)) + data)

    async def generate(self, answer, stream, reader, writer):
        if not stream:
            self.reply(writer, answer.whole())
            return
        writer.write(head("text/event-stream") + answer.event(" word"))
        for _ in range(answer.count - 1):
            await asyncio.sleep(self.pause)
            if reader.at_eof() or writer.is_closing():  # Nobody listens any more.
                raise ConnectionResetError
            writer.write(answer.event(" word"))
        writer.write(answer.last())


async def run(port, pause):
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    server = await asyncio.start_server(FastBackend(pause).serve, "127.0.0.1", port, limit=1 << 22, backlog=4096)
    await stopping.wait()
    server.close()  # What is open ends with the loop.


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        asyncio.run(run(args.port, args.pause))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
