"""Adam on some rows of a packed parameter table, in place: one sweep, nothing gathered.

Source: Kingma & Ba (2015), algorithm 1 with the rearranged correction of its section 2.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numba
import numpy as np
from jaxtyping import Float32, Int64

from cuda_kernels.errors import KernelError
from cuda_kernels.jit import jit

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-15  # epsilon as in 3DGS


def adam_rows(
    values: Float32[np.ndarray, "N C"],
    first: Float32[np.ndarray, "N C"],
    second: Float32[np.ndarray, "N C"],
    steps: Int64[np.ndarray, "N"],
    rows: Int64[np.ndarray, "M"],
    gradient: Float32[np.ndarray, "M C"],
    rate: Float32[np.ndarray, "C"],
    row_scale: Float32[np.ndarray, "N"],
    scaled_columns: int,
) -> None:
    """One step of the named rows; ``values``, both moments and ``steps`` change in place, other rows do not.

    Each row counts its own steps, so a row that was not seen for long is corrected for the few it took. Same arrays,
    same bytes, for any number of threads.

    Args:
        values: Parameters, one row per thing, C-contiguous as the moments are.
        first: Running mean of the gradient.
        second: Running mean of its square.
        steps: How many steps each row has taken.
        rows: Which rows step, each once.
        gradient: Their gradients, in the order of ``rows``.
        rate: Step width of each column.
        row_scale: The first ``scaled_columns`` columns step this much farther, row by row.
        scaled_columns: See ``row_scale``.

    Raises:
        KernelError: arrays of other shapes or types, or a row beyond the table.
    """
    _check(values, first, second, steps, rows, gradient, rate, row_scale)
    if not len(rows):
        return
    correction = _corrections(int(steps[rows].max()) + 1)
    _adam_cpu(values, first, second, steps, rows, gradient, rate, row_scale, scaled_columns, correction)


def adam_rows_reference(
    values: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    steps: np.ndarray,
    rows: np.ndarray,
    gradient: np.ndarray,
    rate: np.ndarray,
    row_scale: np.ndarray,
    scaled_columns: int,
) -> None:
    """``adam_rows`` line by line after the algorithm, in the precision of the arrays."""
    steps[rows] += 1
    first[rows] = BETA1 * first[rows] + (1 - BETA1) * gradient
    second[rows] = BETA2 * second[rows] + (1 - BETA2) * gradient**2
    taken = steps[rows][:, None]
    step = np.tile(rate, (len(rows), 1))
    step[:, :scaled_columns] *= row_scale[rows][:, None]
    step = step * np.sqrt(1 - BETA2**taken) / (1 - BETA1**taken)
    values[rows] -= step * first[rows] / (np.sqrt(second[rows]) + EPSILON)


def _check(values, first, second, steps, rows, gradient, rate, row_scale):
    count, columns = values.shape
    wanted = {
        "values": (values, (count, columns), np.float32),
        "first": (first, (count, columns), np.float32),
        "second": (second, (count, columns), np.float32),
        "steps": (steps, (count,), np.int64),
        "gradient": (gradient, (len(rows), columns), np.float32),
        "rate": (rate, (columns,), np.float32),
        "row_scale": (row_scale, (count,), np.float32),
        "rows": (rows, (len(rows),), np.int64),
    }
    for name, (array, shape, dtype) in wanted.items():
        if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
            raise KernelError(
                f"adam_rows: {name} is {array.dtype} {array.shape}, expected contiguous {np.dtype(dtype)} {shape}."
            )
    if len(rows) and not (0 <= rows.min() and rows.max() < count):
        raise KernelError(f"adam_rows: rows reach from {rows.min()} to {rows.max()}, the table has {count}.")


def _corrections(most: int) -> Float32[np.ndarray, "T"]:
    """sqrt(1 - beta2^t) / (1 - beta1^t) for t = 0 .. most; 0 at t = 0, which nobody takes."""
    taken = np.arange(1, most + 1, dtype=np.float64)
    return np.concatenate([[0.0], np.sqrt(1 - BETA2**taken) / (1 - BETA1**taken)]).astype(np.float32)


@jit(error_model="numpy", parallel=True)
def _adam_cpu(values, first, second, steps, rows, gradient, rate, row_scale, scaled_columns, correction):
    keep1, keep2 = np.float32(BETA1), np.float32(BETA2)
    new1, new2, epsilon = np.float32(1 - BETA1), np.float32(1 - BETA2), np.float32(EPSILON)
    for m in numba.prange(rows.shape[0]):
        i = rows[m]
        steps[i] += 1
        corrected = correction[steps[i]]
        for c in range(values.shape[1]):
            g = gradient[m, c]
            mean = keep1 * first[i, c] + new1 * g
            square = keep2 * second[i, c] + new2 * (g * g)
            first[i, c], second[i, c] = mean, square
            scale = row_scale[i] if c < scaled_columns else np.float32(1.0)
            values[i, c] -= rate[c] * scale * corrected * mean / (np.sqrt(square) + epsilon)
