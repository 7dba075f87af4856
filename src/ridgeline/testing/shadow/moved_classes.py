"""Pickled values whose classes lie in the file of another version: they are those of this version here."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.support.pickling import dumps


class _Reader(pickle.Unpickler):
    """Takes classes from other modules than a pickle says, where these have them."""

    def __init__(self, data: bytes, modules: Mapping[str, str]) -> None:
        super().__init__(io.BytesIO(data))
        self._modules = modules

    def find_class(self, module: str, name: str) -> Any:
        """The class of this version, else the one that the pickle names."""
        try:
            return super().find_class(self._modules.get(module, module), name)
        except (ImportError, AttributeError):
            return super().find_class(module, name)


def moved(value: bytes, modules: Mapping[str, str]) -> bytes:
    """A pickled value with classes of `modules`, by the names of their modules in the other version."""
    if not any(name.encode() in value for name in modules):
        return value
    return dumps(_Reader(value, modules).load())


def moved_batch(batch: pa.RecordBatch, modules: Mapping[str, str]) -> pa.RecordBatch:
    """The same for a batch of a stream of `object`; others stay as they are."""
    if not modules or not holds_pickles(batch):
        return batch
    values = [moved(value, modules) for value in batch.column(0).to_pylist()]
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], schema=batch.schema)
