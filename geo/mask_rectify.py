"""Masks and label images of any camera model in the pixels of a pinhole with the same optical centre: nearest pixel."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Shaped

from geo.cameras import Camera, PinholeCamera
from geo.errors import ShapeError
from geo.view import check_rotation, source_pixels


@dataclass(frozen=True)
class MaskRectifier:
    """The map for many masks of one camera; made by ``mask_rectifier``."""

    camera: Camera
    target: PinholeCamera
    source_xy: Float[np.ndarray, "H W 2"]
    valid: Bool[np.ndarray, "H W"]  # False where the lens has no pixel

    def rectified(self, mask: Shaped[np.ndarray, "h w"], fill: int | bool = 0) -> Shaped[np.ndarray, "H W"]:
        """One mask; see ``rectified_mask``.

        Raises:
            ShapeError: a mask of another size or of numbers with fractions, a ``fill`` that its dtype cannot hold.
        """
        from cuda_kernels.remap_table import remap_nearest

        if mask.shape != (self.camera.height_px, self.camera.width_px):
            raise ShapeError(
                f"mask has shape {mask.shape}, but its camera is {self.camera.width_px}x{self.camera.height_px} (W x H)"
            )
        if mask.dtype.kind not in "biu":
            raise ShapeError(f"mask holds {mask.dtype}; expected truth values or whole numbers (labels are not mixed)")
        if int(np.asarray(fill).astype(mask.dtype)) != int(fill):
            raise ShapeError(f"fill = {fill} does not fit into {mask.dtype}")
        # A place exactly on the far border of the image belongs to the last pixel, as in the other maps.
        last = np.array([self.camera.width_px - 1, self.camera.height_px - 1], dtype=np.float64)
        places = np.where(self.valid[..., None], np.clip(self.source_xy, 0, last), np.nan)
        return remap_nearest(mask, places, fill)


def mask_rectifier(
    camera: Camera, target: PinholeCamera, source_from_target: Float[np.ndarray, "3 3"] | None = None
) -> MaskRectifier:
    """The map from a camera's pixels to a target pinhole's, made once for many masks.

    Raises:
        PoseError: ``source_from_target`` is no rotation.
    """
    rotation = np.eye(3) if source_from_target is None else check_rotation(source_from_target, "source_from_target")
    there = source_pixels(camera, target, rotation)
    return MaskRectifier(camera, target, there.pixels_xy, there.valid)


def rectified_mask(
    mask: Shaped[np.ndarray, "h w"],
    camera: Camera,
    target: PinholeCamera,
    source_from_target: Float[np.ndarray, "3 3"] | None = None,
    fill: int | bool = 0,
) -> Shaped[np.ndarray, "H W"]:
    """A mask or label image as the target pinhole shows it: the label of the nearest pixel, never a mixture.

    Args:
        mask: Truth values or labels of any whole-number dtype, in pixels of ``camera``; the dtype is kept.
        camera: Of any model.
        target: The pinhole of the result, with the same optical centre.
        source_from_target: Rotation that takes directions in the target's axes to the camera's; None: the same axes.
        fill: Label of target pixels that the lens does not see.

    Raises:
        ShapeError: sizes differ, no whole numbers, or a fill that the dtype cannot hold. PoseError: no rotation.
    """
    return mask_rectifier(camera, target, source_from_target).rectified(mask, fill)
