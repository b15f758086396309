"""The depth group of geometry.h5: its datasets, its version, and reading frames back."""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt8, UInt16

from egospatial.errors import StoreError
from egospatial.store import hdf5, layout
from egospatial.store.depth_coding import DepthCoding
from geo.cameras import PinholeCamera
from recon.records import AlignmentOutcome, DepthFrame

FILE_SCHEMA = "egospatial.geometry/1"
DEPTH_SCHEMA = "egospatial.depth/2"
DEPTH_DATASETS = ("z_depth", "sigma", "origin")
PROVIDED_COLUMNS = ("outcome", "scale", "shift", "residual", "anchors")
_TYPES = (np.uint16, np.uint8, np.uint8)
_CODING = ("first_z", "z_step", "first_sigma", "sigma_step")
_ZSTD_LEVEL = 3
_HALF_MILLIMETRE = 0.0005


@dataclass(frozen=True)
class ProvidedTable:
    """How provided depth was fitted to each frame (``recon.records.DepthAlignment``), as columns."""

    outcome: UInt8[np.ndarray, "N"]
    scale: Float64[np.ndarray, "N"]
    shift: Float64[np.ndarray, "N"]
    residual: Float64[np.ndarray, "N"]
    anchors: Int64[np.ndarray, "N"]

    def counts(self) -> dict[AlignmentOutcome, int]:
        """How many frames ended how."""
        return {kind: int((self.outcome == kind).sum()) for kind in AlignmentOutcome}


def create_datasets(group: Any, count: int, camera: PinholeCamera) -> None:
    """Empty datasets of ``count`` frames, one compressed chunk a frame."""
    import hdf5plugin

    shape = (count, camera.height_px, camera.width_px)
    for name, dtype in zip(DEPTH_DATASETS, _TYPES, strict=True):
        group.create_dataset(
            name, shape, dtype=dtype, chunks=(1, *shape[1:]), shuffle=name == "z_depth", track_times=False,
            **hdf5plugin.Zstd(clevel=_ZSTD_LEVEL),
        )  # fmt: skip


def describe(group: Any, coding: DepthCoding, camera: PinholeCamera, largest_z: float) -> None:
    """Attributes that say what the numbers mean."""
    group.attrs["schema"] = DEPTH_SCHEMA
    for name in _CODING:
        group.attrs[name] = getattr(coding, name)
    group.attrs["largest_z"] = largest_z
    hdf5.put(group, "camera_matrix", camera.matrix, unit="px", meaning="pixel centres at whole numbers")
    group["z_depth"].attrs["meaning"] = (
        "s: zigzag of the left difference of codes; c = cumsum((s >> 1) ^ -(s & 1)) along a row, modulo 65536; "
        "depth along +z in metres (source units if not metric) = first_z * exp((c - 1) * z_step); c = 0 is none"
    )
    group["sigma"].attrs["meaning"] = "one standard deviation = first_sigma * exp((s - 1) * sigma_step); 0 = none"
    group["origin"].attrs["meaning"] = "0 none, 1 static, 2 sensor, 3 both, 4 object, 5 provided"


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Any]:
    """geometry.h5 open for reading, with the filters of its depth known to HDF5; memory stays flat over the frames."""
    import hdf5plugin  # noqa: F401  (registers them)

    with hdf5.opened(folder / layout.GEOMETRY, FILE_SCHEMA) as file:
        hdf5.bound_metadata(file)
        yield file


def depth_of(file: Any, path: Path) -> Any:
    """The depth group.

    Raises:
        StoreError: there is none yet, or it is of a version that is not known.
    """
    if "depth" not in file:
        raise StoreError(f"{path}: holds no depth yet; run the depth stage first.")
    group = file["depth"]
    schema = group.attrs.get("schema")
    if schema not in (None, DEPTH_SCHEMA):  # the first version had none
        raise StoreError(
            f"{path}: depth is stored as {schema!r}; this version reads {DEPTH_SCHEMA!r} and the one before it. "
            "Read it with the version that wrote it, or run the depth stage again."
        )
    return group


class _Coding(Protocol):
    def decode(self, z_depth: Any, sigma: Any, origin: Any) -> DepthFrame: ...


