import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import pytest

from ridgeline import operators as library
from ridgeline.api import Application, KeyedPartitioner, Operator, RoundRobinPartitioner, ValidationError
from ridgeline.api.errors import Faults
from ridgeline.api.operator import operator_type
from ridgeline.plan import find_faults, validate, validation
from ridgeline.plan.build.callbacks import callback_faults
from ridgeline.plan.draft import Draft
from support.plan import (
    faulty_attributes,
    faulty_callbacks,
    faulty_keys,
    faulty_loops,
    faulty_metrics,
    faulty_modules,
    faulty_operators,
    faulty_partitions,
    faulty_streams,
)
from support.plan.faulty import Faulty, are
from support.plan.faulty_callbacks import Decorated, HonestSubclass, stored
from support.plan.faulty_keys import (
    ByCodec,
    ByMore,
    ByText,
    Counting,
    CountingAlong,
    CountingByKey,
    counting,
    joined,
)
from support.plan.faulty_operators import chain

CASES = [
    case
    for module in (
        faulty_operators,
        faulty_streams,
        faulty_partitions,
        faulty_keys,
        faulty_loops,
        faulty_callbacks,
        faulty_attributes,
        faulty_modules,
        faulty_metrics,
    )
    for case in module.faulty.cases
]


PLAIN = {str, int, bool, bytes, type(None)}


@cache
def field_names(kind: type) -> tuple[str, ...] | None:
    return tuple(one.name for one in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def picture(value: Any, above: set[int] | None = None) -> Any:
    """All that is reached from a draft, to see whether something of it was written."""
    kind = type(value)
    if kind in PLAIN:
        return kind, value
    above = set() if above is None else above
    if id(value) in above:
        return "above"
    above.add(id(value))
    found: Any
    if (names := field_names(kind)) is not None:
        found = kind, pictures((getattr(value, name, None) for name in names), above)
    elif isinstance(value, Operator):
        found = kind, picture(vars(value), above)
    elif isinstance(value, Mapping):
        found = list(map(repr, value)), pictures(value.values(), above)
    elif isinstance(value, (list, tuple)):
        found = pictures(value, above)
    else:
        found = sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else repr(value)
    above.remove(id(value))
    return found


def pictures(values: Iterable[Any], above: set[int]) -> list[Any]:
    return [(type(one), one) if type(one) in PLAIN else picture(one, above) for one in values]


@pytest.mark.guide("002", "Initialization/Instantiation Time")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exactly_its_faults_each_with_a_remedy(case: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    called = 0

    def check(draft: Draft, faults: Faults, *checks: Callable[[Draft, Faults], None]) -> None:
        nonlocal called
        before = picture(draft)
        for one in checks:
            one(draft, faults)
            called += 1
        assert picture(draft) == before, "checks write faults only"

    monkeypatch.setattr(validation, "_check", check)
    faults = find_faults(case.build(), case.properties, case.attributes)
    assert are(faults, case.faults), faults
    assert faults
    assert called > 10
    for fault in faults:
        assert fault.where
        assert fault.what
        assert fault.remedy
        assert not fault.what[0].isupper() or fault.what.startswith(("None", "Given", "Keyed", "Sticky"))


@pytest.mark.guide("004", "Validations")
def test_all_faults_in_one_error() -> None:
    app = chain(Application("test"), partitions=0, parttions=1)
    with pytest.raises(ValidationError) as caught:
        validate(app)
    assert are(
        str(caught.value).splitlines(),
        [
            "application `test` is not valid; 2 faults:",
            "  - `balances.partitions`: attribute ... of the operator; default: 1)",
            "  - `balances.parttions`: there is no attribute ... did you mean `partitions`?",
        ],
    )


def test_state_by_key_needs_no_key_in_one_partition_or_if_a_partitioner_says_so() -> None:
    assert not find_faults(counting(Counting()))
    assert not find_faults(counting(Counting(), partitions=2, partitioner=RoundRobinPartitioner()))
    assert not find_faults(counting(CountingAlong()))
    assert not find_faults(counting(CountingByKey(), upstream=2))


def test_keys_need_not_meet_if_a_partitioner_says_so() -> None:
    for join in (ByText, ByMore, ByCodec):
        app = joined(join())
        assert find_faults(app)
        app.operators[-1].attributes["partitioner"] = KeyedPartitioner()
        assert not find_faults(app)


def test_honest_methods_are_no_faults() -> None:
    for kind in (HonestSubclass, Decorated):
        for port in operator_type(kind).inputs:
            assert find_faults(stored(kind(), port)) == []


def test_the_callbacks_of_the_library_are_sound() -> None:
    for name in library.__all__:
        kind = getattr(library, name)
        if isinstance(kind, type) and issubclass(kind, Operator):
            assert list(callback_faults(kind.__new__(kind))) == [], name
