"""What a ray sees: procedural albedo at the hit point and soft light, per pixel, compiled.

The kernels run on one core and let go of the interpreter, so that frames can be rendered side by side.
"""

import math
from typing import Any

import numpy as np

from cuda_kernels.jit import jit


@jit()
def _hash(x: int, y: int, z: int, seed: int) -> float:
    """A number in [0, 1) that looks random, of a grid corner (integer mixing after Wang's style of shifts)."""
    h = np.uint32(x * 0x8DA6B343) ^ np.uint32(y * 0xD8163841) ^ np.uint32(z * 0xCB1AB31F) ^ np.uint32(seed * 0x9E3779B9)
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
    h = np.uint32(h ^ (h >> np.uint32(16)))
    return h * 2.3283064365386963e-10


@jit()
def _noise(x: float, y: float, z: float, seed: int) -> float:
    """Value noise in [-1, 1] with a period of 1."""
    fx, fy, fz = math.floor(x), math.floor(y), math.floor(z)
    ix, iy, iz = int(fx), int(fy), int(fz)
    u, v, w = x - fx, y - fy, z - fz
    u, v, w = u * u * (3 - 2 * u), v * v * (3 - 2 * v), w * w * (3 - 2 * w)
    a = _hash(ix, iy, iz, seed) * (1 - u) + _hash(ix + 1, iy, iz, seed) * u
    b = _hash(ix, iy + 1, iz, seed) * (1 - u) + _hash(ix + 1, iy + 1, iz, seed) * u
    c = _hash(ix, iy, iz + 1, seed) * (1 - u) + _hash(ix + 1, iy, iz + 1, seed) * u
    d = _hash(ix, iy + 1, iz + 1, seed) * (1 - u) + _hash(ix + 1, iy + 1, iz + 1, seed) * u
    return 2 * ((a * (1 - v) + b * v) * (1 - w) + (c * (1 - v) + d * v) * w) - 1


@jit()
def _grain(x: float, y: float, z: float, scale: float, footprint: float, seed: int) -> float:
    """Four octaves of noise; those finer than a pixel are faded out."""
    total = 0.0
    amplitude = 1.0
    for octave in range(4):
        fade = min(1.0, max(0.0, scale / footprint * 0.5 - 0.5))
        if fade > 0.0:
            total += amplitude * fade * _noise(x / scale, y / scale, z / scale, seed + octave)
        scale *= 0.37
        amplitude *= 0.72
    return total / 2.0


@jit()
def _step(value: float, edge: float, footprint: float) -> float:
    """0 below the edge, 1 above it, blended over a pixel."""
    return min(1.0, max(0.0, (value - edge) / footprint + 0.5))


@jit()
def _patch_tones(x: float, y: float, z: float, scale: float, seed: int) -> tuple[float, float]:
    """A random tone per irregular patch, at two scales (the same warp of space makes both irregular)."""
    gx, gy, gz = x / scale, y / scale, z / scale
    a = 0.5 * _noise(gx * 1.3, gy * 1.3, gz * 1.3, seed + 11)
    b = 0.5 * _noise(gx * 1.3 + 7.7, gy * 1.3, gz * 1.3, seed + 12)
    wx, wy, wz = gx + a, gy + b, gz + a - b
    fx, fy, fz = 3.2 * gx + b, 3.2 * gy + a, 3.2 * gz + b - a
    coarse = _hash(math.floor(wx), math.floor(wy), math.floor(wz), seed + 17)
    return coarse, _hash(math.floor(fx), math.floor(fy), math.floor(fz), seed + 57)


