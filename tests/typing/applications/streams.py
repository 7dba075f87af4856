from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from ridgeline import Application, InputPort, Operator, OutputPort, Stream
from ridgeline.operators import aggregate as agg
from ridgeline.operators import tumbling
from ridgeline.testing import CollectorSink, ListInput


class Line(NamedTuple):
    text: str


class Word(NamedTuple):
    word: str
    length: int


def split(line: Line) -> Iterator[Word]:
    for word in line.text.split():
        yield Word(word, len(word))


def shorter(word: Word) -> Word:
    return Word(word.word[:3], 3)


class Keep(Operator):
    words = InputPort(Word)
    kept = OutputPort(Word)

    @words.process
    def keep(self, word: Word) -> None:
        self.kept.emit(word)


app = Application("streams")
lines = app.read("lines", ListInput(Line, [("to be",)]))
words = lines.flat_map("words", split)
kept: Stream[Word] = words.filter("long", lambda word: word.length > 2, partitions=2)
kept.map("short", shorter).write("short_words", CollectorSink(Word))
keep = app.add_operator("keep", Keep())
words.into(keep.words)
both = kept.union("both", app.stream(keep.kept))
anything: Any = both.process("again", Keep())

long, rest = words.split("by_length", "length > 3")
longest: Stream[Word] = long.filter("longest", pl.col("length") > 9).filter(
    "named", lambda word: word.word != ""
)
records: Stream[dict[str, Any]] = rest.with_columns("more", double="length * 2", partitions=2)
sizes: list[Any] = (
    records.select("sizes", "double").drop("none", "double").cast("cast", {"a": int}).preview().rows
)
all_words: list[Word] = words.collect()
lengths: pl.DataFrame = words.to_frame()
table: pa.Table = words.to_frame("arrow", windows=3)
by_size = words.branch("by_size", long="length > 5", short=lambda word: word.length < 3)
by_size.long.write("long_words")


async def look_up(word: Word) -> Line:
    return Line(word.word)


looked_up: Stream[Line] = words.enrich("look_up", look_up, concurrency=4, timeout="1s")
timed: Stream[Word] = words.with_times("time", lateness="5s").sample("some", 0.5).limit_rate("few", 10)
scored: Stream[dict[str, Any]] = words.predict("scored", "model.onnx", ["length"], {"a": int}, missing="null")
scripted: Stream[Line] = words.script("scripted", "def process(row): ...", schema=Line)

lines.map("wrong_function", shorter)  # error: takes words
words.filter("wrong_field", lambda word: word.size > 2)  # error: no such field
words.filter("wrong_result", lambda word: word.length, partition=2)  # error: no such attribute
lines.into(keep.words)  # error: a stream of lines at a port of words
words.union("mixed", lines)  # error: lines among words
numbers: Stream[int] = words.map("numbers", shorter)  # error: these are words
app.stream(keep.words)  # error: an input port
words.enrich("no_async", shorter)  # error: no `async def`
words.enrich("wrong_async", look_up, concurrent=4)  # error: no such argument
looked_up.enrich("not_lines", look_up)  # error: takes words
words.filter("wrong_predicate", 5)  # error: no expression
rest.split("wrong_split", lambda word: word.size)  # error: no such field
words.transform("no_frames", shorter)  # error: takes frames
words.rename("wrong_rename", "word")  # error: a mapping
records.filter("wrong_record", lambda record: record.word == "")  # error: records are dictionaries
words.predict("wrong_model", 5, ["length"])  # error: no model
words.predict("wrong_missing", "model.onnx", ["length"], missing="drop")  # error: no such way

counts = (
    words.group_by("word").aggregate("counts", n=agg.count(), partitions=2, ttl="1h").filter("one", "n = 1")
)
minutes = words.group_by("word").window(tumbling("1m")).aggregate("minutes", longest=agg.max("length"))
minutes.late.write("late")
words.aggregate("all", n=agg.count(), emit="records")
words.group_by("word").aggregate("no_call", n=agg.count)  # error: a function that was not called
words.group_by("word").aggregate("no_aggregate", n="length")  # error: no aggregate
words.aggregate("wrong_value", n=agg.count(), partitions="two")  # error: a text
words.aggregate("wrong_emit", n=agg.count(), emit="record")  # error: no such way
words.window(tumbling("1m")).aggregate("wrong_option", n=agg.count(), ttl="1h")  # error: windows have none
words.window(tumbling("1m")).aggregate("wrong_number", n=5)  # error: no aggregate
words.split("pair", "length > 3").write("pair")  # error: a pair of streams
words.group_by("word").write("grouped")  # error: no stream
words.script("no_text", shorter)  # error: no text
other: Stream[Word] = words.script("other", "", schema=Line)  # error: these are lines
