"""In plan: the level that a thing rests on, and where on it the thing ends.

All of it happens on a grid in the support's plane with the place in its middle cell. What stands there is what the
mean of many views' heights lifts over the support by a millimetre or two, and whatever is tall.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from tracking.embedded.plane import Plane, find_support, refined_plane, sensor_sigma_m
from tracking.embedded.views import REACH_M, View

_CELL_M = 0.004  # m, side of a cell of the plan
_SIDE = int(2 * REACH_M / _CELL_M) + 3  # cells along a side of the plan
_MIDDLE = _SIDE // 2  # the cell of the place
_BELOW_M = 0.35  # m, how far under the place its support may lie
_LEVEL_M = 0.002  # m, height of a bin in the histogram of levels
_LEVEL_AREA_M2 = 1.5e-3  # m^2, a level surface smaller than this holds nothing up
_LEVEL_SHIFT_M = 0.015  # m, a refined level further from the histogram's than this has tipped over
_MIN_LEVEL_POINTS = 30  # points at or below the place, fewer show no level
_LOW_M = 0.02  # m, heights up to this are averaged; what is higher is tall and known without
_MIN_COUNT = 0.5  # views' points per cell (blurred), less is not known
_TALL_M = 0.012  # m, voxels this high stand on the support whatever the mean says
_TOWERING_M = 0.12  # m, walls are at least this high
_TOWERING_SHARE = 0.4  # of a wall's cells that were seen so high
_WALL_M = 0.4  # m, no object is as long, straight and upright as this
_WALL_TRIES = 120  # pairs of cells that a wall is sought through
_DENSE_M = 0.9  # m, cameras nearer than this leave gaps of one cell at most
_NECK_CELLS = 4  # cells, widest half neck that is cut to part a piece that is too large
_NEAR_CELLS = 4  # cells, how far from the place its piece may begin
_SHEET_M = 0.0055  # lower than any tool that lies flat: paper, cloth
_SKIRT_M = 0.008  # m, beside a tall thing blur raises cells up to here


@dataclass(frozen=True)
class Site:
    """The place that is asked about and how it was looked at."""

    place_in_world: Float[np.ndarray, "3"]
    camera_in_world: Float[np.ndarray, "3"]  # of the nearest view
    range_m: float  # mean distance of the points that were fused
    up_in_world: Float[np.ndarray, "3"] | None
    max_object_m: float

    @property
    def sigma_m(self) -> float:
        """Noise of one depth pixel at this range."""
        return float(sensor_sigma_m(self.range_m))


@dataclass(frozen=True)
class Footprint:
    """Which voxels stand on a support in one piece with the place, and the piece's area."""

    belongs: Bool[np.ndarray, "V"]
    area_m2: float


@dataclass(frozen=True)
class _Plan:
    """A grid in a plane, around a place."""

    plane: Plane
    place_in_world: Float[np.ndarray, "3"]
    axes_in_world: Float[np.ndarray, "2 3"]

    @classmethod
    def on(cls, plane: Plane, place_in_world: Float[np.ndarray, "3"]) -> "_Plan":
        normal = plane.normal_in_world
        across = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
        across /= np.linalg.norm(across)
        return cls(plane, place_in_world, np.stack([across, np.cross(normal, across)]))

    def across_m(self, points_in_world: Float[np.ndarray, "P 3"]) -> Float[np.ndarray, "P 2"]:
        """Coordinates in the plane, from the place."""
        return np.asarray((points_in_world - self.place_in_world) @ self.axes_in_world.T)

    def cells(self, points_in_world: Float[np.ndarray, "P 3"]) -> Int64[np.ndarray, "P 2"]:
        """Column and row per point, cut to the grid."""
        cell = np.floor(self.across_m(points_in_world) / _CELL_M).astype(int) + _MIDDLE
        return np.asarray(cell.clip(0, _SIDE - 1))


