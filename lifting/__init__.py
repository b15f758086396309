"""Masks + depth + poses to observations, boxes, 4D trajectories with covariance, relations and events."""

from lifting.config import LiftConfig
from lifting.errors import LiftingError
from lifting.fit_box import BoxFit, fit_box
from lifting.lift import lift
from lifting.records import (
    Event,
    EventKind,
    Lifted,
    MotionState,
    ObjectTrajectory,
    Relation,
    RelationKind,
    SceneSurfaces,
)

__all__ = [
    "BoxFit",
    "Event",
    "EventKind",
    "LiftConfig",
    "Lifted",
    "LiftingError",
    "MotionState",
    "ObjectTrajectory",
    "Relation",
    "RelationKind",
    "SceneSurfaces",
    "fit_box",
    "lift",
]
