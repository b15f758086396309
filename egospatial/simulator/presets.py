"""The simulator's presets; acceptance runs use them unchanged (docs/simulator.md)."""

from dataclasses import dataclass, field

from egospatial.errors import FrontDoorError

KB4_COEFFICIENTS = (0.021, -0.0045, 0.0008, -0.0001)


@dataclass(frozen=True)
class Preset:
    """One preset. ``scene`` names the plan: presets of the same scene share it for a seed, to the last digit."""

    name: str
    scene: str
    duration_s: float
    fisheye_size_px: int
    fisheye_focal_px_per_rad: float
    depth_size_wh_px: tuple[int, int]
    depth_focal_px: float
    canonical_size_px: int
    stored_depth_width_px: int
    exact: bool = False  # no noise of any kind, poses and depth exact
    rate_hz: int = 10
    valid_theta_deg: float = 95.0
    depth_offset_m: float = 0.03
    start_ns: int = 5_200_000_000
    kb4: tuple[float, float, float, float] = field(default=KB4_COEFFICIENTS)

    @property
    def frame_count(self) -> int:
        """Frames of the reference camera."""
        return round(self.duration_s * self.rate_hz)


def _full_size(name: str, scene: str, duration_s: float, exact: bool = False) -> Preset:
    return Preset(name, scene, duration_s, 800, 300.0, (384, 288), 238.0, 1024, 512, exact)


PRESETS: dict[str, Preset] = {
    "standard": _full_size("standard", "standard", 60.0),
    "demo": _full_size("demo", "demo", 20.0),
    "small": Preset("small", "small", 6.0, 320, 120.0, (192, 144), 119.0, 192, 192),
    "truth": _full_size("truth", "standard", 60.0, exact=True),
}


def preset_by_name(name: str) -> Preset:
    """The preset of this name.

    Raises:
        FrontDoorError: unknown name.
    """
    if name not in PRESETS:
        raise FrontDoorError(f"no simulator preset {name!r}; there are: {', '.join(PRESETS)}")
    return PRESETS[name]
