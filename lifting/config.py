"""Settings of lifting, with a unit in every name."""

from dataclasses import dataclass, fields, replace

from lifting.errors import LiftingError


@dataclass(frozen=True)
class LiftConfig:
    """How masks become boxes and trajectories.

    Lengths are metres. In a world without metric scale they are multiplied by the median scene depth (the same
    proportions at arm's length), see ``scaled``.
    """

    min_depth_pixels: int = 12
    """Fewer depth pixels inside a mask than this give no observation."""
    max_points_per_observation: int = 600
    """Points kept of one observation (a seeded random choice beyond it)."""
    few_views: int = 6
    """A thing at rest with fewer good sensor views than this gets a second look with the static model."""
    good_view_coverage: float = 0.4
    """A view is good if the sensor sees this share of the mask."""
    static_looks: int = 8
    """Frames per object for which the static model is rendered then."""
    static_agreement_m: float = 0.02
    """The static render counts for an object only if its median difference to the sensor is below this."""
    depth_sigma_m: float = 0.003
    """Depth noise at the reference distance; grows as sigma + growth * (z - reference)^2."""
    depth_sigma_growth_per_m: float = 0.004
    """Quadratic growth of the depth noise."""
    depth_sigma_reference_m: float = 0.4
    """Distance at which the depth noise is ``depth_sigma_m``."""
    pose_sigma_m: float = 0.002
    """White noise of the given camera positions."""
    pose_sigma_deg: float = 0.1
    """White noise of the given camera orientations."""
    pose_drift_m_per_min: float = 0.01
    """Slow drift of the given camera positions."""
    depth_gap_m: float = 0.02
    """Neighbouring pixels further apart in depth than this (plus 2 % of the depth and 3 sigma) are two surfaces."""
    border_step_m: float = 0.010
    """A mask border pixel is kept if its depth is this close (plus 2.5 sigma) to the mask's interior."""
    fill_reach_m: float = 0.03
    """Mask pixels without depth this close to the object's measured surface get the depth of its plane."""
    fill_max_step_m: float = 0.02
    """Such a depth differs from its neighbours' mean by at most this."""
    voxel_m: float = 0.006
    """Side of the voxels in which the points of several views agree."""
    max_alignment_m: float = 0.04
    """Views of a rest are shifted onto each other by at most this (pose errors)."""
    stray_reach_m: float = 0.04
    """Strays this close to where most views agree are told by how few views have them."""
    rest_tolerance_m: float = 0.015
    """Points this far (plus 2 sigma and drift) from the resting model do not belong to it."""
    see_through_m: float = 0.02
    """Depth this far (plus 2.5 sigma) behind the resting model says that the model's place is empty."""
    moved_fraction: float = 0.4
    """An object left its place if this share of its surface is gone and this share of what is seen is elsewhere."""
    still_fraction: float = 0.25
    """It lies still again once both shares stay below this (hysteresis)."""
    confirm_frames: int = 2
    """Observations in a row that have to say 'moved' before it is believed."""
    dwell_s: float = 0.4
    """An object lies still only after this long without motion."""
    rest_speed_m_s: float = 0.04
    """Faster than this over the dwell is not rest."""
    min_move_m: float = 0.04
    """Two rests closer than this with nothing seen further away in between are one rest."""
    hand_near_m: float = 0.12
    """A hand joint this close to an object's VISIBLE points may hold it (the grip itself is hidden by the hand)."""
    hand_far_m: float = 0.18
    """A hand further away than this holds nothing; in between nothing is said."""
    hover_gap_m: float = 0.04
    """A short rest further than this above everything below it is a pause in the hand."""
    hover_max_s: float = 3.0
    """Longer pauses in the air are taken as rest (hooks, walls)."""
    support_gap_m: float = 0.03
    """A box reaches down to a surface that is at most this far below it."""
    support_overlap: float = 0.3
    """Share of the footprint that must lie over what supports it."""
    surface_cell_m: float = 0.03
    """Cell of the grid in which horizontal surfaces are collected."""
    surface_bin_m: float = 0.01
    """Height step in which horizontal surfaces are collected."""
    surface_min_area_m2: float = 0.03
    """Smaller horizontal patches are not surfaces."""
    floor_min_area_m2: float = 0.3
    """The floor has at least this area."""
    floor_below_camera_m: float = 0.8
    """The floor is at least this far below the wearer's camera."""
    surface_frames: int = 24
    """Frames from which surfaces are collected."""
    surface_static_frames: int = 6
    """Of these, frames in which the static model fills what the sensor does not see."""
    box_quantile: float = 0.01
    """Share of points cut off at either end of an axis (from 100 points on)."""
    min_extent_m: float = 0.004
    """No side of a box of an observed object is thinner than this."""
    accel_sigma_m_s2: float = 3.0
    """Acceleration of carried objects, for smoothing."""
    max_gap_s: float = 0.5
    """A moving object that is unseen for longer than this is nowhere."""
    event_max_gap_s: float = 2.0
    """Pick-ups and put-downs whose time is less certain than this are not reported."""
    event_hand_gap_s: float = 0.35
    """Where the object was not seen for longer than this around a pick-up or put-down, the hand tells the moment."""
    hand_arrival_m: float = 0.03
    """A hand is at a place once it is this close to the closest that it comes."""
    containment_enter: float = 0.8
    """Share of a box inside another's interior at which containment begins."""
    containment_leave: float = 0.5
    """Share below which containment ends."""
    containment_min_s: float = 1.0
    """Shorter stays inside are not containment."""
    wall_m: float = 0.008
    """Wall thickness assumed for containers."""
    contact_m: float = 0.02
    """Surface distance (plus sigma) below which two objects touch."""

    def __post_init__(self) -> None:
        """Refuse values that cannot work.

        Raises:
            LiftingError: a negative or non-finite setting, or hysteresis the wrong way round.
        """
        for item in fields(self):
            value = getattr(self, item.name)
            if not 0 <= value < float("inf"):
                raise LiftingError(f"LiftConfig.{item.name} is {value}; expected a finite number >= 0")
        if self.still_fraction > self.moved_fraction:
            raise LiftingError(
                f"LiftConfig.still_fraction {self.still_fraction} exceeds moved_fraction {self.moved_fraction}; "
                "hysteresis needs still_fraction <= moved_fraction"
            )
        if self.containment_leave > self.containment_enter:
            raise LiftingError("LiftConfig.containment_leave exceeds containment_enter; hysteresis needs it below")

    def scaled(self, units_per_m: float) -> "LiftConfig":
        """The same settings for a world in which one metre is ``units_per_m`` units (1: unchanged)."""
        if units_per_m == 1.0:
            return self
        power = {"_m": 1, "_m_s": 1, "_m_per_min": 1, "_m_s2": 1, "_per_m": -1, "_m2": 2}
        changes = {}
        for item in fields(self):
            for suffix in sorted(power, key=len, reverse=True):
                if item.name.endswith(suffix):
                    changes[item.name] = getattr(self, item.name) * units_per_m ** power[suffix]
                    break
        return replace(self, **changes)

    def depth_noise_m(self, z_m: float) -> float:
        """Standard deviation of one depth pixel at a distance."""
        off = max(0.0, z_m - self.depth_sigma_reference_m)
        return self.depth_sigma_m + self.depth_sigma_growth_per_m * off * off
