"""What one frame tells about one object: points in world, their centre and covariance, how complete the view is."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64

from geo.cameras import PinholeCamera
from lifting._fill import carry_on
from lifting._pixels import bounds, core_and_rim, depth_components, dilate, nearest_step, resize_mask, shifted
from lifting.config import LiftConfig
from recon.records import RenderedView

_EDGE_PX = 2
_OCCLUDED_CONTOUR_SHARE = 0.08


@runtime_checkable
class DepthProvider(Protocol):
    """What lifting needs of ``recon.scene_depth.SceneDepth``."""

    camera: PinholeCamera

    def sensor(self, frame: int) -> Float32[np.ndarray, "h w"]:
        """Sensor depth along +z at the size of ``camera``, NaN = none."""
        ...

    def static(self, frame: int) -> RenderedView:
        """Rendering of the static scene at the size of ``camera``."""
        ...


@dataclass
class FrameView:
    """One frame as lifting sees it; the static rendering is made only if somebody asks."""

    frame: int
    time_s: float
    camera: PinholeCamera
    world_from_camera: Float64[np.ndarray, "4 4"]
    sensor_z_m: Float[np.ndarray, "h w"]
    provider: DepthProvider
    has_sensor: bool
    _static: RenderedView | None = field(default=None, repr=False)

    def static_z_m(self) -> tuple[Float[np.ndarray, "h w"], Float[np.ndarray, "h w"]]:
        """Depth of the static model and its sigma."""
        if self._static is None:
            self._static = self.provider.static(self.frame)
        return self._static.expected_z_m.astype(np.float64), self._static.sigma_z_m.astype(np.float64)

    @property
    def origin_in_world(self) -> Float64[np.ndarray, "3"]:
        """Where the camera is."""
        return self.world_from_camera[:3, 3]

    def surface_z_m(self) -> Float[np.ndarray, "h w"]:
        """Best depth for asking what is behind or in front of something: the sensor, else the static model."""
        return self.sensor_z_m if self.has_sensor else self.static_z_m()[0]

    def to_world(self, pixels_vu: np.ndarray, z_depth_m: Float[np.ndarray, "K"]) -> Float64[np.ndarray, "K 3"]:
        """Points in world of pixels (v, u) of the depth camera with their depth along +z."""
        rays = self.camera.normalised_points(pixels_vu[:, ::-1].astype(np.float64))
        points: Float64[np.ndarray, "K 3"] = (rays * z_depth_m[:, None]) @ self.world_from_camera[
            :3, :3
        ].T + self.origin_in_world
        return points


@dataclass(frozen=True)
class Observation:
    """One object in one frame.

    ``center_in_world`` is the median of the visible surface, NOT of the whole object. ``truncated``: the mask
    touches the image border, pixels without a source, or something that stands in front.
    """

    frame: int
    points_in_world: Float32[np.ndarray, "K 3"]
    center_in_world: Float64[np.ndarray, "3"]
    covariance_m2: Float64[np.ndarray, "3 3"]
    camera_in_world: Float64[np.ndarray, "3"]
    depth_pixels: int
    mask_pixels: int
    distance_m: float
    pixel_m: float  # width of a depth pixel at the object
    truncated: bool
    from_static: bool
    coverage: float  # share of the mask with depth on the object


def observe(
    view: FrameView,
    mask: Bool[np.ndarray, "H W"],
    valid_mask: Bool[np.ndarray, "H W"],
    object_id: int,
    config: LiftConfig,
    with_static: bool = False,
) -> Observation | None:
    """Robust 3D observation of a mask, or None if too little depth lies inside it.

    Mixed pixels at the border go (unless the thing is thin, or border and interior agree); of several surfaces
    inside the mask the largest one and what is as far away as it stays: what bleeds in from the background and a
    hand in front drop out.

    Args:
        view: The frame; its depth may be of another size than the mask.
        mask: Object mask in canonical pixels.
        valid_mask: Canonical pixels that have a source pixel.
        object_id: Seeds the choice of points.
        config: Thresholds.
        with_static: Let the static model fill what the sensor does not see (see ``second_look``), unless the two
            disagree about the object.
    """
    full_area = int(mask.sum())
    if full_area == 0:
        return None
    small = resize_mask(mask, view.camera.size_wh_px)
    if not small.any():
        rows, cols = np.nonzero(mask)
        scale_v, scale_u = small.shape[0] / mask.shape[0], small.shape[1] / mask.shape[1]
        small = np.zeros_like(small)
        small[(rows * scale_v).astype(int), (cols * scale_u).astype(int)] = True
    window = bounds(small, margin=3)
    if window is None:
        return None
    r0, r1, c0, c1 = window
    cut = small[r0:r1, c0:c1]
    z_depth_m, from_static = _object_depth(view, cut, window, config, with_static)
    pixels, z_kept, _ = _trim(z_depth_m, cut, config)
    if len(pixels) < config.min_depth_pixels:
        return None
    points = view.to_world(pixels + np.array([r0, c0]), z_kept)
    carried = _carried_points(view, cut, z_depth_m, pixels, z_kept, window, config)
    truncated = _touches_border(mask, valid_mask) or _occluded(view, cut, window, float(np.median(z_kept)), config)
    coverage = len(pixels) / max(1, int(cut.sum()))
    return _assemble(view, points, carried, z_kept, full_area, truncated, from_static, coverage, object_id, config)


def _object_depth(
    view: FrameView,
    cut: Bool[np.ndarray, "h w"],
    window: tuple[int, int, int, int],
    config: LiftConfig,
    with_static: bool,
) -> tuple[Float[np.ndarray, "h w"], bool]:
    """Depth in the window: the sensor's; where asked for (or without a sensor) the static model's as well.

    The static model does not count where it contradicts the sensor about the object.
    """
    r0, r1, c0, c1 = window
    sensor = view.sensor_z_m[r0:r1, c0:c1].astype(np.float64)
    if not view.has_sensor:
        return view.static_z_m()[0][r0:r1, c0:c1], True
    seen = np.isfinite(sensor) & cut
    if not with_static:
        return sensor, False
    if seen.sum() < config.min_depth_pixels:
        return view.static_z_m()[0][r0:r1, c0:c1], True
    static = view.static_z_m()[0][r0:r1, c0:c1]
    both = seen & np.isfinite(static)
    if both.sum() < config.min_depth_pixels:
        return sensor, False
    step = np.abs(static - sensor)[both]
    noise = config.depth_noise_m(float(np.median(sensor[both])))
    if float(np.median(step)) > config.static_agreement_m + noise:
        return sensor, False  # the object is not where the reconstruction saw it
    return np.where(np.isfinite(sensor), sensor, static), True


def _carried_points(
    view: FrameView,
    cut: Bool[np.ndarray, "h w"],
    z_depth_m: Float[np.ndarray, "h w"],
    pixels: np.ndarray,
    z_kept: Float[np.ndarray, "K"],
    window: tuple[int, int, int, int],
    config: LiftConfig,
) -> Float64[np.ndarray, "M 3"]:
    """Points of mask pixels without depth near the object's surface, see ``_fill``."""
    holes = np.argwhere(cut & ~np.isfinite(z_depth_m)).astype(np.int64)
    reach_px = config.fill_reach_m * view.camera.fx_px / float(np.median(z_kept))
    where, z = carry_on(holes, pixels, z_kept, max(reach_px, 1.5), config.fill_max_step_m)
    return view.to_world(where + np.array(window)[[0, 2]], z)


