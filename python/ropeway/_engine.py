"""The engine, its requests and their results."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import threading
import weakref
from typing import Any, Generator, Iterable, Iterator, Literal, Mapping, Sequence, Union, cast, overload

import numpy as np
import numpy.typing as npt

from ropeway import _fork, _ropeway
from ropeway._asyncio import Waker
from ropeway._errors import InvalidArgumentError
from ropeway._inputs import ids_of, index_of, json_of, open_engine, seconds_of, text_of
from ropeway._ropeway import Delta as Delta

Ids = Union[Sequence[int], npt.NDArray[np.integer[Any]]]
Prompt = Union[str, Ids]
Message = Mapping[str, Any]

# Fields of a request that the HTTP API does not have.
_EXTRAS = ("resume_ids", "tenant", "cache_scope", "session", "choice")


@dataclasses.dataclass(frozen=True)
class Usage:
    """Tokens of one request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    """Of the prompt, those that the prefix cache had."""
    reasoning_tokens: int
    """Of the completion, those of thoughts."""


@dataclasses.dataclass(frozen=True)
class Result:
    """A request that has ended."""

    text: str
    finish_reason: str
    """"stop" or "length"."""
    token_ids: list[int]
    logprobs: np.ndarray | None
    """float32, shape (n,): of the raw distribution. None unless `logprobs` was asked for."""
    top_ids: np.ndarray | None
    """int32, shape (n, k): the most probable tokens; -1 where there are fewer."""
    top_logprobs: np.ndarray | None
    """float32, shape (n, k); NaN where there are fewer."""
    prompt_ids: list[int] | None
    """With `prompt_logprobs`: the prompt's tokens, and with each its log-probability given those
    before it (NaN for the first)."""
    prompt_logprobs: np.ndarray | None
    reasoning: str
    tool_calls: list[dict[str, str]]
    """Each {"id", "name", "arguments"}."""
    usage: Usage
    seed: int
    """With which the same request gives the same text."""
    preemptions: int
    times: dict[str, float]
    """Seconds in the phases "queue", "prefill" and "decode"."""


@dataclasses.dataclass(frozen=True)
class Model:
    """What is served. Engines give the same bits for the same request if `digest`, `numerics` and
    `limits` are equal and `digest` is not ""."""

    name: str
    max_model_len: int
    digest: str
    numerics: str
    limits: str
    fingerprint: str
    vocabulary: int
    embedding_size: int
    chats: bool
    embeds_only: bool
    architecture: str
    quantization: str
    parameters: int


@dataclasses.dataclass(frozen=True)
class Session:
    """A conversation that the engine keeps. Times are Unix seconds."""

    id: str
    turns: int
    tokens: int
    created: float
    last_used: float
    expires: float
    turn_under_way: bool
    durable: bool
    lost: bool


def _result_of(raw: dict[str, Any]) -> Result:
    raw.pop("embedding")
    return Result(usage=Usage(**raw.pop("usage")), **raw)


class Deltas:
    """The deltas of a handle, for `async for`."""

    __slots__ = ("_raw", "_generation", "_waker", "_key")

    def __init__(self, raw: _ropeway.Handle) -> None:
        self._raw = raw
        self._generation = _fork.generation
        self._key = 0  # There may be no event loop.
        self._waker = Waker.of_this_loop()
        self._key = self._waker.watch(raw, only_end=False)

    def __aiter__(self) -> "Deltas":
        return self

    def __del__(self) -> None:
        if self._key != 0 and self._generation == _fork.generation:
            self._waker.forget(self._raw, self._key)

    async def next_or_nudge(self) -> Delta | Literal[False] | None:
        """The next delta; False if a nudge came before it, None behind the last."""
        if self._generation != _fork.generation:
            _fork.refuse()
        self._waker.check_loop()
        taken = self._raw.take()
        if taken is False:
            await self._waker.wait(self._key)
            taken = self._raw.take()
        return taken

    def nudge(self) -> None:
        self._waker.nudge(self._key)

    async def __anext__(self) -> Delta:
        while (taken := await self.next_or_nudge()) is False:
            pass
        if taken is None:
            self._raw.result()
            raise StopAsyncIteration
        return taken


