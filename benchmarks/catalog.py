"""All benchmarks, in the order in which they run."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.frame import Benchmark

_NAMES = (
    "window",
    "age",
    "pipeline",
    "hop",
    "transport",
    "fused_chain",
    "keyed_sum",
    "tuple_form",
    "ysb",
    "nexmark",
    "branches",
    "regions",
    "kafka",
    "delta_output",
    "catch_up",
    "overload",
    "held_keys",
    "windowed",
    "aggregates",
    "joins",
    "frames",
    "start",
    "restart",
    "recovery",
    "speculation",
    "repartition",
    "change",
    "policies",
    "skew",
    "queries",
    "strangers",
    "scale",
    "measurement",
    "page_graph",
    "pages",
    "postgres_changes",
)
GROUPS = {
    "frames": ("frame", "table-join", "within-join", "deduplicate", "aggregates-quantiles"),
    "kafka-age": ("kafka-age-1k", "kafka-age-10k"),
}
"""Names for several benchmarks."""
MODULES = tuple(f"benchmarks.{name}" for name in _NAMES)


@dataclass(frozen=True)
class Catalog:
    """The benchmarks by name, the module that each is in, and why other modules cannot be imported."""

    benchmarks: dict[str, Benchmark] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


def load(modules: Sequence[str] = MODULES) -> Catalog:
    """Import these modules; one that cannot be imported does not keep the others from running."""
    catalog = Catalog()
    for module in modules:
        try:
            benchmarks: Sequence[Benchmark] = importlib.import_module(module).BENCHMARKS
        except Exception as error:  # noqa: BLE001  reported, whatever it is
            catalog.faults[module] = f"{type(error).__name__}: {error}"
            continue
        for benchmark in benchmarks:
            catalog.benchmarks[benchmark.name] = benchmark
            catalog.modules[benchmark.name] = module
    return catalog


def choose(catalog: Catalog, names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks of these names, or of groups of these names; without names those that are part of all.

    Raises LookupError with what there is.
    """
    found = catalog.benchmarks
    names = [one for name in names for one in (GROUPS.get(name, (name,)) if name not in found else (name,))]
    if not names:
        return [benchmark for benchmark in found.values() if benchmark.part_of_all]
    for name in names:
        if name not in found:
            near = difflib.get_close_matches(name, found, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(found)}"
            raise LookupError(f"no such benchmark; got `{name}`; {hint}")
    return [found[name] for name in names]