def _trim(
    z_depth_m: Float[np.ndarray, "h w"], cut: Bool[np.ndarray, "h w"], config: LiftConfig
) -> tuple[np.ndarray, Float[np.ndarray, "K"], bool]:
    """Pixels (v, u) of the object's own surface and their depth; the flag says that other surfaces were dropped."""
    with np.errstate(invalid="ignore"):
        usable = cut & np.isfinite(z_depth_m) & (z_depth_m > 0)
    if not usable.any():
        return np.zeros((0, 2), dtype=np.int64), np.zeros(0), False
    middle = float(np.median(z_depth_m[usable]))
    noise = config.depth_noise_m(middle)
    core, rim = core_and_rim(cut)
    core_z = np.where(core & usable, z_depth_m, np.nan)
    close = nearest_step(z_depth_m, core_z) <= config.border_step_m + 2.5 * noise
    keep = usable & (core | (rim & close))
    if not keep.any():
        keep = usable
    gap = config.depth_gap_m + 0.02 * middle + 3 * noise
    pixels, labels = depth_components(z_depth_m, keep, gap)
    sizes = np.bincount(labels)
    main = int(np.argmax(sizes))
    z = z_depth_m[pixels[:, 0], pixels[:, 1]]
    z_main = z[labels == main]
    low, high = np.quantile(z_main, [0.02, 0.98])
    chosen = labels == main
    for label in np.flatnonzero(sizes >= 3):
        if label != main and low - gap / 2 <= np.median(z[labels == label]) <= high + gap / 2:
            chosen |= labels == label
    return pixels[chosen], z[chosen], bool(chosen.mean() < 0.9)