@jit()
def _weights(
    pattern: int, x: float, y: float, z: float, numbers: Any, footprint: float, seed: int
) -> tuple[float, float, float]:
    """Shares of the second and third colour, and a tint (added to the grain)."""
    scale, low, high = numbers[0], numbers[3], numbers[4]
    second, third, tint = 0.0, 0.0, 0.0
    if pattern == 1:  # planks along x
        row = math.floor(y / scale)
        length = 9.0 * scale
        col = math.floor(x / length + _hash(row, 3, math.floor(z / scale + 0.01), seed))
        tint = 1.1 * (_hash(row, col, 7, seed) - 0.5)
        second = 0.5 + 0.5 * _noise(x / (scale * 4), y / (scale * 0.12), z / (scale * 0.12), seed + row * 31 + col)
        edge = abs(y / scale - row - 0.5)
        third = _step(edge * scale, 0.5 * scale - 0.0022, max(footprint, 1e-4))
    elif pattern == 2:  # tiles
        ix, iy, iz = math.floor(x / scale), math.floor(y / scale), math.floor(z / scale + 1e-3)
        tint = 0.9 * (_hash(int(ix), int(iy), int(iz), seed) - 0.5)
        second = _hash(int(ix), int(iy), int(iz), seed + 5)
        edge = max(abs(x / scale - ix - 0.5), abs(y / scale - iy - 0.5))
        third = _step(edge * scale, 0.5 * scale - 0.003, max(footprint, 1e-4))
    elif pattern == 3:  # patches
        tone, fine = _patch_tones(x, y, z, scale, seed)
        second = 1.0 if tone < 0.36 else 0.0
        third = 1.0 if tone > 0.68 else 0.0
        if fine > 0.8:
            second, third = third, 1.0 - max(second, third)
        tint = 0.9 * (fine - 0.5)
    elif pattern == 4:  # rings along z
        wave = z / scale + 0.12 * _noise(x / scale * 0.6, y / scale * 0.6, z / scale, seed)
        phase = wave - math.floor(wave)
        soft = max(footprint / scale, 0.02)
        second = _step(phase, 0.55, soft) - _step(phase, 0.97, soft)
        tint = 0.25 * (_hash(math.floor(wave), 0, 0, seed) - 0.5)
    elif pattern == 5:  # spots, one per cell, jittered
        ix, iy, iz = math.floor(x / scale), math.floor(y / scale), math.floor(z / scale)
        cx = 0.5 + 0.3 * (_hash(int(ix), int(iy), int(iz), seed) - 0.5)
        cy = 0.5 + 0.3 * (_hash(int(ix), int(iy), int(iz), seed + 1) - 0.5)
        cz = 0.5 + 0.3 * (_hash(int(ix), int(iy), int(iz), seed + 2) - 0.5)
        away = math.sqrt((x / scale - ix - cx) ** 2 + (y / scale - iy - cy) ** 2 + (z / scale - iz - cz) ** 2)
        second = 1.0 - _step(away * scale, 0.36 * scale, max(footprint, 3e-4))
    elif pattern == 6:  # a printed band
        inside = _step(z, low, max(footprint, 3e-4)) * (1.0 - _step(z, high, max(footprint, 3e-4)))
        print_tone = _patch_tones(x, y, z * 1.6, scale, seed)[0]
        mark = 1.0 if print_tone > 0.62 else 0.0
        second, third = inside * (1.0 - mark), inside * mark
    return second, third, tint


