"""Servers on this machine that stand for the engines behind a gateway: one like OpenAI's, llama.cpp's and Ollama's, by their
documented URLs, streams and errors; and behaviours that no library would let a server have.

Plain sockets and a thread for each connection. A behaviour is a function that gets an Exchange: one request, and what is
sent back. It may leave the connection as it likes; where it returns after a whole reply, the connection is kept.
"""
import itertools
import json
import select
import socket
import struct
import threading
import time

PATIENCE = 60  # A behaviour that hangs does so for as long as the gateway lets it.
GENERATES = ("/v1/completions", "/v1/chat/completions", "/v3/chat/completions", "/completion", "/api/chat", "/api/generate")
NUMBERS = itertools.count(1)


class Gone(Exception):
    """The gateway has closed the connection, or the test the double."""


class Exchange:
    """One request that came, and the socket to answer it."""

    def __init__(self, sock, method, path, headers, data):
        self.sock, self.method, self.path, self.headers, self.data = sock, method, path, headers, data
        self.at = time.monotonic()
        self.gone_at = None  # When the gateway was seen to leave.
        self.keep = True     # Another request may follow on this connection.
        self.on_over = lambda: None

    def over(self):
        """The next bytes are the answer's last: the gateway may send another request before they are all written."""
        told, self.on_over = self.on_over, lambda: None
        told()

    @property
    def body(self):
        return json.loads(self.data) if self.data else {}

    @property
    def prompt(self):
        """What was asked: the last message, or the prompt."""
        body = self.body
        return body["messages"][-1]["content"] if "messages" in body else body["prompt"]

    @property
    def max_tokens(self):
        body = self.body
        names = ("max_tokens", "max_completion_tokens", "n_predict")
        given = [body[name] for name in names if body.get(name) is not None]
        return (given + [body.get("options", {}).get("num_predict"), 8])[0] or 8

    def has_left(self):
        """Whether the gateway has closed the connection, even if the thread that answers has not seen it yet."""
        poll = select.poll()
        poll.register(self.sock, select.POLLRDHUP)
        return bool(poll.poll(0))

    def leave(self):
        self.gone_at = time.monotonic()
        raise Gone

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            self.leave()

    def wait(self, seconds):
        """Lets time pass; ends with Gone as soon as the gateway leaves."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not poll.poll(1000 * left):
                continue
            try:
                if not self.sock.recv(1, socket.MSG_PEEK):
                    self.leave()
            except OSError:
                self.leave()
            time.sleep(min(left, 0.01))  # It sends more, which nobody reads yet.

    def head(self, status, content_type, *fields):
        """A reply's head; its body follows by chunk() and end()."""
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", "Transfer-Encoding: chunked", *fields]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    def chunk(self, data):
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self):
        self.over()
        self.send(b"0\r\n\r\n")

    def event(self, value):
        """A server-sent event."""
        if value == b"[DONE]":
            self.over()
        self.chunk(b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n")

    def line(self, value):
        """A line of NDJSON."""
        if value.get("done"):
            self.over()
        self.chunk(json.dumps(value).encode() + b"\n")

    def reply(self, status, value, content_type="application/json", *fields):
        """A whole reply; what is not bytes becomes JSON."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", f"Content-Length: {len(data)}", *fields]
        self.over()
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def close(self):
        """Ends the connection in order, whatever was promised."""
        self.keep = False

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.keep = False


def read_exchange(sock, buffered):
    """The next request on the connection, and the bytes behind it; None where it ends."""
    while b"\r\n\r\n" not in buffered:
        some = sock.recv(65536)
        if not some:
            return None
        buffered += some
    head, _, rest = buffered.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", 0))
    while len(rest) < length:
        some = sock.recv(65536)
        if not some:
            return None
        rest += some
    return Exchange(sock, method, path, headers, rest[:length]), rest[length:]


class Double:
    """Listens on a port of its own, or a given one. `behave` answers what generates, `facts` all other requests. With `tls`,
    an ssl.SSLContext, it speaks https. Counts what is open and keeps the exchanges that generate, in order."""

    def __init__(self, behave, facts=None, port=0, tls=None, model="fake-model"):
        self.behave, self.facts, self.tls, self.model = behave, facts or openai_facts, tls, model
        self.lock = threading.Lock()
        self.sockets = set()
        self.exchanges, self.looks = [], []
        self.running = set()
        self.most_in_flight = 0
        self.stopping = False
        self.listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def in_flight(self):
        """Exchanges that generate and whose client has not left: it gives a place away in the moment in which it leaves, which
        may be before the thread that answers is told."""
        with self.lock:
            return self.count_running()

    def count_running(self):
        return sum(not exchange.has_left() for exchange in self.running)

    @property
    def open(self):
        """Connections."""
        with self.lock:
            return len(self.sockets)

    def asked(self):
        """The bodies of what generates, in the order in which it came."""
        with self.lock:
            return [exchange.body for exchange in self.exchanges]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """As a server that is killed: nothing is listening, and all connections end."""
        self.stopping = True
        # A close alone would leave accept() waiting, and the port with it.
        with self.lock:
            sockets = list(self.sockets)
        for sock in (self.listener, *sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.listener.close()

    def accept(self):
        while not self.stopping:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with self.lock:
            self.sockets.add(sock)
        used = sock
        try:
            sock.settimeout(PATIENCE)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                used = self.tls.wrap_socket(sock, server_side=True)
            self.converse(used)
        except (OSError, ValueError, Gone):
            pass
        finally:
            used.close()
            sock.close()
            with self.lock:
                self.sockets.discard(sock)

    def converse(self, sock):
        buffered = b""
        while not self.stopping:
            found = read_exchange(sock, buffered)
            if found is None:
                return
            exchange, buffered = found
            if exchange.method == "POST" and exchange.path in GENERATES:
                self.generate(exchange)
            else:
                with self.lock:
                    self.looks.append(exchange)
                self.facts(self, exchange)
            if not exchange.keep:
                return

    def generate(self, exchange):
        with self.lock:
            self.exchanges.append(exchange)
            self.running.add(exchange)
            self.most_in_flight = max(self.most_in_flight, self.count_running())
        exchange.on_over = lambda: self.ended(exchange)
        try:
            self.behave(exchange)
        finally:
            exchange.over()

    def ended(self, exchange):
        with self.lock:
            self.running.discard(exchange)


# What servers say of themselves.


def openai_facts(double, exchange):
    if exchange.path == "/v1/models":
        exchange.reply(200, {"object": "list", "data": [{"id": double.model, "object": "model", "created": 1,
                                                         "owned_by": "double"}]})
    elif exchange.path in ("/health", "/v1/health"):
        exchange.reply(200, {"status": "ok"})
    else:
        exchange.reply(404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}})


def llamacpp_facts(slots):
    """As llama-server with so many slots."""
    def facts(double, exchange):
        path, busy = exchange.path.partition("?")[0], double.in_flight
        if path == "/props":
            exchange.reply(200, {"total_slots": slots, "model_path": "/models/fake.gguf", "chat_template": "",
                                 "default_generation_settings": {"n_ctx": 4096, "params": {}}, "is_sleeping": False})
        elif path == "/slots":
            exchange.reply(200, [{"id": i, "n_ctx": 4096, "is_processing": i < busy} for i in range(slots)])
        elif path == "/metrics":
            exchange.reply(200, (f"llamacpp:requests_processing {min(busy, slots)}\n"
                                 f"llamacpp:requests_deferred {max(0, busy - slots)}\n").encode(),
                           "text/plain; version=0.0.4")
        else:
            openai_facts(double, exchange)
    return facts


def ollama_facts(double, exchange):
    model = {"name": double.model, "model": double.model, "modified_at": "2026-01-01T00:00:00Z", "size": 1000,
             "digest": "0" * 64, "details": {"format": "gguf", "family": "llama", "parameter_size": "135M",
                                             "quantization_level": "Q4_1"}}
    answers = {"/api/version": {"version": "0.12.0"}, "/api/tags": {"models": [model]},
               "/api/ps": {"models": [model | {"expires_at": "2030-01-01T00:00:00Z", "size_vram": 0}]},
               "/api/show": {"details": model["details"], "model_info": {}, "capabilities": ["completion"]}}
    if exchange.path in answers:
        exchange.reply(200, answers[exchange.path])
    elif exchange.path == "/":
        exchange.reply(200, b"Ollama is running", "text/plain")
    else:
        exchange.reply(404, b"404 page not found", "text/plain")


# Answers. Their text names the prompt, so that a wrong one is seen.


def pieces_for(prompt, count):
    return [f"[{prompt}]"] + [f" w{i}" for i in range(1, count)]


def text_for(prompt, count):
    return "".join(pieces_for(prompt, count))


class OpenAi:
    """An answer in OpenAI's format, as a stream."""

    def __init__(self, exchange):
        self.exchange = exchange
        self.chat = exchange.path.endswith("/chat/completions")
        self.id = f"double-{next(NUMBERS)}"
        exchange.head(200, "text/event-stream")

    def object(self, choices, **more):
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {"id": self.id, "object": kind, "created": 1, "model": "fake-model", "choices": choices, **more}

    def piece(self, text, reason=None, index=0, **more):
        said = {"delta": {"content": text} if text else {}} if self.chat else {"text": text}
        self.exchange.event(self.object([{"index": index, **said, "logprobs": None, "finish_reason": reason}], **more))

    def pieces(self, count, pause=0.0):
        for text in pieces_for(self.exchange.prompt, count):
            self.piece(text)
            if pause:
                self.exchange.wait(pause)

    def finish(self, reason="length", usage=None):
        self.piece("", reason)
        if usage and (self.exchange.body.get("stream_options") or {}).get("include_usage"):
            self.exchange.event(self.object([], usage=usage))
        self.exchange.event(b"[DONE]")
        self.exchange.end()


def usage_of(exchange):
    count = exchange.max_tokens
    return {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count}


def answer(exchange, pause=0.0, usage=True):
    """A whole answer as it should be, of as many tokens as were asked for."""
    usage = usage_of(exchange) if usage else None
    if not exchange.body.get("stream"):
        text = text_for(exchange.prompt, exchange.max_tokens)
        said = {"message": {"role": "assistant", "content": text}} if "messages" in exchange.body else {"text": text}
        exchange.reply(200, {"id": f"double-{next(NUMBERS)}", "object": "chat.completion", "created": 1,
                             "model": "fake-model", "choices": [{"index": 0, **said, "finish_reason": "length"}],
                             **({"usage": usage} if usage else {})})
        return
    stream = OpenAi(exchange)
    stream.pieces(exchange.max_tokens, pause)
    stream.finish(usage=usage)


def slowly(pause):
    return lambda exchange: answer(exchange, pause)


def without_usage(exchange):
    answer(exchange, usage=False)


def ollama_line(exchange, text, **more):
    said = {"message": {"role": "assistant", "content": text}} if exchange.path == "/api/chat" else {"response": text}
    return {"model": "fake-model", "created_at": "2026-01-01T00:00:00.000000Z", **said, "done": False, **more}


def ollama_end(exchange, reason="stop", **more):
    """The last line, with durations in nanoseconds."""
    return ollama_line(exchange, "", **{"done": True, "done_reason": reason, "total_duration": 5000000, "load_duration": 1000,
                                        "prompt_eval_count": 11, "prompt_eval_duration": 2000000,
                                        "eval_count": exchange.max_tokens, "eval_duration": 3000000, **more})


def ollama_answer(exchange, reason="stop", pause=0.0):
    if exchange.body.get("stream") is False:  # It streams where nothing is said.
        exchange.reply(200, ollama_end(exchange, reason) | {
            key: value for key, value in ollama_line(exchange, text_for(exchange.prompt, exchange.max_tokens)).items()
            if key in ("message", "response")})
        return
    exchange.head(200, "application/x-ndjson")
    for text in pieces_for(exchange.prompt, exchange.max_tokens):
        exchange.line(ollama_line(exchange, text))
        if pause:
            exchange.wait(pause)
    exchange.line(ollama_end(exchange, reason))
    exchange.end()


# Misbehaviours.


def slow_start(exchange):
    exchange.wait(0.7)
    answer(exchange)


def hang_before_the_head(exchange):
    exchange.wait(PATIENCE)


def hang_before_the_first_token(exchange):
    OpenAi(exchange)
    exchange.wait(PATIENCE)


def hang_after_tokens(exchange):
    OpenAi(exchange).pieces(3)
    exchange.wait(PATIENCE)


def reset_before_the_head(exchange):
    exchange.reset()


def reset_after_tokens(exchange):
    OpenAi(exchange).pieces(3)
    time.sleep(0.05)  # A reset overtakes what was sent just before.
    exchange.reset()


def half_a_json(exchange):
    OpenAi(exchange).pieces(2)
    exchange.event(b'{"id":"double","choices":[{"index":0,"te')
    exchange.end()


def half_a_body(exchange):
    """The connection ends in order, within the body."""
    OpenAi(exchange).pieces(2)
    exchange.close()


def no_end(exchange):
    """The body ends in order, and nothing says that the answer has."""
    OpenAi(exchange).pieces(2)
    exchange.end()


def wrong_type(exchange):
    exchange.reply(200, b"<html><body>Please log in.</body></html>", "text/html")


def no_http(exchange):
    exchange.send(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n")
    exchange.close()


def refuses(status, *fields):
    """With this status, and a sentence that the client must be told."""
    def behave(exchange):
        exchange.reply(status, {"error": {"message": f"the double says {status}", "type": "double_error", "code": status}},
                       "application/json", *fields)
    return behave


def endless_stream(exchange):
    stream = OpenAi(exchange)
    stream.pieces(1)
    while True:
        stream.piece(" more")


def huge_line(exchange):
    """A line of a gigabyte."""
    OpenAi(exchange).pieces(1)
    some = b"x" * (1 << 20)
    exchange.chunk(b'data: {"choices":[{"index":0,"text":"')
    for _ in range(1024):
        exchange.chunk(some)
    exchange.end()


def header_bomb(exchange):
    exchange.send(b"HTTP/1.1 200 OK\r\n")
    for i in itertools.count():
        exchange.send(b"X-Bomb-%d: %b\r\n" % (i, b"x" * 4000))


def changing_names(exchange):
    """Each event has an id of its own, and its choice an index that counts."""
    stream = OpenAi(exchange)
    for i, text in enumerate(pieces_for(exchange.prompt, exchange.max_tokens)):
        stream.piece(text, index=i, id=f"double-{i}")
    stream.finish(usage=usage_of(exchange))


def another_choice(exchange):
    """An event with a choice that nobody asked for."""
    stream = OpenAi(exchange)
    said = {"delta": {"content": " foreign"}} if stream.chat else {"text": " foreign"}
    exchange.event(stream.object([{"index": i, **said} for i in range(2)]))
    stream.finish()


def another_answer_behind(exchange):
    """The answer, and behind it one that nobody asked for: whoever uses the connection again takes it for its own."""
    answer(exchange)
    stale = json.dumps({"id": "stale", "choices": [{"index": 0, "text": "foreign", "finish_reason": "stop"}]}).encode()
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
                  % (len(stale) + 22, b"data: " + stale + b"\n\ndata: [DONE]\n\n"))


def fails_at_random(share, numbers):
    """In this share of the requests one of several failures; `numbers`: a random.Random."""
    failures = (refuses(500), refuses(503), reset_before_the_head, reset_after_tokens, half_a_json, half_a_body)
    lock = threading.Lock()

    def behave(exchange):
        with lock:
            failure = numbers.choice(failures) if numbers.random() < share else None
        (failure or answer)(exchange)
    return behave
