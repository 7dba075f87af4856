"""The library of operators."""

from ridgeline.operators import aggregate
from ridgeline.operators._staged_source import Line
from ridgeline.operators.async_map import AsyncMap
from ridgeline.operators.bucket_test import BucketCounts, BucketDifference, BucketTest
from ridgeline.operators.by_key import Deduplicate, LatestByKey, TopByKey, TopN, TopNUnifier
from ridgeline.operators.console_output import ConsoleOutput
from ridgeline.operators.detect import Detect
from ridgeline.operators.elementwise import Filter, FlatMap, Map
from ridgeline.operators.event_generator import EventGenerator, RandomEventGenerator, RandomInteger
from ridgeline.operators.file_input import FileInput
from ridgeline.operators.file_output import FileOutput
from ridgeline.operators.file_replay_input import FileReplayInput
from ridgeline.operators.fill_forward import FillForward
from ridgeline.operators.flow import Delay, LimitRate, Sampler, Sort, Union, WithTimes
from ridgeline.operators.format import Format
from ridgeline.operators.frames._expressions import Expression
from ridgeline.operators.frames.select import Branch, Cast, Drop, FilterRows, Rename, Select, WithColumns
from ridgeline.operators.frames.transform import Transform
from ridgeline.operators.iterable_input import IterableInput, from_frame, from_iterable
from ridgeline.operators.key_value import (
    ConsolidatorKeyVal,
    RangeKeyVal,
    RangeUnifier,
    RoundRobinHashMap,
    SimpleMovingAverage,
    SumKeyVal,
    SumUnifier,
)
from ridgeline.operators.line_inputs import SocketInput, StdinInput
from ridgeline.operators.parse import Parse
from ridgeline.operators.patterns import absence, hysteresis, rate, sequence, streak
from ridgeline.operators.queue_input import QueueInput
from ridgeline.operators.queue_output import QueueOutput
from ridgeline.operators.running import Running
from ridgeline.operators.script_operator import ScriptOperator
from ridgeline.operators.spark_input import SparkInput
from ridgeline.operators.spark_output import SparkOutput
from ridgeline.operators.sql import Sql
from ridgeline.operators.sql_query import SqlQuery
from ridgeline.operators.table_join import TableJoin
from ridgeline.operators.timed_join import AsOfJoin, WindowJoin, WithinJoin
from ridgeline.operators.validate import Validate
from ridgeline.operators.windowed import Windowed
from ridgeline.operators.windows import (
    Counted,
    Global,
    RollingCount,
    RollingTime,
    Session,
    Sliding,
    Windows,
    global_window,
    rolling,
    session,
    sliding,
    tumbling,
)

__all__ = [
    "AsOfJoin",
    "AsyncMap",
    "Branch",
    "BucketCounts",
    "BucketDifference",
    "BucketTest",
    "Cast",
    "ConsoleOutput",
    "ConsolidatorKeyVal",
    "Counted",
    "Deduplicate",
    "Delay",
    "Detect",
    "Drop",
    "EventGenerator",
    "Expression",
    "FileInput",
    "FileOutput",
    "FileReplayInput",
    "FillForward",
    "Filter",
    "FilterRows",
    "FlatMap",
    "Format",
    "Global",
    "IterableInput",
    "LatestByKey",
    "LimitRate",
    "Line",
    "Map",
    "Parse",
    "QueueInput",
    "QueueOutput",
    "RandomEventGenerator",
    "RandomInteger",
    "RangeKeyVal",
    "RangeUnifier",
    "Rename",
    "RollingCount",
    "RollingTime",
    "RoundRobinHashMap",
    "Running",
    "Sampler",
    "ScriptOperator",
    "Select",
    "Session",
    "SimpleMovingAverage",
    "Sliding",
    "SocketInput",
    "Sort",
    "SparkInput",
    "SparkOutput",
    "Sql",
    "SqlQuery",
    "StdinInput",
    "SumKeyVal",
    "SumUnifier",
    "TableJoin",
    "TopByKey",
    "TopN",
    "TopNUnifier",
    "Transform",
    "Union",
    "Validate",
    "WindowJoin",
    "Windowed",
    "Windows",
    "WithColumns",
    "WithTimes",
    "WithinJoin",
    "absence",
    "aggregate",
    "from_frame",
    "from_iterable",
    "global_window",
    "hysteresis",
    "rate",
    "rolling",
    "sequence",
    "session",
    "sliding",
    "streak",
    "tumbling",
]
