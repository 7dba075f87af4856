"""The frame of the page: it opens, is live, and says when it is not; keys, colours, sessions."""

import random
import re

import pytest

from ridgeline.measure.events import ApplicationEnded
from ridgeline.measure.wording import units
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from ridgeline.service.page import live
from ridgeline.service.tls.serving import ServedTls
from support.page.browser import NARROW
from support.page.shop import shop
from support.page.troubled import committed
from support.service.certificates import Authority
from support.service.living import living
from support.service.watched import feed, serving, watched

pytestmark = pytest.mark.slow


def rights(page):
    """The role that a page has: it reads, and may write with more than `read`."""
    found = page.evaluate("async () => await (await import('/page/api.js')).rights()")
    assert (found["reads"], found["writes"], found["name"]) == (True, found["role"] != "read", "")
    return found["role"]


def row(page, operator):
    return page.get_by_role("row").filter(has_text=operator)


def test_the_page_opens_and_is_live(application, open_page):
    page = open_page(application.server.url)
    page.get_by_role("heading", name="shop", exact=True).wait_for()
    assert page.title() == "shop · Ridgeline"
    page.get_by_text("live, ").wait_for()
    row(page, "parse[1]").wait_for()
    before = page.locator(".frame-connection").inner_text()
    from playwright.sync_api import expect

    expect(page.locator(".frame-connection")).not_to_have_text(before)
    sentence = page.locator(".sentence")
    assert re.search(r"window", sentence.inner_text())
    sentence.get_by_role("link").first.click()
    page.wait_for_url("**/#/**")


@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_by_all(application, open_page, accessible, screenshot, dark):
    page = open_page(application.server.url, dark=dark)
    row(page, "parse[1]").wait_for()
    page.get_by_text(re.compile(r"of (\d{2}|120) windows")).wait_for()
    accessible(page)
    screenshot(page, "overview-dark" if dark else "page-overview")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    accessible(page)
    page.keyboard.press("Escape")
    page.set_viewport_size(NARROW)
    page.get_by_role("dialog").wait_for(state="detached")
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    if not dark:
        screenshot(page, "overview-narrow")


def test_all_of_it_is_done_with_the_keyboard(application, open_page):
    page = open_page(application.server.url)
    row(page, "totals").wait_for()
    page.keyboard.press("/")
    page.get_by_role("combobox").wait_for()
    page.keyboard.type("tota")
    page.get_by_role("option", name="totals").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/overview?operator=totals")
    row(page, "totals").and_(page.locator("[aria-selected=true]")).wait_for()
    row(page, "totals").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/#/graph\?operator=(?!totals)"))
    page.get_by_role("complementary", name=re.compile("^Operator ")).wait_for()
    page.go_back()
    page.wait_for_url("**/#/overview?operator=totals")
    head = page.get_by_role("columnheader", name="Operator")
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=ascending]").filter(has_text="Operator").wait_for()
    assert page.locator("tbody td:first-child").all_inner_texts() == sorted(
        page.locator("tbody td:first-child").all_inner_texts()
    )
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=descending]").filter(has_text="Operator").wait_for()
    page.reload()
    row(page, "totals").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"


def test_the_address_names_a_window_and_all_shows_it(application, open_page):
    [*_, window] = application.watch.windows(50)
    page = open_page(f"{application.server.url}/#/graph?window={window['windowId']}&operator=parse&part=1")
    page.locator(".sentence a").first.wait_for()
    links = page.evaluate("[...document.querySelectorAll('.sentence a')].map((link) => link.hash)")
    assert not [link for link in links if "part=" in link]  # that of an operator which it does not name
    page.goto(f"{application.server.url}/#/overview?window={window['windowId']}")
    page.get_by_text(f"Window {window['windowId']}, committed at").wait_for()
    page.get_by_role("link", name="Back to the newest").click()
    page.get_by_text("committed at").wait_for(state="detached")


def test_a_window_that_is_not_kept_is_said_to_be_gone(application, open_page):
    open_page.expected.append("404")
    page = open_page(f"{application.server.url}/#/overview?window=987654321")
    page.get_by_text("window 987654321").first.wait_for()
    page.get_by_role("link", name="Back to the newest").click()
    row(page, "parse[1]").wait_for()
    page.goto(f"{application.server.url}/#/graph?operator=parse&window=987654321")
    panel = page.get_by_role("complementary", name="Operator parse")
    panel.get_by_text("It has no figures in this window.").wait_for()
    page.goto(f"{application.server.url}/#/time?window=987654321")
    page.get_by_text("Only the last 1,000 windows are kept").wait_for()
    page.get_by_role("link", name="Show the newest").click()
    page.get_by_role("heading", name=re.compile("The newest window, ")).wait_for()


