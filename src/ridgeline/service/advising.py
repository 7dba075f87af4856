"""Advice on a running application, as it is shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast
from weakref import WeakKeyDictionary

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.measure.answers.changes import AdviceAnswer
from ridgeline.measure.answers.operators import HeavyKeyAnswer, KeysAnswer, OperatorKeysAnswer
from ridgeline.measure.deciding.capacity import bottleneck
from ridgeline.measure.deciding.figures import ApplicationFigures
from ridgeline.measure.deciding.key_load import HeavyKey, KeyLoad
from ridgeline.measure.history.fold import KEPT_SECONDS
from ridgeline.observe.watch import Watch
from ridgeline.plan.build.key_agreement import KeyDivision, key_division
from ridgeline.plan.edits import Repartition
from ridgeline.policies.advice import LEAST_SECONDS, LEAST_WINDOWS, Advice, advise, is_enough, unknown
from ridgeline.policies.model import behind
from ridgeline.regions.joined_run import AnyRun
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.sums import counted, greatest, joined, least

_LATELY_SECONDS = 5.0
_FULL_SECONDS = LEAST_SECONDS + 1.0  # the slices of a period begin each second
_PERIODS = (60.0, 300.0, KEPT_SECONDS)
"""Figures are of the first of these that has enough windows."""


def advice_answer(watch: Watch, application: str, run: AnyRun | None = None) -> AdviceAnswer:
    """Advice from the figures of the application; of several regions, that of all, each by its own figures.

    The first call begins with the last windows; from then on all are kept. What the run would refuse is not
    advised.
    """
    if isinstance(watch, JoinedWatch):
        others = len(watch.views) - 1  # each has a slot at least
        found: AdviceAnswer = joined(
            [_advice(view.watch, application, view.region.run, others) for view in watch.views],
            **dict.fromkeys(("seconds", "windows", "enough"), least),
            **dict.fromkeys(("needed", "latencySeconds"), greatest),
            unknown=lambda values: list(dict.fromkeys(chain.from_iterable(values))),
            blame=counted,
        )
        return found
    return _advice(watch, application, cast("ApplicationRun | None", run))


def _advice(watch: Watch, application: str, run: ApplicationRun | None, others: int = 0) -> AdviceAnswer:
    """Advice from the figures of the last minute, or of a longer time if windows take long.

    `others`: the slots that other regions need.
    """
    watch.keep_figures()
    changes = watch.changes()
    waiting = any(row["state"] == "QUEUED" and row["edits"] for row in changes)
    slots = None if run is None else run.slots
    info = watch.info()
    local = "attributes" in info and str(info["master"] or "").startswith("local")
    figures = watch.application_figures(
        _PERIODS[0],
        changing=waiting,
        slots=slots,
        keys=None if run is None else run.keys.load,
        cores=os.cpu_count() if local and run is not None else None,
    )
    applied = (row for row in changes if row["state"] == "APPLIED" and row["planVersion"] is not None)
    full = False
    since = figures.at - max((row["since"] for row in applied), default=0.0)
    for seconds in (_LATELY_SECONDS, _FULL_SECONDS, *_PERIODS):
        figures = figures.for_seconds(max(0.0, min(seconds, since)))  # of this plan only
        was_full, full = full, behind(figures) and bottleneck(figures) is not None
        if was_full and not full:  # until lately it was not: the time before says nothing of it
            figures = figures.for_seconds(_LATELY_SECONDS)
            break
        if seconds > _LATELY_SECONDS and is_enough(figures) and (full or seconds > _FULL_SECONDS):
            break
    advice, refused = [], []
    for one in advise(figures):
        why = "" if run is None else _refusal(run, one)
        if why:
            refused.append(f"not advised, as it would be refused: {one.what}; {why}")
        else:
            advice.append(one)
    followed = _followed(watch, figures, advice)
    return {
        "seconds": figures.seconds,
        "windows": figures.windows,
        "enough": is_enough(figures),
        "needed": LEAST_WINDOWS,
        "latencySeconds": figures.window_latency.p50_seconds if figures.window_latency.count else None,
        "unknown": [*unknown(figures), *refused],
        "blame": dict(figures.blame),
        "followed": followed,
        "advice": [
            {
                "what": one.what,
                "why": one.why,
                "operator": one.operator,
                "figure": one.figure,
                "before": one.before,
                "after": one.after,
                "command": _command(one, application, others, local=local),
            }
            for one in advice
        ],
    }


def _command(advice: Advice, application: str, others: int, *, local: bool) -> str:
    """The whole command; "" if none does it. `local`: Spark runs in one process."""
    if advice.slots is not None:
        slots = advice.slots + others
        where = f"--master local[{slots}]" if local else f"--conf spark.cores.max={slots}"
        return f"ridgeline run FILE {where}"
    return f"ridgeline {advice.command.replace('APP', application, 1)}" if advice.command else ""


@dataclass(frozen=True, slots=True)
class _Given:
    """Advice that was given for more throughput, in this state of the plan."""

    plan_version: int
    operator: str
    partitions: int
    before: float
    after: float


_given: WeakKeyDictionary[Watch, _Given] = WeakKeyDictionary()
"""The last of each application."""


def _followed(watch: Watch, figures: ApplicationFigures, advice: Sequence[Advice]) -> list[str]:
    """What came of the last advice for throughput, if it was followed; that of now is kept for later."""
    given, found = _given.get(watch), []
    now = None if given is None else figures.operators.get(given.operator)
    changed = given is not None and figures.plan_version != given.plan_version
    if given and now and changed and now.partitions == given.partitions and figures.seconds >= LEAST_SECONDS:
        rates = now.tuples_in_per_second, given.before, given.after
        found.append(
            "`{}` got {} partitions as advised: {:,.0f} tuples/s now, {:,.0f} before; {:,.0f} were "
            "predicted".format(given.operator, given.partitions, *rates)
        )
    for one in advice:
        if one.figure == "tuples_per_second" and one.partitions is not None:
            before, after = one.before or 0.0, one.after or 0.0
            _given[watch] = _Given(figures.plan_version, one.operator, one.partitions, before, after)
    return found


def _refusal(run: ApplicationRun, advice: Advice) -> str:
    """Why the run would not do what is advised; "" if it would, as far as is known before."""
    if advice.partitions is None:
        return ""
    try:
        run.preview((Repartition(advice.operator, advice.partitions),))
    except RidgelineError as error:
        faults = getattr(error, "faults", ())
        return f"{faults[0].what}; {faults[0].remedy}" if faults else str(error)
    return ""


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
