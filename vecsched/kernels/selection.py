"""Exact order statistics by histograms, several times faster than sorting.

Keys are whole numbers >= 0; floats >= 0 are passed as their bit patterns, which order alike.
"""

from vecsched._jit import entry_point, kernel

BUCKETS = 4096


@entry_point
def select(keys, chosen, scratch, histogram):
    """Replace each rank in `chosen` by the key that would stand there if all were sorted.

    Args:
        keys: int64 (n,), n >= 1; not modified.
        chosen: int64 (k,), ranks from 0, ascending; keys afterwards.
        scratch: int64, at least (n,), overwritten.
        histogram: int64 (BUCKETS,), overwritten.
    """
    low, shift = fill_histogram(keys, histogram)
    # Give every bucket that holds a rank a piece of `scratch`; the others are passed over.
    below, used = 0, 0
    place = 0
    for bucket in range(BUCKETS):
        size = histogram[bucket]
        histogram[bucket] = -1
        if place < len(chosen) and chosen[place] < below + size:
            histogram[bucket] = used
            while place < len(chosen) and chosen[place] < below + size:
                # For now: where in `scratch` the key will stand once its piece is sorted.
                chosen[place] = used + chosen[place] - below
                place += 1
            used += size
        below += size
    for key in keys:
        bucket = (key - low) >> shift
        if histogram[bucket] >= 0:
            scratch[histogram[bucket]] = key
            histogram[bucket] += 1
    start = 0
    for bucket in range(BUCKETS):
        end = histogram[bucket]
        if end >= 0:
            for place in range(len(chosen)):
                if start <= chosen[place] < end:
                    nth(scratch, start, end, chosen[place])
            start = end
    for place in range(len(chosen)):
        chosen[place] = scratch[chosen[place]]


@entry_point
def sort(keys, ascending, histogram):
    """Fill `ascending` with `keys` in order: scattered into buckets, then sorted in each."""
    low, shift = fill_histogram(keys, histogram)
    start = 0
    for bucket in range(BUCKETS):
        size = histogram[bucket]
        histogram[bucket] = start
        start += size
    for key in keys:
        bucket = (key - low) >> shift
        ascending[histogram[bucket]] = key
        histogram[bucket] += 1
    start = 0
    for bucket in range(BUCKETS):
        if histogram[bucket] - start > 1 and shift > 0:
            sort_range(ascending, start, histogram[bucket])
        start = histogram[bucket]


@kernel
def fill_histogram(keys, histogram):
    """Count keys in buckets of equal width, a power of two; returns (least key, shift)."""
    low, high = keys[0], keys[0]
    for key in keys:
        low = min(low, key)
        high = max(high, key)
    shift = 0
    while (high - low) >> shift >= BUCKETS:
        shift += 1
    histogram[:] = 0
    for key in keys:
        histogram[(key - low) >> shift] += 1
    return low, shift


@kernel
def nth(keys, start, end, place):
    """Rearrange keys[start:end] so that `place` holds what it would if sorted (quickselect)."""
    end -= 1
    while start < end:
        pivot = median_of_three(keys[start], keys[(start + end) // 2], keys[end])
        left, right = start, end
        while left <= right:
            while keys[left] < pivot:
                left += 1
            while keys[right] > pivot:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                left += 1
                right -= 1
        if place <= right:
            end = right
        elif place >= left:
            start = left
        else:
            return


@kernel
def median_of_three(a, b, c):
    """The middle one."""
    return max(min(a, b), min(max(a, b), c))


@kernel
def sort_range(keys, start, end):
    """Sort keys[start:end]: insertion, or heap sort where it is long, so that no input is slow."""
    if end - start > 64:
        heap_sort(keys, start, end)
        return
    for unsorted in range(start + 1, end):
        place = unsorted
        key = keys[place]
        while place > start and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key


@kernel
def heap_sort(keys, start, end):
    """Sort keys[start:end] in place."""
    size = end - start
    for root in range(size // 2 - 1, -1, -1):
        sift_down(keys, start, root, size)
    for last in range(size - 1, 0, -1):
        keys[start], keys[start + last] = keys[start + last], keys[start]
        sift_down(keys, start, 0, last)


@kernel
def sift_down(keys, start, root, size):
    """Let keys[start + root] sink in the heap of `size` keys that begins at `start`."""
    key = keys[start + root]
    while 2 * root + 1 < size:
        child = 2 * root + 1
        if child + 1 < size and keys[start + child + 1] > keys[start + child]:
            child += 1
        if keys[start + child] <= key:
            break
        keys[start + root] = keys[start + child]
        root = child
    keys[start + root] = key
