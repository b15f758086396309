"""Pure functions (scene, operands) -> value, sigma, margin; a certificate names one and its operands."""

from spatial_qa.operations import egocentric, gaze, metric, motion, order, route, state, static
from spatial_qa.operations.registry import ID_OPERANDS, OPERATIONS, Operation, Unmeasured, measure

__all__ = [
    "ID_OPERANDS",
    "OPERATIONS",
    "Operation",
    "Unmeasured",
    "egocentric",
    "gaze",
    "measure",
    "metric",
    "motion",
    "order",
    "route",
    "state",
    "static",
]
