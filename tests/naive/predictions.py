"""What the scheduler believes of an output's length."""

import math

from naive.policies import splitmix64


def with_predictions(records, config):
    """Copies of a trace's rows, each with a `predicted_output_tokens`."""
    error, seed = config["prediction_error"], config["prediction_seed"]
    given = [record.get("predicted_output_tokens") is not None for record in records]
    assert all(given) or not any(given), "predictions must be given in all rows or in none"
    assert error == 0 or not any(given), "predictions of the trace are not to be blurred"
    if all(given):
        return records
    return [
        {**record, "predicted_output_tokens": blurred(row, record, error, seed)}
        for row, record in enumerate(records)
    ]


def blurred(row, record, error, seed):
    """The true length times a log-normal factor; twelve uniform lots less 6 are nearly normal."""
    if error == 0:
        return record["output_tokens"]
    z = 0.0
    for lot in range(12):
        z += splitmix64(row, record, 12 * seed + lot) / 2**64
    return max(1, round(record["output_tokens"] * math.exp(error * (z - 6))))
