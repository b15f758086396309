"""The first model: splats from back-projected sensor depth, merged in voxels, flat along the surface."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float32, Int64

from geo import se3
from recon.config import ReconstructConfig
from recon.model import empty_model, sh0_from_rgb
from recon.ply import logit
from recon.records import SplatModel
from recon.sensor import SensorNoise
from recon.views import View

_MAX_POINTS = 2_000_000
_LEVEL_STEP = 2.0  # voxel sizes go up by this factor from level to level
_NEIGHBOURS = 9
SCALE_SHARE = 0.6  # in-plane standard deviation / spacing of neighbours
_THICKNESS_SHARE = 0.15
_INITIAL_OPACITY = 0.8
_EXPOSURE_ROUNDS = 4
_OVERSAMPLING = 2
_FINEST_FOOTPRINTS = 1.0  # voxels smaller than a pixel of the finest view hold nothing that the pictures show
_FLATTEN_ROUNDS = 2
_FLATTEN_NEIGHBOURS = 20


@dataclass(frozen=True)
class Cloud:
    """Points of many views. ``footprint_m`` is the size of the pixel that each came from."""

    points_in_world: Float32[np.ndarray, "P 3"]
    rgb: Float32[np.ndarray, "P 3"]
    footprint_m: Float32[np.ndarray, "P"]
    weight: Float32[np.ndarray, "P"]  # 1 / variance of the depth
    view: Int64[np.ndarray, "P"]  # index into the list of views


@dataclass(frozen=True)
class Initial:
    """The first model and per-view exposure gains (picture = gain * model colour)."""

    model: SplatModel
    gains: Float32[np.ndarray, "V 3"]


def initialise(views: Sequence[View], config: ReconstructConfig, noise: SensorNoise | None = None) -> Initial:
    """Splats from the views' sensor depth; no depth at all gives an empty model."""
    noise = noise or SensorNoise()
    cloud = back_project(views, noise, config.seed)
    if not len(cloud.points_in_world):
        return Initial(empty_model(), np.ones((len(views), 3), dtype=np.float32))
    fine = _fit_budget(cloud, _OVERSAMPLING * config.max_gaussians, _FINEST_FOOTPRINTS / float(np.sqrt(_OVERSAMPLING)))
    cloud = _rows(cloud, fine.members)
    gains = _exposure_gains(cloud, fine.ids, fine.count, len(views))
    cloud = replace(cloud, rgb=np.clip(cloud.rgb / gains[cloud.view], 0, 1).astype(np.float32))
    merged = _merge(cloud, fine)
    flat = replace(merged, points_in_world=flatten_layers(merged.points_in_world, merged.weight, fine.voxel_m, noise))
    coarse = _fit_budget(flat, config.max_gaussians, float(np.sqrt(_OVERSAMPLING)))
    thinned = _merge(_rows(flat, coarse.members), coarse)
    return Initial(surface_splats(thinned.points_in_world, thinned.rgb, coarse.voxel_m), gains)


def flatten_layers(
    points_in_world: Float[np.ndarray, "N 3"],
    weight: Float[np.ndarray, "N"],
    spacing_m: Float[np.ndarray, "N"],
    noise: SensorNoise,
) -> Float32[np.ndarray, "N 3"]:
    """Draw the layers that noise makes of one surface together: each point moves along the local normal to the plane.

    Several layers of splats render too near, because the front one covers the others. Neighbours farther than four
    spacings or sensor sigmas do not count, and nothing moves by more than three sigmas.
    Source: moving least squares of degree 1 (Levin 1998), two rounds.
    """
    from scipy.spatial import cKDTree

    points = np.array(points_in_world, dtype=np.float64)
    if len(points) < 4:
        return points.astype(np.float32)
    sigma = np.maximum(1.0 / np.sqrt(np.maximum(weight, 1e-12)), noise.floor_m)
    reach = 4 * np.maximum(spacing_m, sigma)
    for _ in range(_FLATTEN_ROUNDS):
        distance, index = cKDTree(points).query(points, k=min(_FLATTEN_NEIGHBOURS, len(points)), workers=1)
        near = (weight[index] * np.exp(-0.5 * np.square(2 * distance / reach[:, None])))[:, :, None]
        total = near.sum(axis=1)
        centre = (near * points[index]).sum(axis=1) / total
        around = points[index] - centre[:, None, :]
        covariance = np.einsum("nki,nkj->nij", near * around, around) / total[:, :, None]
        _, axes = np.linalg.eigh(covariance)
        normal = axes[:, :, 0]
        offset = np.einsum("ni,ni->n", centre - points, normal)
        points += np.clip(offset, -3 * sigma, 3 * sigma)[:, None] * normal
    return points.astype(np.float32)


