"""COLMAP models, text and binary, as recordings: see docs/formats.md.

Poses are camera_from_world with the quaternion w first (FIELD P1); names decide, ids are no order (FIELD P7). The scale
is arbitrary and up unknown unless ``colmap.json`` says otherwise. ``rigs`` and ``frames`` of newer versions repeat what
the images say and are not read.
"""

from geo.readers.colmap.folder import MANIFEST, NOMINAL_RATE_HZ, look
from geo.readers.colmap.reader import read, read_model
from geo.readers.colmap.records import ColmapPoints, SparseModel

__all__ = ["MANIFEST", "NOMINAL_RATE_HZ", "ColmapPoints", "SparseModel", "look", "read", "read_model"]
