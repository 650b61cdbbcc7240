"""How the batch of one iteration is formed: one class for each discipline.

The engine asks a discipline for what differs between them and does all else itself. A new one is a
subclass of `naive.discipline.Discipline` and a row here.
"""

from naive.paged import PrefillFirst, Sarathi
from naive.reserving import Orca, Static, Strict
from naive.vllm import Vllm

DISCIPLINES = {
    "strict": Strict,
    "static": Static,
    "vllm": Vllm,
    "sarathi": Sarathi,
    "prefill_first": PrefillFirst,
    "orca": Orca,
}
PAGED = ("vllm", "sarathi", "prefill_first")
