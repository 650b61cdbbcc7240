"""Records that are used again."""

import threading
import weakref
from collections import defaultdict

from vecsched.kernels.record import Record, empty_record


class RecordPool:
    """Records to be used again: fresh memory for each run would cost more than writing to it."""

    def __init__(self) -> None:
        self._free: defaultdict[tuple[int, int, bool], list[Record]] = defaultdict(list)
        self._lock = threading.Lock()

    def borrow(self, capacity: int, slots: int, logging: bool) -> Record:
        """Return an empty record."""
        # Rounded up, so that configurations with a few more slots share records.
        slots = 1 << (slots - 1).bit_length()
        with self._lock:
            free = self._free[capacity, slots, logging]
            record = free.pop() if free else None
        record = record or empty_record(capacity, slots, logging)
        record.written[:] = 0
        return record

    def give_back(self, record: Record) -> None:
        """Take a record that nobody reads any more."""
        with self._lock:
            slots = (record.slack - 16) // 4
            self._free[len(record.lines), slots, record.logging].append(
                record._replace(moves=record.moves[:0])
            )

    def give_back_with(self, owner: object, record: Record) -> None:
        """Take the record back when `owner` is gone."""
        weakref.finalize(owner, self.give_back, record).atexit = False
