"""Depth from a folder: every format gives the same numbers, every frame its own file, every fault a clear error."""

from dataclasses import replace
from fractions import Fraction

import cv2
import numpy as np
import pytest

from geo.cameras import PinholeCamera
from geo.errors import RecordingError
from recon.depth_sources import DepthKind, DepthPrediction, FolderDepth, FolderLayout
from recon.depth_sources.files import read_depth_file
from recon.errors import ReconError

METRIC = DepthKind.METRIC


def image(seed=0, size_wh=(32, 24)):
    """Whole millimetres, with a NaN, a zero and an infinity in the first row."""
    z = np.random.default_rng(seed).integers(300, 4000, size_wh[::-1]) / 1000.0
    z[0, :3] = [np.nan, 0.0, np.inf]
    return z.astype(np.float32)


def write_exr(path, values, pixel="grayf32le", kind="float", compression="zip16", rename=None):
    import av

    context = av.CodecContext.create("exr", "w")
    context.width, context.height, context.pix_fmt = values.shape[1], values.shape[0], pixel
    context.options, context.time_base = {"compression": compression, "format": kind}, Fraction(1, 1)
    packets = context.encode(av.VideoFrame.from_ndarray(values, format=pixel)) + context.encode(None)
    content = b"".join(bytes(packet) for packet in packets)
    if rename is not None:
        content = content.replace(b"\x00Y\x00", b"\x00" + rename + b"\x00", 1)
    path.write_bytes(content)


def write_png(path, z):
    counts = np.nan_to_num(z * 1000, nan=0, posinf=0).round().astype(np.uint16)
    cv2.imwrite(str(path), counts)


WRITERS = {
    "npy": np.save,
    "npz": lambda path, z: np.savez(path, depth=z),
    "png": write_png,
    "exr": write_exr,
}


@pytest.fixture
def canonical(scene_of):
    """Four frames of 96x72 px without a sensor, 100 ms apart."""
    return scene_of(4, sensor=False).canonical


def open_folder(path, canonical, **layout):
    return FolderDepth(FolderLayout(path, layout.pop("kind", METRIC), **layout), canonical)


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_gives_the_same_metres_and_the_same_nothing(tmp_path, canonical, ending):
    for frame in range(4):
        WRITERS[ending](tmp_path / f"depth_{frame:06d}.{ending}", image(frame, (96, 72)))
    folder = open_folder(tmp_path, canonical, unit_m=0.001 if ending == "png" else None)
    for frame in (2, 0):
        found, wanted = folder.prediction(frame).cleaned(), image(frame, (96, 72))
        assert np.isnan(found[0, :3]).all()
        np.testing.assert_allclose(found[1:], wanted[1:], rtol=1e-6)
    assert folder.missing == 0 and len(folder.input_files) == 4


def test_the_highest_count_of_sixteen_bits_is_none_and_a_unit_scales_floats_too(tmp_path, canonical):
    cv2.imwrite(str(tmp_path / "0.png"), np.full((72, 96), 65535, np.uint16))
    assert np.isnan(open_folder(tmp_path, canonical, unit_m=0.001).prediction(0).cleaned()).all()
    (tmp_path / "0.png").unlink()
    np.save(tmp_path / "0.npy", np.full((1, 72, 96, 1), 1500.0))
    assert (open_folder(tmp_path, canonical, unit_m=0.001).prediction(0).cleaned() == np.float32(1.5)).all()


def test_sigma_beside_the_depth_is_read_in_the_same_unit(tmp_path, canonical):
    np.savez(tmp_path / "0.npz", z_depth=np.full((72, 96), 2000.0), sigma=np.full((72, 96), 30.0))
    found = open_folder(tmp_path, canonical, unit_m=0.001).prediction(0)
    assert found.values[0, 0] == 2.0 and found.sigma[0, 0] == pytest.approx(0.03)


def test_affine_values_are_taken_as_they_are_and_eight_bits_will_do(tmp_path, canonical):
    cv2.imwrite(str(tmp_path / "0.png"), np.full((72, 96), 200, np.uint8))
    found = open_folder(tmp_path, canonical, kind=DepthKind.AFFINE_DISPARITY).prediction(0)
    assert (found.cleaned() == 200).all()
    negative = DepthPrediction(np.array([[-1.0, 0.0, 2.0]]), DepthKind.AFFINE_DEPTH)
    np.testing.assert_array_equal(negative.cleaned(), np.float32([[-1.0, np.nan, 2.0]]))
    assert np.isnan(replace(negative, kind=METRIC).cleaned()[0, :2]).all()


