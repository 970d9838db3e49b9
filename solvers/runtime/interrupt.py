"""Solves that can be interrupted: a handler is called in the thread of the solve, while the solve is under way.

A request for an interrupt raises a flag. Python code checks the flag where it calls ``check``. At every event compiled
loops check a flag among their own counters, which ``watch`` has registered. If the flag is raised, compiled loops call
back to Python. Compiled code waits while the handler runs, and if the handler returns, the result of the solve is the
same to the last bit. A handler that raises an error ends the solve; code that has made changes undoes them, with
interrupts deferred by ``undisturbed``.
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
    """A context in which solves of this thread call ``handler``, in the same thread, soon after ``ask`` is called.

    The handler may raise a SolverError, which ends the solve with the model as it was. The handler may also return,
    even after waiting; the solve then continues with the same result. Contexts may be nested; the handlers of outer
    contexts are called too. ::

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
        """Request, from any thread, that the solve call the handler soon."""
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
    """Limit the wall time of all that this thread solves inside the context to ``seconds``.

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
    """Call the requested handlers; solvers call this function where a solve can stop, and it costs next to nothing."""
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
    """Register ``flags[place]`` as the flag that interrupts compiled code, which checks it by ``is_stopped``."""
    interrupt = _here.interrupt
    while interrupt is not None:
        interrupt._flag = flags, place
        if interrupt._asked:  # before this
            flags[place] = 1
        interrupt = interrupt._outer


def raise_what_stopped() -> None:
    """Raise the error that made compiled code of this thread stop, if any; call this after each interruptible call."""
    error = _here.error
    if error is not None:
        _here.error = None
        raise error


def _paused() -> int:
    """Call the handlers and keep an error, because compiled code cannot raise it; return 1 if the code must stop."""
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
    """Call the handlers if a thread has raised ``flags[place]``; return whether compiled code must stop.

    After a result of True, later checks in the same call also return True, and the results of the call are not used.
    """
    return _read_now(flags, place) != 0 and _stops(flags, place)


@compiled
def _stops(flags: Ints, place: int) -> bool:
    flags[place] = 0  # before the handler is called: a later request is seen at the next check
    if _pause() == 0:
        return False
    flags[place] = 1  # the next check stops too
    return True
