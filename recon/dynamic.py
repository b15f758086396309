"""What may move, from 2D evidence alone: sensor depth seen through by other frames, hands, prompts.

A point that a frame's depth sensor saw is *seen through* by another frame whose own depth there is clearly larger:
one of the two moments has something where the other has air. A point hidden in the other frame says nothing. Points
of the static scene are confirmed by nearly all frames that can tell; a carried object, a hand, or an object that
rests at different places over the recording is seen through by many.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from geo import se3
from geo.cameras import PinholeCamera
from geo.recording import CanonicalRecording
from geo.world import World
from recon.config import ReconstructConfig
from recon.errors import ReconError
from recon.records import DynamicMasks
from recon.sensor import SensorNoise
from recon.survey import Survey

_MIN_TOLERANCE_M = 0.02
_TOLERANCE_SIGMAS = 3.0
_POSE_ANGLE_RAD = 0.004  # pose noise and pixel size blur comparisons by about this angle on slanted surfaces
_BLIND_PX = 2  # without any sensor depth this near, a pixel is out of the sensor's sight
_ELBOW_BELOW_M, _ELBOW_ASIDE_M = 0.45, 0.28
_ARM_THICKER = 1.5
_MIN_REGION_PX = 3  # smaller specks are sensor noise


@dataclass(frozen=True)
class PromptRegion:
    """A neighbourhood that somebody pointed at as movable: canonical pixels of one frame."""

    frame: int
    center_xy_px: tuple[float, float]
    radius_px: float


@dataclass(frozen=True)
class Votes:
    """Per pixel of a frame: how many other frames confirm its depth, and how many see through it."""

    confirming: Float32[np.ndarray, "h w"]
    through: Float32[np.ndarray, "h w"]


def estimate_dynamic(
    canonical: CanonicalRecording,
    survey: Survey,
    config: ReconstructConfig,
    prompts: Sequence[PromptRegion] = (),
    noise: SensorNoise | None = None,
) -> DynamicMasks:
    """Masks of what may move, one per frame, at the survey's size.

    Frames without a pose are masked whole: nothing about them can be trusted as static. Without sensor depth only
    hands and prompts are left.

    Raises:
        ReconError: a prompt names a frame that does not exist.
    """
    noise = noise or SensorNoise()
    masks = np.zeros(survey.gray.shape, dtype=bool)
    poses = canonical.world_from_camera
    pool = reference_frames(survey, canonical.pose_valid)
    clouds = _ReferenceDepth(survey, poses, pool)
    for frame in range(len(masks)):
        if not canonical.pose_valid[frame]:
            masks[frame] = True
            continue
        votes = clouds.votes(frame, config, noise)
        through = (votes.through >= config.dynamic_min_violations) & (
            votes.through >= config.dynamic_violation_share * (votes.through + votes.confirming)
        )
        masks[frame] = _widen(_without_specks(through), config.dynamic_margin_px)
    masks |= _trails(masks, survey, poses, config)
    for frame in np.flatnonzero(canonical.pose_valid).tolist():
        elbows = likely_elbows(poses[frame], canonical.world)
        for side, joints in _joints_at(canonical, frame):
            masks[frame] |= hand_region(joints, survey.camera, poses[frame], config, elbows.get(side))
    for prompt in prompts:
        _mark_prompt(masks, prompt, canonical)
    return DynamicMasks(masks)


def reference_frames(survey: Survey, pose_valid: Bool[np.ndarray, "N"], most: int = 96) -> Int64[np.ndarray, "R"]:
    """Frames with pose and depth, evenly spread over the recording."""
    with_depth = np.isfinite(survey.z_depth_m).mean(axis=(1, 2)) > 0.02
    frames = np.flatnonzero(with_depth & pose_valid)
    if len(frames) <= most:
        return frames
    picked = np.linspace(0, len(frames) - 1, most).round().astype(np.int64)
    return frames[np.unique(picked)]


class _ReferenceDepth:
    """Depth of the reference frames with its local minimum and maximum, ready to be compared with."""

    def __init__(
        self, survey: Survey, world_from_camera: Float[np.ndarray, "N 4 4"], pool: Int64[np.ndarray, "R"]
    ) -> None:
        self.camera = survey.camera
        self.survey = survey
        self.poses = world_from_camera
        self.pool = pool
        self.z = survey.z_depth_m[pool]
        self.nearest = _local_extreme(self.z, np.fmin)
        self.farthest = _local_extreme(self.z, np.fmax)
        self.rays = self.camera.normalised_points(self.camera.pixel_grid()).astype(np.float32)

    def votes(self, frame: int, config: ReconstructConfig, noise: SensorNoise) -> Votes:
        """Compare a frame's depth with the references that look at the same place."""
        z = self.survey.z_depth_m[frame]
        confirming, through = np.zeros(z.shape, np.float32), np.zeros(z.shape, np.float32)
        rows, cols = np.nonzero(np.isfinite(z))
        if not len(rows) or not len(self.pool):
            return Votes(confirming, through)
        points = se3.transform_points(self.poses[frame], self.rays[rows, cols] * z[rows, cols, None])
        for reference in self._overlapping(frame, points, config.dynamic_references):
            yes, no = self._compare(reference, points, noise)
            confirming[rows, cols] += yes
            through[rows, cols] += no
        return Votes(confirming, through)

    def _overlapping(self, frame: int, points_in_world: Float[np.ndarray, "P 3"], most: int) -> list[int]:
        """Pool entries that see some of the points, evenly thinned in time; never the frame itself."""
        sample = points_in_world[:: max(1, len(points_in_world) // 64)]
        seeing = []
        for entry, other in enumerate(self.pool):
            if other == frame:
                continue
            pixels = self.camera.project(se3.transform_points(se3.inverse(self.poses[other]), sample)).pixels_xy
            if self.camera.in_image(pixels).mean() > 0.1:
                seeing.append(entry)
        if len(seeing) <= most:
            return seeing
        return [seeing[i] for i in np.unique(np.linspace(0, len(seeing) - 1, most).round().astype(int))]

    def _compare(
        self, entry: int, points_in_world: Float[np.ndarray, "P 3"], noise: SensorNoise
    ) -> tuple[Bool[np.ndarray, "P"], Bool[np.ndarray, "P"]]:
        """Which points a reference confirms, and which it sees through."""
        points = se3.transform_points(se3.inverse(self.poses[self.pool[entry]]), points_in_world)
        projected = self.camera.project(points)
        inside = projected.valid & self.camera.in_image(projected.pixels_xy)
        pixels = np.rint(np.where(inside[:, None], projected.pixels_xy, 0.0)).astype(np.int64)
        u = np.clip(pixels[:, 0], 0, self.camera.width_px - 1)
        v = np.clip(pixels[:, 1], 0, self.camera.height_px - 1)
        z = points[:, 2]
        near, far = self.nearest[entry, v, u], self.farthest[entry, v, u]
        with np.errstate(invalid="ignore"):
            tolerance = tolerance_m(np.fmax(z, self.z[entry, v, u]), noise)
            through = inside & (near > z + tolerance)
            confirming = inside & (near <= z + tolerance) & (far >= z - tolerance)
        return confirming, through


def tolerance_m(z_depth_m: Float[np.ndarray, "*N"], noise: SensorNoise) -> Float[np.ndarray, "*N"]:
    """Differences of depth below this are noise of sensor and pose."""
    spread = _TOLERANCE_SIGMAS * np.sqrt(2.0) * noise.sigma_m(z_depth_m)
    return np.asarray(np.maximum(_MIN_TOLERANCE_M, np.hypot(spread, _POSE_ANGLE_RAD * z_depth_m)))


def hand_region(
    joints_in_world: Float[np.ndarray, "21 3"],
    camera: PinholeCamera,
    world_from_camera: Float[np.ndarray, "4 4"],
    config: ReconstructConfig,
    elbow_in_world: Float[np.ndarray, "3"] | None = None,
) -> Bool[np.ndarray, "h w"]:
    """Mask of a hand and its forearm: the bones, drawn as thick as they look, and on from the wrist to the elbow.

    Where the elbow is not known (``likely_elbows``), the forearm goes on away from the middle knuckle.
    """
    import cv2

    mask = np.zeros((camera.height_px, camera.width_px), dtype=np.uint8)
    if not np.isfinite(joints_in_world[0]).all():
        return mask.astype(bool)
    wrist, knuckle = joints_in_world[0], joints_in_world[9]
    arm = wrist - knuckle if elbow_in_world is None else elbow_in_world - wrist
    length = np.linalg.norm(arm)
    arm_joints = [wrist]
    if np.isfinite(length) and length > 1e-3:
        steps = np.linspace(0, config.arm_length_m, 12)[1:]
        arm_joints += [wrist + arm / length * step for step in steps]
    chains = [joints_in_world[[0, *range(1 + 4 * finger, 5 + 4 * finger)]] for finger in range(5)]
    camera_from_world = se3.inverse(world_from_camera)
    for chain in chains:
        _draw_chain(mask, se3.transform_points(camera_from_world, chain), camera, config.hand_radius_m, cv2)
    # the arm is thicker, and where its elbow is, is a guess
    arm_in_camera = se3.transform_points(camera_from_world, np.array(arm_joints))
    _draw_chain(mask, arm_in_camera, camera, _ARM_THICKER * config.hand_radius_m, cv2)
    return mask.astype(bool)


def _draw_chain(
    mask: np.ndarray, chain_in_camera: Float[np.ndarray, "J 3"], camera: PinholeCamera, radius_m: float, cv2: object
) -> None:
    """Draw the links of a chain that are in front of the camera."""
    focal = float(np.sqrt(camera.fx_px * camera.fy_px))
    for start, end in itertools.pairwise(chain_in_camera):
        if not (np.isfinite(start).all() and np.isfinite(end).all()) or min(start[2], end[2]) < 0.05:
            continue
        pixels = camera.project(np.stack([start, end])).pixels_xy
        if np.abs(pixels).max() > 20 * (camera.width_px + camera.height_px):
            continue
        thickness = max(1, round(2 * radius_m * focal / float((start[2] + end[2]) / 2)))
        a, b = (tuple(round(float(value)) for value in pixel) for pixel in pixels)
        cv2.line(mask, a, b, 1, thickness=min(thickness, mask.shape[1]))  # type: ignore[attr-defined]


def likely_elbows(world_from_camera: Float[np.ndarray, "4 4"], world: World) -> dict[str, Float[np.ndarray, "3"]]:
    """A wearer's likely elbows: 28 cm to the side of the eyes and 45 cm below them (along gravity if known)."""
    down = np.array([0.0, 0.0, -1.0]) if world.has_up else world_from_camera[:3, 1]
    right = world_from_camera[:3, 0] - (world_from_camera[:3, 0] @ down) * down
    right = right / max(float(np.linalg.norm(right)), 1e-6)
    below = world_from_camera[:3, 3] + _ELBOW_BELOW_M * down
    return {"right": below + _ELBOW_ASIDE_M * right, "left": below - _ELBOW_ASIDE_M * right}


def _trails(
    masks: Bool[np.ndarray, "N h w"], survey: Survey, poses: Float[np.ndarray, "N 4 4"], config: ReconstructConfig
) -> Bool[np.ndarray, "N h w"]:
    """Pixels out of the sensor's sight onto which masked points of the frames around fall, widened by one pixel.

    The sensor sees less than the picture; what left its view a moment ago is still about. Small holes are no matter.
    """
    out = np.zeros_like(masks)
    rays = survey.camera.normalised_points(survey.camera.pixel_grid())
    clouds: list[np.ndarray | None] = []
    for frame, mask in enumerate(masks):
        use = mask & np.isfinite(survey.z_depth_m[frame])
        known = np.isfinite(poses[frame]).all() and use.any()
        clouds.append(
            se3.transform_points(poses[frame], rays[use] * survey.z_depth_m[frame][use][:, None]) if known else None
        )
    reach = config.dynamic_trail_frames
    for frame in range(len(masks)):
        near = [cloud for cloud in clouds[max(0, frame - reach) : frame + reach + 1] if cloud is not None]
        if not near or not np.isfinite(poses[frame]).all():
            continue
        projected = survey.camera.project(se3.transform_points(se3.inverse(poses[frame]), np.concatenate(near)))
        inside = projected.valid & survey.camera.in_image(projected.pixels_xy)
        pixels = np.rint(projected.pixels_xy[inside]).astype(np.int64)
        u = np.clip(pixels[:, 0], 0, survey.camera.width_px - 1)
        v = np.clip(pixels[:, 1], 0, survey.camera.height_px - 1)
        out[frame, v, u] = True
        out[frame] = _widen(out[frame], 1) & ~_widen(np.isfinite(survey.z_depth_m[frame]), _BLIND_PX)
    return out


def _joints_at(canonical: CanonicalRecording, frame: int) -> list[tuple[str, Float[np.ndarray, "21 3"]]]:
    """Side and joints of every hand seen within 60 ms of a frame."""
    out = []
    stamp = int(canonical.timestamps_ns[frame])
    for hand in canonical.hands:
        joints = hand.joints_at(stamp)
        if joints is not None:
            out.append((hand.side, joints))
    return out


def _mark_prompt(masks: np.ndarray, prompt: PromptRegion, canonical: CanonicalRecording) -> None:
    if not 0 <= prompt.frame < len(masks):
        raise ReconError(
            f"a prompt names frame {prompt.frame}, but {canonical.recording_id} has frames 0 to {len(masks) - 1}"
        )
    height, width = masks.shape[1:]
    scale_x, scale_y = width / canonical.camera.width_px, height / canonical.camera.height_px
    v, u = np.mgrid[0:height, 0:width]
    x, y = (u + 0.5) / scale_x - 0.5, (v + 0.5) / scale_y - 0.5
    distance = np.hypot(x - prompt.center_xy_px[0], y - prompt.center_xy_px[1])
    masks[prompt.frame] |= distance <= max(prompt.radius_px, 0.5 / min(scale_x, scale_y))


def _local_extreme(images: Float32[np.ndarray, "R h w"], pick: np.ufunc) -> Float32[np.ndarray, "R h w"]:
    """Minimum or maximum over the 3x3 neighbourhood, NaN ignored unless all are NaN."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    height, width = images.shape[1:]
    out = images.copy()
    for dv in range(3):
        for du in range(3):
            pick(out, padded[:, dv : dv + height, du : du + width], out=out)
    return out


def _without_specks(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Drop 8-connected regions of fewer than three pixels."""
    from scipy import ndimage

    labels, count = ndimage.label(mask, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    sizes[0] = 0
    return np.asarray(sizes[labels] >= _MIN_REGION_PX)


def _widen(mask: Bool[np.ndarray, "h w"], margin_px: int) -> Bool[np.ndarray, "h w"]:
    """Dilate by a square margin."""
    from scipy import ndimage

    if margin_px == 0 or not mask.any():
        return mask
    return np.asarray(ndimage.binary_dilation(mask, structure=np.ones((3, 3)), iterations=margin_px))
