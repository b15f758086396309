"""How far two trajectories are apart: matching in time, alignment, absolute and relative error.

The estimate is always compared with a reference; errors are lengths in the reference's unit and angles in degrees.

Sources: Umeyama (1991), "Least-squares estimation of transformation parameters between two point patterns", eq. 34-43;
Sturm et al. (2012), "A benchmark for the evaluation of RGB-D SLAM systems", for the absolute and the relative error.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.errors import PoseError, TimeError
from geo.trajectory import Trajectory

_COLLINEAR = 1e-4  # second spread over first: a metre to the side on ten kilometres ahead fixes no roll
_AMBIGUOUS = 1e-9
_NS = 1_000_000_000


@dataclass(frozen=True)
class Alignment:
    """target = scale * rotation @ source + translation."""

    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]
    scale: float = 1.0

    def points(self, points_in_source: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 3"]:
        """Take points to the target's frame."""
        return np.asarray(self.scale * (points_in_source @ self.rotation.T) + self.translation)

    def poses(self, source_from_body: Float[np.ndarray, "N 4 4"]) -> Float[np.ndarray, "N 4 4"]:
        """Take poses to the target's frame: origins as points, axes only turned (they stay unit)."""
        return se3.from_rotation_translation(
            self.rotation @ source_from_body[:, :3, :3], self.points(source_from_body[:, :3, 3])
        )


