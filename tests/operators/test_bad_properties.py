"""Operators whose properties do not fit: each is a fault before anything runs, which names what to change."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, cast

import polars as pl
import pyarrow as pa
import pytest
from pydantic import BaseModel

import ridgeline.operators as lib
from ridgeline import Application, OperatorError, SchemaError, ValidationError
from ridgeline.api.operator import operator_type
from ridgeline.connectors.models import ModelOperator
from ridgeline.operators import absence, hysteresis, rolling, session, sliding, streak, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.operators import generators as gen
from ridgeline.plan.validation import validate
from ridgeline.testing import CollectorSink, ListInput, run_local

Make = Callable[[], Any]


class Row(NamedTuple):
    key: str | None
    number: int
    value: float | None
    text: str
    tags: list[str]
    time: datetime


class Short(NamedTuple):
    user: str
    cents: int


class Checked(BaseModel):
    nothing: int


ODD = pa.schema(
    [("a b", pa.string()), ("a", pa.struct([("b", pa.int64())])), ("a_b", pa.int64()), ("rank", pa.int64())]
)


def refusal(operator: Any, schema: Any = Row) -> str:
    """The faults of an application in which all inputs of an operator read one stream."""
    app = Application("refused")
    step = app.add_operator("step", operator)
    kind = operator_type(type(operator))
    if kind.inputs:
        times = ("time", "5s") if schema is Row else ()
        source = app.add_operator("rows", ListInput(schema, [], *times))
        app.add_stream("in", source.output, *(getattr(step, name) for name in kind.inputs))
    for name in kind.outputs:
        app.add_stream(
            f"out_{name}", getattr(step, name), app.add_operator(f"sink_{name}", CollectorSink()).input
        )
    with pytest.raises(ValidationError) as raised:
        validate(app)
    return str(raised.value)


def predict(rows: pa.RecordBatch) -> Any:
    return rows["value"]


def model(features: Any = "value", result: Any = "x", what: Any = predict, **more: Any) -> Make:
    return lambda: ModelOperator(what, [features] if isinstance(features, str) else features, result, **more)


def script(text: str) -> Make:
    return lambda: lib.ScriptOperator(text)


def windowed(how: Any = None, **properties: Any) -> Make:
    return lambda: lib.Windowed(
        how or tumbling(1), **{"key": "key", "values": {"n": agg.count()}, **properties}
    )


def running(**properties: Any) -> Make:
    return lambda: lib.Running(**{"key": "key", "values": {"n": agg.count()}, **properties})


def value(aggregate: Any) -> Make:
    return windowed(values={"n": aggregate})


def awaited(function: Any = None, **properties: Any) -> Make:
    return lambda: lib.AsyncMap(waits if function is None else function, schema=Row, **properties)


async def waits(row: Row) -> Row:
    return row


def files(path: str = "in/*.csv", schema: Any = Row, **properties: Any) -> Make:
    return lambda: lib.FileInput(path, schema, **properties)


def replayed(**properties: Any) -> Make:
    return lambda: lib.FileReplayInput(**{"path": "a", "schema": Short, "format": "csv", **properties})


def events(**properties: Any) -> Make:
    columns = {"id": gen.sequence(), "time": gen.times("2026-01-01", every="1s")}
    return lambda: lib.EventGenerator(**{"columns": columns, **properties})


INTERVAL = pa.schema([("a", pa.month_day_nano_interval())])
SECONDS, POSITIVE = "must be a number of seconds", "must be more than 0"
NO_KEY = "`tags` is list.*cannot be keys"
PICKLED = pl.col("id").map_batches(abs, return_dtype=pl.Int64).meta.serialize(format="json")
REFUSED: list[tuple[Make, str]] = [
    (lambda: lib.FillForward("valeu", "key"), "did you mean `value`"),
    (lambda: lib.FillForward("value", "kee"), "did you mean `key`"),
    (lambda: lib.FillForward("key", "key"), "must not have the name of a column of the key"),
    (lambda: lib.FillForward("value", "key", within="soon"), SECONDS),
    (lambda: lib.FillForward("value", "key", within=0), POSITIVE),
    (lambda: lib.FillForward((), "key"), "step.columns"),
    (lambda: lib.Format("csv"), "make columns or rows of it before, or take json"),
    (lambda: lib.Format("json", columns="tex"), "did you mean `text`"),
    (lambda: lib.Format("json", "text", keep="text"), "must not have the name of a column"),
    (lambda: lib.Format("xml", root="a b"), "root"),
    (lambda: lib.Parse("txt", schema=Short), "`txt`"),
    (lambda: lib.Parse("number", schema=Short), "only text and bytes"),
    (lambda: lib.Parse("text", schema=Short, keep="texts"), "`texts`"),
    (lambda: lib.Parse("text", "regex", schema=Short), "must be given"),
    (lambda: lib.Parse("text", "regex", schema=Short, pattern="("), "regular expression"),
    (lambda: lib.Parse("text", "regex", schema=Short, pattern="(?P<user>.)"), "no group `cents`"),
    (lambda: lib.Parse("text", "common_log", schema=Short), "no group `cents`"),
    (lambda: lib.Validate(Checked), "`nothing`"),
    (awaited(predict), "must be an `async def`; `map` takes other functions"),
    (awaited(timeout="soon"), "step.timeout"),
    (awaited(timeout=0), POSITIVE),
    (awaited(back_off="x"), "step.back_off"),
    (awaited(concurrency=0), "step.concurrency"),
    (lambda: lib.Deduplicate("nothing"), "nothing"),
    (lib.Deduplicate, "key"),
    (lambda: lib.Deduplicate("key", within="soon"), "within"),
    (lambda: lib.Deduplicate("key", within=0), "within"),
    (lambda: lib.Deduplicate("key", by=cast("Any", "day")), "by"),
    (lambda: lib.Deduplicate("tags"), NO_KEY),
    (lambda: lib.LatestByKey(("key", "tags")), NO_KEY),
    (lambda: lib.TableJoin("tags"), NO_KEY),
    (lambda: lib.TableJoin("tags", broadcast=True), NO_KEY),
    (lambda: lib.WithinJoin("tags", "1s"), NO_KEY),
    (lambda: lib.AsOfJoin("tags"), NO_KEY),
    (lambda: lib.Detect(absence("1s"), "tags"), NO_KEY),
    (lambda: lib.Sort("tags"), NO_KEY),
    (lambda: lib.TableJoin("kee"), "`kee`"),
    (lambda: lib.TableJoin({"kee": "key"}), "`kee`"),
    (lambda: lib.TableJoin({"key": "number"}), "never equal"),
    (lambda: lib.TableJoin("key", deleted="removed"), "removed"),
    (lambda: lib.TableJoin("key", suffix=""), "twice"),
    (lambda: lib.WithinJoin("kee", "1s"), "`kee`"),
    (lambda: lib.WithinJoin({"kee": "key"}, "1s"), "`kee`"),
    (lambda: lib.WithinJoin({"key": "number"}, "1s"), "never equal"),
    (lambda: lib.WithinJoin("key", "soon"), "within"),
    (lambda: lib.WithinJoin("key", "1s", suffix=""), "twice"),
    (lambda: lib.AsOfJoin("kee"), "`kee`"),
    (lambda: lib.AsOfJoin("key", "soon"), "within"),
    (lambda: lib.WindowJoin("key", sliding("2s", "1s")), "tumbling"),
    (lambda: lib.Detect(hysteresis("valu", above=2, below=1), "key"), "`valu`.*`value`"),
    (lambda: lib.Detect(hysteresis("text", above=2, below=1), "key"), "reads numbers, but `text`"),
    (lambda: lib.Detect(absence("1s"), "kee"), "`kee`"),
    (lambda: lib.Detect(streak("valu > 2", 3), "key"), "valu > 2"),
    (lambda: lib.Detect(lib.sequence("tex = 1", "text = 2", within=1), "key"), "tex = 1"),
    (lambda: lib.Detect(absence("1s"), "key", value="since"), "since"),
    (lambda: lib.Detect(absence("1s"), "key", at="since"), "step.at"),
    (lambda: lib.Detect(cast("Any", {"kind": "Nothing"}), "key"), "pattern"),
    (lambda: lib.TopN(by="delay"), "`by` names `delay`"),
    (lambda: lib.TopByKey("key", by="valu"), "`valu`.*did you mean `value`"),
    (lambda: lib.WithTimes("tme"), "the timestamp column `tme` is not in .*did you mean `time`"),
    (lambda: lib.WithTimes("text"), "the timestamp column `text` is string, not a time"),
    (lambda: lib.WithTimes("time", "soon"), "step.lateness"),
    (lambda: lib.WithTimes("time", idle_after="x"), "step.idle_after"),
    (running(values={"start": agg.window_start()}), "there are no windows here"),
    (running(values={"key": agg.count()}), "must not have the name of a column of the key"),
    (running(values={"n": agg.sum("numbr")}), "there is no column `numbr`"),
    (running(ttl="soon"), SECONDS),
    (running(ttl=0), POSITIVE),
    (running(emit="all"), "'changes' or 'records'"),
    (running(key="kee"), "kee"),
    (windowed(values={"key": agg.count()}), "must not have the name of a column of the key"),
    (windowed(key="kee"), "the key column `kee` is not in"),
    (windowed(lateness="soon"), SECONDS),
    (windowed(accumulation="discarding"), "needs `early` or `early_count`"),
    (windowed(accumulation="retracting"), "accumulating"),
    (windowed(early=0), POSITIVE),
    (windowed(early_count=0), "greater than or equal to 1"),
    (windowed(close_after="soon"), "close_after"),
    (windowed(rolling("1m"), early="5s"), "have no early results"),
    (windowed(tumbling(count=3), early="5s"), "have no early results"),
    (windowed(session("15s"), values={"n": agg.reduce("text", max, "")}), "needs `merge=` of `reduce`"),
    (value(agg.max("size")), "there is no column `size`"),
    (value(agg.sum("text")), "column `text` is string, which has no sum"),
    (value(agg.variance("text")), "column `text` is string, which has no variance; give one of numbers"),
    (value(agg.quantile("text", 0.5)), "which has no quantile"),
    (value(agg.quantile("valeu", 0.5)), "there is no column `valeu`"),
    (value(agg.top("number", exact=False)), "give one of texts, or leave `exact` out"),
    (value(agg.Aggregate("avg", "value")), "there is no aggregate `avg`"),
    (model("valeu"), "`features` names `valeu`.*did you mean `value`"),
    (model("tags"), "features are numbers, booleans or texts"),
    (model(["value", "value"]), "must not be named twice"),
    (model([]), "features"),
    (model(result="text"), "`result` names `text`.*give another name"),
    (model(result={"x": "flaot"}), "`x`.*did you mean `float`"),
    (model(result={"x": complex}), "`x`.*has no column type"),
    (model(result={}), "must name a column"),
    (model(what="model.bin"), r"must be a file that ends with .onnx, .joblib"),
    (model(what=5), "must be a file.*got 5"),
    (model(what="nowhere_at_all:f"), "needs the module `nowhere_at_all`"),
    (model(what=f"{__name__}:predct"), "did you mean `predict`"),
    (model(version_column="x"), "must not have the name of a result"),
    (model(version_column="text"), "`version_column` names `text`"),
    (model(missing="drop"), "missing"),
    (script("def process(row):\n    x = = 2"), "line 2: invalid syntax in `x = = 2`; fix this line"),
    (script("def process(row):\nreturn 1"), "line 2: expected an indented block"),
    (script("return 5"), "line 1: 'return' outside function"),
    (script(""), r"defines no function.*def process\(row\):"),
    (script("def other(row): pass"), "defines no function"),
    (script("def process(row): pass\ndef process_batch(b): pass"), "defines both functions"),
    (script("async def process(row): pass"), "line 1: `process` is `async`"),
    (script("def process(): pass"), "line 1: `process` must take one argument"),
    (script("x = 1\ndef process(a, b): pass"), "line 2: `process` must take one argument"),
    (script("def process(a, *, b): pass"), "line 1: `process` must take one argument"),
    (script("def process(row):\n    return '\0'"), "null byte"),
    (script("(" * 5000), "script"),
    (files("in/*.xyz"), "does not say its format"),
    (files(begin={"a": 1}), "step.begin"),
    (files(begin="tomorrow"), "ISO 8601"),
    (files("in/*.txt"), "must have one column"),
    (files(""), "must name a file"),
    (files(settle="soon"), "step.settle"),
    (replayed(path=[]), "must name a file, a folder or a pattern"),
    (replayed(schema=object), "must have columns"),
    (replayed(format="text"), "step.schema.*must have one column"),
    (replayed(schema=Row), "is a column that CSV cannot hold; use another `format`"),
    (replayed(rows_per_window=0), "greater than 0"),
    (replayed(rows_per_window=5, rows_per_second=1), "sets the pace together .*; give one of them"),
    (events(timestamp="id"), "must be a column of `times`"),
    (events(timestamp="at"), "must be a column of `times`"),
    (events(lateness="5s"), "needs `timestamp`"),
    (events(per_second=0), "should be greater than 0"),
    (events(per_second=math.inf), "should be a finite number"),
    (lambda: lib.FilterRows(cast("Any", {"polars": PICKLED})), "predicate.*a function of Python.*as code"),
    (events(columns={}), "at least 1"),
    (events(columns={"id": 5}), "columns.id.*instance of Column"),
    (lambda: lib.RandomEventGenerator(minimum=5, maximum=4), "`minimum`.*not be above `maximum`, which is 4"),
    (lib.FileOutput, "path.*is required"),
    (lambda: lib.FileOutput("out", format=cast("Any", "csv")), "should be 'parquet' or 'jsonl'"),
    (lambda: lib.FileOutput("out", roll_seconds=-1), "roll_seconds.*greater than or equal to 0"),
    (lambda: lib.FileOutput("out", partition_by=["key", "key"]), "must name each column once"),
    (lambda: lib.ConsoleOutput(string_format="{"), "cannot be parsed.*use `{}` for the tuple, `{{` for a"),
    (lambda: lib.ConsoleOutput(format="jsonl", string_format="{a}"), 'a line of `format="text"`'),
    (lambda: lib.SparkOutput(format="parquet", mode=cast("Any", "merge")), "should be 'append', 'overwrite'"),
    (lib.SparkInput, "format.*is required"),
    (lambda: lib.SparkInput(format="rate", schema=object), "must have columns"),
    (lambda: lib.SparkInput(format="rate", schema=Row, source_schema=cast("Any", 5)), "source_schema"),
    (lambda: lib.SparkInput(format="rate", schema=INTERVAL), "is a column that Spark has no type for"),
]
REFUSED_NAMES: list[tuple[Make, str]] = [
    (lambda: lib.Format("key_value", columns="a b"), "`a b` cannot be a key"),
    (lambda: lib.TopByKey("a b", by="a_b"), "the stream has a column `rank` already; rename it before"),
]


def named(rows: list[tuple[Make, str]]) -> list[Any]:
    """Ids say which row of the table it is, since its operator is made in the test."""
    return [pytest.param(*row, id=f"{place}-{row[1][:30]}") for place, row in enumerate(rows)]


@pytest.mark.parametrize(("make", "words"), named(REFUSED))
def test_a_property_that_does_not_fit_is_a_fault(make: Make, words: str) -> None:
    text = refusal(make())
    assert "step" in text
    assert re.search(words, text, re.DOTALL), text


@pytest.mark.parametrize(("make", "words"), named(REFUSED_NAMES))
def test_columns_whose_names_do_not_fit_are_a_fault(make: Make, words: str) -> None:
    assert words in refusal(make(), ODD)


@pytest.mark.parametrize("make", [script("def process(row): pass"), model()])
def test_tuples_without_columns_are_a_fault(make: Make) -> None:
    assert "tuples of `object`" in refusal(make(), object)


WRONG: list[tuple[Make, str]] = [
    (lib.Filter, "`Filter` needs one of `predicate` and `batch_predicate`; got neither"),
    (lambda: lib.Filter(predicate=bool, batch_predicate=bool), "needs one of.*got both; give one"),
    (lambda: lib.Map(schema=Row), "`Map` needs one of `function` and `batch_function`; got neither"),
    (lambda: lib.Map(schema=Row, function=bool, batch_function=bool), "needs one of.*got both; give one"),
    (lambda: lib.RoundRobinHashMap(keys=["a", "b"], schema=Short), "must be the `keys` .*rename one or the"),
    (lambda: tumbling("1 minute"), r"`tumbling\('1 minute'\)`: its `size` is no time: "),
    (lambda: tumbling("1mo", offset="30d"), "less than 28 days"),
    (lambda: tumbling("101y"), "at most 100 years"),
    (lambda: tumbling("1d", zone="../../etc/passwd"), "there is no time zone"),
    (lambda: tumbling("1h", zone="Europe/Berlin"), "must have whole days"),
    (lambda: tumbling("1h", offset="1h"), "must be less than '1h'"),
    (lambda: tumbling(math.inf), "is not a duration"),
    (tumbling, "have a `size` or a `count`"),
    (lambda: tumbling(count=3, zone="UTC"), "neither `zone` nor `offset`"),  # type: ignore[call-overload]
    (lambda: sliding("1h", slide="7m"), r"`sliding\('1h', slide='7m'\)`: the `size` of sliding windows"),
    (lambda: sliding("1m", "7s"), "multiple of `slide`"),
    (lambda: sliding("1mo", "1d"), "must both have months, or neither"),
    (lambda: session(-1), r"`session\(-1\)`: its `gap` is no time: "),
    (lambda: session(0), POSITIVE),
    (rolling, "have a `span` or a `count`"),
    (lambda: rolling(count=0), r"`rolling\(count=0\)`: the `count` of a window.*at least 1"),
    (lambda: rolling(count=True), "at least 1"),
    (lambda: agg.quantile("x", 1.5), r"`quantile\('x', 1.5\)`: a quantile is a share from 0 to 1"),
    (lambda: agg.quantile("x", math.nan), "a share from 0 to 1"),
    (lambda: agg.quantiles("x", []), "one share at least"),
    (lambda: agg.variance("x", ddof=2), "`ddof` is 1"),
    (lambda: agg.stddev("x", ddof=3), r"`stddev\('x', ddof=3\)`: `ddof` is 1"),
    (lambda: agg.top("x", 0), "at least 1"),
    (lambda: hysteresis("value", above=1, below=2), "got"),
    (lambda: absence(0), "got|duration"),
    (lambda: absence("soon"), "got|duration"),
    (lambda: lib.sequence("page = 1", within="1s"), "got"),
    (lambda: lib.sequence("page = 1", cast("Any", {"page": "x"}), within="1s"), "got"),
    (lambda: lib.rate(1, "1s"), "got"),
]


@pytest.mark.parametrize(("make", "words"), named(WRONG))
def test_a_call_with_a_wrong_value_says_what_to_give(make: Make, words: str) -> None:
    with pytest.raises((TypeError, ValueError, SchemaError)) as raised:
        make()
    assert re.search(words, str(raised.value)), raised.value


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("text", r"`TopN` orders by `text`, which is no column of its `schema` \['user', 'cents'\]; add it"),
        ("cents", "`TopN` needs column `user`; got tuples with the columns .*; put a `Map` before it"),
    ],
)
def test_with_a_schema_of_its_own_top_n_says_what_is_missing_once_tuples_come(by: str, words: str) -> None:
    given = pa.schema(
        {"cents": pa.int64(), "text": pa.string()} | ({"user": pa.string()} if by == "text" else {})
    )
    app = Application("best")
    source = app.add_operator("rows", ListInput(given, [dict.fromkeys(given.names)]))
    best = app.add_operator("best", lib.TopN(by=by, schema=Short))
    app.add_stream("rows", source.output, best.data)
    app.add_stream("best", best.top, app.add_operator("sink", CollectorSink()).input)
    with pytest.raises(OperatorError, match=words):
        run_local(app)