@pytest.mark.parametrize("kind", ["half", "float"])
@pytest.mark.parametrize("compression", ["none", "rle", "zip1", "zip16"])
def test_exr_of_both_kinds_and_any_channel_name_of_one_letter(tmp_path, kind, compression):
    for name in (None, b"Z", b"V"):
        write_exr(tmp_path / "a.exr", image(), kind=kind, compression=compression, rename=name)
        found = read_depth_file(tmp_path / "a.exr").values
        np.testing.assert_allclose(found, image(), rtol=1e-3 if kind == "half" else 1e-7)


def test_exr_with_three_equal_channels_is_read_and_with_a_picture_refused(tmp_path):
    grey = np.repeat(image()[..., None], 3, axis=2)
    write_exr(tmp_path / "a.exr", grey, "gbrpf32le")
    np.testing.assert_array_equal(read_depth_file(tmp_path / "a.exr").values, image())
    write_exr(tmp_path / "a.exr", grey + np.float32([0, 0, 1]), "gbrpf32le")
    with pytest.raises(ReconError, match=r"a\.exr: red, green and blue differ"):
        read_depth_file(tmp_path / "a.exr")


@pytest.mark.parametrize("compression", ["none", "zip1", "zip16"])
def test_an_exr_that_was_cut_off_anywhere_is_an_error_and_never_zeros(tmp_path, compression):
    write_exr(tmp_path / "a.exr", image(), compression=compression)
    content = (tmp_path / "a.exr").read_bytes()
    for share in (0.02, 0.08, 0.15, 0.3, 0.7, 0.999):
        (tmp_path / "a.exr").write_bytes(content[: int(len(content) * share)])
        with pytest.raises(ReconError, match=r"a\.exr: (cut off|no EXR)"):
            read_depth_file(tmp_path / "a.exr")


def patched(content, old, new):
    assert content.count(old) >= 1 and len(old) == len(new)
    return content.replace(old, new, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: b"PK" + c[2:], "no EXR file"),
        (lambda c: c[:5] + b"\x02" + c[6:], "tiles, deep data or several parts"),
        (lambda c: patched(c, b"channels\0", b"chanels_\0"), "no channels"),
        (lambda c: patched(c, b"\0Y\0\2\0\0\0", b"\0Y\0\0\0\0\0"), "unsigned integers"),
    ],
)
def test_an_exr_that_is_something_else_is_refused(tmp_path, change, message):
    write_exr(tmp_path / "a.exr", image())
    (tmp_path / "a.exr").write_bytes(change((tmp_path / "a.exr").read_bytes()))
    with pytest.raises(ReconError, match=message):
        read_depth_file(tmp_path / "a.exr")


def bad_files(folder):
    """Name of a file and what its error says."""
    np.save(folder / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(folder / "cube.npy", np.ones((2, 3, 4)))
    np.save(folder / "text.npy", np.array([["a", "b"]]))
    np.save(folder / "empty.npy", np.ones((0, 4)))
    np.savez(folder / "two.npz", depth=np.ones((2, 2)), disparity=np.ones((2, 2)))
    np.savez(folder / "strange.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    np.savez(folder / "none.npz")
    np.savez(folder / "whole.npz", depth=image())
    (folder / "cut.npz").write_bytes((folder / "whole.npz").read_bytes()[:-200])
    np.save(folder / "whole.npy", image())
    (folder / "cut.npy").write_bytes((folder / "whole.npy").read_bytes()[:-50])
    (folder / "nothing.npy").write_bytes(b"")
    (folder / "archive.npy").write_bytes((folder / "whole.npz").read_bytes())
    (folder / "single.npz").write_bytes((folder / "whole.npy").read_bytes())
    (folder / "notes.txt").write_text("depth")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("object.npy", "cannot be read as npy"),
        ("cube.npy", r"shape \(2, 3, 4\) of float64"),
        ("text.npy", "of <U1; expected one image of numbers"),
        ("empty.npy", r"shape \(0, 4\)"),
        ("two.npz", "holds depth, disparity; expected one array"),
        ("strange.npz", "holds a, b; expected one array named depth or"),
        ("none.npz", "holds no array"),
        ("cut.npz", "cannot be read as npz.*cut off"),
        ("cut.npy", "cannot be read as npy.*cut off"),
        ("nothing.npy", "cannot be read as npy"),
        ("archive.npy", r"call it \.npz"),
        ("single.npz", "cannot be read as npz"),
        ("notes.txt", r"depth files end in \.npz, \.npy, \.png, \.exr, not in '\.txt'"),
        ("absent.npy", "depth file is missing"),
    ],
)
def test_a_file_that_is_no_depth_image_is_named_with_the_reason(tmp_path, name, message):
    bad_files(tmp_path)
    with pytest.raises(ReconError, match=message) as error:
        read_depth_file(tmp_path / name)
    assert name in str(error.value)