class Handle:
    """A request that was submitted.

    Wait for it (`wait`, or `await handle`), look at it (`poll`), or iterate over its deltas as they
    come (`for`, or `async for`). Dropping a handle neither cancels nor ends the request. A handle may
    outlive its engine, with which its request ends. Thread-safe. Where several threads or
    tasks iterate, each delta goes to one of them.
    """

    def __init__(self, raw: _ropeway.Handle) -> None:
        self._kept = raw
        self._generation = _fork.generation

    @property
    def _raw(self) -> _ropeway.Handle:
        if self._generation != _fork.generation:
            _fork.refuse()
        return self._kept

    @property
    def id(self) -> int:
        return self._raw.id

    @property
    def done(self) -> bool:
        """Whether the request has ended."""
        return self._raw.ended

    def cancel(self) -> None:
        """Asks that the request end with CancelledError. Returns at once."""
        self._raw.cancel()

    def poll(self) -> Result | None:
        """The result if the request has ended, else None. Raises what made it fail."""
        return _result_of(self._raw.result()) if self._raw.ended else None

    def wait(self, timeout: float | None = None) -> Result:
        """Blocks until the request has ended. After `timeout` seconds it raises TimeoutError, and the
        request goes on. May be called any number of times."""
        if not self._raw.wait(-1.0 if timeout is None else max(0.0, seconds_of(timeout, "timeout"))):
            raise TimeoutError(f"the request has not ended within {timeout} s")
        return _result_of(self._raw.result())

    def __iter__(self) -> Iterator[Delta]:
        while True:
            taken = self._raw.take()
            if taken:
                yield taken
            elif taken is None:
                self._raw.result()
                return
            else:
                self._raw.wait_for_output(-1.0)

    def __aiter__(self) -> Deltas:
        return Deltas(self._raw)

    def __await__(self) -> Generator[Any, None, Result]:
        return self._ended().__await__()

    async def _ended(self) -> Result:
        raw = self._raw
        waker = Waker.of_this_loop()
        key = waker.watch(raw, only_end=True)
        try:
            while not raw.ended:
                await waker.wait(key)
        finally:
            if self._generation == _fork.generation:
                waker.forget(raw, key)
        return _result_of(raw.result())


