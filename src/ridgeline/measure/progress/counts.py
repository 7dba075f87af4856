"""The tuples of a window at all ports of all operators, as one array: folds cost little for each operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

Counts = Mapping[str, int]
Numbers = npt.NDArray[np.intp]
PortNumbers = Mapping[str, int]


class Ports:
    """Numbers the ports of operators as they appear: the places of their counts in arrays."""

    def __init__(self) -> None:
        self.owners: list[int] = []
        """Of each port, whose it is: the operator's id."""
        self.inputs: dict[int, dict[str, int]] = {}
        """By operator, the numbers of its input ports."""
        self.outputs: dict[int, dict[str, int]] = {}
        self._shape: object = None
        self._split = 0
        self._numbers: Numbers = np.zeros(0, np.intp)

    def __len__(self) -> int:
        return len(self.owners)

    def window(
        self, operators: list[int], tuples_in: Sequence[Counts], tuples_out: Sequence[Counts]
    ) -> tuple[Numbers, npt.NDArray[np.float64], int]:
        """The numbers of the ports that these operators have counts of, the counts, and how many are inputs.

        Input ports come first. Operators that are new have their ports numbered. Windows mostly have the same
        ports: then all of it is done without a loop in Python.
        """
        shape = (
            operators,
            list(map(len, tuples_in)),
            list(chain.from_iterable(tuples_in)),
            list(chain.from_iterable(tuples_out)),
            list(map(len, tuples_out)),
        )
        if shape != self._shape:
            entering = self._numbered(self.inputs, operators, tuples_in)
            leaving = self._numbered(self.outputs, operators, tuples_out)
            self._numbers, self._split = np.array(entering + leaving, np.intp), len(entering)
            self._shape = shape
        counts = [counts.values() for counts in chain(tuples_in, tuples_out)]
        return self._numbers, np.fromiter(chain.from_iterable(counts), np.float64), self._split

    def forget(self, operators: Collection[int]) -> Numbers:
        """Operators are no more. The ports of the others are renumbered: their numbers of before."""
        self._shape = None
        for operator in operators:
            self.inputs.pop(operator, None)
            self.outputs.pop(operator, None)
        kept: list[int] = []
        for ports in (*self.inputs.values(), *self.outputs.values()):
            for name, number in ports.items():
                ports[name] = len(kept)
                kept.append(number)
        self.owners = [self.owners[number] for number in kept]
        return np.array(kept, np.intp)

    def _numbered(
        self, known: dict[int, dict[str, int]], operators: Sequence[int], tuples: Sequence[Counts]
    ) -> list[int]:
        """The numbers of these operators' ports, for `window`; ports that are not `known` get theirs."""
        numbers: list[int] = []
        for operator, counts in zip(operators, tuples, strict=True):
            own = known.setdefault(operator, {})
            for port in counts:
                if port not in own:
                    own[port] = len(self.owners)
                    self.owners.append(operator)
                numbers.append(own[port])
        return numbers
