"""The one place that decides how hot loops are compiled.

Numba compiles every function to machine code together with all functions that it calls, directly or indirectly: a
function that is called by twenty others is compiled twenty times. Here a function that only compiled code calls is
translated once, to an intermediate form. Machine code is made only of functions that Python calls, with all functions
that they need. A large function with several compiled callers is also compiled once only; its callers jump to its
address.
"""

from __future__ import annotations

import copy
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

from llvmlite.binding import Linkage, add_symbol, parse_assembly
from numba.core import sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

from livesvm.solvers.runtime.at_work import at_work
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.machine_code import MachineCode, shared

P = ParamSpec("P")
R = TypeVar("R")

#: Sums may be reassociated and fused, which lets them use vector instructions. Infinities and NaN keep their
#: meaning: limits that do not exist are infinite.
FAST_MATH = frozenset({"reassoc", "contract", "nsz"})
#: A product and the sum that it is added to may be one step. Other orders of a sum would differ from vector
#: instructions to what is left over at the end of an array, so that a number would depend on where it is.
IN_ORDER = frozenset({"contract"})


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes no arrays to machine code that releases the GIL.

    The function borrows its array arguments, so no references are counted; counting would take longer than a small
    event. The machine code is stored on disk if possible.
    """
    return _machine_code(function, counts_references=False)


def compiled_allocating(function: Callable[P, R]) -> Callable[P, R]:
    """Compile, as ``compiled`` does, a function that creates arrays or gets new arrays from its calls."""
    return _machine_code(function, counts_references=True)


def compiled_in_order(function: Callable[P, R]) -> Callable[P, R]:
    """Compile, as ``compiled`` does, but so that a result does not depend on its position in an array."""
    return _machine_code(function, counts_references=False, fast_math=IN_ORDER)


def compiled_once(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes no arrays to machine code that all compiled callers share.

    Callers jump to the function's address and do not include its code: this suits large functions that are called
    rarely.
    """
    return _machine_code(function, counts_references=False, entry=Shared)


def compiled_once_allocating(function: Callable[P, R], fast_math: frozenset[str] = FAST_MATH) -> Callable[P, R]:
    """Compile, as ``compiled_once`` does, a function that creates arrays or gets new ones from functions it calls."""
    return _machine_code(function, counts_references=True, fast_math=fast_math, entry=Shared)


def compiled_once_in_order(function: Callable[P, R]) -> Callable[P, R]:
    """Compile, as ``compiled_once`` does, but keep the written order of operations; the function may create arrays."""
    return compiled_once_allocating(function, IN_ORDER)


def _machine_code(
    function: Callable[P, R],
    counts_references: bool,
    fast_math: frozenset[str] = FAST_MATH,
    entry: type[Entry] | None = None,
) -> Callable[P, R]:
    options: dict[str, Any] = {
        "nopython": True,
        "nogil": True,
        "fastmath": set(fast_math),
        "error_model": "numpy",
        "_nrt": counts_references,
        "no_cfunc_wrapper": True,
    }
    return cast("Callable[P, R]", (entry or Entry)(function, targetoptions=options, pipeline_class=_EntryCompiler))


class _Spent(threading.local):
    """The seconds that this thread has spent on making or loading machine code."""

    seconds = 0.0
    since: float | None = None


spent = _Spent()

_SELDOM = 20_000, 50, 100  #: thresholds of collections: hardly any object of a translation is garbage
_collecting = threading.Lock()
_usual: list[tuple[int, int, int]] = []  #: thresholds, once for each function that is being made


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    with _collecting:
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        with _collecting:
            usual = _usual.pop()
            if not _usual:
                gc.set_threshold(*usual)


