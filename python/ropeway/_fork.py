"""What a fork leaves behind: an engine's threads, and with them its engines and requests, stay in the process that made
them. A child that touched their locks, or ended them, would wait for ever or crash."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, NoReturn, Protocol

from ropeway._errors import UnavailableError


class Keeper(Protocol):
    """An object that has something of the compiled module."""

    def _leave_behind(self) -> Any:
        """Gives it up in a child. It must never be destroyed."""


class Gone:
    """In the place of an engine in a child."""

    def __getattr__(self, name: str) -> NoReturn:
        refuse()


# How many forks lie behind this process.
generation = 0
_keepers: "weakref.WeakSet[Keeper]" = weakref.WeakSet()


def watch(keeper: Keeper) -> None:
    _keepers.add(keeper)


def refuse() -> NoReturn:
    raise UnavailableError("the engine belongs to the process that made it, of which this one is a fork")


def _after_in_child() -> None:
    global generation
    generation += 1
    for keeper in list(_keepers):
        # Not even when the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(keeper._leave_behind()))
    _keepers.clear()


os.register_at_fork(after_in_child=_after_in_child)
