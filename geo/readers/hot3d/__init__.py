"""HOT3D sequences (Aria and Quest 3): exact poses of headset, objects and wrists, with pictures where the VRS file is.

Pictures are upright: both headsets store them on their side. The clock is the data set's own, time code for Aria; MPS
tables (device time) are brought to it. The world of an Aria sequence is MPS' own, whose gravity is known; that of a
Quest 3 sequence says nothing of gravity. 2D boxes stay in the pixels of the pictures as stored.

Source: facebookresearch/hot3d, data loaders.
"""

from geo.readers.hot3d.hands import HandPoses, read_hand_poses
from geo.readers.hot3d.reader import look, read

__all__ = ["HandPoses", "look", "read", "read_hand_poses"]
