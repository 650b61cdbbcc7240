"""What a report says in words, against hand-worked frontiers."""

from types import SimpleNamespace

import pandas as pd
import pytest

from sweeps.frontier import pareto_front
from sweeps.knobs import SEED
from sweeps.report.cautions import blind_spot
from sweeps.report.question import Question
from sweeps.report.telling import bend, change, headline, trade_off, turn_text, who_pays
from sweeps.report.trades import trades_of, widest_turn, width

KNOBS = ["policy", "max_batch_size", "max_wait_s"]
QUESTION = Question(("goodput_requests_per_s",), ("ttft_p99_s",), "load")
# From the fairer end to the other: first come, 60 s at most, shortest first.
ROWS = {
    "policy": ["fcfs", "shortest_prompt", "shortest_prompt"],
    "max_batch_size": [64, 64, 64],
    "max_wait_s": [None, 60.0, None],
    "goodput_requests_per_s": [4.0, 5.8, 6.0],
    "ttft_p99_s": [2.0, 6.0, 20.0],
    "itl_p99_s": [0.1, 0.1, 0.1],
    "slo_attainment": [0.65, 0.95, 0.98],
}


def frame(rows=None, **changes):
    table = pd.DataFrame((rows or ROWS) | changes).assign(load=1.5, status="ok")
    return table.assign(point=table.index)


def trade_of(points, question=QUESTION):
    front = pareto_front(points, question.maximise, question.minimise, question.by)
    return trades_of(points, front, question)[0]


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (4.0, 6.0, "50\xa0% more TTFT p99"),
        (4.0, 3.0, "25\xa0% less TTFT p99"),
        (2.0, 20.0, "10 times the TTFT p99"),
        (14.9, 637.0, "43 times the TTFT p99"),
        (4.0, 4.0, "0\xa0% more TTFT p99"),
        (0.0, 3.0, "TTFT p99 3 s in place of 0 s"),
        (float("inf"), 3.0, "TTFT p99 3 s in place of inf s"),
    ],
)
def test_a_change_in_words(start, end, text):
    assert change("ttft_p99_s", start, end) == text


def test_the_headline_says_what_is_had_for_what_and_by_which_knob():
    # From 4 to 6 requests/s, from 2 to 20 s.
    assert headline(trade_of(frame()), QUESTION, KNOBS) == (
        "At load 1.5, 50\xa0% more goodput for 10 times the TTFT p99, "
        "by policy shortest_prompt in place of fcfs"
    )


def test_the_ends_the_knee_and_who_pays():
    trade = trade_of(frame())
    assert trade_off(trade, QUESTION, KNOBS) == (
        "At load 1.5, the most goodput is 6 requests/s, with policy shortest_prompt; TTFT p99 is "
        "then 20 s. The least TTFT p99 is 2 s, with policy fcfs; goodput is then 4 requests/s, "
        "and 65\xa0% of the requests meet the objectives. "
        "Both have max batch size 64 and no max wait."
    )
    assert who_pays(trade, QUESTION) == (
        "At load 1.5, from the best TTFT p99 to the best goodput: ITL p99 from 0.1 s to 0.1 s "
        "and SLO attainment from 65\xa0% to 98\xa0%."
    )
    # 5.8 is 3.3 % below 6, and 6 s is 70 % below 20 s.
    assert bend(trade, QUESTION, KNOBS) == (
        "At load 1.5, the frontier bends at 5.8 requests/s of goodput and TTFT p99 6 s, with max "
        "wait 60 s. Compared with the most goodput: 3\xa0% less goodput for 70\xa0% less TTFT p99."
    )


def test_one_setting_that_is_best_in_both():
    trade = trade_of(frame()[:1])
    assert headline(trade, QUESTION, KNOBS) == (
        "At load 1.5, one setting has both the most goodput and the least TTFT p99"
    )
    assert who_pays(trade, QUESTION) == bend(trade, QUESTION, KNOBS) == ""
    assert widest_turn(trade, QUESTION, KNOBS) is None


def test_the_one_knob_that_trades_most():
    trade = trade_of(frame())
    turn = widest_turn(trade, QUESTION, KNOBS)
    # policy alone: |ln 6/4| x |ln 20/2| = 0.93; max_wait_s alone: |ln 6/5.8| x |ln 20/6| = 0.04.
    assert (turn.knob, turn.most.name, turn.fair.name) == ("policy", 2, 0)
    assert turn_text(turn, trade, QUESTION, KNOBS).startswith(
        "At load 1.5, policy shortest_prompt in place of fcfs, all else equal, is 50\xa0% more "
    )


def test_a_seed_is_no_knob_and_must_be_equal():
    knobs = [SEED, *KNOBS]
    assert widest_turn(trade_of(frame(seed=[1, 1, 2])), QUESTION, knobs) is None
    turn = widest_turn(trade_of(frame(seed=[1, 2, 1])), QUESTION, knobs)
    assert (turn.most.name, turn.fair.name) == (2, 0)
    assert "different seeds" in trade_off(trade_of(frame(seed=[1, 2, 2])), QUESTION, KNOBS)


def test_more_of_what_serves_nobody_well_is_no_gain():
    assert widest_turn(trade_of(frame(slo_attainment=[0.1, 0.2, 0.3])), QUESTION, KNOBS) is None


def test_the_widest_trade_is_wide_in_both_objectives_and_serves_somebody():
    long = frame(goodput_requests_per_s=[5.99, 5.995, 6.0], ttft_p99_s=[0.1, 1.0, 90.0])
    assert width(trade_of(long), QUESTION) < width(trade_of(frame()), QUESTION)
    misery = frame(slo_attainment=[0.01, 0.5, 0.98])
    assert width(trade_of(misery), QUESTION) < width(trade_of(frame()), QUESTION)


def test_a_metric_that_the_objectives_do_not_see():
    # The fourth is dominated, keeps 5.7 / 5.8 of the goodput at 8 in place of 6 s, and its
    # iterations are not held up.
    rows = {name: [*values, values[1]] for name, values in ROWS.items()} | {
        "policy": ["fcfs", "shortest_prompt", "shortest_prompt", "aging(30)"],
        "goodput_requests_per_s": [4.0, 5.8, 6.0, 5.7],
        "ttft_p99_s": [2.0, 6.0, 20.0, 8.0],
        "itl_p99_s": [0.1, 1.2, 1.1, 0.1],
    }
    points = frame(rows)
    assert blind_spot(points, trade_of(points), QUESTION, KNOBS) == (
        "Goodput and TTFT p99 do not see ITL p99. At load 1.5, point 1 of the frontier (policy "
        "shortest_prompt) has 1.2 s; point 3 (policy aging(30)) has 0.1 s, and 5.7 requests/s "
        "of goodput and TTFT p99 8 s in place of 5.8 requests/s and 6 s. If that matters to you, "
        "add --min itl_p99_s."
    )
    asked = Question(("goodput_requests_per_s",), ("ttft_p99_s", "itl_p99_s"), "load")
    assert blind_spot(points, trade_of(points, asked), asked, KNOBS) == ""
    assert blind_spot(frame(), trade_of(frame()), QUESTION, KNOBS) == ""


def test_a_bend_elsewhere_is_not_told():
    trade = trade_of(frame())
    knee = pd.Series({"goodput_requests_per_s": 5.0, "ttft_p99_s": 90.0}, name=7)
    elsewhere = SimpleNamespace(**trade._asdict() | {"knee": knee})
    assert bend(elsewhere, QUESTION, KNOBS) == ""
