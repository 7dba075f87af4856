"""The paths that run SQL over the streams of a running application."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.api.errors import ChangeError
from ridgeline.operators._sql_engine import QueryError
from ridgeline.operators.sql_query import QueryResult
from ridgeline.service.access.roles import Role
from ridgeline.service.http.endpoint import WHO, AnswerError, Call, Rows, Within, waiting
from ridgeline.service.queries import QueryRequest, queries_of, seconds_of
from ridgeline.service.recorded import json_rows

_INSERT_SECONDS = 8.0
_LONGEST_SQL = 100_000


class QueryAnswer(TypedDict):
    """A query that runs."""

    name: Annotated[str, "Its name, which is that of its operator."]
    sql: Annotated[str, "Its SQL."]
    streams: Annotated[list[str], "The streams that it reads, as the SQL names them."]
    everyWindows: Annotated[int, "The windows of a period."]
    results: Annotated[int, "How many results it has had."]
    seconds: Annotated[float | None, "What the last result cost: its tuples, and the SQL."]
    bytes: Annotated[int | None, "What the last result was made of."]


class QueriesAnswer(TypedDict):
    """The queries that run."""

    queries: Annotated[list[QueryAnswer], "In the order of the plan."]


class ResultAnswer(TypedDict):
    """The rows that a query found in a period."""

    number: Annotated[int, "From 1; numbers that are left out are lost, as nobody read them in time."]
    firstWindow: Annotated[int, "The first window of the period."]
    window: Annotated[int, "The last one."]
    columns: Annotated[list[str], "The names of the columns."]
    rows: Annotated[list[dict[str, Any]], "The rows; times and decimals as texts."]
    more: Annotated[bool, "There were more rows than asked for."]
    tuples: Annotated[int, "How many tuples it read."]
    bytes: Annotated[int, "How many bytes these had."]
    seconds: Annotated[float, "How long that, and the SQL, took in the query's operator."]


class ResultsAnswer(TypedDict):
    """Results of a query."""

    results: Annotated[list[ResultAnswer], "In order; none if none came in time."]
    ended: Annotated[bool, "No other one follows."]
    error: Annotated[str, "Why it has ended, if it was not asked to."]


QUERIES = Rows()


@QUERIES.question("/queries")
def _all(call: Call) -> QueriesAnswer:
    """The queries that run."""
    return {"queries": [] if call.run is None else queries_of(call.run).rows()}


@QUERIES.request("/queries", role=Role.OPERATE, body=(WHO,))
def _add(
    call: Call,
    sql: str = "",
    every: Any = 0,
    times: Annotated[int, Within(0)] = 0,
    rows: Annotated[int, Within(1, 100_000)] = 10_000,
    seconds: Annotated[int, Within(1, 30)] = 1,
    memory_mb: Annotated[int, Within(32, 16_384)] = 256,
) -> QueryAnswer:
    """Run SQL over streams, period after period, until `times`, `/stop`, or nobody reads.

    Raises AnswerError: 400 for wrong SQL, 409 if the change is refused.

    Args:
        call: The request.
        sql: a SELECT; its tables are names of streams
        every: how long a period is: seconds, or a text such as "10s"; default: a window
        times: it ends after so many results; default: it does not
        rows: how many rows a result may have; default: 10,000
        seconds: how long the SQL may take; default: 1
        memory_mb: how much memory it may take; default: 256
    """
    if not sql or len(sql) > _LONGEST_SQL:
        raise AnswerError(400, "`sql` is missing, or longer than 100,000 characters", "give a SELECT")
    try:
        asked = QueryRequest(sql, seconds_of(every or 0), times, rows, seconds, memory_mb)
        queries = queries_of(call.running)
        name = queries.add(asked, call.by, _INSERT_SECONDS)
    except QueryError as error:
        raise AnswerError(400, str(error), "nothing is inserted") from None
    except (ChangeError, TimeoutError) as error:
        raise AnswerError(409, str(error), "nothing is inserted") from None
    gone: Any = {"name": name}
    return next((row for row in queries.rows() if row["name"] == name), gone)


@QUERIES.request("/queries/{name}/results", role=Role.OPERATE, is_noted=False)
def _read(
    call: Call, name: str, after: Annotated[int, Within(0)] = 0, wait: Annotated[int, Within(0, 5)] = 5
) -> ResultsAnswer:
    """The next results of a query. One that nobody reads for 30 seconds is removed.

    Raises AnswerError (404). At most 16 requests wait at once; further ones get what is there.

    Args:
        call: The request.
        name: the name of a query, from `/queries`
        after: the number of the last result that was read; default: 0
        wait: how many seconds the answer waits for one; default: 5
    """
    queries = queries_of(call.running)
    try:
        with waiting(wait) as seconds:
            found, why = queries.read(name, after, seconds)
    except KeyError as unknown:
        raise AnswerError(404, str(unknown.args[0]), "`/queries` has those that run") from None
    rows = [_row(one) for one in found if not one.error]
    error = next((one.error for one in found if one.error), why or "")
    return {"results": rows, "ended": why is not None, "error": error}


@QUERIES.request("/queries/{name}/stop", role=Role.OPERATE)
def _stop(call: Call, name: str) -> QueriesAnswer:
    """End a query.

    Raises AnswerError (404).

    Args:
        call: The request.
        name: the name of a query, from `/queries`
    """
    queries = queries_of(call.running)
    if name not in {row["name"] for row in queries.rows()}:
        raise AnswerError(404, f"there is no query `{name}`", "`/queries` has those that run")
    queries.remove(name, call.by)
    return {"queries": queries.rows()}


def _row(result: QueryResult) -> ResultAnswer:
    """A result as JSON has it."""
    table = result.table()
    return {
        "number": result.number,
        "firstWindow": result.first_window,
        "window": result.window,
        "columns": table.column_names,
        "rows": json_rows(table),
        "more": result.more,
        "tuples": result.tuples,
        "bytes": result.bytes,
        "seconds": result.seconds,
    }
