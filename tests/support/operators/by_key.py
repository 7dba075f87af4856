"""Tuples of streams by key, as the operators of the library take and give them."""

from typing import NamedTuple


class Pair(NamedTuple):
    key: str
    value: int


class Range(NamedTuple):
    key: str
    high: int
    low: int


class Average(NamedTuple):
    key: str
    average: float