def test_the_address_that_is_printed_opens_the_page_with_the_right_to_change(application, open_page):
    address = application.server.page()
    page = open_page(address)
    row(page, "parse[1]").wait_for()
    assert "code" not in page.url
    assert page.evaluate("history.length") <= 2
    assert rights(page) == "admin"
    page.reload()
    row(page, "parse[1]").wait_for()
    assert rights(page) == "admin"
    open_page.expected.append("403")  # the code was used
    other = open_page(address)
    row(other, "parse[1]").wait_for()
    other.get_by_role("alert").get_by_text("this address was used already").wait_for()
    assert rights(other) == "read"


def test_an_open_tab_takes_the_printed_address_a_cut_link_and_texts_with_odd_ends_of_lines(open_page):
    watch, plan, _, now = watched()
    with serving(watch, plan) as client:
        page = open_page(f"http://127.0.0.1:{client.port}/#/%E0%A4")
        page.get_by_text("There is no view %E0%A4").wait_for()
        page.goto(f"http://127.0.0.1:{client.port}/#code={client.app.state.access.sessions.code()}")
        page.wait_for_url(lambda url: "code" not in url)
        row(page, "balances[1]").wait_for()
        assert rights(page) == "admin"
        feed(watch, now, ApplicationEnded(now.seconds, "failed", "no\u2028line"))
        page.get_by_text("ended, as of").wait_for()


def test_a_service_that_asks_for_a_token_is_opened_by_it(serving_app, open_page, accessible):
    open_page.expected += ["401", "403"]
    with serving_app(shop(), token="secret") as application:
        page = open_page(application.server.url)
        page.get_by_text("Sign in to see how this application does.").wait_for()
        page.get_by_label("Token").fill("wrong")
        accessible(page)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("this is not the token").wait_for()
        page.get_by_label("Token").fill("secret")
        page.get_by_role("button", name="Sign in").click()
        row(page, "parse[1]").wait_for()
        assert "secret" not in page.url + page.content()
        assert page.evaluate("document.cookie") == ""
        assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
        committed(application, 1)
        page = open_page(f"{application.server.url}/#/overview?window=0")
        page.get_by_label("Token").fill("secret")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Window 0, committed at").wait_for()


def test_a_line_that_is_cut_is_said_and_taken_up_again(open_page):
    open_page.expected.append("ERR_|Failed to load")
    watch, plan, rest, now = watched(until=3)
    with serving(watch, plan) as client:
        page = open_page(f"http://127.0.0.1:{client.port}")
        row(page, "balances[1]").wait_for()
    page.get_by_text("stale since").first.wait_for()
    page.get_by_text("Connection lost").wait_for()
    assert row(page, "balances[1]").is_visible()  # what was known stays
    server = WebServer(create_app(watch, plan), port=client.port)
    try:
        page.get_by_text("live, ").wait_for()
        feed(watch, now, *rest)
        page.locator(".overview-card").get_by_text("5 windows").wait_for()
        feed(watch, now, ApplicationEnded(now.seconds, "finished", ""))
        page.get_by_text("ended, as of").wait_for()
    finally:
        server.close()


def test_a_page_that_finds_no_place_says_why(open_page, monkeypatch):
    monkeypatch.setattr(live, "MOST_CLIENTS", 1)
    open_page.expected.append("503")
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        first = open_page(f"http://127.0.0.1:{client.port}")
        row(first, "balances[1]").wait_for()
        second = open_page(f"http://127.0.0.1:{client.port}")
        refusal = second.get_by_role("alert")
        refusal.get_by_text("1 clients read events already").wait_for()
        refusal.get_by_text("close some of them").wait_for()
        assert second.get_by_text("does not answer").count() == 0
        first.close()
        row(second, "balances[1]").wait_for()
        refusal.wait_for(state="detached")


def test_an_answer_is_shown_for_its_own_question_only(application, open_page):
    open_page.expected.append("503")
    page = open_page(application.server.url)
    page.route("**/stram/second", lambda route: route.fulfill(status=503, json={"error": "not now"}))
    page.evaluate(
        """async () => {
            const {html, render} = await import("/page/vendor/preact.js");
            const {useAsked} = await import("/page/parts/asked.js");
            const place = document.body.appendChild(document.createElement("output"));
            const Shown = ({path}) => {
                const {answer, problem} = useAsked(path, {}, {every: 0});
                return html`<p>${answer ? "answered" : problem ? problem.error : "asking"}</p>`;
            };
            window.ask = (path) => render(html`<${Shown} path=${path} />`, place);
            window.ask("/marks");
        }"""
    )
    page.get_by_text("answered", exact=True).wait_for()
    page.evaluate("ask('/second')")
    page.get_by_text("not now", exact=True).wait_for()


