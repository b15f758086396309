"""The static scene as a triangle mesh: rendered depth, fused into voxels by Open3D, marching cubes.

Open3D's ``VoxelBlockGrid`` (its ``ScalableTSDFVolume`` gives an empty mesh since 0.20). It looks a voxel's depth up at
the pixel that the projection is cut off to, not rounded: with the principal point as it is, everything would be seen
half a pixel aside, so half a pixel is added to it (tested on a slanted plane). Its ``weight_threshold`` drops what was
seen as often as it says too: here ``min_views`` is the least number of views.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int32, UInt8

from geo import se3
from geo.cameras import PinholeCamera
from recon.backend import Renderer
from recon.errors import ReconError
from recon.ply_container import write_whole
from recon.records import SplatModel
from recon.render import DepthSigma, render, surface_depth
from recon.survey import small_camera

_BLOCK = 16  # voxels along a block's side
_BLOCK_BYTES = _BLOCK**3 * (4 + 2 + 3 * 2)  # distance, weight, colour
_GROWTH = 3  # a block table that grows holds its old and its doubled self
_HALF_PIXEL = 0.5


@dataclass(frozen=True)
class MeshConfig:
    """How a mesh is made. Lengths in the unit of the poses (metres where the recording is metric)."""

    voxel_m: float = 0.02
    """Side of a voxel: details below it are lost."""
    width_px: int = 512
    """Width of the rendered depth; never above the camera's own."""
    max_views: int = 120
    """At most this many of the poses are rendered, evenly picked."""
    min_views: int = 2
    """A piece of surface that fewer views saw is left out."""
    max_z_voxels: float = 400.0
    """Depth beyond this many voxels is left out: a pixel there is wider than a voxel (400 x 2 cm = 8 m)."""
    truncation_voxels: float = 4.0
    """Distance from a surface, in voxels, up to which a view has a say."""
    max_memory_mib: int = 2048
    """Upper bound of the voxels' memory; a scene that needs more is refused with what to do."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        if not 0 < self.voxel_m < np.inf:
            raise ReconError(f"mesh voxel is {self.voxel_m}; it must be a length above 0")
        for name in ("width_px", "max_views", "min_views", "max_memory_mib"):
            if getattr(self, name) < 1:
                raise ReconError(f"mesh {name} is {getattr(self, name)}; it must be at least 1")
        if not (self.truncation_voxels >= 1 and self.max_z_voxels > 0):
            raise ReconError("mesh truncation_voxels must be at least 1 and max_z_voxels above 0")


@dataclass(frozen=True)
class TriangleMesh:
    """Triangles in the world frame; their front (counter-clockwise) is the side that was seen."""

    vertices_in_world: Float32[np.ndarray, "V 3"]
    normals_in_world: Float32[np.ndarray, "V 3"]
    rgb: UInt8[np.ndarray, "V 3"]
    faces: Int32[np.ndarray, "F 3"]


@dataclass(frozen=True)
class DepthView:
    """What one pose saw. ``z_depth_m`` along +z, NaN (or not above 0): nothing; ``rgb`` 0..1."""

    z_depth_m: Float32[np.ndarray, "H W"]
    rgb: Float32[np.ndarray, "H W 3"]
    world_from_camera: Float[np.ndarray, "4 4"]


def mesh_of_model(
    model: SplatModel,
    camera: PinholeCamera,
    world_from_camera: Sequence[Float[np.ndarray, "4 4"]] | Float[np.ndarray, "N 4 4"],
    config: MeshConfig | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    renderer: Renderer | None = None,
) -> TriangleMesh:
    """Mesh of a splat model as the given poses see it.

    Poses that are not finite are left out. Pixels at which the ray meets two surfaces further apart than the
    truncation are left out. One view is held at a time; the voxels are bounded by ``config.max_memory_mib``. The same
    input gives the same mesh, vertex for vertex, for any number of threads.

    Args:
        model: Splats.
        camera: Camera of the poses; depth is rendered at ``config.width_px``.
        world_from_camera: Where to look from.
        config: Settings; defaults when None.
        progress: Called as ``progress(done, total, "mesh")``.
        renderer: Who draws; None takes the CPU.

    Raises:
        ReconError: an empty model, no pose, nothing seen by enough views, or more memory needed than allowed.
    """
    config = config or MeshConfig()
    if not len(model.means_in_world):
        raise ReconError("the model holds no splat, so there is no surface to mesh; the reconstruct stage says why")
    poses = [pose for pose in world_from_camera if np.isfinite(pose).all()]
    if not poses:
        raise ReconError("no pose to look from, so there is nothing to mesh; give frames that have poses")
    picks = np.unique(np.linspace(0, len(poses) - 1, min(config.max_views, len(poses))).round().astype(int)).tolist()
    small = small_camera(camera, config.width_px)

    def views() -> Iterator[DepthView]:
        for done, pick in enumerate(picks):
            yield _rendered(model, small, poses[pick], config, renderer)
            if progress is not None:
                progress(done + 1, len(picks), "mesh")

    return mesh_of_views(views(), small, config)


def mesh_of_views(views: Iterable[DepthView], camera: PinholeCamera, config: MeshConfig | None = None) -> TriangleMesh:
    """Mesh of depth images of one camera, one held at a time.

    Raises:
        ReconError: nothing seen by enough views, or more memory needed than allowed.
    """
    volume = _Volume(camera, config or MeshConfig())
    for view in views:
        volume.add(view)
    return volume.mesh()


def _rendered(
    model: SplatModel, camera: PinholeCamera, pose: Float[np.ndarray, "4 4"], config: MeshConfig, draw: Renderer | None
) -> DepthView:
    view = render(model, camera, pose, sigma=DepthSigma(0.0, 0.0), renderer=draw)
    with np.errstate(invalid="ignore"):
        one_surface = view.sigma_z_m <= config.truncation_voxels * config.voxel_m
    return DepthView(np.where(one_surface, surface_depth(view), np.float32(np.nan)), view.rgb, pose)


class _Volume:
    """Open3D's voxel blocks and the camera that fills them."""

    def __init__(self, camera: PinholeCamera, config: MeshConfig) -> None:
        o3d: Any = importlib.import_module("open3d")
        self._o3d, self._config = o3d, config
        core = o3d.core
        self._grid = o3d.t.geometry.VoxelBlockGrid(
            ("tsdf", "weight", "color"), (core.float32, core.uint16, core.uint16), ((1), (1), (3)),
            config.voxel_m, _BLOCK, 256, core.Device("CPU:0"),
        )  # fmt: skip
        matrix = camera.matrix.astype(np.float64).copy()
        matrix[:2, 2] += _HALF_PIXEL
        self._intrinsic = core.Tensor(matrix)
        self._max_blocks = max(1, config.max_memory_mib * 2**20 // (_BLOCK_BYTES * _GROWTH))

    def add(self, view: DepthView) -> None:
        """Fuse one view."""
        config, o3d = self._config, self._o3d
        reach = config.max_z_voxels * config.voxel_m
        with np.errstate(invalid="ignore"):
            used = (view.z_depth_m > 0) & (view.z_depth_m < reach)
        if not used.any():
            return
        image = o3d.t.geometry.Image
        depth = image(o3d.core.Tensor(np.ascontiguousarray(np.where(used, view.z_depth_m, 0.0), dtype=np.float32)))
        colour = image(o3d.core.Tensor(np.ascontiguousarray(view.rgb, dtype=np.float32)))
        extrinsic = o3d.core.Tensor(np.ascontiguousarray(se3.inverse(view.world_from_camera)))
        where = (self._intrinsic, extrinsic, 1.0, float(reach), float(config.truncation_voxels))
        try:
            blocks = self._grid.compute_unique_block_coordinates(depth, *where)
        except RuntimeError as error:
            if "No block is touched" in str(error):  # it looks at every fourth pixel only
                return
            raise
        self._check_room(blocks)
        self._grid.integrate(blocks, depth, colour, *where)

    def _check_room(self, blocks: Any) -> None:
        table = self._grid.hashmap()
        known = int(table.find(blocks)[1].numpy().sum()) if table.size() else 0
        needed = table.size() + len(blocks) - known
        if needed > self._max_blocks:
            config = self._config
            raise ReconError(
                f"the mesh needs more than {self._max_blocks} blocks of {_BLOCK}^3 voxels "
                f"({config.max_memory_mib} MiB) at a voxel of {config.voxel_m:g}; take a larger "
                "voxel or allow more memory"
            )

    def mesh(self) -> TriangleMesh:
        """Marching cubes over what was fused."""
        size = self._grid.hashmap().size()
        found = (
            self._grid.extract_triangle_mesh(self._config.min_views - 0.5) if size else None
        )  # above it, not from it on
        if found is None or not len(found.triangle.indices):
            raise ReconError(
                f"no surface was seen by {self._config.min_views} views or more within "
                f"{self._config.max_z_voxels * self._config.voxel_m:g} of the camera, so there is nothing to mesh"
            )
        colours = np.clip(np.rint(found.vertex.colors.numpy() * 255), 0, 255).astype(np.uint8)
        return _in_order(found.vertex.positions.numpy(), found.vertex.normals.numpy(), colours,
                         found.triangle.indices.numpy())  # fmt: skip


def _in_order(
    positions: Float32[np.ndarray, "V 3"],
    normals: Float32[np.ndarray, "V 3"],
    rgb: UInt8[np.ndarray, "V 3"],
    faces: Int32[np.ndarray, "F 3"],
) -> TriangleMesh:
    """Vertices sorted by place, equal ones as one, faces sorted: Open3D's order depends on its threads.

    Of equal places the attributes of the lexicographically first are kept; triangles that collapse are dropped.
    """
    keys = np.concatenate([positions, normals, rgb.astype(np.float32)], axis=1) + np.float32(0.0)  # -0.0 becomes 0.0
    order = np.lexsort(keys.T[::-1])
    first = np.ones(len(order), dtype=bool)
    first[1:] = (keys[order[1:], :3] != keys[order[:-1], :3]).any(axis=1)
    new_row = np.empty(len(order), dtype=np.int64)
    new_row[order] = np.cumsum(first) - 1
    kept = order[first]
    corners = new_row[faces]
    corners = corners[(corners != np.roll(corners, 1, axis=1)).all(axis=1)]
    start = corners.argmin(axis=1)
    corners = np.take_along_axis(corners, (start[:, None] + np.arange(3)) % 3, axis=1)
    corners = np.unique(corners, axis=0)
    return TriangleMesh(keys[kept, :3], keys[kept, 3:6], rgb[kept], corners.astype(np.int32))


def write_mesh_ply(path: Path, mesh: TriangleMesh) -> None:
    """Write a mesh as binary little-endian PLY with normals and 8-bit colours; it appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    fields = [(axis, "<f4") for axis in ("x", "y", "z", "nx", "ny", "nz")]
    rows = np.zeros(len(mesh.vertices_in_world), dtype=[*fields, ("red", "u1"), ("green", "u1"), ("blue", "u1")])
    for column, axis in enumerate("xyz"):
        rows[axis], rows[f"n{axis}"] = mesh.vertices_in_world[:, column], mesh.normals_in_world[:, column]
        rows[("red", "green", "blue")[column]] = mesh.rgb[:, column]
    faces = np.zeros(len(mesh.faces), dtype=[("count", "u1"), ("rows", "<i4", 3)])
    faces["count"], faces["rows"] = 3, mesh.faces
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(rows)}\n"
    header += "".join(f"property float {name}\n" for name, _ in fields)
    header += "".join(f"property uchar {name}\n" for name in ("red", "green", "blue"))
    header += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    write_whole(Path(path), header, rows, faces)
