"""Bodies in a scene and the rays that meet them (Open3D's RaycastingScene)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from cuda_kernels.jit import jit
from egospatial.simulator.hand import SoftBody
from egospatial.simulator.materials import Material, MaterialTable, pack
from egospatial.simulator.meshes import Mesh, corner_normals

NOTHING = np.uint32(0xFFFFFFFF)
SURFACE = ("t_hit", "geometry_ids", "primitive_ids", "primitive_uvs")  # what shading needs
Hits = dict[str, np.ndarray]


@dataclass(frozen=True)
class BodyModel:
    """A rigid body: its mesh and materials by part, and the instance id that its pixels get."""

    mesh: Mesh
    materials: tuple[Material, ...]
    instance_id: int


@dataclass(frozen=True)
class Bodies:
    """Every body of a scene at one moment, as arrays indexed by geometry id."""

    scene: Any
    world_from_body: Float[np.ndarray, "G 4 4"]
    body_from_world: Float[np.ndarray, "G 4 4"]
    triangle_start: np.ndarray
    triangle_material: np.ndarray
    normals: np.ndarray
    instance_ids: np.ndarray
    materials: MaterialTable


class BodySet:
    """Bodies whose poses change from frame to frame; soft ones bring a new mesh each time."""

    def __init__(self, models: list[BodyModel]) -> None:
        self.models = models
        table: list[Material] = []
        self._material_of: list[np.ndarray] = []
        for model in models:
            self._material_of.append((len(table) + model.mesh.parts).astype(np.int32))
            table += model.materials
        self.materials = pack(table)
        self._normals = [corner_normals(model.mesh).astype(np.float32) for model in models]

    def at(self, world_from_body: Float[np.ndarray, "G 4 4"], soft: dict[int, SoftBody] | None = None) -> Bodies:
        """The scene with these poses. ``soft`` bodies are in world and replace the body's own (same triangles)."""
        import open3d as o3d

        scene = o3d.t.geometry.RaycastingScene()
        normals = list(self._normals)
        for index, model in enumerate(self.models):
            pose = world_from_body[index]
            if soft and index in soft:
                vertices = soft[index].mesh.vertices
                normals[index] = (soft[index].corner_normals_in_world @ pose[:3, :3]).astype(np.float32)
            else:
                vertices = model.mesh.vertices @ pose[:3, :3].T + pose[:3, 3]
            scene.add_triangles(
                o3d.core.Tensor.from_numpy(np.ascontiguousarray(vertices, dtype=np.float32)),
                o3d.core.Tensor.from_numpy(np.ascontiguousarray(model.mesh.triangles, dtype=np.uint32)),
            )
        counts = [len(item) for item in self._material_of]
        inverse = np.linalg.inv(world_from_body)
        return Bodies(
            scene,
            np.ascontiguousarray(world_from_body),
            np.ascontiguousarray(inverse),
            (np.cumsum(counts) - counts).astype(np.int64),
            np.concatenate(self._material_of),
            np.ascontiguousarray(np.concatenate(normals)),
            np.array([model.instance_id for model in self.models], dtype=np.uint8),
            self.materials,
        )


@jit(nogil=True)
def _turned(directions: Any, a_from_b: Any, out: Any) -> None:
    for i in range(directions.shape[0]):
        x, y, z = directions[i, 0], directions[i, 1], directions[i, 2]
        for c in range(3):
            out[i, c] = a_from_b[c, 3]
            out[i, c + 3] = a_from_b[c, 0] * x + a_from_b[c, 1] * y + a_from_b[c, 2] * z


def rays_in(
    a_from_camera: Float[np.ndarray, "4 4"], directions_in_camera: Float32[np.ndarray, "N 3"]
) -> Float32[np.ndarray, "N 6"]:
    """Rays (origin, direction) of a camera in frame a."""
    out = np.empty((len(directions_in_camera), 6), dtype=np.float32)
    _turned(np.ascontiguousarray(directions_in_camera), np.ascontiguousarray(a_from_camera, dtype=np.float32), out)
    return out


def cast(scene: Any, rays: Float32[np.ndarray, "N 6"], wanted: tuple[str, ...] = ("geometry_ids",)) -> Hits:
    """First hit of each ray. ``t_hit`` is in units of the direction's length, inf where nothing is hit.

    Args:
        scene: Of ``BodySet.at``.
        rays: Origins and directions in world.
        wanted: Names of Open3D's answers to hand out: t_hit, geometry_ids, primitive_ids, primitive_uvs,
            primitive_normals.
    """
    import open3d as o3d

    hits = scene.cast_rays(o3d.core.Tensor.from_numpy(rays))
    return {name: hits[name].numpy() for name in wanted}


def instance_ids_of(hits: Hits, bodies: Bodies) -> np.ndarray:
    """Instance id of each ray, uint8; 0 where it meets the room or nothing."""
    geometry = hits["geometry_ids"]
    return np.where(geometry == NOTHING, 0, bodies.instance_ids[np.minimum(geometry, len(bodies.instance_ids) - 1)])
