"""vLLM's names for fields of `SchedulerConfig`, where they differ from ours.

They are accepted wherever fields are named: in files, in sweeps and on the command line.
`docs/names.md` is the whole dictionary, with what other engines call the same things.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from vecsched._numbers import is_whole_number
from vecsched.errors import ConfigError


class Alias(NamedTuple):
    """A field under another name; the other's value counts `surplus` more than ours."""

    field: str
    surplus: int = 0

    def ours(self, theirs: Any) -> Any:
        """Return our value for theirs; what is no whole number is left for validation to refuse."""
        return theirs - self.surplus if is_whole_number(theirs) else theirs


ALIASES = {
    "max_num_seqs": Alias("max_batch_size"),
    # vLLM counts a block that stands for none.
    "num_gpu_blocks": Alias("kv_blocks", surplus=1),
    "num_gpu_blocks_override": Alias("kv_blocks", surplus=1),
    "scheduling_policy": Alias("policy"),
}


def in_our_names(
    values: Mapping[str, Any], ours: Callable[[Alias, Any], Any] = Alias.ours
) -> dict[str, Any]:
    """Return settings under our own names, with our values.

    Args:
        values: by name, ours or vLLM's; unknown names stay as they are.
        ours: turns one of vLLM's values into ours.

    Raises:
        ConfigError: one field is given under two names.
    """
    names: dict[str, str] = {}
    translated = {}
    for name, value in values.items():
        alias = ALIASES.get(name, Alias(name))
        first = names.setdefault(alias.field, name)
        if first != name:
            raise ConfigError(f"{first} and {name} are two names of one field: give only one")
        translated[alias.field] = ours(alias, value)
    return translated
