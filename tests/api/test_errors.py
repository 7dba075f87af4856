import pickle

import pytest

from ridgeline import (
    CheckpointError,
    Fault,
    OperatorError,
    RidgelineError,
    SchemaError,
    StateError,
    ValidationError,
)
from ridgeline.api.errors import (
    ContainerAbortError,
    Failure,
    FencedError,
)

FAILURE = Failure(
    "payments",
    "check",
    1,
    7,
    "process of port payments",
    "ValueError: no",
    "Payment(account=1)",
    "Traceback ...",
)


def test_a_failure_reports_who_where_when_and_what():
    assert str(FAILURE) == (
        "operator `check` (partition 1) of application `payments` failed in window 7 "
        "in `process of port payments`: ValueError: no; the tuple was Payment(account=1)"
    )
    whole = Failure("payments", "", 0, 7, "window", "containers [2] did not report")
    assert (
        str(whole) == "application `payments` failed in window 7 in `window`: containers [2] did not report"
    )
    assert FAILURE.to_dict()["operator"] == "check"


@pytest.mark.parametrize(
    "error",
    [
        OperatorError(FAILURE),
        ValidationError("app", [Fault("a", "b", "c")]),
        SchemaError("text"),
        StateError("text"),
        CheckpointError("text"),
        FencedError("text"),
        ContainerAbortError("text"),
    ],
)
def test_errors_survive_pickling(error):
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    assert isinstance(back, RidgelineError)


def test_a_failure_s_texts_are_capped():
    failure = Failure("app", "step", 0, 1, "process", "e" * 10**6, "t" * 10**6, "f" * 10**6)
    assert len(failure.error) + len(failure.tuple) + len(failure.traceback) < 30_000
    assert Failure(**failure.to_dict()) == failure
