"""Triangle meshes from a few numbers: boxes, turned bodies, lofted tools, handles, capsules."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int64

_CREASE_COSINE = np.cos(np.radians(50.0))  # sharper edges than this stay sharp in shading


@dataclass(frozen=True)
class Mesh:
    """Triangles with a part number each (which material they take)."""

    vertices: Float[np.ndarray, "V 3"]
    triangles: Int64[np.ndarray, "F 3"]
    parts: Int64[np.ndarray, "F"]

    @cached_property
    def bounds(self) -> Float[np.ndarray, "2 3"]:
        """Lowest and highest corner of the axis-parallel box."""
        return np.stack([self.vertices.min(axis=0), self.vertices.max(axis=0)])

    def centered(self) -> "Mesh":
        """The same mesh with the centre of its box at the origin."""
        return replace(self, vertices=self.vertices - self.bounds.mean(axis=0))

    def with_part(self, part: int) -> "Mesh":
        """The same mesh, all of it of one part."""
        return replace(self, parts=np.full(len(self.triangles), part))

    def shifted(self, offset_m: tuple[float, float, float]) -> "Mesh":
        """The same mesh elsewhere."""
        return replace(self, vertices=self.vertices + np.asarray(offset_m))


def join(*meshes: Mesh) -> Mesh:
    """Several meshes as one."""
    offsets = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes[:-1]])
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.triangles + offset for mesh, offset in zip(meshes, offsets, strict=True)]),
        np.concatenate([mesh.parts for mesh in meshes]),
    )


def box(size_m: tuple[float, float, float], low_m: tuple[float, float, float] = (0.0, 0.0, 0.0), part: int = 0) -> Mesh:
    """A box from its lowest corner."""
    unit = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], dtype=np.float64)
    quads = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    triangles = np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))], dtype=np.int64)
    return Mesh(unit * size_m + low_m, triangles, np.full(12, part, dtype=np.int64))


def turned(profile_rz: list[tuple[float, float]], parts: list[int] | None = None, segments: int = 40) -> Mesh:
    """A turned body: the profile (radius, height) from axis to axis, swept around z; a part per profile step."""
    radii, heights = np.asarray(profile_rz, dtype=np.float64).T
    angles = np.arange(segments) * (2 * np.pi / segments)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    rings = np.concatenate(
        [radii[:, None, None] * circle, np.broadcast_to(heights[:, None, None], (len(radii), segments, 1))], axis=-1
    )
    triangles, labels = [], []
    nxt = (np.arange(segments) + 1) % segments
    for step in range(len(radii) - 1):
        low, high = step * segments, (step + 1) * segments
        a, b = low + np.arange(segments), low + nxt
        c, d = high + nxt, high + np.arange(segments)
        if radii[step + 1] > 0:
            triangles.append(np.stack([a, c, d], axis=-1))
            labels.append(np.full(segments, parts[step] if parts else 0))
        if radii[step] > 0:
            triangles.append(np.stack([a, b, c], axis=-1))
            labels.append(np.full(segments, parts[step] if parts else 0))
    return _compact(rings.reshape(-1, 3), np.concatenate(triangles), np.concatenate(labels))


def lofted(
    x_m: list[float],
    half_width_m: list[float],
    low_m: list[float],
    high_m: list[float],
    parts: list[int],
    sides: int = 12,
) -> Mesh:
    """A body along x with rounded cross-sections given per station; a part per step; ends are closed."""
    angles = (np.arange(sides) + 0.5) * (2 * np.pi / sides)
    cosine, sine = np.cos(angles), np.sin(angles)
    power = 0.55  # of a superellipse: between an ellipse and a rectangle
    y = np.sign(cosine) * np.abs(cosine) ** power
    z = np.sign(sine) * np.abs(sine) ** power
    y, z = y / np.abs(y).max(), z / np.abs(z).max()
    low, high = np.asarray(low_m), np.asarray(high_m)
    stations = [
        np.stack([np.full(sides, x), w * y, (lo + hi) / 2 + (hi - lo) / 2 * z], axis=-1)
        for x, w, lo, hi in zip(x_m, half_width_m, low, high, strict=True)
    ]
    vertices = np.concatenate(stations)
    nxt = (np.arange(sides) + 1) % sides
    triangles, labels = [], []
    for step in range(len(x_m) - 1):
        a, b = step * sides + np.arange(sides), step * sides + nxt
        triangles += [np.stack([a, b, b + sides], axis=-1), np.stack([a, b + sides, a + sides], axis=-1)]
        labels += [np.full(2 * sides, parts[step])]
    fan = np.stack([np.zeros(sides - 2), np.arange(2, sides), np.arange(1, sides - 1)], axis=-1).astype(np.int64)
    last = (len(x_m) - 1) * sides
    triangles += [fan, last + fan[:, ::-1]]
    labels += [np.full(sides - 2, parts[0]), np.full(sides - 2, parts[-1])]
    return Mesh(vertices, np.concatenate(triangles).astype(np.int64), np.concatenate(labels).astype(np.int64))


def tube(path: Float[np.ndarray, "P 3"], radius_m: float, part: int = 0, sides: int = 10) -> Mesh:
    """A round tube along a path in the x-z plane (handles), closed at its ends."""
    tangent = np.gradient(path, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    across = np.array([0.0, 1.0, 0.0])
    normal = np.cross(tangent, across)
    angles = np.arange(sides) * (2 * np.pi / sides)
    ring = np.cos(angles)[None, :, None] * normal[:, None] + np.sin(angles)[None, :, None] * across
    vertices = (path[:, None] + radius_m * ring).reshape(-1, 3)
    nxt = (np.arange(sides) + 1) % sides
    triangles = []
    for step in range(len(path) - 1):
        a, b = step * sides + np.arange(sides), step * sides + nxt
        triangles += [np.stack([a, b, b + sides], axis=-1), np.stack([a, b + sides, a + sides], axis=-1)]
    fan = np.stack([np.zeros(sides - 2), np.arange(2, sides), np.arange(1, sides - 1)], axis=-1).astype(np.int64)
    faces = np.concatenate([*triangles, fan, (len(path) - 1) * sides + fan[:, ::-1]])
    return Mesh(vertices, faces, np.full(len(faces), part, dtype=np.int64))


def open_box(size_m: tuple[float, float, float], wall_m: float, part: int = 0, inside_part: int = 1) -> Mesh:
    """A box without a lid, with real walls and a real inside; lowest corner at the origin."""
    (l, w, h), t = size_m, wall_m  # noqa: E741
    return join(
        box((l, w, t), part=inside_part),
        box((l, t, h - t), (0, 0, t), part),
        box((l, t, h - t), (0, w - t, t), part),
        box((t, w - 2 * t, h - t), (0, t, t), part),
        box((t, w - 2 * t, h - t), (l - t, t, t), part),
    )


def face_normals(mesh: Mesh) -> Float[np.ndarray, "F 3"]:
    """Normals of the triangles, length twice their area."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles], 1, 0)
    return np.cross(b - a, c - a)


