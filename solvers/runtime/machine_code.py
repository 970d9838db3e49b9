"""The files of machine code on disk, with names that show whether the code is up to date.

Numba's own cache checks only the source file of a function. Numba's cache would go on using machine code that includes
an older version of a function from another file. Here the name of a file is a digest of all that the code depends on:
the bytecode of the function and of all functions that it calls, the constants they use, the fields of their records,
the types of the arguments, and the versions of the packages. So an edit recompiles only the functions that depend on
it, two versions can share a directory, and different code never has the same name. The name also includes the
processor. Code that was installed with the package may also be for a baseline, an older kind of processor whose
instructions this processor can run.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import importlib
import importlib.util
import logging
import os
import pickle
import stat
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Set
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite.binding import get_host_cpu_features
from numba.core import config, registry, sigutils, types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

from livesvm.solvers.runtime.by_reference import Reference

PACKAGE = __name__.partition(".")[0]
MADE_BY = [Path(__file__).with_name(name).read_text() for name in ("by_reference.py", "compile.py")]
PYTHON = (sysconfig.get_config_var("EXT_SUFFIX"), importlib.util.MAGIC_NUMBER)
VERSIONS = (numba.__version__, llvmlite.__version__, getattr(config, "USING_SVML", False), *PYTHON, *MADE_BY)
BESIDE_SOURCE = Path(__file__).parents[1] / "__pycache__"
MACHINE_CODE = "machine-code"
INSTALLED = BESIDE_SOURCE.with_name(MACHINE_CODE)  #: code that the package was built with; read only
#: By LLVM's name, features that a processor must have beyond those of its architecture; the best first.
BASELINES = {
    "x86-64-v3": frozenset(("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")),
    "x86-64-v2": frozenset(("crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")),
    "generic": frozenset[str](),
}
OTHERS_WRITE = 0o002
READABLE = 0o644  #: mode of code in an image, which another user than its builder runs
NO_PLACE = (
    "there is no place to keep machine code, so that it is made anew at every start, which takes minutes: "
    "let NUMBA_CACHE_DIR name a directory that this user alone can write to, and that stays"
)
log = logging.getLogger(__name__)
#: Functions that other machine code calls at their address, and the types of their arguments, by name.
shared: dict[str, tuple[Any, tuple[Any, ...]]] = {}
in_use: set[Path] = set()  #: the files that this process has loaded or made
UNUSED_SECONDS = 60 * 24 * 3600  #: code that was not loaded for this long is deleted


class MachineCode(NullCache):
    """The machine code of one function, with one file for each list of argument types."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored machine code for these argument types, or None if there is none."""
        rtsys.initialize(target_context)  # kept code needs only this of Numba; compiling loads the rest
        for file in _files(self.name(sig)):
            try:
                payload = pickle.loads(file.read_bytes())
            except (OSError, EOFError, pickle.UnpicklingError):
                continue  # never made, or cut off by a loss of power
            _use(file)
            calls, *made = payload
            for module, function, args in calls:
                getattr(importlib.import_module(module), function).address(args)
            return CompileResult._rebuild(target_context, *made)
        if directory() is None:
            _warn_of_no_cache()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code; the file appears only once it is complete."""
        where = directory()
        if where is None or data.lifted or data.library.has_dynamic_globals:
            return
        with contextlib.suppress(OSError):
            with tempfile.NamedTemporaryFile(dir=where, delete=False) as made:
                made.write(dumps((_calls_of(data.library), *data._reduce())))
            os.chmod(made.name, READABLE)
            file = Path(where) / f"{self.name(sig)}.{processors()[0]}"
            os.replace(made.name, file)
            in_use.add(file)

    def name(self, sig: Any) -> str:
        """Return the name, unique on each processor, of the machine code for arguments of these types."""
        args, _ = sigutils.normalize_signature(sig)
        fields = [name for arg in args for name in _fields_of(arg)]
        words = (VERSIONS, str(args), fields, *_parts_of(self._dispatcher))
        digest = hashlib.sha256(repr(words).encode()).hexdigest()
        function = self._dispatcher.py_func
        return f"{function.__module__}.{function.__name__}-{digest[:32]}"


def _calls_of(library: Any) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Return the shared functions that machine code calls: module, name and types of arguments."""
    called = [shared[f.name] for f in library._final_module.functions if f.is_declaration and f.name in shared]
    return [(function.py_func.__module__, function.py_func.__name__, args) for function, args in called]


