"""HOMIE / Xperience-10M episodes: ``annotation.hdf5`` beside six videos (docs/formats.md)."""

from geo.readers.xperience.body import BodyTrack, ImuTrack, read_body, read_ground_height, read_imu
from geo.readers.xperience.calibration import CAMERA_NAMES, Fisheye, XperienceRig, read_rig
from geo.readers.xperience.captions import CaptionAction, Captions, CaptionSegment, FrameNames, read_captions
from geo.readers.xperience.episode import look, read

__all__ = [
    "BodyTrack",
    "CAMERA_NAMES",
    "CaptionAction",
    "CaptionSegment",
    "Captions",
    "Fisheye",
    "FrameNames",
    "ImuTrack",
    "XperienceRig",
    "look",
    "read",
    "read_body",
    "read_captions",
    "read_ground_height",
    "read_imu",
    "read_rig",
]
