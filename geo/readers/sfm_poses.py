"""Poses that structure from motion gave to pictures: COLMAP's images.txt and EPIC-Fields' JSON.

Both hold camera_from_world (world to camera) with the quaternion as w x y z (FIELD P1); what is returned is
world_from_camera, camera axes +x right, +y down, +z forward as both have them. The scale is whatever the reconstruction
has: not metres unless someone says so.

Sources: COLMAP documentation, "Output Format", images.txt; epic-kitchens/epic-fields-code, README.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.errors import RecordingError, listed
from geo.images import natural_key
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.text_files import number_of, read_text, shown, whole_of
from geo.readers.trajectory_files import NumberedPoses

_POINT_CHARACTERS = frozenset("0123456789+-.eE \tnaif")
_STATED = re.compile(r"#\s*Number of images:\s*(\d{1,12})", re.ASCII)
_FRAME = re.compile(r"frame_(\d{1,18})\.(?:jpe?g|png)", re.ASCII | re.IGNORECASE)
_MAX_NAME = 1024
_LISTED = 5


@dataclass(frozen=True)
class NamedPoses:
    """World_from_camera by image name; names are unique and in natural order (``img2`` before ``img10``)."""

    names: tuple[str, ...]
    world_from_camera: Float[np.ndarray, "N 4 4"]
    image_ids: Int64[np.ndarray, "N"]
    camera_ids: Int64[np.ndarray, "N"]


@dataclass(frozen=True)
class _Image:
    """First line of an image in images.txt."""

    line: int
    image_id: int
    camera_id: int
    name: str
    row: PoseRow  # camera_from_world


def read_colmap_images(path: Path, warnings: list[str]) -> NamedPoses:
    """Poses of COLMAP's images.txt; two lines an image, the second of which may be empty (FIELD P7).

    Ids are neither frame numbers nor an order: the names decide, and may hold blanks.

    Args:
        path: The file.
        warnings: Images without a finite pose (left out), and a stated number of images that is too small.

    Raises:
        RecordingError: unreadable, lines out of step, a name or id twice (both lines named), fewer images than the
            file's own comment states, no image. PoseError: quaternions that are not unit, see ``poses_from_rows``.
    """
    text = read_text(path)
    images = _images(text.split("\n"), path)
    stated = _STATED.search(text)
    if stated and int(stated[1]) > len(images):
        raise RecordingError(
            f"{path} states {stated[1]} images and holds {len(images)}; is it cut off? (If images were taken out on "
            "purpose, correct the comment 'Number of images'.)"
        )
    if stated and int(stated[1]) < len(images):
        warnings.append(f"{path.name} states {stated[1]} images and holds {len(images)}; all are read")
    _refuse_doubles(images, path)
    camera_from_world = poses_from_rows([image.row for image in images], path, warnings)
    known = np.flatnonzero(np.isfinite(camera_from_world).all(axis=(1, 2))).tolist()
    known.sort(key=lambda i: (natural_key(images[i].name), images[i].name))
    return NamedPoses(
        tuple(images[i].name for i in known),
        se3.inverse(camera_from_world[known]),
        np.array([images[i].image_id for i in known], dtype=np.int64),
        np.array([images[i].camera_id for i in known], dtype=np.int64),
    )


def _images(lines: list[str], path: Path) -> list[_Image]:
    """First lines, each followed by its list of points; blank lines and comments stand only before first lines."""
    out: list[_Image] = []
    at = 0
    while at < len(lines):
        text = lines[at].strip()
        at += 1
        if not text or text.startswith("#"):
            continue
        out.append(_image(text, path, at))
        if at < len(lines):  # the last image's empty second line may be missing
            _check_points(lines[at], out[-1], path, at + 1)
        at += 1
    return out


def _image(text: str, path: Path, line: int) -> _Image:
    """IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME."""
    cells = text.split(maxsplit=9)
    if len(cells) < 10:
        raise RecordingError(
            f"{path} line {line}: expected 'IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME', got {shown(text)}. Every "
            "image has two lines, the second may be empty; was one taken out, or is the file cut off?"
        )
    where = f"{path} line {line}"
    names = ("QW", "QX", "QY", "QZ", "TX", "TY", "TZ")
    qw, qx, qy, qz, tx, ty, tz = (
        number_of(cell, f"{where}: {name}") for cell, name in zip(cells[1:8], names, strict=True)
    )
    if len(cells[9]) > _MAX_NAME:
        raise RecordingError(f"{where}: a name of {len(cells[9])} characters; is the file damaged?")
    row = PoseRow(line, (tx, ty, tz), (qw, qx, qy, qz))
    ids = whole_of(cells[0], f"{where}: IMAGE_ID"), whole_of(cells[8], f"{where}: CAMERA_ID")
    return _Image(line, ids[0], ids[1], cells[9], row)


def _check_points(text: str, image: _Image, path: Path, line: int) -> None:
    """The second line is triples X Y POINT3D_ID, or empty: otherwise the two lines are out of step."""
    if not _POINT_CHARACTERS.issuperset(text) or len(text.split()) % 3:
        raise RecordingError(
            f"{path} line {line}: expected the points of image {shown(image.name)} (line {image.line}) as triples "
            f"'X Y POINT3D_ID', or an empty line; got {shown(text)}. Were empty lines taken out?"
        )


def _refuse_doubles(images: list[_Image], path: Path) -> None:
    """Names and ids are unique."""
    names: dict[str, int] = {}
    ids: dict[int, int] = {}
    for image in images:
        if image.name in names:
            raise RecordingError(
                f"{path} lines {names[image.name]} and {image.line} are both image {shown(image.name)}; remove one"
            )
        if image.image_id in ids:
            raise RecordingError(
                f"{path} lines {ids[image.image_id]} and {image.line} have the same IMAGE_ID {image.image_id}; "
                "were two models joined?"
            )
        names[image.name], ids[image.image_id] = image.line, image.line


def read_epic_fields(path: Path, warnings: list[str]) -> NumberedPoses:
    """World_from_camera by frame number from an EPIC-Fields JSON; frames without a pose are simply not listed.

    ``images`` is ``{"frame_0000000012.jpg": [qw, qx, qy, qz, tx, ty, tz], ...}`` or, as an older layout has it,
    ``[[qw, qx, qy, qz, tx, ty, tz, "frame_0000000012.jpg"], ...]``. Frame numbers are those of the names (FIELD V2);
    EPIC-KITCHENS counts its frames from 1.

    Args:
        path: The file.
        warnings: Gaps, and hidden or foreign names (left out), are added here.

    Raises:
        RecordingError: unreadable, no JSON, entries of another form, one frame with different poses, no pose.
        PoseError: quaternions that are not unit, see ``poses_from_rows``.
    """
    rows: list[PoseRow] = []
    numbers: list[int] = []
    names: list[str] = []
    foreign: list[str] = []
    for name, values in _epic_entries(path):
        match = _FRAME.fullmatch(PurePosixPath(name).name)
        if match is None:
            foreign.append(name)
            continue
        qw, qx, qy, qz, tx, ty, tz = _seven(values, f"{path} image {shown(name)}")
        rows.append(PoseRow(shown(name), (tx, ty, tz), (qw, qx, qy, qz)))
        numbers.append(int(match[1]))
        names.append(name)
    if foreign:
        named = listed([shown(name) for name in foreign], _LISTED)
        warnings.append(f"{path.name}: {len(foreign)} images not named frame_<number>.jpg are left out ({named})")
    camera_from_world = poses_from_rows(rows, path, warnings, "image")
    places = tuple(f"image {row.place}" for row in rows)
    stamps = np.array(numbers, dtype=np.int64)
    return NumberedPoses.from_rows(stamps, se3.inverse(camera_from_world), str(path), places, tuple(names))


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as pairs: a name that comes twice is not lost."""