def support_under(points_in_world: Float32[np.ndarray, "V 3"], site: Site, reach_m: float) -> Plane | None:
    """The surface under the place: the largest level one where up is known, else the best plane; None if none."""
    place, up = site.place_in_world, site.up_in_world
    tolerance = max(0.004, 0.6 * site.sigma_m)
    if up is None:
        return find_support(points_in_world[None], place, site.camera_in_world, None, None, reach_m, tolerance)
    away = points_in_world - place
    height = away @ up
    across = away - height[:, None] * up
    within = np.linalg.norm(across, axis=-1) < reach_m
    near = within & (height < tolerance) & (height > -_BELOW_M)
    if near.sum() < _MIN_LEVEL_POINTS:
        return None
    from_bottom_m = _largest_level(height[near] + _BELOW_M, across[near], _BELOW_M + tolerance)
    if from_bottom_m is None:
        return None
    offset = float(place @ up) - _BELOW_M + from_bottom_m
    plane = refined_plane(points_in_world[within].astype(np.float64), up, offset, tolerance)
    return plane if abs(plane.height_m(place) - float(place @ up - offset)) < _LEVEL_SHIFT_M else None


def _largest_level(from_bottom_m: np.ndarray, across: np.ndarray, range_m: float) -> float | None:
    """The height that covers the largest area in plan, over what any height covers; None if that is small."""
    bins = np.floor(from_bottom_m / _LEVEL_M).astype(np.int64)
    cells = np.floor(across / (2 * _CELL_M)).astype(np.int64)
    bins = np.unique(np.concatenate([bins[:, None], cells], axis=-1), axis=0)[:, 0]
    count = np.convolve(np.bincount(bins, minlength=int(range_m / _LEVEL_M) + 2), np.ones(3), "same")
    area = (count - np.median(count[count > 0])) * (2 * _CELL_M) ** 2
    best = int(np.argmax(area))
    return None if area[best] < _LEVEL_AREA_M2 else (best + 0.5) * _LEVEL_M


def footprint_on(
    points_in_world: Float32[np.ndarray, "V 3"], views: list[View], plane: Plane, site: Site, reach_m: float
) -> Footprint | None:
    """The piece that stands on the support at the place; None if nothing does or it is larger than any object.

    ``points_in_world`` are the voxels fused from ``views``; only what lies within ``reach_m`` in plan counts.
    """
    import cv2

    plan = _Plan.on(plane, site.place_in_world)
    threshold = 0.0022 + 0.4 * site.sigma_m
    cell, height = plan.cells(points_in_world), plane.height_m(points_in_world)
    tall = np.zeros((_SIDE, _SIDE), bool)
    high = (height > max(_TALL_M, 2.0 * threshold)) & (np.abs(plan.across_m(points_in_world)) < reach_m).all(-1)
    tall[cell[high, 1], cell[high, 0]] = True
    towering = np.zeros_like(tall)
    towering[cell[high & (height > _TOWERING_M), 1], cell[high & (height > _TOWERING_M), 0]] = True
    wall = _walls(tall, towering, 2.0 * site.sigma_m + 0.006)
    tall &= ~wall
    mean, seen = _mean_heights(plan, views, site, reach_m)
    surely = np.maximum(threshold, 2.0 * site.sigma_m / np.sqrt(np.maximum(4.0 * seen, 1.0)))
    raised = _opened((seen >= _MIN_COUNT) & (mean > surely) & ~_closed(wall, 5))  # nor the wall's foot
    width = 3 if site.range_m < _DENSE_M else 5
    piece = _piece_at(_closed(raised | tall, width).astype(np.uint8), int(site.max_object_m / _CELL_M))
    if piece is None or (reach_m < REACH_M and _is_cut_off(piece, reach_m)):
        return None
    piece = _without_sheets(piece, tall, mean)
    whole = _without_holes(piece)
    inside = whole[cell[:, 1], cell[:, 0]]
    over = np.where(piece[cell[:, 1], cell[:, 0]], 0.6 * threshold, -0.002)
    if tall[piece].mean() > 0.3:  # blur raises the cells beside a tall thing
        core = cv2.erode(np.pad(whole, 1).astype(np.uint8), np.ones((5, 5), np.uint8))[1:-1, 1:-1] > 0
        over = np.where(core[cell[:, 1], cell[:, 0]], over, max(2.0 * threshold, _SKIRT_M))
    return Footprint(np.asarray(inside & (height > over)), float(whole.sum()) * _CELL_M**2)


