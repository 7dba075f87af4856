"""Bytes that come from outside are never unpickled, whatever the batch says of itself that they came in."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OperatorError, OutputPort
from ridgeline.operators import ConsoleOutput
from ridgeline.testing import CollectorSink, run_local
from support.rows import in_a_row

MARKED = {"ridgeline": "pickled"}


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


class Row(NamedTuple):
    value: bytes


class Reader(InputOperator):
    """Emits one batch whose schema has metadata, as a file may have."""

    output = OutputPort(Row)

    value: bytes
    metadata: dict[str, str] | None = None

    def emit_tuples(self) -> None:
        schema = pa.schema([pa.field("value", pa.binary())], metadata=self.metadata)
        self.output.emit_batch(pa.record_batch([pa.array([self.value])], schema=schema))
        self.finish()


class MarkedReader(Reader):
    output = OutputPort(pa.schema([pa.field("value", pa.binary())], metadata=MARKED))


class ObjectReader(Reader):
    output = OutputPort(object)


class Take(Operator):
    input = InputPort(Any)
    output = OutputPort(object, optional=True)

    @input.process
    def take(self, row: Any) -> None:
        pass


@pytest.mark.parametrize("sink", [ConsoleOutput, CollectorSink, Take])
@pytest.mark.parametrize("reader", [Reader, MarkedReader])
def test_a_mark_in_a_file_makes_no_pickles_of_its_bytes(
    reader: type[Reader], sink: type[Operator], tmp_path: Path
) -> None:
    mark = tmp_path / "code ran"
    app = in_a_row(
        Application("app"), source=reader(value=pickle.dumps(Bomb(str(mark))), metadata=MARKED), sink=sink()
    )
    run_local(app)
    assert not mark.exists()


def test_a_stream_of_objects_takes_no_foreign_batches(tmp_path: Path) -> None:
    mark = tmp_path / "code ran"
    app = in_a_row(Application("app"), source=ObjectReader(value=pickle.dumps(Bomb(str(mark)))), sink=Take())
    rule = "the port's schema is `object`, which takes batches of such streams only"
    with pytest.raises(OperatorError, match=rf"a batch with columns \['value'\] was emitted; {rule}; emit"):
        run_local(app)
    assert not mark.exists()
