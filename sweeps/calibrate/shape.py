"""The shape of a transformer: what its kernels' sizes follow from."""

from dataclasses import dataclass

from vecsched.errors import CostError


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A transformer with grouped-query attention and a gated feed-forward layer.

    Attributes:
        experts: feed-forward layers to choose from, each of `ffn`; 1: a dense model. What follows
            from the shape of the kernels is that of dense models: others need a measured profile.

    Raises:
        CostError: `tensor_parallel` does not divide the heads, the KV heads, `ffn` or `vocab`.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tensor_parallel: int = 1
    bytes_per_value: int = 2
    experts: int = 1

    def __post_init__(self) -> None:
        for name in ("heads", "kv_heads", "ffn", "vocab"):
            if getattr(self, name) % self.tensor_parallel:
                raise CostError(
                    f"tensor_parallel = {self.tensor_parallel} does not divide {name} = "
                    f"{getattr(self, name)}"
                )

    def check_dense(self) -> None:
        """Raise CostError for a mixture of experts."""
        if self.experts > 1:
            raise CostError(
                f"a mixture of {self.experts} experts: what they take does not follow from the "
                "model's shape; calibrate it from a profile with moe.csv"
            )

    @property
    def gemms(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of a layer's matrix products: qkv, out, gate and up, down; one GPU."""
        queries = self.heads * self.head_dim // self.tensor_parallel
        keys_values = 2 * self.kv_heads * self.head_dim // self.tensor_parallel
        ffn = self.ffn // self.tensor_parallel
        return (
            (queries + keys_values, self.hidden),
            (self.hidden, queries),
            (2 * ffn, self.hidden),
            (self.hidden, ffn),
        )

    @property
    def small_kernels(self) -> tuple[int, ...]:
        """Bytes a token moves in each kernel of a layer that only memory bounds, on one GPU."""
        # Add and normalise: two tensors in, two out. Rotate queries and keys in place. Gate times
        # up: two in, one out.
        norm = 4 * self.hidden
        rotate = 2 * (self.heads + self.kv_heads) * self.head_dim // self.tensor_parallel
        gate = 3 * self.ffn // self.tensor_parallel
        return tuple(self.bytes_per_value * values for values in (norm, norm, rotate, gate))

    @property
    def vocabulary_gemm(self) -> tuple[int, int]:
        """(outputs, inputs) of the product that makes the logits, on one GPU."""
        return self.vocab // self.tensor_parallel, self.hidden

    @property
    def attention_heads(self) -> tuple[int, int]:
        """Query heads and KV heads on one GPU."""
        return self.heads // self.tensor_parallel, self.kv_heads // self.tensor_parallel

    @property
    def kv_bytes(self) -> int:
        """Bytes of one token's keys and values in one layer, on one GPU."""
        return 2 * self.bytes_per_value * self.kv_heads * self.head_dim // self.tensor_parallel
