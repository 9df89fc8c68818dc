"""A worker of NVIDIA Dynamo with Ropeway's engine in it: python -m ropeway.dynamo --model MODEL.

Dynamo's front encodes prompts and decodes answers, routes requests to workers, and goes on at another worker
with a request whose worker died. Each worker gives the same bits for the same request, so the client cannot
tell. docs/many-machines.md has the whole.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import importlib.metadata
import logging
import math
import os
import re
import signal
import sys
import tempfile
import time
from typing import Any, AsyncGenerator

try:
    from dynamo.common.backend import EngineConfig, GenerateChunk, GenerateRequest, LLMEngine, LlmRegistration, WorkerConfig
    from dynamo.common.backend.publisher import ComponentSnapshot, KvEventSource, ZmqSource
    from dynamo.llm import exceptions
except ModuleNotFoundError as missing:
    sentence = f"ropeway.dynamo needs NVIDIA Dynamo, which scripts/dynamo_venv.sh installs: {missing}"
    if __name__ == "__main__":
        sys.exit(sentence)
    raise ImportError(sentence) from missing

import ropeway
from ropeway._dynamo_requests import chunk_of, exception_of, fields_of, prompt_end
from ropeway._engine import Deltas

logger = logging.getLogger(__name__)

BLOCK_TOKENS = 16
# The front takes a worker for lost whose stream is silent for DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS. One that waits for its
# turn or for its prompt says an empty chunk this often.
LIFE_SECONDS = 1.0
# How long another worker may take to say what it serves. It is asked twice.
ANSWER_SECONDS = 5.0
# Between two warnings that clients can bring about.
WARNING_SECONDS = 10.0
_EVENTS_SOCKET = "events"
# Of a Unix socket, in bytes.
_LONGEST_PATH = 107
# An annotation of a request that asks a worker for what its answers depend on.
_IDENTITY = "ropeway.identity"
# All else was not tried: Dynamo's interfaces grow with each release.
_TRIED_VERSION = "1.6.1"


class RopewayWorker(LLMEngine):
    """One engine. Its options are those of ropeway.Engine. With `events` and without the option kv_events, it publishes
    events where only its user reads them."""

    def __init__(
        self, model: str, tokenizer: str, served_name: str | None, options: dict[str, str], events: bool = False
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._served_name = served_name
        self._options = options
        self._events = events
        self._events_folder: tempfile.TemporaryDirectory[str] | None = None
        self._engine: ropeway.Engine | None = None
        # By the request's id. A request that was moved keeps it, and may come back while this worker still ends its first
        # stream: the entry is the newest one's.
        self._handles: dict[str, list[ropeway.Handle]] = {}
        # Of all streams that have not ended, by the list's id().
        self._running: dict[int, list[ropeway.Handle]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._leaving = False
        self._identity = ""
        # Of the warning of a continuation: when it was given, and how often it was not since then.
        self._warned_at = -math.inf
        self._unsaid = 0
        self._opening: list[int] = []
        self._ends: set[int] = set()
        self._snapshots: Any = None
        self._snapshot_task: concurrent.futures.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple["RopewayWorker", WorkerConfig]:
        parser = argparse.ArgumentParser(prog="python -m ropeway.dynamo", description=__doc__)
        parser.add_argument("--model", required=True, help="a GGUF file, a folder, or the name of a pulled model")
        parser.add_argument(
            "--tokenizer",
            help="a folder with tokenizer.json and tokenizer_config.json for Dynamo's front; needed unless --model is one",
        )
        parser.add_argument("--served-model-name", help="what requests call the model")
        parser.add_argument("--namespace", default="dynamo")
        parser.add_argument("--component", default="backend")
        parser.add_argument("--endpoint", default="generate")
        parser.add_argument("--endpoint-types", default="chat,completions")
        parser.add_argument("--discovery-backend", default="etcd", help="etcd, or file on one machine")
        parser.add_argument("--no-kv-events", action="store_true", help="the front routes without knowing the caches")
        args, rest = parser.parse_known_args(argv)
        tokenizer = args.tokenizer or args.model
        if not os.path.isfile(os.path.join(tokenizer, "tokenizer.json")):
            parser.error(f"--tokenizer: Dynamo's front needs a folder with tokenizer.json, and '{tokenizer}' is none")
        options = options_of(rest, parser)
        if args.no_kv_events and "kv_events" in options:
            parser.error("--no-kv-events: cannot be used with --kv-events")
        if "kv_events" in options and source_address(options["kv_events"]) is None:
            parser.error(
                f"--kv-events: expected ipc://PATH, tcp://HOST:PORT or a port, to which Dynamo can connect, not '{options['kv_events']}'"
            )
        try:
            check_options(options)
        except ropeway.InvalidArgumentError as error:
            parser.error(str(error))
        # Without a prefix cache there is nothing to tell.
        events = not args.no_kv_events and options.get("prefix_caching", "on") not in ("off", "false", "no", "0")
        served = args.served_model_name or os.path.splitext(os.path.basename(args.model.rstrip("/")))[0]
        config = WorkerConfig(
            namespace=args.namespace,
            component=args.component,
            endpoint=args.endpoint,
            model_name=tokenizer,
            served_model_name=served,
            endpoint_types=args.endpoint_types,
            discovery_backend=args.discovery_backend,
            enable_kv_routing=events,
        )
        return cls(args.model, tokenizer, served, options, events), config

    async def start(self, worker_id: int) -> EngineConfig:
        del worker_id
        self._loop = asyncio.get_running_loop()
        if self._events and "kv_events" not in self._options:
            # Events hold prompts. Only this user can enter the folder, and no port has to be guessed.
            self._events_folder = events_folder()
            self._options["kv_events"] = f"ipc://{self._events_folder.name}/{_EVENTS_SOCKET}"
        # Without the digest it could not be compared with others.
        options = {**self._options, "digest": "true"}
        engine = await asyncio.to_thread(lambda: ropeway.Engine(self._model, **options))
        self._engine = engine
        model = engine.model
        self._identity = f"digest {model.digest[:16]}, numerics {model.numerics}, {model.limits}"
        self._learn_opening(engine)
        stats = engine.stats()
        rows = self._options.get("max_num_batched_tokens")
        blocks = stats["kv_blocks_free"] + stats["kv_blocks_held"] + stats["kv_blocks_cached"]
        return EngineConfig(
            model=self._tokenizer,
            served_model_name=self._served_name,
            runtime_data={"ropeway_digest": model.digest, "ropeway_numerics": model.numerics, "ropeway_limits": model.limits},
            llm=LlmRegistration(
                context_length=model.max_model_len,
                kv_cache_block_size=BLOCK_TOKENS,
                total_kv_blocks=blocks,
                max_num_seqs=stats["max_batch_size"],
                max_num_batched_tokens=None if rows is None else int(rows),
            ),
        )

    async def on_endpoint_ready(self, endpoint: Any) -> None:
        """Asks the workers that serve the same name already: a request must be able to go on at each of them."""
        client = await endpoint.client()
        await asyncio.sleep(1)  # It learns which there are.
        for instance in client.instance_ids():
            theirs = await self._identity_of(client, instance)
            if theirs is None:
                logger.warning("worker %s does not say what it serves: if it is no Ropeway, its answers are others", instance)
            elif theirs != self._identity:
                raise exceptions.InvalidArgument(
                    f"this worker would not give the same answers as worker {instance}, which serves '{self._served_name}' "
                    f"already: here {self._identity}; there {repr(theirs)[:300]}"
                )

    async def _identity_of(self, client: Any, instance: int) -> Any:
        """What the worker's answers depend on; None if it does not say, or is gone."""
        for _ in range(2):
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await _ask_identity(client, instance)
            except TimeoutError:
                # The front may still send it requests, and it may answer them otherwise.
                if instance not in client.instance_ids():
                    return None
            except Exception as error:
                logger.warning("worker %s cannot be asked what it serves: %s", instance, error)
                return None
        raise exceptions.InvalidArgument(
            f"worker {instance}, which serves '{self._served_name}' already, does not say within {ANSWER_SECONDS:g} s what its "
            "answers depend on: stop it, or start this one when it answers"
        )

    def _learn_opening(self, engine: ropeway.Engine) -> None:
        """What the chat template puts before an answer, and the tokens with which messages end."""
        if not engine.model.chats:
            return
        try:
            chat = [{"role": "user", "content": "x"}]
            with_opening = engine.apply_chat_template(chat, tokenize=True)
            without = engine.apply_chat_template(chat, tokenize=True, add_generation_prompt=False)
        except ropeway.RopewayError as error:
            logger.warning("the chat template does not show where an answer begins: %s", error)
            return
        if with_opening[: len(without)] == without and len(with_opening) > len(without):
            self._opening = with_opening[len(without) :]
            # A message ends with a token, and often with white space, which is found in answers, too.
            self._ends = {token for token in (self._opening[0], *without[-2:]) if engine.detokenize([token]).strip()}

    def _submit(
        self, request: GenerateRequest, context: Any, handles: list[ropeway.Handle], resumes: bool = True
    ) -> None:
        """Submits its choices and adds them to `handles`: all, or none. Not `resumes`: all of the ids are the prompt."""
        assert self._engine is not None
        fields = fields_of(request, context.id())
        ids = list(request["token_ids"])
        count = int((request.get("sampling_options") or {}).get("n") or 1)
        generated: list[int] = []
        # Where these count, the engine must know where the prompt ended. A request that was begun elsewhere comes with
        # what was generated as a part of its prompt, and with smaller limits.
        if resumes and count == 1 and any(fields.get(name) for name in ("presence_penalty", "frequency_penalty", "min_tokens")):
            end = prompt_end(ids, self._opening, self._ends)
            ids, generated = ids[:end], ids[end:]
        if generated:
            for name in ("max_tokens", "min_tokens"):
                if name in fields:
                    fields[name] += len(generated)
            fields["resume_ids"] = generated
        try:
            for choice in range(count):
                handles.append(self._engine.submit(ids, choice=choice, **fields))
        except BaseException as error:
            for handle in handles:
                handle.cancel()
            handles.clear()
            if isinstance(error, ropeway.RopewayError):
                raise self._exception_of(error) from error
            raise

    async def generate(self, request: GenerateRequest, context: Any) -> AsyncGenerator[GenerateChunk, None]:
        if self._leaving or self._engine is None:
            raise exceptions.EngineShutdown("this worker is stopping")
        if _IDENTITY in (request.get("annotations") or ()):
            yield {"token_ids": [], "index": 0, "finish_reason": "stop", "engine_data": {_IDENTITY: self._identity}}
            return
        handles: list[ropeway.Handle] = []
        self._handles[context.id()] = self._running[id(handles)] = handles
        self._idle.clear()
        said = False
        try:
            try:
                self._submit(request, context, handles)
                async for chunk in self._chunks(handles):
                    said = said or bool(chunk["token_ids"])
                    yield chunk
            except Exception as error:
                # What looked like the beginning of an answer may be none: a prompt that its sender wrote so.
                if said or getattr(error.__cause__, "field", "") != "resume_ids":
                    raise
                self._warn_of_continuation(context.id(), error)
                handles.clear()
                self._submit(request, context, handles, resumes=False)
                async for chunk in self._chunks(handles):
                    yield chunk
        finally:
            for handle in handles:
                handle.cancel()
            if self._handles.get(context.id()) is handles:
                del self._handles[context.id()]
            del self._running[id(handles)]
            if not self._running:
                self._idle.set()

    def _warn_of_continuation(self, request_id: str, error: Exception) -> None:
        """It may be one, of a worker that answers otherwise. Nobody can tell here, so somebody should hear of it. But any
        client can bring it about, as often as it likes."""
        now = time.monotonic()
        if now - self._warned_at < WARNING_SECONDS:
            self._unsaid += 1
            return
        logger.warning(
            "request %s does not go on where it was (right if its prompt ends with words of the assistant's; else another "
            "worker answers otherwise than this one); %d more since the last warning: %s",
            request_id,
            self._unsaid,
            error,
        )
        self._warned_at = now
        self._unsaid = 0

    async def _chunks(self, handles: list[ropeway.Handle]) -> AsyncGenerator[GenerateChunk, None]:
        if len(handles) == 1:
            async for chunk in self._choice(handles[0], 0):
                yield chunk
            return
        # The front ends an answer with the first reason to finish that it sees, of whatever choice: they are held back
        # until all choices have ended.
        queue: asyncio.Queue[GenerateChunk | BaseException] = asyncio.Queue()

        async def pass_on(handle: ropeway.Handle, index: int) -> None:
            try:
                async for chunk in self._choice(handle, index):
                    queue.put_nowait(chunk)
            except Exception as error:
                queue.put_nowait(error)

        tasks = [asyncio.create_task(pass_on(handle, index)) for index, handle in enumerate(handles)]
        ends: list[GenerateChunk] = []
        try:
            while len(ends) < len(tasks):
                item = await queue.get()
                if isinstance(item, BaseException):
                    raise item
                if "finish_reason" in item:
                    ends.append(item)
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
        for end in ends:
            yield end

    async def _choice(self, handle: ropeway.Handle, index: int) -> AsyncGenerator[GenerateChunk, None]:
        deltas = aiter(handle)
        # One task a stream: a timer for each token would cost more.
        nudges = asyncio.create_task(_nudge(deltas))
        try:
            while (delta := await deltas.next_or_nudge()) is not None:
                yield chunk_of(delta, index) if delta else {"token_ids": [], "index": index}
        finally:
            nudges.cancel()
        # Without usage: the front counts, and is right after a change of workers, too.
        yield {"token_ids": [], "index": index, "finish_reason": (await self._result(handle)).finish_reason}

    async def _result(self, handle: ropeway.Handle) -> ropeway.Result:
        try:
            return await handle
        except ropeway.RopewayError as error:
            raise self._exception_of(error) from error

    def _exception_of(self, error: ropeway.RopewayError) -> Exception:
        return exceptions.EngineShutdown("this worker is stopping") if self._leaving else exception_of(error)

    async def abort(self, context: Any) -> None:
        for handle in self._handles.get(context.id(), []):
            handle.cancel()

    async def cleanup(self) -> None:
        """All that runs goes on at other workers."""
        self._leaving = True
        if self._snapshot_task is not None:
            self._snapshot_task.cancel()
            self._snapshot_task = None
        for handles in list(self._running.values()):
            for handle in handles:
                handle.cancel()
        try:
            await asyncio.wait_for(self._idle.wait(), 10)
        except asyncio.TimeoutError:
            logger.warning("%d requests did not end", len(self._running))
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.to_thread(engine.close)
        if self._events_folder is not None:
            self._events_folder.cleanup()
            self._events_folder = None

    async def kv_event_sources(self) -> list[KvEventSource]:
        address = source_address(self._options.get("kv_events", ""))
        # A model that makes embeddings only keeps no blocks, and its engine binds nothing.
        if address is None or self._engine is None or self._engine.model.embeds_only:
            return []
        return [ZmqSource(endpoint=address, topic=self._options.get("kv_events_topic", ""), dp_rank=0)]

    def component_metrics_dp_ranks(self) -> list[int]:
        return [0]

    def attach_snapshot_publisher(self, publisher: Any) -> None:
        self._snapshots = publisher
        # Dynamo calls this from a thread of its own.
        assert self._loop is not None
        self._snapshot_task = asyncio.run_coroutine_threadsafe(self._publish_snapshots(), self._loop)

    async def _publish_snapshots(self) -> None:
        failed = False
        while self._engine is not None:
            try:
                self._publish_snapshot(self._engine.stats())
                failed = False
            except Exception as error:
                if not failed:  # Once for all in a row.
                    logger.warning("what this worker has free is not published: %s", error)
                failed = True
            await asyncio.sleep(0.25)

    def _publish_snapshot(self, stats: dict[str, Any]) -> None:
        total = stats["kv_blocks_free"] + stats["kv_blocks_held"] + stats["kv_blocks_cached"]
        held = stats["kv_blocks_held"]
        self._snapshots.publish(
            0, ComponentSnapshot(kv_used_blocks=held, kv_total_blocks=total, gpu_cache_usage=held / max(1, total), dp_rank=0)
        )

    async def register_prometheus(self, metrics: Any) -> None:
        engine = self._engine
        assert engine is not None
        metrics.register_prometheus_expfmt_callback(engine.metrics)


