"""The paths that run SQL over the streams of a running application."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.api.errors import ChangeError
from ridgeline.operators._sql_engine import QueryError
from ridgeline.operators.sql_query import QueryResult
from ridgeline.service.access.roles import Role
from ridgeline.service.http.endpoint import AnswerError, Call, Parameter, Rows
from ridgeline.service.queries import QueryRequest, queries_of, seconds_of
from ridgeline.service.recorded import json_rows

_INSERT_SECONDS = 8.0
_LONGEST_WAIT = 5
_MOST_ROWS = 100_000
_MOST_MB = 16_384
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
_NAME = Parameter("name", "string", "the name of a query, from `/queries`")


@QUERIES.question("/queries")
def _all(call: Call) -> QueriesAnswer:
    """The queries that run."""
    return {"queries": [] if call.run is None else queries_of(call.run).rows()}


@QUERIES.request(
    "/queries",
    role=Role.OPERATE,
    body=(
        Parameter("sql", "string", "a SELECT; its tables are names of streams"),
        Parameter(
            "every", "any", 'how long a period is: seconds, or a text such as "10s"; default: a window'
        ),
        Parameter("times", "integer", "it ends after so many results; default: it does not", 0),
        Parameter("rows", "integer", "how many rows a result may have; default: 10,000", 1, _MOST_ROWS),
        Parameter("seconds", "integer", "how long the SQL may take; default: 1", 1, 30),
        Parameter("memoryMb", "integer", "how much memory it may take; default: 256", 32, _MOST_MB),
        Parameter("who", "string", "who asks; default: REST"),
    ),
)
def _add(call: Call) -> QueryAnswer:
    """Run SQL over streams, period after period, until `times`, `/stop`, or nobody reads.

    Raises AnswerError: 400 for wrong SQL, 409 if the change is refused.
    """
    sql = call.get("sql")
    if not sql or len(sql) > _LONGEST_SQL:
        raise AnswerError(400, "`sql` is missing, or longer than 100,000 characters", "give a SELECT")
    try:
        given = {"rows": call.get("rows"), "seconds": call.get("seconds"), "memory_mb": call.get("memoryMb")}
        limits = {key: value for key, value in given.items() if value is not None}
        asked = QueryRequest(sql, seconds_of(call.get("every") or 0), call.get("times") or 0, **limits)
        queries = queries_of(call.running)
        name = queries.add(asked, call.by, _INSERT_SECONDS)
    except QueryError as error:
        raise AnswerError(400, str(error), "nothing is inserted") from None
    except (ChangeError, TimeoutError) as error:
        raise AnswerError(409, str(error), "nothing is inserted") from None
    gone: Any = {"name": name}
    return next((row for row in queries.rows() if row["name"] == name), gone)


@QUERIES.request(
    "/queries/{name}/results",
    _NAME,
    role=Role.OPERATE,
    is_noted=False,
    body=(
        Parameter("after", "integer", "the number of the last result that was read; default: 0", 0),
        Parameter(
            "wait", "integer", "how many seconds the answer waits for one; default: 5", 0, _LONGEST_WAIT
        ),
    ),
)
def _read(call: Call) -> ResultsAnswer:
    """The next results of a query. One that nobody reads for 30 seconds is removed.

    Raises AnswerError (404). At most 16 requests wait at once; further ones get what is there.
    """
    queries = queries_of(call.running)
    try:
        with call.waiting(_LONGEST_WAIT) as seconds:
            found, why = queries.read(call["name"], call.get("after") or 0, seconds)
    except KeyError as unknown:
        raise AnswerError(404, str(unknown.args[0]), "`/queries` has those that run") from None
    rows = [_row(one) for one in found if not one.error]
    error = next((one.error for one in found if one.error), why or "")
    return {"results": rows, "ended": why is not None, "error": error}


@QUERIES.request("/queries/{name}/stop", _NAME, role=Role.OPERATE)
def _stop(call: Call) -> QueriesAnswer:
    """End a query.

    Raises AnswerError (404).
    """
    queries = queries_of(call.running)
    if call["name"] not in {row["name"] for row in queries.rows()}:
        raise AnswerError(404, f"there is no query `{call['name']}`", "`/queries` has those that run")
    queries.remove(call["name"], call.by)
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
