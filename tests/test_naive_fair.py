"""The oracle's fair queueing, its predictions and the tenants' metrics, worked by hand.

Whole prompts, one slot and one second an iteration, unless a test says otherwise: a request of
output o runs for o seconds, then the next one is admitted. Its prompt is charged when it is
admitted, and 2 at the end of each second.
"""

import math
import statistics

import naive
import pytest
from naive.examples import UNIT_COST, request, small_config
from naive.predictions import with_predictions
from naive.stats import quantile


def run(requests, **changes):
    bounds = {"max_batch_size": 1, "max_num_batched_tokens": 200}
    config = small_config(**{"discipline": "orca", **bounds, **changes})
    result = naive.simulate(requests, config, UNIT_COST)
    naive.check_invariants(requests, config, result)
    return result


def names(requests, **changes):
    """Requests in order of admission, as "a0 b0 a1": the tenant and which of its requests."""
    seen, name = {}, []
    for record in requests:
        seen[record["tenant"]] = seen.get(record["tenant"], -1) + 1
        name.append(f"{record['tenant']}{seen[record['tenant']]}")
    admitted = [row for it in run(requests, **changes)["iterations"] for row in it["admitted"]]
    return " ".join(name[row] for row in admitted)


def some(tenant, count, arrival_s, prompt, output, **more):
    return [request(arrival_s, prompt, output, tenant=tenant, **more) for _ in range(count)]


# VTC: the least counter, of equals the first tenant.


def test_vtc_serves_the_tenant_served_least():
    # a 0, b 0: a0. a 12: b0. b 6: b1. b 12, a 12: a1. a 24: b2.
    requests = some("a", 2, 0, 10, 1) + some("b", 3, 0, 4, 1)
    assert names(requests, policy="vtc") == "a0 b0 b1 a1 b2"
    assert names(requests, policy="fcfs") == "a0 a1 b0 b1 b2"


def test_vtc_charges_prompts_at_once_and_outputs_as_they_come():
    # Two slots. At 0: a0 (a 3), so b0 next (b 4). At 1: a 5, b 6, one slot: a1 (a 6). At 2: a0 and
    # a1 made a token each, a 10: b1, though nothing of a but a1 has ended.
    requests = some("a", 1, 0, 3, 9) + some("a", 2, 0, 1, 1) + some("b", 2, 0, 4, 1)
    assert names(requests, policy="vtc", max_batch_size=2) == "a0 b0 a1 b1 a2"


def test_vtc_divides_by_weights():
    # A request costs a 12 and b 6. a0 (12), b0 (6), b1 (12), of equals a1 (24), b2, b3 (24), a2.
    requests = some("a", 3, 0, 10, 1) + some("b", 4, 0, 10, 1)
    assert names(requests, policy="vtc", tenant_weights="b=2") == "a0 b0 b1 a1 b2 b3 a2"
    # Now a pays 24 a request, b 12: the same order of b0, b1 and a1.
    halved = "a=0.5, nobody=7"
    assert names(requests, policy="vtc", tenant_weights=halved) == "a0 b0 b1 a1 b2 b3 a2"


def test_vtc_lifts_a_newcomer_to_those_who_wait():
    # b joins at 3, when a has 36 and waits: b 36. a3 (48), b0 (48), a4 (60), b1. From 0 b would
    # have been served three times in a row.
    requests = some("a", 5, 0, 10, 1) + some("b", 3, 2.5, 10, 1)
    assert names(requests, policy="vtc") == "a0 a1 a2 a3 b0 a4 b1 b2"


def test_vtc_lifts_to_the_tenant_admitted_last_if_nobody_waits():
    # b is the first tenant. At 1 it has 102, the token of that instant included, and nobody waits:
    # a is lifted to 102, and b1, which joins with it, wins the tie. From 0 or 100, a0 would win.
    requests = some("b", 1, 0, 100, 1) + some("a", 2, 0.5, 1, 1) + some("b", 1, 0.5, 1, 1)
    assert names(requests, policy="vtc") == "b0 b1 a0 a1"
    # It follows the last admission even if a fourth tenant was served more. At 2, when d comes, b
    # has 102 and c, admitted last, has 12: d 12. c1 at 2.5 finds d waiting.
    requests = some("b", 1, 0, 100, 1) + some("c", 1, 0, 10, 1)
    requests += some("d", 1, 1.5, 1, 1) + some("b", 1, 1.5, 1, 1)
    assert names(requests, policy="vtc") == "b0 c0 d0 b1"


