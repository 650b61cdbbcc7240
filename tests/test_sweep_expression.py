"""Conditions in sweep files: what they mean, and all that they cannot do."""

import pytest

from sweeps.expression import Expression, ExpressionError

VALUES = {"a": 1, "b": None, "share": 0.5, "discipline": "vllm", "on": True}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a < 2", True),
        ("1 <= a < 1", False),
        ("1 <= a <= 1 != 2", True),
        ("b is null", True),
        ("b is not None", False),
        ("on == true and not on == false", True),
        ("a in (1, 2) and discipline not in ['orca', 'static']", True),
        ("discipline == 'vllm' or b < 3", True),  # the second half is not looked at
        ("a + 2 * 3 - 1 == 6 and 7 // 2 == 3 and 7 % 4 == 3 and 1 / 4 < share", True),
        ("-a == -1 and +a == 1", True),
        ("not (a > 0)", False),
        ("  a  ", True),
    ],
)
def test_conditions(text, holds):
    assert Expression(text, VALUES)(VALUES) is holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("discipine == 'vllm'", "no such name 'discipine'; did you mean 'discipline'?"),
        ("__import__('os').system('true')", "Call is not allowed in a condition"),
        ("a.real", "Attribute is not allowed in a condition"),
        ("(lambda: 1)()", "Call is not allowed in a condition"),
        ("[x for x in a]", "ListComp is not allowed in a condition"),
        ("a ** 9", "Pow is not allowed in a condition"),
        ("a << 9", "LShift is not allowed in a condition"),
        ("a if on else b", "IfExp is not allowed in a condition"),
        ("f'{a}'", "JoinedStr is not allowed in a condition"),
        ("discipline[0]", "Subscript is not allowed in a condition"),
        ("{1: 2}", "Dict is not allowed in a condition"),
        ("b'x' == a", "b'x' is neither number, text nor null"),
        ("1j == a", "1j is neither number, text nor null"),
        ("... == a", "Ellipsis is neither number, text nor null"),
        ("a = 1", "is no expression: invalid syntax"),
        ("a <", "is no expression: invalid syntax"),
        ("", "is no expression: invalid syntax"),
        ("a\0", "is no expression: source code string cannot contain null bytes"),
        ("1" * 1001, "must not be longer than 1000 characters"),
        ("(" * 500, "is no expression: too many nested parentheses"),
    ],
)
def test_what_is_no_condition(text, message):
    with pytest.raises(ExpressionError) as caught:
        Expression(text, VALUES)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b < 3", "cannot be told: '<' not supported between instances of 'NoneType' and 'int'"),
        ("discipline < 3", "cannot be told: '<' not supported"),
        ("discipline * 999999999 == b", "cannot be told: 'vllm' is no number"),
        ("[1] + [2] == b", "cannot be told: [1] is no number"),
        ("a in discipline", "cannot be told: 'in <string>' requires string as left operand"),
        ("a / 0", "cannot be told: division by zero"),
        ("1e308 * 10 // 1 == a", None),  # infinities are numbers
    ],
)
def test_what_cannot_be_told(text, message):
    condition = Expression(text, VALUES)
    if message is None:
        assert condition(VALUES) is False
        return
    with pytest.raises(ExpressionError) as caught:
        condition(VALUES)
    assert str(caught.value).startswith(message)


def test_deep_nesting_is_an_error_like_others():
    with pytest.raises(ExpressionError):
        Expression("-" * 999 + "1", VALUES)(VALUES)
