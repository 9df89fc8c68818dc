"""Requests, answers and errors as Dynamo has them, and as the engine has them."""

from __future__ import annotations

import hashlib
from typing import Any, Iterable

from dynamo.common.backend import GenerateChunk, GenerateRequest
from dynamo.llm import exceptions

import ropeway

# Names of Dynamo's that the engine calls the same.
_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
)
# Of these the front's own values are defaults that mean nothing.
_NEUTRAL = {"top_k": (-1, 0), "min_p": (0.0,), "presence_penalty": (0.0,), "frequency_penalty": (0.0,)}
# What a guided request is called there, and what its form is here.
_GUIDED = ("json", "regex", "choice", "grammar", "structural_tag", "json_object")


def seed_of(request_id: str) -> int:
    """The seed of a request that has none: all workers that it comes to draw the same."""
    return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:4], "big") >> 1


def prompt_end(ids: list[int], opening: list[int], ends: Iterable[int]) -> int:
    """Where the prompt of a chat ends in `ids`, which may have generated tokens behind it: behind the last `opening`,
    the tokens that open an answer, if no end of a message follows. Else len(ids): there is none to be seen."""
    length = len(opening)
    if length == 0:
        return len(ids)
    for at in range(len(ids) - length, -1, -1):
        if ids[at : at + length] == opening:
            behind = at + length
            return len(ids) if set(ids[behind:]) & set(ends) else behind
    return len(ids)


def form_fields(guided: dict[str, Any]) -> dict[str, Any]:
    """The form that Dynamo's `guided_decoding` asks for, as fields of a request."""
    given = {name: value for name, value in guided.items() if name in _GUIDED and value not in (None, False)}
    if not given:
        return {}
    (name, value) = next(iter(given.items()))
    if len(given) > 1 or name in ("grammar", "structural_tag"):
        raise exceptions.InvalidArgument(f"guided_decoding: {', '.join(given)} is not supported by this worker")
    if name == "json_object":
        return {"response_format": {"type": "json_object"}}
    if name == "json":
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "guided", "schema": value}}}
    return {f"guided_{name}": value}


def fields_of(request: GenerateRequest, request_id: str) -> dict[str, Any]:
    """The fields of a request that are not the prompt's."""
    sampling = request.get("sampling_options") or {}
    stop = request.get("stop_conditions") or {}
    output = request.get("output_options") or {}
    fields: dict[str, Any] = {}
    for name in _SAMPLING:
        value = sampling.get(name)
        if value is not None and value not in _NEUTRAL.get(name, ()):
            fields[name] = value
    fields.setdefault("seed", seed_of(request_id))
    for name in ("max_tokens", "min_tokens", "ignore_eos"):
        if stop.get(name) is not None:
            fields[name] = stop[name]
    # The front looks for stop strings: it has the text.
    ids = list(stop.get("stop_token_ids") or []) + list(stop.get("stop_token_ids_hidden") or [])
    if ids:
        fields["stop_token_ids"] = sorted(set(ids))
    # Not prompt_logprobs: an answer has no place for them.
    if output.get("logprobs") is not None:
        fields["logprobs"] = int(output["logprobs"])
    fields.update(form_fields(sampling.get("guided_decoding") or {}))
    salt = (request.get("routing") or {}).get("cache_salt")
    if salt:
        fields["cache_salt"] = salt
    return fields


def exception_of(error: ropeway.RopewayError) -> Exception:
    """Which of Dynamo's exceptions says it: what a client got wrong is told, all else goes to another worker.

    An InternalError, too, may be the doing of the request alone, and then each worker that it is moved to fails alike. The
    front's --migration-limit ends that, and a failed request costs its worker nothing, while a request that one bad machine
    failed is saved. So it is not told apart."""
    # Time that is up is no fault of the request's. Dynamo has no exception for it but ConnectionTimeout, which says that
    # this worker cannot be reached.
    if isinstance(error, (ropeway.ResourceExhaustedError, ropeway.DeadlineExceededError)):
        return exceptions.WorkerUnavailable(str(error))
    if isinstance(error, (ropeway.UnavailableError, ropeway.InternalError, ropeway.DataLossError)):
        return exceptions.EngineShutdown(str(error))
    if isinstance(error, ropeway.CancelledError):
        return exceptions.Cancelled(str(error))
    return exceptions.InvalidArgument(str(error))


def chunk_of(delta: ropeway.Delta | ropeway.Result, index: int) -> GenerateChunk:
    chunk: GenerateChunk = {"token_ids": delta.token_ids, "index": index}
    if delta.logprobs is None:
        return chunk
    chunk["log_probs"] = delta.logprobs.tolist()
    assert delta.top_ids is not None and delta.top_logprobs is not None
    chunk["top_logprobs"] = [
        [
            {"rank": rank, "token_id": int(token), "token": None, "logprob": float(logprob)}
            for rank, (token, logprob) in enumerate(zip(ids, logprobs), 1)
            if token >= 0
        ]
        for ids, logprobs in zip(delta.top_ids, delta.top_logprobs)
    ]
    return chunk
