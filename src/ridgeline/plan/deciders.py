"""Who decides in an application, and what it promises: they travel with the plan, and stay on the driver."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.errors import shorten
from ridgeline.api.policy import Promise
from ridgeline.plan.draft import Deciders, Draft, Faults


def read_deciders(draft: Draft, faults: Faults, app: Application) -> None:
    """Take policies and promises of the application; faults for what is neither."""
    for position, policy in enumerate(app.policies, 1):
        if isinstance(policy, type) or not callable(getattr(policy, "decide", None)):
            what = f"policy {position} is {_shown(policy)}, which has no method `decide`"
            faults.add(
                draft.application, what, "give an instance of a subclass of `ridgeline.policies.Policy`"
            )
    promises: dict[str, Promise] = {}
    for promise in app.promises:
        if not isinstance(promise, Promise):
            what = f"a promise is {_shown(promise)}"
            remedy = 'make it with a function of `ridgeline.sla`, such as `latency("sink", p99="2s")`'
            faults.add(draft.application, what, remedy)
        elif promise.name in promises:
            what = f"the promise `{promise.name}` is given twice"
            faults.add(draft.application, what, "leave one of them out")
        else:
            promises[promise.name] = promise
    draft.deciders = Deciders({}, tuple(app.policies), tuple(promises.values()))


def read_listeners(draft: Draft, faults: Faults, app: Application, written: Collection[str]) -> None:
    """Take the listeners of operators, and check which operators promises are of; once all are known.

    `written`: the operators before changes of the run. One that is removed may still have a promise.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for added in app.operators:
        for listener in added.listeners:
            if isinstance(listener, type) or not callable(getattr(listener, "observe", None)):
                what = f"a listener of its figures is {_shown(listener)}, which has no method `observe`"
                remedy = "give an instance of a subclass of `ridgeline.policies.StatsListener`"
                faults.add(str(added.name), what, remedy)
        own = (added.operator,) if callable(getattr(added.operator, "observe", None)) else ()
        if listeners := (*added.listeners, *own):
            found[str(added.name)] = listeners
    known = {operator.name for operator in draft.operators} | set(written)
    for promise in draft.deciders.promises:
        if promise.operator and promise.operator not in known:
            what = f"the promise `{promise.name}` is of an operator that there is not"
            faults.add(promise.operator, what, f"give one of {', '.join(sorted(known))}")
    draft.deciders = Deciders(found, draft.deciders.policies, draft.deciders.promises)


def _shown(thing: object) -> str:
    return f"the class `{thing.__name__}`" if isinstance(thing, type) else shorten(thing)