def back_project(views: Sequence[View], noise: SensorNoise, seed: int) -> Cloud:
    """Points of all views' depth; thinned at random (seeded) beyond two million."""
    parts: list[tuple[np.ndarray, ...]] = []
    for index, view in enumerate(views):
        rows, cols = np.nonzero(np.isfinite(view.z_depth_m))
        z = view.z_depth_m[rows, cols].astype(np.float64)
        rays = view.camera.normalised_points(np.stack([cols, rows], axis=1).astype(np.float64))
        points = se3.transform_points(view.world_from_camera, rays * z[:, None])
        footprint = z / np.sqrt(view.camera.fx_px * view.camera.fy_px)
        parts.append(
            (points, view.rgb[rows, cols] / 255.0, footprint, noise.sigma_m(z) ** -2.0, np.full(len(z), index))
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else []
    if not columns:
        none = np.zeros(0, dtype=np.float32)
        return Cloud(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), none, none, np.zeros(0, np.int64))
    points, rgb, footprint, weight = (column.astype(np.float32) for column in columns[:4])
    cloud = Cloud(points, rgb, footprint, weight, columns[4].astype(np.int64))
    if len(cloud.view) > _MAX_POINTS:
        keep = np.sort(np.random.default_rng(seed).choice(len(cloud.view), _MAX_POINTS, replace=False))
        cloud = _rows(cloud, keep)
    return cloud


@dataclass(frozen=True)
class _Groups:
    members: Int64[np.ndarray, "M"]  # rows of the cloud that were kept
    ids: Int64[np.ndarray, "M"]  # group of each member
    count: int
    voxel_m: Float[np.ndarray, "G"]


def _fit_budget(cloud: Cloud, budget: int, finest: float) -> _Groups:
    """Voxels as multiples of the pixel footprint, the smallest multiple (of a geometric ladder) within the budget."""
    low, high = finest, 64.0
    trial = _group(cloud, low)
    if trial.count <= budget:
        return trial
    groups = _group(cloud, high)
    for _ in range(8):
        middle = float(np.sqrt(low * high))
        trial = _group(cloud, middle)
        if trial.count <= budget:
            high, groups = middle, trial
        else:
            low = middle
    return groups


def _group(cloud: Cloud, footprints: float) -> _Groups:
    """Group points in cubes whose size follows the finest view of the place (octave levels, fine to coarse)."""
    size = cloud.footprint_m * footprints
    smallest = float(size.min())
    level = np.floor(np.log(size / smallest) / np.log(_LEVEL_STEP) + 1e-6).astype(np.int64)
    origin = cloud.points_in_world.min(axis=0)
    members, ids, voxel_m, count = [], [], [], 0
    finer: np.ndarray | None = None
    for rank in range(int(level.max()) + 1):
        voxel = smallest * _LEVEL_STEP**rank
        rows = np.flatnonzero(level == rank)
        keys = _keys(cloud.points_in_world[rows], origin, voxel)
        if finer is not None and len(finer):
            # a cube that finer voxels already describe is left to them
            rows_free = ~np.isin(keys, np.unique(_keys(finer, origin, voxel)))
            rows, keys = rows[rows_free], keys[rows_free]
        unique, inverse = np.unique(keys, return_inverse=True)
        members.append(rows)
        ids.append(inverse + count)
        voxel_m.append(np.full(len(unique), voxel))
        count += len(unique)
        centres = (
            np.stack(
                [
                    np.bincount(inverse, weights=cloud.points_in_world[rows, axis], minlength=len(unique))
                    for axis in range(3)
                ],
                axis=1,
            )
            / np.maximum(np.bincount(inverse, minlength=len(unique)), 1)[:, None]
        )
        finer = centres if finer is None else np.concatenate([finer, centres])
    return _Groups(np.concatenate(members), np.concatenate(ids), count, np.concatenate(voxel_m))


def _keys(points: np.ndarray, origin: np.ndarray, voxel_m: float) -> Int64[np.ndarray, "P"]:
    """One integer per cube; 21 bits an axis."""
    cells = np.floor((points - origin) / voxel_m).astype(np.int64)
    return np.asarray((cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2])


