"""The room: walls, furniture and what hangs on the walls, drawn from a seed."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from egospatial.simulator.materials import Material, Pattern, srgb
from egospatial.simulator.meshes import Mesh, box, join


@dataclass(frozen=True)
class Support:
    """A horizontal surface in reach: origin in the middle of its front edge, as somebody at it sees it."""

    name: str
    front_xy_m: Float[np.ndarray, "2"]
    away_xy: Float[np.ndarray, "2"]  # unit, from the person into the surface
    width_m: float
    depth_m: float
    height_m: float
    stance_gap_m: float  # from the person's feet to the front edge

    @property
    def right_xy(self) -> Float[np.ndarray, "2"]:
        """Unit vector to the right of somebody who stands at it."""
        return np.array([self.away_xy[1], -self.away_xy[0]])

    @property
    def heading_rad(self) -> float:
        """Where somebody at it faces."""
        return float(np.arctan2(self.away_xy[1], self.away_xy[0]))

    def point(self, right_m: float, away_m: float, up_m: float = 0.0) -> Float[np.ndarray, "3"]:
        """A point over the surface in world."""
        xy = self.front_xy_m + right_m * self.right_xy + away_m * self.away_xy
        return np.array([xy[0], xy[1], self.height_m + up_m])

    def stance(self, right_m: float = 0.0) -> Float[np.ndarray, "2"]:
        """Where somebody stands who works at it."""
        return self.front_xy_m - self.stance_gap_m * self.away_xy + right_m * self.right_xy


@dataclass(frozen=True)
class Room:
    """Static geometry with a material per part, and the supports that objects can stand on."""

    size_m: Float[np.ndarray, "3"]
    mesh: Mesh
    materials: tuple[Material, ...]
    supports: dict[str, Support]
    blocks: Float[np.ndarray, "B 2 3"]  # axis-parallel furniture boxes (low, high), for clearance
    lights: Float[np.ndarray, "L 4"]


_WALLS = ("d9cdb8", "c9d3cf", "d6c7c9", "cfd2de", "d8d3b9")
_WOODS = (("c9a878", "b58d58"), ("d8c3a0", "c2a67a"), ("a9927a", "8f775d"), ("d5d0c6", "bdb6aa"))
_PICTURES = (
    ("26456e", "e2b13c", "d9e2ea"),
    ("8e2f3c", "f0d9c0", "2f5d62"),
    ("3d6b4f", "efe6c8", "c7703a"),
    ("4b3f72", "e6c9d8", "7fb2b0"),
    ("2b2b33", "d9d2c3", "b5523b"),
    ("58788c", "f3efe0", "d29a3a"),
)


class _Builder:
    """Collects boxes with materials and remembers which of them are in the way."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.meshes, self.materials = rng, [], []  # type: ignore[var-annotated]
        self.blocks: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, low: tuple[float, ...], high: tuple[float, ...], material: Material, solid: bool = False) -> None:
        a, b = np.minimum(low, high), np.maximum(low, high)
        seeded = Material(**{**material.__dict__, "seed": int(self.rng.integers(1, 2**30))})
        self.meshes.append(box(tuple(b - a), tuple(a), len(self.materials)))
        self.materials.append(seeded)
        if solid:
            self.blocks.append((a, b))

    def wood(self, tones: tuple[str, str], board_m: float, grain: float = 0.2) -> Material:
        colors = (srgb(tones[0]), srgb(tones[1]), tuple(0.45 * c for c in srgb(tones[1])))
        return Material(Pattern.PLANKS, colors, board_m, grain, 0.05)  # type: ignore[arg-type]


def build_room(rng: np.random.Generator, width_m: float) -> Room:
    """A room with a table, a shelf and a counter, about so wide; left and right swap with the seed."""
    width, depth, height = width_m + rng.uniform(-0.15, 0.25), rng.uniform(3.6, 4.1), 2.6
    build = _Builder(rng)
    _shell(build, width, depth, height)
    mirrored = bool(rng.random() < 0.5)
    supports = {
        "table": _table(build, width, depth),
        "shelf": _shelf(build, width, depth, mirrored),
        "counter": _counter(build, width, depth, not mirrored),
    }
    _decoration(build, width, depth, height, mirrored)
    lights = np.array(
        [
            [0.0, 0.0, 0.0, rng.uniform(0.40, 0.48)],
            [width * rng.uniform(0.35, 0.5), depth * 0.45, height - 0.1, rng.uniform(0.62, 0.75)],
            [width * rng.uniform(0.6, 0.8), 0.3, 1.7, rng.uniform(0.30, 0.42)],
        ]
    )
    return Room(
        np.array([width, depth, height]),
        join(*build.meshes),
        tuple(build.materials),
        supports,
        np.array(build.blocks),
        lights,
    )