async def _nudge(deltas: Deltas) -> None:
    while True:
        await asyncio.sleep(LIFE_SECONDS)
        deltas.nudge()


async def _ask_identity(client: Any, instance: int) -> Any:
    question = {
        "model": "",
        "token_ids": [1],
        "stop_conditions": {"max_tokens": 1},
        "sampling_options": {},
        "output_options": {},
        "annotations": [_IDENTITY],
        "eos_token_ids": [],
    }
    async for answer in await client.direct(question, instance):
        data = answer.data() if callable(getattr(answer, "data", None)) else answer
        said = data.get("engine_data") if isinstance(data, dict) else None
        if isinstance(said, dict) and _IDENTITY in said:
            return said[_IDENTITY]
    return None


def events_folder() -> "tempfile.TemporaryDirectory[str]":
    prefix = "ropeway-events-"
    folder = tempfile.TemporaryDirectory(prefix=prefix)
    if len(os.fsencode(f"{folder.name}/{_EVENTS_SOCKET}")) <= _LONGEST_PATH:
        return folder
    folder.cleanup()
    return tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp")


def source_address(address: str) -> str | None:
    """Where one connects to what --kv-events binds; None: nowhere that is known before."""
    if address.isdecimal():
        address = f"tcp://127.0.0.1:{address}"
    if address.startswith("ipc://"):
        return address
    bound = re.fullmatch(r"tcp://(\[.*\]|[^:]+):([0-9]+)", address)
    if bound is None:
        return None
    host = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(bound[1], bound[1])
    return f"tcp://{host}:{bound[2]}"


