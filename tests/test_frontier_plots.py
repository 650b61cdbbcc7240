"""The figures beside the frontier's own: what is drawn, and the same bytes each time."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from sweeps.effects import INTERACTIONS, main_effects
from sweeps.frontier import POOR_SLO_ATTAINMENT, pareto_front
from sweeps.plots import PALETTE, save_figure
from sweeps.trade_off_plots import effects_plot, parallel_plot
from vecsched.errors import InputError

X, Y = "goodput_requests_per_s", "slowdown_p99"
FRONT = pd.DataFrame(
    {
        "policy": ["fcfs", "random", "random"],
        "kv_blocks": [np.nan, 100.0, 200.0],
        X: [1.0, 2.0, 5.0],
        Y: [1.0, 10.0, 100.0],
        "slo_attainment": [1.0, 1.0, POOR_SLO_ATTAINMENT / 2],
    }
)
GRID = pd.DataFrame(
    {
        "policy": ["a", "a", "b", "b"],
        "max_batch_size": [8, 16, 8, 16],
        X: [1, 2, 3, 4],
        Y: [1, 3, 2, 4],
    }
)


def test_effects_are_bars_in_one_order():
    figure = effects_plot(main_effects(GRID, [X, Y]))
    left, right = figure.axes
    # See test_frontier_effects: 0.8 and 0.2, which change places for the second objective.
    assert [bar.get_width() for bar in left.patches] == pytest.approx([0.8, 0.2, 0.0])
    assert [bar.get_width() for bar in right.patches] == pytest.approx([0.2, 0.8, 0.0])
    labels = [text.get_text() for text in left.get_yticklabels()]
    assert labels == ["policy", "max batch size", INTERACTIONS]
    assert [text.get_text() for text in left.texts] == ["80%", "20%", "0%"]
    assert left.get_title(loc="left") == "goodput\n(requests/s)"


def test_effects_of_what_does_not_vary():
    (axes,) = effects_plot(main_effects(GRID.assign(**{X: 1}), [X])).axes
    assert {text.get_text() for text in axes.texts} == {"-"}


def lines_of(axes):
    return [line for line in axes.get_lines() if len(line.get_xdata()) == 4]


def test_a_line_a_row_across_knobs_and_objectives():
    (axes,) = parallel_plot(FRONT).axes
    heights = np.array([line.get_ydata() for line in lines_of(axes)])
    # Levels, null the lowest; lines of one level are up to 0.025 apart.
    assert heights[:, 0] == pytest.approx([0, 1, 1], abs=0.026)
    assert heights[:, 1] == pytest.approx([0, 0.5, 1], abs=0.026)
    assert heights[1, 0] != heights[2, 0]
    assert heights[:, 2] == pytest.approx([0, 0.25, 1])  # of 1 to 5
    assert heights[:, 3] == pytest.approx([1, 0.5, 0])  # of 1 to 100 by its logarithm; less is up
    assert [line.get_linestyle() for line in lines_of(axes)] == ["-", "-", "--"]
    texts = {text.get_text() for text in axes.texts}
    assert texts == {"fcfs", "random", "none", "100", "200", "1", "5"}


def test_colours_are_of_the_group():
    (axes,) = parallel_plot(FRONT, by="policy", knobs=["policy", "kv_blocks"]).axes
    colours = [to_hex(line.get_color()).upper() for line in lines_of(axes)]
    assert colours == [PALETTE[0], PALETTE[1], PALETTE[1]]
    legend = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert legend == [
        "policy fcfs",
        "policy random",
        "dashed: SLOs met by fewer than 90% of requests",
    ]
    assert not parallel_plot(FRONT[:2]).legends


def test_what_is_infinite_breaks_the_line():
    (axes,) = parallel_plot(FRONT.assign(**{Y: [1.0, 2.0, np.inf]})).axes
    heights = [line.get_ydata()[3] for line in lines_of(axes)]
    assert heights == [1.0, 0.0, pytest.approx(np.nan, nan_ok=True)]
    (axes,) = parallel_plot(FRONT.assign(**{Y: np.inf})).axes
    assert np.isnan([line.get_ydata()[3] for line in lines_of(axes)]).all()


def test_many_levels_are_named_in_part():
    front = pd.DataFrame({"max_batch_size": range(1, 31), X: range(30), Y: range(30)})
    (axes,) = parallel_plot(front).axes
    assert len(axes.texts) == 8 + 2 + 2


def test_nothing_to_draw():
    (axes,) = parallel_plot(FRONT[:0]).axes
    assert len(axes.texts) == 0
    (axes,) = parallel_plot(FRONT[:1]).axes  # nothing varies
    assert [text.get_text() for text in axes.texts] == ["1", "1"]
    with pytest.raises(InputError, match="did you mean 'slowdown_p99'"):
        parallel_plot(FRONT, minimise=["slowdown_p9"])


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, ending):
    for draw in (
        lambda: effects_plot(main_effects(GRID, [X, Y])),
        lambda: parallel_plot(pareto_front(FRONT)),
    ):
        files = [save_figure(draw(), tmp_path / f"{name}{ending}").read_bytes() for name in "ab"]
        assert files[0] == files[1]
