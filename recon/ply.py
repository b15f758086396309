"""Splats and points as PLY files: the layout of the original 3DGS trainer, opened by any splat viewer.

A splat file holds, per vertex, x y z nx ny nz, f_dc_0..2, f_rest_*, opacity, scale_0..2, rot_0..3 as little-endian
float32: log scales, the logit of opacity, the quaternion w first (any length), colour as spherical harmonics with
0.5 + C0 * f_dc. ``f_rest`` runs channel by channel: all of red's higher coefficients, then green's, then blue's
(Kerbl et al. 2023, ``GaussianModel.save_ply``: features transposed to [N, 3, K-1] and flattened).
"""

import os
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, UInt8

from recon.errors import ReconError
from recon.records import SplatModel

MAX_LOGIT = 16.0  # opacity 0 and 1 stay finite; 1 - 1.1e-7 is the float32 below 1

_NUMPY_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_FORMATS: dict[str, Literal["<", ">"]] = {"binary_little_endian": "<", "binary_big_endian": ">"}
_MAX_HEADER_BYTES = 64 * 1024


def logit(opacity: Float[np.ndarray, "*N"]) -> Float[np.ndarray, "*N"]:
    """Inverse of the sigmoid; opacity 0 and 1 give large finite numbers (case G3)."""
    value = np.asarray(opacity, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(value) - np.log1p(-value), -MAX_LOGIT, MAX_LOGIT))


def write_splat_ply(path: Path, model: SplatModel) -> None:
    """Write a model as standard binary 3DGS PLY, through a temporary name in the same folder.

    Infinite logits are written as +-16, so that every reader finds finite numbers.

    Raises:
        ReconError: if a value other than a logit is not finite; nothing is written then.
    """
    columns = _splat_columns(model)
    finite = np.isfinite(columns).all(axis=1)
    if not finite.all():
        raise ReconError(
            f"{path}: {int((~finite).sum())} of {len(columns)} splats are not finite "
            f"(first: {int(np.argmin(finite))}); "
            "drop them with recon.model.drop_bad before writing"
        )
    names = _splat_names(model.sh_coeffs.shape[1])
    header = "ply\nformat binary_little_endian 1.0\n" + f"element vertex {len(columns)}\n"
    header += "".join(f"property float {name}\n" for name in names) + "end_header\n"
    _write_atomic(path, header.encode("ascii") + np.ascontiguousarray(columns, dtype="<f4").tobytes())


