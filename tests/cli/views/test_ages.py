from ridgeline.cli.views.ages import ages_table, sink_ages, sink_lines, together
from support.cli import overviews


def test_partitions_are_put_together():
    entries = [
        overviews.age("sink[0]", "commit", 1, average=100.0, count=30),
        overviews.age("sink[1]", "commit", 2, average=200.0, p99=900.0),
    ]
    [merged] = together(entries)
    assert merged["operator"] == "sink"
    assert merged["avgMs"] == (100 * 30 + 200 * 10) / 40
    assert (merged["p99Ms"], merged["count"], merged["minMs"]) == (900.0, 40, 10.0)


def test_a_sink_without_records_in_the_last_minute():
    names = ("minMs", "maxMs", "avgMs", "p50Ms", "p90Ms", "p99Ms", "p999Ms", "oldestMs")
    ages = {"operators": [{**overviews.age("sink", "commit", 1, count=0), **dict.fromkeys(names)}]}
    assert overviews.drawn(*sink_lines(ages)) == ["record age at sink, committed: avg -, p99 -"]


def test_many_sinks_are_counted():
    ages = {
        "operators": [
            overviews.age(f"sink{number}", "commit", number, p99=float(number)) for number in range(9)
        ]
    }
    lines = overviews.drawn(*sink_lines(ages, limit=2))
    assert [line.split(",")[0] for line in lines] == [
        "record age at sink8",
        "record age at sink7",
        "and 7 more sinks",
    ]
    assert len(sink_ages(ages)) == 9


def test_the_table_at_three_widths():
    entries = overviews.ages()["operators"]
    assert overviews.drawn(ages_table(entries, 100)) == [
        "operator  at        min     avg     p50     p90     p99   p99.9     max  oldest  records",
        "ticks     source  10 ms  120 ms  100 ms  250 ms  300 ms  310 ms  320 ms  400 ms       10",
        "console   emit    10 ms  120 ms  100 ms  250 ms  300 ms  310 ms  320 ms  400 ms       10",
        "console   commit  10 ms  120 ms  100 ms  250 ms  300 ms  310 ms  320 ms  400 ms       10",
        "sma       commit  10 ms  120 ms  100 ms  250 ms  350 ms  310 ms  320 ms  400 ms       10",
    ]
    assert overviews.drawn(ages_table(entries, 60))[1].split()[:2] == ["ticks", "source"]
    assert max(map(len, overviews.drawn(ages_table(entries, 60)))) <= 60
    assert overviews.drawn(ages_table(entries, 160), width=160) == overviews.drawn(ages_table(entries, 100))
