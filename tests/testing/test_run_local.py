"""What a user's tests can do without Spark."""

import copy
import dataclasses
import pickle
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    OutputPort,
    PushInput,
    RidgelineError,
    State,
)
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import SchemaError
from ridgeline.api.operator import SparkSource, port_schema
from ridgeline.measure.events import WindowCommitted
from ridgeline.sla import loss, record_age, throughput
from ridgeline.testing import (
    ABORT,
    END_WINDOW,
    EOF,
    CollectorSink,
    ListInput,
    SteppingClock,
    run_local,
)
from support.measure.reports import operator_windows
from support.rows import in_a_row


class Payment(NamedTuple):
    account: int
    cents: int


class Dated(NamedTuple):
    time: datetime
    value: int


class Strict(Operator):
    data = InputPort(Dated)
    output = OutputPort(Dated)

    @data.process
    def check(self, one):
        self.output.emit(Dated(one.time, 1 // one.value))


class Balance(NamedTuple):
    account: int
    cents: int


class Balances(Operator):
    payments = InputPort(Payment, key="account")
    balances = OutputPort(Balance)
    rejected = OutputPort(Payment, error=True)

    totals = KeyedState(int, default=0)

    @payments.process
    def add(self, payment: Payment) -> None:
        if payment.cents == 0:
            self.rejected.emit(payment)
        elif payment.cents < 0:
            raise ValueError("negative")
        else:
            self.totals[payment.account] += payment.cents

    def end_window(self) -> None:
        for account, cents in self.totals.changed():
            self.balances.emit(Balance(account, cents))


class PaymentInput(InputOperator):
    payments = OutputPort(Payment)

    position = State(0)

    def emit_tuples(self) -> None:
        self.payments.emit(Payment(self.position % 2, 1))
        self.position += 1
        if self.position == 10:
            self.finish()


def balances(items, *, partitions=2, **attributes) -> Application:
    return in_a_row(
        Application("test", window="100ms"),
        source=ListInput(Payment, items),
        balances=(Balances(), {"partitions": partitions, **attributes}),
        sink=CollectorSink(Balance),
    )


def counted() -> Application:
    return in_a_row(
        Application("counted", window="1s"),
        source=PaymentInput(),
        balances=(Balances(), {"partitions": 2}),
        sink=CollectorSink(Balance),
    )


@pytest.mark.guide("002", "Recovery Mechanisms")
@pytest.mark.guide("002", "At Least Once")
@pytest.mark.guide("004", "At-Least-Once")
@pytest.mark.guide("002", "Testing")
def test_balances_survive_a_crash():
    run = run_local(
        balances([(1, 100), (2, 50), END_WINDOW, (1, 1), ABORT, END_WINDOW, (2, 5)]), clock=SteppingClock()
    )
    assert run.windows_committed == 3
    assert sorted(run.collected("sink", window=0)) == [Balance(1, 100), Balance(2, 50)]
    assert run.collected("sink", window=1) == [Balance(1, 101)]
    assert run.collected("sink", window=2) == [Balance(2, 55)]
    assert [(window, attempt) for window, attempt, _ in run.retries] == [(1, 1)]
    assert run.retries[0][2].endswith(
        "failed in window 1 in `emit_tuples`: `source` aborts in window 1, as its list says"
    )
    assert [event.attempts for event in run.events if isinstance(event, WindowCommitted)] == [1, 2, 1]


@pytest.mark.guide("004", "Recovery Mechanisms")
def test_more_aborts_than_recovery_attempts_are_the_end():
    with pytest.raises(OperatorError, match="aborts in window 0, as its list says"):
        run_local(balances([ABORT] * 4))


@pytest.mark.parametrize(
    ("items", "windows"),
    [
        ([], 1),
        ([(1, 1), END_WINDOW], 1),
        ([END_WINDOW, END_WINDOW, (1, 1)], 3),
        ([(1, 1), EOF, (1, 1), END_WINDOW, (1, 1)], 1),
        ([(1, 1), END_WINDOW, EOF], 2),
    ],
)
def test_marks_cut_the_list_into_windows(items, windows):
    run = run_local(balances(items))
    assert run.windows_committed == windows
    assert run.window_ids == list(range(windows))


def test_a_function_of_the_run_ends_it():
    run = run_local(counted(), until=lambda run: len(run.collected("sink")) >= 4)
    assert [row.cents for row in run.collected("sink")] == [1, 1, 2, 2]
    assert run.windows_committed == 4
    apart = Application("apart")
    apart.read("in", ListInput(Balance, [(1, 1)])).decouple("queue").write("sink", CollectorSink(Balance))
    with pytest.raises(RidgelineError, match="`until` cannot be given for an application with regions"):
        run_local(apart, until=lambda run: True)


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'from_windows'"):
        run_local(Application("empty"), from_windows=3)


@pytest.mark.guide("004", "Error Port")
def test_errors_are_counted_and_kept():
    items = [(1, 0), (2, 0), (3, 1), END_WINDOW, (4, 0)]
    run = run_local(balances(items, partitions=1, error_tuples_kept=1))
    reports = [event for event in operator_windows(run.events) if event.errors]
    assert [(report.errors, report.error_tuples) for report in reports] == [
        (2, ("Payment(account=1, cents=0)",)),
        (1, ("Payment(account=4, cents=0)",)),
    ]
    assert run.tuples_out("balances") == 4


def test_only_collectors_collect():
    run = run_local(balances([(1, 1)]))
    with pytest.raises(KeyError, match="`balances` is not a `CollectorSink`; known are `sink`"):
        run.collected("balances")
    with pytest.raises(KeyError, match=r"`snk` is not a `CollectorSink`; did you mean `sink`\?"):
        run.collected("snk")


def test_lists_for_what_is_no_input_are_refused():
    for name, text in (
        ("sources", r"not an operator of `counted`; there are \['balances', 'sink', 'source'\]$"),
        ("sink", r"`sink`, which is a `CollectorSink`; a list can replace an input operator with one output"),
    ):
        with pytest.raises(RidgelineError, match=text):
            run_local(counted(), inputs={name: []})


class Rates(SparkSource):
    def __init__(self) -> None:
        super().__init__()
        self.declare_schema("output", Payment)


def test_spark_sources_run_only_as_lists():
    app = in_a_row(Application("rates", window="1s"), rates=Rates(), sink=CollectorSink(Payment))
    text = (
        "`rates` reads through Spark, which is not there in process; "
        'give its tuples: `run_local(app, inputs={"rates": [...]})`'
    )
    with pytest.raises(RidgelineError) as error:
        run_local(app)
    assert str(error.value) == text
    assert run_local(app, inputs={"rates": [(1, 2)]}).collected("sink") == [Payment(1, 2)]


def test_a_full_disk_is_explained(tmp_path, monkeypatch):
    import errno

    from ridgeline.engine.files.storage import LocalStorage
    from ridgeline.engine.state import state_files

    run_local(counted(), windows=2, checkpoint=str(tmp_path))
    with monkeypatch.context() as patch:

        def write(self, name, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(state_files, "SMALL_BYTES", 0)
        patch.setattr(LocalStorage, "write", write)
        with pytest.raises(
            OperatorError,
            match=r"in window 2 in `state`: checkpoint folder `.*`: no space is left; "
            r"free some room and run again",
        ):
            run_local(counted(), checkpoint=str(tmp_path))
    assert run_local(counted(), checkpoint=str(tmp_path)).windows_committed == 8


class Pair(NamedTuple):
    a: int
    b: str


@dataclasses.dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("schema", "items", "made"),
    [
        (Pair, [(1, "x"), Pair(2, "y")], [Pair(1, "x"), Pair(2, "y")]),
        (Point, [(1, 2), Point(3, 4)], [Point(1, 2), Point(3, 4)]),
        (pa.schema([("a", pa.int64())]), [(1,), {"a": 2}], [{"a": 1}, {"a": 2}]),
        (object, [(1, 2), "x", None], [(1, 2), "x", None]),
    ],
)
def test_plain_tuples_become_the_schema_s(schema, items, made):
    source = ListInput(schema, items)
    assert source.items == made
    assert [type(item) for item in source.items] == [type(item) for item in made]
    assert port_schema(source, "output").type is schema


@pytest.mark.parametrize("mark", [END_WINDOW, ABORT, EOF])
def test_marks_are_themselves_everywhere(mark):
    assert pickle.loads(pickle.dumps(mark)) is mark
    assert copy.deepcopy([mark]) == [mark]
    assert repr(mark) in ("END_WINDOW", "ABORT", "EOF")


@pytest.mark.parametrize("schema", [Pair, Point, pa.schema([("x", pa.int64()), ("y", pa.int64())])])
def test_a_tuple_of_the_wrong_length_is_refused(schema):
    fields = re.escape(Schema(schema).describe())
    text = rf"^item \(1,\) has 1 value, but the list has tuples of {fields}; give one for each field$"
    with pytest.raises(SchemaError, match=text):
        ListInput(schema, [(1, 2), (1,)])


def test_promises_are_judged_by_the_clock_of_the_run():
    source = ListInput(Payment, [Payment(1, 1), END_WINDOW] * 20)
    app = in_a_row(Application("kept"), source=source, sink=CollectorSink(Payment))
    app.promise(throughput("sink", at_least=1, over="3s"), throughput("source", at_least=100, over="3s"))
    run = run_local(app)
    assert [one["kept"] for one in run.promises().to_pylist()] == [True, False]


def test_record_ages_and_loss_are_promises_too():
    begin = datetime.fromtimestamp(SteppingClock().wall(), UTC)
    rows = [Dated(begin - timedelta(seconds=1000 * (n % 4 == 0)), n % 5) for n in range(40)]
    source = ListInput(Dated, [one for row in rows for one in (row, END_WINDOW)], timestamp="time")
    app = in_a_row(Application("kept"), source=source, strict=Strict(), sink=CollectorSink(Dated))
    app.promise(
        record_age("sink", p50="1m"),
        record_age("sink", p99="1m"),
        loss(at_most=0.3),
    )
    rows = run_local(app, attributes={"strict.on_error": "SKIP"}).promises().to_pylist()
    assert {row["promise"]: row["kept"] for row in rows} == {
        "record_age_p50:sink": True,
        "record_age_p99:sink": False,
        "loss": True,
    }
    figures = {row["promise"]: row["figure"] for row in rows}
    assert figures["record_age_p99:sink"] == pytest.approx(1000, rel=0.05)


def test_a_window_of_what_is_pushed_is_over_after_its_width():
    class Endless(PushInput):
        output = OutputPort(Payment)

        def emit_tuples(self):
            self.output.emit(Payment(1, 1))

    app = in_a_row(Application("pushed", window="20ms"), source=Endless(), sink=CollectorSink(Payment))
    assert 0 < len(run_local(app, windows=1).collected("sink")) < Endless.window_tuples


def test_a_port_of_a_base_class_reads_the_base_of_what_derives_from_it():
    @dataclasses.dataclass
    class Base:
        a: int

    @dataclasses.dataclass
    class Derived(Base):
        b: str

    app = in_a_row(Application("base"), source=ListInput(Derived, [(1, "x")]), sink=CollectorSink(Base))
    assert run_local(app).collected("sink") == [Base(1)]
