"""What an operator author touches."""

from ridgeline.api.affinity import AffinityRule, AffinityType
from ridgeline.api.application import Application
from ridgeline.api.attribute_types import (
    ApplicationAttributes,
    InputPortAttributes,
    OperatorAttributes,
    OutputPortAttributes,
    UnifierAttributes,
)
from ridgeline.api.attributes import Locality, OnError, ProcessingMode, RecordingLevel
from ridgeline.api.cache import Cache
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.codec import StreamCodec, stable_hash
from ridgeline.api.context import OperatorContext
from ridgeline.api.dataframes import ArrowStream
from ridgeline.api.dead_letter import DeadLetter
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
from ridgeline.api.keyed_state import KeyedCell
from ridgeline.api.list_state import ListCell
from ridgeline.api.metric import Aggregate, Metric, MetricKind, metric
from ridgeline.api.module import InputProxy, Module, OutputProxy
from ridgeline.api.operator import InputOperator, Operator, Unifier
from ridgeline.api.order import Order
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
from ridgeline.api.ports import InputPort, OutputPort
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.push_input import PushInput
from ridgeline.api.schema import Schema
from ridgeline.api.schema_types import ArrowSchema, SchemaType
from ridgeline.api.state import KeyedState, ListState, State
from ridgeline.api.timer_cell import KeyTimers
from ridgeline.api.timers import Timers
from ridgeline.api.tuples import Tuples

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
    "Module",
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
