"""Depth that comes with a recording or from the user's own network: metric, or affine and aligned per frame."""

from recon.depth_sources.align import AlignRules, Anchors, point_anchors
from recon.depth_sources.as_sensor import with_provided_sensor
from recon.depth_sources.fill import Aligned, ProvidedDepth, aligned, fill_frame
from recon.depth_sources.folder import FolderDepth, FolderLayout
from recon.depth_sources.network import NetworkDepth
from recon.depth_sources.records import DepthKind, DepthPrediction, DepthProvider, FrameDepth

__all__ = [
    "AlignRules",
    "Aligned",
    "Anchors",
    "DepthKind",
    "DepthPrediction",
    "DepthProvider",
    "FolderDepth",
    "FolderLayout",
    "FrameDepth",
    "NetworkDepth",
    "ProvidedDepth",
    "aligned",
    "fill_frame",
    "point_anchors",
    "with_provided_sensor",
]
