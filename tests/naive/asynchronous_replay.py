"""A run of asynchronous scheduling followed through its log: tokens come a record later."""

from naive.asynchronous import SLEEP_PS
from naive.replay import Replay


class AsynchronousReplay(Replay):
    """Takes one step's record after another."""

    may_be_empty = True

    def __init__(self, requests, config, rows):
        super().__init__(requests, config, rows)
        self.sampling = []  # rows for which the step before makes a token

    def check_scheduled(self, it):
        """An empty step only waits for a token; a request whose last one comes is left in peace."""
        super().check_scheduled(it)
        for row, _ in it["scheduled"]:
            assert self.generated[row] + self.pending[row] < self.output[row], (it, row)

    def advance(self, it):
        """Book the step, then the tokens of the one before."""
        last, self.sampling = self.sampling, []
        for row, tokens in it["scheduled"]:
            self.scheduled[row] += tokens
            self.computed[row] += tokens
            if self.wanted(row) == 0:
                self.pending[row] += 1
                self.sampling.append(row)
        received = [row for row in last if row not in self.gone]
        for row in received:
            self.receive(it, row)
        return [row for row in received if self.generated[row] == self.output[row]]

    def receive(self, it, row):
        """A token, which comes at the end of the round but for its sleep."""
        instants = (it["end_ps"],) if it["scheduled"] else (it["end_ps"], it["end_ps"] - SLEEP_PS)
        self.generated[row] += 1
        if row in self.members:  # not preempted by this step
            self.pending[row] -= 1
            assert self.pending[row] >= 0, (it, row)
        if self.generated[row] == 1:
            assert self.rows[row]["first_token_ps"] in instants, (it, row)
        if self.generated[row] == self.output[row]:
            assert self.rows[row]["finished_ps"] in instants, (it, row)
