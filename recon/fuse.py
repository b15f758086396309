"""The depth stage: static render, sensor and moving objects to one depth per pixel, with sigma and origin."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from geo.recording import CanonicalRecording
from recon.depth_config import DepthConfig
from recon.depth_sources import ProvidedDepth, fill_frame
from recon.errors import ReconError
from recon.holes import fill_between
from recon.records import DepthFrame, DepthOrigin, MovingDepth, Reconstruction
from recon.render import surface_depth
from recon.scene_depth import SceneDepth
from recon.survey import Progress, small_camera

__all__ = ["DepthConfig", "combine", "fuse_frame", "fuse_frames", "object_patch"]


def fuse_frames(
    canonical: CanonicalRecording,
    reconstruction: Reconstruction,
    moving: MovingDepth | None = None,
    config: DepthConfig | None = None,
    *,
    start: int = 0,
    stop: int | None = None,
    progress: Progress | None = None,
    provided: ProvidedDepth | None = None,
) -> Iterator[DepthFrame]:
    """Depth of frames ``start`` to ``stop`` (all by default), one at a time: memory does not grow with their number.

    Every frame stands alone, so a range can be computed again, or in parts, with the same result. ``provided`` depth (a
    folder: ``DepthConfig.provided``; the user's network: ``recon.depth_sources.NetworkDepth``) fills what is left.

    Raises:
        ReconError: the range lies outside the recording; provided depth cannot be read or does not fit.
    """
    config = config or DepthConfig()
    count = len(canonical.timestamps_ns)
    stop = count if stop is None else stop
    if not 0 <= start <= stop <= count:
        raise ReconError(f"frames {start} to {stop} asked for, but {canonical.recording_id} has {count} frames")
    scene = SceneDepth(
        canonical,
        reconstruction,
        small_camera(canonical.camera, config.width_px),
        cache_frames=1,
        sensor_tolerance_ms=config.sensor_tolerance_ms,
        sensor_range_m=(config.min_sensor_z_m, config.max_sensor_z_m),
    )
    for frame in range(start, stop):
        fused = fuse_frame(scene, frame, moving, config)
        yield fused if provided is None else fill_frame(fused, frame, canonical, scene.camera, provided)
        if progress is not None:
            progress(frame + 1 - start, stop - start, "depth")


def fuse_frame(scene: SceneDepth, frame: int, moving: MovingDepth | None, config: DepthConfig) -> DepthFrame:
    """Depth of one frame.

    * Where static and sensor agree: both, by inverse variance.
    * Where something may move (masks, or a region where the sensor contradicts the static model): the sensor; its
      holes are filled between pixels of the moving thing, else they have no depth. Never the background's.
    * Elsewhere: whichever there is; where they disagree along an edge, the surer one.
    * Where the lifted model knows a moving object and the sensor sees nothing: the object.
    """
    view = scene.static(frame)
    static = surface_depth(view, config.choice)
    return combine(
        static,
        view.sigma_z_m,
        scene.sensor(frame),
        scene.noise.sigma_m(scene.sensor(frame)).astype(np.float32),
        scene.reconstruction.dynamic.at(frame, scene.size),
        object_patch(moving, frame, (scene.size[1], scene.size[0])),
        config,
    )


def combine(
    static_z_m: Float32[np.ndarray, "h w"],
    static_sigma_m: Float32[np.ndarray, "h w"],
    sensor_z_m: Float32[np.ndarray, "h w"],
    sensor_sigma_m: Float32[np.ndarray, "h w"],
    dynamic: Bool[np.ndarray, "h w"],
    object_z_m: Float32[np.ndarray, "h w"],
    config: DepthConfig,
) -> DepthFrame:
    """The rule of ``fuse_frame`` on arrays of one size; NaN = none."""
    has_static, has_sensor = np.isfinite(static_z_m), np.isfinite(sensor_z_m)
    both = has_static & has_sensor
    with np.errstate(invalid="ignore"):
        joint = np.hypot(static_sigma_m, sensor_sigma_m)
        limit = config.disagreement_m + config.disagreement_sigmas * joint
        # a large spread along the ray must not hide that something stands in front
        limit = np.minimum(limit, config.disagreement_m + 0.05 * static_z_m)
        agree = both & (np.abs(sensor_z_m - static_z_m) <= limit)
    contradicted = _wide_regions(both & ~agree, config.disagreement_radius_px)
    moves = dynamic | contradicted
    z = np.full(static_z_m.shape, np.nan, dtype=np.float32)
    sigma = z.copy()
    origin = np.full(z.shape, DepthOrigin.NONE, dtype=np.uint8)

    def put(where: np.ndarray, depth: np.ndarray, error: np.ndarray, kind: DepthOrigin) -> None:
        z[where], sigma[where], origin[where] = depth[where], error[where], kind

    still = ~moves
    put(still & has_static, static_z_m, static_sigma_m, DepthOrigin.STATIC)
    put(has_sensor & (moves | ~has_static), sensor_z_m, sensor_sigma_m, DepthOrigin.SENSOR)
    with np.errstate(invalid="ignore", divide="ignore"):
        surer = still & both & ~agree & (sensor_sigma_m < static_sigma_m)
        doubt = np.abs(sensor_z_m - static_z_m) / 2
        put(still & both & ~agree & ~surer, static_z_m, np.fmax(static_sigma_m, doubt), DepthOrigin.STATIC)
        put(surer, sensor_z_m, np.fmax(sensor_sigma_m, doubt), DepthOrigin.SENSOR)
        weight_a, weight_b = static_sigma_m.astype(np.float64) ** -2, sensor_sigma_m.astype(np.float64) ** -2
        mean = (static_z_m * weight_a + sensor_z_m * weight_b) / (weight_a + weight_b)
        put(agree, mean, (weight_a + weight_b) ** -0.5, DepthOrigin.BOTH)
    _fill_moving(z, sigma, origin, sensor_z_m, moves, has_sensor & ~agree, config)
    use_object = np.isfinite(object_z_m) & ~has_sensor
    put(use_object, object_z_m, np.full(z.shape, config.object_sigma_m, np.float32), DepthOrigin.OBJECT)
    return DepthFrame(z, sigma, origin)


def object_patch(moving: MovingDepth | None, frame: int, size_hw: tuple[int, int]) -> Float32[np.ndarray, "h w"]:
    """Depth of moving objects in a frame, the nearest one where patches overlap; NaN elsewhere.

    Raises:
        ReconError: a patch has pixels outside the depth image.
    """
    z = np.full(size_hw, np.inf, dtype=np.float32)
    if moving is not None:
        for patch in np.flatnonzero(moving.frames == frame):
            pixels: Int64[np.ndarray, "K 2"] = moving.pixels_vu[patch]
            if len(pixels) and ((pixels < 0).any() or (pixels >= np.array(size_hw)).any()):
                raise ReconError(
                    f"moving depth of object {int(moving.object_ids[patch])} in frame {frame} has pixels outside "
                    f"{size_hw[1]}x{size_hw[0]}; lift and depth must use the same depth width"
                )
            np.fmin.at(z, (pixels[:, 0], pixels[:, 1]), moving.z_depth_m[patch])
    z[~np.isfinite(z)] = np.nan
    return z


def _fill_moving(
    z: Float32[np.ndarray, "h w"],
    sigma: Float32[np.ndarray, "h w"],
    origin: UInt8[np.ndarray, "h w"],
    sensor_z_m: Float32[np.ndarray, "h w"],
    moves: Bool[np.ndarray, "h w"],
    on_object: Bool[np.ndarray, "h w"],
    config: DepthConfig,
) -> None:
    """Fill sensor holes on what moves, in place, between pixels of the moving thing on both sides."""
    holes = moves & ~np.isfinite(sensor_z_m)
    if not holes.any():
        return
    part = _around(holes, config.hole_px + 1)  # whatever fills a hole is no farther away
    filled = fill_between(sensor_z_m[part], (on_object & moves)[part], holes[part], config.hole_px)
    found = holes[part] & np.isfinite(filled.z_depth_m)
    z[part][found] = filled.z_depth_m[found]
    sigma[part][found] = np.maximum(filled.spread_m, 0.005)[found]
    origin[part][found] = DepthOrigin.SENSOR


def _around(mask: Bool[np.ndarray, "h w"], margin_px: int) -> tuple[slice, slice]:
    """Rows and columns of the smallest box with all of a mask (not empty), widened."""
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return (
        slice(max(0, int(rows[0]) - margin_px), int(rows[-1]) + margin_px + 1),
        slice(max(0, int(cols[0]) - margin_px), int(cols[-1]) + margin_px + 1),
    )


def _wide_regions(mask: Bool[np.ndarray, "h w"], radius_px: int) -> Bool[np.ndarray, "h w"]:
    """Morphological opening with a square: what survives holds a whole square, thin lines go."""
    from scipy import ndimage

    if radius_px == 0 or not mask.any():
        return mask
    return np.asarray(ndimage.binary_opening(mask, structure=np.ones((2 * radius_px + 1, 2 * radius_px + 1))))
