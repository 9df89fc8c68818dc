"""What callers give, as the compiled module takes it. What is wrong is said in a sentence that names the argument: a wrong
type is a TypeError, a wrong value an InvalidArgumentError."""

from __future__ import annotations

import json
import math
import numbers
import operator
import os
from typing import Any, Mapping

import numpy as np

from ropeway import _ropeway
from ropeway._errors import InvalidArgumentError

_MOST_SECONDS = 1e9


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def text_of(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name}: expected Unicode text, but it has a lone surrogate", name) from None
    return value


def index_of(value: Any, name: str, most: int) -> int:
    """A whole number, 0 to `most`."""
    try:
        index = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, not {_kind(value)}") from None
    if not 0 <= index <= most:
        raise InvalidArgumentError(f"{name}: expected a whole number from 0 to {most}, not {index}", name)
    return index


def seconds_of(value: Any, name: str) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected seconds, not {_kind(value)}")
    seconds = min(float(value), _MOST_SECONDS)
    if math.isnan(seconds):
        raise InvalidArgumentError(f"{name}: expected seconds, not NaN", name)
    return seconds


def ids_of(value: Any, name: str, expected: str = "token ids") -> list[int]:
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind not in "iu":
            raise TypeError(
                f"{name}: expected {expected} in one row, not an array of {value.dtype} with {value.ndim} dimensions"
            )
        ids: list[int] = value.tolist()
    else:
        # The bytes of a text are no ids, though they are numbers.
        if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not hasattr(value, "__iter__"):
            raise TypeError(f"{name}: expected {expected}, not {_kind(value)}")
        ids = []
        for token in value:
            try:
                ids.append(operator.index(token))
            except TypeError:
                hint = "; a chat goes to `messages`" if isinstance(token, Mapping) else ""
                raise TypeError(f"{name}: expected {expected}, but [{len(ids)}] is {_kind(token)}{hint}") from None
    for token in (min(ids, default=0), max(ids, default=0)):
        if not -(2**31) <= token < 2**31:
            raise InvalidArgumentError(f"{name}: token id {token} is not in the model's vocabulary", name)
    return ids


def _plain(value: Any) -> Any:
    """For json: NumPy's numbers and arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"expected what JSON can hold, not {_kind(value)}")


def _dumped(value: Any) -> str:
    text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False)
    text.encode()
    return text


def json_of(body: Mapping[str, Any]) -> str:
    try:
        return _dumped(body)
    except (TypeError, ValueError, RecursionError):
        pass
    for name, value in body.items():
        try:
            _dumped({name: value})
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        except UnicodeEncodeError:
            raise InvalidArgumentError(f"{name}: expected Unicode text, but it has a lone surrogate", name) from None
        except RecursionError:
            raise InvalidArgumentError(f"{name}: it is nested too deeply", name) from None
        except ValueError as error:
            fault = "it contains itself" if "Circular" in str(error) else "expected finite numbers, but one is NaN or infinite"
            raise InvalidArgumentError(f"{name}: {fault}", name) from None
    return _dumped(body)


def _keyword_text(value: Any, name: str) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, (str, numbers.Real)):
        raise TypeError(f"{name}: expected a text or a number, not {_kind(value)}")
    return str(value) if isinstance(value, numbers.Real) else text_of(value, name)


def open_engine(model: Any, options: Mapping[str, Any]) -> _ropeway.Engine:
    """The engine of these options, which may be None."""
    if isinstance(model, bool) or not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"model: expected a path or the name of a model, not {_kind(model)}")
    given = {"model": model, **{name: value for name, value in options.items() if value is not None}}
    keywords = {name: _keyword_text(value, name) for name, value in given.items()}
    while True:
        try:
            return _ropeway.open(list(keywords.items()))
        except InvalidArgumentError as error:
            name = error.field
            # Some flags are on or off. Only the module knows which.
            if keywords.get(name) not in ("true", "false") or "expected one of on, off" not in str(error):
                raise
            if not isinstance(given[name], (bool, np.bool_)):
                raise
            keywords[name] = "on" if given[name] else "off"
