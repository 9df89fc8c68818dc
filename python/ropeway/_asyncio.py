"""Wakes tasks of an event loop when the engine has output for them."""

from __future__ import annotations

import asyncio
import itertools
import weakref

from ropeway import _ropeway


class Waker:
    """One for each event loop. The engine's threads write to a file descriptor, which the loop
    watches; none of them ever waits for Python."""

    _of_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waker]" = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._queue = _ropeway.ReadyQueue()
        # Several tasks may wait with one key.
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}
        self._keys = itertools.count(1)
        # The loop holds this object no longer than it lives, and this one does not hold the loop.
        self._loop = weakref.ref(loop)
        loop.add_reader(self._queue.fd, _wake, weakref.ref(self))

    @classmethod
    def of_this_loop(cls) -> "Waker":
        loop = asyncio.get_running_loop()
        waker = cls._of_loop.get(loop)
        if waker is None:
            waker = cls._of_loop[loop] = cls(loop)
        return waker

    def check_loop(self) -> None:
        if self._loop() is not asyncio.get_running_loop():
            raise RuntimeError("an iterator over deltas is used in another event loop than that in which it was made")

    def watch(self, handle: _ropeway.Handle, *, only_end: bool) -> int:
        """A key to wait with: for output of the handle, or for its end alone. Until forget."""
        key = next(self._keys)
        handle.notify(self._queue, key, only_end)
        return key

    def forget(self, handle: _ropeway.Handle, key: int) -> None:
        handle.forget(self._queue, key)

    async def wait(self, key: int) -> None:
        """Returns when there may be something new, or at a nudge. Look before: what came earlier is not told again."""
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, [])
        waiting.append(future)
        try:
            await future
        finally:
            waiting.remove(future)
            if not waiting:
                self._waiting.pop(key, None)

    def wake(self) -> None:
        keys, every = self._queue.take()
        for key in list(self._waiting) if every else keys:
            self.nudge(key)

    def nudge(self, key: int) -> None:
        """Ends the waits for this key, though there is nothing new."""
        for future in self._waiting.get(key, ()):
            if not future.done():
                future.set_result(None)


def _wake(waker: "weakref.ref[Waker]") -> None:
    alive = waker()
    if alive is not None:
        alive.wake()
