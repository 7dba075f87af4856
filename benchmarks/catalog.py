"""All benchmarks, in the order in which they run."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Sequence

from benchmarks.frame import Benchmark

MODULES = (
    "window",
    "age",
    "hop",
    "fused_chain",
    "keyed_sum",
    "tuple_form",
    "ysb",
    "branches",
    "held_keys",
    "start",
    "restart",
    "measurement",
)


def load() -> dict[str, Benchmark]:
    """The benchmarks by name. Raises what importing one of their modules raises."""
    found: dict[str, Benchmark] = {}
    for module in filter(_there, MODULES):
        benchmarks: Sequence[Benchmark] = importlib.import_module(f"benchmarks.{module}").BENCHMARKS
        found |= {benchmark.name: benchmark for benchmark in benchmarks}
    return found


def choose(found: dict[str, Benchmark], names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks of these names; without names those that are part of all. Raises LookupError with what there is."""
    if not names:
        return [benchmark for benchmark in found.values() if benchmark.part_of_all]
    for name in names:
        if name not in found:
            near = difflib.get_close_matches(name, found, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(found)}"
            msg = f"no such benchmark; got `{name}`; {hint}"
            raise LookupError(msg)
    return [found[name] for name in names]


def _there(module: str) -> bool:
    return importlib.util.find_spec(f"benchmarks.{module}") is not None
