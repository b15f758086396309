"""Loops over pixels and points: smoothing of a binary field, point splatting, geodesic distance."""

import numpy as np
from jaxtyping import Float, Float32, Int32

from cuda_kernels.jit import jit


@jit(nogil=True)
def _mean_field(unary, w_right, w_down, w_down_right, w_down_left, iterations):  # type: ignore[no-untyped-def]
    height, width = unary.shape
    spin = np.tanh(unary * np.float32(0.5))
    logit = unary.copy()
    for sweep in range(iterations):
        for vv in range(height):
            v = vv if sweep % 2 == 0 else height - 1 - vv
            for uu in range(width):
                u = uu if sweep % 2 == 0 else width - 1 - uu
                total = unary[v, u]
                if u + 1 < width:
                    total += w_right[v, u] * spin[v, u + 1]
                if u > 0:
                    total += w_right[v, u - 1] * spin[v, u - 1]
                if v + 1 < height:
                    total += w_down[v, u] * spin[v + 1, u]
                    if u + 1 < width:
                        total += w_down_right[v, u] * spin[v + 1, u + 1]
                    if u > 0:
                        total += w_down_left[v, u] * spin[v + 1, u - 1]
                if v > 0:
                    total += w_down[v - 1, u] * spin[v - 1, u]
                    if u > 0:
                        total += w_down_right[v - 1, u - 1] * spin[v - 1, u - 1]
                    if u + 1 < width:
                        total += w_down_left[v - 1, u + 1] * spin[v - 1, u + 1]
                logit[v, u] = total
                spin[v, u] = np.tanh(total * np.float32(0.5))
    return logit


@jit(nogil=True)
def _splat_points(u_px, v_px, z_m, radius_px, height, width):  # type: ignore[no-untyped-def]
    depth = np.full((height, width), np.float32(np.inf), dtype=np.float32)
    index = np.full((height, width), -1, dtype=np.int32)
    for i in range(len(z_m)):
        r = radius_px[i]
        v0, v1 = max(0, int(np.ceil(v_px[i] - r))), min(height - 1, int(np.floor(v_px[i] + r)))
        u0, u1 = max(0, int(np.ceil(u_px[i] - r))), min(width - 1, int(np.floor(u_px[i] + r)))
        for v in range(v0, v1 + 1):
            for u in range(u0, u1 + 1):
                inside = (u - u_px[i]) ** 2 + (v - v_px[i]) ** 2 <= r * r
                if inside and z_m[i] < depth[v, u]:
                    depth[v, u] = z_m[i]
                    index[v, u] = i
    return depth, index


@jit(nogil=True)
def _geodesic(distance, cost_right, cost_down, sweeps):  # type: ignore[no-untyped-def]
    height, width = distance.shape
    for sweep in range(sweeps):
        for vv in range(height):
            v = vv if sweep % 2 == 0 else height - 1 - vv
            for uu in range(width):
                u = uu if sweep % 2 == 0 else width - 1 - uu
                best = distance[v, u]
                if u > 0:
                    best = min(best, distance[v, u - 1] + cost_right[v, u - 1])
                if u + 1 < width:
                    best = min(best, distance[v, u + 1] + cost_right[v, u])
                if v > 0:
                    best = min(best, distance[v - 1, u] + cost_down[v - 1, u])
                if v + 1 < height:
                    best = min(best, distance[v + 1, u] + cost_down[v, u])
                distance[v, u] = best
    return distance


@jit(nogil=True)
def _fill_holes(z_m, features, reach):  # type: ignore[no-untyped-def]
    height, width = z_m.shape
    out = z_m.copy()
    for v in range(height):
        for u in range(width):
            if not np.isnan(z_m[v, u]):
                continue
            best = np.float32(1e9)
            for dv in range(-reach, reach + 1):
                for du in range(-reach, reach + 1):
                    y, x = v + dv, u + du
                    if y < 0 or x < 0 or y >= height or x >= width or np.isnan(z_m[y, x]):
                        continue
                    colour = np.float32(0)
                    for c in range(3):
                        colour += abs(features[v, u, c] - features[y, x, c])
                    cost = colour / np.float32(0.12) + np.sqrt(np.float32(dv * dv + du * du)) / np.float32(2.0)
                    if cost < best:
                        best = cost
                        out[v, u] = z_m[y, x]
    return out


def fill_depth(
    z_m: Float32[np.ndarray, "h w"], features: Float32[np.ndarray, "h w 3"], reach_px: int = 5
) -> Float32[np.ndarray, "h w"]:
    """Depth holes take the depth of the near pixel that looks most alike; wide holes stay NaN."""
    return np.asarray(_fill_holes(z_m, features, reach_px))  # type: ignore[no-untyped-call]


def mean_field(
    unary: Float32[np.ndarray, "h w"], edge_weights: Float32[np.ndarray, "4 h w"], iterations: int
) -> Float32[np.ndarray, "h w"]:
    """Binary mean field on an 8-neighbour grid, Gauss-Seidel sweeps in alternating directions.

    q_i = sigmoid(u_i + sum_j w_ij (2 q_j - 1)); returns the logits u_i + sum_j w_ij (2 q_j - 1). Weights are those
    of the edges to the right, down, down-right and down-left of each pixel.
    Source: Koller & Friedman (2009), section 11.5.1, for two states.
    """
    start = np.ascontiguousarray(unary, np.float32)
    weights = [np.ascontiguousarray(part, np.float32) for part in edge_weights]
    return np.asarray(_mean_field(start, *weights, iterations))  # type: ignore[no-untyped-call,call-arg]


def geodesic(
    start: Float32[np.ndarray, "h w"],
    cost_right: Float32[np.ndarray, "h w"],
    cost_down: Float32[np.ndarray, "h w"],
    sweeps: int = 4,
) -> Float32[np.ndarray, "h w"]:
    """Shortest path length from the pixels that are 0 in ``start`` (elsewhere: large), by raster sweeps.

    Source: Criminisi, Sharp & Blake (2008), GeoS, the raster-scan algorithm (here on the 4-neighbour grid).
    """
    return np.asarray(_geodesic(start.copy(), cost_right, cost_down, sweeps))  # type: ignore[no-untyped-call]


def splat(
    pixels_xy: Float[np.ndarray, "K 2"],
    z_m: Float[np.ndarray, "K"],
    radius_px: Float[np.ndarray, "K"],
    size_hw: tuple[int, int],
) -> tuple[Float32[np.ndarray, "H W"], Int32[np.ndarray, "H W"]]:
    """Z-buffer of discs: depth (inf = nothing) and the index of the point seen (-1 = nothing)."""
    as32 = np.float32
    depth, index = _splat_points(  # type: ignore[no-untyped-call]
        np.ascontiguousarray(pixels_xy[:, 0], as32),
        np.ascontiguousarray(pixels_xy[:, 1], as32),
        np.ascontiguousarray(z_m, as32),
        np.ascontiguousarray(radius_px, as32),
        size_hw[0],
        size_hw[1],
    )
    return depth, index
