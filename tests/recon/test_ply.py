"""Splat files hold what the original 3DGS trainer writes (FIELD_PROBLEMS G3)."""

import struct

import numpy as np
import pytest

from recon.errors import ReconError
from recon.model import rgb_from_sh0, sigmoid
from recon.ply import read_splat_file, read_splat_ply, write_splat_ply
from recon.records import SplatModel

NAMES = "x y z nx ny nz f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3".split()
VALUES = [1, 2, 3, 0, 0, 0, 0.7089815, 0, -0.7089815, 1.3862944, -3.912023, -3.912023, -2.302585, 2, 0, 0, 0]
BARE = [name for name in NAMES if name not in ("nx", "ny", "nz")]
FIELDS = ("means_in_world", "log_scales", "quats_wxyz", "opacity_logits", "sh_coeffs")


def ply(path, rows, names=NAMES, form="binary_little_endian", kind="float", before="", data_before=b"", newline="\n"):
    """A splat file written by hand: one value a property, packed as the format says."""
    header = f"ply\nformat {form} 1.0\ncomment end_header is not here\n{before}element vertex {len(rows)}\n"
    header += "".join(f"property {kind} {name}\n" for name in names) + "end_header\n"
    code = {"float": "f", "double": "d"}[kind]
    if form == "ascii":
        body = "".join(" ".join(repr(float(value)) for value in row) + newline for row in rows).encode()
    else:
        order = "<" if form == "binary_little_endian" else ">"
        body = b"".join(struct.pack(f"{order}{len(row)}{code}", *row) for row in rows)
    path.write_bytes(header.replace("\n", newline).encode() + data_before + body)
    return path


def random_model(degree, count=5, seed=1):
    rng = np.random.default_rng(seed)
    return SplatModel(
        *(rng.standard_normal((count, n)).astype(np.float32) for n in (3, 3, 4)),
        rng.standard_normal(count).astype(np.float32),
        rng.standard_normal((count, (degree + 1) ** 2, 3)).astype(np.float32),
    )


def the_golden_splat(model):
    """Values of case G3: scales 2, 2, 10 cm, opacity 0.8, colour (0.7, 0.5, 0.3), identity rotation."""
    assert model.means_in_world.tolist() == [[1, 2, 3]]
    np.testing.assert_allclose(np.exp(model.log_scales[0]), [0.02, 0.02, 0.1], atol=1e-6)
    assert sigmoid(model.opacity_logits)[0] == pytest.approx(0.8, abs=1e-6)
    np.testing.assert_allclose(rgb_from_sh0(model.sh_coeffs)[0], [0.7, 0.5, 0.3], atol=1e-6)
    assert model.quats_wxyz[0].tolist() == [2, 0, 0, 0]
    assert all(getattr(model, name).dtype == np.dtype("=f4") for name in FIELDS)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_trainers_numbers_mean_scale_opacity_colour_and_w_first(tmp_path, form, kind, newline):
    if form == "ascii" and newline == "\r":
        newline = "\n"  # rows of a text file end as lines do everywhere
    the_golden_splat(read_splat_ply(ply(tmp_path / "g3.ply", [VALUES], form=form, kind=kind, newline=newline)))


def test_property_order_normals_and_unknown_properties_do_not_matter(tmp_path):
    names = [*BARE[::-1], "filter_3D"]
    row = [dict(zip(NAMES, VALUES, strict=True)).get(name, 7) for name in names]
    found = read_splat_file(ply(tmp_path / "r.ply", [row], names))
    the_golden_splat(found.model)
    assert found.ignored == ("filter_3D",) and found.dropped == 0


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_other_elements_before_and_after_the_splats_are_passed_over(tmp_path, form):
    """A camera of two doubles, and a list of three faces' corners, lie before the vertices."""
    before = "element camera 1\nproperty double f\nproperty uchar id\nelement face 2\n"
    before += "property list uchar int vertex_indices\nproperty short s\n"
    order = ">" if form == "binary_big_endian" else "<"
    data = struct.pack(f"{order}dB", 1.5, 3) + struct.pack(f"{order}B3ih", 3, 7, 8, 9, -1)
    data += struct.pack(f"{order}Bh", 0, 5)
    if form == "ascii":
        data = b"1.5 3\n3 7 8 9 -1\n\n0 5\n"
    path = ply(tmp_path / "e.ply", [VALUES], form=form, before=before, data_before=data)
    found = read_splat_file(path)
    the_golden_splat(found.model)
    assert found.ignored == ("element camera", "element face")


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_write_then_read_gives_the_same_numbers_and_write_again_the_same_bytes(tmp_path, degree):
    model = random_model(degree)
    model.opacity_logits[0] = 40.0  # an opacity of 1 in float32, and a finite number: it stays
    write_splat_ply(tmp_path / "a.ply", model)
    again = read_splat_ply(tmp_path / "a.ply")
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(model, name), getattr(again, name))
    write_splat_ply(tmp_path / "b.ply", again)
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ply", "b.ply"]


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_higher_coefficients_run_channel_by_channel(tmp_path, degree):
    """f_rest_0, 1, 2, ... are red's coefficients, then green's, then blue's: here they hold their own number."""
    per_channel = (degree + 1) ** 2 - 1
    rest = list(range(3 * per_channel))
    names = NAMES[:9] + [f"f_rest_{i}" for i in rest[::-1]] + NAMES[9:]
    model = read_splat_ply(ply(tmp_path / "d.ply", [VALUES[:9] + rest[::-1] + VALUES[9:]], names))
    for channel in range(3):
        expected = list(range(channel * per_channel, (channel + 1) * per_channel))
        assert model.sh_coeffs[0, 1:, channel].tolist() == expected


