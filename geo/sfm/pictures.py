"""The pictures that features are sought in: the reference camera through a pinhole, and what of them is left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, UInt8

from cuda_kernels.remap_table import make_table, remap_nearest
from geo.cameras import Camera, PinholeCamera
from geo.errors import RecordingError
from geo.images import read_raw
from geo.recording import Recording
from geo.rectify import RectifiedFrames, RectifyConfig, canonical_view
from geo.sfm.config import PosesConfig
from geo.view import WIDE_LENS_DEG

_BORDER_PX = 4  # features at the edge of what is seen are features of the edge


@dataclass(frozen=True)
class SfmView:
    """The pinhole view of a recording: same optical centre and axes as its reference camera."""

    camera: PinholeCamera
    frames: RectifiedFrames
    source_xy: Float[np.ndarray, "H W 2"]
    used: Bool[np.ndarray, "H W"]  # False: no source pixel, or too near to such a place

    def mask(self, source_mask: UInt8[np.ndarray, "h w"]) -> UInt8[np.ndarray, "H W"]:
        """A mask of the source's pixels (0: leave out) in this view; 0 also where the view has no pixel."""
        seen = remap_nearest(source_mask, self.source_xy, 0)
        return np.where(self.used & (seen > 0), np.uint8(255), np.uint8(0))


def sfm_view(recording: Recording, config: PosesConfig) -> SfmView:
    """Narrow lenses keep their view without distortion; wide ones are seen as far as ``half_angle_deg`` goes.

    A pinhole is what two-view geometry and triangulation are best at, whatever the lens; beyond its edge a fisheye has
    few pixels, and mostly the wearer in them.
    """
    source = recording.reference.camera
    camera = _view_camera(source, config)
    projection = source.project(camera.unproject(camera.pixel_grid()).directions)
    table = make_table(projection.pixels_xy, projection.valid, source.size_wh_px)
    return SfmView(
        camera,
        RectifiedFrames(recording.reference.frames, table),
        np.where(table.valid[..., None], projection.pixels_xy, np.nan),
        _shrunk(table.valid),
    )


def _view_camera(source: Camera, config: PosesConfig) -> PinholeCamera:
    if source.field_of_view_deg() > WIDE_LENS_DEG:
        focal_px = float(source.jacobian(np.array([0.0, 0.0, 1.0]))[0, 0])
        return _wide(focal_px, config)
    kept = canonical_view(source, RectifyConfig(view="source")).camera
    factor = min(1.0, config.max_side_px / max(kept.size_wh_px))
    return kept.resized((max(2, round(kept.width_px * factor)), max(2, round(kept.height_px * factor))))


def _wide(focal_px: float, config: PosesConfig) -> PinholeCamera:
    """A square pinhole with the source's scale in the middle, or less where it would be too large."""
    reach = float(np.tan(np.radians(config.half_angle_deg)))
    focal = min(focal_px, config.max_side_px / (2 * reach))
    side = max(2, int(2 * focal * reach) // 2 * 2)
    return PinholeCamera(side, side, focal, focal, (side - 1) / 2, (side - 1) / 2)


def _shrunk(valid: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    """Valid, and not within a few pixels of what is not."""
    import cv2

    if valid.all():
        return valid
    kernel = np.ones((2 * _BORDER_PX + 1, 2 * _BORDER_PX + 1), dtype=np.uint8)
    return np.asarray(cv2.erode(valid.astype(np.uint8), kernel) > 0)


def write_picture(path: Path, picture: UInt8[np.ndarray, "H W 3"]) -> None:
    """A PNG, quickly compressed.

    Raises:
        RecordingError: it cannot be written.
    """
    import cv2

    _, data = cv2.imencode(".png", picture[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])
    _write(path, data.tobytes())


def write_mask(path: Path, mask: UInt8[np.ndarray, "H W"]) -> None:
    """A one-channel PNG; see ``write_picture``."""
    import cv2

    _write(path, cv2.imencode(".png", mask)[1].tobytes())


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror}") from error


def source_masks(
    folder: Path, numbers: Sequence[int], size_wh_px: tuple[int, int]
) -> Iterator[UInt8[np.ndarray, "h w"] | None]:
    """Masks of a folder, ``%06d.png`` by frame number from 0, black where a picture is to be left out; None: no mask.

    Raises:
        RecordingError: there is not one, or one has another size than the pictures.
    """
    files = [folder / f"{frame:06d}.png" for frame in numbers]
    if not any(file.is_file() for file in files):
        raise RecordingError(
            f"{folder} holds not one mask 000000.png, 000001.png, ... (by frame number, black: ignore)"
        )
    for file in files:
        if not file.is_file():
            yield None
            continue
        mask = read_raw(file)
        if mask.shape != size_wh_px[::-1]:
            raise RecordingError(
                f"mask {file} is {mask.shape[1]}x{mask.shape[0]}, the pictures are {size_wh_px[0]}x{size_wh_px[1]}"
            )
        yield (mask > 0).astype(np.uint8)