def test_an_answer_that_comes_late_does_not_stand_for_a_newer_one(application, open_page):
    page = open_page(application.server.url)
    asked = []

    def answer(route):
        asked.append(route)
        if len(asked) == 2:
            for text, one in [("new", asked[1]), ("old", asked[0])]:
                one.fulfill(json={"text": text})

    page.route("**/stram/third", answer)
    page.evaluate(
        """async () => {
            const {html, render} = await import("/page/vendor/preact.js");
            const {useAsked} = await import("/page/parts/asked.js");
            const Shown = () => {
                const {answer, again} = useAsked("/third", {}, {every: 0});
                window.shown = (window.shown ?? "") + (answer ? answer.text : "");
                return html`<button onClick=${again}>Ask again</button><p>${answer?.text}</p>`;
            };
            render(html`<${Shown} />`, document.body.appendChild(document.createElement("div")));
        }"""
    )
    page.get_by_role("button", name="Ask again").click()
    page.get_by_text(re.compile("^(new|old)$")).wait_for()
    answered = "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/third'))"
    page.wait_for_function(f"() => {answered}.length === 2")
    assert page.evaluate("window.shown") == "new"


def test_values_keep_their_digits_and_the_places_where_they_were_said(application, open_page):
    page = open_page(application.server.url)
    exact = "async (text) => (await import('/page/api.js')).exact(text)"
    assert page.evaluate(exact, '{"id": [1152921504606846977, 3]}') == {"id": ["1152921504606846977", 3]}
    read = "async (text) => (await import('/page/operator/settings.js')).read(text)"
    assert page.evaluate(read, "1152921504606846977") == "1152921504606846977"
    assert page.evaluate(read, "12") == 12
    rows = [
        {"operator": "a", "key": f"operator.a.{key}", "layer": layer, "place": layer}
        for key, layer in [("port.out.queue", "user file"), ("name", "code"), ("prop.name", "default")]
    ]
    said = "async (rows) => (await import('/page/operator/settings.js')).saidBy([], rows, 'a', {})"
    found = page.evaluate(said, rows)
    assert found["attribute"]["name"] == "code"
    assert "name" not in found["property"]
    assert "queue" not in {**found["attribute"], **found["property"]}


def test_a_patch_adds_members_of_any_name(application, open_page):
    page = open_page(application.server.url)
    merged = """async ([target, patch]) => {
        const {merge} = await import("/page/deltas.js");
        return JSON.stringify(merge(JSON.parse(target), JSON.parse(patch)));
    }"""
    known = '{"__proto__":{"a":1,"b":2},"toString":{"a":1}}'
    assert page.evaluate(merged, ["{}", known]) == known
    fewer = '{"__proto__":{"b":null},"toString":null}'
    assert page.evaluate(merged, [known, fewer]) == '{"__proto__":{"a":1}}'
    assert page.evaluate(merged, [known, '{"__proto__":null}']) == '{"toString":{"a":1}}'


def test_numbers_are_those_of_the_terminal(application, open_page):
    page = open_page(application.server.url)
    luck = random.Random(11)
    sizes = [1e-5, 1e-3, 0.1, 1, 10, 100, 4_000, 90_000, 3e6]
    middles = [step / 8000 for step in range(41)] + [step / 16 for step in range(2_000)]
    others = [size * luck.random() for size in sizes for _ in range(200)]
    numbers = [*middles, *others, 59.96, 3599.5, 3600.5]
    all_of_them = [*numbers, 9.99e14, 1e15, 2.5e18, 1e308]
    names = {name: name for name in ("count", "rate", "duration", "milliseconds", "percentile", "soon")}
    for name, python in {**names, "bytes": "size"}.items():
        script = "async ([name, numbers]) => numbers.map((await import('/page/format.js'))[name])"
        some = [number for number in all_of_them if name != "bytes" or number < 1e300]
        expected = [getattr(units, python)(number) for number in some]
        shown = page.evaluate(script, [name, some])
        wrong = [one for one in zip(some, shown, expected, strict=True) if one[1] != one[2]]
        assert not wrong, (name, wrong[:5])
    script = """async (numbers) => {
        const {percent} = await import("/page/format.js");
        return numbers.map((one) => percent(one));
    }"""
    assert page.evaluate(script, numbers) == [f"{100 * number:.0f} %" for number in numbers]


def test_by_tls_it_is_live_and_pauses_the_application(open_page, tmp_path):
    signed = Authority(tmp_path).sign("web")
    with living(tls=ServedTls(signed.certificate, signed.key_file)) as found:
        page = open_page(found.server.page(), ignore_https_errors=True)
        page.get_by_text("live, ").wait_for()
        page.get_by_text("Run", exact=True).click()
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Confirm").click()
        page.get_by_role("dialog").get_by_text("applied").wait_for()
        assert found.run.paused
        (cookie,) = page.context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        page.close()