def _shell(build: _Builder, width: float, depth: float, height: float) -> None:
    """Floor, ceiling and walls as slabs of 10 cm; wallpaper in irregular faint patches, skirting boards."""
    t = 0.1
    wood = _WOODS[int(build.rng.integers(len(_WOODS)))]
    if build.rng.random() < 0.5:
        floor = build.wood(wood, 0.14, 0.24)
    else:
        tile = (srgb("b9b2a6"), srgb("9fa6a6"), srgb("6d6a66"))
        floor = Material(Pattern.TILES, tile, 0.33, 0.2, 0.09)
    build.add((-t, -t, -t), (width + t, depth + t, 0), floor)
    build.add(
        (-t, -t, height),
        (width + t, depth + t, height + t),
        Material(Pattern.TILES, (srgb("dcdcd6"), srgb("d2d2cc"), srgb("a8a8a2")), 0.6, 0.1, 0.2),
    )
    sides = [((-t, -t, 0), (0, depth + t, height)), ((width, -t, 0), (width + t, depth + t, height))]
    sides += [((0, -t, 0), (width, 0, height)), ((0, depth, 0), (width, depth + t, height))]
    for low, high in sides:
        base = srgb(_WALLS[int(build.rng.integers(len(_WALLS)))])
        tones = tuple(tuple(f * c for c in base) for f in (1.0, 0.86, 1.1))
        build.add(low, high, Material(Pattern.PATCHES, tones, 0.17, 0.13, 0.3))  # type: ignore[arg-type]
    board = build.wood(("efeae0", "dcd6ca"), 0.3, 0.12)
    for low, high in (
        ((0, depth - 0.015, 0), (width, depth, 0.09)),
        ((0, 0, 0), (0.015, depth, 0.09)),
        ((width - 0.015, 0, 0), (width, depth, 0.09)),
    ):
        build.add(low, high, board)


def _table(build: _Builder, width: float, depth: float) -> Support:
    rng = build.rng
    w, d, h = 1.5, 0.78, rng.uniform(0.74, 0.78)
    x, gap = width / 2 + rng.uniform(-0.15, 0.15), rng.uniform(0.04, 0.12)
    back = depth - gap
    top = _WOODS[int(rng.integers(len(_WOODS)))]
    build.add((x - w / 2, back - d, h - 0.035), (x + w / 2, back, h), build.wood(top, 0.13), solid=True)
    for sx in (-1, 1):
        for y in (back - d + 0.04, back - 0.1):
            low = (x + sx * (w / 2 - 0.1) - 0.03, y, 0)
            build.add(low, (low[0] + 0.06, y + 0.06, h - 0.035), build.wood(top, 0.2))
    return Support("table", np.array([x, back - d]), np.array([0.0, 1.0]), w, d, h, 0.14)


def _shelf(build: _Builder, width: float, depth: float, mirrored: bool) -> Support:
    """Three boards at a side wall; graspable things stand on the top one, others below are part of the room."""
    rng = build.rng
    d, length, h = 0.34, 1.0, rng.uniform(0.98, 1.06)
    y = depth - 1.75 + rng.uniform(-0.1, 0.1)
    x0, x1 = (0.0, d) if mirrored else (width - d, width)
    board = build.wood(_WOODS[int(rng.integers(len(_WOODS)))], 0.12)
    for z in (0.12, 0.42, 0.70, h):
        build.add((x0, y - length / 2, z - 0.025), (x1, y + length / 2, z), board, solid=z == h)
    for side in (y - length / 2, y + length / 2 - 0.025):
        build.add((x0, side, 0), (x1, side + 0.025, h - 0.025), board)
    for level, tall in ((0.12, 0.22), (0.42, 0.2), (0.70, 0.2)):
        spot = y - length / 2 + 0.06
        while spot < y + length / 2 - 0.16:
            thick = rng.uniform(0.03, 0.08)
            inset = rng.uniform(0.03, 0.1)
            low = (x0 + (0.02 if mirrored else inset), spot, level)
            high = (x1 - (inset if mirrored else 0.02), spot + thick, level + tall * rng.uniform(0.7, 1.0))
            colors = _PICTURES[int(rng.integers(len(_PICTURES)))]
            build.add(low, high, Material(Pattern.PATCHES, tuple(srgb(c) for c in colors), 0.07, 0.2, 0.05))
            spot += thick + rng.uniform(0.004, 0.09)
    away = np.array([-1.0 if mirrored else 1.0, 0.0])
    front = np.array([x1 if mirrored else x0, y])
    return Support("shelf", front, away, length, d, h, 0.24)