def _files(name: str) -> Iterator[Path]:
    """Yield the files in which the machine code may be: first installed files, also for a baseline, then later ones.

    Code that was compiled after the installation is in :func:`directory`. Unless ``NUMBA_CACHE_DIR`` is set, machine
    code may also be next to the source, even in a folder that is not writable.
    """
    own, *_ = could_be = processors()
    yield from (INSTALLED / f"{name}.{processor}" for processor in could_be)
    where, beside = directory(), BESIDE_SOURCE / MACHINE_CODE
    if where is not None:
        yield Path(where) / f"{name}.{own}"
    if str(beside) != where and not os.environ.get("NUMBA_CACHE_DIR") and is_ours(beside):
        yield beside / f"{name}.{own}"


def _use(file: Path) -> None:
    """Mark a file as used, which keeps it from being deleted as unused."""
    in_use.add(file)
    if file.parent != INSTALLED:
        with contextlib.suppress(OSError):
            os.utime(file)


@cache
def processors() -> list[str]:
    """Return the processor that this process compiles for, and the baselines that it can run."""
    triple, name, features = registry.cpu_target.target_context.codegen().magic_tuple()
    asked = {feature[1:] for feature in features.split(",") if feature.startswith("+")}  # as by NUMBA_CPU_FEATURES
    can_run = [(triple, baseline, "") for baseline in runnable(triple, asked & features_here())]
    return [_label(one) for one in dict.fromkeys([(triple, name, features), *can_run])]


def features_here() -> set[str]:
    """Return the features of this machine's processor."""
    return {feature for feature, there in get_host_cpu_features().items() if there}


def runnable(triple: str, features: Set[str]) -> list[str]:
    """Return the baselines with code that a processor with these features can run, the best baseline first."""
    needed, found = frozenset[str](), list[str]()
    for baseline, more in reversed(BASELINES.items()):
        needed |= more
        if needed <= features and (baseline == "generic" or triple.startswith("x86_64")):
            found.insert(0, baseline)
    return found


def _label(processor: tuple[str, str, str]) -> str:
    return f"{processor[1]}-{hashlib.sha256(repr(processor).encode()).hexdigest()[:8]}"


