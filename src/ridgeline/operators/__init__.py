"""The library of operators: all that is imported here, in its own name."""

import inspect as _inspect

from ridgeline.operators import aggregate as aggregate
from ridgeline.operators._staged_source import Line as Line
from ridgeline.operators.async_map import AsyncMap as AsyncMap
from ridgeline.operators.bucket_test import BucketCounts as BucketCounts
from ridgeline.operators.bucket_test import BucketDifference as BucketDifference
from ridgeline.operators.bucket_test import BucketTest as BucketTest
from ridgeline.operators.by_key import Deduplicate as Deduplicate
from ridgeline.operators.by_key import LatestByKey as LatestByKey
from ridgeline.operators.by_key import TopByKey as TopByKey
from ridgeline.operators.by_key import TopN as TopN
from ridgeline.operators.by_key import TopNUnifier as TopNUnifier
from ridgeline.operators.console_output import ConsoleOutput as ConsoleOutput
from ridgeline.operators.detect import Detect as Detect
from ridgeline.operators.elementwise import Filter as Filter
from ridgeline.operators.elementwise import FlatMap as FlatMap
from ridgeline.operators.elementwise import Map as Map
from ridgeline.operators.event_generator import EventGenerator as EventGenerator
from ridgeline.operators.event_generator import RandomEventGenerator as RandomEventGenerator
from ridgeline.operators.event_generator import RandomInteger as RandomInteger
from ridgeline.operators.file_input import FileInput as FileInput
from ridgeline.operators.file_output import FileOutput as FileOutput
from ridgeline.operators.file_replay_input import FileReplayInput as FileReplayInput
from ridgeline.operators.fill_forward import FillForward as FillForward
from ridgeline.operators.flow import Delay as Delay
from ridgeline.operators.flow import LimitRate as LimitRate
from ridgeline.operators.flow import Sampler as Sampler
from ridgeline.operators.flow import Sort as Sort
from ridgeline.operators.flow import Union as Union
from ridgeline.operators.flow import WithTimes as WithTimes
from ridgeline.operators.format import Format as Format
from ridgeline.operators.frames._expressions import Expression as Expression
from ridgeline.operators.frames.select import Branch as Branch
from ridgeline.operators.frames.select import Cast as Cast
from ridgeline.operators.frames.select import Drop as Drop
from ridgeline.operators.frames.select import FilterRows as FilterRows
from ridgeline.operators.frames.select import Rename as Rename
from ridgeline.operators.frames.select import Select as Select
from ridgeline.operators.frames.select import WithColumns as WithColumns
from ridgeline.operators.frames.transform import Transform as Transform
from ridgeline.operators.iterable_input import IterableInput as IterableInput
from ridgeline.operators.iterable_input import from_frame as from_frame
from ridgeline.operators.iterable_input import from_iterable as from_iterable
from ridgeline.operators.key_value import ConsolidatorKeyVal as ConsolidatorKeyVal
from ridgeline.operators.key_value import RangeKeyVal as RangeKeyVal
from ridgeline.operators.key_value import RangeUnifier as RangeUnifier
from ridgeline.operators.key_value import RoundRobinHashMap as RoundRobinHashMap
from ridgeline.operators.key_value import SimpleMovingAverage as SimpleMovingAverage
from ridgeline.operators.key_value import SumKeyVal as SumKeyVal
from ridgeline.operators.key_value import SumUnifier as SumUnifier
from ridgeline.operators.line_inputs import SocketInput as SocketInput
from ridgeline.operators.line_inputs import StdinInput as StdinInput
from ridgeline.operators.parse import Parse as Parse
from ridgeline.operators.patterns import absence as absence
from ridgeline.operators.patterns import hysteresis as hysteresis
from ridgeline.operators.patterns import rate as rate
from ridgeline.operators.patterns import sequence as sequence
from ridgeline.operators.patterns import streak as streak
from ridgeline.operators.queue_input import QueueInput as QueueInput
from ridgeline.operators.queue_output import QueueOutput as QueueOutput
from ridgeline.operators.running import Running as Running
from ridgeline.operators.script_operator import ScriptOperator as ScriptOperator
from ridgeline.operators.spark_input import SparkInput as SparkInput
from ridgeline.operators.spark_output import SparkOutput as SparkOutput
from ridgeline.operators.sql import Sql as Sql
from ridgeline.operators.sql_query import SqlQuery as SqlQuery
from ridgeline.operators.table_join import TableJoin as TableJoin
from ridgeline.operators.timed_join import AsOfJoin as AsOfJoin
from ridgeline.operators.timed_join import WindowJoin as WindowJoin
from ridgeline.operators.timed_join import WithinJoin as WithinJoin
from ridgeline.operators.validate import Validate as Validate
from ridgeline.operators.windowed import Windowed as Windowed
from ridgeline.operators.windows import Counted as Counted
from ridgeline.operators.windows import Global as Global
from ridgeline.operators.windows import RollingCount as RollingCount
from ridgeline.operators.windows import RollingTime as RollingTime
from ridgeline.operators.windows import Session as Session
from ridgeline.operators.windows import Sliding as Sliding
from ridgeline.operators.windows import Windows as Windows
from ridgeline.operators.windows import global_window as global_window
from ridgeline.operators.windows import rolling as rolling
from ridgeline.operators.windows import session as session
from ridgeline.operators.windows import sliding as sliding
from ridgeline.operators.windows import tumbling as tumbling

__all__ = [
    name
    for name, thing in sorted(vars().items())
    if not name.startswith("_") and (thing is aggregate or not _inspect.ismodule(thing))
]
