"""Small gaussian scenes: random clouds, and a handful placed by hand."""

from dataclasses import dataclass, replace

import numpy as np

from cuda_kernels.splat import SplatCamera, rasterize, rasterize_backward
from cuda_kernels.splat.reference import rasterize_reference

OPAQUE = 20.0  # a logit whose opacity rounds to 1, drawn with alpha 0.999 at its centre


@dataclass(frozen=True)
class Scene:
    """The five parameter arrays of ``rasterize``, float32."""

    means: np.ndarray
    quats: np.ndarray
    log_scales: np.ndarray
    logits: np.ndarray
    colors: np.ndarray

    @property
    def arrays(self):
        return self.means, self.quats, self.log_scales, self.logits, self.colors

    @property
    def doubles(self):
        return tuple(array.astype(np.float64) for array in self.arrays)

    def rows(self, index) -> "Scene":
        return Scene(*(np.ascontiguousarray(array[index]) for array in self.arrays))


def camera(width=40, height=30, focal=40.0, **changes) -> SplatCamera:
    """A camera at the world's origin that looks along +z, principal point in the middle of the pixels."""
    base = SplatCamera(focal, focal, (width - 1) / 2, (height - 1) / 2, width, height, np.eye(4))
    return replace(base, **changes)


def tilted(view: SplatCamera) -> SplatCamera:
    """The same camera moved and turned a little about all axes, with unlike focal lengths and an off-centre point."""
    a, b = 0.15, -0.1
    turn_z = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    turn_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn_x @ turn_z, [0.1, -0.05, 0.3]
    return replace(view, camera_from_world=pose, fy_px=view.fy_px * 1.1, cx_px=view.cx_px + 3, cy_px=view.cy_px - 2.25)


def cloud(count: int, sigma_m=0.05, seed=0) -> Scene:
    """Gaussians of all shapes and opacities in front of, beside and a few behind a camera at the origin."""
    rng = np.random.default_rng(seed)
    means = np.stack([rng.uniform(-2, 2, count), rng.uniform(-2, 2, count), rng.uniform(-0.3, 5, count)], axis=1)
    sigmas = sigma_m * np.exp(rng.uniform(-1.5, 1.0, (count, 3)))
    return Scene(
        means.astype(np.float32),
        rng.normal(size=(count, 4)).astype(np.float32),
        np.log(sigmas).astype(np.float32),
        rng.normal(0.5, 2.0, count).astype(np.float32),
        rng.uniform(0, 1, (count, 3)).astype(np.float32),
    )


def balls(centres, sigma_m=0.02, logit=OPAQUE, colors=None) -> Scene:
    """Round gaussians at given places, white unless said."""
    means = np.array(centres, dtype=np.float32).reshape(-1, 3)
    count = len(means)
    quats = np.tile(np.array([1, 0, 0, 0], dtype=np.float32), (count, 1))
    logits = np.broadcast_to(np.asarray(logit, dtype=np.float32), (count,)).copy()
    paint = np.ones((count, 3)) if colors is None else np.array(colors)
    sigmas = np.broadcast_to(np.log(np.asarray(sigma_m, dtype=np.float32)).reshape(-1, 1), (count, 3)).copy()
    return Scene(means, quats, sigmas, logits, paint.astype(np.float32))


def logit_of(opacity: float) -> float:
    return float(np.log(opacity / (1 - opacity)))


def moved(view: SplatCamera, twist: np.ndarray) -> SplatCamera:
    """camera_from_world -> exp(twist) camera_from_world for a small twist (rotation, translation)."""
    a, b, c = twist[:3]
    hat = np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]])
    step = np.eye(4)
    step[:3, :3] += hat + hat @ hat / 2  # what is left out is of third order
    step[:3, 3] = twist[3:]
    return replace(view, camera_from_world=step @ view.camera_from_world)


FIELDS = ("means_in_world", "quats_wxyz", "log_scales", "opacity_logits", "colors")


def image_gradients(view, seed=0):
    """Random gradients of a loss by colour, alpha and depth sum: the loss is their inner product with the images."""
    rng = np.random.default_rng(seed)
    shape = (view.height_px, view.width_px)
    return rng.normal(size=(*shape, 3)), rng.normal(size=shape), rng.normal(size=shape)


def assert_gradients_are_slopes(scene: Scene, view: SplatCamera, background: np.ndarray) -> None:
    """All parameters and the camera's twist against central differences of the float64 reference.

    Two step widths; where they disagree a pixel crossed a threshold, and is not asked (less than a tenth).
    """
    d_rgb, d_alpha, d_depth = image_gradients(view)

    def loss(arrays, twist):
        image = rasterize_reference(*arrays, moved(view, twist), background)
        return (image.rgb * d_rgb).sum() + (image.alpha * d_alpha).sum() + (image.depth_sum * d_depth).sum()

    gradients = rasterize_backward(rasterize(*scene.arrays, view, background), d_rgb, d_alpha, d_depth)
    asked = everything = 0
    for which, name in enumerate((*FIELDS, "camera_twist")):
        ours = getattr(gradients, name)
        scale = float(np.abs(ours).max())
        assert scale > 0, name
        for index in np.ndindex(ours.shape):
            slopes = []
            for step in (1e-6, 4e-6):
                ends = []
                for sign in (1, -1):
                    arrays, twist = [array.copy() for array in scene.doubles], np.zeros(6)
                    (twist if name == "camera_twist" else arrays[which])[index] += sign * step
                    ends.append(loss(arrays, twist))
                slopes.append((ends[0] - ends[1]) / (2 * step))
            everything += 1
            if abs(slopes[0] - slopes[1]) < 1e-5 * scale:
                asked += 1
                assert abs(ours[index] - slopes[0]) < 2e-4 * scale, (name, index)
    assert asked > 0.9 * everything
