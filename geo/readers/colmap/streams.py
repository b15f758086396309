"""Which images of a COLMAP model make one camera's stream, when they were taken, and how further cameras are mounted.

The model knows images, not streams: pictures of one camera belong together; where one camera's pictures lie in several
folders under the same names (two lenses that share intrinsics), each folder is a stream. Equal cameras are one.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Float

from geo import se3
from geo.cameras import Camera
from geo.errors import RecordingError, listed
from geo.images import list_images, natural_key
from geo.readers.colmap.folder import picture_file
from geo.readers.colmap.records import SparseModel

_NS = 1_000_000_000
_RIGID_RAD = np.radians(0.5)
_RIGID_PART = 0.01  # of the reference's distance from its own middle
_LISTED = 20
_EQUAL_DIGITS = 9


@dataclass(frozen=True)
class Group:
    """Images of one stream in natural order; ``keys`` name the moments: cameras of a rig share them."""

    name: str
    camera: Camera
    keys: tuple[str, ...]
    files: tuple[Path, ...]
    world_from_camera: Float[np.ndarray, "N 4 4"]
    folder: Path | None  # None: the pictures lie in several folders


def groups_of(model: SparseModel, root: Path, warnings: list[str]) -> list[Group]:
    """Streams with at least one picture, the one with the most pictures first.

    Raises:
        RecordingError: no picture exists, or every one has a camera of its own.
    """
    rows = _with_pictures(model, root, warnings)
    merged = _merged(model.cameras)
    by_camera: dict[int, list[int]] = {}
    for row in rows:
        by_camera.setdefault(merged[int(model.images.camera_ids[row])], []).append(row)
    split = [(camera_id, part) for camera_id, mine in by_camera.items() for part in _split(model.images.names, mine)]
    if len(split) > 2 and len(split) == len(rows):
        raise RecordingError(
            f"each of the {len(rows)} images has a camera of its own, so there is no stream of pictures; reconstruct "
            "with one camera for all (COLMAP: ImageReader.single_camera) or one for each folder"
        )
    folders = [{PurePosixPath(model.images.names[row]).parent for row in part} for _, part in split]
    groups: list[Group] = []
    for (camera_id, part), mine in zip(split, folders, strict=True):
        alone = len(mine) == 1
        folder = next(iter(mine)) if alone else None
        names = [model.images.names[row] for row in part]
        own = folder is not None and str(folder) != "." and sum(folder in other for other in folders) == 1
        label = "camera" if len(split) == 1 else str(folder) if own else f"camera_{camera_id}"
        if sum(other == camera_id for other, _ in split) > 1 and not own:
            label += f"_{len(groups)}"
        groups.append(
            Group(
                label,
                model.cameras[camera_id],
                tuple(PurePosixPath(name).name if alone else name for name in names),
                tuple(root / PurePosixPath(name) for name in names),
                model.images.world_from_camera[part],
                None if folder is None else root / folder,
            )
        )
    return sorted(groups, key=lambda group: -len(group.keys))


def _with_pictures(model: SparseModel, root: Path, warnings: list[str]) -> list[int]:
    """Rows whose picture exists; the others are left out, counted and named."""
    names = model.images.names
    there = [picture_file(root, name) is not None for name in names]
    missing = [name for name, found in zip(names, there, strict=True) if not found]
    if len(missing) == len(names):
        raise RecordingError(f"not one of the {len(names)} images of the model exists in {root} ({names[0]}, ...)")
    if missing:
        named = listed(missing, _LISTED)
        warnings.append(f"{len(missing)} of {len(names)} images of the model do not exist and are left out: {named}")
    return [row for row, found in enumerate(there) if found]


def _merged(cameras: dict[int, Camera]) -> dict[int, int]:
    """Id of the first camera that equals each."""
    first: dict[tuple[str, tuple[int, int], tuple[float, ...]], int] = {}
    out: dict[int, int] = {}
    for camera_id, camera in cameras.items():
        key = (camera.model, camera.size_wh_px, tuple(round(float(value), _EQUAL_DIGITS) for value in camera.params))
        out[camera_id] = first.setdefault(key, camera_id)
    return out


def _split(names: tuple[str, ...], rows: list[int]) -> list[list[int]]:
    """One camera's rows: together, or by folder where two folders hold the same file name."""
    files = [PurePosixPath(names[row]).name for row in rows]
    if len(set(files)) == len(files):
        return [rows]
    by_folder: dict[PurePosixPath, list[int]] = {}
    for row in rows:
        by_folder.setdefault(PurePosixPath(names[row]).parent, []).append(row)
    return list(by_folder.values())


def moments(groups: list[Group], start_ns: int, rate_hz: Fraction) -> dict[str, int]:
    """Time of every key: its place among all pictures of the streams' folders, registered or not, in natural order."""
    keys = {key for group in groups for key in group.keys}
    for group in groups:
        if group.folder is not None:
            keys.update(path.name for path in list_images(group.folder))
    ordered = sorted(keys, key=lambda key: (natural_key(key), key))
    return {key: start_ns + round(i * _NS / rate_hz) for i, key in enumerate(ordered)}


def mount(reference: Group, other: Group) -> Float[np.ndarray, "4 4"] | None:
    """reference_from_camera where both were registered at the same moments and stayed rigid, else None."""
    rows = {key: i for i, key in enumerate(reference.keys)}
    pairs = [(rows[key], i) for i, key in enumerate(other.keys) if key in rows]
    if not pairs:
        return None
    mine, theirs = (np.array(column) for column in zip(*pairs, strict=True))
    relative = se3.compose(se3.inverse(reference.world_from_camera[mine]), other.world_from_camera[theirs])
    u, _, vt = np.linalg.svd(relative[:, :3, :3].mean(axis=0))
    if np.linalg.det(u @ vt) < 0:
        return None
    rotation, origin = u @ vt, relative[:, :3, 3].mean(axis=0)
    turns = np.linalg.norm(se3.axis_angle_from_rotation(rotation.T @ relative[:, :3, :3]), axis=-1)
    places = reference.world_from_camera[:, :3, 3]
    reach = float(np.linalg.norm(places - places.mean(axis=0), axis=1).max())
    shifts = np.linalg.norm(relative[:, :3, 3] - origin, axis=1)
    if turns.max() > _RIGID_RAD or shifts.max() > max(_RIGID_PART * reach, 1e-9):
        return None
    return se3.from_rotation_translation(rotation, origin)
