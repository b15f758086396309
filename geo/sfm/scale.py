"""Metres of one unit of a reconstruction, from sensor depth."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.nearest import nearest_row
from geo.recording import DepthStream
from geo.sfm.records import ScaleEstimate
from geo.trajectory import Trajectory

_ROUNDS = 8
_PICTURES = 40
_MIN_POINTS = 100
_MAD_KEPT = 5.0


def scale_from_depth(
    depth: DepthStream,
    trajectory: Trajectory,
    points_in_world: Float[np.ndarray, "P 3"],
    seen: Mapping[int, Int64[np.ndarray, "F"]],
    timestamps_ns: Int64[np.ndarray, "N"],
    tolerance_ns: int,
) -> ScaleEstimate | None:
    """Median ratio of measured depth to the depth of points that a picture sees, with its spread; None: too few.

    The depth camera sits beside the picture camera by a known number of metres, so a point's place in the depth image
    depends on the scale itself: z(s) = s (R p)_z + t_z at the pixel of s R p + t. It is solved by a few rounds, from
    the scale that no offset would give.

    Args:
        depth: Sensor depth in metres, on the reference camera's rig.
        trajectory: World_from_reference, in units of the reconstruction.
        points_in_world: Points of the map, same units.
        seen: Frame -> rows of ``points_in_world`` that it sees (-1: none).
        timestamps_ns: Of the reference camera's frames.
        tolerance_ns: A depth image belongs to a picture within this time.
    """
    depth_from_reference = se3.inverse(depth.reference_from_camera)
    frames = sorted(seen)
    chosen = frames[:: max(1, len(frames) // _PICTURES)]
    samples = []
    for frame in chosen:
        image = nearest_row(depth.timestamps_ns, int(timestamps_ns[frame]), tolerance_ns)
        pose = trajectory.nearest(int(timestamps_ns[frame]), 0)
        rows = np.unique(seen[frame][seen[frame] >= 0])
        if image is not None and pose is not None and len(rows):
            reference_from_world = se3.inverse(trajectory.world_from_body[pose])
            in_reference = se3.transform_points(reference_from_world, points_in_world[rows])
            turned = in_reference @ depth_from_reference[:3, :3].T
            samples.append((np.asarray(depth.frames.read(image)), turned))
    return _solved(depth, depth_from_reference[:3, 3], samples)


def _solved(
    depth: DepthStream, offset_m: Float[np.ndarray, "3"], samples: list[tuple[np.ndarray, np.ndarray]]
) -> ScaleEstimate | None:
    """Rounds of: where do the points fall at this scale, and which scale does the depth there ask for."""
    scale, ratios = 0.0, np.zeros(0)
    for i in range(_ROUNDS):
        lever = offset_m if i else np.zeros(3)  # the first round knows no scale: the direction alone
        ratios = np.concatenate(
            [_ratios(depth, image, points, lever, scale or 1.0) for image, points in samples] or [ratios]
        )
        if len(ratios) < _MIN_POINTS:
            return None
        scale = float(np.median(ratios))
    deviation = np.abs(ratios - scale)
    kept = ratios[deviation <= _MAD_KEPT * np.median(deviation)]
    return ScaleEstimate(scale, float(np.median(deviation) / scale), len(kept))


def _ratios(
    depth: DepthStream,
    image: np.ndarray,
    points: Float[np.ndarray, "F 3"],
    offset_m: Float[np.ndarray, "3"],
    scale: float,
) -> Float[np.ndarray, "R"]:
    """(measured z - t_z) / z of the points that fall on a pixel with depth."""
    projection = depth.camera.project(scale * points + offset_m)
    shown = projection.valid & depth.camera.in_image(projection.pixels_xy) & (points[:, 2] > 0)
    x, y = np.rint(projection.pixels_xy[shown]).astype(np.int64).T
    height, width = image.shape
    measured = image[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)].astype(np.float64)
    ratios = (measured - offset_m[2]) / points[shown, 2]
    return np.asarray(ratios[np.isfinite(ratios) & (ratios > 0)])
