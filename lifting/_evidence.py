"""Does a frame agree that an object still lies where its point model says?"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from geo import se3
from lifting._cloud import VoxelCloud
from lifting._pixels import dilate, shifted
from lifting.config import LiftConfig
from lifting.observe import FrameView, Observation

_MODEL_SAMPLE = 400


@dataclass(frozen=True)
class Evidence:
    """Shares between 0 and 1.

    ``known``: of the model's points, how many could be checked (in view, depth there, nothing in front).
    ``empty``: of these, how many the camera looks through. ``unmasked``: of these, how many lie outside the mask.
    ``new``: of the observed points, how many are not on the model (NaN without observation).
    """

    known: float
    empty: float
    unmasked: float
    new: float


@dataclass
class SeenDepth:
    """Depth of a frame with its 3x3 minimum, made once per frame."""

    view: FrameView
    z_m: Float[np.ndarray, "h w"]
    z_min_m: Float[np.ndarray, "h w"]

    @staticmethod
    def of(view: FrameView) -> "SeenDepth":
        """Prepare a frame."""
        depth = view.surface_z_m().astype(np.float32)
        smallest = depth.copy()
        for dv in (-1, 0, 1):
            for du in (-1, 0, 1):
                if dv or du:
                    smallest = np.fmin(smallest, shifted(depth, dv, du, np.nan))
        return SeenDepth(view, depth, smallest)


def weigh(
    cloud: VoxelCloud,
    seen: SeenDepth,
    mask: Bool[np.ndarray, "h w"] | None,
    observation: Observation | None,
    slack_m: float,
    config: LiftConfig,
) -> Evidence:
    """Compare a resting model with a frame. ``slack_m``: what pose drift may have moved since the model was made."""
    known, empty, unmasked = _look_through(cloud, seen, mask, slack_m, config)
    new = float("nan")
    if observation is not None:
        noise = config.depth_noise_m(observation.distance_m)
        far = cloud.distances(observation.points_in_world) > config.rest_tolerance_m + 2 * noise + slack_m
        new = float(far.mean())
    return Evidence(known, empty, unmasked, new)


def _look_through(
    cloud: VoxelCloud, seen: SeenDepth, mask: Bool[np.ndarray, "h w"] | None, slack_m: float, config: LiftConfig
) -> tuple[float, float, float]:
    points = cloud.means[cloud.agreed()]
    if len(points) > _MODEL_SAMPLE:
        points = points[:: len(points) // _MODEL_SAMPLE + 1]
    view = seen.view
    in_camera = se3.transform_points(se3.inverse(view.world_from_camera), points)
    projection = view.camera.project(in_camera)
    inside = projection.valid & view.camera.in_image(np.nan_to_num(projection.pixels_xy, nan=-9.0))
    if not inside.any():
        return 0.0, 0.0, 0.0
    z = in_camera[inside, 2]
    columns = np.clip(np.rint(projection.pixels_xy[inside, 0]).astype(int), 0, view.camera.width_px - 1)
    rows = np.clip(np.rint(projection.pixels_xy[inside, 1]).astype(int), 0, view.camera.height_px - 1)
    off = np.maximum(0.0, z - config.depth_sigma_reference_m)
    noise = config.depth_sigma_m + config.depth_sigma_growth_per_m * off * off
    margin = config.see_through_m + 2.5 * noise + slack_m
    measured, smallest = seen.z_m[rows, columns], seen.z_min_m[rows, columns]
    measured = np.where(np.isfinite(measured), measured, smallest)
    with np.errstate(invalid="ignore"):
        hidden = measured < z - margin
        visible = np.isfinite(smallest) & ~hidden
        empty = visible & (smallest > z + margin)
    count = int(visible.sum())
    if count == 0:
        return 0.0, 0.0, 0.0
    outside = visible if mask is None else visible & ~dilate(mask)[rows, columns]
    return count / len(points), float(empty.sum() / count), float(outside.sum() / count)
