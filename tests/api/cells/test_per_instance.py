import copy
from typing import Any

import cloudpickle
import pytest

from ridgeline.api.cells.per_instance import OWN, PerInstance, make_own


class Shelf(PerInstance):
    def __init__(self, size: int) -> None:
        self.size = size

    def make(self, instance: Any) -> list[Any]:
        return [instance] * self.size


class House:
    wide = Shelf(3)
    narrow = Shelf(1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(OWN):
            return make_own(self, name)
        raise AttributeError(name)


def test_each_instance_has_its_own_and_the_class_reports_what_was_declared():
    one, other = House(), House()
    assert one.wide is one.wide == [one] * 3
    assert other.wide == [other] * 3
    assert one.narrow == [one]
    assert (House.wide.size, House.wide.name) == (3, "wide")
    with pytest.raises(AttributeError):
        one.wide = []
    with pytest.raises(AttributeError):
        one._own_deep  # noqa: B018


def test_a_subclass_may_declare_something_else_under_the_name():
    class Villa(House):
        wide = Shelf(5)

    assert len(Villa().wide) == 5
    assert len(Villa().narrow) == 1


def test_a_class_that_is_sent_reads_as_before():
    class Hut(House):
        low = Shelf(2)

    there = cloudpickle.loads(cloudpickle.dumps(Hut))
    assert len(there().low) == 2
    assert len(there().wide) == 3
    vars(House)["wide"].note = "kept"
    assert copy.copy(House.wide).note == "kept"
