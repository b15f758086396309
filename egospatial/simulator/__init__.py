"""Recordings with exact truth: ``simulate`` makes them, ``load_truth`` reads what is exact about them."""

from egospatial.simulator.presets import PRESETS, Preset
from egospatial.simulator.recorder import Simulated, simulate
from egospatial.simulator.truth import ARM_ID, HAND_ID, Truth, TruthObject, load_truth

__all__ = ["ARM_ID", "HAND_ID", "PRESETS", "Preset", "Simulated", "Truth", "TruthObject", "load_truth", "simulate"]