class Entry(CPUDispatcher):
    """A compiled function in the form that Python calls; compiled code calls the ``Inner`` form of the function."""

    def compile(self, sig: Any) -> Any:
        """Make or load machine code, and add the time to ``spent``."""
        if spent.since is not None:
            return super().compile(sig)
        spent.since = since = time.perf_counter()
        try:
            with _collecting_seldom(), at_work.call():
                return super().compile(sig)
        finally:
            spent.since = None
            spent.seconds += time.perf_counter() - since

    def __init__(self, function: Callable[..., Any], **how: Any) -> None:
        super().__init__(function, **how)
        self._cache = MachineCode(self)

    @cached_property
    def inner(self) -> Any:
        """The form of the function that compiled code calls; it is not needed if machine code is only loaded."""
        options = {**self.targetoptions, "no_cpython_wrapper": True}
        return Inner(self.py_func, targetoptions=options, pipeline_class=_InnerCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Tell Numba how compiled code calls the function."""
        return self.inner.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the function that compiled code calls, for Numba."""
        return self.inner.get_overload(sig)


class Shared(Entry):
    """A compiled function that compiled code calls at its address, by a name that changes with any of its sources."""

    def __init__(self, function: Callable[..., Any], **how: Any) -> None:
        super().__init__(function, **how)
        self._keys: dict[Any, _Key] = {}

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Make or load machine code, and tell Numba how compiled code calls the function."""
        return CPUDispatcher.get_call_template(self, args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the function that compiled code calls, for Numba."""
        return self.address(tuple(sigutils.normalize_signature(sig)[0]))

    def address(self, args: tuple[Any, ...]) -> _Key:
        """Link the machine code for arguments of these types to the function's name; return the key of the code."""
        if args not in self._keys:
            self.compile(args)
            result: Any = self.overloads[args]
            name = self._cache.name(args)
            add_symbol(name, result.library.get_pointer_to_function(result.fndesc.llvm_func_name))
            shared[name] = self, args
            described = copy.copy(result.fndesc)
            described.mangled_name = name
            self._keys[args] = key = _Key()
            self.targetctx.insert_user_function(key, described)
        return self._keys[args]


class Inner(CPUDispatcher):
    """A function in the form that compiled code calls: only translated, and included in the machine code of callers."""

    def add_overload(self, result: Any) -> None:
        """Register the function under a key made here, because the function has no address."""
        result = result._replace(entry_point=_Key())
        self.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result


class _Key:
    pass


class _InnerLibrary(JITCodeLibrary):
    """The intermediate code of one function, without the functions that it calls."""

    def _optimize_functions(self, module: Any) -> None:
        """Skip optimization: functions are optimized as part of the library that includes them."""
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Skip linking: other libraries include this one, which is not linked by itself."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return the module unchanged: functions that Numba marks as discardable are included where they are called."""
        return self._final_module


class _EntryLibrary(JITCodeLibrary):
    """The machine code of a function and of all functions that it calls."""

    def finalize(self) -> None:
        """Include all functions that are called, directly or indirectly."""
        self._own = {f.name for f in self._final_module.functions if not f.is_declaration}
        libraries = self._linking_libraries
        for library in libraries:  # which grows
            if isinstance(library, _InnerLibrary):
                libraries.extend(other for other in library._linking_libraries if other not in libraries)
        super().finalize()

    def _get_module_for_linking(self) -> Any:
        """Return a module with the names alone: no other library includes this code, so a copy is not needed."""
        names = (f'define void @"{name}"() {{ unreachable }}' for name in sorted(self._own))
        return parse_assembly("\n".join([str(self._codegen._create_empty_module(self.name)), *names]))

    def _verify_declare_only_symbols(self) -> None:
        missing = [f.name for f in self._final_module.functions if f.is_declaration and f.name.startswith("_ZN")]
        assert not missing, missing  # they would be called all the same

    def _optimize_final_module(self) -> None:
        """Optimize the whole module: included functions are private, so any that is inlined everywhere is removed."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in self._own:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class _InnerCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, args: Any, returns: Any, flags: Any, local: Any) -> None:
        flags.no_compile = True
        at_work.translate()
        super().__init__(typing, target, _InnerLibrary(target.codegen(), "inner"), args, returns, flags, local)


class _EntryCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, args: Any, returns: Any, flags: Any, local: Any) -> None:
        at_work.translate()
        entry = _EntryLibrary(target.codegen(), "entry")
        entry.enable_object_caching()
        super().__init__(typing, target, entry, args, returns, flags, local)
