"""RequestTable: records in, columns, records out; and what it does not accept."""

import numpy as np
import pytest

from vecsched import RequestTable
from vecsched.errors import InputError

GOOD = {
    "id": "r1",
    "phase": "prefill",
    "remaining_prefill_tokens": 5,
    "remaining_decode_tokens": 2,
    "kv_blocks": 3,
    "status": "waiting",
}


def test_records_come_back_as_they_were():
    records = [
        GOOD,
        # Any identifier, a phase this scheduler does not know, a count that overshot.
        {**GOOD, "id": ("a", 1), "phase": "verify", "remaining_decode_tokens": -1},
        {**GOOD, "id": None, "phase": "decode", "status": "timed_out"},
    ]
    table = RequestTable.from_records(records)
    assert len(table) == 3
    assert table.to_records() == records
    assert table.phase.tolist() == [0, 2, 1]
    assert table.kv_blocks.dtype == np.int64
    assert all(type(row["kv_blocks"]) is int for row in table.to_records())
    scheduled = [{**row, "scheduled_tokens": 4} for row in records]
    assert RequestTable.from_records(scheduled).to_records() == scheduled
    assert RequestTable.from_records([]).to_records() == []


def test_tables_are_taken_apart_and_joined():
    verify, repair = {**GOOD, "phase": "verify"}, {**GOOD, "phase": "repair"}
    one, other = RequestTable.from_records([GOOD, verify]), RequestTable.from_records([repair])
    assert one.followed_by(other).to_records() == [GOOD, verify, repair]
    part = one.take(np.array([False, True]))
    assert part.to_records() == [verify]
    part.kv_blocks[0] = 99  # a copy
    assert one.to_records() == [GOOD, verify]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_blocks": 1.5}, "RequestTable, row 1, field 'kv_blocks': 1.5: must be a whole number"),
        ({"kv_blocks": True}, "row 1, field 'kv_blocks': True: must be a whole number"),
        ({"remaining_decode_tokens": None}, "field 'remaining_decode_tokens': None: must be"),
        ({"remaining_prefill_tokens": "5"}, "field 'remaining_prefill_tokens': '5': must be"),
        ({"status": "canceled"}, "'status': 'canceled': unknown status; .* 'cancelled'"),
        ({"kv_block": 1}, "row 1, field 'kv_block': unknown key; did you mean 'kv_blocks'"),
        # In every row or in none.
        ({"scheduled_tokens": 1}, "row 1, field 'scheduled_tokens': unknown key"),
    ],
)
def test_bad_records_are_named(change, message):
    with pytest.raises(InputError, match=message):
        RequestTable.from_records([GOOD, {**GOOD, **change}])


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_key_is_named(name):
    broken = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(InputError, match=f"row 1, field '{name}': the key is missing"):
        RequestTable.from_records([GOOD, broken])


def test_columns_of_one_length():
    table = RequestTable.from_records([GOOD, GOOD])
    columns = {name: getattr(table, name) for name in GOOD}
    with pytest.raises(InputError, match="columns differ in length"):
        RequestTable(**columns | {"kv_blocks": np.array([1])})
