"""Materials: how a surface looks as a function of where on the body it is. Evaluated by ``shading``."""

import enum
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


class Pattern(enum.IntEnum):
    """Families of procedural texture (solid: functions of body coordinates in metres)."""

    MOTTLED = 0  # one colour with grain at four scales
    PLANKS = 1  # boards along x, each of its own tint, with grain
    TILES = 2  # a grid with joints, each tile of its own tint
    PATCHES = 3  # irregular patches of three colours at two scales: pictures, rugs
    STRIPES = 4  # rings along z
    DOTS = 5  # spots
    LABEL = 6  # a band with print on it


@dataclass(frozen=True)
class Material:
    """A pattern with up to three linear colours; ``scale_m`` is its main period, ``grain`` its contrast."""

    pattern: Pattern
    colors: tuple[tuple[float, float, float], ...]
    scale_m: float = 0.05
    grain: float = 0.25
    grain_scale_m: float = 0.04
    low_m: float = 0.0  # LABEL: the band's lower and upper height in body coordinates
    high_m: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class MaterialTable:
    """Materials as arrays, for the shading kernel."""

    patterns: np.ndarray
    colors: Float[np.ndarray, "M 3 3"]
    numbers: Float[np.ndarray, "M 5"]  # scale, grain, grain scale, low, high
    seeds: np.ndarray


def pack(materials: list[Material]) -> MaterialTable:
    """Materials in this order as arrays."""
    colors = np.zeros((len(materials), 3, 3), dtype=np.float32)
    for row, material in enumerate(materials):
        for column in range(3):
            colors[row, column] = material.colors[min(column, len(material.colors) - 1)]
    numbers = [(m.scale_m, m.grain, m.grain_scale_m, m.low_m, m.high_m) for m in materials]
    return MaterialTable(
        np.array([int(m.pattern) for m in materials], dtype=np.int32),
        colors,
        np.array(numbers, dtype=np.float32),
        np.array([m.seed & 0x7FFFFFFF for m in materials], dtype=np.int64),
    )


def srgb(text: str) -> tuple[float, float, float]:
    """Linear colour of ``rrggbb``."""
    values = np.array([int(text[i : i + 2], 16) for i in (0, 2, 4)]) / 255.0
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear[0]), float(linear[1]), float(linear[2])
