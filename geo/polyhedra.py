"""Clipping of convex polyhedra by half-spaces."""

import numpy as np
from jaxtyping import Float

# Faces of a box, corners counter-clockwise seen from outside; corner numbering as in geo.boxes.
_BOX_FACES = ((0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6))
Polygon = np.ndarray  # [K, 3], counter-clockwise from outside


def convex_intersection_volume(
    box_corners: Float[np.ndarray, "8 3"], normals: Float[np.ndarray, "P 3"], offsets: Float[np.ndarray, "P"]
) -> float:
    """Volume of a box's part where ``normals @ x <= offsets`` for every plane (outward unit normals)."""
    origin = box_corners.mean(axis=0)
    scale = float(np.ptp(box_corners, axis=0).max())
    points = box_corners - origin
    faces: list[Polygon] = [points[list(face)] for face in _BOX_FACES]
    for normal, offset in zip(normals, offsets - normals @ origin, strict=True):
        faces = _clip(faces, normal, float(offset), 1e-12 * max(scale, 1e-12))
        if len(faces) < 4:
            return 0.0
    return max(_volume(faces), 0.0)


def _clip(faces: list[Polygon], normal: Float[np.ndarray, "3"], offset: float, epsilon: float) -> list[Polygon]:
    """Cut off what lies beyond a plane and close the hole with a new face."""
    kept: list[Polygon] = []
    rim: list[np.ndarray] = []
    closed, cut = False, False
    for face in faces:
        distance = face @ normal - offset
        if (distance <= epsilon).all():
            on_plane = np.abs(distance) <= epsilon
            closed = closed or bool(on_plane.all())
            kept.append(face)
            rim.extend(face[on_plane])
            continue
        cut = True
        if (distance >= -epsilon).all():
            rim.extend(face[np.abs(distance) <= epsilon])
            continue
        clipped, crossings = _clip_polygon(face, distance, epsilon)
        rim.extend(crossings)
        if len(clipped) >= 3:
            kept.append(np.array(clipped))
    if cut and not closed and len(rim) >= 3:
        cap = _ordered_cap(np.array(rim), normal)
        if cap is not None:
            kept.append(cap)
    return kept


def _clip_polygon(
    face: Polygon, distance: Float[np.ndarray, "K"], epsilon: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sutherland-Hodgman against one plane; also the points on the plane."""
    clipped: list[np.ndarray] = []
    crossings: list[np.ndarray] = []
    for i in range(len(face)):
        j = (i + 1) % len(face)
        if distance[i] <= epsilon:
            clipped.append(face[i])
        if abs(distance[i]) <= epsilon:
            crossings.append(face[i])
        elif abs(distance[j]) > epsilon and (distance[i] < 0) != (distance[j] < 0):
            point = face[i] + (face[j] - face[i]) * (distance[i] / (distance[i] - distance[j]))
            clipped.append(point)
            crossings.append(point)
    return clipped, crossings


def _ordered_cap(rim: Float[np.ndarray, "K 3"], normal: Float[np.ndarray, "3"]) -> Polygon | None:
    """Points of a convex polygon counter-clockwise about the normal."""
    centre = rim.mean(axis=0)
    axis = np.eye(3)[np.argmin(np.abs(normal))]
    e1 = np.cross(normal, axis)
    e1 /= np.linalg.norm(e1)
    e2 = np.cross(normal, e1)
    local = rim - centre
    angle = np.arctan2(local @ e2, local @ e1)
    return np.asarray(rim[np.argsort(angle, kind="stable")])


def _volume(faces: list[Polygon]) -> float:
    """Divergence theorem over triangle fans: sum of v0 . (v1 x v2) / 6."""
    total = 0.0
    for face in faces:
        total += float(
            np.einsum("ij,ij->", np.broadcast_to(face[0], (len(face) - 2, 3)), np.cross(face[1:-1], face[2:]))
        )
    return total / 6
