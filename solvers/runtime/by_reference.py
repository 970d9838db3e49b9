"""Records of many arrays that compiled code receives as one pointer.

Numba passes a named tuple by value: a tuple of forty arrays is some 280 numbers at each call. Passing so many numbers
slows down every call, and takes most of the time that compilation needs. A named tuple that is marked ``by_reference``
is written to memory once, when Python calls compiled code. Compiled code has a pointer to this memory, and reads fields
with the same syntax as those of a named tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.extending import NativeValue, intrinsic, lower_getattr_generic, typeof_impl, unbox
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate, infer_getattr

R = TypeVar("R", bound=type)
T = TypeVar("T")


def by_reference(record: R) -> R:
    """Mark a named tuple, so that compiled code gets a pointer to it; compiled code cannot create such a tuple."""
    typeof_impl.register(record)(_type_of)
    return record


class InMemory:
    """A copy of a record in memory that compiled code reads; this object keeps the record's arrays alive.

    Compiled code reads the record by the function ``at``, given its ``address``. All numbers of the record must be
    whole numbers.
    """

    def __init__(self, record: Any) -> None:
        self._held: dict[str, Any] = {}
        words: list[int] = []
        self._start: dict[str, int] = {}
        for name, value in zip(record._fields, record, strict=True):
            self._start[name] = len(words)
            words += self._words(name, value)
        self._memory = np.array(words, np.int64)
        self.address = int(self._memory.ctypes.data)

    def put(self, name: str, value: Any) -> None:
        """Replace a number of the record, or replace an array by another array of the same type."""
        words, start = self._words(name, value), self._start[name]
        self._memory[start : start + len(words)] = words

    def _words(self, name: str, value: Any) -> list[int]:
        if typeof_impl.dispatch(type(value)) is _type_of:
            value = InMemory(value)
        self._held[name] = value
        return _words_of(value)


def _words_of(value: Any) -> list[int]:
    if isinstance(value, np.ndarray):  # no owner is named
        return [0, 0, value.size, value.itemsize, value.__array_interface__["data"][0], *value.shape, *value.strides]
    if isinstance(value, tuple):
        return [word for item in value for word in _words_of(item)]
    return [value.address if isinstance(value, InMemory) else int(value)]


class Reference(types.Type):
    """The type of a pointer to a record; the record is neither moved nor changed while compiled code runs."""

    def __init__(self, record: Any) -> None:
        self.record = record
        super().__init__(f"&{record}")

    @property
    def key(self) -> Any:
        """The value by which Numba compares types."""
        return self.record


def _type_of(value: Any, context: Any) -> Reference | None:
    found = [typeof_impl(item, context) for item in value]
    return None if None in found else Reference(types.BaseTuple.from_types(found, type(value)))


@register_default(Reference)
class _Pointer(models.PrimitiveModel):
    def __init__(self, manager: Any, reference: Reference) -> None:
        super().__init__(manager, reference, manager[reference.record].get_value_type().as_pointer())


@unbox(Reference)
def _from_python(reference: Reference, value: Any, c: Any) -> NativeValue:
    """Write the record to the stack frame of the call from Python."""
    native = c.unbox(reference.record, value)
    pointer = cgutils.alloca_once_value(c.builder, native.value)

    def cleanup() -> None:
        if native.cleanup is not None:
            native.cleanup()
        if c.context.enable_nrt:
            c.context.nrt.decref(c.builder, reference.record, native.value)

    return NativeValue(_hidden(c.builder, pointer), is_error=native.is_error, cleanup=cleanup)


def _hidden(builder: Any, pointer: Any) -> Any:
    """Return the same pointer, with its origin hidden from the compiler.

    Values read through the pointer are marked as constant, so that a loop need not read them twice. If the compiler saw
    that the same frame writes to this memory, it could move a read before the write.
    """
    kind = ir.FunctionType(pointer.type, [pointer.type])
    return builder.asm(kind, "", "=r,0,~{memory}", [pointer], side_effect=True)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:  # type: ignore[override]
        fields = reference.record.fields
        return reference.record[fields.index(name)] if name in fields else None


@lower_getattr_generic(Reference)
def _read(context: Any, builder: Any, reference: Reference, pointer: Any, name: str) -> Any:
    index = reference.record.fields.index(name)
    field = reference.record[index]
    place = cgutils.gep_inbounds(builder, pointer, 0, index)
    value = _array(context, builder, field, place) if isinstance(field, types.Array) else _unchanging(builder, place)
    return impl_ret_borrowed(context, builder, field, value)


def _array(context: Any, builder: Any, array: types.Array, place: Any) -> Any:
    """Read an array of a record: its pointer, shape and other fields, number by number."""
    model = context.data_model_manager[array]
    value = ir.Constant(model.get_value_type(), ir.Undefined)
    for k in range(model.field_count):
        part = cgutils.gep_inbounds(builder, place, 0, k)
        if isinstance(part.type.pointee, ir.ArrayType):
            numbers = ir.Constant(part.type.pointee, ir.Undefined)
            for i in range(part.type.pointee.count):
                number = _unchanging(builder, cgutils.gep_inbounds(builder, part, 0, i))
                numbers = builder.insert_value(numbers, number, i)
        else:
            numbers = _unchanging(builder, part)
        value = builder.insert_value(value, numbers, k)
    return value


def _unchanging(builder: Any, place: Any) -> Any:
    loaded = builder.load(place)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _laid_out(context: Any, record: Any) -> Any:
    """Write a record to the stack frame of the calling function, and return a pointer to the record."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _hidden(builder, cgutils.alloca_once_value(builder, arguments[0]))

    return Reference(record)(record), code


def _read_at(context: Any, address: Any, like: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _hidden(builder, builder.inttoptr(arguments[0], context.get_value_type(like)))

    return like(address, like), code


def _kept(context: Any, record: Any) -> Any:
    return types.none(record), lambda context, builder, signature, arguments: context.get_dummy_value()


#: In compiled code: a reference to a record that is made there. It is good until the function returns, and, where the
#: record owns its arrays, until ``keep`` is called with the record.
refer = cast("Callable[[T], T]", intrinsic(_laid_out))
keep = cast("Callable[[object], None]", intrinsic(_kept))
#: In compiled code: the record ``InMemory`` at an address, one like another.
at = cast("Callable[[int, T], T]", intrinsic(_read_at))
