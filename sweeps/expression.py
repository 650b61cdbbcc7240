"""Conditions in sweep files, such as `prefill_chunk_size < max_num_batched_tokens`.

They are Python expressions of names, numbers, texts, arithmetic, comparisons and and/or/not. They
are parsed by Python and evaluated here, node by node: what is not in the tables below does not
exist, so a file from a stranger can compute nothing but its condition. `**` is missing on purpose:
it could take forever.
"""

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from vecsched.errors import did_you_mean

_CONSTANTS = {"null": None, "true": True, "false": False}  # as YAML writes them

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
_LEAVES = (ast.Name, ast.Load, ast.Constant, ast.And, ast.Or)
_BRANCHES = (ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple, ast.List)
_LONGEST = 1000  # characters


class ExpressionError(ValueError):
    """A condition that cannot be understood, or cannot be told for some values."""


class Expression:
    """A condition on named values.

    Attributes:
        text: as it was written.
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        """Parse a condition.

        Raises:
            ExpressionError: it is no expression, or uses a name that is not among `names`, or
                something that conditions do not have.
        """
        self.text = text
        if len(text) > _LONGEST:
            raise ExpressionError(f"must not be longer than {_LONGEST} characters")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else error or "nested too deeply"
            raise ExpressionError(f"is no expression: {reason}") from None
        for node in ast.walk(self._tree):
            _check(node, names)

    def __call__(self, values: Mapping[str, Any]) -> bool:
        """Tell whether the condition holds.

        Args:
            values: a value for each name of the condition.

        Raises:
            ExpressionError: it cannot be told, as when null is compared with a number.
        """
        try:
            return bool(_value(self._tree, values))
        except (TypeError, ZeroDivisionError, OverflowError, RecursionError) as error:
            raise ExpressionError(f"cannot be told: {error}") from None


def _check(node: ast.AST, names: Collection[str]) -> None:
    if isinstance(node, ast.Name) and node.id not in names and node.id not in _CONSTANTS:
        raise ExpressionError(f"no such name {node.id!r}; {did_you_mean(node.id, names)}")
    if isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str | None):
        raise ExpressionError(f"{node.value!r} is neither number, text nor null")
    if not isinstance(node, (*_LEAVES, *_BRANCHES, *_OPERATORS)):
        raise ExpressionError(f"{type(node).__name__} is not allowed in a condition")


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:  # noqa: PLR0911 (a kind a line)
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return _CONSTANTS[name] if name in _CONSTANTS else values[name]
        case ast.Tuple(items) | ast.List(items):
            return [_value(item, values) for item in items]
        case ast.UnaryOp(kind, operand):
            return _OPERATORS[type(kind)](_value(operand, values))
        case ast.BinOp(left, kind, right):
            return _arithmetic(type(kind), _value(left, values), _value(right, values))
        case ast.BoolOp(kind, operands):
            decides = any if isinstance(kind, ast.Or) else all
            return decides(_value(operand, values) for operand in operands)
        case ast.Compare(left, kinds, others):
            return _compared([left, *others], kinds, values)
    raise AssertionError(node)  # `_check` lets nothing else through


def _arithmetic(kind: type[ast.AST], left: Any, right: Any) -> Any:
    """Compute with numbers only: a text times a large number would fill the memory."""
    for value in (left, right):
        if not isinstance(value, int | float):
            raise TypeError(f"{value!r} is no number")
    return _OPERATORS[kind](left, right)


def _compared(operands: list[ast.expr], kinds: list[ast.cmpop], values: Mapping[str, Any]) -> bool:
    """Compare neighbours, as in 1 <= x < 5."""
    known = [_value(operand, values) for operand in operands]
    pairs = zip(kinds, known, known[1:], strict=False)
    return all(_OPERATORS[type(kind)](left, right) for kind, left, right in pairs)
