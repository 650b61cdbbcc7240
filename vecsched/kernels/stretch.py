"""Closed forms for a stretch: k iterations whose duration grows by the same step each time."""

from math import sqrt

from vecsched._jit import kernel


@kernel
def stretch_ps(iterations, first_ps, step_ps):
    """Duration of a stretch: k * first + step * k (k - 1) / 2."""
    return iterations * first_ps + step_ps * (iterations * (iterations - 1) // 2)


@kernel
def iterations_to_reach(span_ps, first_ps, step_ps, most):
    """The fewest iterations, from 1 to `most`, that last at least `span_ps`; else `most`.

    The root of a quadratic in floating point, then put right in whole numbers.
    """
    if span_ps <= first_ps or most <= 1:
        return 1
    if stretch_ps(most, first_ps, step_ps) <= span_ps:
        return most
    if step_ps == 0:
        guess = span_ps // first_ps
    else:
        linear = first_ps - 0.5 * step_ps
        root = sqrt(linear * linear + 2.0 * step_ps * span_ps)
        # The form without a difference of nearly equal numbers.
        guess = int(2.0 * span_ps / (linear + root))
    guess = min(max(guess, 1), most)
    while guess > 1 and stretch_ps(guess - 1, first_ps, step_ps) >= span_ps:
        guess -= 1
    while stretch_ps(guess, first_ps, step_ps) < span_ps:
        guess += 1
    return guess
