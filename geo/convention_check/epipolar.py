"""Points seen in two pictures against poses and cameras: where can the second view of a point lie?

A point on a ray of the first camera, at any distance in front of it, is seen by the second one somewhere on an arc of a
great circle: from the direction of the ray itself (infinitely far) to that of the first camera's centre (distance
zero). The angle between what was seen and this arc is the residual, in pixels by the focal length. It knows no scale;
unlike the epipolar line alone it knows in front from behind.

Source: Hartley & Zisserman (2004), section 9.2, on the unit sphere.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import Camera
from geo.convention_check.features import Features, Matches
from geo.convention_check.pairs import frame_pairs, posed_rows, poses_of
from geo.convention_check.records import Measured
from geo.recording import CameraStream, Recording

UNIT = "px"
LIMIT_PX = 100.0
_FLOOR_PX = 0.02
_INLIER_PX = 3.0
_FEW_PAIRS = 8
_LEAST_BASE = 1e-9


def arc_angle(
    rays_a: Float[np.ndarray, "K 3"], rays_b: Float[np.ndarray, "K 3"], b_from_a: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "K"]:
    """Angle in radians between each ray of b and the arc on which the points of a's ray can be seen from b."""
    far = rays_a @ b_from_a[:3, :3].T
    to_far = _angle(rays_b, far)
    base = float(np.linalg.norm(b_from_a[:3, 3]))
    if base < _LEAST_BASE:
        return to_far
    near = np.broadcast_to(b_from_a[:3, 3] / base, far.shape)
    normal = np.cross(far, near)
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        normal = normal / length
    off = np.einsum("ki,ki->k", rays_b, normal)
    along = np.arctan2(np.einsum("ki,ki->k", rays_b, np.cross(normal, far)), np.einsum("ki,ki->k", rays_b, far))
    on_arc = (length[:, 0] > 1e-12) & (along >= 0) & (along <= _angle(far, near))
    with np.errstate(invalid="ignore"):
        beside = np.abs(np.arcsin(np.clip(off, -1, 1)))
    return np.asarray(np.where(on_arc, beside, np.minimum(to_far, _angle(rays_b, near))))


def residual_px(
    matches: Matches, camera_a: Camera, camera_b: Camera, b_from_a: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "K"]:
    """Angles to the arcs, in both directions the larger, in pixels of the second camera's centre; NaN: no ray."""
    rays_a, rays_b = camera_a.unproject(matches.pixels_a), camera_b.unproject(matches.pixels_b)
    both = rays_a.valid & rays_b.valid
    out = np.full(len(both), np.nan)
    if np.isfinite(b_from_a).all():
        a, b = rays_a.directions[both], rays_b.directions[both]
        out[both] = np.maximum(arc_angle(a, b, b_from_a), arc_angle(b, a, se3.inverse(b_from_a)))
    return out * float(camera_b.params[:2].mean())


def typical_px(errors_px: Float[np.ndarray, "K"]) -> float:
    """Median, between the floor and the limit; the limit where less than half of the points have rays."""
    known = errors_px[np.isfinite(errors_px)]
    if len(known) < max(1, len(errors_px) // 2):
        return LIMIT_PX
    return float(np.clip(np.median(known), _FLOOR_PX, LIMIT_PX))


@dataclass(frozen=True)
class PicturePairs:
    """Points matched between pictures of one camera at different times."""

    matches: tuple[Matches, ...]

    def measure(self, recording: Recording) -> Measured:
        """Residuals of a reading: median per pair of pictures (and quarter of the first one, where pairs are few)."""
        stream = next(s for s in (recording.reference, *recording.others) if s.name == self.matches[0].video_a)
        few = len(self.matches) < _FEW_PAIRS
        residuals: list[float] = []
        clusters: list[int] = []
        inliers, total = 0, 0
        for number, found in enumerate(self.matches):
            b_from_a = relative_pose(recording, stream, found.row_a, stream, found.row_b)
            errors = residual_px(found, stream.camera, stream.camera, b_from_a)
            inliers, total = inliers + int((errors < _INLIER_PX).sum()), total + len(errors)
            for part, chosen in enumerate(
                _quarters(found.pixels_a, stream.camera) if few else [np.ones(len(errors)) > 0]
            ):
                if chosen.sum() >= 5:
                    residuals.append(typical_px(errors[chosen]))
                    clusters.append(4 * number + part)
        return Measured(np.array(residuals), np.array(clusters, dtype=np.int64), inliers / max(total, 1))


def picture_pairs(recording: Recording, features: Features) -> PicturePairs | None:
    """Match pictures of the reference camera; None if no pair of them has enough points in common."""
    stream = recording.reference
    rows = posed_rows(recording.trajectory, stream.timestamps_ns)
    pairs = rows[frame_pairs(stream.timestamps_ns[rows])]
    found = [features.matches(stream.name, int(a), stream.name, int(b)) for a, b in pairs]
    kept = tuple(matches for matches in found if matches is not None)
    return PicturePairs(kept) if kept else None


def relative_pose(
    recording: Recording, stream_a: CameraStream, row_a: int, stream_b: CameraStream, row_b: int
) -> Float[np.ndarray, "4 4"]:
    """Camera b at its time from camera a at its time; NaN without a pose. At one time no pose is needed."""
    stamps: Int64[np.ndarray, "2"] = np.array([stream_a.timestamps_ns[row_a], stream_b.timestamps_ns[row_b]])
    b_from_rig, rig_from_a = se3.inverse(stream_b.reference_from_camera), stream_a.reference_from_camera
    if stamps[0] == stamps[1]:
        return np.asarray(b_from_rig @ rig_from_a)
    world_from_rig = poses_of(recording.trajectory, stamps)
    return np.asarray(b_from_rig @ se3.inverse(world_from_rig[1]) @ world_from_rig[0] @ rig_from_a)


def _quarters(pixels: Float[np.ndarray, "K 2"], camera: Camera) -> list[np.ndarray]:
    quarter = 2 * (pixels[:, 1] > camera.height_px / 2) + (pixels[:, 0] > camera.width_px / 2)
    return [quarter == part for part in range(4)]


def _angle(a: Float[np.ndarray, "K 3"], b: Float[np.ndarray, "K 3"]) -> Float[np.ndarray, "K"]:
    return np.asarray(2 * np.arcsin(np.clip(np.linalg.norm(a - b, axis=-1) / 2, 0, 1)))
