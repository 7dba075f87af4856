"""All examples on Spark: which there are, and how one is run and checked on a SparkContext."""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

from rich.console import Console

from ridgeline.engine.driver.run.launch import Options, launch
from ridgeline.plan.planner import plan_application
from support.examples import (
    flights_case,
    payments_case,
    pi_case,
    quotes_module_case,
    rate_case,
    word_count_case,
    yahoo_finance_case,
)


class Example(NamedTuple):
    """`build(partitions, folder)` returns the arguments of `plan_application`; `check` compares the results.

    `windows`: how many there are. It ends by itself; if it is `endless`, it is stopped after so many.
    """

    build: Callable[..., dict[str, Any]]
    check: Callable[..., None]
    windows: int
    endless: bool = False


EXAMPLES = {
    "flights": Example(
        lambda partitions, folder: {"app": flights_case.build(partitions, folder, count=30_001)},
        lambda partitions, folder, printed: flights_case.check(folder, count=30_001),
        windows=7,
    ),
    "yahoo_finance": Example(
        lambda partitions, folder: {"app": yahoo_finance_case.build(partitions, folder, days=6)},
        lambda partitions, folder, printed: yahoo_finance_case.check(folder, days=6),
        windows=24,
    ),
    "pi": Example(
        lambda partitions, folder: {"app": pi_case.build(partitions, folder, count=60_001, per_window=5_001)},
        lambda partitions, folder, printed: pi_case.check(
            folder, partitions=partitions, count=60_001, per_window=5_001
        ),
        windows=12,
    ),
    "payments": Example(
        lambda partitions, folder: payments_case.build(partitions, folder, count=20_001),
        lambda partitions, folder, printed: payments_case.check(folder, count=20_001),
        windows=11,
    ),
    "word_count": Example(
        lambda partitions, folder: word_count_case.build(partitions, folder, per_window=20),
        lambda partitions, folder, printed: word_count_case.check(folder, per_window=20),
        windows=11,
    ),
    "quotes_module": Example(
        lambda partitions, folder: quotes_module_case.build(partitions),
        lambda partitions, folder, printed: quotes_module_case.check(printed),
        windows=quotes_module_case.windows(),
    ),
    "rate": Example(
        lambda partitions, folder: rate_case.build(partitions),
        lambda partitions, folder, printed: rate_case.check(printed),
        windows=rate_case.WINDOWS,
        endless=True,
    ),
}
ROUND_ROBIN = {  # keyed tuples are divided round robin where a unifier merges what comes out
    "flights": Example(
        lambda partitions, folder: {
            "app": flights_case.build(partitions, folder, count=25_001, round_robin=True)
        },
        lambda partitions, folder, printed: flights_case.check(folder, count=25_001),
        windows=6,
    ),
    "yahoo_finance": Example(
        lambda partitions, folder: {
            "app": yahoo_finance_case.build(partitions, folder, days=3, round_robin=True)
        },
        lambda partitions, folder, printed: yahoo_finance_case.check(folder, days=3),
        windows=12,
    ),
}


def prove(example, context, folder, partitions):
    """Run an example on a SparkContext, as fast as it goes, and compare its results with the oracle.

    `folder` must be new.
    """
    arguments = example.build(partitions, folder / "output")
    # A busy machine would cut windows shorter than the example counts on.
    as_it_goes = {"window": "0", "window_work": "1h"}
    plan = plan_application(**{**arguments, "attributes": {**arguments.get("attributes", {}), **as_it_goes}})
    printed = io.StringIO()
    options = Options(
        checkpoint=str(folder / "checkpoint"), windows=example.windows if example.endless else None
    )
    outcome = launch(plan, options, context=context, console=Console(file=printed, width=200))
    assert outcome.windows_committed == example.windows
    assert outcome.ended is not example.endless
    example.check(partitions, folder / "output", printed.getvalue())
