"""Answers about regions, and the durable queues between them."""

from __future__ import annotations

from typing import Annotated, NotRequired

from typing_extensions import TypedDict


class InRegionAnswer(TypedDict):
    """Part of the answers about what is in a region."""

    region: Annotated[NotRequired[str], "Its region, where the application has several."]


class WaitingAnswer(TypedDict):
    """What waits in a queue for one of its readers, and when there will be no room for more."""

    backlogRecords: Annotated[int, "Tuples in the queue that its reader has not committed."]
    backlogBytes: Annotated[int, "Bytes on the disk of tuples that the reader has not committed."]
    backlogSeconds: Annotated[float, "Age of the oldest of these tuples since it was written; 0 without any."]
    writtenPerSecond: Annotated[float, "Tuples written per second over the last 10 seconds."]
    readPerSecond: Annotated[float, "Tuples read per second; 0 while its region does not run."]
    full: Annotated[bool, "True while the writer's region waits for this reader: the queue has no room."]
    fullInSeconds: Annotated[float | None, "Seconds until it is full at the present rate; null if never."]


class QueueAnswer(WaitingAnswer):
    """A queue between two regions, as one reader of it sees it."""

    stream: Annotated[str, "Name of the decoupled stream."]
    writer: Annotated[str, "Name of the operator that writes to it."]
    writerRegion: Annotated[str, "The region of the writer."]
    reader: Annotated[str, "Name of the operator that reads it."]
    readerRegion: Annotated[str, "The region of the reader."]
    caughtUpAt: Annotated[float | None, "When nothing will wait any more; null unless it catches up."]
    verdict: Annotated[str, "Whether the reader keeps up with it, as of a source."]


class RegionAnswer(TypedDict):
    """A region: operators with windows and commits of their own."""

    name: Annotated[str, "Its name."]
    number: Annotated[int, "Its number; ids of its operators and containers begin with it, times 1,000,000."]
    state: Annotated[str, "`STARTING`, `RUNNING`, `PAUSED`, `FINISHED`, `STOPPED` or `FAILED`."]
    error: Annotated[str, "Why it failed; empty otherwise."]
    operators: Annotated[list[str], "Its operators, with the ends of its queues, in topological order."]
    windowSeconds: Annotated[float, "The width of a window."]
    committedWindow: Annotated[int | None, "Its last committed window."]
    latencyMs: Annotated[float | None, "What its last window took, from trigger to commit."]
    reads: Annotated[list[QueueAnswer], "The queues that it reads."]
    writes: Annotated[list[QueueAnswer], "The queues that it writes to, one for each reader."]


class RegionsAnswer(TypedDict):
    """The regions of an application."""

    sentence: Annotated[str, "Whether the application keeps up, and who is to blame if it does not."]
    regions: Annotated[list[RegionAnswer], "In topological order; none if the application is one region."]
