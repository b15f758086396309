"""Splats as a PLY file: the layout of the original 3DGS trainer, opened by any splat viewer.

A splat file holds, per vertex, x y z nx ny nz, f_dc_0..2, f_rest_*, opacity, scale_0..2, rot_0..3 as little-endian
float32: log scales, the logit of opacity, the quaternion w first (any length), colour as spherical harmonics with
0.5 + C0 * f_dc. ``f_rest`` runs channel by channel: all of red's higher coefficients, then green's, then blue's
(Kerbl et al. 2023, ``GaussianModel.save_ply``: features transposed to [N, 3, K-1] and flattened). The normals are 0.

Read is more than is written: any order of properties, text and either byte order, float64, with or without normals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from recon.errors import ReconError
from recon.model import drop_bad
from recon.ply_container import Header, read_columns, read_header, write_whole
from recon.records import SplatModel

MAX_LOGIT = 16.0  # opacity 0 and 1 stay finite; 1 - 1.1e-7 is the float32 below 1
MAX_DEGREE = 3

_CENTRE = ("x", "y", "z")
_NORMAL = ("nx", "ny", "nz")
_COLOUR = ("f_dc_0", "f_dc_1", "f_dc_2")
_SCALE = ("scale_0", "scale_1", "scale_2")
_QUAT = ("rot_0", "rot_1", "rot_2", "rot_3")
_NEEDED = (*_CENTRE, *_COLOUR, "opacity", *_SCALE, *_QUAT)
_REST = "f_rest_"


@dataclass(frozen=True)
class SplatFile:
    """A model as read from a file of unknown making.

    ``dropped`` rows could not be rendered (NaN, infinite, a quaternion without direction) and are not in ``model``;
    ``ignored`` names the properties and elements that no splat of this project has.
    """

    model: SplatModel
    dropped: int
    ignored: tuple[str, ...]


def logit(opacity: Float[np.ndarray, "*N"]) -> Float[np.ndarray, "*N"]:
    """Inverse of the sigmoid; opacity 0 and 1 give large finite numbers (case G3)."""
    value = np.asarray(opacity, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(value) - np.log1p(-value), -MAX_LOGIT, MAX_LOGIT))


def write_splat_ply(path: Path, model: SplatModel) -> None:
    """Write a model as standard binary 3DGS PLY, through a temporary name in the same folder.

    Numbers are written as they are; only infinite logits become +-16, so that every reader finds finite numbers.

    Raises:
        ReconError: if a value other than a logit is not finite, or the degree is above 3; nothing is written then.
        OSError: the file cannot be written; an older one stays.
    """
    _check_degree(path, model.sh_coeffs.shape[1] - 1)
    columns = _splat_columns(model)
    finite = np.isfinite(columns).all(axis=1)
    if not finite.all():
        raise ReconError(
            f"{path}: {int((~finite).sum())} of {len(columns)} splats are not finite "
            f"(first: {int(np.argmin(finite))}); "
            "drop them with recon.model.drop_bad before writing"
        )
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(columns)}\n"
    header += "".join(f"property float {name}\n" for name in _splat_names(model.sh_coeffs.shape[1])) + "end_header\n"
    write_whole(Path(path), header, columns.astype("<f4", copy=False))


def read_splat_ply(path: Path) -> SplatModel:
    """Read a 3DGS PLY row by row as it is; properties and elements that belong to no splat are ignored.

    Rows that cannot be rendered are kept, so that rows stay what they are in the file; ``read_splat_file`` drops and
    counts them. Numbers are rounded to float32.

    Raises:
        ReconError: no such file, not a PLY, a truncated or damaged one, a needed property missing, or a number of
            ``f_rest`` that belongs to no spherical-harmonics degree up to 3.
    """
    return _model(Path(path), read_header(Path(path)))


def read_splat_file(path: Path) -> SplatFile:
    """Read a splat file of unknown making: standard PLY, or compressed by PlayCanvas' rules (see recon.compressed).

    Raises:
        ReconError: as ``read_splat_ply``; also a compressed file while the package that reads it is not installed.
    """
    path = Path(path)
    header = read_header(path)
    if is_compressed(header):
        from recon.compressed import read_compressed_ply

        cleaned = drop_bad(read_compressed_ply(path, header))
        return SplatFile(cleaned.model, cleaned.dropped, ())
    cleaned = drop_bad(_model(path, header))
    return SplatFile(cleaned.model, cleaned.dropped, _ignored(header))


def is_compressed(header: Header) -> bool:
    """True for the packed layout of PlayCanvas' tools."""
    vertex = header.element("vertex")
    return vertex is not None and "packed_position" in vertex.names


