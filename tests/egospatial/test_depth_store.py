"""Depth as it is stored: exact to the stated share at any distance, one version back readable, the rest refused."""

import dataclasses
import math
from pathlib import Path

import frontdoor_makers as make
import h5py
import hdf5plugin
import numpy as np
import pytest

from egospatial.errors import StoreError
from egospatial.store import depth_segments, geometry_file, hdf5, trajectories_file
from egospatial.store.depth_coding import DepthCoding, left_differences, linear_counts, undo_left_differences
from egospatial.store.depth_group import linear_unit
from recon.records import AlignmentOutcome, DepthAlignment, DepthFrame

SMALL = make.camera().resized((20, 15))


def frame_of(z, sigma=0.01, origin=1):
    z = np.asarray(z, dtype=np.float32)
    return DepthFrame(z, np.full(z.shape, sigma, np.float32), np.full(z.shape, origin, np.uint8))


def round_trip(frame, coding=None):
    coding = coding or DepthCoding()
    encoded = coding.encode(frame)
    return coding.decode(encoded.z_depth, encoded.sigma, encoded.origin)


def test_the_relative_error_is_the_same_near_and_far():
    """Half a step of 2^-12: exp(2^-13) - 1 = 0.01221 %, plus float32's 6e-8; reached, so the bound is not slack."""
    z = np.geomspace(2e-4, 800.0, 40_000).reshape(100, 400)
    back = round_trip(frame_of(z)).z_depth_m
    error = np.abs(back.astype(np.float64) / z.astype(np.float32) - 1)
    assert error.max() <= math.exp(2**-13) - 1 + 1.3e-7
    for part in np.array_split(error.ravel(), 10):
        assert part.max() > 1.2e-4


def test_every_code_is_decoded_to_a_depth_that_gets_the_same_code():
    codes = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    zero = np.zeros(codes.shape, np.uint8)
    frame = DepthCoding().decode(left_differences(codes), zero, zero)
    assert np.isnan(frame.z_depth_m[0, 0]) and np.isfinite(frame.z_depth_m.ravel()[1:]).all()
    assert frame.z_depth_m[0, 1] == np.float32(1e-4)
    np.testing.assert_array_equal(undo_left_differences(DepthCoding().encode(frame).z_depth), codes)


def test_differences_by_hand():
    """100, 101, 99, 0: differences 100, 1, -2, -99; zigzag doubles and maps -n to 2n - 1: 200, 2, 3, 197."""
    codes = np.array([[100, 101, 99, 0]], dtype=np.uint16)
    np.testing.assert_array_equal(left_differences(codes), [[200, 2, 3, 197]])
    np.testing.assert_array_equal(undo_left_differences(left_differences(codes)), codes)


def test_differences_and_back_is_identity_for_any_codes():
    codes = np.random.default_rng(0).integers(0, 65536, (50, 64)).astype(np.uint16)
    codes[0, :4] = [0, 65535, 0, 32768]
    np.testing.assert_array_equal(undo_left_differences(left_differences(codes)), codes)
    assert left_differences(codes[:, :0]).shape == (50, 0)


def test_sigma_comes_back_within_five_percent_and_unknown_stays_unknown():
    sigma = np.geomspace(2e-5, 100.0, 300).astype(np.float32).reshape(3, 100)
    sigma[0, 0], sigma[0, 1] = np.nan, 0.0
    back = round_trip(DepthFrame(np.full((3, 100), 2.0, np.float32), sigma, np.ones((3, 100), np.uint8))).sigma_m
    assert np.isnan(back[0, :2]).all()
    known = back.ravel()[2:] / sigma.ravel()[2:]
    assert np.abs(np.log(known)).max() <= 0.05 + 1e-6


def test_sigma_beyond_the_scale_takes_its_end():
    z = np.full((1, 2), 1.0)
    frame = DepthFrame(z.astype(np.float32), np.array([[1e-9, 1e30]], np.float32), np.ones((1, 2), np.uint8))
    back = round_trip(frame).sigma_m
    assert back[0, 0] == np.float32(1e-5) and back[0, 1] == pytest.approx(1e-5 * math.exp(25.4), rel=1e-6)


@pytest.mark.parametrize("nothing", [np.nan, np.inf, -np.inf, 0.0, -1.0])
def test_nothing_is_none_with_no_sigma_and_no_origin(nothing):
    encoded = DepthCoding().encode(frame_of([[nothing, 1.0]]))
    assert (encoded.sigma[0, 0], encoded.origin[0, 0], encoded.out_of_reach) == (0, 0, 0)
    back = round_trip(frame_of([[nothing, 1.0]]))
    assert np.isnan(back.z_depth_m[0, 0]) and np.isnan(back.sigma_m[0, 0]) and back.origin[0, 0] == 0
    assert np.isfinite(back.z_depth_m[0, 1])


def test_depth_out_of_reach_is_none_and_counted():
    encoded = DepthCoding().encode(frame_of([[1e-5, 1.0, 900.0]]))
    assert encoded.out_of_reach == 2 and encoded.largest_z == 1.0
    assert list(encoded.origin[0]) == [0, 1, 0]


