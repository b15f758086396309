"""Poses of all views together, from what they see of each other: sensor depth (point to plane) and brightness.

Every view's points are compared with some other views that see the same surfaces, and all poses are moved at once, each
held near its given one. No model is made in between, so no bias of a rendering can push the cameras.

Sources: point-to-plane distance, Chen & Medioni (1992); multi-view registration with projective association, Pulli
(1999); pictures with depth, Steinbruecker et al. (2011).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from geo import se3
from recon.align import LUMA, PosePrior, moved, moving, robust, surface_normals, twist_between
from recon.sensor import SensorNoise
from recon.survey import Progress
from recon.views import View

_ROUNDS = 6
_STEP_PX = 2  # every second row and column of a view is compared
_PARTNERS = 8
_MIN_OVERLAP = 0.15
_PROBE_PX = 12  # grid of the points that tell the overlap
_GATE_M = (0.05, 0.02)  # depth differences beyond this belong to something else: first and last round
_GREY_GATE = 0.12
_GREY_SLOPE = 0.008  # per pixel: flatter than this says nothing
_GREY_SIGMA = 0.02
_SHARED_PIXELS = 8.0  # neighbouring pixels repeat each other: this many count as one independent measurement
_STILL = 2e-5


@dataclass(frozen=True)
class _Seen:
    """What of a view is compared: its points and their brightness, and its pictures for others to land on."""

    points: Float[np.ndarray, "M 3"]  # in the camera
    sigma_m: Float[np.ndarray, "M"]
    grey: Float32[np.ndarray, "M"]
    grey_image: Float32[np.ndarray, "H W"]
    slopes: tuple[Float32[np.ndarray, "H W"], Float32[np.ndarray, "H W"]]  # of the brightness along u and v
    z: Float32[np.ndarray, "H W"]
    normals: Float[np.ndarray, "H W 3"]
    smooth: Bool[np.ndarray, "H W"]


def align_together(
    views: Sequence[View], prior: PosePrior, noise: SensorNoise, progress: Progress | None = None
) -> list[View]:
    """The views at poses that agree with each other.

    Views that see nothing of the others keep their pose, as all do if the prior says that poses are exact.
    """
    if prior.exact or len(views) < 2:
        return list(views)
    seen = [_seen(view, noise) for view in views]
    pairs = _pairs(views, seen)
    given = [view.world_from_camera for view in views]
    poses = [np.array(pose, dtype=np.float64) for pose in given]
    for number in range(_ROUNDS if pairs else 0):
        gate_m = _GATE_M[0] + (_GATE_M[1] - _GATE_M[0]) * number / (_ROUNDS - 1)
        twists = _step(views, seen, pairs, poses, given, prior, gate_m)
        poses = [se3.inverse(moved(twist) @ se3.inverse(pose)) for twist, pose in zip(twists, poses, strict=True)]
        if progress is not None:
            progress(number + 1, _ROUNDS, "poses")
        if np.abs(twists).max() < _STILL:
            break
    return [replace(view, world_from_camera=pose) for view, pose in zip(views, poses, strict=True)]


def _seen(view: View, noise: SensorNoise) -> _Seen:
    import cv2

    grey = np.asarray(cv2.GaussianBlur((view.rgb.astype(np.float32) / np.float32(255)) @ LUMA, (0, 0), 0.8))
    dv, du = np.gradient(grey)
    z = np.where(view.static, view.z_depth_m, np.nan).astype(np.float32)
    normals, smooth = surface_normals(_smoothed(z), view.camera)
    use = np.zeros(z.shape, dtype=bool)
    use[::_STEP_PX, ::_STEP_PX] = True
    v, u = np.nonzero(use & smooth & np.isfinite(z))
    rays = view.camera.normalised_points(np.stack([u, v], axis=1).astype(np.float64))
    depth = z[v, u].astype(np.float64)
    return _Seen(
        rays * depth[:, None], noise.sigma_m(depth), grey[v, u], grey,
        (np.asarray(du, np.float32), np.asarray(dv, np.float32)), z, normals, smooth & np.isfinite(z),
    )  # fmt: skip


def _smoothed(z: Float32[np.ndarray, "H W"]) -> Float32[np.ndarray, "H W"]:
    """Mean depth of 5x5 pixels, of those that have one; NaN stays NaN (normals of noisy depth need an area)."""
    import cv2

    known = np.isfinite(z).astype(np.float32)
    total = cv2.blur(np.where(known > 0, z, 0).astype(np.float32), (5, 5))
    share = cv2.blur(known, (5, 5))
    return np.where(known > 0, total / np.maximum(share, 1e-6), np.nan).astype(np.float32)


def _pairs(views: Sequence[View], seen: Sequence[_Seen]) -> list[tuple[int, int]]:
    """For each view the partners to compare with: those that share the most, and some far off in time."""
    count = len(views)
    overlap = np.zeros((count, count))
    for i in range(count):
        probe = seen[i].points[::_PROBE_PX]
        if not len(probe):
            continue
        in_world = se3.transform_points(views[i].world_from_camera, probe)
        for j in range(count):
            if i != j:
                at = views[j].landing(in_world)
                with np.errstate(invalid="ignore"):
                    near = np.abs(seen[j].z[at.v, at.u] - at.z) < _GATE_M[0]
                overlap[i, j] = near.sum() / len(probe)
    pairs = []
    for i in range(count):
        able = np.flatnonzero(overlap[i] >= _MIN_OVERLAP)
        best = able[np.argsort(-overlap[i, able], kind="stable")][: _PARTNERS // 2]
        rest = np.setdiff1d(able, best)
        spread = (
            rest[np.unique(np.linspace(0, len(rest) - 1, _PARTNERS - len(best)).round().astype(int))]
            if len(rest)
            else rest
        )
        pairs += [(i, int(j)) for j in np.concatenate([best, spread])]
    return pairs


def _step(
    views: Sequence[View],
    seen: Sequence[_Seen],
    pairs: Sequence[tuple[int, int]],
    poses: Sequence[Float[np.ndarray, "4 4"]],
    given: Sequence[Float[np.ndarray, "4 4"]],
    prior: PosePrior,
    gate_m: float,
) -> Float[np.ndarray, "V 6"]:
    """One Gauss-Newton step for all poses: twists on camera_from_world from the left."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import spsolve

    count = len(views)
    trust = np.repeat([prior.sigma_rad**-2, prior.sigma_m**-2], 3)
    vector = np.zeros((count, 6))
    blocks: dict[tuple[int, int], np.ndarray] = {}
    for i in range(count):
        blocks[i, i] = np.diag(trust)
        vector[i] = -trust * twist_between(given[i], poses[i])
    for i, j in pairs:
        found = _pair_equations(seen[i], seen[j], views[j], se3.inverse(poses[j]) @ poses[i], gate_m)
        for part in found:
            moves = {i: part.by_one, j: part.by_other}
            for a, left in moves.items():
                weighted = (left * part.weight[:, None]).T
                vector[a] += weighted @ part.residual
                for b, right in moves.items():
                    blocks[a, b] = blocks.get((a, b), 0.0) + weighted @ right
    rows, cols, values = [], [], []
    inner = np.indices((6, 6))
    for (a, b), block in blocks.items():
        rows.append(6 * a + inner[0].ravel())
        cols.append(6 * b + inner[1].ravel())
        values.append(block.ravel())
    matrix = coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))), shape=(6 * count, 6 * count)
    ).tocsc()
    return np.asarray(spsolve(matrix, vector.ravel())).reshape(count, 6)


