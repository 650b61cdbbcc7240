"""The page in a browser: what readers see, do and print."""

import base64
import io
import json
import os

import matplotlib.image
import numpy as np
import pytest

from sweeps.report.question import Question
from sweeps.report.source import read_sweep

if os.environ.get("VECSCHED_REQUIRE_BROWSER") != "1":
    pytest.importorskip("selenium")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait


@pytest.fixture
def page(opened, default_page):
    return opened(default_page)


def shot(page, selector):
    """A part of the page as pixels, (height, width, channels)."""
    clip = page.js(
        "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
        "return { x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height,"
        "  scale: 1 }",
        selector,
    )
    taken = page.browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
    )
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(taken["data"])))[..., :3]


def uncheck(page, knob, level):
    page.js(
        "for (const l of document.querySelectorAll(`#filter-${arguments[0]} label`))"
        "  if (l.textContent.trim() === arguments[1]) l.querySelector('input').click()",
        knob,
        level,
    )


def test_it_opens_silently_and_loads_nothing(page):
    assert page.browser.get_log("browser") == []
    events = [json.loads(e["message"])["message"] for e in page.browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in asked) == 1


def test_names_are_shown_and_not_obeyed(page):
    assert page.js("return window.harmed") is None
    assert "</script><script>window.harmed=1</script>" in page.text(".kicker")
    assert "{{ 7*7 }}" in page.text(".about")
    assert page.js("return document.querySelectorAll('img').length") == 0


def test_with_seeds_the_table_tells_how_sure_the_frontier_is(opened, page_file, sampled):
    page = opened(page_file(sampled, curves=0))
    assert page.text("#sort-surety").startswith("chance to be on it")
    chances = page.js("return Object.values(data.surety)")
    assert len(chances) == len(page.on_front())
    assert all(0 <= chance <= 1 for chance in chances)


def test_the_page_draws_the_frontier_that_pandas_finds(page, out):
    front = Question(by="load").front(read_sweep(out).frame)
    assert sorted(page.on_front()) == sorted(front["point"])
    assert page.drawn() == 48


def test_hollow_marks_have_a_line(page):
    # Drawn by the graphics card they are nothing else.
    widths = page.js(
        "return document.getElementById('frontier-plot').data"
        ".filter(t => t.name === 'settings').map(t => t.marker.line.width)"
    )
    assert widths
    assert min(widths) > 0


def test_three_objectives(opened, page_file, out):
    question = Question(("goodput_requests_per_s",), ("slowdown_p99", "tpot_p99_s"), "load")
    front = question.front(read_sweep(out).frame)
    page = opened(page_file(out, question=question))
    assert sorted(page.on_front()) == sorted(front["point"])


def test_a_filter_changes_plot_tables_and_counts(page):
    uncheck(page, "policy", "fcfs")
    assert page.drawn() == 32
    assert page.text("#count").startswith("32 of 48 settings shown")
    page.js("document.querySelector('input[value=all]').click()")
    assert page.js("return document.querySelectorAll('#settings-table tbody tr').length") == 32
    assert "fcfs" not in page.text("#settings-table tbody")
    assert "fcfs" not in page.text("#levels")
    page.js("document.getElementById('reset').click()")
    assert page.drawn() == 48


def test_filters_that_leave_nothing(page):
    uncheck(page, "load", "0.8")
    uncheck(page, "load", "1.6")
    assert page.drawn() == 0
    assert page.text("#count").startswith("0 of 48 settings shown; 0 on the frontier")
    assert page.browser.get_log("browser") == []


def test_a_knob_of_many_numbers_is_filtered_by_a_range(opened, page_file, sampled):
    page = opened(page_file(sampled, curves=0))
    before = page.drawn()
    box = page.browser.find_element("css selector", "#filter-max_batch_size input")
    box.clear()
    box.send_keys("17", Keys.TAB)
    frame = read_sweep(sampled).frame
    assert page.drawn() == (frame["max_batch_size"] >= 17).sum() < before


def test_axes_and_groups_are_the_readers_choice(page, out):
    page.js(
        "for (const [id, v] of [['x', 'output_tokens_per_s'], ['y', 'ttft_p99_s'], ['by', '']]) {"
        "  const s = document.getElementById(id); s.value = v;"
        "  s.dispatchEvent(new Event('change')) }"
    )
    front = Question(("output_tokens_per_s",), ("ttft_p99_s",)).front(read_sweep(out).frame)
    assert sorted(page.on_front()) == sorted(front["point"])
    assert "most output, least TTFT p99" in page.text("#frontier-caption")


def test_a_setting_is_chosen_with_the_keyboard(page):
    buttons = page.browser.find_elements("css selector", "#settings-table .choose")
    other = next(each for each in buttons if each.get_attribute("aria-pressed") == "false")
    point = other.text
    other.send_keys(Keys.ENTER)
    assert page.text("#setting-title") == f"Point {point}"
    assert f"Point {point} is shown." in page.text("#announcement")
    focused = page.browser.switch_to.active_element
    assert (focused.text, focused.get_attribute("aria-pressed")) == (point, "true")
    assert "vecsched sweep one.yaml" in page.text("#setting-body")  # its workload has no name