def options_of(words: list[str], parser: argparse.ArgumentParser) -> dict[str, str]:
    """Options of ropeway.Engine as flags: --kv-cache-size 1GiB, or --kv-cache-size=1GiB."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            parser.error(f"'{word}' is no flag")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        options[name[2:].replace("-", "_")] = value
    return options


def check_options(options: dict[str, str]) -> None:
    """Raises what is wrong with them, before Dynamo's runtime starts and a model is loaded."""
    try:
        ropeway.Engine(os.devnull, **options).close()  # No model: the options are looked at first.
    except ropeway.InvalidArgumentError as error:
        if error.field in options:
            raise
    except ropeway.RopewayError:
        pass


def check_version() -> None:
    """Warns of a Dynamo with which this worker was not tried."""
    try:
        version = importlib.metadata.version("ai-dynamo")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    if version != _TRIED_VERSION:
        logger.warning("this worker was tried with Dynamo %s, and %s is installed", _TRIED_VERSION, version)


def sentence_of(error: BaseException) -> str:
    """One line, without the names of classes that Dynamo puts before what the engine says."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r"\A(?:[A-Z][A-Za-z]*: )+", "", text)


def main() -> None:
    from dynamo.common.backend.run import run

    check_version()
    try:
        run(RopewayWorker)
    except Exception as error:
        logger.debug("where it failed", exc_info=True)
        sys.exit(f"ropeway.dynamo: {sentence_of(error)}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