def test_vtc_lowers_nobody():
    # b has 102 when it returns at 3, a waits with 6.
    requests = some("a", 5, 0, 1, 1) + some("b", 1, 0, 100, 1) + some("b", 1, 2.5, 1, 1)
    assert names(requests, policy="vtc") == "a0 b0 a1 a2 a3 a4 b1"


def test_the_overdue_stand_ahead_of_all():
    # From 2 on all have waited so long; arrival order, ties by row.
    requests = some("a", 3, 0, 10, 1) + some("b", 3, 0, 4, 1)
    assert names(requests, policy="vtc", max_wait_s=2.0) == "a0 b0 a1 a2 b1 b2"


# DRR: turns, credit, debt.


@pytest.mark.parametrize(
    ("quantum", "order"),
    [
        # a -12, a0 and its token: 0. b the same, a again: one each.
        (12, "a0 b0 a1 b1 a2 b2 a3 b3"),
        # -24, after a0 -12, after a1 0: two each.
        (24, "a0 a1 b0 b1 a2 a3 b2 b3"),
        # -13, after a0 -1, which is credit, after a1 11. b the same. Then 11 - 13 = -2: a2, 10.
        (13, "a0 a1 b0 b1 a2 b2 a3 b3"),
        (2000, "a0 a1 a2 a3 b0 b1 b2 b3"),
    ],
)
def test_drr_takes_turns(quantum, order):
    requests = some("a", 4, 0, 10, 1) + some("b", 4, 0, 10, 1)
    assert names(requests, policy=f"drr({quantum})") == order
    if quantum == 2000:
        assert names(requests, policy="drr") == order


def test_drr_goes_round_until_somebody_has_credit():
    # a0 leaves a at 11, b0 leaves b at 3. From b on: a 10, b 2, a 9, b 1, a 8, b 0, a 7, b -1: b1.
    # b 3 again: four rounds more, a 3: b2. Then a 2, b 2, a 1, b 1, a 0, b 0, a -1: a1.
    requests = some("a", 2, 0, 10, 1) + some("b", 4, 0, 2, 1)
    assert names(requests, policy="drr(1)") == "a0 b0 b1 b2 a1 b3"


def test_drr_takes_the_credit_of_whoever_stops_waiting():
    # a -100 + 10, but with a0 the queue is empty: 0, and 2 with its token. At 1 a has no credit.
    requests = some("a", 1, 0, 10, 1) + some("a", 1, 0.5, 10, 1) + some("b", 1, 0.5, 10, 1)
    assert names(requests, policy="drr(100)") == "a0 b0 a1"
    # If one more of a waits from the start, a keeps it: -88 at 1 and -76 at 2.
    assert names(some("a", 1, 0, 10, 1) + requests, policy="drr(100)") == "a0 a1 a2 b0"
    # a1 is cancelled at 1, and a's credit of 88 is lost. At 2 a has 2, and b comes first.
    requests = some("a", 1, 0, 10, 2) + some("a", 1, 0, 10, 1, cancel_at_s=0.5)
    requests += some("a", 1, 1.5, 10, 1) + some("b", 1, 1.5, 10, 1)
    assert names(requests, policy="drr(100)") == "a0 b0 a2"


# WFQ: finish tags.


def test_wfq_serves_the_least_finish_tag():
    # Tags: a 12, 24, 36; b 6, 12. b0, of equals a0, b1: virtual time 12. At 3, b2 gets 12 + 6 = 18
    # and goes before a1. At 4, c0 gets 18 + 6 = 24: after a1, its equal, and before a2.
    requests = some("a", 3, 0, 10, 1) + some("b", 2, 0, 4, 1)
    requests += some("b", 1, 2.5, 4, 1) + some("c", 1, 3.5, 4, 1)
    assert names(requests, policy="wfq") == "b0 a0 b1 b2 a1 c0 a2"
    # With weight 2 a's are 6, 12, 18. b2 gets 18 again, and c0 at 4, behind a1 and b1, 12 + 6 = 18.
    assert names(requests, policy="wfq", tenant_weights="a=2") == "a0 b0 a1 b1 a2 b2 c0"


