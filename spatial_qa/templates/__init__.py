"""Templates of the catalogue, one module per group; importing this package registers them all."""

from spatial_qa.templates import egocentric, gaze, metric, motion, order, route, state, static
from spatial_qa.templates.base import TEMPLATES, Candidate, Limits, Stage, Template

__all__ = [
    "TEMPLATES",
    "Candidate",
    "Limits",
    "Stage",
    "Template",
    "egocentric",
    "gaze",
    "metric",
    "motion",
    "order",
    "route",
    "state",
    "static",
]
