"""Poses of a recording that has none: structure from motion over its pictures (needs pycolmap; docs/poses.md)."""

from geo.sfm.config import PosesConfig
from geo.sfm.records import EstimatedPoses, PosesReport

__all__ = ["EstimatedPoses", "PosesConfig", "PosesReport"]
