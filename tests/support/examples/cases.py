"""What the cases of all examples share: partitions for every operator, and reading results back.

A case is a module `<name>_case` with `build(partitions, folder, ...)` and `check(folder, ...)`. `build` makes
the example's application (an `Application`, or a dictionary with `app`, `properties` and `attributes` where
the example is one object that all tests share). Its `partitions`: None, the example's own; a number, that
many of every operator. `check` compares what was written with the oracle. How the application is run in
between, and on what, does not matter.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq

from ridgeline import RoundRobinPartitioner


def shares(app, partitions, except_for=()):
    """How many partitions which operators get, by name."""
    if partitions is None:
        return {}
    return {added.name: partitions for added in app.operators if added.name not in except_for}


def partition(app, partitions, *, round_robin=(), except_for=()):
    """Give the operators their partitions; those in `round_robin` are divided round robin."""
    given = shares(app, partitions, except_for)
    for added in app.operators:
        if added.name in given:
            added.attributes["partitions"] = given[added.name]
        if added.name in round_robin:
            added.attributes["partitioner"] = RoundRobinPartitioner()
    return app


def partition_attributes(app, partitions, *, except_for=()):
    """The same as attributes that are given from outside, for an application that is not to be changed."""
    return {f"{name}.partitions": str(number) for name, number in shares(app, partitions, except_for).items()}


def operator(app, name):
    """The operator of that name."""
    return next(added.operator for added in app.operators if added.name == name)


def add_sink(app, stream, point):
    """One more sink for a stream."""
    found = next(added for added in app.streams if added.name == stream)
    found.sinks = (*found.sinks, point)


def rows(folder):
    """The rows of all published files of a folder, as tuples, in the order of the files' names."""
    found = []
    for file in sorted(Path(folder).iterdir()):
        if file.suffix == ".parquet":
            found += [tuple(row.values()) for row in pq.read_table(file).to_pylist()]
        elif file.suffix == ".jsonl":
            found += [
                tuple(json.loads(line).values()) for line in file.read_text(encoding="utf-8").splitlines()
            ]
    return found