@dataclass(frozen=True)
class _Equations:
    """Weighted equations ``by_one @ twist_one + by_other @ twist_other = residual``."""

    by_one: Float[np.ndarray, "K 6"]
    by_other: Float[np.ndarray, "K 6"]
    residual: Float[np.ndarray, "K"]
    weight: Float[np.ndarray, "K"]


def _pair_equations(
    one: _Seen, other: _Seen, other_view: View, other_from_one: Float[np.ndarray, "4 4"], gate_m: float
) -> list[_Equations]:
    """Equations of one view's points on another's pictures: by the first pose, by the second, residual, weight."""
    points = se3.transform_points(other_from_one, one.points)
    camera = other_view.camera
    projected = camera.project(points)
    rows: Int64[np.ndarray, "K"] = np.flatnonzero(projected.valid & camera.in_image(projected.pixels_xy))
    xy = projected.pixels_xy[rows]
    u = np.clip(np.rint(xy[:, 0]).astype(np.int64), 0, camera.width_px - 1)
    v = np.clip(np.rint(xy[:, 1]).astype(np.int64), 0, camera.height_px - 1)
    with np.errstate(invalid="ignore"):
        near = other.smooth[v, u] & (np.abs(other.z[v, u] - points[rows, 2]) < gate_m)
    rows, u, v, xy = rows[near], u[near], v[near], xy[near]
    if len(rows) < 50:
        return []
    back = other_from_one[:3, :3]
    here, there = one.points[rows], points[rows]
    rays = camera.normalised_points(np.stack([u, v], axis=1).astype(np.float64))
    normal = other.normals[v, u]
    gap = np.einsum("ni,ni->n", normal, rays * other.z[v, u][:, None].astype(np.float64) - there)
    spread = np.sqrt(2.0) * one.sigma_m[rows]  # the partner's depth of the same surface is about as sure
    out = [_equations(here, there, normal, back, gap, robust(gap / spread) / spread**2)]
    grey = _grey_equations(one, other, rows, xy, here, there, back, other_view)
    return out if grey is None else [*out, grey]