def corner_normals(mesh: Mesh) -> Float[np.ndarray, "F 3 3"]:
    """Unit shading normals per triangle corner: smooth over shallow edges, sharp over creases."""
    weighted = face_normals(mesh)
    unit = weighted / np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-20)
    corner_vertex = mesh.triangles.ravel()
    order = np.argsort(corner_vertex, kind="stable")
    counts = np.bincount(corner_vertex, minlength=len(mesh.vertices))
    starts = np.cumsum(counts) - counts
    sizes = counts[corner_vertex]  # triangles around each corner's vertex
    corner = np.repeat(np.arange(corner_vertex.size), sizes)
    within = np.arange(corner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    neighbour = order[starts[corner_vertex[corner]] + within] // 3
    similar = np.einsum("ij,ij->i", unit[corner // 3], unit[neighbour]) > _CREASE_COSINE
    summed = np.zeros((corner_vertex.size, 3))
    np.add.at(summed, corner[similar], weighted[neighbour[similar]])
    norm = np.linalg.norm(summed, axis=1, keepdims=True)
    fallback = np.repeat(unit, 3, axis=0)
    return np.where(norm > 1e-20, summed / np.maximum(norm, 1e-20), fallback).reshape(-1, 3, 3)


def _compact(vertices: np.ndarray, triangles: np.ndarray, parts: np.ndarray) -> Mesh:
    """Merge vertices that coincide (the poles of a turned body) and drop empty triangles."""
    _, first, inverse = np.unique(np.round(vertices, 9), axis=0, return_index=True, return_inverse=True)
    merged = inverse.reshape(-1)[triangles]
    real = (merged[:, 0] != merged[:, 1]) & (merged[:, 1] != merged[:, 2]) & (merged[:, 2] != merged[:, 0])
    return Mesh(vertices[first], merged[real].astype(np.int64), parts[real].astype(np.int64))
