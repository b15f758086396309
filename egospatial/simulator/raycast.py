"""Bodies in a scene and the rays that meet them (Open3D's RaycastingScene)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from egospatial.simulator.materials import Material, MaterialTable, pack
from egospatial.simulator.meshes import Mesh, corner_normals

NOTHING = np.uint32(0xFFFFFFFF)
_ANSWERS = ("t_hit", "geometry_ids", "primitive_ids", "primitive_uvs", "primitive_normals")


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

    def at(self, world_from_body: Float[np.ndarray, "G 4 4"], soft: dict[int, Mesh] | None = None) -> Bodies:
        """The scene with these poses. ``soft`` meshes are in world and replace the body's own (same triangles)."""
        import open3d as o3d

        scene = o3d.t.geometry.RaycastingScene()
        normals = list(self._normals)
        for index, model in enumerate(self.models):
            pose = world_from_body[index]
            mesh = model.mesh
            if soft and index in soft:
                mesh = soft[index]
                in_body = Mesh((mesh.vertices - pose[:3, 3]) @ pose[:3, :3], mesh.triangles, mesh.parts)
                normals[index] = corner_normals(in_body).astype(np.float32)
                vertices = mesh.vertices
            else:
                vertices = mesh.vertices @ pose[:3, :3].T + pose[:3, 3]
            scene.add_triangles(
                o3d.core.Tensor(np.ascontiguousarray(vertices, dtype=np.float32)),
                o3d.core.Tensor(np.ascontiguousarray(mesh.triangles, dtype=np.uint32)),
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


def cast(
    scene: Any, origin_in_world: Float[np.ndarray, "3"], directions_in_world: Float[np.ndarray, "N 3"]
) -> dict[str, np.ndarray]:
    """First hit of each ray: ``t_hit`` (in units of the direction's length), ``geometry_ids``, ... as arrays."""
    import open3d as o3d

    rays = np.empty((len(directions_in_world), 6), dtype=np.float32)
    rays[:, :3] = origin_in_world
    rays[:, 3:] = directions_in_world
    hits = scene.cast_rays(o3d.core.Tensor(rays))
    return {name: hits[name].numpy() for name in _ANSWERS}


def instance_ids_of(hits: dict[str, np.ndarray], bodies: Bodies) -> np.ndarray:
    """Instance id of each ray, uint8; 0 where it meets the room or nothing."""
    geometry = hits["geometry_ids"]
    return np.where(geometry == NOTHING, 0, bodies.instance_ids[np.minimum(geometry, len(bodies.instance_ids) - 1)])