@cache
def directory() -> str | None:
    """Return the directory for new machine code; None if no directory is writable.

    The directory is below ``NUMBA_CACHE_DIR`` if that is set, else next to the source, else in the user's cache. The
    directory is never one in which other users could put code, see :func:`is_ours`.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    for place in [Path(given)] if given else [BESIDE_SOURCE, user / "livesvm"]:
        found = place / MACHINE_CODE
        try:
            found.mkdir(0o755, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(found, os.R_OK | os.W_OK | os.X_OK) and is_ours(found):
            return str(found)
    return None


@cache
def is_ours(place: Path) -> bool:
    """Return whether no other user can put code that we would run into a directory; log a warning if one can.

    Other users are all users except root, the user of this process, and the owner of this file, since the process runs
    that owner's code anyway. Write permissions of a group are assumed to be intended, and are accepted.
    """
    if not hasattr(os, "geteuid"):
        return True
    try:
        at, above = place.stat(), place.parent.stat()
    except OSError:
        return False
    users = {0, os.geteuid(), Path(__file__).stat().st_uid}
    can_be_replaced = above.st_mode & OTHERS_WRITE and not above.st_mode & stat.S_ISVTX
    if not {at.st_uid, above.st_uid} <= users or at.st_mode & OTHERS_WRITE or can_be_replaced:
        log.warning("machine code in %s is not used, as another user can put files there", place)
        return False
    return True


@cache
def _warn_of_no_cache() -> None:
    """Log, once in a process and before the first function is compiled, that no directory can store machine code."""
    log.warning(NO_PLACE)


def delete_unused() -> None:
    """Delete machine code of versions of the package that are no longer in use."""
    where = directory()
    if where is None:
        return
    with contextlib.suppress(OSError):
        for file in Path(where).iterdir():
            if time.time() - file.stat().st_mtime > UNUSED_SECONDS:
                file.unlink(missing_ok=True)


def is_complete(family: str) -> bool:
    """Say whether :func:`set_complete` was called for a family by exactly this version of the package."""
    return any(map(os.path.exists, _files(_mark_of(family))))


def set_complete(family: str) -> None:
    """Record that all machine code of a family of functions is stored."""
    found = next(filter(os.path.exists, _files(_mark_of(family))), None)
    where = directory() if found is None else None
    if where is not None:
        found = Path(where) / f"{_mark_of(family)}.{processors()[0]}"
        with contextlib.suppress(OSError):
            found.touch(READABLE)
    if found is not None:
        _use(found)


def _mark_of(family: str) -> str:
    return f"complete-{family}-{_state_of_package()}".replace(" ", "-")


@cache
def _state_of_package() -> str:
    digest = hashlib.sha256(repr(VERSIONS).encode())
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]


@cache
def fingerprint(function: Any) -> str:
    """Return a digest of all that the machine code of a compiled function depends on, without argument types.

    Raises
    ------
    TypeError : it uses something that machine code should not depend on
    """
    digest = hashlib.sha256()
    for part in _parts_of_function(function.py_func):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _parts_of(value: Any) -> Iterator[str]:
    """Yield a text for each part of a value; the parts of a function include all functions and values that it uses."""
    if isinstance(value, Dispatcher):
        yield type(value).__name__
        yield repr(sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in value.targetoptions.items()))
        yield fingerprint(value)
    elif isinstance(value, _Intrinsic):
        yield from _parts_of_function(value._defn)
    elif isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, type) and issubclass(value, enum.Enum):
        yield repr((_place_of(value), [(member.name, member.value) for member in value]))
    elif isinstance(value, type):
        yield repr((_place_of(value), getattr(value, "_fields", ())))
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype.descr, value.shape, value.tolist()))
    elif isinstance(value, tuple):
        yield str(len(value))
        for item in value:
            yield from _parts_of(item)
    elif value is None or isinstance(value, bool | int | float | complex | str | enum.Enum | np.generic | np.dtype):
        yield repr(value)
    elif isinstance(value, ModuleType):
        yield value.__name__  # and not its path, which is another one in each environment
    elif isinstance(value, types.Type | types.ExternalFunction | BuiltinFunctionType | np.ufunc):
        yield str(value).partition(" at 0x")[0]  # of numba, numpy or Python, whose versions are known
    else:
        raise TypeError(f"machine code should not depend on {value!r}")


def _parts_of_function(function: Callable[..., Any]) -> Iterator[str]:
    """Yield bytecode, defaults, and the values of the names that the bytecode looks up."""
    yield f"{function.__module__}.{function.__qualname__}"
    if not function.__module__.startswith(PACKAGE + "."):
        return  # as above
    yield from _parts_of(function.__defaults__)
    for cell in function.__closure__ or ():
        yield from _parts_of(cell.cell_contents)
    names: list[str] = []
    yield from _parts_of_code(function.__code__, function.__doc__, names)
    for name in names:
        found = function.__globals__.get(name)
        if getattr(found, "py_func", None) is function or name not in function.__globals__:
            continue
        yield name
        if isinstance(found, ModuleType) and found.__name__.startswith(PACKAGE + "."):
            for attribute in names:
                if hasattr(found, attribute):
                    yield attribute
                    yield from _parts_of(getattr(found, attribute))
        else:
            yield from _parts_of(found)


def _parts_of_code(code: CodeType, doc: str | None, names: list[str]) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    names.extend(name for name in code.co_names if name not in names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts_of_code(constant, None, names)
        elif constant is None or constant != doc:
            yield repr(constant)


def _place_of(kind: type) -> str:
    """Return the module and name of a class, because code made before a class moved cannot be loaded."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _fields_of(argument: Any) -> Iterator[str]:
    """Yield the class and fields of each record in an argument's type, and of each record inside such a record."""
    if isinstance(argument, types.NamedTuple | types.NamedUniTuple):
        yield f"{_place_of(argument.instance_class)}{argument.fields}"
    if isinstance(argument, Reference):
        yield from _fields_of(argument.record)
    for item in getattr(argument, "types", ()):
        yield from _fields_of(item)