def _touches_border(mask: Bool[np.ndarray, "H W"], valid_mask: Bool[np.ndarray, "H W"]) -> bool:
    """True if the mask meets the image border or pixels without a source."""
    e = _EDGE_PX
    if mask[:e].any() or mask[-e:].any() or mask[:, :e].any() or mask[:, -e:].any():
        return True
    window = bounds(mask, margin=2)
    if window is None:
        return False
    r0, r1, c0, c1 = window
    return bool((dilate(dilate(mask[r0:r1, c0:c1])) & ~valid_mask[r0:r1, c0:c1]).any())


def _occluded(
    view: FrameView,
    cut: Bool[np.ndarray, "h w"],
    window: tuple[int, int, int, int],
    middle_z_m: float,
    config: LiftConfig,
) -> bool:
    """True if, along enough of the contour, the pixels just outside are clearly nearer than those inside."""
    r0, r1, c0, c1 = window
    depth = view.surface_z_m()[r0:r1, c0:c1].astype(np.float64)
    ring = dilate(dilate(cut)) & ~cut
    inside = np.where(cut, depth, np.nan)
    reference = inside.copy()
    for _ in range(3):
        grown = _spread(reference)
        reference = np.where(np.isfinite(reference), reference, grown)
    nearer = ring & (depth < reference - config.depth_gap_m - 3 * config.depth_noise_m(middle_z_m))
    return bool(nearer.sum() > _OCCLUDED_CONTOUR_SHARE * max(1, int(ring.sum())))


def _spread(values: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h w"]:
    """Each pixel takes the smallest finite value of its four neighbours (NaN if none)."""
    best = np.full(values.shape, np.nan)
    for dv, du in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        best = np.fmin(best, shifted(values, dv, du, np.nan))
    return best


def _assemble(
    view: FrameView,
    points: Float64[np.ndarray, "K 3"],
    carried: Float64[np.ndarray, "M 3"],
    z_m: Float[np.ndarray, "K"],
    mask_pixels: int,
    truncated: bool,
    from_static: bool,
    coverage: float,
    object_id: int,
    config: LiftConfig,
) -> Observation:
    """Centre, covariance and a bounded sample of the points."""
    center = np.median(points, axis=0)
    distance = float(np.median(z_m))
    count = len(points)
    sample = np.concatenate([points, carried])
    if len(sample) > config.max_points_per_observation:
        rng = np.random.default_rng([object_id, view.frame])
        sample = sample[np.sort(rng.choice(len(sample), config.max_points_per_observation, replace=False))]
    return Observation(
        frame=view.frame,
        points_in_world=sample.astype(np.float32),
        center_in_world=center,
        covariance_m2=_center_covariance(view, points, distance, config),
        camera_in_world=view.origin_in_world.copy(),
        depth_pixels=count,
        mask_pixels=mask_pixels,
        distance_m=distance,
        pixel_m=distance / view.camera.fx_px,
        truncated=truncated,
        from_static=from_static,
        coverage=coverage,
    )


def _center_covariance(
    view: FrameView, points: Float64[np.ndarray, "K 3"], distance_m: float, config: LiftConfig
) -> Float64[np.ndarray, "3 3"]:
    """Noise of the visible surface's median: depth along the ray, pose, and the mask's border.

    Depth noise is correlated between pixels (one in ten counts as independent); a mask that is off by one depth
    pixel on one side moves the centre by half a pixel.
    """
    noise = config.depth_noise_m(distance_m)
    along = noise**2 / max(1.0, len(points) / 10) + (0.25 * noise) ** 2
    pixel = distance_m / view.camera.fx_px
    across = (0.5 * pixel) ** 2 + (np.radians(config.pose_sigma_deg) * distance_m) ** 2
    in_camera = np.diag([across, across, along]) + config.pose_sigma_m**2 * np.eye(3)
    rotation = view.world_from_camera[:3, :3]
    covariance: Float64[np.ndarray, "3 3"] = rotation @ in_camera @ rotation.T
    return covariance
