"""Records of lifting: observations, 4D trajectories with uncertainty, relations and events."""

import enum
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from recon.records import MovingDepth


class MotionState(enum.IntEnum):
    """State of an object in a frame."""

    UNSEEN = 0  # never seen yet, or its place cannot be known
    REST = 1  # lies still (seen, or kept while out of view)
    MOVING = 2  # moves, nobody known to hold it
    HELD = 3  # moves with, or is gripped by, a hand


@dataclass(frozen=True)
class ObjectTrajectory:
    """One object's box through time, in world.

    Unknown values are NaN. ``extent_m`` is one per object (rigid), full lengths (l, w, h) along the box's axes;
    with known or estimated gravity the box's z axis is up. ``observed`` False = kept or interpolated.
    """

    object_id: int
    label: str
    timestamps_ns: Int64[np.ndarray, "N"]
    states: Int64[np.ndarray, "N"]
    centers_in_world: Float[np.ndarray, "N 3"]
    center_covariances_m2: Float[np.ndarray, "N 3 3"]
    quats_wxyz: Float[np.ndarray, "N 4"]  # world_from_box
    extent_m: Float[np.ndarray, "3"]
    extent_sigma_m: Float[np.ndarray, "3"]
    observed: Bool[np.ndarray, "N"]
    visible_pixels: Int64[np.ndarray, "N"]  # mask area in canonical pixels, 0 where not visible
    view_count: int  # observations that the extent rests on
    notes: tuple[str, ...] = ()


class EventKind(enum.StrEnum):
    """What can happen to an object."""

    PICK_UP = "pick_up"
    PUT_DOWN = "put_down"
    PUT_INTO = "put_into"
    TAKE_OUT = "take_out"


@dataclass(frozen=True)
class Event:
    """One entry of the event log. ``time_ns`` is the moment that it turns on (lift-off, touch-down)."""

    kind: EventKind
    object_id: int
    time_ns: int
    time_sigma_ns: int
    place_in_world: Float[np.ndarray, "3"]
    confidence: float
    other_object_id: int | None = None  # container or support that is itself a tracked object


class RelationKind(enum.StrEnum):
    """Lasting relations between an object and a support, a container or a toucher."""

    SUPPORT = "support"
    CONTAINMENT = "containment"
    CONTACT = "contact"


@dataclass(frozen=True)
class Relation:
    """``subject`` is supported by / contained in / in contact with ``other`` during [start, end].

    ``other_object_id`` None: a surface of the static scene; ``surface_height_m`` then says which.
    """

    kind: RelationKind
    subject_object_id: int
    other_object_id: int | None
    start_ns: int
    end_ns: int
    confidence: float
    surface_height_m: float = float("nan")


@dataclass(frozen=True)
class SceneSurfaces:
    """Large horizontal surfaces of the static scene; the lowest big one is the floor, if it was seen."""

    heights_m: Float[np.ndarray, "S"]
    areas_m2: Float[np.ndarray, "S"]
    floor_height_m: float  # NaN if not seen or gravity unknown
    floor_residual_m: float


@dataclass(frozen=True)
class Lifted:
    """What lifting hands on."""

    trajectories: tuple[ObjectTrajectory, ...]
    events: tuple[Event, ...]
    relations: tuple[Relation, ...]
    surfaces: SceneSurfaces
    moving_depth: MovingDepth | None = None
    warnings: tuple[str, ...] = ()
