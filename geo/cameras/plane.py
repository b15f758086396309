"""Distortion inside the image plane: radial, tangential and thin-prism terms, one formula for every model."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial.polynomial import polyval

from geo.cameras.base import first_positive_root
from geo.cameras.curve import invert_monotone

_STEPS = 80
_RESIDUAL = 1e-11  # of plane coordinates: far below 1e-6 px for any focal length
_FLOOR = 1e-14  # a residual that no longer falls below this is rounding
_LAST_STEP = 1e-10
_BLOCK = 16384  # pixels at a time: what fits the processor's cache is twice as fast
_AZIMUTHS, _RADII = 361, 256


@dataclass(frozen=True)
class PlaneSlopes:
    """The 2x2 Jacobian of the distortion, by name: ``xy`` is the derivative of the distorted x by y."""

    xx: Float[np.ndarray, "N"]
    xy: Float[np.ndarray, "N"]
    yx: Float[np.ndarray, "N"]
    yy: Float[np.ndarray, "N"]

    @property
    def determinant(self) -> Float[np.ndarray, "N"]:
        """Positive where the distortion keeps its orientation."""
        return np.asarray(self.xx * self.yy - self.xy * self.yx)

    def keeps_order(self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        """True where the orientation is kept, and a step outwards from the centre goes outwards in the picture too.

        The second does not follow from the first: z + a z^2 in the complex plane keeps its orientation everywhere but
        in one point, and yet covers the plane twice.
        """
        outwards = x * x * self.xx + x * y * (self.xy + self.yx) + y * y * self.yy
        return np.asarray((self.determinant > 0) & ((outwards > 0) | ((x == 0) & (y == 0))))


@dataclass(frozen=True)
class Bent:
    """Distorted plane coordinates, their slopes (None: not asked for and not needed), and where they count."""

    x: Float[np.ndarray, "N"]
    y: Float[np.ndarray, "N"]
    slopes: PlaneSlopes | None
    valid: Bool[np.ndarray, "N"]

    def where(self, mask: Bool[np.ndarray, "N"]) -> "Bent":
        """The masked part."""
        if mask.all():
            return self
        s = self.slopes
        part = None if s is None else PlaneSlopes(s.xx[mask], s.xy[mask], s.yx[mask], s.yy[mask])
        return Bent(self.x[mask], self.y[mask], part, self.valid[mask])


@dataclass(frozen=True)
class Straight:
    """Undistorted plane coordinates; where ``valid`` is False they mean nothing."""

    x: Float[np.ndarray, "N"]
    y: Float[np.ndarray, "N"]
    valid: Bool[np.ndarray, "N"]


@dataclass(frozen=True)
class PlaneDistortion:
    """x_d = x g(s) + 2 (p . m) x + p_x s + prism_x . (s, s^2) with m = (x, y), s = x^2 + y^2; y alike.

    g = n(s) / d(s), coefficients in rising powers, the first of each being 1. ``tangential`` is the vector p: OpenCV's
    and COLMAP's (p2, p1), Project Aria's (p0, p1); as a vector it turns with the picture.

    Valid is the disc of radius ``max_radius`` (given limit, first turning point or pole of the radial curve), as far
    as the whole distortion keeps its orientation, and outwards stays outwards, on the straight way there from the
    centre (FIELD R4).

    Source: OpenCV 4, ``calib3d``, "Detailed Description"; Brown (1966); Weng, Cohen & Herniou (1992) for the prism.
    """

    numerator: tuple[float, ...] = (1.0,)
    denominator: tuple[float, ...] = (1.0,)
    tangential: tuple[float, float] = (0.0, 0.0)
    prism_x: tuple[float, float] = (0.0, 0.0)
    prism_y: tuple[float, float] = (0.0, 0.0)
    limit: float = float("inf")

    @cached_property
    def max_radius(self) -> float:
        """Largest valid radius of the undistorted plane; it may be infinite."""
        n, d = np.asarray(self.numerator), np.asarray(self.denominator)
        # d/dr (r n / d) = 0  <=>  (n + 2 s n') d - 2 s n d' = 0 with s = r^2; a pole of d comes no later than matters.
        rising = np.convolve(n * (2 * np.arange(len(n)) + 1), d)
        falling = np.convolve(n, d * 2 * np.arange(len(d)))
        turning = first_positive_root(rising - falling)
        return float(min(np.sqrt(min(turning, first_positive_root(d))), self.limit))

    @cached_property
    def radial_only(self) -> bool:
        """True where every point moves along its own radius."""
        return not any((*self.tangential, *self.prism_x, *self.prism_y))

    def bend(self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"], with_slopes: bool = False) -> Bent:
        """Distort plane coordinates."""
        s = x * x + y * y
        g = polyval(s, np.asarray(self.numerator))
        if len(self.denominator) > 1:
            g = g / polyval(s, np.asarray(self.denominator))
        inside = np.hypot(x, y) <= self.max_radius
        if self.radial_only:
            slopes = self._slopes(x, y, s, g) if with_slopes else None
            return Bent(x * g, y * g, slopes, np.asarray(inside))
        (px, py), along = self.tangential, 2 * (self.tangential[0] * x + self.tangential[1] * y)
        slopes = self._slopes(x, y, s, g)
        xd = x * (g + along) + s * (px + self.prism_x[0] + s * self.prism_x[1])
        yd = y * (g + along) + s * (py + self.prism_y[0] + s * self.prism_y[1])
        return Bent(xd, yd, slopes, np.asarray(inside & slopes.keeps_order(x, y) & self._before_fold(x, y)))

    def _slopes(
        self,
        x: Float[np.ndarray, "N"],
        y: Float[np.ndarray, "N"],
        s: Float[np.ndarray, "N"],
        g: Float[np.ndarray, "N"],
    ) -> PlaneSlopes:
        """Derivatives of ``bend``; with g = n / d, dg/ds = (n' - g d') / d."""
        n, d = np.asarray(self.numerator), np.asarray(self.denominator)
        dg = polyval(s, n[1:] * np.arange(1, len(n))) if len(n) > 1 else np.zeros_like(s)
        if len(d) > 1:
            dg = (dg - g * polyval(s, d[1:] * np.arange(1, len(d)))) / polyval(s, d)
        px, py = self.tangential
        base = g + 2 * (px * x + py * y)
        by_s_x = 2 * (px + self.prism_x[0] + 2 * s * self.prism_x[1])
        by_s_y = 2 * (py + self.prism_y[0] + 2 * s * self.prism_y[1])
        return PlaneSlopes(
            xx=base + x * (2 * x * dg + 2 * px + by_s_x),
            xy=x * (2 * y * dg + 2 * py) + y * by_s_x,
            yx=y * (2 * x * dg + 2 * px) + x * by_s_y,
            yy=base + y * (2 * y * dg + 2 * py + by_s_y),
        )

    @cached_property
    def _folds(self) -> tuple[Float[np.ndarray, "A"], Float[np.ndarray, "A"]] | None:
        """Azimuths, and for each a radius inside the first strip where the order is lost; None without any strip.

        Beyond such a strip the order may come back, with a second picture of the same pixels: that part never counts.
        The strip's own border is found by the slopes themselves, so sampling need not be exact.
        """
        azimuth = np.linspace(-np.pi, np.pi, _AZIMUTHS)[:, None]
        radius = np.tan(np.linspace(0, np.arctan(min(self.max_radius, 1e6)), _RADII))[None]
        x, y = (radius * np.cos(azimuth)).ravel(), (radius * np.sin(azimuth)).ravel()
        with np.errstate(all="ignore"):
            s = x * x + y * y
            g = polyval(s, np.asarray(self.numerator)) / polyval(s, np.asarray(self.denominator))
            lost = ~self._slopes(x, y, s, g).keeps_order(x, y).reshape(_AZIMUTHS, _RADII)
        lost[:, -1] &= lost[:, -2]  # at the turning point itself zero is rounding
        if not lost.any():
            return None
        first = np.where(lost.any(axis=1), lost.argmax(axis=1), _RADII - 1)
        after = np.arange(_RADII)[None] >= first[:, None]
        regained = after & ~lost
        last = np.where(regained.any(axis=1) & lost.any(axis=1), regained.argmax(axis=1) - 1, _RADII - 1)
        return azimuth[:, 0], 0.5 * (radius[0, first] + radius[0, last])

    def _before_fold(self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        """Where a point lies on the centre's side of the first strip of lost order."""
        if self._folds is None:
            return np.ones(np.shape(x), dtype=bool)
        azimuth, radius = self._folds
        place = (np.arctan2(y, x) - azimuth[0]) / (azimuth[1] - azimuth[0])
        left = np.clip(np.nan_to_num(np.floor(place)).astype(np.intp), 0, _AZIMUTHS - 2)
        return np.asarray(np.hypot(x, y) <= np.minimum(radius[left], radius[left + 1]))

    def straighten(self, xd: Float[np.ndarray, "N"], yd: Float[np.ndarray, "N"]) -> Straight:
        """Invert ``bend``: the radial curve inside its bracket, then guarded Newton steps in the plane.

        A step counts only if it stays in the valid region and does not raise the residual; else it is halved.
        """
        out = Straight(np.full_like(xd, np.nan), np.full_like(yd, np.nan), np.zeros(len(xd), dtype=bool))
        for start in range(0, len(xd), _BLOCK):
            part = slice(start, start + _BLOCK)
            out.x[part], out.y[part], out.valid[part] = self._straighten_block(xd[part], yd[part])
        return out

    def _straighten_block(
        self, xd: Float[np.ndarray, "N"], yd: Float[np.ndarray, "N"]
    ) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"], Bool[np.ndarray, "N"]]:
        """Undistorted x, y, and where they count."""
        x, y = self._radial_inverse(xd, yd)
        with np.errstate(all="ignore"):
            if self.radial_only:
                return x, y, np.asarray(np.isfinite(x) & np.isfinite(y))
            x, y = self._moved_inside(x, y)
            self._newton(x, y, xd, yd)
            bent = self.bend(x, y)
            scale = 1 + np.maximum(np.abs(xd), np.abs(yd))
            solved = np.maximum(np.abs(bent.x - xd), np.abs(bent.y - yd)) <= _RESIDUAL * scale
        return x, y, np.asarray(solved & bent.valid)

    def _radial_inverse(
        self, xd: Float[np.ndarray, "N"], yd: Float[np.ndarray, "N"]
    ) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
        """Undo the radial part alone; with other terms, radii just beyond its top start near the top."""
        radius_d, r_max = np.hypot(xd, yd), self.max_radius
        n, d = np.asarray(self.numerator), np.asarray(self.denominator)
        if not np.isfinite(r_max):  # the curve rises for ever: bracket what is asked for
            top, r_max = float(radius_d[np.isfinite(radius_d)].max(initial=0.0)), 1.0
            while r_max < 1e8 and r_max * polyval(r_max**2, n) / polyval(r_max**2, d) < top:
                r_max *= 2
        radius = invert_monotone(radius_d, n, r_max, d if len(d) > 1 else None)
        if not self.radial_only:
            radius = np.where(np.isfinite(radius) | ~np.isfinite(radius_d), radius, 0.98 * r_max)
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.where(radius_d > 0, radius / radius_d, np.where(np.isfinite(radius), 1.0, np.nan))
            return xd * scale, yd * scale

    def _moved_inside(
        self, x: Float[np.ndarray, "N"], y: Float[np.ndarray, "N"]
    ) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
        """Starts that lie in no valid place, drawn towards the centre until they do."""
        shrink = np.ones_like(x)
        outside = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & ~self.bend(x, y).valid)
        for _ in range(20):
            if not len(outside):
                break
            shrink[outside] *= 0.8
            outside = outside[~self.bend(x[outside] * shrink[outside], y[outside] * shrink[outside]).valid]
        return x * shrink, y * shrink

    def _newton(
        self,
        x: Float[np.ndarray, "N"],
        y: Float[np.ndarray, "N"],
        xd: Float[np.ndarray, "N"],
        yd: Float[np.ndarray, "N"],
    ) -> None:
        """Improve x, y in place."""
        active = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        damping = np.ones(len(active))
        bent = self.bend(x[active], y[active], with_slopes=True)
        for _ in range(_STEPS):
            if not len(active) or bent.slopes is None:
                return
            slopes = bent.slopes
            ex, ey = bent.x - xd[active], bent.y - yd[active]
            dx = damping * (slopes.yy * ex - slopes.xy * ey) / slopes.determinant
            dy = damping * (slopes.xx * ey - slopes.yx * ex) / slopes.determinant
            trial = self.bend(x[active] - dx, y[active] - dy, with_slopes=True)
            before = np.hypot(ex, ey)
            better = trial.valid & (np.hypot(trial.x - xd[active], trial.y - yd[active]) < before)
            x[active[better]] -= dx[better]
            y[active[better]] -= dy[better]
            # A full step squares the error, so one of 1e-10 was the last that matters; a shortened one says nothing.
            enough = np.where(damping == 1, _LAST_STEP, 1e-15)
            small = better & (np.hypot(dx, dy) <= enough * (1 + np.hypot(x[active], y[active])))
            floor = _FLOOR * (1 + np.hypot(xd[active], yd[active]))
            going = ~small & (better | (before > floor)) & (damping > 1e-9)
            damping = np.where(better, np.minimum(1.0, 4 * damping), 0.25 * damping)[going]
            active = active[going]
            bent = trial.where(going) if better.all() else self.bend(x[active], y[active], with_slopes=True)

    def turned(self) -> "PlaneDistortion":
        """The distortion of the picture turned once clockwise: the vectors turn, (a, b) to (-b, a); the rest stays."""
        (px, py), (x1, x2), (y1, y2) = self.tangential, self.prism_x, self.prism_y
        return replace(self, tangential=(-py, px), prism_x=(-y1, -y2), prism_y=(x1, x2))
