"""Depth, its sigma and its origin as small integers: equal relative steps, so near and far are equally exact.

Why these codes: docs/decisions/0008-depth-store.md; what they cost: benchmarks/depth_store.py.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float32, Shaped, UInt8, UInt16

from egospatial.errors import StoreError
from recon.records import DepthFrame

NO_CODE = 0
Z_CODES, SIGMA_CODES = 65535, 255


@dataclass(frozen=True)
class EncodedDepth:
    """A depth frame as it is stored; all three are 0 where there is no depth."""

    z_depth: UInt16[np.ndarray, "h w"]
    sigma: UInt8[np.ndarray, "h w"]
    origin: UInt8[np.ndarray, "h w"]
    out_of_reach: int  # pixels with a depth that no code stands for, stored as none
    largest_z: float  # 0 without any depth


@dataclass(frozen=True)
class DepthCoding:
    """Code c >= 1 of a depth stands for ``first_z * exp((c - 1) * z_step)``, of a sigma likewise; 0 is none.

    The defaults reach from 0.1 mm to 888 m with a relative error of at most 0.0122 %, and sigmas from 10 micrometres
    up within 5.2 %. ``scaled`` moves both ranges for scenes in another unit.
    """

    first_z: float = 1e-4
    z_step: float = 2.0**-12
    first_sigma: float = 1e-5
    sigma_step: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what cannot be: positive finite numbers only (a damaged file gives others)."""
        for name, value in vars(self).items():
            if not (np.isfinite(value) and value > 0):
                raise StoreError(f"depth coding: {name} is {value}; expected a positive number. Run the depth stage.")

    def scaled(self, factor: float) -> "DepthCoding":
        """The same relative steps for lengths ``factor`` times as large."""
        return DepthCoding(self.first_z * factor, self.z_step, self.first_sigma * factor, self.sigma_step)

    @property
    def farthest(self) -> float:
        """The largest depth that has a code."""
        return float(self._z_values[-1])

    @cached_property
    def _z_values(self) -> Float32[np.ndarray, "65536"]:
        return _values(self.first_z, self.z_step, Z_CODES)

    @cached_property
    def _sigma_values(self) -> Float32[np.ndarray, "256"]:
        return _values(self.first_sigma, self.sigma_step, SIGMA_CODES)

    def encode(self, frame: DepthFrame) -> EncodedDepth:
        """Nearest codes. Depth that is NaN, infinite or not positive is none; sigmas out of reach take the end code."""
        depth = np.asarray(frame.z_depth_m, dtype=np.float64)
        given = np.isfinite(depth) & (depth > 0)
        codes = _codes(np.where(given, depth, self.first_z), self.first_z, self.z_step)
        known = given & (codes >= 1) & (codes <= Z_CODES)
        sigma = np.asarray(frame.sigma_m, dtype=np.float64)
        stated = known & np.isfinite(sigma) & (sigma > 0)
        sigma_codes = np.clip(_codes(np.where(stated, sigma, 1.0), self.first_sigma, self.sigma_step), 1, SIGMA_CODES)
        return EncodedDepth(
            left_differences(np.where(known, codes, NO_CODE).astype(np.uint16)),
            np.where(stated, sigma_codes, NO_CODE).astype(np.uint8),
            np.where(known, frame.origin, 0).astype(np.uint8),
            int((given & ~known).sum()),
            float(depth[known].max()) if known.any() else 0.0,
        )

    def decode(
        self,
        z_depth: UInt16[np.ndarray, "h w"],
        sigma: UInt8[np.ndarray, "h w"],
        origin: UInt8[np.ndarray, "h w"],
    ) -> DepthFrame:
        """The inverse of ``encode`` up to rounding; NaN where there is none."""
        return DepthFrame(self._z_values[undo_left_differences(z_depth)], self._sigma_values[sigma], origin)


def left_differences(codes: UInt16[np.ndarray, "*n w"]) -> UInt16[np.ndarray, "*n w"]:
    """Each code minus its left neighbour, modulo 65536; small steps up and down become small numbers (zigzag)."""
    steps = np.diff(codes, axis=-1, prepend=np.zeros_like(codes[..., :1]))
    signed = steps.view(np.int16)
    return np.asarray((signed << 1) ^ (signed >> 15)).view(np.uint16)


def undo_left_differences(stored: UInt16[np.ndarray, "*n w"]) -> UInt16[np.ndarray, "*n w"]:
    """The inverse of ``left_differences``."""
    steps = (stored >> 1) ^ (0 - (stored & 1))
    return np.cumsum(steps, axis=-1, dtype=np.uint16)


def linear_counts(frame: DepthFrame, unit_m: float) -> tuple[UInt16[np.ndarray, "h w"], int]:
    """Depth as 16-bit counts of a unit for image files, 0 = none, and how many pixels were too deep for it."""
    depth = np.asarray(frame.z_depth_m, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        counts = np.rint(depth / unit_m)
        known = np.isfinite(depth) & (counts >= 1) & (counts <= 65535)
        too_deep = int((np.isfinite(depth) & (counts > 65535)).sum())
    return np.where(known, counts, 0).astype(np.uint16), too_deep


def _codes(values: Float[np.ndarray, "*n"], first: float, step: float) -> Shaped[np.ndarray, "*n"]:
    return np.asarray(1 + np.rint(np.log(values / first) / step))


def _values(first: float, step: float, last_code: int) -> Float32[np.ndarray, "codes"]:
    values = (first * np.exp(np.arange(-1, last_code, dtype=np.float64) * step)).astype(np.float32)
    values[NO_CODE] = np.nan
    return values
