"""Recordings on their way to other tools: nerfstudio, COLMAP text, TUM, PLY, and this project's own layout.

Every writer is the inverse of a reader here: what is written reads back to the same cameras and poses.
"""

from geo.exporters.colmap import write_colmap
from geo.exporters.nerfstudio import transforms_document, write_nerfstudio
from geo.exporters.plain import write_plain
from geo.exporters.point_file import write_points
from geo.exporters.records import PosedPictures, Similarity, in_world

__all__ = [
    "PosedPictures",
    "Similarity",
    "in_world",
    "transforms_document",
    "write_colmap",
    "write_nerfstudio",
    "write_plain",
    "write_points",
]
