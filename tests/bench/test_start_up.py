"""What a user waits for before the first simulation: imports, and the first compilation ever."""

import pytest
from ledger import Bar
from timing import OtherLoad, child_cpu_s, spread_of

HELP = """
from sweeps.cli import main
try:
    main(["--help"])
except SystemExit as done:
    assert done.code == 0
"""
NOTHING_HEAVY = """
import sys
heavy = {"numba", "numpy", "pandas", "pyarrow", "matplotlib"} & sys.modules.keys()
assert not heavy, heavy
"""
DRY_RUN = 'from sweeps.cli import main; main(["sweep", "default", "--dry-run"])'


@pytest.mark.parametrize(
    ("what", "code", "limit_s"),
    [("import vecsched", "import vecsched", 0.15), ("vecsched --help", HELP, 0.4)],
)
def test_imports(ledger, tmp_path, what, code, limit_s):
    child_cpu_s(code + NOTHING_HEAVY, tmp_path)  # fails if it imports numba; writes the .pyc files
    with OtherLoad() as load:
        times = [child_cpu_s(code, tmp_path)[0] for _ in range(9)]
        bare = min(child_cpu_s("", tmp_path)[0] for _ in range(9))
    ledger.note(
        f"{what}, CPU of the whole process",
        sorted(times)[4],
        Bar(limit_s, "s"),
        detail=f"of which Python itself {bare * 1e3:.0f} ms",
        spread=spread_of(times),
        other_cores=load.cores,
    )


def test_first_compilation_ever(ledger, tmp_path):
    """A dry run of the default sweep needs every kernel of the sweep, and says what it does."""
    with OtherLoad() as load:
        cold_s, told = child_cpu_s(DRY_RUN, tmp_path, VECSCHED_CACHE_DIR=str(tmp_path))
        warm_s, told_nothing = child_cpu_s(DRY_RUN, tmp_path, VECSCHED_CACHE_DIR=str(tmp_path))
    assert "compiling" in told
    assert "compiling" not in told_nothing
    ledger.note(
        "first compilation for the default sweep",
        cold_s - warm_s,
        Bar(25, "s"),
        detail=f"{cold_s:.1f} s less {warm_s:.1f} s once compiled",
        other_cores=load.cores,
    )