def test_opacity_zero_and_one_are_written_as_finite_numbers_and_stay(tmp_path):
    model = random_model(0, count=2)
    model.opacity_logits[:] = [-np.inf, np.inf]
    write_splat_ply(tmp_path / "a.ply", model)
    again = read_splat_ply(tmp_path / "a.ply")
    assert np.isfinite(again.opacity_logits).all()
    np.testing.assert_allclose(sigmoid(again.opacity_logits), [0, 1], atol=1e-6)
    write_splat_ply(tmp_path / "b.ply", again)
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


def test_rows_that_cannot_be_drawn_are_dropped_and_counted(tmp_path):
    """NaN centre, zero quaternion, infinite scale, a double beyond float32; opacity 1 as infinity is no fault."""
    rows = [list(VALUES) for _ in range(6)]
    rows[1][0] = np.nan
    rows[2][13] = 0.0
    rows[3][10] = np.inf
    rows[4][1] = 1e300
    rows[5][9] = np.inf
    for form in ("binary_big_endian", "ascii"):
        path = ply(tmp_path / "n.ply", rows, form=form, kind="double")
        found = read_splat_file(path)
        assert (found.dropped, len(found.model.means_in_world)) == (4, 2)
        assert len(read_splat_ply(path).means_in_world) == 6  # as they are in the file


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian"])
def test_an_empty_model_survives(tmp_path, form):
    write_splat_ply(tmp_path / "e.ply", random_model(0, count=0))
    assert len(read_splat_ply(tmp_path / "e.ply").means_in_world) == 0
    assert len(read_splat_ply(ply(tmp_path / "t.ply", [], form=form)).means_in_world) == 0


def test_a_model_with_nan_is_refused_and_the_old_file_stays(tmp_path):
    target = tmp_path / "a.ply"
    target.write_bytes(b"old")
    model = random_model(0)
    model.means_in_world[3, 1] = np.nan
    with pytest.raises(ReconError, match=r"1 of 5 splats are not finite \(first: 3\)"):
        write_splat_ply(target, model)
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.ply"]


LITTLE = b"ply\nformat binary_little_endian 1.0\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"solid cube", "is not a PLY file"),
        (b"ply", "is not a PLY file"),
        (LITTLE + b"element vertex 3\nproperty float x\n", "no line 'end_header'"),
        (LITTLE + b"comment " + b"x" * 70_000 + b"\nend_header\n", "no line 'end_header' in its first 64 KiB"),
        (b"ply\nformat middle_endian 1.0\nelement vertex 0\nproperty float x\nend_header\n", "none of binary_little"),
        (b"ply\nelement vertex 0\nproperty float x\nend_header\n", "its format is none of"),
        (LITTLE + b"element vertex 0\nproperty float x\nend_header\n", "no property y, z"),
        (LITTLE + b"end_header\n", "no readable 'element vertex'"),
        (LITTLE + b"element vertex -3\nproperty float x\nend_header\n", "no name and count"),
        (LITTLE + b"element vertex " + b"9" * 5000 + b"\nproperty float x\nend_header\n", "no name and count"),
        (LITTLE + b"element vertex 1\nproperty float x\nproperty float x\nend_header\n", "x is there twice"),
        (LITTLE + b"element vertex 1\nelement vertex 1\nend_header\n", "vertex is there twice"),
        (LITTLE + b"property float x\nend_header\n", "comes before any element"),
        (LITTLE + b"element vertex 1\nproperty quad x\nend_header\n", "no known type"),
        (LITTLE + b"element vertex 1\nproperty list uchar x\nend_header\n", "no known type"),
    ],
)
def test_files_that_are_no_splats_are_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "bad.ply").write_bytes(content)
    with pytest.raises(ReconError, match=message) as error:
        read_splat_ply(tmp_path / "bad.ply")
    assert "\n" not in str(error.value) and "bad.ply" in str(error.value)


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian"])
@pytest.mark.parametrize("claimed", [2, 10**12, 10**18 - 1])
def test_a_count_beyond_the_file_is_refused_before_anything_is_made_of_it(tmp_path, form, claimed):
    path = ply(tmp_path / "h.ply", [VALUES], form=form)
    path.write_bytes(path.read_bytes().replace(b"vertex 1\n", b"vertex %d\n" % claimed))
    with pytest.raises(ReconError, match="is truncated"):
        read_splat_ply(path)


