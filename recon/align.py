"""A view's pose against the static model: depth (point to plane) and picture together, a few Gauss-Newton steps.

Poses from trackers carry millimetres and tenths of a degree of noise from frame to frame. Splats fitted to such views
are blurred, and depth rendered at such a pose is off by as much. The given pose stays the prior: what the view does
not tell (sideways along a plain wall) stays as given.

Sources: point-to-plane distance, Chen & Medioni (1992); projective association and pictures with depth, Steinbruecker
et al. (2011), Whelan et al. (2013).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32

from geo import se3
from geo.cameras import PinholeCamera
from recon.backend import Renderer, packed, splat_camera
from recon.config import ReconstructConfig
from recon.errors import ReconError
from recon.losses import exposure_fit
from recon.records import SplatModel
from recon.render import ALPHA_THRESHOLD
from recon.sensor import SensorNoise
from recon.views import View

_STEPS = 4
_GATE_SIGMAS, _GATE_FLOOR_M = 6.0, 0.03  # depth differences beyond this belong to something else
_JUMP_SHARE = 0.03  # neighbouring depths that differ by more are two surfaces
_GREY_GATE = 0.15
_SHARED_PIXELS = 40.0  # neighbouring pixels repeat each other: this many count as one independent measurement
_MIN_PIXELS = 200
_STILL = 1e-5  # metres and radians of the last step
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


@dataclass(frozen=True)
class PosePrior:
    """How far given poses may be off: one standard deviation on each axis. 0 = they are exact, nothing is aligned."""

    sigma_m: float = 0.004
    sigma_rad: float = 0.004

    def __post_init__(self) -> None:
        """Refuse what is no standard deviation."""
        if not (self.sigma_m >= 0 and self.sigma_rad >= 0):
            raise ReconError(f"pose prior {self.sigma_m} m, {self.sigma_rad} rad: both must be 0 or more")

    @classmethod
    def of(cls, config: ReconstructConfig) -> "PosePrior":
        """What the settings say."""
        return cls(config.pose_sigma_m, math.radians(config.pose_sigma_deg))

    @property
    def exact(self) -> bool:
        """True if poses are to be taken as given."""
        return bool(self.sigma_m == 0 or self.sigma_rad == 0)


@dataclass(frozen=True)
class _Rows:
    """Weighted equations ``jacobian @ twist = residual``; twist = (rotation, translation) of points in the camera."""

    jacobian: Float[np.ndarray, "M 6"]
    residual: Float[np.ndarray, "M"]
    weight: Float[np.ndarray, "M"]


def align_views(
    views: Sequence[View],
    model: SplatModel,
    prior: PosePrior,
    noise: SensorNoise,
    renderer: Renderer,
) -> list[View]:
    """The views at the poses at which they fit the model best, near their own. See ``aligned_pose``."""
    return [replace(view, world_from_camera=aligned_pose(view, model, prior, noise, renderer)) for view in views]


def aligned_pose(
    view: View,
    model: SplatModel,
    prior: PosePrior,
    noise: SensorNoise,
    renderer: Renderer,
    given_world_from_camera: Float[np.ndarray, "4 4"] | None = None,
) -> Float[np.ndarray, "4 4"]:
    """Pose of a view against the model, near the given one.

    ``given_world_from_camera`` is the centre of the prior (default: the view's own pose); the search starts at the
    view's pose. A view that shows too little of the model keeps its pose, as does one whose answer lies more than four
    standard deviations away (something else was matched).
    """
    given = view.world_from_camera if given_world_from_camera is None else given_world_from_camera
    if prior.exact or not len(model.means_in_world):
        return view.world_from_camera
    pose = np.array(view.world_from_camera, dtype=np.float64)
    gaussians = packed(model, pose)
    for _ in range(_STEPS):
        camera = splat_camera(view.camera, pose)
        image = renderer.forward(gaussians, camera, (0.5, 0.5, 0.5))
        enough = image.alpha >= ALPHA_THRESHOLD
        along = renderer.plane_depth_sum(image, camera)
        z = np.where(enough, along / np.where(enough, image.alpha, 1.0), np.nan).astype(np.float32)
        rows = [_depth_rows(view, z, noise), _grey_rows(view, z, image.rgb)]
        if sum(len(part.residual) for part in rows) < _MIN_PIXELS:
            return view.world_from_camera
        twist = _solve(rows, given, pose, prior)
        pose = se3.inverse(moved(twist) @ se3.inverse(pose))
        if np.abs(twist).max() < _STILL:
            break
    off = twist_between(given, pose)
    too_far = np.abs(off) > 4 * np.repeat([prior.sigma_rad, prior.sigma_m], 3)
    return view.world_from_camera if too_far.any() else pose


def _solve(
    rows: Sequence[_Rows], given: Float[np.ndarray, "4 4"], pose: Float[np.ndarray, "4 4"], prior: PosePrior
) -> Float[np.ndarray, "6"]:
    """One Gauss-Newton step with the prior; the step is a twist on camera_from_world from the left."""
    trust = np.repeat([prior.sigma_rad**-2, prior.sigma_m**-2], 3)
    information, vector = np.diag(trust), -trust * twist_between(given, pose)
    for part in rows:
        weighted = part.jacobian * (part.weight / _SHARED_PIXELS)[:, None]
        information = information + weighted.T @ part.jacobian
        vector = vector + weighted.T @ part.residual
    return np.asarray(np.linalg.solve(information, vector))


def twist_between(given: Float[np.ndarray, "4 4"], pose: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "6"]:
    """Small twist that takes camera_from_world of the given pose to that of the present one (first order)."""
    now_from_given = se3.inverse(pose) @ given
    return np.concatenate([se3.axis_angle_from_rotation(now_from_given[:3, :3]), now_from_given[:3, 3]])


def moved(twist: Float[np.ndarray, "6"]) -> Float[np.ndarray, "4 4"]:
    """The rigid move of a twist (rotation vector, translation)."""
    return se3.from_rotation_translation(se3.rotation_from_axis_angle(twist[:3]), twist[3:])


def _depth_rows(view: View, z_model: Float32[np.ndarray, "H W"], noise: SensorNoise) -> _Rows:
    """Point to plane: model points q with normal n, view points p on the same pixels; n . (q - p) goes to 0."""
    normals, smooth = surface_normals(z_model, view.camera)
    z_view = view.z_depth_m
    with np.errstate(invalid="ignore"):
        sigma = noise.sigma_m(z_view)
        use = smooth & view.static & (np.abs(z_model - z_view) < np.maximum(_GATE_SIGMAS * sigma, _GATE_FLOOR_M))
    v, u = np.nonzero(use)
    rays = view.camera.normalised_points(np.stack([u, v], axis=1).astype(np.float64))
    q, normal = rays * z_model[v, u][:, None], normals[v, u]
    along = np.einsum("ni,ni->n", normal, rays)
    residual = along * (z_view[v, u] - z_model[v, u])  # n . (p - q)
    spread = np.abs(along) * sigma[v, u] + 5e-4
    return _Rows(moving(q, normal), residual, robust(residual / spread) / spread**2)


def _grey_rows(view: View, z_model: Float32[np.ndarray, "H W"], rgb: Float32[np.ndarray, "H W 3"]) -> _Rows:
    """The view's brightness where the model's points fall, against the model's own, after gain and offset."""
    target = view.rgb.astype(np.float32) / np.float32(255)
    seen = view.static & np.isfinite(z_model)
    gain, offset = exposure_fit(rgb, target, seen)
    wanted = (rgb * gain + offset).astype(np.float32) @ LUMA
    grey = target @ LUMA
    dv, du = np.gradient((wanted + grey) / 2)
    use = seen & (np.abs(grey - wanted) < _GREY_GATE) & (np.hypot(du, dv) > 0.01)
    use[[0, -1]] = False
    use[:, [0, -1]] = False
    v, u = np.nonzero(use)
    if len(v) < 16:
        return _Rows(np.zeros((0, 6)), np.zeros(0), np.zeros(0))
    rays = view.camera.normalised_points(np.stack([u, v], axis=1).astype(np.float64))
    q = rays * z_model[v, u][:, None]
    by_point = np.einsum("ni,nij->nj", np.stack([du[v, u], dv[v, u]], axis=1), view.camera.jacobian(q))
    residual = (wanted - grey)[v, u].astype(np.float64)
    spread = max(1.4826 * float(np.median(np.abs(residual))), 0.005)
    return _Rows(moving(q, by_point), residual, view.colour_share * robust(residual / spread) / spread**2)


def moving(points: Float[np.ndarray, "M 3"], slope: Float[np.ndarray, "M 3"]) -> Float[np.ndarray, "M 6"]:
    """Derivative of slope . (omega x p + v) by (omega, v)."""
    return np.concatenate([np.cross(points, slope), slope], axis=1)


def robust(scaled: Float[np.ndarray, "M"]) -> Float[np.ndarray, "M"]:
    """Tukey's biweight with the usual 4.685."""
    return np.asarray(np.square(np.clip(1 - np.square(scaled / 4.685), 0.0, 1.0)))


def surface_normals(
    z: Float32[np.ndarray, "H W"], camera: PinholeCamera
) -> tuple[Float[np.ndarray, "H W 3"], Bool[np.ndarray, "H W"]]:
    """Unit normals of a depth image from central differences, and where its four neighbours are one surface."""
    height, width = z.shape
    u, v = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    rays = camera.normalised_points(np.stack([u, v], axis=-1))
    points = rays * z[..., None].astype(np.float64)
    normals, smooth = np.zeros((height, width, 3)), np.zeros((height, width), dtype=bool)
    if height < 3 or width < 3:
        return normals, smooth
    along_u = points[1:-1, 2:] - points[1:-1, :-2]
    along_v = points[2:, 1:-1] - points[:-2, 1:-1]
    inner = np.cross(along_u, along_v)
    length = np.linalg.norm(inner, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        normals[1:-1, 1:-1] = inner / length
        around = np.stack([z[1:-1, 2:], z[1:-1, :-2], z[2:, 1:-1], z[:-2, 1:-1]])
        near = np.abs(around - z[1:-1, 1:-1]) < _JUMP_SHARE * z[1:-1, 1:-1]
    smooth[1:-1, 1:-1] = near.all(axis=0) & np.isfinite(normals[1:-1, 1:-1]).all(axis=-1)
    return normals, smooth
