"""Project Aria recordings: a VRS file with pictures and factory calibration, and the tables of MPS.

Pictures are turned upright, cameras and extrinsics with them; the reference frame of the recording is the device
(``reference_from_camera`` of a stream is device_from_camera). Times are those of the device clock.
"""

from geo.readers.aria.reader import look, read

__all__ = ["look", "read"]
