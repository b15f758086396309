"""Horizontal surfaces of the static scene: tables, shelves, the floor.

Points of the depth images outside every object mask vote in a grid of (x, y, height) cells; layers of enough cells
become patches. A patch remembers its height cell by cell, so that slightly tilted or bent tables stay one surface.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from geo.boxes import Box3
from lifting._pixels import dilate
from lifting.config import LiftConfig
from lifting.observe import FrameView
from lifting.records import SceneSurfaces

_MIN_NORMAL_Z = 0.94  # 20 degrees: depth noise tilts single normals
_STEP_RAD = 0.02
_SIDE = np.linspace(-0.5, 0.5, 5)
FOOTPRINT_GRID = np.stack(np.meshgrid(_SIDE, _SIDE, indexing="ij"), axis=-1).reshape(-1, 2)  # in units of the sides


@dataclass(frozen=True)
class Patch:
    """One surface: grid cells (in units of the cell size) with their heights."""

    height_m: float
    residual_m: float  # spread of the cell heights
    area_m2: float
    cell_heights: dict[tuple[int, int], float]


@dataclass(frozen=True)
class Surfaces:
    """All patches, lowest first; ``floor`` is the index of the floor or None."""

    patches: tuple[Patch, ...]
    floor: int | None
    cell_m: float

    def record(self) -> SceneSurfaces:
        """The part that is handed on and stored."""
        nan = float("nan")
        floor = None if self.floor is None else self.patches[self.floor]
        return SceneSurfaces(
            heights_m=np.array([p.height_m for p in self.patches], dtype=np.float64),
            areas_m2=np.array([p.area_m2 for p in self.patches], dtype=np.float64),
            floor_height_m=nan if floor is None else floor.height_m,
            floor_residual_m=nan if floor is None else floor.residual_m,
        )

    def below(self, footprint_xy: Float[np.ndarray, "K 2"], z_m: float, reach_m: float) -> tuple[int, float] | None:
        """Patch and local height under a footprint, the nearest one within ``reach_m`` below or half of it above.

        The cells that the object itself hides are missing: cells up to four away count as well.
        """
        cells = {(int(a), int(b)) for a, b in np.floor(footprint_xy / self.cell_m)}
        best: tuple[int, float] | None = None
        for index, patch in enumerate(self.patches):
            if abs(patch.height_m - z_m) > reach_m + 0.1:
                continue
            local = _near_heights(patch, cells)
            if local is None:
                continue
            gap = z_m - local
            if -0.5 * reach_m <= gap <= reach_m and (best is None or abs(gap) < abs(z_m - best[1])):
                best = (index, local)
        return best


def _near_heights(patch: Patch, cells: set[tuple[int, int]]) -> float | None:
    """Median height of a patch in the given cells and those up to four away; None if too few."""
    around = {(x + dx, y + dy) for x, y in cells for dx in range(-4, 5) for dy in range(-4, 5)}
    heights = [patch.cell_heights[cell] for cell in sorted(around) if cell in patch.cell_heights]
    return float(np.median(heights)) if len(heights) >= max(3, len(around) // 20) else None


def footprint_points(box: Box3) -> Float64[np.ndarray, "25 2"]:
    """A grid over the footprint of an upright box up to its edges, in world x and y."""
    local = np.concatenate([FOOTPRINT_GRID * box.extent_m[:2], np.zeros((len(FOOTPRINT_GRID), 1))], axis=1)
    points: Float64[np.ndarray, "25 2"] = (box.center_in_world + local @ box.world_from_box_rotation.T)[:, :2]
    return points


class SurfaceCollector:
    """Collects horizontal points frame by frame."""

    def __init__(self, config: LiftConfig) -> None:
        self.config = config
        self._points: list[Float64[np.ndarray, "K 3"]] = []
        self._camera_heights: list[float] = []

    def add(self, view: FrameView, object_pixels: Bool[np.ndarray, "h w"], with_static: bool = False) -> None:
        """Take the points of one frame that lie outside all objects and face up.

        ``with_static`` fills what the sensor does not see with the static model.
        """
        free = ~dilate(dilate(object_pixels))
        depth = view.surface_z_m().astype(np.float64)
        if with_static:
            depth = np.where(np.isfinite(depth), depth, view.static_z_m()[0])
        points = horizontal_points(view, np.where(free, depth, np.nan), self.config)
        self._points.append(points)
        self._camera_heights.append(float(view.origin_in_world[2]))

    def surfaces(self) -> Surfaces:
        """Layers of what was collected."""
        config = self.config
        points = np.concatenate(self._points) if self._points else np.zeros((0, 3))
        patches = tuple(sorted(_layers(points, config), key=lambda p: p.height_m))
        floor = None
        if patches:
            eye = float(np.median(self._camera_heights))
            low = patches[0].height_m <= eye - config.floor_below_camera_m
            if low and patches[0].area_m2 >= config.floor_min_area_m2:
                floor = 0
        return Surfaces(patches, floor, config.surface_cell_m)


def horizontal_points(
    view: FrameView, depth: Float[np.ndarray, "h w"], config: LiftConfig
) -> Float64[np.ndarray, "K 3"]:
    """Points in world of pixels (NaN: leave out) whose local surface is level.

    The normal comes from points 1/50 rad away in each direction, so that depth noise averages out.
    """
    step = int(np.clip(round(view.camera.fx_px * _STEP_RAD), 1, 8))
    rows = np.arange(step, depth.shape[0] - step, step)
    cols = np.arange(step, depth.shape[1] - step, step)
    if len(rows) == 0 or len(cols) == 0:
        return np.zeros((0, 3))
    grid_v, grid_u = np.meshgrid(rows, cols, indexing="ij")

    def at(dv: int, du: int) -> Float64[np.ndarray, "K 3"]:
        pixels = np.stack([(grid_v + dv).ravel(), (grid_u + du).ravel()], axis=1)
        return view.to_world(pixels, depth[pixels[:, 0], pixels[:, 1]])

    across, down, middle = at(0, step) - at(0, -step), at(step, 0) - at(-step, 0), at(0, 0)
    normal = np.cross(across, down)
    length = np.linalg.norm(normal, axis=1)
    reach = 12 * step / view.camera.fx_px * np.linalg.norm(middle - view.origin_in_world, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.abs(normal[:, 2]) / length > _MIN_NORMAL_Z
        smooth = (np.linalg.norm(across, axis=1) < reach) & (np.linalg.norm(down, axis=1) < reach)
        below_eye = middle[:, 2] < view.origin_in_world[2]
    kept: Float64[np.ndarray, "K 3"] = middle[level & smooth & below_eye]
    return kept


def _layers(points: Float64[np.ndarray, "K 3"], config: LiftConfig) -> list[Patch]:
    """Peel the highest peaks off the height histogram until what is left is too small."""
    patches: list[Patch] = []
    if len(points) == 0:
        return patches
    cells = np.floor(points[:, :2] / config.surface_cell_m).astype(np.int64)
    heights = points[:, 2]
    alive = np.ones(len(points), dtype=bool)
    base = float(heights.min())
    bins = np.floor((heights - base) / config.surface_bin_m).astype(np.int64)
    for _ in range(24):
        index = _peak_bin(cells[alive], bins[alive])
        if index is None:
            break
        near = alive & (np.abs(bins - index) <= 1)
        middle = float(np.median(heights[near]))
        near = alive & (np.abs(heights - middle) <= 2 * config.surface_bin_m)
        patch = _patch(cells[near], heights[near], config)
        alive &= np.abs(heights - middle) > 3 * config.surface_bin_m
        if patch is None:
            break
        patches.append(patch)
    return patches


def _peak_bin(cells: Int64[np.ndarray, "K 2"], bins: Int64[np.ndarray, "K"]) -> int | None:
    """Height bin that covers the most cells (not the most points: near surfaces have more)."""
    if len(bins) == 0:
        return None
    unique = np.unique(np.column_stack([bins, cells]), axis=0)
    counts = np.bincount(unique[:, 0])
    smooth = np.convolve(counts, [1, 1, 1], mode="same")
    return int(np.argmax(smooth))


def _patch(cells: Int64[np.ndarray, "K 2"], heights: Float64[np.ndarray, "K"], config: LiftConfig) -> Patch | None:
    """Cells with at least three points, or None if they cover too little."""
    unique, inverse, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    enough = counts >= 3
    area = float(enough.sum()) * config.surface_cell_m**2
    if area < config.surface_min_area_m2:
        return None
    order = np.lexsort([heights, inverse])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    medians = heights[order][starts + counts // 2]
    kept = medians[enough]
    table = {(int(x), int(y)): float(h) for (x, y), h in zip(unique[enough], kept, strict=True)}
    middle = float(np.median(kept))
    residual = float(1.4826 * np.median(np.abs(kept - middle)))
    return Patch(middle, residual, area, table)