def test_a_setting_is_chosen_with_the_mouse(page):
    # A mark of the figure in the viewport's pixels; one that no other mark covers.
    x, y, row = page.js(
        """
        const plot = document.getElementById("frontier-plot");
        plot.scrollIntoView({ block: "center", behavior: "instant" });
        const { xaxis, yaxis } = plot._fullLayout;
        const box = plot.getBoundingClientRect();
        const spots = frontsOf(everyRow, state).flatMap((g) => g.front).map((row) => [
          box.left + xaxis._offset + xaxis.d2p(value(row, state.x)),
          box.top + yaxis._offset + yaxis.d2p(value(row, state.y)), row]);
        const apart = (a) => Math.min(...spots.filter((b) => b !== a).map(
          (b) => Math.hypot(a[0] - b[0], a[1] - b[1])));
        return spots.filter((s) => s[2] !== state.selected).sort((a, b) => apart(b) - apart(a))[0];
        """
    )
    move, click = ActionChains(page.browser), ActionChains(page.browser)
    move.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    move.perform()
    hovered = "return document.getElementById('frontier-plot')._hoverdata?.[0].customdata"
    WebDriverWait(page.browser, 10).until(lambda _: page.js(hovered) == row)
    click.click().perform()
    WebDriverWait(page.browser, 10).until(lambda _: page.js("return state.selected") == row)
    assert (
        page.text("#setting-title")
        == f"Point {page.js('return value(arguments[0], `point`)', row)}"
    )


def test_curves_are_drawn_where_there_are_some(page):
    assert page.js("return Object.keys(data.curves).length") == 4
    assert page.js("return data.first in data.curves")
    assert page.js("return document.getElementById('cdf-ttft_s').data.at(-1).y.at(-1)") == 1
    page.js("select(everyRow.find((row) => !(row in data.curves)))")
    assert "only some settings" in page.text("#no-curves")


def test_the_table_sorts(page):
    head = page.browser.find_element("id", "sort-slowdown_p99")
    head.send_keys(Keys.ENTER)
    shown = (
        "return [...document.querySelectorAll('#settings-table .choose')]"
        ".map(b => Number(b.textContent))"
    )
    values = (
        "return arguments[0].map("
        "p => value(everyRow.find(r => value(r, 'point') === p), 'slowdown_p99'))"
    )
    losses = page.js(values, page.js(shown))
    assert losses == sorted(losses)
    assert (
        page.js("return document.querySelector('[aria-sort=ascending]').textContent")
        == "slowdown p99 (×) ↑"
    )
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    losses = page.js(values, page.js(shown))
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("selector", ["#frontier-plot", "#parallel-plot", "#time-queue"])
def test_a_figure_is_not_blank(page, selector):
    assert shot(page, selector).std() > 0.01


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_needs_no_scrolling_sideways(opened, default_page, browser, width):
    page = opened(default_page)
    page.resize(width, 844)
    page.browser.refresh()
    assert page.js("return document.documentElement.scrollWidth") <= width
    assert page.drawn() == 48
    assert not page.js("return document.getElementById('filters').open")


def test_dark_where_the_reader_wants_it_dark(page):
    light = shot(page, "#frontier-plot").mean()
    page.browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    dark = shot(page, "#frontier-plot").mean()
    assert dark < 0.3
    assert light > 0.7


def test_it_prints_without_controls(page):
    printed = page.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 50_000
    # Afterwards the page is as it was.
    assert page.js("return document.documentElement.className") == ""
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = "return getComputedStyle(document.querySelector(arguments[0])).display"
    assert {page.js(hidden, each) for each in ("#axes", "#filters", "#table-choice")} == {"none"}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_every_control_is_in_the_tab_order_and_has_a_name(page):
    controls = page.js(
        """
        const kinds = "a[href], button, input, select, summary, pre, .scroll";
        window.controls = [...document.querySelectorAll(kinds)].filter(
          (each) => each.checkVisibility() && !each.disabled);
        return controls.map((each) =>
          (each.ariaLabel || each.labels?.[0]?.textContent || each.textContent).trim());
        """
    )
    assert all(controls)
    reached = set()
    for _ in range(len(controls) + 20):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(page.js("return controls.indexOf(document.activeElement)"))
    # A group of radio buttons is one stop; its arrows move within.
    radios = page.js(
        "return controls.map((each, i) => each.type === 'radio' ? i : -1).filter(i => i >= 0)"
    )
    assert set(range(len(controls))) - reached <= set(radios[1:])


def test_headings_are_in_order_and_the_language_is_told(page):
    levels = page.js(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(step <= 1 for step in np.diff(levels))
    assert page.js("return document.documentElement.lang") == "en"


def test_figures_have_texts_in_their_place(page):
    names = page.js(
        "return [...document.querySelectorAll('[role=img]')].map(f => f.ariaLabel ||"
        " document.getElementById(f.getAttribute('aria-labelledby')).textContent)"
    )
    assert len(names) == 9
    assert all(len(name) > 20 for name in names)