def test_a_png_that_is_cut_off_or_in_colour_is_an_error_that_names_it(tmp_path):
    write_png(tmp_path / "a.png", image())
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:-30])
    with pytest.raises(RecordingError, match=r"a\.png"):
        read_depth_file(tmp_path / "a.png")
    cv2.imwrite(str(tmp_path / "b.png"), np.ones((4, 4, 3), np.uint8))
    with pytest.raises(RecordingError, match="3 channels"):
        read_depth_file(tmp_path / "b.png")


def test_whole_numbers_need_a_unit_and_eight_bits_are_no_metric_depth(tmp_path, canonical):
    cv2.imwrite(str(tmp_path / "0.png"), np.full((72, 96), 900, np.uint16))
    with pytest.raises(ReconError, match=r"whole numbers.*folder_unit_m=0\.001"):
        open_folder(tmp_path, canonical).prediction(0)
    cv2.imwrite(str(tmp_path / "0.png"), np.full((72, 96), 90, np.uint8))
    with pytest.raises(ReconError, match="8 bits are a picture"):
        open_folder(tmp_path, canonical, unit_m=0.01).prediction(0)


def fill(folder, names, value=1.0):
    for number, name in enumerate(names):
        np.save(folder / name, np.full((72, 96), value + number))
    return folder


def test_files_belong_to_the_frame_in_their_name_whatever_is_missing(tmp_path, canonical):
    fill(tmp_path, ["z_3.npy", "z_01.npy"])
    (tmp_path / "readme.txt").write_text("not a depth file")
    folder = open_folder(tmp_path, canonical)
    assert [folder.has(frame) for frame in range(4)] == [False, True, False, True] and folder.missing == 2
    assert (folder.prediction(3).values == 1).all() and (folder.prediction(1).values == 2).all()
    with pytest.raises(ReconError, match="no depth file for frame 0"):
        folder.prediction(0)


def test_files_that_count_from_one_are_an_error_until_that_is_said(tmp_path, canonical):
    fill(tmp_path, [f"{n}.npy" for n in (1, 2, 3, 4)])
    with pytest.raises(ReconError, match=r"numbered 1 to 4, frames of room 0 to 3: 4\.npy belongs to none.*first=1"):
        open_folder(tmp_path, canonical)
    folder = open_folder(tmp_path, canonical, first=1)
    assert (folder.prediction(0).values == 1).all() and (folder.prediction(3).values == 4).all()


def test_a_cut_recording_takes_the_files_of_its_own_frames_only(tmp_path, canonical):
    """Frames 10, 12, 14, 16 of a longer recording that has depth for 8 to 16."""
    cut = replace(canonical, source_frames=np.array([10, 12, 14, 16]))
    fill(tmp_path, [f"{n:04d}.npy" for n in range(8, 17)], value=8.0)
    folder = open_folder(tmp_path, cut)
    assert [folder.prediction(frame).values[0, 0] for frame in range(4)] == [10, 12, 14, 16]


