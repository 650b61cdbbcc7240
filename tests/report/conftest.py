"""Small sweeps, their pages, and one browser for all tests of pages."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from report_sweeps import SPEC, run

from sweeps.report.again import most_telling, simulate_again
from sweeps.report.page import build_page, write_page
from sweeps.report.question import Question, default_group
from sweeps.report.source import read_sweep


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    """The output of the sweep of `SPEC`."""
    return run(SPEC, tmp_path_factory.mktemp("sweep") / "out.parquet")


@pytest.fixture(scope="session")
def report_of():
    """Build a report's page; returns it with what it was made of."""

    def build(path, question=None, curves=4, folders=()):
        sweep = read_sweep(path)
        asked = question or Question(by=default_group(sweep.frame))
        front = asked.front(sweep.frame)
        rows = most_telling(front, asked, curves)
        again = simulate_again(sweep, rows, [*folders, path.parent], lambda: None)
        return sweep, build_page(sweep, asked, front, again), again

    return build


@pytest.fixture(scope="session")
def page_file(report_of, tmp_path_factory):
    """Write a sweep's page, and return its path."""

    def write(path, **options):
        target = tmp_path_factory.mktemp("page") / "report.html"
        write_page(report_of(path, **options)[1], target)
        return target

    return write


def _missing(what):
    if os.environ.get("VECSCHED_REQUIRE_BROWSER") == "1":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium without a window, its console and network logged.

    Without it the tests of the page are skipped, or fail where VECSCHED_REQUIRE_BROWSER=1 says that
    it must be there.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if not program or not driver:
        _missing("no chromium and chromedriver on the PATH: the page is not tested")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        _missing("selenium is not installed (pip install 'vecsched[dev]'): the page is not tested")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for switch in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1280,900",
        f"user-data-dir={tmp_path_factory.mktemp('browser')}",
    ):
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver))
    yield window
    with suppress(Exception):  # it may be gone already
        window.quit()


class Opened:
    """A page in the browser, and what tests ask of it."""

    def __init__(self, browser, path: Path) -> None:
        self.browser = browser
        for kind in ("browser", "performance"):
            browser.get_log(kind)  # what came before is not this page's
        browser.get(path.as_uri())

    def js(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def drawn(self):
        """How many settings the frontier's figure shows."""
        return self.js(
            "return document.getElementById('frontier-plot').data"
            ".filter(t => t.name === 'settings').reduce((n, t) => n + t.x.length, 0)"
        )

    def on_front(self):
        """The points on the frontiers in the figure."""
        return self.js(
            "return document.getElementById('frontier-plot').data"
            ".filter(t => t.name === 'frontier')"
            ".flatMap(t => t.customdata.map(row => value(row, 'point')))"
        )

    def resize(self, width, height=900):
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )


@pytest.fixture
def opened(browser):
    """Open a page; afterwards the browser is as it was."""
    yield lambda path: Opened(browser, path)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.get("about:blank")


@pytest.fixture(scope="session")
def default_page(out, page_file):
    return page_file(out)


@pytest.fixture(scope="session")
def sampled(tmp_path_factory):
    """A sweep with knobs of many values, and two seeds."""
    spec = SPEC | {
        "axes": {
            "load": [1.6],
            "seed": [1, 2],
            "max_batch_size": {"from": 2, "to": 64, "scale": "log"},
            "max_num_batched_tokens": {"from": 64, "to": 512},
        },
        "design": {"method": "sobol", "points": 32},
    }
    return run(spec, tmp_path_factory.mktemp("sampled") / "out.parquet")
