"""Several pinholes with one optical centre that together show all that a wide lens sees (also beyond 90 degrees).

One pinhole shows less than 180 degrees, and far less at a bearable density. The views here are squares of one size: one
straight ahead, and others turned left, right, up and down by one angle, and back, as far as the lens needs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from geo.cameras import Camera, PinholeCamera
from geo.cameras.distorted import DistortedCamera
from geo.errors import CameraError, GeoError
from geo.view import source_pixels, turn_rotation

VIEW_FOV_DEG = 100.0
_NAMES = ("front", "left", "right", "up", "down", "back")
_ENOUGH = 0.999  # of the source pixels; a tilt that shows as many needs no further search
_NEEDED = 0.0005  # a view that adds less than this share is left out
_SIDE_PX = (16, 4096)
_DESIGN_SIDE = 160
_REPORT_SIDE = 512


@dataclass(frozen=True)
class VirtualView:
    """One pinhole that looks out of the source camera's optical centre."""

    name: str
    camera: PinholeCamera
    source_from_view: Float[np.ndarray, "3 3"]  # rotation: takes directions in the view's axes to the source camera's
    valid_mask: Bool[np.ndarray, "H W"]  # False: the source has no pixel there


def virtual_views(camera: Camera, fov_deg: float = VIEW_FOV_DEG, size_px: int = 0) -> tuple[VirtualView, ...]:
    """A small set of overlapping views that together show the valid region of a lens.

    The first is always ``front``, along the optical axis; then those of left, right, up, down and back that show
    source pixels that no other view shows. All side views are turned by the same angle, the smallest that leaves
    nothing out (they then hold the least of what the lens does not see).

    Args:
        camera: Of any model.
        fov_deg: Field of view of each square view.
        size_px: Its side; 0: as many pixels as keep the density of the source's centre (16 to 4096).

    Raises:
        GeoError: impossible numbers. CameraError: no pixel of the camera has a ray.
    """
    if not 0 < fov_deg <= 150:
        raise GeoError(f"fov_deg = {fov_deg} of the virtual views must lie in (0, 150]")
    pinhole = _square_pinhole(camera, fov_deg, size_px)
    rays = _sampled_rays(camera, _DESIGN_SIDE)
    if not len(rays):
        raise CameraError(f"{camera.model} {camera.size_wh_px}: not one pixel has a ray in the valid region")
    turns = _needed(rays, _turns(_tilt_deg(rays, pinhole, fov_deg)), pinhole)
    return tuple(
        VirtualView(name, pinhole, turn, source_pixels(camera, pinhole, turn).valid) for name, turn in turns.items()
    )


def coverage(camera: Camera, views: Sequence[VirtualView]) -> float:
    """Share of the source pixels with a valid ray that at least one view shows (on at most 512 x 512 of them)."""
    rays = _sampled_rays(camera, _REPORT_SIDE)
    shown = np.zeros(len(rays), dtype=bool)
    for view in views:
        shown |= _shown(rays, view.camera, view.source_from_view)
    return float(shown.mean()) if len(rays) else 0.0


def _square_pinhole(camera: Camera, fov_deg: float, size_px: int) -> PinholeCamera:
    half = float(np.tan(np.radians(fov_deg) / 2))
    if not size_px:
        centre = camera.undistorted if isinstance(camera, DistortedCamera) else camera
        focal = float(np.sqrt(centre.params[0] * centre.params[1]))
        size_px = int(np.clip(2 * np.ceil(focal * half), *_SIDE_PX))
    focal = size_px / 2 / half
    return PinholeCamera(size_px, size_px, focal, focal, (size_px - 1) / 2, (size_px - 1) / 2)


def _sampled_rays(camera: Camera, most_a_side: int) -> Float[np.ndarray, "N 3"]:
    """Rays of source pixels, every one or evenly thinned out, borders included."""
    sides = (min(side, most_a_side) for side in camera.size_wh_px)
    x, y = (np.unique(np.rint(np.linspace(0, n - 1, k))) for n, k in zip(camera.size_wh_px, sides, strict=True))
    rays = camera.unproject(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    return np.asarray(rays.directions[rays.valid])


def _turns(tilt_deg: float) -> dict[str, Float[np.ndarray, "3 3"]]:
    """source_from_view of every candidate; positive pitch looks up, positive yaw looks right."""
    angles = ((0.0, 0.0), (0.0, -tilt_deg), (0.0, tilt_deg), (tilt_deg, 0.0), (-tilt_deg, 0.0), (0.0, 180.0))
    return {name: turn_rotation(pitch, yaw, 0.0) for name, (pitch, yaw) in zip(_NAMES, angles, strict=True)}


def _shown(
    rays: Float[np.ndarray, "N 3"], pinhole: PinholeCamera, source_from_view: Float[np.ndarray, "3 3"]
) -> Bool[np.ndarray, "N"]:
    projection = pinhole.project(rays @ source_from_view)
    return np.asarray(projection.valid & pinhole.in_image(projection.pixels_xy))


def _tilt_deg(rays: Float[np.ndarray, "N 3"], pinhole: PinholeCamera, fov_deg: float) -> float:
    """The smallest turn of the side views with which all is shown, else the one that shows most."""
    widest = float(np.degrees(np.arctan2(np.hypot(rays[:, 0], rays[:, 1]), rays[:, 2]).max()))
    first = float(np.clip(widest - fov_deg / 2, min(30.0, fov_deg / 2), 90.0))
    best, best_share = first, -1.0
    for tilt in np.unique(np.append(np.arange(first, 90.0, 5.0), 90.0)).tolist():
        share = float(np.any([_shown(rays, pinhole, turn) for turn in _turns(tilt).values()], axis=0).mean())
        if share > best_share:
            best, best_share = float(tilt), share
        if share >= _ENOUGH:
            break
    return best


def _needed(
    rays: Float[np.ndarray, "N 3"], turns: dict[str, Float[np.ndarray, "3 3"]], pinhole: PinholeCamera
) -> dict[str, Float[np.ndarray, "3 3"]]:
    """Without the views that add nothing: again and again the one that adds least; never the front."""
    shown = {name: _shown(rays, pinhole, turn) for name, turn in turns.items()}
    while len(shown) > 1:
        counts = np.sum(list(shown.values()), axis=0)
        adds = {name: float((mask & (counts == 1)).mean()) for name, mask in shown.items() if name != "front"}
        least = min(reversed(adds), key=lambda name: adds[name])
        if adds[least] >= _NEEDED:
            break
        del shown[least]
    return {name: turns[name] for name in shown}
