"""Which way is up, where no file says so: from support planes, with an honest sigma, or a reason why not (FIELD P11).

Floors, tables and shelves are level, and cameras are worn more or less upright. The cameras' mean up (-y) only selects
which planes may be supports, within a wide cone; the planes decide. So it does not matter that a wearer looks down.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from geo.surfels import Surfels

_BOOTSTRAPS = 24
_CHUNK = 32


@dataclass(frozen=True)
class GravityConfig:
    """Settings of ``estimate_up``."""

    cone_deg: float = 55.0
    """Largest angle between up and the cameras' mean up."""
    cluster_deg: float = 8.0
    """Width of a cluster of normals: sensor noise and uneven tables, not the slope of a roof."""
    rival_deg: float = 15.0
    """Directions further apart than this are rivals, not the same cluster."""
    rival_ratio: float = 0.7
    """A rival with more than this part of the winner's support makes the estimate ambiguous."""
    min_patches: int = 60
    """Fewer level patches than this are no evidence."""
    min_images: int = 3
    """Level patches must be seen in at least this many depth images."""
    sigma_floor_deg: float = 0.5
    """Tables and floors are not more level than this."""
    single_plane_deg: float = 1.0
    """Added (in squares) if only one plane carries the estimate: nothing contradicts it if it leans."""
    max_sigma_deg: float = 5.0
    """A larger sigma is a failure."""


@dataclass(frozen=True)
class SupportPlane:
    """One level plane: height along the estimated up, its own normal, and the area seen of it."""

    height: float
    normal_in_world: Float[np.ndarray, "3"]
    area: float


@dataclass(frozen=True)
class GravityEstimate:
    """Up in the world that the poses are given in; if ``reason`` is not empty there is none (and NaN is in it)."""

    up_in_world: Float[np.ndarray, "3"]
    sigma_rad: float
    planes: tuple[SupportPlane, ...] = ()
    camera_tilt_rad: float = float("nan")  # between up and the cameras' mean up
    upright_share: float = float("nan")  # part of the remaining area that is vertical, as walls are
    reason: str = ""

    @property
    def ok(self) -> bool:
        """True if there is an estimate."""
        return not self.reason


def _failed(reason: str) -> GravityEstimate:
    return GravityEstimate(np.full(3, np.nan), float("nan"), reason=reason)


def estimate_up(
    world_from_camera: Float[np.ndarray, "N 4 4"], surfels: Surfels, config: GravityConfig | None = None
) -> GravityEstimate:
    """Estimate the direction against gravity.

    Args:
        world_from_camera: Poses of the worn camera (+y down in the image); NaN rows are skipped.
        surfels: Planar patches of the scene, see ``geo.surfels.sample_surfels``.
        config: Settings.

    Returns:
        The estimate, or one whose ``reason`` says what is missing.
    """
    settings = config or GravityConfig()
    posed = np.isfinite(world_from_camera).all(axis=(1, 2))
    if not posed.any():
        return _failed("no camera pose is known")
    mean_up = -world_from_camera[posed][:, :3, 1].mean(axis=0)
    length = float(np.linalg.norm(mean_up))
    if length < 0.3:
        return _failed("the cameras are turned every way: their mean up says nothing")
    mean_up /= length
    in_cone = surfels.normals_in_world @ mean_up > np.cos(np.radians(settings.cone_deg))
    direction, rival = _strongest(surfels, in_cone, settings)
    if direction is None:
        return _failed(f"fewer than {settings.min_patches} flat patches face up")
    if rival > settings.rival_ratio:
        return _failed(f"two directions are about equally likely (the second has {rival:.0%} of the first's support)")
    return _refined(surfels, direction, mean_up, settings)