@dataclass(frozen=True)
class _LinearCoding:
    """The first version: uint16 steps of ``unit_m``, sigma as float16."""

    unit_m: float

    def decode(
        self,
        z_depth: UInt16[np.ndarray, "h w"],
        sigma: Float32[np.ndarray, "h w"],
        origin: UInt8[np.ndarray, "h w"],
    ) -> DepthFrame:
        known, nan = z_depth != 0, np.float32(np.nan)
        z = np.where(known, z_depth * np.float32(self.unit_m), nan).astype(np.float32)
        return DepthFrame(z, np.where(known, sigma.astype(np.float32), nan), origin)


class DepthReader:
    """Depth frames of a finished folder, read when asked for."""

    def __init__(self, folder: Path) -> None:
        """Check the file and read what all frames share.

        Raises:
            StoreError: no geometry.h5, damaged, no depth in it yet, or depth of an unknown version.
        """
        self._folder, self._path = folder, folder / layout.GEOMETRY
        with opened(folder) as file:
            group = depth_of(file, self._path)
            self._coding, self.unit_m = _coding_of(group)
            self._shape = tuple(int(side) for side in group["z_depth"].shape)
            matrix = hdf5.get(group, "camera_matrix")
            self.provided = _provided(group)
        self.camera = PinholeCamera(
            self._shape[2], self._shape[1], *(float(matrix[i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
        )

    def __len__(self) -> int:
        """Number of frames."""
        return int(self._shape[0])

    def read(self, frame: int) -> DepthFrame:
        """Depth of a frame; NaN where there is none."""
        if not 0 <= frame < len(self):
            raise StoreError(f"{self._path}: no frame {frame}; it holds frames 0 to {len(self) - 1}.")
        with opened(self._folder) as file:
            return self._decoded(file["depth"], frame)

    def __iter__(self) -> Iterator[DepthFrame]:
        """All frames in order."""
        with opened(self._folder) as file:
            for frame in range(len(self)):
                yield self._decoded(file["depth"], frame)

    def _decoded(self, group: Any, frame: int) -> DepthFrame:
        return self._coding.decode(*(group[name][frame] for name in DEPTH_DATASETS))


def _coding_of(group: Any) -> tuple[_Coding, float]:
    """How the numbers are read, and a step in which 16-bit images hold all of this depth."""
    if "schema" not in group.attrs:
        unit = float(group.attrs["unit_m"])
        return _LinearCoding(unit), unit
    largest = float(group.attrs["largest_z"])
    return DepthCoding(**{name: float(group.attrs[name]) for name in _CODING}), linear_unit(largest)


def linear_unit(largest_z: float) -> float:
    """Step of a 16-bit image that holds such depth: half a millimetre if that suits, else a power of two."""
    if largest_z == 0 or 1.0 <= largest_z <= 65535 * _HALF_MILLIMETRE:
        return _HALF_MILLIMETRE
    return float(2.0 ** np.ceil(np.log2(largest_z / 65535)))


def put_provided(group: Any, table: ProvidedTable) -> None:
    """Write the table of provided depth, if any frame had some."""
    if table.outcome.any():
        node = group.create_group("provided")
        for name in PROVIDED_COLUMNS:
            hdf5.put(node, name, getattr(table, name))
        node["outcome"].attrs["meaning"] = ", ".join(f"{kind.value} {kind.name.lower()}" for kind in AlignmentOutcome)
        node["residual"].attrs["meaning"] = "median |provided - anchor| / anchor after the fit"


def _provided(group: Any) -> ProvidedTable | None:
    if "provided" not in group:
        return None
    return ProvidedTable(*(hdf5.get(group["provided"], name) for name in PROVIDED_COLUMNS))


def content_digest(group: Any) -> str:
    """Digest over every stored chunk as it is on disk, frame by frame, and over the table of provided depth."""
    digest = hashlib.sha256()
    for frame in range(len(group["z_depth"])):
        for name in DEPTH_DATASETS:
            digest.update(group[name].id.read_direct_chunk((frame, 0, 0))[1])
    return finished_digest(digest, group)


def finished_digest(digest: Any, group: Any) -> str:
    """A running digest of the chunks, closed with the table of provided depth."""
    if "provided" in group:
        digest.update(hdf5.content_digest(group["provided"]).encode())
    return str(digest.hexdigest())
