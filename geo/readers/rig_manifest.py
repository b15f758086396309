"""JSON schema of rig.json (docs/formats.md), and what its entries of times mean."""

from typing import Any

import numpy as np
from jaxtyping import Int64

from geo.errors import RecordingError, TimeError
from geo.readers.json_values import rate_of
from geo.readers.rig_pictures import RigPictures
from geo.readers.schema import Schema
from geo.readers.stated_world import WORLD_SCHEMA

_NS = 1_000_000_000
_COUNTED: Schema = {
    "description": "start_ns and rate_hz",
    "type": "object",
    "required": ["start_ns", "rate_hz"],
    "additionalProperties": False,
    "properties": {
        "start_ns": {"type": "integer"},
        "rate_hz": {"type": "number", "exclusiveMinimum": 0},
        "first": {"type": "integer", "description": "number that has the time start_ns (trajectory only)"},
    },
}
_TIMES: list[Schema] = [
    {"description": '"names": whole nanoseconds in the files\' names', "const": "names"},
    {"description": "list of integers", "type": "array", "minItems": 1, "items": {"type": "integer"}},
    _COUNTED,
    {
        "description": "start_ns alone: a video's own times from there on",
        "type": "object",
        "required": ["start_ns"],
        "additionalProperties": False,
        "properties": {"start_ns": {"type": "integer"}},
    },
]
_CAMERA: Schema = {
    "type": "object",
    "required": ["camchain", "timestamps_ns"],
    "additionalProperties": False,
    "properties": {
        "camchain": {"type": "string", "description": "camchain.yaml that holds this camera"},
        "camera": {"type": "string", "description": "its name there, cam0 if not given"},
        "video": {"type": "string"},
        "images": {"type": "string", "description": "printf pattern, e.g. cam0/%06d.png"},
        "first": {"type": "integer", "minimum": 0, "description": "number of the first image (else the smallest)"},
        "step": {"type": "integer", "minimum": 1, "description": "from one image's number to the next, 1"},
        "count": {"type": "integer", "minimum": 1, "description": "how many; else as many as there are"},
        "timestamps_ns": {"anyOf": _TIMES},
        "clock": {"enum": ["camera", "imu"], "description": "whose clock the stamps are of; camera: they are shifted"},
    },
}

RIG_SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "egospatial kalibr rig",
    "type": "object",
    "required": ["format", "reference_camera", "cameras", "trajectory", "world"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": "kalibr_rig/1"},
        "id": {"type": "string", "pattern": r"^[^/\\\x00-\x1f.][^/\\\x00-\x1f]*$"},
        "reference_camera": {"type": "string"},
        "cameras": {"type": "object", "minProperties": 1, "additionalProperties": _CAMERA},
        "trajectory": {
            "type": "object",
            "required": ["file", "format", "body"],
            "additionalProperties": False,
            "properties": {
                "file": {"type": "string"},
                "format": {"enum": ["tum", "euroc", "csv", "g2o"]},
                "body": {"type": "string", "description": "imu, or a camera of this file: whose poses these are"},
                "clock": {"type": "string", "description": "imu (default), or the camera whose clock they are on"},
                "numbers": {"anyOf": [{"description": '"frames"', "const": "frames"}, _COUNTED]},
            },
        },
        "world": WORLD_SCHEMA,
    },
}


def stamps_of(entry: Any, pictures: RigPictures, what: str) -> Int64[np.ndarray, "N"]:
    """Time stamps of a camera's pictures.

    Raises:
        TimeError: as many as there are no pictures, falling, or too large. RecordingError: names without numbers.
    """
    count = len(pictures.frames)
    if entry == "names":
        if pictures.numbers is None:
            raise RecordingError(f'{what}: timestamps_ns = "names" needs images, this camera has a video')
        values = list(pictures.numbers)
    elif isinstance(entry, list):
        values = entry
    elif "rate_hz" in entry:
        if "first" in entry:
            raise RecordingError(f"{what}: timestamps_ns.first is for a trajectory; pictures begin at start_ns")
        step = _NS / rate_of(entry["rate_hz"], what)
        values = [entry["start_ns"] + round(i * step) for i in range(count)]
    elif pictures.video_stamps_ns is not None:
        values = [entry["start_ns"] + stamp for stamp in pictures.video_stamps_ns.tolist()]
    else:
        raise TimeError(f"{what}: timestamps_ns without rate_hz is for videos, which have times of their own")
    if len(values) != count:
        raise TimeError(f"{what} has {count} pictures but {len(values)} time stamps")
    if any(abs(value) >= 2**62 for value in values):
        raise TimeError(f"{what}: a time lies more than 146 years from zero; are these nanoseconds?")
    stamps = np.array(values, dtype=np.int64)
    fall = np.flatnonzero(np.diff(stamps) <= 0)
    if len(fall):
        i = int(fall[0])
        raise TimeError(f"{what}: time does not rise from picture {i} ({stamps[i]} ns) to {i + 1} ({stamps[i + 1]} ns)")
    return stamps
