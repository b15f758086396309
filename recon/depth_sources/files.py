"""One depth image from one file: npz, npy, png or exr."""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Num, Shaped

from geo.images import read_raw
from recon.depth_sources.exr import read_exr
from recon.errors import ReconError

_DEPTH_NAMES = ("depth", "z_depth", "z_depth_m", "disparity", "values")
_SIGMA_NAMES = ("sigma", "sigma_m")


@dataclass(frozen=True)
class RawDepth:
    """Numbers of a file as stored, and their standard deviation if it states one."""

    values: Num[np.ndarray, "h w"]
    sigma: Num[np.ndarray, "h w"] | None = None


def read_depth_file(path: Path) -> RawDepth:
    """Read a file by its ending.

    npz: the array named depth (z_depth, z_depth_m, disparity, values), or the only one; sigma beside it if there.
    Leading and trailing axes of length 1 are dropped. Nothing is unpickled.

    Raises:
        ReconError: unreadable, cut off, not one image of numbers, or an ending that is not known; the file is named.
        RecordingError: a PNG that cannot be read.
    """
    readers: dict[str, Callable[[Path], RawDepth]] = {".npz": _npz, ".npy": _npy, ".png": _png, ".exr": _exr}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ReconError(f"{path}: depth files end in {', '.join(readers)}, not in {path.suffix or 'nothing'!r}")
    if not path.is_file():
        raise ReconError(f"{path}: depth file is missing")
    return reader(path)


def _npz(path: Path) -> RawDepth:
    if not zipfile.is_zipfile(path):
        raise ReconError(f"{path}: cannot be read as npz: it is no archive, or cut off")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            depth_name = _only(names, path)
            sigma_name = next((name for name in _SIGMA_NAMES if name in names), None)
            values = archive[depth_name]
            sigma = None if sigma_name is None else archive[sigma_name]
    except ReconError:
        raise
    except Exception as error:  # damaged headers make zipfile and NumPy raise nearly anything
        raise ReconError(f"{path}: cannot be read as npz ({error}); is it cut off?") from error
    image = _image(values, path)
    return RawDepth(image, None if sigma is None else _image(sigma, path))


def _only(names: list[str], path: Path) -> str:
    known = [name for name in _DEPTH_NAMES if name in names]
    others = [name for name in names if name not in _SIGMA_NAMES]
    if len(known) == 1:
        return known[0]
    if not known and len(others) == 1:
        return others[0]
    raise ReconError(
        f"{path}: holds {', '.join(names) or 'no array'}; expected one array named {' or '.join(_DEPTH_NAMES)}"
    )


def _npy(path: Path) -> RawDepth:
    if zipfile.is_zipfile(path):
        raise ReconError(f"{path}: an archive with the ending of a single array; call it .npz")
    try:
        with path.open("rb") as file:
            values = np.load(file, allow_pickle=False)
    except Exception as error:  # a damaged header makes NumPy raise nearly anything
        raise ReconError(f"{path}: cannot be read as npy ({error}); is it cut off?") from error
    return RawDepth(_image(values, path))


def _png(path: Path) -> RawDepth:
    return RawDepth(_image(read_raw(path), path))


def _exr(path: Path) -> RawDepth:
    with io.FileIO(path) as file:
        return RawDepth(read_exr(file.readall(), str(path)))


def _image(values: Shaped[np.ndarray, "..."], path: Path) -> Num[np.ndarray, "h w"]:
    array = values
    while array.ndim > 2 and 1 in (array.shape[0], array.shape[-1]):
        array = array[0] if array.shape[0] == 1 else array[..., 0]
    if array.ndim != 2 or array.dtype.kind not in "fiu" or 0 in array.shape:
        raise ReconError(f"{path}: shape {values.shape} of {values.dtype}; expected one image of numbers [h w]")
    return array
