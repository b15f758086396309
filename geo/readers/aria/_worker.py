"""The other side of ``worker.Worker``: a process of its own that holds projectaria_tools and one VRS file.

The library ends the whole process at some damaged files (segmentation fault), and it prints to stdout and stderr. Here
neither reaches the user: this script's stdout and stderr go nowhere, answers go through a copy of stdout that nobody
else knows. It is started by its path, not as a module, so that it imports nothing of the project.

A request is a line of JSON; an answer is 8 bytes (length), JSON of this length, and ``nbytes`` raw bytes.
"""

import json
import os
import sys
from typing import Any

_MEMORY_LIMIT_BYTES = 16 << 30


class _Refused(Exception):
    """What the other side has to be told."""


def _limit_memory() -> None:
    """A damaged length must not ask for all of the machine's memory."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY_LIMIT_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MEMORY_LIMIT_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _image_streams(provider: Any) -> list[dict[str, Any]]:
    """Streams of pictures: id, label, size, and the times in the device clock."""
    from projectaria_tools.core.sensor_data import SensorDataType, TimeDomain

    out = []
    for stream in provider.get_all_streams():
        if provider.get_sensor_data_type(stream) != SensorDataType.IMAGE or not provider.get_num_data(stream):
            continue
        configuration = provider.get_image_configuration(stream)
        out.append(
            {
                "id": str(stream),
                "label": provider.get_label_from_stream_id(stream),
                "size": [int(configuration.image_width), int(configuration.image_height)],
                "timestamps_ns": [int(t) for t in provider.get_timestamps_ns(stream, TimeDomain.DEVICE_TIME)],
            }
        )
    return out


def _calibration(device: Any) -> dict[str, Any] | None:
    """The calibration as the library gives it: at the size of the streams."""
    if device is None:
        return None
    cameras = []
    for label in device.get_camera_labels():
        camera = device.get_camera_calib(label)
        cameras.append(
            {
                "label": label,
                "model": str(camera.get_model_name()).rpartition(".")[2],
                "size": [int(side) for side in camera.get_image_size()],
                "params": [float(value) for value in camera.get_projection_params()],
                "valid_radius": camera.get_valid_radius(),
                "device_from_camera": camera.get_transform_device_camera().to_matrix().tolist(),
            }
        )
    return {
        "subtype": device.get_device_subtype(),
        "cameras": cameras,
        "device_from_cpf": device.get_transform_device_cpf().to_matrix().tolist(),
    }


def _describe(provider: Any, _: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """All that is known without decoding a picture."""
    described = {
        "device": str(provider.get_device_version()).rpartition(".")[2],
        "streams": _image_streams(provider),
        "calibration": _calibration(provider.get_device_calibration()),
        "tags": {key: value for key, value in provider.get_file_tags().items() if len(value) <= 1 << 20},
    }
    return described, b""


def _time_code(provider: Any, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Device times as time code."""
    stamps = [int(provider.convert_from_device_time_to_timecode_ns(t)) for t in request["timestamps_ns"]]
    return {"timestamps_ns": stamps}, b""


def _device_time(provider: Any, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Time code as device times."""
    stamps = [int(provider.convert_from_timecode_to_device_time_ns(t)) for t in request["timestamps_ns"]]
    return {"timestamps_ns": stamps}, b""


def _image(provider: Any, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """One decoded picture as it is stored."""
    from projectaria_tools.core.stream_id import StreamId

    image, record = provider.get_image_data_by_index(StreamId(request["stream"]), request["index"])
    if not image.is_valid():
        raise _Refused("it cannot be decoded")
    pixels = image.to_numpy_array()
    if pixels.dtype.hasobject or pixels.ndim not in (2, 3):
        raise _Refused(f"it decodes to an array of shape {pixels.shape} and type {pixels.dtype}")
    head = {"shape": list(pixels.shape), "dtype": pixels.dtype.str, "timestamp_ns": int(record.capture_timestamp_ns)}
    return head, pixels.tobytes()


_ACTIONS = {"describe": _describe, "time_code": _time_code, "device_time": _device_time, "image": _image}


def _by_design(request: dict[str, Any]) -> dict[str, Any]:
    """Where CPF and cameras are by the design of one build; needs no VRS file."""
    from projectaria_tools.core import calibration

    empty = {
        "DeviceClassInfo": {"BuildVersion": request["build"], "DeviceClass": "Aria"},
        "OriginSpecification": {"ChildLabel": "camera-slam-left", "Type": "Custom"},
        "Serial": "",
        "CameraCalibrations": [],
        "ImuCalibrations": [],
    }
    device = calibration.device_calibration_from_json_string(json.dumps(empty))
    if device is None:
        raise _Refused(f"build {request['build']} is not known")
    labels = ("camera-rgb", "camera-slam-left", "camera-slam-right")
    return {
        "device_from_cpf": device.get_transform_device_cpf().to_matrix().tolist(),
        "cameras": {label: device.get_transform_device_sensor(label, True).to_matrix().tolist() for label in labels},
    }


def _provider(path: str) -> Any:
    from projectaria_tools.core import data_provider

    provider = data_provider.create_vrs_data_provider(path)
    if provider is None:
        raise _Refused("projectaria_tools cannot open it")
    return provider


def main() -> None:
    """Answer requests until the other side closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    _limit_memory()
    provider = None
    for line in sys.stdin.buffer:
        raw = b""
        try:
            request = json.loads(line)
            if request["do"] == "by_design":
                head = _by_design(request)
            else:
                provider = _provider(sys.argv[1]) if provider is None else provider
                head, raw = _ACTIONS[request["do"]](provider, request)
        except Exception as error:  # whatever the library raises becomes the other side's message
            head, raw = (
                {"error": str(error) if isinstance(error, _Refused) else f"{type(error).__name__}: {error}"},
                b"",
            )
        text = json.dumps({**head, "nbytes": len(raw)}).encode()
        answers.write(len(text).to_bytes(8, "little") + text + raw)
        answers.flush()


if __name__ == "__main__":
    main()
