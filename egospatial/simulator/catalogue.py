"""The graspable objects: shape, look, and how a hand takes them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from egospatial.simulator.materials import Material, Pattern, srgb
from egospatial.simulator.meshes import Mesh, box, join, lofted, open_box, tube, turned


@dataclass(frozen=True)
class Grasp:
    """How a hand takes an object, in the object's frame: thumb and fingers close along its y axis."""

    point_m: Float[np.ndarray, "3"]
    width_m: float
    elevation_rad: float  # how steeply the fingers point down


@dataclass(frozen=True)
class Cavity:
    """The inside of an open container, in its own frame: a box, open on top."""

    half_x_m: float
    half_y_m: float
    floor_z_m: float
    rim_z_m: float


@dataclass(frozen=True)
class ObjectSpec:
    """A kind of object. The mesh is in box axes: origin at the centre of its box, z up at rest."""

    label: str
    kind: str
    mesh: Mesh
    materials: tuple[Material, ...]  # by part
    grasp: Grasp
    thin: bool = False
    cavity: Cavity | None = None

    @cached_property
    def extent_m(self) -> Float[np.ndarray, "3"]:
        """Full lengths of the box."""
        low, high = self.mesh.bounds
        return np.asarray(high - low)


def _plain(color: str, grain: float = 0.16, scale_m: float = 0.03) -> Material:
    return Material(Pattern.MOTTLED, (srgb(color),), grain=grain, grain_scale_m=scale_m)


def _label(color: str, band: str, ink: str, low_m: float, high_m: float, scale_m: float = 0.014) -> Material:
    colors = (srgb(color), srgb(band), srgb(ink))
    return Material(Pattern.LABEL, colors, scale_m, 0.12, 0.03, low_m=low_m, high_m=high_m)


def _spec(
    label: str,
    kind: str,
    mesh: Mesh,
    materials: tuple[Material, ...],
    width_m: float,
    below_top_m: float = 0.03,
    elevation_deg: float = 50.0,
    **extra: object,
) -> ObjectSpec:
    mesh = mesh.centered()
    top = float(mesh.bounds[1, 2])
    grasp = Grasp(np.array([0.0, 0.0, top - below_top_m]), width_m, float(np.radians(elevation_deg)))
    return ObjectSpec(label, kind, mesh, materials, grasp, **extra)  # type: ignore[arg-type]


def jar(label: str, color: str, lid: str, band: str) -> ObjectSpec:
    """A jar with a screw lid, 8 cm wide, 12 cm high."""
    r, h = 0.038, 0.12
    profile = [
        (0, 0),
        (r - 0.004, 0),
        (r, 0.005),
        (r, 0.085),
        (r * 0.86, 0.095),
        (r * 0.9, 0.096),
        (r * 0.9, h),
        (0, h),
    ]
    mesh = turned(profile, [0, 0, 0, 0, 1, 1, 1])
    return _spec(label, "jar", mesh, (_label(color, band, color, -0.045, 0.015), _plain(lid)), 2 * r, 0.04, 45)


def can(label: str, color: str, band: str, ink: str, radius_m: float = 0.033, height_m: float = 0.105) -> ObjectSpec:
    """A tin can."""
    r, h = radius_m, height_m
    profile = [(0, 0), (r, 0), (r, h), (r - 0.003, h), (r - 0.003, h - 0.003), (0, h - 0.003)]
    mesh = turned(profile, [1, 0, 1, 1, 1])
    body = Material(Pattern.STRIPES, (srgb(color), srgb(band), srgb(ink)), 0.031, 0.14, 0.025)
    return _spec(label, "can", mesh, (body, _plain("b9bec4", 0.1)), 2 * r, min(0.035, 0.45 * h), 50)


def mug(label: str, color: str, second: str, spot: bool) -> ObjectSpec:
    """A mug with a handle; its inside is real. The look-alike differs by a spot below the rim."""
    r, h, t = 0.040, 0.095, 0.004
    profile = [(0, 0), (r - 0.003, 0), (r, 0.004), (r, h), (r - t, h), (r - t, 0.008), (0, 0.008)]
    body = turned(profile, [0, 0, 0, 0, 1, 1])
    turn = np.linspace(-np.pi / 2, np.pi / 2, 13)
    path = np.stack([r - 0.002 + 0.028 * np.cos(turn), np.zeros(13), h / 2 + 0.028 * np.sin(turn)], axis=-1)
    parts = [body, tube(path, 0.0055, 0)]
    if spot:
        parts.append(box((0.003, 0.022, 0.018), (-r - 0.002, -0.011, 0.068), 2))
    materials = (_plain(color, 0.2, 0.035), _plain(second, 0.08), _plain("f4f1e6", 0.05))
    made = _spec(label, "mug", join(*parts), materials, 2 * r, 0.045, 40)
    axis = -float(join(*parts).bounds[:, 0].mean())  # the handle moves the box's centre off the mug's axis
    return replace(made, grasp=replace(made.grasp, point_m=made.grasp.point_m + np.array([axis, 0.0, 0.0])))


