"""Poses of a recording that has none: structure from motion over its own pictures (needs pycolmap, see docs/poses.md)."""

from geo.sfm.config import PosesConfig
from geo.sfm.records import EstimatedPoses, PosesReport

__all__ = ["EstimatedPoses", "PosesConfig", "PosesReport"]
