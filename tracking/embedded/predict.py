"""Where a remembered object should appear in a frame, and what the frame says to that."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int32

from tracking.embedded._kernels import splat
from tracking.embedded.frames import Crop, FrameStore, Roi, make_roi
from tracking.embedded.model import ObjectModel
from tracking.embedded.plane import sensor_sigma_m

_DISC_SHARE = 0.35  # radius of a point's disc over the voxel
_GAP_SHARE = 0.6  # gaps of this many voxels between points are closed


@dataclass(frozen=True)
class Prediction:
    """The object's surface as it should appear in a crop under one pose hypothesis."""

    world_from_object: Float[np.ndarray, "4 4"]
    z_m: Float32[np.ndarray, "h w"]  # inf where the object should not be
    index: Int32[np.ndarray, "h w"]  # into the model's points
    in_image: float  # share of the object's points on valid pixels

    @property
    def mask(self) -> Bool[np.ndarray, "h w"]:
        """Where the object should appear if nothing hid it."""
        return np.asarray(self.index >= 0)


@dataclass(frozen=True)
class Agreement:
    """Pixels of a prediction, sorted by what the sensor and the colours say."""

    confirmed: int  # depth as predicted
    vacated: int  # the sensor sees through the predicted place
    occluded: int  # something nearer
    unknown: int  # no depth
    colour_right: float  # share of the confirmed and unknown pixels whose colour fits
    gain: float  # log brightness of the frame over the model's

    @property
    def total(self) -> int:
        """All predicted pixels."""
        return self.confirmed + self.vacated + self.occluded + self.unknown

    @property
    def score(self) -> float:
        """-1..1: confirmed counts for, vacated and wrongly coloured pixels against the hypothesis."""
        if self.total == 0:
            return 0.0
        good = (self.confirmed + 0.5 * self.unknown) * (2.0 * self.colour_right - 1.0)
        return (good - self.vacated) / self.total

    @property
    def hidden_share(self) -> float:
        """Share of the predicted pixels that something nearer covers."""
        return self.occluded / self.total if self.total else 0.0


def roi_of(
    store: FrameStore, model: ObjectModel, world_from_object: Float[np.ndarray, "4 4"], frame: int, max_side_px: int
) -> tuple[Roi | None, float]:
    """A crop around the projected object, and the share of its points on valid pixels."""
    pose = store.pose(frame)
    assert pose is not None
    points = model.points_in_object[model.trusted].astype(np.float64)
    points = points @ world_from_object[:3, :3].T + world_from_object[:3, 3]
    in_camera = (points - pose[:3, 3]) @ pose[:3, :3]
    projection = store.canonical.camera.project(in_camera)
    pixels = projection.pixels_xy[projection.valid & (in_camera[:, 2] > 0.05)]
    if len(pixels) == 0:
        return None, 0.0
    inside = store.canonical.camera.in_image(pixels)
    at = np.rint(pixels[inside]).astype(int)
    on_valid = store.canonical.valid_mask[at[:, 1], at[:, 0]]
    share = float(on_valid.sum()) / max(1, len(points))
    low, high = np.percentile(pixels, [1, 99], axis=0)
    half = (high - low) / 2
    pad = 10 + 0.45 * float(half.max())
    center = (low + high) / 2
    return make_roi((center[0], center[1]), (half[0] + pad, half[1] + pad), store.image_wh, max_side_px), share


def draw_surface(
    pixels_xy: Float[np.ndarray, "K 2"], z_m: Float[np.ndarray, "K"], voxel_m: float, crop: Crop
) -> tuple[Float32[np.ndarray, "h w"], Int32[np.ndarray, "h w"]]:
    """Draw voxel means as small discs and close the gaps between them, so that the outline does not grow.

    Returns depth (inf = nothing) and the index of the point seen (-1 = nothing).
    """
    import cv2

    size_px = voxel_m * crop.camera.fx_px / np.maximum(z_m, 0.05)
    depth, index = splat(pixels_xy, z_m, np.maximum(0.75, _DISC_SHARE * size_px), crop.size_hw)
    if len(z_m) == 0:
        return depth, index
    width = int(np.clip(2 * round(_GAP_SHARE * float(np.median(size_px))) + 1, 3, 15))
    kernel = np.ones((width, width), np.uint8)
    seen = (index >= 0).astype(np.uint8)
    closed = cv2.morphologyEx(np.pad(seen, width), cv2.MORPH_CLOSE, kernel)[width:-width, width:-width] > seen
    if closed.any():
        filled = cv2.erode(depth, kernel)
        near = cv2.dilate(index.astype(np.float32), kernel).astype(np.int32)
        use = closed & np.isfinite(filled) & (near >= 0)
        depth, index = np.where(use, filled, depth), np.where(use, near, index)
    return depth, index


def predict(
    crop: Crop,
    model: ObjectModel,
    world_from_object: Float[np.ndarray, "4 4"],
    camera_pose: Float[np.ndarray, "4 4"],
    in_image: float = 1.0,
) -> Prediction:
    """Project the trusted points; see ``draw_surface``."""
    chosen = np.flatnonzero(model.trusted)
    camera_from_object = np.linalg.inv(camera_pose) @ world_from_object
    points = model.points_in_object[chosen] @ camera_from_object[:3, :3].T + camera_from_object[:3, 3]
    front = points[:, 2] > 0.05
    chosen, points = chosen[front], points[front]
    u = crop.camera.fx_px * points[:, 0] / points[:, 2] + crop.camera.cx_px
    v = crop.camera.fy_px * points[:, 1] / points[:, 2] + crop.camera.cy_px
    depth, index = draw_surface(np.stack([u, v], -1), points[:, 2], model.voxel_m, crop)
    known = index >= 0
    full = np.full(index.shape, -1, np.int32)
    full[known] = chosen[index[known]]
    return Prediction(world_from_object, depth, full, in_image)


def tolerance_m(z_m: np.ndarray) -> np.ndarray:
    """How far sensor and prediction may lie apart: noise, pose drift, and the model's grain."""
    return np.asarray(0.012 + 2.5 * sensor_sigma_m(z_m))


def compare(crop: Crop, prediction: Prediction, model: ObjectModel, gain: float | None = None) -> Agreement:
    """Sort the predicted pixels by what is seen there; colours up to one common gain in brightness."""
    inside = prediction.mask & crop.valid
    sensor, expected = crop.z_m[inside], prediction.z_m[inside]
    residual = sensor - expected
    limit = tolerance_m(expected)
    hidden = np.zeros(len(residual), bool) if crop.on_hand is None else crop.on_hand[inside]
    known = np.isfinite(residual) & ~hidden
    confirmed = known & (np.abs(residual) <= limit)
    vacated, occluded = known & (residual > limit), hidden | (known & (residual < -limit))
    visible = confirmed | ~(known | hidden)
    colours, wanted = crop.features[inside], model.features[prediction.index[inside]]
    if gain is None:
        gain = float(np.median(colours[visible, 0] - wanted[visible, 0])) if visible.any() else 0.0
        gain = float(np.clip(gain, -0.7, 0.7))
    delta = np.abs(colours[visible] - wanted[visible] - np.array([gain, 0, 0], np.float32))
    right = (delta[:, 0] < 0.45) & (delta[:, 1] < 0.3) & (delta[:, 2] < 0.3)
    return Agreement(
        int(confirmed.sum()),
        int(vacated.sum()),
        int(occluded.sum()),
        int((~(known | hidden)).sum()),
        float(right.mean()) if len(right) else 0.5,
        gain,
    )
