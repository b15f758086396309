"""The integer arithmetic of a remapped pixel, written once and compiled for CPU and GPU.

Bilinear: a table gives fractions of 11 bits; the four weights have 13 bits and add up to 8192 exactly, the sum is
rounded once. A result is within 0.7 grey levels of the float64 reference: 0.5 (rounding) + 510 / 4096 (the fractions)
+ 510 / 2 / 8192 (the weights).

Bicubic: four weights of 14 bits a direction from a table of 2049, each row of pixels summed and rounded to 1/128 of a
grey level, then the rows summed and rounded: every number stays within 32 bits.
"""

from typing import Any

import numpy as np
from jaxtyping import Int16

from cuda_kernels.remap_reference import keys_weights
from cuda_kernels.remap_table import FRACTION_BITS

WEIGHT_BITS = 13
WEIGHT_ONE = 1 << WEIGHT_BITS
TO_WEIGHT = WEIGHT_BITS - FRACTION_BITS  # left shift of a fraction that makes it a weight
PRODUCT_SHIFT = 2 * FRACTION_BITS - WEIGHT_BITS  # right shift of a product of two fractions that makes it a weight
PRODUCT_HALF = 1 << (PRODUCT_SHIFT - 1)
HALF = 1 << (WEIGHT_BITS - 1)

CUBIC_BITS = 14
_ROW_SHIFT = 7
_ROW_HALF = 1 << (_ROW_SHIFT - 1)
_CUBIC_SHIFT = 2 * CUBIC_BITS - _ROW_SHIFT
_CUBIC_HALF = 1 << (_CUBIC_SHIFT - 1)


def blend(a: Any, b: Any, c: Any, d: Any, fx: Any, fy: Any) -> Any:
    """Bilinear mix of the grey levels upper left, upper right, lower left, lower right."""
    lower_right = (fx * fy + PRODUCT_HALF) >> PRODUCT_SHIFT
    upper_right = (fx << TO_WEIGHT) - lower_right
    lower_left = (fy << TO_WEIGHT) - lower_right
    upper_left = WEIGHT_ONE - upper_right - lower_left - lower_right
    return (a * upper_left + b * upper_right + c * lower_left + d * lower_right + HALF) >> WEIGHT_BITS


def cubic_row(a: Any, b: Any, c: Any, d: Any, wa: Any, wb: Any, wc: Any, wd: Any) -> Any:
    """Weighted sum of four grey levels side by side, in 1/128 of a grey level."""
    return (a * wa + b * wb + c * wc + d * wd + _ROW_HALF) >> _ROW_SHIFT


def cubic_rows(a: Any, b: Any, c: Any, d: Any, wa: Any, wb: Any, wc: Any, wd: Any) -> Any:
    """Grey level of four row sums, one below the other; cut to 0..255."""
    level = (a * wa + b * wb + c * wc + d * wd + _CUBIC_HALF) >> _CUBIC_SHIFT
    return min(max(level, 0), 255)


def cubic_weights() -> Int16[np.ndarray, "2049 4"]:
    """Keys' weights for every fraction; each row adds up to 1 (16384) exactly."""
    fractions = np.arange((1 << FRACTION_BITS) + 1) / (1 << FRACTION_BITS)
    exact = np.stack(keys_weights(fractions), axis=-1) * (1 << CUBIC_BITS)
    weights = np.rint(exact).astype(np.int64)
    rows = np.arange(len(weights))
    weights[rows, weights.argmax(axis=1)] += (1 << CUBIC_BITS) - weights.sum(axis=1)
    return np.asarray(weights, dtype=np.int16)
