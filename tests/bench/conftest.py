"""Options and the table of bars. To run the benchmarks: see `docs/performance.md`."""

from pathlib import Path

import pytest
from ledger import Ledger, machine

LEDGER = pytest.StashKey[Ledger]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bars", type=Path, metavar="FILE", help="write the table of bars as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEDGER] = Ledger()


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """Where a benchmark notes its figure and the bar it should keep."""
    return request.config.stash[LEDGER]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    ledger = config.stash[LEDGER]
    if not ledger.lines:
        return
    terminalreporter.section("bars")
    described = ", ".join(f"{name} {value}" for name, value in machine().items())
    for line in [described, "", *ledger.table(), "", *ledger.remarks()]:
        terminalreporter.write_line(line)
    target: Path | None = config.getoption("--bars")
    if target is not None:
        ledger.save(target)
        terminalreporter.write_line(f"written to {target}")