def test_wfq_believes_the_prediction():
    # Tags 10 + 2 x 4 = 18 and 10 + 2 x 1 = 12; the truth would be 12 and 30.
    requests = some("a", 1, 0, 10, 1, predicted_output_tokens=4)
    requests += some("b", 1, 0, 10, 10, predicted_output_tokens=1)
    assert names(requests, policy="wfq") == names(requests, policy="shortest_output") == "b0 a0"


# Predictions.


def test_predictions_are_blurred_log_normally():
    records = [request(0, 1, 10**6)] * 2000

    def predictions(error, seed):
        config = {"prediction_error": error, "prediction_seed": seed}
        return [r["predicted_output_tokens"] for r in with_predictions(records, config)]

    assert predictions(0.0, 7) == [10**6] * 2000
    assert predictions(0.5, 7) != predictions(0.5, 8)
    z = [math.log(tokens / 10**6) / 0.5 for tokens in predictions(0.5, 7)]
    # Of 2000 lots the mean is uncertain by 0.022 and the spread by 0.016: four times that.
    assert abs(statistics.mean(z)) < 0.09
    assert abs(statistics.stdev(z) - 1) < 0.065
    # At least one token, however small the factor.
    tiny = with_predictions(
        [request(0, 1, 1)] * 100, {"prediction_error": 5.0, "prediction_seed": 0}
    )
    assert min(record["predicted_output_tokens"] for record in tiny) == 1


# Metrics.


def test_tenants_metrics():
    # vtc: a0 b0 b1 a1 b2 a2. Received by the end of each second: a 12 12 12 24 24 36,
    # b 0 6 12 12 18 18. Both wait in the first four seconds, only a in the fifth.
    requests = some("a", 3, 0, 10, 1) + some("b", 3, 0, 4, 1)
    summary = run(requests, policy="vtc")["summary"]
    assert summary["tenants"] == 2
    # Differences 12 6 0 12 6 18: sum 54, of squares 684.
    assert summary["service_difference_max"] == 18
    assert summary["service_difference_mean"] == 54 / 6
    assert summary["service_difference_variance"] == 684 / 6 - 9 * 9
    assert summary["backlogged_service_difference_max"] == 12
    a, b = 24 / 5, 12 / 4
    assert summary["jain_tenant_service"] == (a + b) * (a + b) / (2 * (a * a + b * b))
    assert summary["ttft_p99_worst_tenant_s"] == quantile([1.0, 4.0, 6.0], 0.99)
    assert summary["ttft_p99_best_tenant_s"] == quantile([2.0, 3.0, 5.0], 0.99)


def test_weights_divide_rates_and_differences_while_backlogged():
    # fcfs: a 12 24 36 36 36 36, b 0 0 0 6 12 18; both wait for two seconds, b alone for three more.
    requests = some("a", 3, 0, 10, 1) + some("b", 3, 0, 4, 1)
    summary = run(requests, tenant_weights="a=2")["summary"]
    assert summary["service_difference_max"] == 36
    assert summary["backlogged_service_difference_max"] == 24 / 2
    a, b = 24 / 2 / 2, 12 / 5
    assert summary["jain_tenant_service"] == (a + b) * (a + b) / (2 * (a * a + b * b))


def test_a_difference_while_backlogged_starts_anew_in_each_row():
    # a0 a1 b0 b1, twice; both wait only while a0 runs.
    burst = [*some("a", 2, 0, 10, 1), *some("b", 2, 0, 4, 1)]
    later = [{**record, "arrival_s": 10.0} for record in burst]
    summary = run(burst + later)["summary"]
    assert summary["backlogged_service_difference_max"] == 12
    assert summary["service_difference_max"] == 2 * 24 - 12


@pytest.mark.parametrize("labels", [{}, {"tenant": None}, {"tenant": "a"}])
def test_one_tenant_has_no_metrics(labels):
    summary = run([request(0, 4, 2, **labels)] * 3, policy="vtc")["summary"]
    assert summary["tenants"] == 1
    for name in naive.tenant_metrics.NAMES:
        assert math.isnan(summary[name])


@pytest.mark.parametrize("name", naive.tenant_metrics.NAMES)
def test_a_metric_sees_who_is_favoured(name):
    # a floods the queue ahead of b; fcfs serves all of a first, vtc takes turns.
    requests = some("a", 20, 0, 10, 1) + some("b", 4, 0, 10, 1)
    unfair = run(requests, policy="fcfs")["summary"][name]
    fair = run(requests, policy="vtc")["summary"][name]
    assert unfair < fair if name == "jain_tenant_service" else unfair > fair
