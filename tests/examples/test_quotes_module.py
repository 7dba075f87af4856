"""The example of a module gives the same as the same application written flat."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import quotes_module
from quotes_module import CleanQuotes, Once, Quote
from ridgeline import Application
from ridgeline.operators import Filter
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.paths import ROOT


@pytest.mark.parametrize(("limit", "partitions"), [(500.0, 2), (1000.0, 3)])
def test_results_equal_an_independent_computation(monkeypatch, limit, partitions):
    monkeypatch.chdir(ROOT / "examples")
    printed = io.StringIO()
    run_local(
        quotes_module.app,
        properties={"clean.limit": str(limit)},
        attributes={"clean.once.partitions": str(partitions)},
        console=Console(file=printed, width=200),
    )
    with (ROOT / "examples" / "quotes.csv").open(encoding="utf-8") as file:
        rows = {int(row["number"]): float(row["price"]) for row in csv.DictReader(file)}
    found = sorted(
        int(line.split("number=")[1].split()[0])
        for line in printed.getvalue().splitlines()
        if "number=" in line
    )
    assert found == sorted(number for number, price in rows.items() if price <= limit)


def applications(quotes, limit, partitions):
    """The module in an application, and the same operators without a module."""
    for flat in (False, True):
        app = Application("quotes")
        source = app.add_operator("source", ListInput(Quote, quotes))
        sink = app.add_operator("sink", CollectorSink(Quote))
        if flat:
            cheap = app.add_operator("cheap", Filter(lambda quote: quote.price <= limit), partitions=2)
            once = app.add_operator("once", Once(), partitions=partitions)
            app.add_stream("raw", source.output, cheap.data)
            app.add_stream("cheap", cheap.output, once.quotes)
            app.add_stream("clean", once.new, sink.input)
        else:
            clean = app.add_module("clean", CleanQuotes(limit=limit))
            app.add_stream("raw", source.output, clean.quotes)
            app.add_stream("clean", clean.clean, sink.input)
        yield app, {} if flat else {"clean.once.partitions": str(partitions)}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from("ABC"), st.floats(0, 100)), min_size=1, max_size=12
    ),
    st.floats(1, 99),
    st.integers(1, 3),
)
def test_a_module_gives_what_the_same_operators_give(quotes, limit, partitions):
    nested, flat = (
        run_local(app, attributes=attributes).collected("sink")
        for app, attributes in applications(quotes, limit, partitions)
    )
    assert nested == flat
