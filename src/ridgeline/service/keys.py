"""How the tuples of a running application are spread over keys, as it is shown."""

from __future__ import annotations

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.answers.keys import HeavyKeyAnswer, KeysAnswer, OperatorKeysAnswer
from ridgeline.measure.deciding.key_load import HeavyKey, KeyLoad
from ridgeline.plan.build.key_agreement import KeyDivision, key_division
from ridgeline.regions.joined_run import AnyRun

_SECONDS = 60.0


def keys_answer(run: AnyRun | None, operator: str | None = None) -> KeysAnswer:
    """The keys of all operators that are divided by key, or of one. Raises KeyError for an unknown name.

    Keys are counted from the first call on.
    """
    if run is None:
        return {"seconds": _SECONDS, "operators": []}
    plan = run.plan
    names = [one.name for one in plan.logical.operators]
    if operator is not None and operator not in names:
        raise KeyError(f"there is no operator `{operator}`; {did_you_mean(operator, names)}")
    found = []
    for name in names if operator is None else [operator]:
        division = key_division(plan, name)
        if division is not None:
            found.append(_operator(name, division, run.keys.load(name, _SECONDS)))
    return {"seconds": _SECONDS, "operators": found}


def _operator(name: str, division: KeyDivision, keys: KeyLoad | None) -> OperatorKeysAnswer:
    """One operator, with what is counted of it."""
    return {
        "operator": name,
        "tuples": 0 if keys is None else keys.tuples,
        "imbalance": None if keys is None else keys.imbalance,
        "byPartition": [] if keys is None else keys.by_partition.tolist(),
        "heavy": [] if keys is None else [_heavy(one, keys) for one in keys.heavy],
        "partitioner": str(division.partitioner),
        "sharedCells": len(division.shared),
        "fixed": division.fixed,
        "alone": division.alone,
    }


def _heavy(one: HeavyKey, keys: KeyLoad) -> HeavyKeyAnswer:
    cell = one.hash % len(keys.owners)
    return {
        "key": one.key,
        "share": one.share,
        "error": one.error,
        "hash": f"{one.hash:016x}",
        "partitions": list(keys.shared.get(cell, (int(keys.owners[cell]),))),
    }
