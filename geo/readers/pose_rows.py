"""From seven numbers a row to transforms: what every table of poses has in common, whatever its order of columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.errors import PoseError, RecordingError, listed

UNIT_TOLERANCE = 1e-3
_ZERO_QUAT = 1e-8
_MAX_METRES = 1e9  # beyond any world; a time stamp that slipped into a position is above it
_LISTED = 10


@dataclass(frozen=True)
class PoseRow:
    """One pose as its file has it, put into this order; ``place`` says where it is from (a line's number, a name)."""

    place: str | int
    translation: tuple[float, float, float]
    quat_wxyz: tuple[float, float, float, float]


def poses_from_rows(
    rows: Sequence[PoseRow], path: Path, warnings: list[str], kind: str = "line"
) -> Float[np.ndarray, "N 4 4"]:
    """Transforms of rows; NaN in all places for a gap: a number that is not finite, or a zero quaternion.

    Args:
        rows: Translation and quaternion; which frame is taken to which is the file format's affair.
        path: The file, for messages.
        warnings: Gaps are added here, with their places.
        kind: What a row's place is, for messages.

    Raises:
        PoseError: a quaternion whose length differs from 1 by more than 1e-3 (within, it is normalised), or a
            translation beyond a million kilometres: columns in another order or shifted, most likely.
        RecordingError: no row is left.
    """
    count = len(rows)
    translation = np.array([row.translation for row in rows], dtype=np.float64).reshape(count, 3)
    quat = np.array([row.quat_wxyz for row in rows], dtype=np.float64).reshape(count, 4)
    return poses_from_numbers(translation, quat, [row.place for row in rows], path, warnings, kind)


def poses_from_numbers(
    translation: Float[np.ndarray, "N 3"],
    quat_wxyz: Float[np.ndarray, "N 4"],
    places: Sequence[str | int],
    path: Path,
    warnings: list[str],
    kind: str = "line",
) -> Float[np.ndarray, "N 4 4"]:
    """``poses_from_rows`` for numbers that are in arrays already; ``places`` says where each row is from."""
    count, quat = len(places), quat_wxyz
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(quat, axis=1)
        finite = np.isfinite(translation).all(axis=1) & np.isfinite(quat).all(axis=1)
        known = finite & (length > _ZERO_QUAT)
        far = known & (np.abs(translation) > _MAX_METRES).any(axis=1)
        crooked = known & (np.abs(length - 1) > UNIT_TOLERANCE)
    for bad, what in ((crooked, "quaternion"), (far, "translation")):
        if bad.any():
            i = int(np.argmax(bad))
            numbers = tuple((quat if what == "quaternion" else translation)[i].tolist())
            fault = (
                f"(w, x, y, z) has length {length[i]:.6g}, not 1" if what == "quaternion" else "is out of this world"
            )
            raise PoseError(
                f"{path} {kind} {places[i]}: {what} {numbers} {fault}. Are the columns in the order of this format?"
            )
    if not known.any():
        raise RecordingError(f"{path} has no usable pose ({count} rows); without poses nothing can be placed")
    poses = np.full((count, 4, 4), np.nan)
    poses[known] = se3.from_rotation_translation(se3.rotation_from_quat_wxyz(quat[known]), translation[known])
    gaps = np.flatnonzero(~known)
    if len(gaps):
        named = listed([places[i] for i in gaps.tolist()], _LISTED)
        warnings.append(f"{path.name}: {len(gaps)} rows without a finite pose are gaps ({kind}s {named})")
    return poses


def quats_for_writing(rotations: Float[np.ndarray, "N 3 3"]) -> Float[np.ndarray, "N 4"]:
    """Unit quaternions (w, x, y, z) whose sign follows the row before, so that no reader meets a flip (FIELD P3)."""
    quat = se3.quat_wxyz_from_rotation(rotations)
    turned = np.einsum("ij,ij->i", quat[:-1], quat[1:]) < 0
    quat[1:][np.cumsum(turned) % 2 == 1] *= -1
    return quat