def _counter(build: _Builder, width: float, depth: float, mirrored: bool) -> Support:
    """A kitchen counter at the other side wall, with doors below and a tiled splash-back."""
    rng = build.rng
    d, length, h = 0.58, 1.3, rng.uniform(0.88, 0.92)
    y = depth - 1.8 + rng.uniform(-0.1, 0.1)
    x0, x1 = (0.0, d) if mirrored else (width - d, width)
    stone = Material(Pattern.MOTTLED, (srgb("cbc6bd"),), grain=0.32, grain_scale_m=0.05)
    build.add((x0, y - length / 2, h - 0.04), (x1, y + length / 2, h), stone, solid=True)
    inset = 0.02
    body = (
        ((x0, y - length / 2, 0.0), (x1 - inset, y + length / 2, h - 0.04))
        if mirrored
        else (
            (x0 + inset, y - length / 2, 0.0),
            (x1, y + length / 2, h - 0.04),
        )
    )
    build.add(*body, build.wood(_WOODS[int(rng.integers(len(_WOODS)))], 0.22), solid=True)
    wall = (0.0, 0.012) if mirrored else (width - 0.012, width)
    tiles = Material(Pattern.TILES, (srgb("dfe4e2"), srgb("9cb7b8"), srgb("8a8a84")), 0.11, 0.2, 0.06)
    build.add((wall[0], y - length / 2, h), (wall[1], y + length / 2, h + 0.45), tiles)
    away = np.array([-1.0 if mirrored else 1.0, 0.0])
    front = np.array([x1 if mirrored else x0, y])
    return Support("counter", front, away, length, d, h, 0.18)


def _decoration(build: _Builder, width: float, depth: float, height: float, mirrored: bool) -> None:
    """Pictures, a window with a view, a door, a rug, a cupboard behind the wearer."""
    rng = build.rng

    def picture(scale_m: float) -> Material:
        colors = tuple(srgb(c) for c in _PICTURES[int(rng.integers(len(_PICTURES)))])
        return Material(Pattern.PATCHES, colors, scale_m, 0.2, 0.05)

    frame = build.wood(("3b3029", "2c231d"), 0.05)
    x = width * 0.12
    while x < width * 0.86:
        w, h, z = rng.uniform(0.35, 0.7), rng.uniform(0.35, 0.6), rng.uniform(1.2, 1.45)
        build.add((x, depth - 0.018, z), (x + w, depth, z + h), frame)
        build.add(
            (x + 0.03, depth - 0.024, z + 0.03),
            (x + w - 0.03, depth - 0.018, z + h - 0.03),
            picture(rng.uniform(0.07, 0.13)),
        )
        x += w + rng.uniform(0.1, 0.3)
    for wall_x, inward in ((0.0, 1.0), (width, -1.0)):
        z, y = 1.55, depth - 1.75
        w, h = rng.uniform(0.6, 0.9), rng.uniform(0.4, 0.6)
        build.add((wall_x, y - w / 2, z), (wall_x + inward * 0.018, y + w / 2, z + h), frame)
        build.add(
            (wall_x, y - w / 2 + 0.03, z + 0.03),
            (wall_x + inward * 0.026, y + w / 2 - 0.03, z + h - 0.03),
            picture(rng.uniform(0.08, 0.14)),
        )
    build.add((0.3, 0, 0), (1.15, 0.03, 2.0), build.wood(("b79b74", "a3845b"), 0.21))
    build.add((1.7, 0, 0.9), (width - 1.0, 0.02, 2.1), build.wood(("f0ede6", "dedad0"), 0.1, 0.1))
    build.add((1.76, 0, 0.96), (width - 1.06, 0.03, 2.04), picture(0.22))
    build.add(
        (width - 0.75, 0.0, 0.0), (width - 0.1, 0.45, 1.5), build.wood(_WOODS[int(rng.integers(len(_WOODS)))], 0.16)
    )
    rug = (width * 0.28, depth - 2.5, 0.0), (width * 0.72, depth - 1.15, 0.012)
    build.add(*rug, picture(0.16))
    _ = (height, mirrored)