def _epic_entries(path: Path) -> list[tuple[str, Any]]:
    """Name and numbers of each image."""
    text = read_text(path)

    def number(literal: str) -> float:
        return number_of(literal, f"{path}: a number")

    try:
        data = json.loads(text, object_pairs_hook=_Pairs, parse_float=number)
    except RecordingError:
        raise
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path} is no JSON: {error}; is it cut off?") from error
    images = [value for key, value in data if key == "images"] if isinstance(data, _Pairs) else []
    if len(images) != 1 or not isinstance(images[0], list):
        raise RecordingError(f"{path} is no EPIC-Fields file: it needs one 'images' of names and poses")
    if isinstance(images[0], _Pairs):
        return list(images[0])
    for i, entry in enumerate(images[0]):
        if not isinstance(entry, list) or len(entry) != 8 or not isinstance(entry[7], str):
            raise RecordingError(
                f"{path} images[{i}]: expected [qw, qx, qy, qz, tx, ty, tz, name], got {_brief(entry)}"
            )
    return [(entry[7], entry[:7]) for entry in images[0]]


def _seven(values: Any, where: str) -> Sequence[float]:
    """Seven numbers (NaN is one)."""
    fits = isinstance(values, list) and not isinstance(values, _Pairs) and len(values) == 7
    if not fits or any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        raise RecordingError(f"{where}: expected [qw, qx, qy, qz, tx, ty, tz], got {_brief(values)}")
    try:
        return [float(value) for value in values]
    except OverflowError:
        raise RecordingError(f"{where}: a number is too large; is the file damaged?") from None


def _brief(value: Any) -> str:
    """A JSON value for a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