def _mean_heights(
    plan: _Plan, views: list[View], site: Site, reach_m: float
) -> tuple[Float[np.ndarray, "S S"], Float32[np.ndarray, "S S"]]:
    """Mean height over the support per cell, of what lies near it, and by how many points it was seen."""
    import cv2

    total, count = np.zeros((_SIDE, _SIDE), np.float32), np.zeros((_SIDE, _SIDE), np.float32)
    for view in views:
        cloud = view.points_in_world
        cloud = cloud[(np.abs(plan.across_m(cloud)) < reach_m).all(-1)]
        cell, height = plan.cells(cloud), plan.plane.height_m(cloud)
        height = height - _own_level(plan.across_m(cloud), height)
        low = np.abs(height) < _LOW_M
        np.add.at(total, (cell[low, 1], cell[low, 0]), height[low].astype(np.float32))
        np.add.at(count, (cell[low, 1], cell[low, 0]), 1.0)
    total, count = (cv2.GaussianBlur(image, (0, 0), 1.0, borderType=cv2.BORDER_CONSTANT) for image in (total, count))
    mean = total / np.maximum(count, 1e-6)
    return np.asarray(mean - _curved_level(mean, count)), np.asarray(count)


def _without_sheets(
    piece: Bool[np.ndarray, "S S"], tall: Bool[np.ndarray, "S S"], mean: Float[np.ndarray, "S S"]
) -> Bool[np.ndarray, "S S"]:
    """A tall thing at the middle without the paper that it stands beside: flat, very low, and not enclosed by it."""
    import cv2

    around = slice(_MIDDLE - 2, _MIDDLE + 3)
    upright = _closed(tall & piece, 5)
    if not upright[around, around].any():
        return piece
    own = cv2.dilate(_without_holes(upright).astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    sheet = piece & ~own
    if not sheet.any() or float(np.median(mean[sheet])) >= _SHEET_M:
        return piece
    _, labels = cv2.connectedComponents((piece & own).astype(np.uint8), connectivity=8)
    held = np.bincount(labels[around, around].ravel())
    held[0] = 0
    return np.asarray(labels == int(np.argmax(held))) if held.any() else piece


def _closed(image: Bool[np.ndarray, "S S"], width: int) -> Bool[np.ndarray, "S S"]:
    import cv2

    return np.asarray(cv2.morphologyEx(image.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((width, width), np.uint8)) > 0)


def _opened(image: Bool[np.ndarray, "S S"]) -> Bool[np.ndarray, "S S"]:
    """Without what is one cell wide.

    OpenCV does not mirror the kernel: with one anchor for both steps, opening by 2 x 2 shifts all by a cell.
    """
    import cv2

    pair = np.ones((2, 2), np.uint8)
    return np.asarray(cv2.dilate(cv2.erode(image.astype(np.uint8), pair, anchor=(1, 1)), pair, anchor=(0, 0)) > 0)


def _own_level(across: Float[np.ndarray, "P 2"], height: Float[np.ndarray, "P"]) -> Float[np.ndarray, "P"]:
    """The support's height in one view: pose noise shifts and tilts it by millimetres (robust, damped)."""
    terms = np.concatenate([across / REACH_M, np.ones((len(across), 1))], axis=-1)
    level = np.zeros(3)
    for width in (0.010, 0.007, 0.005):
        weight = _tukey(height - terms @ level, width)
        if weight.sum() < 60:
            return np.zeros(len(height))
        normal = (terms * weight[:, None]).T @ terms + np.diag([20.0, 20.0, 5.0])
        level = np.linalg.solve(normal, (terms * weight[:, None]).T @ height)
    return np.asarray(terms @ level)


def _curved_level(mean: Float32[np.ndarray, "S S"], count: Float32[np.ndarray, "S S"]) -> Float[np.ndarray, "S S"]:
    """A slightly curved support: robust second-order surface through the cells near zero height."""
    v, u = np.mgrid[-1 : 1 : mean.shape[0] * 1j, -1 : 1 : mean.shape[1] * 1j]
    terms = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], axis=-1)
    level = np.zeros(6)
    known = (count >= _MIN_COUNT) & (np.abs(mean) < 0.01)
    if known.sum() < 400:
        return np.zeros_like(mean)
    a, h = terms[known], mean[known]
    for width in (0.006, 0.004, 0.003):
        weight = _tukey(h - a @ level, width)
        level = np.linalg.solve((a * weight[:, None]).T @ a + 10.0 * np.eye(6), (a * weight[:, None]).T @ h)
    return np.asarray(terms @ level)


