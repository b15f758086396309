"""JSON Schema of ``recording.json`` in the plain layout (docs/formats.md prints it; a test keeps them equal)."""

from typing import Any

from geo.readers.stated_world import WORLD_SCHEMA

_MATRIX = {
    "type": "array",
    "minItems": 4,
    "maxItems": 4,
    "items": {"type": "array", "minItems": 4, "maxItems": 4, "items": {"type": "number"}},
}
_STAMPS = {
    "anyOf": [
        {
            "description": "list of integer nanoseconds",
            "type": "array",
            "minItems": 1,
            "items": {"type": "integer"},
        },
        {
            "description": "start_ns and rate_hz",
            "type": "object",
            "required": ["start_ns", "rate_hz"],
            "additionalProperties": False,
            "properties": {
                "start_ns": {"type": "integer"},
                "rate_hz": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 100000},
            },
        },
    ]
}
_DEPTH = {
    "type": "object",
    "required": ["unit_m", "kind"],
    "additionalProperties": False,
    "properties": {
        "file": {"type": "string", "description": "HDF5 file; needs `dataset` [frames, H, W]"},
        "dataset": {"type": "string"},
        "images": {"type": "string", "description": "printf pattern of one-channel images"},
        "first": {"type": "integer", "minimum": 0, "description": "number of the first image"},
        "unit_m": {"type": "number", "exclusiveMinimum": 0, "description": "metres of one raw count"},
        "kind": {"enum": ["z", "ray"], "description": "along the optical axis, or along the pixel's ray"},
        "invalid": {
            "anyOf": [
                {"description": "a raw value", "type": "number"},
                {"description": "list of raw values", "type": "array", "items": {"type": "number"}},
            ]
        },
        "max_depth_m": {"type": "number", "exclusiveMinimum": 0, "default": 20},
    },
}
_CAMERA = {
    "type": "object",
    "required": ["model", "width", "height", "params", "timestamps_ns"],
    "additionalProperties": False,
    "properties": {
        "model": {"type": "string", "description": "name of a camera model; see docs/conventions.md"},
        "width": {"type": "integer", "minimum": 1},
        "height": {"type": "integer", "minimum": 1},
        "params": {"type": "array", "minItems": 1, "items": {"type": "number"}},
        "valid_theta_deg": {
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "description": "largest angle from the optical axis that the calibration covers",
        },
        "reference_from_camera": {
            "anyOf": [
                {"description": "4x4 matrix", **_MATRIX},
                {"description": "null (identity)", "type": "null"},
            ]
        },
        "rolling_shutter_s": {"type": "number", "minimum": 0, "description": "first to last row; 0 = global"},
        "calibration_of": {
            "enum": ["shown"],
            "description": "says that the calibration is for the frames as a rotation tag shows them",
        },
        "video": {"type": "string"},
        "images": {"type": "string", "description": "printf pattern, e.g. rgb/%06d.jpg"},
        "first": {"type": "integer", "minimum": 0, "description": "number of the first image"},
        "depth": _DEPTH,
        "timestamps_ns": _STAMPS,
    },
}
PLAIN_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "egospatial/1 recording",
    "type": "object",
    "required": ["format", "id", "reference_camera", "world", "cameras"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": "egospatial/1"},
        "id": {"type": "string", "pattern": r"^[^/\\\x00-\x1f.][^/\\\x00-\x1f]*$"},
        "reference_camera": {"type": "string", "description": "the camera that trajectory.csv and gaze.csv speak of"},
        "world": WORLD_SCHEMA,
        "cameras": {"type": "object", "minProperties": 1, "additionalProperties": _CAMERA},
        "source": {"description": "where the recording comes from; free"},
        "notes": {"description": "free"},
    },
}
