"""Prompts that begin alike: system prompts that many requests share, and conversations that grow.

A request is a turn of a conversation. Its prompt is the conversation's system prompt, all that was
said before (prompts and outputs), and the new tokens that the workload draws for it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeps.workloads.lengths import LENGTHS, LengthDistribution
from sweeps.workloads.parameters import check_positive, check_whole, choose
from vecsched.errors import ConfigError
from vecsched.ragged import Ragged, places_in_rows

# A prefix id in 64 bits: whose it is (a tenant, and in it a system prompt or a conversation), and
# which of its blocks. So the ids of a longer trace begin with those of the shorter one.
BLOCK_BITS, OWNER_BITS, TENANT_BITS = 24, 28, 11


@dataclass(frozen=True, kw_only=True)
class Conversations:
    """How requests share the beginnings of their prompts.

    Attributes:
        system_tokens: lengths of the system prompts; a distribution, or a mapping that names one.
        system_prompts: how many there are.
        popularity: a new conversation has the n-th of them with a probability proportional to
            n^-popularity (Zipf's law); 0: all alike.
        open: conversations at any time. A request belongs to one of them, all equally likely.
        turns: mean number of requests in one. After each it ends with a chance of 1 / turns, and
            another takes its place.
        max_prompt_tokens: where a prompt would become longer, a conversation begins anew; None:
            prompts grow without bound.
        block_tokens: tokens that a prefix id of the trace stands for.

    Raises:
        ConfigError: naming the field, the value and what would be right.
    """

    system_tokens: LengthDistribution
    system_prompts: int = 1
    popularity: float = 1.0
    open: int = 1
    turns: float = 1.0
    max_prompt_tokens: int | None = None
    block_tokens: int = 16

    def __post_init__(self) -> None:
        lengths: Any = choose(LENGTHS, self.system_tokens, "distribution", "system_tokens")
        object.__setattr__(self, "system_tokens", lengths)
        for name in ("system_prompts", "open", "block_tokens"):
            check_whole(name, getattr(self, name), least=1)
        if self.max_prompt_tokens is not None:
            check_whole("max_prompt_tokens", self.max_prompt_tokens, least=1)
        check_positive("popularity", self.popularity, or_zero=True)
        check_positive("turns", self.turns)
        if self.turns < 1:
            raise ConfigError(f"turns must be a number >= 1, not {self.turns!r}")

    def prompts(
        self,
        new: np.ndarray,
        outputs: np.ndarray,
        rngs: tuple[np.random.Generator, ...],
        tenant: int,
    ) -> tuple[np.ndarray, Ragged]:
        """Make requests turns of conversations.

        Args:
            new: int64 (n,), what each turn adds to the prompt, in the order of arrival.
            outputs: int64 (n,).
            rngs: of the system prompts' lengths, and of which turn is whose.
            tenant: number of the tenant, whose ids nobody else has.

        Returns:
            Tokens of the whole prompts, int64 (n,), and their prefix ids.

        Raises:
            ConfigError: there are more of something than ids can tell apart.
        """
        system = self.system_tokens.tokens(rngs[0], self.system_prompts)
        # Three numbers a request, so that a longer trace begins with the shorter one.
        draws = rngs[1].random((len(new), 3))
        prompts, owner, begins = self._turns(new, outputs, system, draws)
        return prompts, self._ids(prompts, owner, begins, system, tenant)

    def _turns(
        self, new: np.ndarray, outputs: np.ndarray, system: np.ndarray, draws: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each prompt's tokens, its conversation, and the system prompt that begins it."""
        weights = np.arange(1, self.system_prompts + 1) ** -float(self.popularity)
        chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), draws[:, 1], side="right")
        slots = (draws[:, 0] * self.open).astype(np.int64).tolist()
        ends = (draws[:, 2] * self.turns < 1).tolist()
        most = np.inf if self.max_prompt_tokens is None else self.max_prompt_tokens
        # By slot: the conversation in it, its system prompt, its tokens so far; -1: none.
        number, begun, said = [-1] * self.open, [0] * self.open, [0] * self.open
        started = 0
        turns = np.empty((3, len(new)), np.int64)
        for row, (slot, added, answer) in enumerate(
            zip(slots, new.tolist(), outputs.tolist(), strict=True)
        ):
            if number[slot] < 0 or said[slot] + added > most:
                number[slot], begun[slot] = started, int(chosen[row])
                said[slot] = int(system[begun[slot]])
                started += 1
            turns[:, row] = said[slot] + added, number[slot], begun[slot]
            said[slot] += added + answer
            if ends[row]:
                number[slot] = -1
        return turns[0], turns[1], turns[2]

    def _ids(
        self,
        prompts: np.ndarray,
        owner: np.ndarray,
        begins: np.ndarray,
        system: np.ndarray,
        tenant: int,
    ) -> Ragged:
        """Return ids: blocks full of system prompt are its own, all others the conversation's."""
        size = self.block_tokens
        blocks = -(-prompts // size)
        owners = self.system_prompts + owner
        for name, most, bits in (
            ("tenants", tenant, TENANT_BITS),
            ("conversations", int(owners.max()), OWNER_BITS),
            ("blocks of a prompt", int(blocks.max()), BLOCK_BITS),
        ):
            if most >= 2**bits:
                raise ConfigError(f"there are more {name} than {2**bits}, too many for prefix ids")
        block = places_in_rows(blocks)
        in_system = block < np.repeat(system[begins] // size, blocks)
        whose = np.where(in_system, np.repeat(begins, blocks), np.repeat(owners, blocks))
        return Ragged.of_lengths((tenant << OWNER_BITS | whose) << BLOCK_BITS | block, blocks)
