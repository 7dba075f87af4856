"""Answers about keys: how the tuples of operators are spread over them."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict


class HeavyKeyAnswer(TypedDict):
    """A key that many tuples have."""

    key: Annotated[str, "The key; of a codec that does not say what it is, a tuple with that key."]
    share: Annotated[float, "Its share of the tuples of the operator."]
    error: Annotated[float, "How far off the share may be: it comes of a sample."]
    hash: Annotated[str, "Its hash, as 16 hexadecimal digits."]
    partitions: Annotated[list[int], "The partitions that get its tuples."]


class OperatorKeysAnswer(TypedDict):
    """An operator that is divided by key."""

    operator: Annotated[str, "Its name."]
    tuples: Annotated[int, "How many tuples were counted, in some of the windows."]
    imbalance: Annotated[float | None, "The share of the fullest partition, as a multiple of an even one."]
    byPartition: Annotated[list[float], "The share of each partition; empty before anything was counted."]
    heavy: Annotated[list[HeavyKeyAnswer], "The heaviest keys, the heaviest first."]
    partitioner: Annotated[str, "How it is divided."]
    sharedCells: Annotated[int, "How many cells of keys are shared by several partitions."]
    fixed: Annotated[str, "Why nobody may divide it otherwise; empty if one may."]
    alone: Annotated[str, "Why no key may be shared by several partitions; empty if one may."]


class KeysAnswer(TypedDict):
    """The operators that are divided by key."""

    seconds: Annotated[float, "Of how many seconds the figures are, at most."]
    operators: Annotated[list[OperatorKeysAnswer], "In the order of the plan."]
