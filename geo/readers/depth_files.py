"""Depth images in files: PNG per frame or a dataset in HDF5, cleaned, along z, decoded when asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped

from geo.cameras import Camera
from geo.depth import clean_depth, ray_to_z_depth
from geo.errors import RecordingError, listed
from geo.images import damage, read_raw


@dataclass(frozen=True)
class DepthCoding:
    """How raw numbers become metres."""

    camera: Camera
    unit_m: float
    kind: str = "z"  # "z" or "ray"
    invalid: tuple[float, ...] = ()
    max_depth_m: float = 20.0

    def decode(self, raw: Shaped[np.ndarray, "H W"], source: str) -> Float32[np.ndarray, "H W"]:
        """Depth along +z in metres, NaN for nothing.

        Raises:
            RecordingError: the image does not have its camera's size; the source is named.
        """
        size = (self.camera.height_px, self.camera.width_px)
        if raw.shape != size:
            raise RecordingError(
                f"depth {source} is {raw.shape[::-1]} (W, H), but its camera is calibrated for {self.camera.size_wh_px}"
            )
        depth = clean_depth(raw, self.unit_m, self.max_depth_m, self.invalid)
        return ray_to_z_depth(depth, self.camera) if self.kind == "ray" else depth


class DepthImages:
    """One depth image file per frame; None stands for a frame whose file is known to be unusable."""

    def __init__(self, files: Sequence[Path | None], coding: DepthCoding) -> None:
        self.files = tuple(files)
        self.coding = coding

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Float32[np.ndarray, "H W"]:
        """Depth along +z in metres; all NaN for a frame without a usable file.

        Raises:
            RecordingError: a file cannot be read after all; its full path is named.
        """
        file = self.files[index]
        if file is None:
            return np.full((self.coding.camera.height_px, self.coding.camera.width_px), np.nan, dtype=np.float32)
        return self.coding.decode(read_raw(file), str(file))


def usable_files(depth_files: list[Path], warnings: list[str]) -> list[Path | None]:
    """Depth files without the visibly damaged ones, which are named in a warning."""
    bad: list[Path] = []
    for path in depth_files:
        with path.open("rb") as file:
            head = file.read(8)
            file.seek(max(0, path.stat().st_size - 64))
            if damage(head + file.read()):
                bad.append(path)
    if len(bad) == len(depth_files):
        raise RecordingError(f"depth image {bad[0]} is cut off or no PNG, and so are all others")
    if bad:
        names = listed(bad, 3)
        warnings.append(f"{len(bad)} depth images are cut off or no PNG; these frames have no sensor depth: {names}")
    return [None if path in bad else path for path in depth_files]


class Hdf5Depth:
    """A [M H W] dataset in an HDF5 file, one frame read at a time."""

    def __init__(self, path: Path, dataset: str, coding: DepthCoding) -> None:
        """Open and check.

        Raises:
            RecordingError: the file is missing or cut off, has no such dataset, or one of another shape.
        """
        self.path, self.dataset, self.coding = path, dataset, coding
        self._open: Any = None
        self._count: int = self._with_dataset(self._check)

    def _check(self, data: Any) -> int:
        expected = (self.coding.camera.height_px, self.coding.camera.width_px)
        if data.ndim != 3 or tuple(data.shape[1:]) != expected:
            raise RecordingError(
                f"dataset {self.dataset} in {self.path} has shape {tuple(data.shape)}; expected (frames, "
                f"{expected[0]}, {expected[1]}) for its camera"
            )
        if data.dtype.kind not in "uif":
            raise RecordingError(f"dataset {self.dataset} in {self.path} holds {data.dtype}, no numbers")
        return int(data.shape[0])

    def _with_dataset(self, use: Callable[[Any], Any]) -> Any:
        """Give the open dataset to a function; HDF5's errors become ours, with the file named."""
        import h5py
        import hdf5plugin  # noqa: F401  (registers the compression filters)

        if not self.path.is_file():
            raise RecordingError(f"depth file {self.path} is missing")
        try:
            if self._open is None:
                self._open = h5py.File(self.path, "r")
            data = self._open.get(self.dataset)
            if not isinstance(data, h5py.Dataset):
                raise RecordingError(f"depth file {self.path} has no dataset {self.dataset!r}")
            return use(data)
        except OSError as error:
            raise RecordingError(f"depth file {self.path} cannot be read: {error}; is it cut off?") from error

    def __len__(self) -> int:
        return self._count

    def read(self, index: int) -> Float32[np.ndarray, "H W"]:
        """Depth along +z in metres.

        Raises:
            RecordingError: the frame cannot be read; the file is named.
        """
        raw = self._with_dataset(lambda data: data[index])
        return self.coding.decode(np.asarray(raw), f"{self.path}:{self.dataset}[{index}]")
