"""Ropeway: an LLM serving engine, in this process.

    import ropeway

    with ropeway.Engine("model.gguf", threads=4) as engine:
        print(engine.generate("The capital of France is", max_tokens=8).text)

        for delta in engine.submit(messages=[{"role": "user", "content": "Hello!"}]):
            print(delta.text, end="", flush=True)

Requests that are under way together are computed together. For one seed, or temperature 0, tokens and
log-probabilities are the same to the bit whatever else runs. docs/python.md has the rest.
"""

from ropeway._engine import Delta, Engine, Handle, Model, Result, Session, Usage
from ropeway._errors import (
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    RopewayError,
    UnavailableError,
    UnimplementedError,
)
from ropeway._ropeway import __version__

__all__ = [
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "Delta",
    "Engine",
    "Handle",
    "InternalError",
    "InvalidArgumentError",
    "Model",
    "NotFoundError",
    "ResourceExhaustedError",
    "Result",
    "RopewayError",
    "Session",
    "UnavailableError",
    "UnimplementedError",
    "Usage",
    "__version__",
]