def test_files_named_by_time_go_to_the_nearest_frame_within_half_a_step(tmp_path, canonical):
    """Frames at 0, 100, 200, 300 ms: 104 ms belongs to frame 1, 160 ms to frame 2 (40 ms), nothing to frame 3."""
    fill(tmp_path, ["d_104000000.npy", "d_160000000.npy"])
    folder = open_folder(tmp_path, canonical, names="timestamp_ns")
    assert [folder.has(frame) for frame in range(4)] == [False, True, True, False]
    assert folder.prediction(2).values[0, 0] == 2
    near = open_folder(tmp_path, canonical, names="timestamp_ns", tolerance_ms=5.0)
    assert [near.has(frame) for frame in range(4)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("names", "layout", "message"),
    [
        ([], {}, "no file .* one depth image a frame"),
        (["depth.npy"], {}, r"depth\.npy: its name has no number"),
        (["a_1.npy", "b_1.npy"], {}, r"a_1\.npy and b_1\.npy have the same number 1; choose by depth\.folder_pattern"),
        (["900.npy"], {}, "files are numbered 900 to 900, frames of room 0 to 3"),
        (["1718892641002929366.npy"], {}, "timestamp_ns"),
        (["5000000000.npy"], {"names": "timestamp_ns"}, "no file is within 50 ms of a frame"),
        (["0.npy"], {"pattern": "*.exr"}, r"no file '\*\.exr'"),
    ],
)
def test_a_folder_that_does_not_belong_to_the_recording_is_refused(tmp_path, canonical, names, layout, message):
    with pytest.raises(ReconError, match=message):
        open_folder(fill(tmp_path, names), canonical, **layout)


def test_a_missing_folder_and_impossible_layouts_are_refused(tmp_path, canonical):
    with pytest.raises(ReconError, match="no such folder"):
        open_folder(tmp_path / "absent", canonical)
    with pytest.raises(ReconError, match="'time'; use frame or timestamp_ns"):
        FolderLayout(tmp_path, METRIC, names="time")
    for unit in (0.0, -1.0, float("nan")):
        with pytest.raises(ReconError, match="unit of depth files"):
            FolderLayout(tmp_path, METRIC, unit_m=unit)


def test_a_pattern_tells_two_kinds_of_files_apart(tmp_path, canonical):
    fill(tmp_path, ["0.npy", "1.npy"])
    cv2.imwrite(str(tmp_path / "0.png"), np.zeros((4, 4), np.uint8))
    assert open_folder(tmp_path, canonical, pattern="*.npy").missing == 2


PICTURE = PinholeCamera(96, 72, 70.0, 70.0, 47.0, 36.5)


def test_a_resized_prediction_has_the_resized_camera_and_a_stated_one_counts():
    half = DepthPrediction(np.ones((36, 48)), METRIC)
    assert half.camera_for(PICTURE, "it") == PICTURE.resized((48, 36))
    own = PinholeCamera(50, 50, 40.0, 40.0, 24.5, 24.5)
    assert DepthPrediction(np.ones((50, 50)), METRIC, camera=own).camera_for(PICTURE, "it") is own


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (DepthPrediction(np.ones((50, 50)), METRIC), "it is 50x50 px, which is no resized 96x72 picture"),
        (DepthPrediction(np.ones((5, 5)), METRIC, camera=PICTURE), "it is 5x5 px, its stated camera 96x72"),
        (DepthPrediction(np.ones((36, 48)), METRIC, np.ones((3, 3))), r"sigma has shape \(3, 3\)"),
        (DepthPrediction(np.array([["a"]]), METRIC), "expected one image of numbers"),
        (DepthPrediction(np.ones(4), METRIC), r"shape \(4,\)"),
    ],
)
def test_a_prediction_of_another_shape_is_refused(prediction, message):
    with pytest.raises(ReconError, match=message):
        prediction.camera_for(PICTURE, "it")


@pytest.mark.parametrize("ending", WRITERS)
def test_fuzz_a_damaged_file_is_numbers_or_a_clear_error(tmp_path, ending):
    """Bytes changed, cut out, doubled, cut off: an image of numbers or one of our errors, nothing else."""
    path = tmp_path / f"0.{ending}"
    WRITERS[ending](path, image(3, (12, 9)))
    whole, rng = path.read_bytes(), np.random.default_rng(11)
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        start = int(rng.integers(0, len(content)))
        stop = min(len(content), start + int(rng.integers(1, 12)))
        kind = rng.integers(0, 4)
        if kind == 0:
            content[start:stop] = rng.integers(0, 256, stop - start, dtype=np.uint8).tobytes()
        elif kind == 1:
            del content[start:stop]
        elif kind == 2:
            content[start:start] = content[start:stop]
        else:
            del content[start:]
        path.write_bytes(bytes(content))
        try:
            found = read_depth_file(path).values
            assert found.ndim == 2 and found.dtype.kind in "fiu"
        except (ReconError, RecordingError) as error:
            assert path.name in str(error)
            refused += 1
    assert refused > 60
