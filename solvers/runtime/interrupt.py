"""Solves that can be interrupted: a handler is called in the thread of the solve, in the middle of it.

A request raises a flag. Python code checks it where it calls ``check``. Compiled loops check, at every event, an
integer among their own counters, which ``watch`` has registered, and call back. So no code is left and entered again
for a handler that returns, and the solve goes on to the same bits. A handler that raises ends the solve; code that has
changed something by then restores it, ``undisturbed``.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from llvmlite import binding
from numba.core import types
from numba.core.extending import intrinsic

from livesvm.solvers.errors import TimeLimit
from livesvm.solvers.runtime.compile import compiled, spent
from livesvm.solvers.runtime.types import Ints
from livesvm.solvers.validation import positive

AT_ONCE = 30_000_000  #: products that are computed between two looks, in some hundredths of a second
COPY = 16  #: products that are computed while one number comes from far away in memory
WHOLE = (slice(None),)


class Interrupt:
    """Lets solves of this thread inside call ``handler``, in this thread, soon after they are asked.

    The handler may raise a SolverError, which ends the solve with the model as it was; or it may return, even after
    waiting, and the solve goes on as if nothing had been. Handlers may be nested; outer ones are called too. ::

        with interruptible(handler) as interrupt:  # another thread calls interrupt.ask()
            model.update(...)
    """

    def __init__(self, handler: Callable[[], None]) -> None:
        self._handler = handler
        self._outer: Interrupt | None = None
        self._asked = False
        self._flag: tuple[Ints, int] | None = None

    def __enter__(self) -> Interrupt:
        self._outer, _here.interrupt = _here.interrupt, self
        return self

    def __exit__(self, *_: object) -> None:
        _here.interrupt = self._outer

    def ask(self) -> None:
        """Ask, from any thread, that the solve call its handler soon."""
        self._asked = True
        if self._flag is not None:
            flags, place = self._flag
            flags[place] = 1


class _Here(threading.local):
    """The interrupts of one thread."""

    interrupt: Interrupt | None = None
    error: BaseException | None = None  #: of a handler that compiled code has called


_here = _Here()
interruptible = Interrupt


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the wall time of all that this thread solves inside to ``seconds``.

    The first call of a kind may have to compile its code; that time does not count.

    Parameters
    ----------
    seconds : float
        Wall time, above 0.

    Yields
    ------
    None

    Raises
    ------
    TimeLimit
        Inside, when they are over; models are as they were before the call that did not end in time.
    InvalidInput
        ``seconds`` is not a positive finite number.
    """
    limit, granted = positive(seconds, "seconds"), spent.seconds
    timer = threading.Timer(limit, lambda: interrupt.ask())

    def end() -> None:
        nonlocal granted, timer
        late, granted = spent.seconds - granted, spent.seconds
        if late > 0.0:
            timer = started(threading.Timer(late, interrupt.ask))
            return
        interrupt.ask()  # later work inside has no time either
        raise TimeLimit(limit)

    def started(timer: threading.Timer) -> threading.Timer:
        timer.daemon = True
        timer.start()
        return timer

    with interruptible(end) as interrupt:
        started(timer)
        try:
            yield
        finally:
            timer.cancel()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Defer interrupts of this thread until the block ends."""
    interrupt, _here.interrupt = _here.interrupt, None
    try:
        yield
    finally:
        _here.interrupt = interrupt


def check() -> None:
    """Call the handlers that were asked for; this is called where a solve can stop, and costs next to nothing."""
    interrupt = _here.interrupt
    while interrupt is not None:
        if interrupt._asked:
            interrupt._asked = False
            interrupt._handler()
        interrupt = interrupt._outer


def parts(count: int, products: int) -> Iterable[slice]:
    """Return slices of ``count`` items, each little work at ``products`` an item, with a check before each slice.

    If all items together are little work, there is one slice and no check.
    """
    return WHOLE if count * products <= AT_ONCE else _parts(count, max(1, AT_ONCE // products))


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        check()
        yield slice(start, min(count, start + size))


def watch(flags: Ints, place: int) -> None:
    """Let compiled code that checks ``flags[place]``, by ``is_stopped``, be interrupted from now on."""
    interrupt = _here.interrupt
    while interrupt is not None:
        interrupt._flag = flags, place
        if interrupt._asked:  # before this
            flags[place] = 1
        interrupt = interrupt._outer


def raise_what_stopped() -> None:
    """Raise the error that made compiled code of this thread stop, if any; to be called after all such code."""
    error = _here.error
    if error is not None:
        _here.error = None
        raise error


def _paused() -> int:
    """Call the handlers for compiled code, which no exception can leave; return 1 if it must stop."""
    try:
        if _here.error is None:
            check()
    except BaseException as error:
        _here.error = error
    return int(_here.error is not None)


_callback = ctypes.CFUNCTYPE(ctypes.c_int64)(_paused)
binding.add_symbol("livesvm_paused", cast("int", ctypes.cast(_callback, ctypes.c_void_p).value))
_pause = cast("Callable[[], int]", types.ExternalFunction("livesvm_paused", types.int64()))


def _read(context: Any, flags: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(builder.gep(array.data, [arguments[1]]), "monotonic", 8)

    return types.int64(flags, types.intp), code


#: ``flags[place]`` as it is in memory now; an ordinary read may be made once for all rounds of a loop.
_read_now = cast("Callable[[Ints, int], int]", intrinsic(_read))


@compiled
def is_stopped(flags: Ints, place: int) -> bool:
    """Let a thread that has raised ``flags[place]`` interrupt compiled code here; return whether to stop.

    Later checks in the same call stop too, and its results are not used.
    """
    return _read_now(flags, place) != 0 and _stops(flags, place)


@compiled
def _stops(flags: Ints, place: int) -> bool:
    flags[place] = 0  # before the handler is called: a later request is seen at the next check
    if _pause() == 0:
        return False
    flags[place] = 1  # the next check stops too
    return True
