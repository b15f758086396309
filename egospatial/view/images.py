"""Writing pictures: encoded in memory, written atomically, so that any path works."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from egospatial.errors import FrontDoorError
from egospatial.store.atomic import write_bytes

_ENDINGS = (".png", ".jpg", ".jpeg")


def write_image(path: Path, image: UInt8[np.ndarray, "H W 3"]) -> None:
    """Write an RGB picture as PNG or JPEG, after the path's ending.

    Raises:
        FrontDoorError: another ending.
        StoreError: the folder cannot be written.
    """
    import cv2

    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise FrontDoorError(f"{path}: pictures end in {', '.join(_ENDINGS)}.")
    fine, encoded = cv2.imencode(ending, image[..., ::-1])
    if not fine:
        raise FrontDoorError(f"{path}: the picture could not be encoded as {ending}.")
    write_bytes(path, encoded.tobytes())