def test_a_scene_in_another_unit_has_the_same_relative_error():
    scaled = DepthCoding().scaled(1024.0)
    z = np.geomspace(1.0, 9e5, 1000).reshape(10, 100)
    assert np.abs(round_trip(frame_of(z, sigma=5.0), scaled).z_depth_m / z.astype(np.float32) - 1).max() < 1.23e-4
    assert scaled.farthest == pytest.approx(1024 * DepthCoding().farthest)


def test_a_coding_that_cannot_be_is_refused():
    with pytest.raises(StoreError, match="z_step is 0"):
        DepthCoding(z_step=0.0)
    with pytest.raises(StoreError, match="first_sigma is nan"):
        DepthCoding(first_sigma=float("nan"))


def write(folder: Path, frames, coding=None, per_segment=4):
    geometry_file.write_frames(folder, make.canonical(len(frames)))
    produce = lambda numbers: (frames[n] for n in numbers)  # noqa: E731
    return depth_segments.write_depth(folder, SMALL, len(frames), produce, "key", coding, per_segment)


def test_the_file_is_read_with_h5py_alone_as_the_docs_say(tmp_path):
    frames = [make.depth_frame(n) for n in range(6)]
    write(tmp_path, frames)
    with h5py.File(tmp_path / "geometry.h5", "r") as file:
        depth = file["depth"]
        stored, a = depth["z_depth"][3], depth.attrs
        code = np.cumsum((stored >> 1) ^ (0 - (stored & 1)), axis=1, dtype=np.uint16)
        z = np.where(code > 0, a["first_z"] * np.exp((code - 1.0) * a["z_step"]), np.nan)
        sigma = a["first_sigma"] * np.exp((depth["sigma"][3] - 1.0) * a["sigma_step"])
        assert depth["z_depth"].chunks == (1, 15, 20) and a["schema"] == "egospatial.depth/2"
    np.testing.assert_allclose(z, frames[3].z_depth_m, rtol=1.23e-4)
    np.testing.assert_allclose(sigma[np.isfinite(z)], 0.01, rtol=0.052)
    assert hdf5plugin.FILTERS["zstd"] == 32015


def test_an_empty_recording_and_frames_without_any_depth(tmp_path):
    nothing = frame_of(np.full((15, 20), np.nan))
    write(tmp_path, [nothing] * 3)
    reader = geometry_file.DepthReader(tmp_path)
    assert np.isnan(reader.read(1).z_depth_m).all() and reader.unit_m == 0.0005 and reader.provided is None
    assert geometry_file.depth_is_as_written(tmp_path)


def test_the_first_version_of_stored_depth_is_still_read(tmp_path):
    """uint16 in steps of ``unit_m``, sigma as float16, no schema of its own: 3000 * 0.0005 = 1.5 m."""
    geometry_file.write_frames(tmp_path, make.canonical(3))
    with h5py.File(tmp_path / "geometry.h5", "r+") as file:
        group = file.create_group("depth")
        stored = np.full((3, 15, 20), 3000, np.uint16)
        stored[0, 0, 0] = 0
        options = {"chunks": (1, 15, 20), "compression": "gzip", "shuffle": True}
        group.create_dataset("z_depth", data=stored, **options)
        group.create_dataset("sigma", data=np.full(stored.shape, 0.25, np.float16), **options)
        group.create_dataset("origin", data=np.full(stored.shape, 2, np.uint8), **options)
        group["camera_matrix"] = SMALL.matrix
        group.attrs["unit_m"] = 0.0005
        group.attrs["content_sha256"] = "0"
    reader = geometry_file.DepthReader(tmp_path)
    frame = reader.read(0)
    assert (
        frame.z_depth_m[1, 1] == pytest.approx(1.5, rel=1e-6)
        and frame.sigma_m[1, 1] == 0.25
        and frame.origin[1, 1] == 2
    )
    assert np.isnan(frame.z_depth_m[0, 0]) and np.isnan(frame.sigma_m[0, 0])
    assert reader.unit_m == 0.0005 and reader.camera == SMALL
    assert geometry_file.depth_digest(tmp_path) == "0"


def test_depth_of_a_later_version_is_refused_by_name(tmp_path):
    write(tmp_path, [make.depth_frame(0)] * 3)
    with h5py.File(tmp_path / "geometry.h5", "r+") as file:
        file["depth"].attrs["schema"] = "egospatial.depth/3"
    for read in (geometry_file.DepthReader, geometry_file.depth_digest, geometry_file.depth_is_as_written):
        with pytest.raises(StoreError, match=r"egospatial\.depth/3.*run the depth stage again"):
            read(tmp_path)
    assert len(geometry_file.read_frames(tmp_path).timestamps_ns) == 3, "poses do not depend on it"


