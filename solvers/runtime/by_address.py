"""Compiled functions that others call where they are, instead of taking them in once more.

Machine code is made of what Python calls with all that it needs. Where two of those need the same large function, one
of them can be given its address: that takes a call at run time, and no time and memory when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import typeof
from numba.core import types
from numba.core.extending import intrinsic


def address_of(function: Any, *arguments: Any) -> int:
    """Return where the machine code of a compiled function for such arguments is, made or loaded if need be."""
    kinds = tuple(typeof(argument) for argument in arguments)  # type: ignore[no-untyped-call]
    function.compile(kinds)
    made = function.overloads[kinds]
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def _called(context: Any, address: Any, argument: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        how, kind = context.call_conv, signature.args[1]
        pointer = builder.inttoptr(arguments[0], how.get_function_type(types.int64, (kind,)).as_pointer())
        return how.call_function(builder, pointer, types.int64, (kind,), [arguments[1]])[1]

    return types.int64(types.int64, argument), code


#: In compiled code: what the function at an address, of one argument and a whole number, returns for ``argument``,
#: which has to be of the same type as the one that ``address_of`` was given.
call_at = cast("Callable[[int, Any], int]", intrinsic(_called))
