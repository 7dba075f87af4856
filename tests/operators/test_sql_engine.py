"""DuckDB in a process of its own: what SQL may do, what it may not, and that it ends."""

import pyarrow as pa
import pytest

from ridgeline.operators._sql_engine import QueryError, SqlEngine

TABLES = {"t": pa.table({"x": list(range(1000))}), "quotes.price": pa.table({"y": [1.5]})}


@pytest.fixture(scope="module")
def engine():
    made = SqlEngine(memory_mb=128, rows=100)
    yield made
    made.close()


def test_a_select_gives_rows(engine):
    answer = engine.run("select avg(x) as a from t", TABLES, 5.0)
    assert answer.table.to_pylist() == [{"a": 499.5}]
    assert not answer.more


def test_rows_beyond_the_limit_are_left_out(engine):
    answer = engine.run("select a.x from t a, t b, t c, t d", TABLES, 5.0)
    assert answer.table.num_rows == 100
    assert answer.more


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("select * from t", ["t"]),
        ("from T", ["t"]),
        ('select * from "quotes.price"', ["quotes.price"]),
        ('select * from t, (select max(y) as y from "quotes.price")', ["t", "quotes.price"]),
        ("select * from query('select * from t')", ["t"]),
        ("with t as (select 1 as x) select * from t", []),
        ("select 't'", []),
    ],
)
def test_it_says_which_tables_are_named(engine, sql, named):
    assert engine.run(sql, TABLES, 5.0, names=True).tables == named


@pytest.mark.parametrize(
    "sql",
    [
        "select * from '/etc/passwd'",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from glob('/*')",
        "select * from read_parquet('https://example.org/x.parquet')",
        "select getenv('HOME')",
        "select * from duckdb_secrets()",
        "attach '/tmp/other.db' as other",
        "attach ':memory:' as other",
        "install httpfs",
        "load httpfs",
        "copy t to '/tmp/t.csv'",
        "export database '/tmp/there'",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "set TimeZone = 'Asia/Kolkata'",
        "select set_config('TimeZone', 'Asia/Kolkata', false)",
        "create table z as select * from t",
        "insert into t values (1)",
        "drop view t",
        "pragma version",
        "select 1; drop view t",
        "select * from TABLES",
        "",
        "selec",
    ],
)
def test_nothing_but_a_select_over_the_tables_is_run(engine, sql):
    with pytest.raises(QueryError):
        engine.run(sql, TABLES, 5.0)
    assert engine.run("select count(*) as n from t", TABLES, 5.0).table.to_pylist() == [{"n": 1000}]


@pytest.mark.parametrize(
    ("sql", "seconds", "words"),
    [
        ("select count(*) from range(1000000000000)", 0.2, r"it takes longer than 0\.2 s"),
        (
            "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r",
            0.2,
            "longer",
        ),
        ("select sum(a.x) from t a, t b, t c, t d", 0.2, r"it takes longer than 0\.2 s"),
        ("select repeat('x', 1000000000)", 5.0, "(?i)memory|MB|longer"),
        ("select list_sort(range(1000000000))", 5.0, "(?i)memory|MB|longer"),
        ("select list(a.x) from t a, t b, t c", 5.0, "(?i)memory|MB|longer"),
        ("select repeat('x', 50000000) from range(500)", 5.0, "(?i)memory|MB|longer"),
    ],
)
def test_sql_without_end_or_that_takes_all_memory_is_ended(engine, sql, seconds, words):
    with pytest.raises(QueryError, match=words):
        engine.run(sql, TABLES, seconds)
    assert engine.run("select 1 as n", TABLES, 5.0).table.num_rows == 1


def test_a_process_that_always_dies_is_an_error(monkeypatch, tmp_path):
    script = tmp_path / "dies.py"
    monkeypatch.setattr("ridgeline.operators._sql_engine._SCRIPT", script)
    for code, words in (("raise SystemExit(7)", "code 7: "), ("1 / 0", "code 1 .*division by zero")):
        script.write_text(code)
        with pytest.raises(QueryError, match=f"its process has ended with {words}"):
            SqlEngine().run("select 1", {}, 5.0)


def test_without_duckdb_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(QueryError, match=r"install `ridgeline\[query\]`"):
        SqlEngine().run("select 1", {}, 1.0)