def read_splat_ply(path: Path) -> SplatModel:
    """Read a 3DGS PLY, whichever order its properties are in; unknown properties are ignored.

    Raises:
        ReconError: no such file, not a PLY, text or truncated PLY, a needed property missing, or a number of
            ``f_rest`` that belongs to no spherical-harmonics degree.
    """
    vertices = _read_vertices(path)
    names = vertices.dtype.names or ()
    needed = ["x", "y", "z", *(f"f_dc_{i}" for i in range(3)), "opacity"]
    needed += [*(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    missing = [name for name in needed if name not in names]
    if missing:
        raise ReconError(
            f"{path} has no property {', '.join(missing)}: not a 3DGS splat file "
            "(a point cloud or mesh? compressed formats have to be converted to the standard PLY first)"
        )
    rest = [name for name in names if name.startswith("f_rest_")]
    per_channel, odd = divmod(len(rest), 3)
    degree = round(np.sqrt(per_channel + 1)) - 1
    if odd or (degree + 1) ** 2 != per_channel + 1:
        raise ReconError(f"{path} has {len(rest)} f_rest properties; expected 0, 9, 24 or 45 (degree 0 to 3)")
    sh = np.empty((len(vertices), per_channel + 1, 3), dtype=np.float32)
    sh[:, 0] = _columns(vertices, [f"f_dc_{i}" for i in range(3)])
    if per_channel:
        flat = _columns(vertices, [f"f_rest_{i}" for i in range(len(rest))])
        sh[:, 1:] = flat.reshape(-1, 3, per_channel).transpose(0, 2, 1)
    return SplatModel(
        means_in_world=_columns(vertices, ["x", "y", "z"]),
        log_scales=_columns(vertices, [f"scale_{i}" for i in range(3)]),
        quats_wxyz=_columns(vertices, [f"rot_{i}" for i in range(4)]),
        opacity_logits=_columns(vertices, ["opacity"])[:, 0],
        sh_coeffs=sh,
    )


def write_point_ply(
    path: Path, points_in_world: Float[np.ndarray, "N 3"], rgb: UInt8[np.ndarray, "N 3"] | None = None
) -> None:
    """Write a point cloud as binary PLY (float32 metres, optional 8-bit colours), atomically.

    Raises:
        ReconError: if a point is not finite.
    """
    points = np.asarray(points_in_world)
    if not np.isfinite(points).all():
        raise ReconError(f"{path}: {int((~np.isfinite(points).all(axis=1)).sum())} points are not finite; drop them")
    fields = [("x", "<f4"), ("y", "<f4"), ("z", "<f4")]
    if rgb is not None:
        fields += [("red", "u1"), ("green", "u1"), ("blue", "u1")]
    rows = np.zeros(len(points), dtype=fields)
    for axis, name in enumerate("xyz"):
        rows[name] = points[:, axis]
    if rgb is not None:
        for channel, name in enumerate(("red", "green", "blue")):
            rows[name] = rgb[:, channel]
    kinds = {"<f4": "float", "u1": "uchar"}
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n"
    header += "".join(f"property {kinds[kind]} {name}\n" for name, kind in fields) + "end_header\n"
    _write_atomic(path, header.encode("ascii") + rows.tobytes())


def _splat_names(coefficients: int) -> list[str]:
    names = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"]
    names += [f"f_rest_{i}" for i in range(3 * (coefficients - 1))]
    return [*names, "opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]


def _splat_columns(model: SplatModel) -> Float[np.ndarray, "N C"]:
    count = len(model.means_in_world)
    logits = np.clip(model.opacity_logits, -MAX_LOGIT, MAX_LOGIT)  # keeps NaN, which is refused above
    return np.concatenate(
        [
            model.means_in_world,
            np.zeros((count, 3), dtype=np.float32),
            model.sh_coeffs[:, 0],
            model.sh_coeffs[:, 1:].transpose(0, 2, 1).reshape(count, 3 * (model.sh_coeffs.shape[1] - 1)),
            logits[:, None],
            model.log_scales,
            model.quats_wxyz,
        ],
        axis=1,
    )


def _write_atomic(path: Path, content: bytes) -> None:
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _columns(vertices: np.ndarray, names: list[str]) -> np.ndarray:
    return np.stack([vertices[name].astype(np.float32) for name in names], axis=1)


def _read_vertices(path: Path) -> np.ndarray:
    """The rows of the element ``vertex``, which has to come first."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ReconError(f"{path}: cannot be read ({error.strerror}); give the splats.ply of a finished run") from error
    order, count, dtype, start = _parse_header(Path(path), content)
    end = start + count * dtype.itemsize
    if len(content) < end:
        raise ReconError(
            f"{path} is truncated: its header promises {count} vertices of {dtype.itemsize} bytes "
            f"({end} bytes in all), the file has {len(content)}; write or copy it again"
        )
    return np.frombuffer(content, dtype=dtype.newbyteorder(order), count=count, offset=start)


def _parse_header(path: Path, content: bytes) -> tuple[Literal["<", ">"], int, np.dtype, int]:
    end = content.find(b"end_header", 0, _MAX_HEADER_BYTES)
    line_end = content.find(b"\n", end)
    if not content.startswith(b"ply") or end < 0 or line_end < 0:
        raise ReconError(f"{path} is not a PLY file: it does not start with 'ply' ... 'end_header'")
    order: Literal["<", ">"] | None = None
    count, fields, element = -1, [], ""
    for line in content[:end].decode("ascii", errors="replace").splitlines():
        words = line.split()
        if words[:1] == ["format"]:
            order = _FORMATS.get(words[1] if len(words) > 1 else "")
        elif words[:1] == ["element"] and len(words) == 3:
            if words[1] != "vertex" and count < 0:
                raise ReconError(f"{path}: element {words[1]} comes before the vertices; only vertex-first is read")
            element = words[1]
            if element == "vertex":
                count = int(words[2]) if words[2].isdecimal() else -1
        elif words[:1] == ["property"] and element == "vertex":
            if len(words) != 3 or words[1] not in _NUMPY_TYPES:
                raise ReconError(f"{path}: property line {line!r} of a vertex is not a plain number")
            fields.append((words[2], _NUMPY_TYPES[words[1]]))
    if order is None:
        raise ReconError(f"{path} is a text PLY or of an unknown format; binary_little_endian is needed")
    if count < 0 or not fields:
        raise ReconError(f"{path}: its header has no readable 'element vertex' with properties")
    return order, count, np.dtype(fields), line_end + 1
