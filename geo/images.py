"""Single image files: names in natural order, bytes to pixels, and what is wrong with a file.

Files are opened by Python and decoded from memory, so that any path works (FIELD E4), and every error names the path.
"""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Shaped, UInt8

from geo.errors import RecordingError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND\xaeB`\x82"


NaturalKey = tuple[tuple[int, int, str], ...]


def _number_key(text: str) -> NaturalKey:
    """Text cut at its numbers; numbers compare as numbers."""
    parts = re.split(r"(\d+)", text.casefold())
    return tuple((1, int(part), part) if part.isdigit() and part.isascii() else (0, 0, part) for part in parts)


def natural_key(name: str) -> tuple[NaturalKey, NaturalKey]:
    """Sort key under which ``img`` comes before ``img2`` and that before ``img10``, without regard to case."""
    stem, dot, suffix = name.rpartition(".")
    return (_number_key(stem), _number_key(suffix)) if dot else (_number_key(name), ())


def natural_order(names: Iterable[str]) -> list[str]:
    """Names sorted by the numbers in them (FIELD V2); equal keys keep text order."""
    return sorted(names, key=lambda name: (natural_key(name), name))


def list_images(folder: Path) -> list[Path]:
    """Image files of a folder in natural order; hidden files (``._1.jpg``) and other files are left out."""
    names = [
        entry.name
        for entry in folder.iterdir()
        if not entry.name.startswith(".") and entry.suffix.lower() in IMAGE_SUFFIXES and entry.is_file()
    ]
    return [folder / name for name in natural_order(names)]


def read_bytes(path: Path) -> bytes:
    """Content of a file.

    Raises:
        RecordingError: it does not exist, or cannot be read; the full path is named.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RecordingError(f"image {path} is missing") from None
    except OSError as error:
        raise RecordingError(f"image {path} cannot be read: {error.strerror}") from error


def damage(data: bytes) -> str:
    """What is visibly wrong with an image file's bytes, or an empty text.

    Decoders fill the missing part of a cut-off file with grey or zeros and say nothing; the end mark tells.
    """
    if not data:
        return "the file is empty"
    if data.startswith(_PNG_SIGNATURE):
        return "" if _PNG_END in data[-64:] else "the PNG is cut off (no IEND chunk)"
    if data.startswith(b"\xff\xd8"):
        return "" if data.rfind(b"\xff\xd9") > data.rfind(b"\xff\xda") else "the JPEG is cut off (no end mark)"
    return ""


def _decode(path: Path, flags: int) -> Shaped[np.ndarray, "..."]:
    """Decode a file with OpenCV from memory."""
    import cv2

    data = read_bytes(path)
    fault = damage(data)
    image = None if fault else cv2.imdecode(np.frombuffer(data, dtype=np.uint8), flags)
    if image is None:
        raise RecordingError(f"image {path} cannot be decoded: {fault or 'no known image format, or damaged'}")
    return np.asarray(image)


def read_rgb(path: Path) -> UInt8[np.ndarray, "H W 3"]:
    """RGB image of a file, turned as its EXIF tag says (the same rule as for videos).

    Raises:
        RecordingError: missing, cut off or unreadable; the full path is named.
    """
    import cv2

    return np.ascontiguousarray(_decode(path, cv2.IMREAD_COLOR)[..., ::-1])


def read_raw(path: Path) -> Shaped[np.ndarray, "H W"]:
    """Single-channel image as stored (16 bits stay 16 bits), for depth.

    Raises:
        RecordingError: missing, cut off, unreadable, or more than one channel.
    """
    import cv2

    image = _decode(path, cv2.IMREAD_UNCHANGED)
    if image.ndim != 2:
        raise RecordingError(f"depth image {path} has {image.shape[-1]} channels; expected one")
    return image


def image_size(path: Path) -> tuple[int, int]:
    """Width and height of an image as shown; PNG headers are read without decoding.

    Raises:
        RecordingError: missing or unreadable.
    """
    try:
        with path.open("rb") as file:
            head = file.read(24)
    except FileNotFoundError:
        raise RecordingError(f"image {path} is missing") from None
    if head.startswith(_PNG_SIGNATURE) and len(head) == 24:
        width, height = struct.unpack(">II", head[16:24])
        return int(width), int(height)
    image = read_rgb(path)
    return image.shape[1], image.shape[0]
