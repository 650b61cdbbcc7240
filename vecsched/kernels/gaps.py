"""Gaps between tokens (inter-token latency), pooled over all requests, without listing them.

A stretch of k iterations with n steady decodes holds n gaps of each of k durations that grow by the
same step. Order statistics are found by histograms over ever narrower ranges.
"""

from typing import NamedTuple

import numpy as np

from vecsched._jit import entry_point, kernel
from vecsched.kernels.record import (
    FIRST_PS,
    GAP_PS,
    ITERATIONS,
    STEADY_DECODES,
    STEP_PS,
)

GAP_BUCKETS = 4096


class Run(NamedTuple):
    """Gaps of `lengths` lengths from `shortest_ps` by steps of `growth_ps`, `weight` of each."""

    shortest_ps: int
    growth_ps: int
    lengths: int
    weight: int


class GapScratch(NamedTuple):
    """Work arrays: runs (lines + lone gaps, 4) twice, and two histograms of GAP_BUCKETS."""

    candidates: np.ndarray
    kept: np.ndarray
    coarse: np.ndarray
    fine: np.ndarray


@entry_point
def select_gaps(lines, lone_gaps, chosen, bounds_ps, scratch):
    """Replace each rank in `chosen` by the gap that would stand there if all were sorted.

    Args:
        lines: of a record.
        lone_gaps: of a record.
        chosen: int64 (k,), ranks from 0, ascending; picoseconds afterwards.
        bounds_ps: (shortest, longest) gap there is.
        scratch: work arrays.
    """
    low, high = bounds_ps
    shift = shift_for(high - low)
    coarse = scratch.coarse
    coarse[:] = 0
    for line in lines:
        if line[STEADY_DECODES] > 0:
            spread(run_of(line), low, high, shift, coarse)
    for gap in lone_gaps:
        spread(Run(gap[1], 0, 1, gap[2]), low, high, shift, coarse)
    bucket, below, gathered, candidates = 0, 0, -1, 0
    for place in range(len(chosen)):
        while below + coarse[bucket] <= chosen[place]:
            below += coarse[bucket]
            bucket += 1
        start = low + (bucket << shift)
        end = min(high, start + (1 << shift) - 1)
        if bucket != gathered:
            candidates = gather(lines, lone_gaps, start, end, scratch.candidates)
            gathered = bucket
        chosen[place] = refine(candidates, chosen[place] - below, start, end, scratch)


@kernel
def run_of(line):
    """The gaps of a line."""
    return Run(line[FIRST_PS], line[STEP_PS], line[ITERATIONS], line[STEADY_DECODES])


@kernel
def gather(lines, lone_gaps, low, high, candidates):
    """Copy the runs that have gaps in low..high; returns how many."""
    count = 0
    for line in lines:
        if line[STEADY_DECODES] > 0:
            count = keep(run_of(line), low, high, candidates, count)
    for gap in lone_gaps:
        count = keep(Run(gap[1], 0, 1, gap[2]), low, high, candidates, count)
    return count


@kernel
def keep(run, low, high, runs, count):
    """Append a run to `runs` if it reaches into low..high; returns the new count."""
    longest = run.shortest_ps + (run.lengths - 1) * run.growth_ps
    if run.shortest_ps > high or longest < low:
        return count
    kept = runs[count]
    kept[0], kept[1], kept[2], kept[3] = run.shortest_ps, run.growth_ps, run.lengths, run.weight
    return count + 1


@kernel
def refine(candidates, rank, low, high, scratch):
    """The gap at `rank` among those of the candidates in low..high, by ever finer histograms."""
    source, count = scratch.candidates, candidates
    while True:
        shift = shift_for(high - low)
        fine = scratch.fine
        fine[:] = 0
        for place in range(count):
            run = source[place]
            spread(Run(run[0], run[1], run[2], run[3]), low, high, shift, fine)
        bucket = 0
        while fine[bucket] <= rank:
            rank -= fine[bucket]
            bucket += 1
        low += bucket << shift
        if shift == 0:
            return low
        high = min(high, low + (1 << shift) - 1)
        kept = 0
        for place in range(count):
            run = source[place]
            kept = keep(Run(run[0], run[1], run[2], run[3]), low, high, scratch.kept, kept)
        source, count = scratch.kept, kept


@kernel
def shift_for(width):
    """The least shift that brings `width` into the histogram."""
    shift = 0
    while width >> shift >= GAP_BUCKETS:
        shift += 1
    return shift


@kernel
def spread(run, low, high, shift, histogram):
    """Count the gaps of a run that lie in low..high by bucket."""
    longest = run.shortest_ps + (run.lengths - 1) * run.growth_ps
    begin, end = (run.shortest_ps - low) >> shift, (longest - low) >> shift
    if begin == end and run.shortest_ps >= low and longest <= high:
        # Nearly all runs lie in one bucket.
        histogram[begin] += run.lengths * run.weight
        return
    first, last = index_range(run, low, high)
    while first <= last:
        bucket = (run.shortest_ps + first * run.growth_ps - low) >> shift
        stop = last
        if run.growth_ps > 0:
            room = low + ((bucket + 1) << shift) - 1 - run.shortest_ps
            # Most runs end in the bucket in which they begin: no division for those.
            if room < last * run.growth_ps:
                stop = room // run.growth_ps
        histogram[bucket] += (stop - first + 1) * run.weight
        first = stop + 1


@kernel
def index_range(run, low, high):
    """First and last index of the gaps of a run that lie in low..high."""
    last = run.lengths - 1
    longest = run.shortest_ps + last * run.growth_ps
    if run.shortest_ps > high or longest < low:
        return 0, -1
    first = 0
    if run.shortest_ps < low:
        first = (low - run.shortest_ps + run.growth_ps - 1) // run.growth_ps
    if longest > high:
        last = (high - run.shortest_ps) // run.growth_ps
    return first, last


@entry_point
def longest_gaps(lines, periods, stack, longest_ps):
    """Raise `longest_ps` to the longest gap that each request saw while it decoded steadily.

    Args:
        lines: of a record.
        periods: of a record, in order of their last line.
        stack: int64 (lines, 2), overwritten: lines with ever smaller gaps.
        longest_ps: int64 (n,), by row.
    """
    depth, line = 0, 0
    for period in periods:
        row, first_line, last_line = period
        while line <= last_line:
            while depth > 0 and stack[depth - 1, 1] <= lines[line, GAP_PS]:
                depth -= 1
            stack[depth, 0], stack[depth, 1] = line, lines[line, GAP_PS]
            depth += 1
            line += 1
        low, high = 0, depth - 1
        while low < high:
            middle = (low + high) // 2
            if stack[middle, 0] < first_line:
                low = middle + 1
            else:
                high = middle
        longest_ps[row] = max(longest_ps[row], stack[low, 1])