def align_points(
    source: Float[np.ndarray, "N 3"], target: Float[np.ndarray, "M 3"], with_scale: bool = False
) -> Alignment:
    """Least-squares alignment of matched points: SE3, or Sim3 with ``with_scale``. Never a reflection.

    Args:
        source: Points, one a row.
        target: The same points in the other frame, in the same order.
        with_scale: Estimate a scale as well.

    Returns:
        The rotation, translation and scale that minimise the mean squared distance.

    Raises:
        PoseError: different numbers of points, fewer than 3, not finite, all on one line (the turn about that line is
            free), or a target that is a mirror image of the source for which no rotation is best.
    """
    x, y = np.asarray(source, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if len(x) != len(y):
        raise PoseError(f"alignment needs matched points; got {len(x)} and {len(y)}. Associate them first")
    if len(x) < 3:
        raise PoseError(f"alignment needs at least 3 points, got {len(x)}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise PoseError("alignment needs finite points; leave rows without a pose out")
    for points, name in ((x, "source"), (y, "target")):
        _refuse_lines(points, name)
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    x0, y0 = x - mean_x, y - mean_y
    unit_x, unit_y = float(np.abs(x0).max()), float(np.abs(y0).max())  # against under- and overflow
    covariance = (y0 / unit_y).T @ (x0 / unit_x) / len(x)  # eq. 38
    u, d, vt = np.linalg.svd(covariance)  # eq. 39
    sign = np.ones(3)
    if np.linalg.det(u) * np.linalg.det(vt) < 0:  # eq. 39, 43: the best orthogonal matrix is a reflection
        sign[2] = -1.0
        if d[1] - d[2] <= _AMBIGUOUS * d[0]:
            raise PoseError(
                "the target is a mirror image of the source, and no rotation fits best; is an axis flipped in one?"
            )
    if d[1] <= _AMBIGUOUS * d[0]:
        raise PoseError("the points of source and target share no second direction; are they matched rightly?")
    rotation = (u * sign) @ vt  # eq. 40
    scale = 1.0
    if with_scale:
        variance = float(((x0 / unit_x) ** 2).sum()) / len(x)  # eq. 36
        scale = float(d @ sign) / variance * unit_y / unit_x  # eq. 42
        if not (np.isfinite(scale) and scale > 0):
            raise PoseError(f"the best scale is {scale:g}, which is none; is the target a mirror image of the source?")
    return Alignment(rotation, mean_y - scale * rotation @ mean_x, scale)  # eq. 41


def _refuse_lines(points: Float[np.ndarray, "N 3"], name: str) -> None:
    """Refuse points that lie on one line, or in one place."""
    centred = points - points.mean(axis=0)
    unit = float(np.abs(centred).max())
    rounding = 64 * np.finfo(np.float64).eps * float(np.abs(points).max())
    spread = np.linalg.svd(centred / unit, compute_uv=False) if unit > rounding else np.zeros(3)
    if spread[1] <= _COLLINEAR * spread[0] or spread[0] == 0:
        raise PoseError(
            f"the {len(points)} {name} points lie on one line (spread {spread[0] * unit:.3g} along it, "
            f"{spread[1] * unit:.3g} aside), which leaves the turn about it free; align with a longer stretch"
        )


@dataclass(frozen=True)
class Association:
    """Rows of two tables that belong together, in rising time; each row is used at most once."""

    rows_a: Int64[np.ndarray, "K"]
    rows_b: Int64[np.ndarray, "K"]


def associate(
    timestamps_a_ns: Int64[np.ndarray, "A"],
    timestamps_b_ns: Int64[np.ndarray, "B"],
    tolerance_ns: int,
) -> Association:
    """Match two rising lists of times, the nearest pairs first; what is further than the tolerance stays unmatched.

    Both must be on one clock (``geo.motion.shifted_in_time``). Ties go to the earlier row.

    Raises:
        TimeError: a list that does not rise, a negative tolerance, or not one pair (both ranges are named, FIELD P5).
    """
    a, b = np.asarray(timestamps_a_ns, dtype=np.int64), np.asarray(timestamps_b_ns, dtype=np.int64)
    if tolerance_ns < 0:
        raise TimeError(f"tolerance_ns = {tolerance_ns} must not be negative")
    for stamps, name in ((a, "first"), (b, "second")):
        if not len(stamps):
            raise TimeError(f"the {name} list of times is empty; there is nothing to match")
        if (stamps[1:] <= stamps[:-1]).any():
            raise TimeError(f"the {name} list of times does not rise; sort it and merge equal rows first")
    right = np.searchsorted(b, a)
    rows = np.arange(len(a))
    pairs = np.concatenate([np.stack([rows, right - 1], axis=1), np.stack([rows, right], axis=1)])
    pairs = pairs[(pairs[:, 1] >= 0) & (pairs[:, 1] < len(b))]
    apart = np.abs(a[pairs[:, 0]] - b[pairs[:, 1]])
    near = apart <= tolerance_ns
    pairs, apart = pairs[near], apart[near]
    free_a, free_b = np.ones(len(a), dtype=bool), np.ones(len(b), dtype=bool)
    chosen: list[tuple[int, int]] = []
    for i, j in pairs[np.lexsort((pairs[:, 1], pairs[:, 0], apart))].tolist():
        if free_a[i] and free_b[j]:
            free_a[i] = free_b[j] = False
            chosen.append((i, j))
    if not chosen:
        raise TimeError(
            f"no two times are within {tolerance_ns} ns: the first list runs from {a[0]} to {a[-1]} ns, the second "
            f"from {b[0]} to {b[-1]} ns. Two clocks or two units?"
        )
    matched = np.array(sorted(chosen), dtype=np.int64)
    return Association(matched[:, 0], matched[:, 1])


@dataclass(frozen=True)
class ErrorStatistics:
    """Root mean square, mean, median and largest of a list of errors; all in the unit of the list."""

    rmse: float
    mean: float
    median: float
    max: float

    @staticmethod
    def of(errors: Float[np.ndarray, "K"]) -> "ErrorStatistics":
        """Statistics of at least one error."""
        return ErrorStatistics(
            float(np.sqrt(np.mean(errors**2))), float(errors.mean()), float(np.median(errors)), float(errors.max())
        )


@dataclass(frozen=True)
class AbsoluteError:
    """Absolute trajectory error of the matched poses, after alignment; what was left unmatched is counted."""

    translation: ErrorStatistics  # in the reference's unit (metres if that is metric)
    rotation_deg: ErrorStatistics
    alignment: Alignment  # reference world from estimate world
    timestamps_ns: Int64[np.ndarray, "K"]  # of the reference
    translation_errors: Float[np.ndarray, "K"]
    rotation_errors_deg: Float[np.ndarray, "K"]
    unmatched_estimate: int
    unmatched_reference: int


def absolute_error(
    estimate: Trajectory,
    reference: Trajectory,
    align: Literal["none", "se3", "sim3"],
    tolerance_ns: int = 10_000_000,
) -> AbsoluteError:
    """Absolute trajectory error: distance and angle between matched poses once the worlds are laid over each other.

    Both must speak of the same body (``geo.motion.of_mounted``). The alignment uses positions only, so a constant
    turn between two definitions of the body's axes shows up in the rotation error and nowhere else.

    Args:
        estimate: World_from_body, to be judged.
        reference: World_from_body, taken as true.
        align: "se3" (rotation and translation), "sim3" (scale too: monocular estimates), or "none" (same world).
        tolerance_ns: Largest distance in time of a pair.

    Raises:
        TimeError: no pair. PoseError: too few or collinear positions to align by, or an unknown ``align``.
    """
    if align not in ("none", "se3", "sim3"):
        raise PoseError(f"align = {align!r}; known are none, se3, sim3")
    pairs = associate(estimate.timestamps_ns, reference.timestamps_ns, tolerance_ns)
    poses = estimate.world_from_body[pairs.rows_a]
    truth = reference.world_from_body[pairs.rows_b]
    alignment = Alignment(np.eye(3), np.zeros(3))
    if align != "none":
        alignment = align_points(poses[:, :3, 3], truth[:, :3, 3], with_scale=align == "sim3")
    error = se3.compose(se3.inverse(truth), alignment.poses(poses))
    distance, angle_deg = _magnitudes(error)
    return AbsoluteError(
        ErrorStatistics.of(distance),
        ErrorStatistics.of(angle_deg),
        alignment,
        reference.timestamps_ns[pairs.rows_b],
        distance,
        angle_deg,
        len(estimate.timestamps_ns) - len(pairs.rows_a),
        len(reference.timestamps_ns) - len(pairs.rows_b),
    )


def _magnitudes(transforms: Float[np.ndarray, "K 4 4"]) -> tuple[Float[np.ndarray, "K"], Float[np.ndarray, "K"]]:
    """Length of the translation, and angle of the rotation in degrees."""
    angles = np.linalg.norm(se3.axis_angle_from_rotation(transforms[:, :3, :3]), axis=-1)
    return np.linalg.norm(transforms[:, :3, 3], axis=-1), np.degrees(angles)


@dataclass(frozen=True)
class RelativeError:
    """Relative pose error over steps of one length."""

    translation: ErrorStatistics  # in the reference's unit
    rotation_deg: ErrorStatistics
    starts_ns: Int64[np.ndarray, "K"]  # of the reference
    ends_ns: Int64[np.ndarray, "K"]
    translation_errors: Float[np.ndarray, "K"]
    rotation_errors_deg: Float[np.ndarray, "K"]


def relative_error(
    estimate: Trajectory,
    reference: Trajectory,
    step: float | int,
    unit: Literal["frames", "seconds", "metres"],
    tolerance_ns: int = 10_000_000,
    step_tolerance: float = 0.1,
    estimate_scale: float | int = 1.0,
) -> RelativeError:
    """Relative pose error: how the motion over a step differs, (Q_i^-1 Q_j)^-1 (P_i^-1 P_j) with reference Q.

    It needs no alignment. Every matched pose begins a step; its end is the matched pose "frames" later, the one nearest
    to "seconds" later, or the first one that lies "metres" further along the reference's path.

    Args:
        estimate: World_from_body, to be judged.
        reference: World_from_body, taken as true.
        step: Length of a step in ``unit``.
        unit: What ``step`` counts.
        tolerance_ns: Largest distance in time of a pair of matched poses.
        step_tolerance: Steps in seconds or metres that come out longer or shorter by more than this part are left out.
        estimate_scale: Factor on the estimate's translations (``Alignment.scale`` of a sim3 alignment).

    Raises:
        TimeError: no pair. PoseError: an impossible step, an unknown unit, or no step of this length.
    """
    if unit not in ("frames", "seconds", "metres"):
        raise PoseError(f"unit = {unit!r}; known are frames, seconds, metres")
    if not (np.isfinite(step) and step > 0) or (unit == "frames" and step != int(step)):
        raise PoseError(f"step = {step} {unit} must be positive{' and whole' if unit == 'frames' else ''}")
    pairs = associate(estimate.timestamps_ns, reference.timestamps_ns, tolerance_ns)
    stamps, truth = reference.timestamps_ns[pairs.rows_b], reference.world_from_body[pairs.rows_b]
    poses = estimate.world_from_body[pairs.rows_a].copy()
    poses[:, :3, 3] *= estimate_scale
    starts, ends = _steps(stamps, truth[:, :3, 3], step, unit, step_tolerance)
    if not len(starts):
        raise PoseError(
            f"no two of the {len(stamps)} matched poses are {step:g} {unit} apart (within {step_tolerance:.0%}); "
            "take a shorter step"
        )
    error = se3.compose(
        se3.inverse(se3.compose(se3.inverse(truth[starts]), truth[ends])),
        se3.compose(se3.inverse(poses[starts]), poses[ends]),
    )
    distance, angle_deg = _magnitudes(error)
    return RelativeError(
        ErrorStatistics.of(distance), ErrorStatistics.of(angle_deg), stamps[starts], stamps[ends], distance, angle_deg
    )


def _steps(
    stamps: Int64[np.ndarray, "K"],
    positions: Float[np.ndarray, "K 3"],
    step: float | int,
    unit: str,
    step_tolerance: float,
) -> tuple[Int64[np.ndarray, "S"], Int64[np.ndarray, "S"]]:
    """First and last row of every step."""
    rows = np.arange(len(stamps))
    if unit == "frames":
        count = min(int(step), len(stamps))
        return rows[: len(stamps) - count], rows[count:]
    if unit == "seconds":
        along = (stamps - stamps[0]).astype(np.float64) / _NS  # differences: exact enough for a choice of rows
    else:
        lengths = np.linalg.norm(np.diff(positions, axis=0), axis=1)
        along = np.concatenate([np.zeros(1), np.cumsum(lengths)])
    wanted = along + step - 1e-9 * step
    ends = np.searchsorted(along, wanted)
    inside = ends < len(along)  # a step that runs past the end is not replaced by a shorter one
    starts, ends, wanted = rows[inside], ends[inside], wanted[inside]
    if unit == "seconds":
        ends = np.where(wanted - along[ends - 1] < along[ends] - wanted, ends - 1, ends)
    apart = ends > starts
    starts, ends = starts[apart], ends[apart]
    fits = np.abs(along[ends] - along[starts] - step) <= step_tolerance * step
    return starts[fits], ends[fits]