def _tukey(residual_m: np.ndarray, width_m: float) -> np.ndarray:
    """Tukey's biweight."""
    return np.where(np.abs(residual_m) < width_m, (1 - (residual_m / width_m) ** 2) ** 2, 0.0)


def _walls(
    tall: Bool[np.ndarray, "S S"], towering: Bool[np.ndarray, "S S"], thickness_m: float
) -> Bool[np.ndarray, "S S"]:
    """Straight high things longer than any object: walls, seen edge-on from above (two at most)."""
    v, u = np.nonzero(tall)
    rng = np.random.default_rng(11)
    half = max(1.5, thickness_m / _CELL_M)
    out = np.zeros_like(tall)
    for _ in range(2):
        if len(v) < 60:
            break
        band = _straight_band(u, v, half, rng)
        if band is None:
            break
        if towering[v[band], u[band]].mean() > _TOWERING_SHARE:
            out[v[band], u[band]] = True
        v, u = v[~band], u[~band]
    return out


def _straight_band(
    u: Int64[np.ndarray, "K"], v: Int64[np.ndarray, "K"], half_cells: float, rng: np.random.Generator
) -> Bool[np.ndarray, "K"] | None:
    """The fullest straight band of cells that is as long as a wall and has no gaps; None if there is none."""
    best: tuple[int, np.ndarray] | None = None
    for i, j in rng.integers(0, len(v), (_WALL_TRIES, 2)):
        along = np.array([u[j] - u[i], v[j] - v[i]], float)
        length = float(np.linalg.norm(along))
        if length < 0.5 * _WALL_M / _CELL_M:
            continue
        along /= length
        off = (u - u[i]) * along[1] - (v - v[i]) * along[0]
        band = np.abs(off) <= half_cells
        if best is None or band.sum() > best[0]:
            position = (u - u[i])[band] * along[0] + (v - v[i])[band] * along[1]
            filled = len(np.unique(np.floor(position)))
            if filled * _CELL_M >= _WALL_M and filled > 0.8 * np.ptp(position):
                best = int(band.sum()), band
    return None if best is None else best[1]


def _piece_at(standing: np.ndarray, max_cells: int) -> Bool[np.ndarray, "S S"] | None:
    """The connected piece at the middle; one that is too large is parted at its necks by opening."""
    import cv2

    for radius in range(_NECK_CELLS + 1):
        kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
        opened = cv2.erode(standing, kernel) if radius else standing
        _, labels = cv2.connectedComponents(opened, connectivity=8)
        reach = _NEAR_CELLS + radius
        window = labels[_MIDDLE - reach : _MIDDLE + reach + 1, _MIDDLE - reach : _MIDDLE + reach + 1]
        v, u = np.nonzero(window)
        if len(v) == 0:
            return None
        nearest = int(np.argmin((v - reach) ** 2 + (u - reach) ** 2))
        piece = labels == window[v[nearest], u[nearest]]
        if radius:
            piece = (cv2.dilate(piece.astype(np.uint8), kernel) > 0) & (standing > 0)
        rows, cols = np.nonzero(piece)
        if max(np.ptp(rows), np.ptp(cols)) <= max_cells:
            return np.asarray(piece)
    return None


def _is_cut_off(piece: Bool[np.ndarray, "S S"], reach_m: float) -> bool:
    """True if a piece goes on at the border of what was looked at: a wall of a container, not a thing in it."""
    v, u = np.nonzero(piece)
    return bool(max(np.abs(v - _MIDDLE).max(), np.abs(u - _MIDDLE).max()) >= reach_m / _CELL_M - 2)


def _without_holes(piece: Bool[np.ndarray, "S S"]) -> Bool[np.ndarray, "S S"]:
    """The piece and all that it encloses."""
    import cv2

    outside = np.pad((~piece).astype(np.uint8), 1, constant_values=1)
    _, labels = cv2.connectedComponents(outside, connectivity=4)
    return np.asarray(labels[1:-1, 1:-1] != labels[0, 0])