def test_a_damaged_chunk_is_an_error_and_told_from_a_whole_one(tmp_path):
    write(tmp_path, [make.depth_frame(n) for n in range(3)])
    with h5py.File(tmp_path / "geometry.h5", "r") as file:
        info = file["depth/z_depth"].id.get_chunk_info(1)
    with (tmp_path / "geometry.h5").open("r+b") as file:
        file.seek(info.byte_offset)
        file.write(bytes(min(16, info.size)))
    assert not geometry_file.depth_is_as_written(tmp_path)
    with pytest.raises(StoreError, match=r"geometry\.h5: damaged"):
        geometry_file.DepthReader(tmp_path).read(1)
    assert np.isfinite(geometry_file.DepthReader(tmp_path).read(2).z_depth_m).any()


def test_frames_of_another_size_or_number_are_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(StoreError, match=r"3 depth frames of 20x15 px, got frame 2 of shape \(3, 3\)"):
        write(tmp_path / "size", [make.depth_frame(0), frame_of(np.ones((3, 3))), make.depth_frame(0)])
    geometry_file.write_frames(tmp_path / "few", make.canonical(3))
    for produced, found in (([make.depth_frame(0)], "got only 1"), ([make.depth_frame(0)] * 4, "got frame 4")):
        with pytest.raises(StoreError, match=found):
            depth_segments.write_depth(tmp_path / "few", SMALL, 3, lambda numbers, p=produced: iter(p), "key")
    with pytest.raises(StoreError, match="no depth yet"):
        geometry_file.DepthReader(tmp_path / "few")


def test_segments_of_another_coding_are_made_again(tmp_path):
    geometry_file.write_frames(tmp_path, make.canonical(4))
    made = []

    def produce(frames, stop=99):
        for frame in frames:
            if frame == stop:
                raise KeyboardInterrupt
            made.append(frame)
            yield make.depth_frame(frame)

    with pytest.raises(KeyboardInterrupt):
        depth_segments.write_depth(tmp_path, SMALL, 4, lambda n: produce(n, 2), "key", None, 2)
    depth_segments.write_depth(tmp_path, SMALL, 4, produce, "key", DepthCoding().scaled(2.0), 2)
    assert made == [0, 1, 0, 1, 2, 3]


def test_how_provided_depth_fitted_is_stored_per_frame_over_segments(tmp_path):
    used = DepthAlignment(AlignmentOutcome.USED, 0.5, -0.25, 0.015, 321)
    refused = DepthAlignment(AlignmentOutcome.TOO_FEW_ANCHORS, anchors=7)
    frames = [make.depth_frame(n) for n in range(5)]
    frames[1] = dataclasses.replace(frames[1], alignment=refused)
    frames[4] = dataclasses.replace(frames[4], alignment=used)
    write(tmp_path, frames, per_segment=2)
    table = geometry_file.DepthReader(tmp_path).provided
    assert table.outcome.tolist() == [0, 3, 0, 0, 1] and table.anchors.tolist() == [0, 7, 0, 0, 321]
    assert (table.scale[4], table.shift[4], table.residual[4]) == (0.5, -0.25, 0.015)
    assert np.isnan(table.residual[:4]).all()
    assert table.counts()[AlignmentOutcome.USED] == 1
    assert geometry_file.depth_is_as_written(tmp_path)


def test_images_of_sixteen_bits_hold_all_depth_in_a_step_that_suits():
    """Metres to 32.7 m: half a millimetre. 0.01 units: 2^-22 (0.0156 / 65536); 100 units: 2^-9 (65535 / 512 = 128)."""
    assert linear_unit(5.0) == 0.0005 and linear_unit(32.7) == 0.0005
    assert linear_unit(0.01) == 2.0**-22 and linear_unit(100.0) == 2.0**-9
    counts, too_deep = linear_counts(frame_of([[1.0, np.nan, 40.0, 1e-5]]), 0.0005)
    assert counts.tolist() == [[2000, 0, 0, 0]] and too_deep == 1


def test_moving_depth_of_some_frames_is_that_of_all_cut_down(tmp_path):
    trajectories_file.write(tmp_path, make.lifted())
    whole = trajectories_file.read(tmp_path).moving_depth
    part = trajectories_file.read_moving(tmp_path, 3, 6)
    assert part.frames.tolist() == [3] and part.object_ids.tolist() == [3] and part.pixels_vu[0].shape == (0, 2)
    both = trajectories_file.read_moving(tmp_path, 0, 6)
    for name in ("pixels_vu", "z_depth_m"):
        for a, b in zip(getattr(both, name), getattr(whole, name), strict=True):
            np.testing.assert_array_equal(a, b)
    trajectories_file.write(tmp_path / "none", dataclasses.replace(make.lifted(), moving_depth=None))
    assert trajectories_file.read_moving(tmp_path / "none", 0, 6) is None


def test_old_tools_need_only_the_filter(tmp_path):
    """The file keeps the format of HDF5 1.8 and holds no filter but shuffle and Zstandard in its depth."""
    write(tmp_path, [make.depth_frame(0)] * 3)
    with hdf5.opened(tmp_path / "geometry.h5", geometry_file.SCHEMA) as file:
        for name in ("z_depth", "sigma", "origin"):
            plist = file["depth"][name].id.get_create_plist()
            filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
            assert filters == ([2, 32015] if name == "z_depth" else [32015])