def _model(path: Path, header: Header) -> SplatModel:
    names = header.element("vertex").names if header.element("vertex") else ()  # type: ignore[union-attr]
    missing = [name for name in _NEEDED if name not in names]
    if names and missing:
        raise ReconError(
            f"{path} has no property {', '.join(missing)}: not a 3DGS splat file "
            "(a point cloud, a mesh, flat 2D splats or a compressed format; convert it to the standard PLY first)"
        )
    rest = [name for name in names if name.startswith(_REST)]
    per_channel = len(rest) // 3
    _check_rest(path, rest)
    columns = read_columns(path, header, "vertex")
    sh = np.empty((len(columns["x"]), per_channel + 1, 3), dtype=np.float32)
    sh[:, 0] = _stacked(columns, _COLOUR)
    for channel in range(3):
        for number in range(per_channel):
            sh[:, 1 + number, channel] = _float32(columns[f"{_REST}{channel * per_channel + number}"])
    return SplatModel(
        means_in_world=_stacked(columns, _CENTRE),
        log_scales=_stacked(columns, _SCALE),
        quats_wxyz=_stacked(columns, _QUAT),
        opacity_logits=_float32(columns["opacity"]),
        sh_coeffs=sh,
    )


def _check_rest(path: Path, rest: list[str]) -> None:
    if len(rest) not in (0, 9, 24, 45):
        raise ReconError(f"{path} has {len(rest)} f_rest properties; expected 0, 9, 24 or 45 (degree 0 to 3)")
    if {f"{_REST}{number}" for number in range(len(rest))} != set(rest):
        raise ReconError(f"{path}: its f_rest properties are not numbered 0 to {len(rest) - 1}")


def _check_degree(path: Path, per_channel: int) -> None:
    if per_channel not in (0, 3, 8, 15):
        raise ReconError(f"{path}: {per_channel + 1} coefficients per channel; expected 1, 4, 9 or 16 (degree 0 to 3)")


def _ignored(header: Header) -> tuple[str, ...]:
    vertex = header.element("vertex")
    known = {*_NEEDED, *_NORMAL}
    names = [n for n in (vertex.names if vertex else ()) if n not in known and not n.startswith(_REST)]
    return (*names, *(f"element {item.name}" for item in header.elements if item.name != "vertex"))


def _stacked(columns: Mapping[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray:
    return np.stack([_float32(columns[name]) for name in names], axis=1)


def _float32(column: np.ndarray) -> np.ndarray:
    """Rounded to float32; what is beyond its range becomes infinite, and the row is dropped as such."""
    with np.errstate(over="ignore", invalid="ignore"):
        return column.astype(np.float32)


def _splat_names(coefficients: int) -> list[str]:
    rest = [f"{_REST}{number}" for number in range(3 * (coefficients - 1))]
    return [*_CENTRE, *_NORMAL, *_COLOUR, *rest, "opacity", *_SCALE, *_QUAT]


def _splat_columns(model: SplatModel) -> Float[np.ndarray, "N C"]:
    count, coefficients = len(model.means_in_world), model.sh_coeffs.shape[1]
    logits = model.opacity_logits
    infinite = np.isinf(logits)  # NaN stays, and is refused
    return np.concatenate(
        [
            model.means_in_world,
            np.zeros((count, 3), dtype=np.float32),
            model.sh_coeffs[:, 0],
            model.sh_coeffs[:, 1:].transpose(0, 2, 1).reshape(count, 3 * (coefficients - 1)),
            np.where(infinite, np.copysign(np.float32(MAX_LOGIT), logits), logits)[:, None],
            model.log_scales,
            model.quats_wxyz,
        ],
        axis=1,
    )
