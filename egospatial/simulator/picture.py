"""From light to pixels: exposure, motion blur along the true image motion, lens, noise, 8 bits."""

from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8

from cuda_kernels.jit import jit
from egospatial.simulator.raycast import Bodies, Hits
from egospatial.simulator.views import View

SHUTTER_S = 0.008
_TAPS = 5


@jit(nogil=True)
def _image_motion(
    rays: Any, distances: Any, geometry_ids: Any, early: Any, late: Any, focal: float, coefficients: Any, out: Any
) -> None:
    """Displacement of each pixel's surface point over the shutter time (KB4 projection at both ends)."""
    for i in range(rays.shape[0]):
        g = geometry_ids[i]
        if g == np.uint32(0xFFFFFFFF):
            out[i, 0] = out[i, 1] = 0.0
            continue
        t = distances[i]
        x, y, z = rays[i, 0] + t * rays[i, 3], rays[i, 1] + t * rays[i, 4], rays[i, 2] + t * rays[i, 5]
        du, dv = 0.0, 0.0
        for end in range(2):
            m = late[g] if end == 1 else early[g]
            px = m[0, 0] * x + m[0, 1] * y + m[0, 2] * z + m[0, 3]
            py = m[1, 0] * x + m[1, 1] * y + m[1, 2] * z + m[1, 3]
            pz = m[2, 0] * x + m[2, 1] * y + m[2, 2] * z + m[2, 3]
            r = np.sqrt(px * px + py * py) + 1e-12
            theta = np.arctan2(r, pz)
            s = theta * theta
            factor = 1.0 + s * (coefficients[0] + s * (coefficients[1] + s * (coefficients[2] + s * coefficients[3])))
            scale = focal * theta * factor / r
            sign = 1.0 if end == 1 else -1.0
            du += sign * scale * px
            dv += sign * scale * py
        out[i, 0], out[i, 1] = du, dv


