"""How many rows lie between two numbers of a column, which may leave out most numbers."""

from __future__ import annotations

from bisect import bisect_left

_MOST = 4096


class Counts:
    """Rows by number, as they were counted: between two counts they are taken to be evenly spread.

    One thread adds, others may ask.

    >>> counts = Counts(0)
    >>> counts.add(1000, 10)
    >>> counts.add(1010, 10)
    >>> counts.rows(1005), counts.number(15.0)
    (15.0, 1005)
    """

    def __init__(self, number: int) -> None:
        self._points = [(number, 0)]

    def add(self, number: int, rows: int) -> None:
        """Add rows that are after the number before, up to `number`."""
        points = [*self._points, (number, self._points[-1][1] + rows)]
        self._points = points if len(points) < _MOST else [*points[:-1:2], points[-1]]

    def rows(self, number: int) -> float:
        """The rows up to a number. Outside of what was counted there is one for each number."""
        points = self._points
        place = bisect_left(points, number, key=lambda point: point[0])
        if place == 0:
            return float(points[0][1] - (points[0][0] - number))
        if place == len(points):
            return float(points[-1][1] + number - points[-1][0])
        (low, before), (high, after) = points[place - 1], points[place]
        return before + (after - before) * ((number - low) / (high - low))

    def number(self, rows: float) -> int:
        """The number up to which there are so many rows."""
        points = self._points
        place = bisect_left(points, rows, key=lambda point: point[1])
        if place == 0:
            return points[0][0] - int(points[0][1] - rows)
        if place == len(points):
            return points[-1][0] + int(rows - points[-1][1])
        (low, before), (high, after) = points[place - 1], points[place]
        return low + int((high - low) * ((rows - before) / (after - before)))