def _exposure_gains(cloud: Cloud, ids: np.ndarray, count: int, views: int) -> Float32[np.ndarray, "V 3"]:
    """Gain of each view from the voxels that several views see (alternating means of log colours; mean log gain 0)."""
    usable = ((cloud.rgb > 0.04) & (cloud.rgb < 0.96)).all(axis=1)
    log_rgb = np.log(np.maximum(cloud.rgb[usable], 1e-3)).astype(np.float64)
    ids, view = ids[usable], cloud.view[usable]
    log_gain = np.zeros((views, 3))
    per_voxel = np.maximum(np.bincount(ids, minlength=count), 1)
    per_view = np.bincount(view, minlength=views)
    for _ in range(_EXPOSURE_ROUNDS):
        for channel in range(3):
            value = log_rgb[:, channel]
            colour = np.bincount(ids, weights=value - log_gain[view, channel], minlength=count) / per_voxel
            excess = np.bincount(view, weights=value - colour[ids], minlength=views)
            log_gain[:, channel] = np.where(per_view > 50, excess / np.maximum(per_view, 1), 0.0)
        log_gain -= log_gain.mean(axis=0)
    return np.exp(log_gain).astype(np.float32)


def _merge(cloud: Cloud, groups: _Groups) -> Cloud:
    """One point per group: weighted means; ``cloud`` holds the groups' members in order.

    The merged weight is that of a typical member: views share the errors of pose and lens, so that more of them do
    not make a point arbitrarily sure.
    """
    ids, count = groups.ids, groups.count
    total = np.bincount(ids, weights=cloud.weight, minlength=count)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.asarray(np.bincount(ids, weights=values * cloud.weight, minlength=count) / total)

    return Cloud(
        points_in_world=np.stack([mean(cloud.points_in_world[:, axis]) for axis in range(3)], axis=1).astype(
            np.float32
        ),
        rgb=np.stack([mean(cloud.rgb[:, channel]) for channel in range(3)], axis=1).astype(np.float32),
        footprint_m=groups.voxel_m.astype(np.float32),
        weight=(total / np.bincount(ids, minlength=count)).astype(np.float32),
        view=np.zeros(count, dtype=np.int64),
    )


def _rows(cloud: Cloud, rows: np.ndarray) -> Cloud:
    return Cloud(
        cloud.points_in_world[rows], cloud.rgb[rows], cloud.footprint_m[rows], cloud.weight[rows], cloud.view[rows]
    )


def surface_splats(
    points_in_world: Float[np.ndarray, "N 3"], rgb: Float[np.ndarray, "N 3"], spacing_m: Float[np.ndarray, "N"]
) -> SplatModel:
    """Splats on a surface: axes from the neighbours' covariance, thin along the normal.

    Fewer than four points give round splats of the stated spacing. The third axis is the normal.
    """
    count = len(points_in_world)
    if count < 4:
        rotations, spread = np.tile(np.eye(3), (count, 1, 1)), np.asarray(spacing_m, dtype=np.float64)
    else:
        rotations, spread = _local_axes(points_in_world, spacing_m)
    in_plane = np.log(SCALE_SHARE * spread)
    log_scales = np.stack([in_plane, in_plane, in_plane + np.log(_THICKNESS_SHARE / SCALE_SHARE)], axis=1)
    return SplatModel(
        means_in_world=points_in_world.astype(np.float32),
        log_scales=log_scales.astype(np.float32),
        quats_wxyz=se3.quat_wxyz_from_rotation(rotations).astype(np.float32),
        opacity_logits=np.full(count, logit(np.array([_INITIAL_OPACITY]))[0], dtype=np.float32),
        sh_coeffs=sh0_from_rgb(rgb),
    )


def _local_axes(
    points: Float[np.ndarray, "N 3"], spacing_m: Float[np.ndarray, "N"]
) -> tuple[Float[np.ndarray, "N 3 3"], Float[np.ndarray, "N"]]:
    """Rotation world from splat (columns: two tangents, normal) and the spacing of the nearest neighbours."""
    from scipy.spatial import cKDTree

    neighbours = min(_NEIGHBOURS, len(points))
    distance, index = cKDTree(points).query(points, k=neighbours, workers=1)
    around = points[index] - points[index].mean(axis=1, keepdims=True)
    covariance = np.einsum("nki,nkj->nij", around, around)
    _, axes = np.linalg.eigh(covariance)  # ascending: the normal comes first
    rotations = axes[:, :, ::-1].copy()
    rotations[:, :, 2] *= np.sign(np.linalg.det(rotations))[:, None]
    nearest = distance[:, 1 : min(5, neighbours)].mean(axis=1)
    return rotations, np.clip(nearest, 0.5 * spacing_m, 2.0 * spacing_m)