def _grey_equations(
    one: _Seen,
    other: _Seen,
    rows: Int64[np.ndarray, "K"],
    xy: Float[np.ndarray, "K 2"],
    here: Float[np.ndarray, "K 3"],
    there: Float[np.ndarray, "K 3"],
    other_from_one_rotation: Float[np.ndarray, "3 3"],
    other_view: View,
) -> _Equations | None:
    x, y = xy[:, 0].astype(np.float32), xy[:, 1].astype(np.float32)
    found = _sampled(other.grey_image, x, y)
    du, dv = _sampled(other.slopes[0], x, y), _sampled(other.slopes[1], x, y)
    mine = one.grey[rows].astype(np.float64)
    gain = float(found.std() / max(mine.std(), 1e-6))
    if not 0.4 < gain < 2.5:
        return None
    wanted = gain * (mine - np.median(mine)) + float(np.median(found))
    residual = wanted - found
    use = (np.abs(residual) < _GREY_GATE) & (np.hypot(du, dv) > _GREY_SLOPE)
    if use.sum() < 50:
        return None
    jacobian = other_view.camera.jacobian(there[use])
    slope = np.einsum("ni,nij->nj", np.stack([du[use], dv[use]], axis=1), jacobian)
    weight = robust(residual[use] / (2 * _GREY_SIGMA)) / _GREY_SIGMA**2
    return _equations(here[use], there[use], slope, other_from_one_rotation, residual[use], weight)


def _equations(
    here: Float[np.ndarray, "K 3"],
    there: Float[np.ndarray, "K 3"],
    slope: Float[np.ndarray, "K 3"],
    there_from_here_rotation: Float[np.ndarray, "3 3"],
    residual: Float[np.ndarray, "K"],
    weight: Float[np.ndarray, "K"],
) -> _Equations:
    """Equations slope . (move of the partner's camera - move of one's own, turned) = residual."""
    by_one = -moving(here, slope @ there_from_here_rotation)
    return _Equations(by_one, moving(there, slope), residual, weight / _SHARED_PIXELS)


def _sampled(
    image: Float32[np.ndarray, "H W"], x: Float32[np.ndarray, "K"], y: Float32[np.ndarray, "K"]
) -> Float[np.ndarray, "K"]:
    import cv2

    # remap takes maps below 32767 rows: the points are laid out in rows of 1024
    width = min(len(x), 1024)
    pad = -len(x) % width
    maps = [np.concatenate([m, np.zeros(pad, np.float32)]).reshape(-1, width) for m in (x, y)]
    taken = cv2.remap(image, maps[0], maps[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(taken, dtype=np.float64).ravel()[: len(x)]
