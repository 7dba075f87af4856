"""A connection that reads a replication slot: transactions as they are committed."""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import Any, NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.connect.source import SourceUnavailableError
from ridgeline.connectors.postgres import pgoutput
from ridgeline.connectors.postgres.connecting import Server, psycopg
from ridgeline.connectors.postgres.pgoutput import Begin, Relation
from ridgeline.connectors.postgres.slot import FRESH, Trouble, connected, lsn_of, lsn_text

_ASKED_EVERY = 0.5
"""Seconds between two questions how far the server is; it says so to the server, too."""
_SILENT_SECONDS = 60.0
MOST_CHANGES = 20_000
_MOST_BYTES = 8 * 2**20
_GATHER_SECONDS = 0.1
"""Changes that come without a pause are one part for these seconds: each part is a file, which is synced."""
_NO_COPY = -1
_ROW_CHANGES = (pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE)


class Place(NamedTuple):
    """A position: how many changes are before it, and where the log is read from then on.

    `folder`: that of the segments. `lsn`: all transactions before it are read. `skip`: so many changes of the
    transaction after it are, too. `transaction`: its id.
    """

    number: int
    folder: str
    lsn: int
    skip: int = 0
    transaction: int = 0


class Part(NamedTuple):
    """Changes of one table that follow each other, whole transactions if they are not large.

    `runs`: of each transaction the number of changes, and what its begin says.
    """

    relation: Relation
    messages: list[bytes]
    runs: list[tuple[int, Begin]]
    end: Place