def _strongest(
    surfels: Surfels, in_cone: Bool[np.ndarray, "S"], settings: GravityConfig
) -> tuple[Float[np.ndarray, "3"] | None, float]:
    """Direction with the largest support inside the cone, and the share that its best rival has."""
    candidates = np.flatnonzero(in_cone)
    if len(candidates) < settings.min_patches:
        return None, 0.0
    seeds = surfels.normals_in_world[candidates[:: max(1, len(candidates) // 300)]]
    support = _support(surfels, seeds, settings)
    best = seeds[int(np.argmax(support))]
    for _ in range(10):  # mean shift
        close = surfels.normals_in_world @ best > np.cos(np.radians(settings.cluster_deg))
        best = _unit((surfels.normals_in_world[close] * surfels.areas[close, None]).sum(axis=0))
    far = seeds @ best < np.cos(np.radians(settings.rival_deg))
    top = float(_support(surfels, best[None], settings)[0])
    return best, float(support[far].max() / top) if far.any() and top > 0 else 0.0


def _support(surfels: Surfels, directions: Float[np.ndarray, "D 3"], settings: GravityConfig) -> Float[np.ndarray, "D"]:
    """Level area about each direction, plus a quarter of the area that is vertical to it (walls)."""
    width = 1 - np.cos(np.radians(settings.cluster_deg))
    upright_width = np.sin(np.radians(settings.cluster_deg))
    support = np.zeros(len(directions))
    for start in range(0, len(directions), _CHUNK):  # bounded memory: patches can be many
        cosine = directions[start : start + _CHUNK] @ surfels.normals_in_world.T
        level = np.exp(-(1 - np.clip(cosine, -1, 1)) / width)
        upright = np.exp(-((cosine / upright_width) ** 2))
        support[start : start + _CHUNK] = (level + 0.25 * upright) @ surfels.areas
    return support


def _refined(
    surfels: Surfels,
    direction: Float[np.ndarray, "3"],
    mean_up: Float[np.ndarray, "3"],
    settings: GravityConfig,
) -> GravityEstimate:
    """Fit the level planes, take their mean normal, and its scatter over planes and over images."""
    level = surfels.normals_in_world @ direction > np.cos(np.radians(1.5 * settings.cluster_deg))
    images = np.unique(surfels.image_index[level])
    if int(level.sum()) < settings.min_patches or len(images) < settings.min_images:
        return _failed(f"level patches are seen in {len(images)} images only ({int(level.sum())} patches)")
    planes = _planes(surfels, level, direction)
    up = _mean_normal(planes, surfels, level)
    rng = np.random.default_rng(0)
    spread = []
    for _ in range(_BOOTSTRAPS):
        counts = np.bincount(rng.integers(0, len(images), len(images)), minlength=len(images)).astype(np.float64)
        factor = np.zeros(int(images.max()) + 1)
        factor[images] = counts
        resampled = Surfels(
            surfels.points_in_world,
            surfels.normals_in_world,
            surfels.areas * factor[np.minimum(surfels.image_index, len(factor) - 1)],
            surfels.image_index,
        )
        spread.append(_mean_normal(_planes(resampled, level & (resampled.areas > 0), direction), resampled, level))
    over_images = float(np.sqrt(np.mean([_angle(up, other) ** 2 for other in spread])))
    sigma = float(
        np.sqrt(over_images**2 + _over_planes(planes, up, settings) ** 2 + np.radians(settings.sigma_floor_deg) ** 2)
    )
    if sigma > np.radians(settings.max_sigma_deg):
        return _failed(f"the level planes disagree: sigma is {np.degrees(sigma):.1f} degrees")
    rest = ~(surfels.normals_in_world @ up > np.cos(np.radians(1.5 * settings.cluster_deg)))
    upright = rest & (np.abs(surfels.normals_in_world @ up) < np.sin(np.radians(settings.cluster_deg)))
    area = float(surfels.areas[rest].sum())
    share = float(surfels.areas[upright].sum()) / area if area > 0 else float("nan")
    return GravityEstimate(up, sigma, tuple(planes), _angle(up, mean_up), share)


def _planes(surfels: Surfels, level: Bool[np.ndarray, "S"], direction: Float[np.ndarray, "3"]) -> list[SupportPlane]:
    """Level planes, largest first: peaks of the height histogram, each fitted on its own patches."""
    points, areas = surfels.points_in_world[level], surfels.areas[level].copy()
    heights = points @ direction
    size = float(
        np.median(np.linalg.norm(surfels.points_in_world - np.median(surfels.points_in_world, axis=0), axis=1))
    )
    band = max(0.03 * size, 1e-9)  # the scale may be unknown: relative to the size of the scene
    planes: list[SupportPlane] = []
    total = float(areas.sum())
    free = np.ones(len(heights), dtype=bool)
    while len(planes) < 6 and free.any():
        bins = np.round(heights / band).astype(np.int64)
        low = int(bins.min())
        histogram = np.bincount(bins[free] - low, weights=areas[free], minlength=int(bins.max()) - low + 1)
        smooth = np.convolve(histogram, [0.5, 1.0, 0.5], mode="same")
        peak = int(np.argmax(smooth))
        member = free & (np.abs(heights - (peak + low) * band) <= 1.5 * band)
        if float(areas[member].sum()) < 0.05 * total or int(member.sum()) < 12:
            break
        fitted = _fit_plane(points[member], areas[member], direction, band)
        if fitted is not None:
            planes.append(SupportPlane(float(fitted[1] @ direction), fitted[0], float(areas[member].sum())))
        free &= ~member
    return planes


def _fit_plane(
    points: Float[np.ndarray, "K 3"], areas: Float[np.ndarray, "K"], direction: Float[np.ndarray, "3"], band: float
) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]] | None:
    """Normal and centre by reweighted least squares (Tukey's biweight); None if the patches form a narrow strip."""
    weight = areas.copy()
    normal, centre = direction, points.mean(axis=0)
    for _ in range(8):
        total = float(weight.sum())
        if total <= 0:
            return None
        centre = (points * weight[:, None]).sum(axis=0) / total
        offset = points - centre
        values, vectors = np.linalg.eigh((offset * weight[:, None]).T @ offset / total)
        if values[1] < (1.5 * band) ** 2 / 3:
            return None
        normal = vectors[:, 0] * (1 if vectors[:, 0] @ direction > 0 else -1)
        residual = offset @ normal
        scale = max(1.4826 * float(np.median(np.abs(residual))), 1e-3 * band)
        weight = areas * np.maximum(1 - (residual / (4.685 * scale)) ** 2, 0.0) ** 2
    return np.asarray(normal), np.asarray(centre)


def _mean_normal(planes: list[SupportPlane], surfels: Surfels, level: Bool[np.ndarray, "S"]) -> Float[np.ndarray, "3"]:
    """Area-weighted mean of the planes' normals; of the patches' normals where no plane could be fitted."""
    if planes:
        return _unit(np.sum([plane.normal_in_world * plane.area for plane in planes], axis=0))
    return _unit((surfels.normals_in_world[level] * surfels.areas[level, None]).sum(axis=0))


def _over_planes(planes: list[SupportPlane], up: Float[np.ndarray, "3"], settings: GravityConfig) -> float:
    """Standard error of the mean normal from the planes' disagreement."""
    if len(planes) < 2:
        return float(np.radians(settings.single_plane_deg))
    weight = np.array([plane.area for plane in planes])
    weight /= weight.sum()
    squared = np.array([_angle(plane.normal_in_world, up) ** 2 for plane in planes])
    effective = 1 / float((weight**2).sum())
    return float(np.sqrt((weight * squared).sum() / max(effective - 1, 0.5)))


def _unit(vector: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3"]:
    return np.asarray(vector / np.linalg.norm(vector))


def _angle(a: Float[np.ndarray, "3"], b: Float[np.ndarray, "3"]) -> float:
    """Angle between unit vectors, exact near zero."""
    return float(2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))
