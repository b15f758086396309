"""Aria Digital Twin (ADT): Aria pictures with exact poses, depth, masks, object boxes and gaze.

Gravity is (0, -9.81, 0) in the files; here the world has +z up. Depth is along z per pixel of the fisheye, in
millimetres; depth and masks do not show the wearer's body. 2D boxes stay in the pixels of the pictures as stored.

Source: projectaria_tools, "ADT Data Format".
"""

from geo.readers.adt.images import AdtDepth, Segmentations, open_depth, open_segmentations
from geo.readers.adt.reader import look, read

__all__ = ["AdtDepth", "Segmentations", "look", "open_depth", "open_segmentations", "read"]
