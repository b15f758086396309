"""Packed splats (PlayCanvas' compressed PLY, by gsply): near to what was written, hostile headers refused."""

import sys

import numpy as np
import pytest
import splat_makers as make

from recon.compressed import compressed_bytes, morton_order
from recon.errors import ReconError
from recon.model import select, sigmoid
from recon.ply import read_splat_file
from recon.records import SplatModel
from recon.render import render


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / "small.compressed.ply"
    path.write_bytes(compressed_bytes(make.cloud(count=600, degree=3)))
    return path


def test_a_packed_model_is_near_to_the_model(packed):
    """A chunk of 256 spans at most the cloud (2 x 1.6 x 2 m): a step is at most 2 / 2047, 1.6 / 1023, 2 / 2047."""
    model = make.cloud(count=600, degree=3)
    model = select(model, morton_order(model.means_in_world))
    found = read_splat_file(packed)
    assert found.dropped == 0 and packed.stat().st_size < 600 * 62 * 4 / 3
    again = found.model
    assert (np.abs(again.means_in_world - model.means_in_world) <= [2 / 2047, 1.6 / 1023, 2 / 2047]).all()
    assert np.abs(again.log_scales - model.log_scales).max() < 2 / 1023
    assert np.abs(again.sh_coeffs[:, 1:] - model.sh_coeffs[:, 1:]).max() < 1 / 63
    unit = model.quats_wxyz / np.linalg.norm(model.quats_wxyz, axis=1, keepdims=True)
    assert np.abs((unit * again.quats_wxyz).sum(axis=1)).min() > 1 - 1e-5
    assert np.abs(sigmoid(again.opacity_logits) - sigmoid(model.opacity_logits)).max() < 1 / 254
    pose = make.orbit()[1]
    pictures = [render(item, make.camera(), pose).rgb for item in (model, again)]
    assert np.abs(pictures[0] - pictures[1]).mean() < 0.01


def test_the_same_model_gives_the_same_bytes(packed):
    assert compressed_bytes(make.cloud(count=600, degree=3)) == packed.read_bytes()


def test_without_higher_colours_there_are_none(tmp_path):
    (tmp_path / "zero.ply").write_bytes(compressed_bytes(make.cloud(count=3, degree=0)))
    assert read_splat_file(tmp_path / "zero.ply").model.sh_coeffs.shape == (3, 1, 3)


def test_morton_order_walks_the_octants():
    """Bit 0 is x, bit 1 y, bit 2 z: the corners of a cube come in the order of their binary numbers."""
    corners = np.array([[i & 1, i >> 1 & 1, i >> 2 & 1] for i in (5, 0, 7, 2, 1, 6, 3, 4)], dtype=np.float64)
    assert corners[morton_order(corners)].tolist() == [[i & 1, i >> 1 & 1, i >> 2 & 1] for i in range(8)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"element chunk 3\n", b"element chunk 2\n", "not that of a compressed splat file"),  # would read out of bounds
        (b"element chunk 3\n", b"element chunk 3000000\n", "not that of a compressed splat file"),
        (b"element vertex 600\n", b"element vertex 768\n", "not that of a compressed splat file"),
        (b"element sh 600\n", b"element sh 6\n", "not that of a compressed splat file"),
        (b"uchar f_rest_44\n", b"uchar f_rest_45\n", "not that of a compressed splat file"),
        (b"property float min_r\n", b"", "17 properties"),
        (b"uint packed_scale", b"uint packed_other", "other packed properties"),
        (b"binary_little_endian", b"binary_big_endian", "not that of a compressed splat file"),
    ],
)
def test_a_header_that_lies_is_refused(packed, old, new, message):
    content = packed.read_bytes()
    assert old in content
    packed.write_bytes(content.replace(old, new))
    with pytest.raises(ReconError, match=message):
        read_splat_file(packed)


def test_a_cut_file_is_refused(packed):
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(ReconError, match="is truncated"):
        read_splat_file(packed)


def test_without_the_package_the_error_names_the_extra(packed, monkeypatch):
    monkeypatch.setitem(sys.modules, "gsply", None)
    for call in (lambda: read_splat_file(packed), lambda: compressed_bytes(make.cloud(count=2))):
        with pytest.raises(ReconError, match=r"pip install 'egospatial\[splats\]'"):
            call()


def test_what_the_format_cannot_hold_is_refused():
    model = make.cloud(count=4, degree=0)
    with pytest.raises(ReconError, match="holds no splat"):
        compressed_bytes(select(model, np.zeros(4, dtype=bool)))
    model.log_scales[1, 1] = 21
    with pytest.raises(ReconError, match="beyond"):
        compressed_bytes(model)
    model.log_scales[1, 1] = np.nan
    with pytest.raises(ReconError, match="a scale is not finite"):
        compressed_bytes(SplatModel(**{name: getattr(model, name) for name in model.__dataclass_fields__}))


def test_a_fuzzed_file_is_read_or_refused_never_a_crash(packed, tmp_path):
    rng = np.random.default_rng(12)
    whole = packed.read_bytes()
    header = whole.index(b"end_header")
    read = 0
    for number in range(200):
        content = bytearray(whole)
        for _ in range(3):
            content[int(rng.integers(header if number % 2 else len(content)))] = int(rng.integers(256))
        (tmp_path / "f.ply").write_bytes(bytes(content))
        try:
            found = read_splat_file(tmp_path / "f.ply").model
        except ReconError:
            continue
        read += 1
        assert np.isfinite(found.means_in_world).all() and len(found.means_in_world) <= 600
    assert 0 < read < 200
