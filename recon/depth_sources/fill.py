"""Provided depth where sensor, static scene and moving objects have none."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32

from geo.cameras import PinholeCamera
from geo.depth import sample_depth
from geo.recording import CanonicalRecording
from recon.depth_sources.align import AlignRules, Anchors, apply_fit, fit, point_anchors
from recon.depth_sources.records import DepthKind, DepthPrediction, FrameDepth
from recon.errors import ReconError
from recon.records import AlignmentOutcome, DepthAlignment, DepthFrame, DepthOrigin

_ANCHOR_STEP_PX = 4
_SURE_SHARE = 0.05  # a pixel is an anchor if its standard deviation is at most this share of its depth
_ANCHOR_ORIGINS = (DepthOrigin.STATIC, DepthOrigin.SENSOR, DepthOrigin.BOTH)


@dataclass(frozen=True)
class ProvidedDepth:
    """A source of depth for a recording, and what its values are aligned to besides the frame's own depth."""

    source: FrameDepth
    rules: AlignRules
    points_in_world: Float[np.ndarray, "P 3"] | None = None  # canonical world, used where the frame knows too little


@dataclass(frozen=True)
class Aligned:
    """A prediction as depth along +z, NaN = none (everywhere if it was refused)."""

    z_depth_m: Float32[np.ndarray, "h w"]
    sigma_m: Float32[np.ndarray, "h w"]
    alignment: DepthAlignment


def fill_frame(
    frame: DepthFrame,
    number: int,
    canonical: CanonicalRecording,
    camera: PinholeCamera,
    provided: ProvidedDepth,
) -> DepthFrame:
    """Put provided depth on the pixels of a fused frame that have none, with origin PROVIDED; the rest stays as it is.

    The prediction is aligned to the frame's own depth (static, sensor or both, where surer than 5 %), and to scene
    points as well where that gives too few anchors. ``alignment`` of the result says what became of it.

    Args:
        frame: Fused depth without the source.
        number: Of the frame in the recording.
        canonical: The recording.
        camera: Of ``frame``: the canonical camera resized.
        provided: The source.

    Raises:
        ReconError: metric depth for a recording whose scale is unknown; a prediction that cannot be read.
    """
    empty = (frame.origin == DepthOrigin.NONE) & small_valid_mask(canonical, camera)
    if not empty.any():
        return frame
    if not provided.source.has(number):
        return replace(frame, alignment=DepthAlignment(AlignmentOutcome.MISSING))
    anchors = frame_anchors(frame)
    pose = canonical.world_from_camera[number]
    points = provided.points_in_world
    if len(anchors.z_m) < provided.rules.min_anchors and points is not None and np.isfinite(pose).all():
        more = point_anchors(points, pose, camera)
        anchors = Anchors(np.concatenate([anchors.pixels_xy, more.pixels_xy]), np.concatenate([anchors.z_m, more.z_m]))
    prediction = provided.source.prediction(number)
    what = provided.source.name(number)
    check_scale(prediction.kind, canonical, what)
    own = prediction.camera_for(canonical.camera, what)
    found = aligned(prediction, own, anchors, camera, provided.rules)
    put = empty & np.isfinite(found.z_depth_m)
    return DepthFrame(
        np.where(put, found.z_depth_m, frame.z_depth_m),
        np.where(put, found.sigma_m, frame.sigma_m),
        np.where(put, np.uint8(DepthOrigin.PROVIDED), frame.origin),
        found.alignment,
    )


def check_scale(kind: DepthKind, canonical: CanonicalRecording, what: str) -> None:
    """Metric depth needs metric poses.

    Raises:
        ReconError: the recording's scale is unknown.
    """
    if kind is DepthKind.METRIC and not canonical.world.metric:
        raise ReconError(
            f"{what} is metric, but the scale of {canonical.recording_id} is unknown. State it as affine_depth: it is "
            "then aligned to what is known of each frame."
        )


def frame_anchors(frame: DepthFrame) -> Anchors:
    """Every fourth pixel in both directions whose depth is sure."""
    rows, cols = (slice(_ANCHOR_STEP_PX // 2, None, _ANCHOR_STEP_PX) for _ in range(2))
    z, sigma, origin = frame.z_depth_m[rows, cols], frame.sigma_m[rows, cols], frame.origin[rows, cols]
    with np.errstate(invalid="ignore"):
        sure = np.isin(origin, [int(kind) for kind in _ANCHOR_ORIGINS]) & (sigma <= _SURE_SHARE * z)
    v, u = np.nonzero(sure)
    pixels = np.stack([u, v], axis=1) * float(_ANCHOR_STEP_PX) + _ANCHOR_STEP_PX // 2
    return Anchors(pixels, z[sure].astype(np.float64))


def aligned(
    prediction: DepthPrediction,
    prediction_camera: PinholeCamera,
    anchors: Anchors,
    camera: PinholeCamera,
    rules: AlignRules,
) -> Aligned:
    """A prediction aligned to anchors and seen from ``camera`` (same place and axes as the prediction's)."""
    values = prediction.cleaned()
    at = _pixels_in(prediction_camera, camera, anchors.pixels_xy)
    found = fit(_nearest(values, at), anchors, prediction.kind, rules, camera.size_wh_px)
    if not found.used:
        nan = np.full((camera.height_px, camera.width_px), np.nan, dtype=np.float32)
        return Aligned(nan, nan.copy(), found.alignment)
    z, sigma = apply_fit(values, prediction.sigma, prediction.kind, found)
    if prediction_camera == camera:
        return Aligned(z, sigma, found.alignment)
    grid = _pixels_in(prediction_camera, camera, camera.pixel_grid())
    seen = sample_depth(z, grid).astype(np.float32)
    error = np.where(np.isfinite(seen), _nearest(sigma, grid), np.nan).astype(np.float32)
    return Aligned(seen, error, found.alignment)


def _pixels_in(
    prediction_camera: PinholeCamera, camera: PinholeCamera, pixels_xy: Float[np.ndarray, "*batch 2"]
) -> Float[np.ndarray, "*batch 2"]:
    """Where pixels of ``camera`` lie on the prediction: same optical centre and axes."""
    return prediction_camera.project(camera.normalised_points(pixels_xy)).pixels_xy


def _nearest(image: Float[np.ndarray, "h w"], pixels_xy: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch"]:
    """Value of the nearest pixel; NaN outside."""
    height, width = image.shape
    at = np.floor(pixels_xy + 0.5)
    inside = (at >= 0).all(axis=-1) & (at[..., 0] < width) & (at[..., 1] < height)
    u, v = (np.where(inside, at[..., axis], 0).astype(np.int64) for axis in range(2))
    return np.where(inside, image[v, u], np.nan).astype(np.float64)


def small_valid_mask(canonical: CanonicalRecording, camera: PinholeCamera) -> Bool[np.ndarray, "h w"]:
    """Pixels of the depth image that show a source pixel."""
    height, width = canonical.valid_mask.shape
    rows = (np.arange(camera.height_px) * height) // camera.height_px
    cols = (np.arange(camera.width_px) * width) // camera.width_px
    return np.asarray(canonical.valid_mask[rows][:, cols])