@jit(nogil=True)
def _smear(image: Any, motion: Any, taps: int, out: Any) -> None:
    """Mean of the image along each pixel's motion, bilinear, borders held."""
    height, width = image.shape[0], image.shape[1]
    for v in range(height):
        for u in range(width):
            du, dv = motion[v, u, 0], motion[v, u, 1]
            if du * du + dv * dv < 0.04:
                for c in range(3):
                    out[v, u, c] = image[v, u, c]
                continue
            r, g, b = 0.0, 0.0, 0.0
            for k in range(taps):
                share = k / (taps - 1) - 0.5
                x = min(max(u + share * du, 0.0), width - 1.001)
                y = min(max(v + share * dv, 0.0), height - 1.001)
                i, j = int(x), int(y)
                fx, fy = x - i, y - j
                w00, w01, w10, w11 = (1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy
                r += (
                    w00 * image[j, i, 0]
                    + w01 * image[j, i + 1, 0]
                    + w10 * image[j + 1, i, 0]
                    + w11 * image[j + 1, i + 1, 0]
                )
                g += (
                    w00 * image[j, i, 1]
                    + w01 * image[j, i + 1, 1]
                    + w10 * image[j + 1, i, 1]
                    + w11 * image[j + 1, i + 1, 1]
                )
                b += (
                    w00 * image[j, i, 2]
                    + w01 * image[j, i + 1, 2]
                    + w10 * image[j + 1, i, 2]
                    + w11 * image[j + 1, i + 1, 2]
                )
            out[v, u, 0], out[v, u, 1], out[v, u, 2] = r / taps, g / taps, b / taps


@jit(nogil=True)
def _develop(
    image: Any, gain: float, curve: Any, grain: Any, shift_v: int, shift_u: int, amount: float, out: Any
) -> None:
    """Exposure, tone curve (table over [0, 1.5]) and noise, to 8 bits; a light 3x3 lens blur comes first."""
    height, width = image.shape[0], image.shape[1]
    last = curve.shape[0] - 1
    size_v, size_u = grain.shape[0], grain.shape[1]
    for v in range(height):
        up, down = max(v - 1, 0), min(v + 1, height - 1)
        for u in range(width):
            left, right = max(u - 1, 0), min(u + 1, width - 1)
            for c in range(3):
                soft = 0.52 * image[v, u, c]
                soft += 0.09 * (image[up, u, c] + image[down, u, c] + image[v, left, c] + image[v, right, c])
                soft += 0.03 * (image[up, left, c] + image[up, right, c] + image[down, left, c] + image[down, right, c])
                index = min(soft * gain * (last / 1.5), last)
                value = curve[int(index)] + amount * grain[(v + shift_v) % size_v, (u + shift_u) % size_u, c]
                out[v, u, c] = np.uint8(min(255.0, max(0.0, value + 0.5)))


class Darkroom:
    """Turns light into pictures; its noise is drawn once and shifted from frame to frame."""

    def __init__(self, view: View, exact: bool, rng: np.random.Generator) -> None:
        self.view, self.exact = view, exact
        steps = np.linspace(0.0, 1.5, 6145)
        clipped = np.minimum(steps, 1.0)
        self.curve = (
            255.0 * np.where(clipped <= 0.0031308, 12.92 * clipped, 1.055 * clipped ** (1 / 2.4) - 0.055)
        ).astype(np.float32)
        self.grain = rng.standard_normal((509, 521, 3), dtype=np.float32)
        self.phases = rng.uniform(0, 2 * np.pi, 3)

    def gain_at(self, time_s: float) -> float:
        """Exposure, drifting slowly between 0.7 and 1.4 (1 in exact presets)."""
        if self.exact:
            return 1.0
        rates = np.array([0.061, 0.113, 0.197])
        wave = float((np.array([0.5, 0.3, 0.2]) * np.sin(2 * np.pi * rates * time_s + self.phases)).sum())
        return float(np.exp(np.log(np.sqrt(0.7 * 1.4)) + wave * np.log(np.sqrt(1.4 / 0.7))))

    def develop(
        self,
        light: Float32[np.ndarray, "P 3"],
        motion: Float32[np.ndarray, "P 2"] | None,
        time_s: float,
        rng: np.random.Generator,
    ) -> UInt8[np.ndarray, "H W 3"]:
        """One frame. ``motion`` None leaves the blur out."""
        height, width = self.view.seen.shape
        image = np.zeros((height, width, 3), dtype=np.float32)
        image[self.view.seen] = light
        if motion is not None:
            grid = np.zeros((height, width, 2), dtype=np.float32)
            grid[self.view.seen] = motion
            smeared = np.empty_like(image)
            _smear(image, grid, _TAPS, smeared)
            image = smeared
        out = np.empty((height, width, 3), dtype=np.uint8)
        amount = 0.0 if self.exact else 2.0
        shift = rng.integers(0, 500, 2)
        _develop(image, self.gain_at(time_s), self.curve, self.grain, int(shift[0]), int(shift[1]), amount, out)
        return out


def image_motion(
    view: View,
    rays: Float32[np.ndarray, "P 6"],
    hits: Hits,
    bodies: Bodies,
    ends: tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> Float32[np.ndarray, "P 2"]:
    """How far each pixel's surface point moves in the image while the shutter is open.

    Args:
        view: The KB4 view that the rays belong to.
        rays: Its rays in world in the middle of the exposure.
        hits: What they meet.
        bodies: Poses in the middle of the exposure.
        ends: (world_from_camera, world_from_body [G 4 4]) when the shutter opens and when it closes.
    """
    maps = [np.linalg.inv(camera) @ poses @ bodies.body_from_world for camera, poses in ends]
    out = np.empty((len(rays), 2), dtype=np.float32)
    params = view.camera.params
    _image_motion(rays, hits["t_hit"], hits["geometry_ids"], maps[0], maps[1], float(params[0]), params[4:8], out)
    return out
