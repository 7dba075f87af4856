"""The names of the API for authors of operators and applications."""

from ridgeline.api.affinity import AffinityRule, AffinityType
from ridgeline.api.application import Application
from ridgeline.api.attributes import (
    ApplicationAttributes,
    InputPortAttributes,
    Locality,
    OnError,
    OperatorAttributes,
    OutputPortAttributes,
    ProcessingMode,
    RecordingLevel,
    UnifierAttributes,
)
from ridgeline.api.cells.cell import Cache
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.list_state import ListCell
from ridgeline.api.cells.migrations import Migration
from ridgeline.api.cells.timer_cell import KeyTimers
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.codec import StreamCodec, stable_hash
from ridgeline.api.columns.dataframes import ArrowStream
from ridgeline.api.columns.dead_letter import DeadLetter
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import ArrowSchema, SchemaType
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import OperatorContext
from ridgeline.api.enumerator import Enumerator, EnumeratorContext, OffsetRange
from ridgeline.api.errors import (
    ChangeError,
    CheckpointError,
    Failure,
    Fault,
    OperatorError,
    RidgelineError,
    SchemaError,
    StateError,
    ValidationError,
)
from ridgeline.api.module import InputProxy, Module, OutputProxy
from ridgeline.api.operator import InputOperator, Operator, Unifier
from ridgeline.api.partitioner import (
    KeyedPartitioner,
    Partition,
    Partitioner,
    PartitionKeys,
    PortInfo,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.ports import InputPort, Order, OutputPort
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import KeyedState, ListState, State
from ridgeline.api.support.own_metric import Aggregate, Metric, MetricKind, metric
from ridgeline.api.timers import Timers

__all__ = [
    "AffinityRule",
    "AffinityType",
    "Aggregate",
    "Application",
    "ApplicationAttributes",
    "ArrowSchema",
    "ArrowStream",
    "Cache",
    "ChangeError",
    "CheckpointError",
    "Clock",
    "DeadLetter",
    "Enumerator",
    "EnumeratorContext",
    "Failure",
    "Fault",
    "InputOperator",
    "InputPoint",
    "InputPort",
    "InputPortAttributes",
    "InputProxy",
    "KeyTimers",
    "KeyedCell",
    "KeyedPartitioner",
    "KeyedState",
    "ListCell",
    "ListState",
    "Locality",
    "Metric",
    "MetricKind",
    "Migration",
    "Module",
    "OffsetRange",
    "OnError",
    "Operator",
    "OperatorAttributes",
    "OperatorContext",
    "OperatorError",
    "Order",
    "OutputPoint",
    "OutputPort",
    "OutputPortAttributes",
    "OutputProxy",
    "Partition",
    "PartitionKeys",
    "Partitioner",
    "PortInfo",
    "ProcessingMode",
    "Publisher",
    "PublisherContext",
    "PushInput",
    "RecordingLevel",
    "RidgelineError",
    "RoundRobinPartitioner",
    "Schema",
    "SchemaError",
    "SchemaType",
    "State",
    "StateError",
    "StickyPartitioner",
    "StreamCodec",
    "SystemClock",
    "Timers",
    "Tuples",
    "Unifier",
    "UnifierAttributes",
    "ValidationError",
    "metric",
    "stable_hash",
]
