from collections.abc import Iterator
from typing import Any, NamedTuple

from ridgeline import Application, InputPort, Operator, OutputPort, Stream
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

lines.map("wrong_function", shorter)  # error: takes words
words.filter("wrong_field", lambda word: word.size > 2)  # error: no such field
words.filter("wrong_result", lambda word: word.length, partition=2)  # error: no such attribute
lines.into(keep.words)  # error: a stream of lines at a port of words
words.union("mixed", lines)  # error: lines among words
numbers: Stream[int] = words.map("numbers", shorter)  # error: these are words
app.stream(keep.words)  # error: an input port
