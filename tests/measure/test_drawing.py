"""Pictures are whole XML, whatever they draw, and have all of it."""

from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.drawing import dag_svg, line_chart, named_bars, stacked_bars
from support.depth import deep

SVG = "{http://www.w3.org/2000/svg}"
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
values = st.floats(0, 1e9)


def test_a_dag_goes_from_left_to_right():
    picture = ET.fromstring(
        dag_svg(dict.fromkeys("dcba", ""), [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    )
    places = {
        group.find(f"{SVG}title").text: int(group.find(f"{SVG}rect").get("x"))
        for group in picture.iter(f"{SVG}g")
    }
    assert sorted(places, key=places.get) == list("abcd")


@settings(max_examples=deep(40))
@given(st.dictionaries(names, st.lists(values | st.none(), min_size=3, max_size=3), max_size=9))
def test_charts_are_whole_whatever_they_show(series):
    numbers = {name: [value or 0.0 for value in line] for name, line in series.items()}
    for picture in (
        line_chart("latency <ms>", [7, 8, 9], series),
        stacked_bars("time", [7, 8, 9], numbers),
        named_bars("ages", {name: line[0] for name, line in numbers.items()}),
        line_chart("nothing", [], {}),
    ):
        assert ET.fromstring(picture).tag == f"{SVG}svg"
        assert "nan" not in picture
        assert "inf" not in picture.replace("&lt;inf", "").replace("info", "") or any(
            "inf" in name for name in series
        )