def test_every_cut_of_a_file_is_refused(tmp_path):
    whole = ply(tmp_path / "w.ply", [VALUES, VALUES]).read_bytes()
    for length in [*range(0, len(whole), 37), len(whole) - 1]:
        (tmp_path / "cut.ply").write_bytes(whole[:length])
        with pytest.raises(ReconError):
            read_splat_ply(tmp_path / "cut.ply")


@pytest.mark.parametrize("row", ["1 2 3", "a b c", "1e 2", "\0"])
def test_text_that_is_no_row_of_numbers_is_refused(tmp_path, row):
    path = ply(tmp_path / "t.ply", [VALUES, VALUES], form="ascii")
    lines = path.read_bytes().split(b"\n")
    lines[-2] = row.encode().ljust(60)
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ReconError, match=r"t\.ply: (a row|rows) of vertex"):
        read_splat_ply(path)


def test_lists_before_the_splats_that_never_end_are_refused(tmp_path):
    """A negative length would walk backwards for ever; a huge one leaves the file."""
    before = "element face 5\nproperty list int int i\n"
    for length, message in ((-1, "length below 0"), (2**31 - 1, "is truncated")):
        path = ply(tmp_path / "l.ply", [VALUES], before=before, data_before=struct.pack("<i", length))
        with pytest.raises(ReconError, match=message):
            read_splat_ply(path)


def test_a_list_among_a_splats_properties_is_refused(tmp_path):
    path = ply(tmp_path / "l.ply", [VALUES])
    path.write_bytes(path.read_bytes().replace(b"end_header\n", b"property list uchar int i\nend_header\n", 2))
    with pytest.raises(ReconError, match="'i' of vertex is a list"):
        read_splat_ply(path)


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(ReconError, match="cannot be read"):
        read_splat_ply(tmp_path / "none.ply")


@pytest.mark.parametrize(
    ("numbers", "message"), [(range(4), "4 f_rest"), (range(72), "72 f_rest"), (range(1, 10), "numbered 0 to 8")]
)
def test_coefficients_that_fit_no_degree_are_refused(tmp_path, numbers, message):
    names = NAMES[:9] + [f"f_rest_{i}" for i in numbers] + NAMES[9:]
    row = VALUES[:9] + [0] * len(numbers) + VALUES[9:]
    with pytest.raises(ReconError, match=message):
        read_splat_ply(ply(tmp_path / "d.ply", [row], names))


def test_a_point_cloud_is_not_taken_for_splats(tmp_path):
    path = ply(tmp_path / "p.ply", [[1, 2, 3]], ["x", "y", "z"])
    with pytest.raises(ReconError, match=r"f_dc_0, .* not a 3DGS splat file"):
        read_splat_ply(path)


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian"])
def test_a_fuzzed_file_is_read_or_refused_never_a_crash(tmp_path, form):
    """300 files with some bytes changed, cut out or doubled; what is still read has rows that fit together."""
    rng = np.random.default_rng(11)
    names = NAMES[:9] + [f"f_rest_{i}" for i in range(9)] + NAMES[9:]
    whole = ply(tmp_path / "w.ply", [[*VALUES[:9], *range(9), *VALUES[9:]]] * 3, names, form=form).read_bytes()
    read = 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            place, length = int(rng.integers(len(content))), int(rng.integers(1, 8))
            piece = [bytes(rng.integers(0, 256, length, dtype=np.uint8)), b"", content[place : place + length] * 2]
            content[place : place + length] = piece[int(rng.integers(3))]
        (tmp_path / "f.ply").write_bytes(bytes(content))
        try:
            found = read_splat_file(tmp_path / "f.ply")
        except ReconError:
            continue
        read += 1
        assert len({len(getattr(found.model, name)) for name in FIELDS}) == 1
        assert all(np.isfinite(getattr(found.model, name)).all() for name in FIELDS if name != "opacity_logits")
    assert 0 < read < 300
