"""Which states a state file has, and of which classes their values are: read from the values themselves."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.support.pickling import loads, pickled_classes
from ridgeline.engine.state import state_files
from ridgeline.engine.state.keyed_columns import VaryingLeaf
from ridgeline.engine.state.keyed_segments import SegmentsChange
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.change.state_shapes import class_names


def held_in(files: SegmentFiles, name: str, key: str) -> Mapping[str, tuple[str, ...]]:
    """The states of an operator in a state file, by name, each with the names of all classes there.

    Reads the segments that it names, too. Raises StateError, OSError.
    """
    classes: set[type] = set()

    def noting(data: bytes) -> object:
        classes.update(pickled_classes((data,)))
        return loads(data)

    changes = state_files.read(files.storage, name, key, noting)
    for change in changes.values():
        if isinstance(change, SegmentsChange):
            for segment in map(files.open, change.names):
                for column in (segment.key_column, segment.value_column):
                    leaf = column.leaves[0]
                    if column.kind == "p" and isinstance(leaf, VaryingLeaf):
                        classes |= pickled_classes(leaf.array.to_pylist())
    return dict.fromkeys(changes, class_names(classes))