def bottle(label: str, color: str, cap: str, band: str) -> ObjectSpec:
    """A bottle, 26 cm high."""
    r = 0.036
    profile = [
        (0, 0),
        (r, 0),
        (r, 0.15),
        (r * 0.8, 0.175),
        (0.015, 0.205),
        (0.0145, 0.235),
        (0.017, 0.236),
        (0.017, 0.26),
        (0, 0.26),
    ]
    mesh = turned(profile, [0, 0, 0, 0, 0, 1, 1, 1])
    return _spec(label, "bottle", mesh, (_label(color, band, color, -0.09, -0.01), _plain(cap)), 0.034, 0.03, 35)


def carton(label: str, color: str, second: str, third: str, size_m: tuple[float, float, float]) -> ObjectSpec:
    """A printed cardboard box."""
    material = Material(Pattern.PATCHES, (srgb(color), srgb(second), srgb(third)), 0.055, 0.12, 0.02)
    elevation = 45.0 if size_m[2] > 0.1 else 60.0
    return _spec(label, "carton", box(size_m), (material,), size_m[1], min(0.035, size_m[2] * 0.45), elevation)


def sponge(label: str, color: str, scourer: str) -> ObjectSpec:
    """A sponge with a scouring side on top."""
    mesh = join(box((0.11, 0.068, 0.03)), box((0.11, 0.068, 0.012), (0, 0, 0.03), 1))
    materials = (
        Material(Pattern.DOTS, (srgb(color), tuple(c * 0.6 for c in srgb(color))), 0.011, 0.2, 0.012),  # type: ignore[arg-type]
        _plain(scourer, 0.3, 0.008),
    )
    return _spec(label, "sponge", mesh, materials, 0.068, 0.022, 62)


def cube(label: str, color: str, second: str, side_m: float = 0.05) -> ObjectSpec:
    """A toy cube with spots."""
    material = Material(Pattern.DOTS, (srgb(color), srgb(second)), side_m / 2, 0.1, 0.02)
    return _spec(label, "cube", box((side_m, side_m, side_m)), (material,), side_m, 0.022, 60)


def book(label: str, color: str, second: str, third: str) -> ObjectSpec:
    """A book that lies flat."""
    size = (0.205, 0.145, 0.032)
    mesh = join(
        box((0.205, 0.145, 0.003)),
        box((0.2, 0.138, 0.026), (0.0, 0.003, 0.003), 1),
        box((0.205, 0.145, 0.003), (0, 0, 0.029)),
    )
    cover = Material(Pattern.PATCHES, (srgb(color), srgb(second), srgb(third)), 0.06, 0.14, 0.03)
    return _spec(label, "book", mesh, (cover, _plain("e8e2d0", 0.1, 0.01)), size[1], 0.016, 60)


