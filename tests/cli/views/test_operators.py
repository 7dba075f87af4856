from hypothesis import given
from hypothesis import strategies as st

from ridgeline.cli.views.operators import BAR_WIDTH, bar, rows_of
from support.cli import overviews

times = st.floats(0, 1e6)


def test_partitions_are_one_row_whose_times_are_the_slowest_ones():
    quote = rows_of(overviews.operators())[1]
    assert (quote.title, quote.partitions, quote.latency_ms, quote.p99_ms) == ("quote", 2, 60.0, 120.0)
    assert quote.parts_ms == (40.0, 15.0, 5.0)
    assert (quote.tuples_in, quote.tuples_out, quote.errors) == (4000.0, 0.5, 7)


def test_unifiers_are_a_row_of_their_own():
    titles = ["top", "top.top#unifier[0]", "top.top#unifier[1]"]
    operators = [
        overviews.operator(number, title, "operator", 1.0, (1.0, 0.0, 0.0), (0, 0))
        for number, title in enumerate(titles)
    ]
    assert [(row.title, row.partitions) for row in rows_of(operators)] == [("top", 1), ("top.top#unifier", 2)]


@given(times, times, times, times)
def test_bars_have_a_fixed_width_and_true_proportions(compute, wait, transfer, more):
    longest = compute + wait + transfer + more
    text = bar((compute, wait, transfer), longest).plain
    assert len(text) == BAR_WIDTH
    if longest > 0:
        assert abs(text.count("█") - BAR_WIDTH * compute / longest) <= 1
        assert abs(text.count("░") - BAR_WIDTH * wait / longest) <= 1
        assert abs(text.count(" ") - BAR_WIDTH * more / longest) <= 1


def test_operators_without_a_window_yet_have_no_times():
    nothing = dict.fromkeys(
        (
            "latencyMs",
            "computeMs",
            "waitMs",
            "transferMs",
            "p50Ms",
            "p99Ms",
            "tuplesProcessedPSMA",
            "windowsBehind",
        )
    )
    [row] = rows_of([{**overviews.operators()[0], **nothing}])
    assert (row.latency_ms, row.p50_ms, row.parts_ms, row.tuples_in) == (None, None, (0.0, 0.0, 0.0), 0.0)