@jit(nogil=True)
def _shade(
    rays: Any,
    distances: Any,
    geometry_ids: Any,
    primitive_ids: Any,
    uvs: Any,
    body_from_world: Any,
    triangle_start: Any,
    triangle_material: Any,
    normals: Any,
    world_from_body: Any,
    patterns: Any,
    colors: Any,
    numbers: Any,
    seeds: Any,
    lights: Any,
    pixel_angle: float,
    out: Any,
) -> None:
    for i in range(distances.shape[0]):
        geometry = geometry_ids[i]
        if geometry == np.uint32(0xFFFFFFFF):
            out[i, 0] = out[i, 1] = out[i, 2] = 0.0
            continue
        t = distances[i]
        dx, dy, dz = rays[i, 3], rays[i, 4], rays[i, 5]
        wx, wy, wz = rays[i, 0] + t * dx, rays[i, 1] + t * dy, rays[i, 2] + t * dz
        m = body_from_world[geometry]
        x = m[0, 0] * wx + m[0, 1] * wy + m[0, 2] * wz + m[0, 3]
        y = m[1, 0] * wx + m[1, 1] * wy + m[1, 2] * wz + m[1, 3]
        z = m[2, 0] * wx + m[2, 1] * wy + m[2, 2] * wz + m[2, 3]
        triangle = triangle_start[geometry] + primitive_ids[i]
        u, v = uvs[i, 0], uvs[i, 1]
        w = 1.0 - u - v
        corner = normals[triangle]
        bx = w * corner[0, 0] + u * corner[1, 0] + v * corner[2, 0]
        by = w * corner[0, 1] + u * corner[1, 1] + v * corner[2, 1]
        bz = w * corner[0, 2] + u * corner[1, 2] + v * corner[2, 2]
        r = world_from_body[geometry]
        nx = r[0, 0] * bx + r[0, 1] * by + r[0, 2] * bz
        ny = r[1, 0] * bx + r[1, 1] * by + r[1, 2] * bz
        nz = r[2, 0] * bx + r[2, 1] * by + r[2, 2] * bz
        length = math.sqrt(nx * nx + ny * ny + nz * nz) + 1e-12
        facing = nx * dx + ny * dy + nz * dz
        sign = -1.0 / length if facing > 0.0 else 1.0 / length
        nx, ny, nz = nx * sign, ny * sign, nz * sign
        footprint = t * pixel_angle / max(0.15, abs(facing) / length)
        kind = triangle_material[triangle]
        number = numbers[kind]
        second, third, tint = _weights(patterns[kind], x, y, z, number, footprint, seeds[kind])
        tone = tint * number[1] * 2.0 + number[1] * 2.2 * _grain(x, y, z, number[2], footprint, seeds[kind] + 101)
        albedo = math.exp(tone)
        light = lights[0, 3] * (0.75 + 0.25 * nz)
        for k in range(1, lights.shape[0]):
            lx, ly, lz = lights[k, 0] - wx, lights[k, 1] - wy, lights[k, 2] - wz
            d2 = lx * lx + ly * ly + lz * lz
            cosine = (nx * lx + ny * ly + nz * lz) / math.sqrt(d2 + 1e-9)
            light += lights[k, 3] * max(0.0, 0.2 + 0.8 * cosine) / (1.0 + 0.18 * d2)
        first = max(0.0, 1.0 - second - third)
        for c in range(3):
            base = first * colors[kind, 0, c] + second * colors[kind, 1, c] + third * colors[kind, 2, c]
            out[i, c] = light * min(0.95, base * albedo)


def shade(
    rays: np.ndarray,
    hits: dict[str, np.ndarray],
    bodies: Any,
    lights: np.ndarray,
    pixel_angle_rad: float,
) -> np.ndarray:
    """Linear light per ray, float32 [N, 3]; 0 where the ray meets nothing.

    Args:
        rays: Origins and unit directions in world, float32 [N, 6].
        hits: What ``raycast.cast`` returned for them.
        bodies: ``raycast.Bodies``: poses, triangles and materials of every geometry id.
        lights: Rows (x, y, z, strength); the first row is the ambient light, its place is not used.
        pixel_angle_rad: Angle between neighbouring pixels; texture finer than that is faded out.
    """
    out = np.empty((len(rays), 3), dtype=np.float32)
    table = bodies.materials
    _shade(
        rays,
        hits["t_hit"],
        hits["geometry_ids"],
        hits["primitive_ids"],
        hits["primitive_uvs"],
        bodies.body_from_world,
        bodies.triangle_start,
        bodies.triangle_material,
        bodies.normals,
        bodies.world_from_body,
        table.patterns,
        table.colors,
        table.numbers,
        table.seeds,
        lights,
        pixel_angle_rad,
        out,
    )
    return out