def bowl(label: str, color: str, inside: str) -> ObjectSpec:
    """An open bowl, 16 cm wide, 6.5 cm high, with a real inside."""
    outer = [(0, 0), (0.036, 0), (0.04, 0.004), (0.06, 0.02), (0.074, 0.042), (0.08, 0.065)]
    inner = [(0.0755, 0.065), (0.069, 0.043), (0.055, 0.023), (0.035, 0.01), (0, 0.008)]
    mesh = turned(outer + inner, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    stripes = Material(Pattern.STRIPES, (srgb(color), srgb(inside)), 0.024, 0.14, 0.03)
    cavity = Cavity(0.05, 0.05, 0.010 - 0.0325, 0.0325)
    return _spec(label, "bowl", mesh, (stripes, _plain(inside, 0.14)), 0.09, 0.02, cavity=cavity)


def crate(label: str, color: str, inside: str) -> ObjectSpec:
    """An open crate, 28 x 20 x 9.5 cm, without a lid."""
    size, wall = (0.28, 0.20, 0.095), 0.009
    mesh = open_box(size, wall)
    body = Material(Pattern.STRIPES, (srgb(color), srgb(inside)), 0.03, 0.16, 0.04)
    floor = Material(Pattern.PATCHES, (srgb(inside), srgb(color), srgb("d9d4c6")), 0.05, 0.12, 0.03)
    cavity = Cavity(size[0] / 2 - wall, size[1] / 2 - wall, wall - size[2] / 2, size[2] / 2)
    return _spec(label, "crate", mesh, (body, floor), 0.09, 0.02, cavity=cavity)


def _tool(label: str, kind: str, mesh: Mesh, materials: tuple[Material, ...], handle_width_m: float) -> ObjectSpec:
    mesh = mesh.centered()
    grasp = Grasp(np.array([mesh.bounds[0, 0] + 0.055, 0.0, 0.0]), handle_width_m, float(np.radians(42.0)))
    return ObjectSpec(label, kind, mesh, materials, grasp, thin=True)


def spoon(label: str, color: str, head: str) -> ObjectSpec:
    """A cooking spoon, 26 cm long, 9 mm thick; the handle lies towards -x."""
    x = [0.0, 0.006, 0.07, 0.16, 0.19, 0.205, 0.225, 0.245, 0.257, 0.262]
    half = [0.006, 0.009, 0.010, 0.008, 0.009, 0.019, 0.027, 0.024, 0.013, 0.004]
    mesh = lofted(x, half, [0.0] * 10, [0.007] + [0.009] * 8 + [0.006], [0, 0, 0, 0, 1, 1, 1, 1, 1])
    return _tool(label, "spoon", mesh, (_plain(color), _plain(head, 0.2, 0.02)), 0.02)


def spatula(label: str, color: str, head: str) -> ObjectSpec:
    """A spatula, 28 cm long, 10 mm thick."""
    x = [0.0, 0.006, 0.08, 0.15, 0.185, 0.2, 0.27, 0.278, 0.28]
    half = [0.007, 0.010, 0.011, 0.008, 0.010, 0.032, 0.036, 0.033, 0.02]
    mesh = lofted(x, half, [0.0] * 9, [0.010] * 8 + [0.006], [0, 0, 0, 1, 1, 1, 1, 1])
    stripes = Material(Pattern.STRIPES, (srgb(head), srgb(color)), 0.05, 0.2, 0.02)
    return _tool(label, "spatula", mesh, (_plain(color), stripes), 0.021)


def knife(label: str, color: str, blade: str) -> ObjectSpec:
    """A broad kitchen knife for spreading, 24 cm long, 8 mm thick (a blunt one)."""
    x = [0.0, 0.006, 0.06, 0.1, 0.105, 0.16, 0.21, 0.235, 0.24]
    half = [0.009, 0.012, 0.012, 0.011, 0.017, 0.021, 0.02, 0.011, 0.003]
    mesh = lofted(x, half, [0.0] * 9, [0.008] * 8 + [0.006], [0, 0, 0, 1, 1, 1, 1, 1])
    return _tool(label, "knife", mesh, (_plain(color), _plain(blade, 0.2, 0.03)), 0.024)


Maker = Callable[[], ObjectSpec]

# What a scene can draw from, by the part an object plays in the plan.
RELOCATED: tuple[Maker, ...] = (
    lambda: jar("green jar", "2f8f3a", "e9e4d2", "efe9d0"),
    lambda: can("blue can", "1d4fb0", "e7edf5", "1d2f66"),
    lambda: carton("tea box", "1f8a86", "f1d34b", "124f52", (0.075, 0.06, 0.13)),
    lambda: carton("purple carton", "6c35a8", "efe3fa", "a474dd", (0.08, 0.065, 0.11)),
    lambda: jar("orange jar", "e07a18", "30343b", "f7e7c9"),
)
SMALL: tuple[Maker, ...] = (
    lambda: cube("yellow cube", "e8c21a", "202020"),
    lambda: can("spice tin", "c7221f", "f3efe2", "7a1210", 0.026, 0.066),
    lambda: sponge("sponge", "e9cf2f", "1f7a36"),
    lambda: cube("pink cube", "e0569a", "fbeef5", 0.055),
)
TOOLS: tuple[Maker, ...] = (
    lambda: spoon("blue spoon", "1c56c4", "2f74e8"),
    lambda: spatula("black spatula", "17181a", "3a3d42"),
    lambda: knife("butter knife", "b3221b", "cfd6dd"),
)
TARGETS: tuple[Maker, ...] = (
    lambda: bowl("striped bowl", "2b50a8", "eef0ea"),
    lambda: bowl("green bowl", "2d8e57", "e9f0da"),
)
TALL: tuple[Maker, ...] = (
    lambda: bottle("green bottle", "176b3c", "d9b21c", "efe8cf"),
    lambda: bottle("red bottle", "b51d1d", "f0f0f0", "f3e2b0"),
)
STANDING: tuple[Maker, ...] = (
    lambda: carton("cereal box", "d8452b", "f4c430", "fbf3e4", (0.19, 0.062, 0.27)),
    lambda: book("blue book", "23408f", "e5b83b", "7fa3e0"),
    lambda: book("red book", "9c1f2b", "f0dcc2", "d96a52"),
)
CONTAINERS: tuple[Maker, ...] = (
    lambda: crate("teal crate", "1d8c8c", "bfe3de"),
    lambda: crate("orange crate", "d86a1a", "f3d9bd"),
)
LOOK_ALIKES: tuple[tuple[Maker, Maker], ...] = (
    (
        lambda: mug("red mug", "b8231f", "f1ece2", False),
        lambda: mug("red mug with a white spot", "b8231f", "f1ece2", True),
    ),
    (
        lambda: mug("blue mug", "2456b5", "f1ece2", False),
        lambda: mug("blue mug with a white spot", "2456b5", "f1ece2", True),
    ),
)


def reseeded(spec: ObjectSpec, seed: int) -> ObjectSpec:
    """The same object with its own print and grain."""
    materials = tuple(replace(m, seed=seed + 977 * part) for part, m in enumerate(spec.materials))
    return replace(spec, materials=materials)
