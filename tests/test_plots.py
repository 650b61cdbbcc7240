"""Figures: what is drawn, where, and that files are whole and the same each time."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from sweeps.errors import StoreError
from sweeps.frontier import pareto_front
from sweeps.plots import PALETTE, frontier_plot, save_figure, words

X, Y = "goodput_requests_per_s", "slowdown_p99"


@pytest.fixture
def frame():
    # Per load: three on the frontier, one beaten, one failed. At load 2 the SLOs are missed.
    one = pd.DataFrame(
        {
            X: [1.0, 2.0, 4.0, 1.0, 9.0],
            Y: [1.0, 3.0, 100.0, 50.0, 1.0],
            "status": ["ok", "ok", "ok", "ok", "error"],
        }
    )
    loads = [one.assign(load=load, slo_attainment=share) for load, share in ((1, 1), (2, 0.5))]
    return pd.concat(loads, ignore_index=True)


def draw(frame, x=X, y=Y, by="load", maximise=(X,)):
    minimise = [name for name in (x, y) if name not in maximise]
    front = pareto_front(frame, list(maximise), minimise, by)
    return frontier_plot(frame, front, x, y, by, maximise=maximise).axes[0]


def staircases(axes):
    return [line for line in axes.get_lines() if len(line.get_xdata())]


def test_one_staircase_a_group_through_its_frontier(frame):
    lines = staircases(draw(frame))
    assert [line.get_xdata().tolist() for line in lines] == [[1, 2, 4], [1, 2, 4]]
    assert [line.get_ydata().tolist() for line in lines] == [[1, 3, 100], [1, 3, 100]]
    assert len({line.get_color() for line in lines}) == 2
    labels = [text.get_text() for text in draw(frame).texts]
    assert sorted(labels) == ["load 1", "load 2"]


def test_steps_enclose_what_can_be_had():
    # Beside (1, 1) and (2, 3), of 1.5 requests/s one can have what (2, 3) gives: the step goes up
    # first. Where less is better on both axes, 1.5 s of TTFT allow what (1, 3) gives: it goes up
    # last.
    frame = pd.DataFrame({X: [1.0, 2.0], Y: [1.0, 3.0], "ttft_p99_s": [2.0, 1.0]})
    assert staircases(draw(frame, by=None))[0].get_drawstyle() == "steps-pre"
    less = draw(frame, x="ttft_p99_s", by=None, maximise=())
    assert staircases(less)[0].get_drawstyle() == "steps-post"


def test_failed_points_are_not_drawn_and_poor_ones_are_hollow(frame):
    axes = draw(frame)
    drawn = sum(len(points.get_offsets()) for points in axes.collections)
    assert drawn == 2 * (4 + 3)  # all that did not fail, and the frontier again on top
    assert axes.get_title(loc="left") == "6 of 8 settings are on the frontier"
    assert "hollow" in axes.get_legend().get_texts()[0].get_text()
    large = [points for points in axes.collections if points.get_sizes()[0] == 34]
    best = [points for points in large if len(points.get_offsets())]
    faces = [{tuple(face[:3]) for face in points.get_facecolor()} for points in best]
    assert faces[0] != {to_rgb("white")}
    assert faces[1] == {to_rgb("white")}
    assert draw(frame[frame["load"] == 1]).get_legend() is None


def test_what_is_far_from_the_frontier_is_counted_and_not_shown():
    # The frontier is 8 to 10 wide and 1 to 2 high: the figure begins at 8 - 0.4 x 2 = 7.2, less 4 %
    # of its width of 2.8, and ends at 2 + 0.4 x 1 = 2.4 and 4 % of its height of 1.4.
    frame = pd.DataFrame({X: [8.0, 10.0, 7.5, 1.0, 9.0], Y: [1.0, 2.0, 2.0, 1.5, 20.0]})
    axes = draw(frame, by=None)
    assert axes.get_xlim() == pytest.approx((7.2 - 0.112, 10 + 0.112))
    assert axes.get_ylim() == pytest.approx((1 - 0.056, 2.4 + 0.056))
    assert axes.get_title(loc="left").splitlines()[1] == "2 lie beyond the figure"


def test_scale_follows_the_span(frame):
    axes = draw(frame)
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")  # 1 to 4, and 1 to 100
    assert draw(frame.assign(slowdown_p99=frame[Y] - 1)).get_yscale() == "linear"  # 0 is no log


def test_more_objectives_than_axes_draw_no_line():
    # (2, 2) lies above the steps from (1, 1) to (3, 3), but is on the frontier by its jain.
    frame = pd.DataFrame({X: [1, 2, 3, 2.5], Y: [1, 2, 3, 9], "jain": [0, 0, 0, 1]})
    front = pareto_front(frame, [X, "jain"], [Y])
    assert not staircases(frontier_plot(frame, front, X, Y).axes[0])


def test_names_get_colours_told_apart_by_all():
    names = [f"policy {i}" for i in range(len(PALETTE) + 1)]
    frame = pd.DataFrame({X: np.arange(len(names)), Y: 1.0, "policy": names})
    few = [line.get_color() for line in staircases(draw(frame[:-1], by="policy"))]
    assert few == list(PALETTE)
    many = {line.get_color() for line in staircases(draw(frame, by="policy"))}
    assert len(many) == len(names)


def test_an_empty_frame_is_drawn_empty(frame):
    axes = draw(frame.assign(status="error"))
    assert axes.get_title(loc="left") == "0 of 0 settings are on the frontier"


@pytest.mark.parametrize(
    ("column", "label"),
    [
        ("goodput_requests_per_s", "goodput (requests/s)"),
        ("requests_per_s_steady", "steady (requests/s)"),
        ("output_tokens_per_s", "output (tokens/s)"),
        ("requests_per_s", "throughput (requests/s)"),
        ("ttft_p99_s", "TTFT p99 (s)"),
        ("slowdown_p99", "slowdown p99 (times its latency alone)"),
        ("kv_utilization", "KV utilization"),
    ],
)
def test_labels_carry_units(column, label):
    assert words(column) == label


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_the_same_figure_gives_the_same_bytes(frame, tmp_path, ending):
    files = [
        save_figure(draw(frame).figure, tmp_path / f"{name}{ending}").read_bytes() for name in "ab"
    ]
    assert files[0] == files[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{ending}", f"b{ending}"]


def test_the_picture_is_not_blank(frame, tmp_path):
    image = imread(save_figure(draw(frame).figure, tmp_path / "front.png"))
    assert image.shape[:2] == (676, 1040)
    assert image[..., :3].min() < 0.2


def test_bad_paths(tmp_path):
    with pytest.raises(StoreError, match=r"front\.jpeg: a figure's name must end in one of \.png"):
        save_figure(Figure(), tmp_path / "front.jpeg")
    with pytest.raises(StoreError, match=r"No such file or directory"):
        save_figure(Figure(), tmp_path / "nowhere" / "front.png")
    assert not list(tmp_path.iterdir())