class Engine:
    """A loaded model with its threads.

    `model` is what `ropeway serve --model` takes: a GGUF file, a folder in Hugging Face's format, or
    the name of a model that was pulled. The options are the flags of `ropeway serve` that set up an
    engine, with "_" for "-" and values as the command line has them: `threads=4`,
    `kv_cache_size="2GiB"`, `prefix_caching="off"`, `state_path="/var/lib/me"`.

    Thread-safe. In a child that was forked its calls and those of its handles raise UnavailableError.
    """

    def __init__(self, model: str | os.PathLike[str], **options: Any) -> None:
        options.setdefault("log_level", "warn")
        self._raw = open_engine(model, options)
        # An engine that is dropped ends its threads.
        self._closed = weakref.finalize(self, self._raw.close)
        _fork.watch(self)

    def _leave_behind(self) -> Any:
        """For a child that was forked."""
        raw = self._raw
        self._closed.detach()
        self._raw = cast(_ropeway.Engine, _fork.Gone())
        return raw

    def submit(
        self, prompt: Prompt | None = None, *, messages: Sequence[Message] | None = None, **fields: Any
    ) -> Handle:
        """Queues a request and returns at once.

        Give a `prompt` (a text, or token ids) or a chat's `messages`. The fields are those of
        POST /v1/completions and /v1/chat/completions (docs/fields.md): max_tokens, temperature, top_p,
        top_k, seed, stop, logprobs (how many top log-probabilities), tools, response_format, priority,
        timeout ... And beside them:

            session: names a conversation that the engine keeps; the prompt is its next turn.
            tenant: whose request it is.
            cache_scope: requests share KV blocks only within a scope.
            choice: which of several answers to the same request and seed; 0.
            resume_ids: what another engine had generated of this very request. The result holds what
                comes behind it; its usage counts all.

        Raises InvalidArgumentError for a field that is unknown or wrong, ResourceExhaustedError for a
        full queue. What happens later is raised where the result is asked for.
        """
        if (prompt is None) == (messages is None):
            raise TypeError("give either a prompt or messages")
        extras = {name: fields.pop(name) for name in _EXTRAS if fields.get(name) is not None}
        ids: list[int] | None = None
        chat = messages is not None
        body = {name: value for name, value in fields.items() if value is not None}
        if chat:
            body["messages"] = messages
            if body.get("logprobs") is not None and not isinstance(body["logprobs"], bool):
                body["top_logprobs"] = body["logprobs"]
                body["logprobs"] = True
        elif isinstance(prompt, str):
            body["prompt"] = prompt
        else:
            body["prompt"] = ""
            ids = ids_of(prompt, "prompt", "a text or token ids")
        return Handle(
            self._raw.submit(
                json_of(body),
                chat,
                body.get("logprobs") is not None and body["logprobs"] is not False,
                ids,
                ids_of(extras.get("resume_ids", ()), "resume_ids"),
                text_of(extras.get("tenant", ""), "tenant"),
                text_of(extras.get("cache_scope", ""), "cache_scope"),
                text_of(extras.get("session", ""), "session"),
                index_of(extras.get("choice", 0), "choice", 2**32 - 1),
            )
        )

    def generate(
        self, prompt: Prompt | None = None, *, messages: Sequence[Message] | None = None, **fields: Any
    ) -> Result:
        """Submits a request and waits for its result; a KeyboardInterrupt cancels it."""
        handle = self.submit(prompt, messages=messages, **fields)
        try:
            return handle.wait()
        except BaseException:
            handle.cancel()
            raise

    def generate_many(self, prompts: Iterable[Prompt], **fields: Any) -> list[Result]:
        """Submits a request for each prompt, which are computed together, and waits for all."""
        if isinstance(prompts, (str, bytes, bytearray)) or not hasattr(prompts, "__iter__"):
            raise TypeError(f"prompts: expected a list of prompts, not {type(prompts).__name__}")
        handles: list[Handle] = []
        try:
            for prompt in prompts:
                handles.append(self.submit(prompt, **fields))
            return [handle.wait() for handle in handles]
        except BaseException:
            for handle in handles:
                handle.cancel()
            raise

    def embed(
        self,
        inputs: str | Sequence[str] | Ids | Sequence[Ids] | npt.NDArray[np.str_],
        *,
        tenant: str = "",
        **fields: Any,
    ) -> np.ndarray:
        """The embeddings of the inputs, which are a text or several, or token ids, of one input or of
        several: float32, shape (inputs, Model.embedding_size). The fields are
        those of POST /v1/embeddings (docs/embeddings.md), such as `pooling` and `normalize`."""
        if isinstance(inputs, (bytes, bytearray)) or not hasattr(inputs, "__len__"):
            raise TypeError(f"inputs: expected a text, texts, or token ids, not {type(inputs).__name__}")
        if not isinstance(inputs, str) and len(inputs) == 0:
            return np.zeros((0, self.model.embedding_size), dtype=np.float32)
        dimensions = fields.pop("dimensions", None)
        if dimensions is not None:
            dimensions = index_of(dimensions, "dimensions", self.model.embedding_size)
            if dimensions == 0:
                raise InvalidArgumentError("dimensions: expected at least 1, not 0", "dimensions")
        body = {"input": inputs, "model": "default", **fields}
        rows = []
        handles = self._raw.embed(json_of(body), text_of(tenant, "tenant"))
        try:
            for handle in handles:
                handle.wait(-1.0)
                rows.append(handle.result()["embedding"])
        except BaseException:
            for handle in handles:
                handle.cancel()
            raise
        table = np.stack(rows)
        if dimensions is None:
            return table
        table = table[:, :dimensions]
        if not fields.get("normalize", True):
            return table
        scaled: np.ndarray = table / np.linalg.norm(table, axis=1, keepdims=True)
        return scaled

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """The ids of a text, as a prompt's are."""
        if not isinstance(add_special, bool):
            raise TypeError(f"add_special: expected True or False, not {type(add_special).__name__}")
        return self._raw.tokenize(text_of(text, "text"), add_special)

    def detokenize(self, ids: Ids) -> str:
        """The text of the ids; bytes that are no UTF-8 become U+FFFD."""
        return self._raw.detokenize(ids_of(ids, "ids"))

    @overload
    def apply_chat_template(self, messages: Sequence[Message], *, tokenize: Literal[False] = False, **fields: Any) -> str: ...

    @overload
    def apply_chat_template(self, messages: Sequence[Message], *, tokenize: Literal[True], **fields: Any) -> list[int]: ...

    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: bool = False, **fields: Any
    ) -> str | list[int]:
        """What the model's chat template makes of the messages: a text, or its ids. The fields are
        those of a chat that the template sees: tools, add_generation_prompt, chat_template_kwargs."""
        body = json_of({"messages": messages, **fields})
        return self._raw.tokenize_chat(body) if tokenize else self._raw.render_chat(body)

    @property
    def chat_template(self) -> str:
        """The source of the template (Jinja); "" if there is none."""
        return self._raw.chat_template()

    @property
    def model(self) -> Model:
        return Model(**self._raw.model())

    def stats(self) -> dict[str, Any]:
        """A snapshot, as of the newest step: EngineStats in include/ropeway/stats.h."""
        return self._raw.stats()

    def metrics(self) -> str:
        """The metrics in Prometheus's text format."""
        return self._raw.metrics()

    def sessions(self, tenant: str = "") -> list[Session]:
        """A tenant's sessions that have a completed turn, the least recently used first."""
        return [Session(**session) for session in self._raw.sessions(text_of(tenant, "tenant"))]

    def close_session(self, id: str, tenant: str = "") -> None:
        """Deletes a session; NotFoundError if there is none of this id."""
        self._raw.close_session(text_of(id, "id"), text_of(tenant, "tenant"))

    def drain(self, timeout: float) -> None:
        """Rejects new requests from now on and waits until all have ended; after `timeout` seconds it
        cancels the rest and raises DeadlineExceededError."""
        seconds = seconds_of(timeout, "timeout")
        # In a thread, so that a signal ends the wait.
        done: concurrent.futures.Future[None] = concurrent.futures.Future()

        def work() -> None:
            try:
                self._raw.drain(seconds)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=work, name="ropeway-drain", daemon=True).start()
        done.result()

    def close(self) -> None:
        """Cancels what is under way and ends the threads. Handles keep what they have."""
        self._closed()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
