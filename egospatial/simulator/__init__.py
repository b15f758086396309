"""Recordings with exact truth: ``simulate`` makes them, ``load_truth`` reads what is exact about them."""

from egospatial.simulator.truth import ARM_ID, HAND_ID, Truth, TruthObject, load_truth

__all__ = ["ARM_ID", "HAND_ID", "Truth", "TruthObject", "load_truth"]