class Replication:
    """Reads one table of a slot, and says how far all is committed.

    Methods raise SourceUnavailableError if the server is gone, RidgelineError for what has to be fixed.
    """

    def __init__(self, server: Server, operator: str, trouble: Trouble) -> None:
        self._trouble = trouble
        self._clock = SystemClock()
        with trouble:
            self._connection = connected(server, operator, replicates=True)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    # Making a slot ------------------------------------------------------------------------------------------

    def create_slot(self, name: str, *, exports: bool) -> Iterator[tuple[int, str] | None]:
        """Make a slot: yields None while the server waits for transactions, then where it begins.

        With `exports` it yields the name of its snapshot, too, which counts until the next command.
        """
        text = f'CREATE_REPLICATION_SLOT "{name}" LOGICAL pgoutput '
        text += "EXPORT_SNAPSHOT" if exports else "NOEXPORT_SNAPSHOT"
        answer = None
        for answer in self._answers(text):
            if answer is None:
                yield None
        assert answer is not None  # noqa: S101  the last one
        lsn, snapshot = answer.get_value(0, 1), answer.get_value(0, 2)
        yield lsn_of(lsn.decode()), "" if snapshot is None else snapshot.decode()

    def _answers(self, command: str) -> Iterator[Any]:
        """Send a command: yields None while there is no answer, then the answer."""
        library, link = psycopg(), self._connection.pgconn
        with self._trouble:
            link.send_query(command.encode())
            while link.flush():
                pass
            while True:
                link.consume_input()
                if not link.is_busy():
                    break
                if not self._wait(0.05):
                    yield None
            answer = link.get_result()
            if answer.status not in (library.pq.ExecStatus.TUPLES_OK, library.pq.ExecStatus.COPY_BOTH):
                raise library.errors.error_from_result(answer)
            if answer.status == library.pq.ExecStatus.TUPLES_OK:
                while link.get_result() is not None:
                    pass
        yield answer

    def _wait(self, seconds: float) -> bool:
        """Wait until there is something to read. False: there is nothing."""
        return bool(select.select([self._connection.pgconn.socket], [], [], seconds)[0])

    # Reading a slot -----------------------------------------------------------------------------------------

    def start(self, slot: str, publication: str, place: Place, oid: int) -> None:
        """Begin to read the changes of a table, by its id, after a place."""
        quoted = publication.replace('"', '""').replace("'", "''")
        command = f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(place.lsn)} '
        command += f"(proto_version '1', publication_names '\"{quoted}\"')"
        for _ in self._answers(command):
            pass
        self.place, self._oid = place, oid
        self.received = place.lsn
        """All transactions that are committed before this place in the log are read."""
        self.confirmed = 0
        self._buffer = _Buffer()
        self._relation: Relation | None = None
        self._begin: Begin | None = None
        self._seen = 0
        """Changes of the transaction under way."""
        self._left_out = place.skip
        """Changes of the next transaction that were read before."""
        self._answered, self._asked = self._clock.monotonic(), 0.0

    def confirm(self, lsn: int) -> None:
        """All before a place in the log is committed: the server may remove it."""
        if lsn > self.confirmed:
            self.confirmed = lsn
            self._say(asks=False)

    def read(self, wait: float) -> Part | None:
        """The next changes; None if none have come within some seconds."""
        found = self._read_waiting()
        if found is None and wait > 0 and self._wait(wait):
            found = self._read_waiting()
        now = self._clock.monotonic()
        if now - self._asked >= _ASKED_EVERY:
            self._say(asks=True)
        if now - self._answered > _SILENT_SECONDS:
            raise SourceUnavailableError(
                f"{self._trouble.place} has sent nothing for {_SILENT_SECONDS:g} s, not even an answer"
            )
        return found

    def rest(self) -> None:
        """Say that this reader lives, and read nothing."""
        now = self._clock.monotonic()
        self._answered = now
        if now - self._asked >= _ASKED_EVERY:
            self._say(asks=False)

    @property
    def waits(self) -> bool:
        """Whether whole transactions wait for the next `read`."""
        return self._buffer.whole > 0

    def move_up(self) -> Place:
        """The place that is reached, without a further change."""
        if self._begin is None and not self._buffer.messages and not self._left_out:
            self.place = self.place._replace(lsn=max(self.place.lsn, self.received), skip=0, transaction=0)
        return self.place

    def _say(self, *, asks: bool) -> None:
        self._asked = self._clock.monotonic()
        link, time = self._connection.pgconn, round(self._clock.wall() * 1_000_000)
        with self._trouble:
            link.put_copy_data(pgoutput.status(self.received, self.confirmed, time, asks=asks))
            link.flush()

    def _read_waiting(self) -> Part | None:
        """Read what has come. Changes of a table until there are many, or all that are committed.

        The library takes a few KiB at once, so it is asked until the server pauses.
        """
        until = self._clock.monotonic() + _GATHER_SECONDS
        while True:
            part = self._read_buffered()
            if part is not None:
                return part
            if self._clock.monotonic() >= until or not self._wait(0.0):
                return self._whole_part()

    def _read_buffered(self) -> Part | None:
        """Read what the library has. Changes of a table if there are many, or if the columns change."""
        link = self._connection.pgconn
        with self._trouble:
            link.consume_input()
            while True:
                size, frame = link.get_copy_data(1)
                if size <= 0:
                    break
                part = self._take(bytes(frame))
                if part is not None:
                    return part
            if size == _NO_COPY:
                self._raise_end()
        return None

    def _raise_end(self) -> None:
        """The server has ended the stream: raise why."""
        answer, library = self._connection.pgconn.get_result(), psycopg()
        if answer is not None and answer.error_message:
            raise library.errors.error_from_result(answer)
        raise library.OperationalError("the server has ended the replication")

    def _take(self, frame: bytes) -> Part | None:
        """Take a frame. Returns changes if there are many, or if the columns change."""
        if frame[0] == pgoutput.KEEPALIVE:
            self._answered = self._clock.monotonic()
            sent, wants = pgoutput.keepalive_of(frame)
            if self._begin is None:
                self.received = max(self.received, sent)
            if wants:
                self._say(asks=False)
            return None
        message = frame[pgoutput.HEADER_BYTES :]
        kind = message[0]
        if kind in _ROW_CHANGES:
            return self._add(message) if pgoutput.relation_id(message) == self._oid else None
        if kind == pgoutput.BEGIN:
            self._on_begin(pgoutput.begin_of(message))
        elif kind == pgoutput.COMMIT:
            self._on_commit(pgoutput.commit_end(message))
        elif kind == pgoutput.RELATION and pgoutput.relation_id(message) == self._oid:
            return self._on_relation(pgoutput.relation_of(message))
        elif kind == pgoutput.TRUNCATE and self._oid in pgoutput.truncated(message):
            return self._add(message)
        return None

    def _on_begin(self, begin: Begin) -> None:
        self._answered = self._clock.monotonic()
        self._begin, self._seen = begin, 0
        if self._left_out and begin.transaction != self.place.transaction:
            raise self._trouble.fault(
                (
                    f"the slot gives transaction {begin.transaction}, "
                    f"and {self.place.transaction} is half read"
                ),
                FRESH,
            )

    def _on_commit(self, end: int) -> None:
        """A transaction is whole: its rows may be read, and the position is behind it."""
        if self._left_out:
            raise self._trouble.fault(
                f"transaction {self.place.transaction} has fewer changes than were read of it", FRESH
            )
        begin, self._begin = self._begin, None
        assert begin is not None  # noqa: S101  a commit follows a begin
        self.received = max(self.received, end)
        if self._buffer.messages:
            self._buffer.commit(begin, end)
        else:
            self.place = self.place._replace(lsn=end, skip=0, transaction=0)

    def _on_relation(self, relation: Relation) -> Part | None:
        """The columns from here on; changes with other columns before them are a part."""
        before, part = self._relation, None
        if before is not None and before.signature != relation.signature:
            part = self._whole_part() if self._buffer.is_whole else self._open_part()
        self._relation = relation
        return part

    def _add(self, message: bytes) -> Part | None:
        """Take a change, unless it was read before."""
        self._seen += 1
        if self._left_out:
            self._left_out -= 1
            return None
        buffer = self._buffer
        buffer.messages.append(message)
        buffer.size += len(message)
        if len(buffer.messages) >= MOST_CHANGES or buffer.size >= _MOST_BYTES:
            return self._whole_part() or self._open_part()
        return None

    def _whole_part(self) -> Part | None:
        """The transactions that wait and are whole; None: there are none."""
        buffer = self._buffer
        if not buffer.whole:
            return None
        end = self.place._replace(
            number=self.place.number + buffer.whole, lsn=buffer.end, skip=0, transaction=0
        )
        rest = _Buffer(buffer.messages[buffer.whole :])
        rest.size = sum(map(len, rest.messages))
        return self._hand_over(buffer.messages[: buffer.whole], buffer.runs, end, rest)

    def _open_part(self) -> Part | None:
        """All that waits, and the last transaction is not whole; None: nothing waits."""
        buffer, begin = self._buffer, self._begin
        if not buffer.messages or begin is None:
            return None
        end = Place(
            self.place.number + len(buffer.messages),
            self.place.folder,
            buffer.end if buffer.whole else self.place.lsn,
            self._seen,
            begin.transaction,
        )
        runs = [*buffer.runs, (len(buffer.messages) - buffer.whole, begin)]
        return self._hand_over(buffer.messages, runs, end, _Buffer())

    def _hand_over(
        self, messages: list[bytes], runs: list[tuple[int, Begin]], end: Place, rest: _Buffer
    ) -> Part:
        assert self._relation is not None  # noqa: S101  its description comes before its changes
        self.place, self._buffer = end, rest
        return Part(self._relation, messages, runs, end)


class _Buffer:
    """Changes that were read and are not handed over."""

    def __init__(self, messages: list[bytes] | None = None) -> None:
        self.messages: list[bytes] = messages or []
        self.runs: list[tuple[int, Begin]] = []
        self.size = 0
        self.whole = 0
        """How many of them are of whole transactions."""
        self.end = 0
        """The place in the log after these."""

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing of a transaction that is not whole."""
        return self.whole == len(self.messages)

    def commit(self, begin: Begin, end: int) -> None:
        """The transaction under way is whole."""
        if not self.is_whole:
            self.runs.append((len(self.messages) - self.whole, begin))
        self.whole, self.end = len(self.messages), end
