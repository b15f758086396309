"""OpenEXR depth images with one channel, or with equal red, green and blue.

FFmpeg (through PyAV) decodes the pixels: scan lines, 16 or 32-bit float, all of its compressions. It takes a single
channel only by the name Y, so the one letter of Z, V, D or R is changed to Y in memory; and it leaves rows that are
missing in a file that was cut off as zeros without a word, so the table of offsets is checked here.

Source: "Technical Introduction to OpenEXR" and "OpenEXR File Layout" (openexr.com).
"""

import io
import struct
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from recon.errors import ReconError

_MAGIC = b"\x76\x2f\x31\x01"
_LINES_OF_CHUNK = {0: 1, 1: 1, 2: 1, 3: 16, 4: 32, 5: 16, 6: 32, 7: 32, 8: 32, 9: 256}  # by compression
_UINT = 0
_PLAIN_FLAGS = 0x0400  # long names; anything else of the upper 24 bits is tiles, deep data or several parts


@dataclass(frozen=True)
class _Header:
    channels: tuple[str, ...]
    kinds: tuple[int, ...]
    first_name_at: int
    lines: int
    compression: int
    end: int


def read_exr(content: bytes, path: str) -> Float32[np.ndarray, "h w"]:
    """One image of a file's bytes; infinities and NaN as they are.

    Raises:
        ReconError: no EXR, cut off, several different channels, unsigned integers, tiles or deep data.
    """
    try:
        header = _header(content, path)
        _check_whole(content, header, path)
    except ReconError:
        raise
    except (struct.error, IndexError, ValueError) as error:
        raise ReconError(f"{path}: no EXR file, or cut off in its header") from error
    if len(header.channels) == 1:
        at = header.first_name_at
        content = content[:at] + b"Y" + content[at + 1 :]
    planes = _decoded(content, path)
    if any(not np.array_equal(planes[0], plane, equal_nan=True) for plane in planes[1:]):
        raise ReconError(f"{path}: red, green and blue differ, so this is no depth; write one channel, or npz or npy")
    return planes[0]


def _header(content: bytes, path: str) -> _Header:
    if content[:4] != _MAGIC:
        raise ReconError(f"{path}: no EXR file (its first bytes are not those of one)")
    if struct.unpack_from("<I", content, 4)[0] >> 8 & ~(_PLAIN_FLAGS >> 8):
        raise ReconError(f"{path}: tiles, deep data or several parts are not read; write scan lines, or npz or npy")
    found: dict[str, tuple[int, int]] = {}
    at = 8
    while content[at] != 0:
        name, after = _text(content, at)
        _, after = _text(content, after)
        size = struct.unpack_from("<i", content, after)[0]
        if size < 0:
            raise ValueError("negative size")
        found[name] = (after + 4, size)
        at = after + 4 + size
    for needed in ("channels", "compression", "dataWindow"):
        if needed not in found:
            raise ReconError(f"{path}: no EXR image: its header has no {needed}")
    names, kinds = _channels(content, *found["channels"])
    _check_channels(names, kinds, path)
    top, bottom = struct.unpack_from("<4i", content, found["dataWindow"][0])[1::2]
    compression = content[found["compression"][0]]
    return _Header(names, kinds, found["channels"][0], bottom - top + 1, compression, at + 1)


def _text(content: bytes, at: int) -> tuple[str, int]:
    end = content.index(b"\0", at)
    return content[at:end].decode("latin-1"), end + 1


def _channels(content: bytes, at: int, size: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    names, kinds, end = [], [], at + size
    while at < end and content[at] != 0:
        name, at = _text(content, at)
        names.append(name)
        kinds.append(struct.unpack_from("<i", content, at)[0])
        at += 16  # type, linear flag with padding, two samplings
    return tuple(names), tuple(kinds)


def _check_channels(names: tuple[str, ...], kinds: tuple[int, ...], path: str) -> None:
    single = len(names) == 1 and len(names[0]) == 1
    if not single and set(names) != {"R", "G", "B"}:
        raise ReconError(
            f"{path}: channels {', '.join(names) or 'none'}; expected one with a name of one letter (Y, Z, V ...) or "
            "equal R, G, B. Write it so, or as npz or npy."
        )
    if _UINT in kinds:
        raise ReconError(f"{path}: unsigned integers; expected 16 or 32-bit floats")


def _check_whole(content: bytes, header: _Header, path: str) -> None:
    if header.compression not in _LINES_OF_CHUNK or header.lines < 1:
        raise ReconError(f"{path}: unknown compression {header.compression} or no lines")
    chunks = -(-header.lines // _LINES_OF_CHUNK[header.compression])
    offsets = struct.unpack_from(f"<{chunks}Q", content, header.end)
    for offset in offsets:
        size = struct.unpack_from("<i", content, offset + 4)[0] if 0 < offset <= len(content) - 8 else -1
        if size < 0 or offset + 8 + size > len(content):
            raise ReconError(f"{path}: cut off: not all of its {header.lines} lines are there")


def _decoded(content: bytes, path: str) -> list[Float32[np.ndarray, "h w"]]:
    import av

    try:
        with av.open(io.BytesIO(content), format="exr_pipe") as container:
            frame = next(container.decode(video=0))
            kind = np.float16 if "f16" in frame.format.name else np.float32
            rows = [np.frombuffer(plane, kind).reshape(frame.height, -1)[:, : frame.width] for plane in frame.planes]
    except (av.FFmpegError, StopIteration, ValueError) as error:
        raise ReconError(f"{path}: the EXR decoder gives up ({error}); write it as npz or npy") from error
    return [plane.astype(np.float32) for plane in rows]
