"""Between numpy and pyarrow without copies, and without pandas, which pyarrow's own ways import (0.3 s)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

TEXT_TYPE = pa.dictionary(pa.int32(), pa.string())


def to_numpy(array: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return whole numbers or booleans, of which none may be null."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    assert not array.null_count
    if not len(array):
        return np.zeros(0, bool if pa.types.is_boolean(array.type) else np.int64)
    buffer, end = array.buffers()[1], array.offset + len(array)
    if pa.types.is_boolean(array.type):
        return np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")[array.offset :].astype(bool)
    kind = np.dtype(f"i{array.type.bit_width // 8}")
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def from_numpy(values: NDArray[Any], is_known: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return whole numbers or booleans as an array; null where they are not `is_known`."""
    kind = pa.from_numpy_dtype(values.dtype)
    data = np.packbits(values, bitorder="little") if values.dtype == bool else np.ascontiguousarray(values)
    valid = None if is_known is None or is_known.all() else pa.py_buffer(np.packbits(is_known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def to_string_array(values: Sequence[str]) -> pa.Array:
    """Return texts as an array."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def encode_texts(values: Sequence[str]) -> pa.DictionaryArray:
    """Return texts as numbers of distinct texts, in the order of their first occurrence."""
    numbers: dict[str, int] = {}
    column = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int32)
    return dictionary_array(column, list(numbers))


def dictionary_array(numbers: NDArray[Any], values: Sequence[str]) -> pa.DictionaryArray:
    """Return the texts that `numbers` number in `values`."""
    return pa.DictionaryArray.from_arrays(from_numpy(numbers.astype(np.int32, copy=False)), to_string_array(values))
