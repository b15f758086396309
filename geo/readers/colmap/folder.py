"""Where in a folder a COLMAP model and its pictures are, and what ``colmap.json`` adds to it."""

import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from geo.errors import RecordingError, listed
from geo.readers.evidence import Evidence, path_inside
from geo.readers.json_values import rate_of
from geo.readers.schema import load_json, validate

MANIFEST = "colmap.json"
NOMINAL_RATE_HZ = 10
_PARTS = ("cameras", "images")
_PICTURE_FOLDERS = ("images", "input")
_OTHER_MANIFESTS = ("transforms.json", "recording.json")  # these say more, and are read instead
_MAX_START = 1 << 62  # leaves room for the frames
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "images": {"type": "string", "minLength": 1},
        "reference_camera": {"type": "string", "minLength": 1},
        "rate_hz": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 100000},
        "start_ns": {"type": "integer", "minimum": -_MAX_START, "exclusiveMaximum": _MAX_START},
        "metric": {"type": "boolean"},
        "up": {"type": "array", "minItems": 3, "maxItems": 3, "items": {"type": "number"}},
    },
}


@dataclass(frozen=True)
class Said:
    """What ``colmap.json`` says; a COLMAP model itself says nothing of all this."""

    model: str | None = None
    images: str | None = None
    reference_camera: str | None = None
    rate_hz: Fraction | None = None
    start_ns: int = 0
    metric: bool = False
    up: tuple[float | int, ...] | None = None  # three numbers
    file: Path | None = None


@dataclass(frozen=True)
class ModelFolder:
    """A folder with the files of one model."""

    path: Path
    binary: bool

    @property
    def files(self) -> tuple[Path, ...]:
        """The model's files that are read."""
        ending = "bin" if self.binary else "txt"
        named = (self.path / f"{name}.{ending}" for name in (*_PARTS, "points3D"))
        return tuple(path for path in named if path.is_file())


def look(folder: Path) -> Evidence:
    """What speaks for this format: a model's files in the folder, in ``sparse`` or in ``sparse/<number>``."""
    found = _models(folder)
    others = tuple(name for name in _OTHER_MANIFESTS if (folder / name).is_file())
    if not found:
        return Evidence((), ("cameras.txt|bin with images.txt|bin, here, in sparse or in sparse/0",))
    where = found[0].path.relative_to(folder)
    present = (f"{where / 'images'}.{'bin' if found[0].binary else 'txt'}",)
    return Evidence(present, tuple(f"folder without {name}, which says more and is read instead" for name in others))


def read_manifest(folder: Path) -> Said:
    """``colmap.json`` of a folder, if there is one.

    Raises:
        RecordingError: it is no JSON, or holds what it may not.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return Said()
    data = load_json(path)
    validate(data, _SCHEMA, path)
    rate = data.get("rate_hz")
    up = data.get("up")
    return Said(
        data.get("model"),
        data.get("images"),
        data.get("reference_camera"),
        None if rate is None else rate_of(rate, str(path)),
        data.get("start_ns", 0),
        data.get("metric", False),
        None if up is None else tuple(up),
        path,
    )


def _as_model(path: Path) -> ModelFolder | None:
    """A folder as a model; the binary form comes first, as in COLMAP itself."""
    for ending in ("bin", "txt"):
        if all((path / f"{name}.{ending}").is_file() for name in _PARTS):
            return ModelFolder(path, ending == "bin")
    return None


def _models(folder: Path) -> list[ModelFolder]:
    """Models of a folder: itself, ``sparse``, or ``sparse/<number>`` in rising order."""
    for path in (folder, folder / "sparse"):
        model = _as_model(path)
        if model:
            return [model]
    try:
        numbered = [path for path in (folder / "sparse").iterdir() if path.name.isdecimal() and path.is_dir()]
    except OSError:
        return []
    found = (_as_model(path) for path in sorted(numbered, key=lambda path: (int(path.name), path.name)))
    return [model for model in found if model]


def find_model(folder: Path, said: Said, warnings: list[str]) -> ModelFolder:
    """The model to read: the named one, or of several the one with the most images (all are counted in a warning).

    Raises:
        RecordingError: there is none.
    """
    if said.model is not None:
        path = path_inside(folder, said.model, f"model in {said.file}")
        named = _as_model(path)
        if named is None:
            raise RecordingError(
                f"{said.file}: model {said.model!r}: {path} holds no cameras and images (.bin or .txt)"
            )
        return named
    found = _models(folder)
    if not found:
        raise RecordingError(f"{folder} holds no COLMAP model: {'; '.join(look(folder).missing)}")
    if len(found) == 1:
        return found[0]
    counts = [_image_count(model) for model in found]
    best = found[counts.index(max(counts))]
    counted = ", ".join(f"{model.path.name} ({count} images)" for model, count in zip(found, counts, strict=True))
    warnings.append(
        f"{len(found)} models that do not share a world: {counted}; {best.path.name} is read "
        f'({MANIFEST} with "model": "sparse/<number>" chooses another)'
    )
    return best


def _image_count(model: ModelFolder) -> int:
    """How many images a model states, 0 if that cannot be read (its reader will say why)."""
    try:
        if model.binary:
            with (model.path / "images.bin").open("rb") as file:
                return int(struct.unpack("<Q", file.read(8))[0])
        lines = (model.path / "images.txt").read_bytes().split(b"\n")
        return sum(not line.startswith(b"#") for line in lines) // 2
    except (OSError, struct.error):
        return 0


def picture_folder(folder: Path, said: Said, names: tuple[str, ...]) -> Path:
    """The folder that the images' names count from: the named one, or the first that holds one of them.

    Raises:
        RecordingError: none holds one.
    """
    if said.images is not None:
        path = path_inside(folder, said.images, f"images in {said.file}")
        if not path.is_dir():
            raise RecordingError(f"{said.file}: images {said.images!r}: there is no folder {path}")
        return path
    roots = [folder / name for name in _PICTURE_FOLDERS] + [folder]
    for root in roots:
        if any(picture_file(root, name) for name in names):
            return root
    named = listed(names, 3)
    raise RecordingError(
        f"not one of the {len(names)} images of the model in {folder} exists ({named}); looked in "
        f'{", ".join(map(str, roots))}. Put them there, or name their folder in {MANIFEST}: {{"images": "..."}}'
    )


def picture_file(root: Path, name: str) -> Path | None:
    """An image's file, or None if there is none.

    Raises:
        RecordingError: the name leaves the folder, or is no path.
    """
    try:
        path = path_inside(root, name, "image")
        return path if path.is_file() else None
    except (OSError, ValueError) as error:
        raise RecordingError(f"image {ascii(name)[:60]} in {root} is no path: {error}") from None
