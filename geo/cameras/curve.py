"""Inverting one-dimensional distortion curves."""

import numpy as np
from jaxtyping import Float
from numpy.polynomial.polynomial import polyder, polyval

_MAX_STEPS = 60


def invert_monotone(
    value: Float[np.ndarray, "N"],
    rising_coefficients: Float[np.ndarray, "C"],
    x_max: float,
    denominator_coefficients: Float[np.ndarray, "D"] | None = None,
) -> Float[np.ndarray, "N"]:
    """Solve x p(x^2) / q(x^2) = value for x in [0, x_max], on which the left side rises; NaN beyond its range.

    Newton's steps, kept inside a bracket that shrinks with every step (so it cannot leave the valid region).
    """
    n = np.asarray(rising_coefficients, dtype=np.float64)
    d = np.ones(1) if denominator_coefficients is None else np.asarray(denominator_coefficients, dtype=np.float64)
    n_slope, d_slope = n * (2 * np.arange(len(n)) + 1), polyder(d)  # (x p)' = p + 2 s p'; q' by s

    def curve(x: Float[np.ndarray, "K"]) -> tuple[Float[np.ndarray, "K"], Float[np.ndarray, "K"]]:
        """Value and derivative."""
        s = x * x
        if len(d) == 1:
            return x * polyval(s, n), polyval(s, n_slope)
        p, q = polyval(s, n), polyval(s, d)
        return x * p / q, (polyval(s, n_slope) - 2 * s * p * polyval(s, d_slope) / q) / q

    top = float(curve(np.array([x_max]))[0][0])
    with np.errstate(invalid="ignore"):
        solvable = np.asarray((value >= 0) & (value <= top))
    out = np.where(solvable, 0.0, np.nan)
    active = np.flatnonzero(solvable)
    target = value[active]
    low, high = np.zeros_like(target), np.full_like(target, x_max)
    x = target / top * x_max if top > 0 else low
    for _ in range(_MAX_STEPS):
        f, slope = curve(x)
        error = f - target
        low, high = np.where(error <= 0, x, low), np.where(error >= 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - error / slope
        inside = np.isfinite(step) & (step >= low) & (step <= high)
        new = np.where(inside, step, 0.5 * (low + high))
        going = np.abs(new - x) > 4e-16 * (1 + np.abs(x))
        x = new
        if not going.all():
            out[active[~going]] = x[~going]
            active, target, low, high, x = active[going], target[going], low[going], high[going], x[going]
        if not len(active):
            break
    out[active] = x
    return out
