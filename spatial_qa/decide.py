"""From numbers with sigmas to answers with margins: sectors, bands, ladders, extremes, orders, counts."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

SECTOR_DEG = 45.0


@dataclass(frozen=True)
class Measurement:
    """What an operation found.

    ``answer``: sector, band, count or rung index; index or list of indices into ``operands["candidates"]``;
    None where there is no answer (a value beyond a ladder's ends). ``margin``: how far the deciding quantity is
    from where the answer would change, in the unit of ``sigma``.
    """

    value: Any
    answer: Any
    sigma: float
    margin: float
    required_margin: float

    @property
    def decided(self) -> bool:
        """True if there is an answer and its margin is met."""
        return self.answer is not None and self.margin >= self.required_margin


def sector(angle_deg: float, sigma_deg: float, sigmas: float, min_margin_deg: float) -> Measurement:
    """One of eight sectors of 45 degrees; sector 0 is centred on 0, numbers rise clockwise (to the right)."""
    index = round(angle_deg / SECTOR_DEG) % 8
    offset = (angle_deg - index * SECTOR_DEG + 180.0) % 360.0 - 180.0
    margin = SECTOR_DEG / 2 - abs(offset)
    return Measurement(angle_deg, index, sigma_deg, margin, max(min_margin_deg, sigmas * sigma_deg))


def signed_bin(angle_deg: float, sigma_deg: float, sigmas: float, min_margin_deg: float) -> Measurement:
    """One of eight bins of 45 degrees from -180 to 180; edges at the multiples of 45."""
    wrapped = (angle_deg + 180.0) % 360.0 - 180.0
    index = min(int((wrapped + 180.0) // SECTOR_DEG), 7)
    inside = (wrapped + 180.0) % SECTOR_DEG
    margin = min(inside, SECTOR_DEG - inside)
    return Measurement(wrapped, index, sigma_deg, margin, max(min_margin_deg, sigmas * sigma_deg))


def band(value: float, sigma: float, edges: Sequence[float], sigmas: float, min_margin: float) -> Measurement:
    """Index of the band between rising edges; the first and the last band are open."""
    inner = np.asarray(edges, dtype=np.float64)
    index = int(np.searchsorted(inner, value))
    margin = float(np.abs(inner - value).min())
    return Measurement(value, index, sigma, margin, max(min_margin, sigmas * sigma))


def scalar(value: float, sigma: float, sigmas: float) -> Measurement:
    """A bare number: decided by the ladder that is built around it."""
    return Measurement(value, None, sigma, float("nan"), sigmas * sigma)


def on_ladder(found: Measurement, rungs: Sequence[float], ratio: float) -> Measurement:
    """The rung whose interval [rung / sqrt(ratio), rung * sqrt(ratio)) holds the value; None beyond both ends."""
    value = float(found.value)
    if not value > 0:
        return Measurement(found.value, None, found.sigma, 0.0, found.required_margin)
    edges = [np.sqrt(low * high) for low, high in itertools.pairwise(rungs)]
    edges = [rungs[0] / np.sqrt(ratio), *edges, rungs[-1] * np.sqrt(ratio)]
    index = int(np.searchsorted(edges, value, side="right")) - 1
    margin = float(np.abs(np.asarray(edges) - value).min())
    inside = 0 <= index < len(rungs)
    return Measurement(found.value, index if inside else None, found.sigma, margin, found.required_margin)


def critical(
    gaps: Float[np.ndarray, "K"], gap_sigmas: Float[np.ndarray, "K"], required: Float[np.ndarray, "K"]
) -> tuple[float, float, float]:
    """Sigma, margin and required margin of the gap that is nearest to failing."""
    worst = int(np.argmin(gaps - required))
    return float(gap_sigmas[worst]), float(gaps[worst]), float(required[worst])
