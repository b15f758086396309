"""Packed splats: the compressed PLY of PlayCanvas' tools (SuperSplat, splat-transform), by the package gsply.

Chunks of 256 splats with their own bounds; 11 + 10 + 11 bits for centre and log scale, 2 + 10 + 10 + 10 for the
rotation, 8 for each of red, green, blue and opacity, 8 for each higher coefficient within +-4. About a quarter to a
fourteenth of the standard file. What is read back is near to what was written, never the same.

Rows are sorted along a Morton curve before they are packed, so that a chunk is small in space: their order changes.
Everything that the packed header claims is checked here, since gsply's kernels do not check bounds.
"""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from recon.errors import ReconError
from recon.model import select
from recon.ply_container import Element, Header
from recon.records import SplatModel

CHUNK = 256
_MORTON_BITS = 16
_VERTEX = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
_CHUNK_PROPERTIES = 18
_REST_COUNTS = (9, 24, 45)
_MAX_LOG_SCALE = 20.0  # what the format holds


def compressed_bytes(model: SplatModel) -> bytes:
    """The model as a compressed PLY, splats in Morton order.

    Raises:
        ReconError: gsply is not installed; no splat; a value that is not finite or that the format does not hold.
    """
    package = _gsply("write")
    if not len(model.means_in_world):
        raise ReconError("the model holds no splat; the compressed format has no empty file")
    model = select(model, morton_order(model.means_in_world))
    logits = np.clip(model.opacity_logits, -30, 30)
    quats = model.quats_wxyz / np.maximum(np.linalg.norm(model.quats_wxyz, axis=1, keepdims=True), 1e-12)
    for name, values in (("centre", model.means_in_world), ("rotation", quats), ("opacity", logits),
                         ("scale", model.log_scales), ("colour", model.sh_coeffs)):  # fmt: skip
        if not np.isfinite(values).all():
            raise ReconError(f"a {name} is not finite; drop such splats with recon.model.drop_bad first")
    if np.abs(model.log_scales).max() > _MAX_LOG_SCALE:
        raise ReconError(f"a log scale is beyond +-{_MAX_LOG_SCALE:g}, which the compressed format does not hold")
    rest = np.ascontiguousarray(model.sh_coeffs[:, 1:])
    packed = package.compress_to_bytes(
        np.ascontiguousarray(model.means_in_world), np.ascontiguousarray(model.log_scales),
        np.ascontiguousarray(quats.astype(np.float32)), np.ascontiguousarray(logits.astype(np.float32)),
        np.ascontiguousarray(model.sh_coeffs[:, 0]), rest if rest.shape[1] else None,
    )  # fmt: skip
    return bytes(packed)


def read_compressed_ply(path: Path, header: Header) -> SplatModel:
    """Read a compressed PLY.

    Args:
        path: The file.
        header: Its header, from ``recon.ply_container.read_header``.

    Raises:
        ReconError: gsply is not installed; or the header is not that of a compressed file, or promises more than the
            file holds.
    """
    _check(path, header)
    package = _gsply("read")
    data = package.decompress_from_bytes(path.read_bytes())
    count = len(data.means)
    rest = np.asarray(data.shN, dtype=np.float32).reshape(count, -1, 3)
    sh = np.concatenate([np.asarray(data.sh0, dtype=np.float32)[:, None], rest], axis=1)
    return SplatModel(
        means_in_world=np.array(data.means, dtype=np.float32),
        log_scales=np.array(data.scales, dtype=np.float32),
        quats_wxyz=np.array(data.quats, dtype=np.float32),
        opacity_logits=np.array(data.opacities, dtype=np.float32).reshape(count),
        sh_coeffs=sh,
    )


def morton_order(points: Float[np.ndarray, "N 3"]) -> Int64[np.ndarray, "N"]:
    """Rows along a Morton curve through the points' box (16 bits an axis); equal codes stay in their order."""
    values = np.asarray(points, dtype=np.float64)
    low = values.min(axis=0)
    reach = max(float((values.max(axis=0) - low).max()), 1e-12)
    cells = np.minimum((values - low) / reach * 2**_MORTON_BITS, 2**_MORTON_BITS - 1).astype(np.int64)
    code = np.zeros(len(values), dtype=np.int64)
    for bit in range(_MORTON_BITS):
        for axis in range(3):
            code |= ((cells[:, axis] >> bit) & 1) << (3 * bit + axis)
    return np.argsort(code, kind="stable")


def _check(path: Path, header: Header) -> None:
    chunk, vertex, sh = (header.element(name) for name in ("chunk", "vertex", "sh"))
    if chunk is None or vertex is None or vertex.names != _VERTEX:
        raise ReconError(f"{path}: packed splats without 'element chunk', or with other packed properties than known")
    if len(chunk.properties) != _CHUNK_PROPERTIES:
        raise ReconError(
            f"{path}: its chunks have {len(chunk.properties)} properties; only the format with {_CHUNK_PROPERTIES} is "
            "read (files of before 2024 have 12); convert it with SuperSplat or splat-transform"
        )
    expected = ("chunk", "vertex") if sh is None else ("chunk", "vertex", "sh")
    sound = header.byte_order == "<" and tuple(item.name for item in header.elements) == expected
    sound &= _all(chunk, "f4") and _all(vertex, "u4")
    if sh is not None:
        sound &= _all(sh, "u1") and sh.count == vertex.count and len(sh.properties) in _REST_COUNTS
        sound &= sh.names == tuple(f"f_rest_{number}" for number in range(len(sh.properties)))
    if not sound or chunk.count != -(-vertex.count // CHUNK):
        raise ReconError(f"{path}: its header is not that of a compressed splat file; write it again")
    width = 0 if sh is None else len(sh.properties)
    end = header.start + chunk.count * 4 * _CHUNK_PROPERTIES + vertex.count * (16 + width)
    size = path.stat().st_size
    if size < end:
        raise ReconError(f"{path} is truncated: its header promises {end} bytes, the file has {size}; copy it again")


def _all(element: Element, kind: str) -> bool:
    return all(item.kind == kind and item.length_kind is None for item in element.properties)


def _gsply(to_do: str) -> Any:
    importlib.import_module("cuda_kernels.jit")  # gsply runs on numba too: threads as this project sets them up
    try:
        return importlib.import_module("gsply")
    except ImportError as error:
        raise ReconError(
            f"compressed splat files need the package gsply to {to_do}: pip install 'egospatial[splats]'"
        ) from error
