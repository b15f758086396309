"""Letter F of issue 3: splat files between this project, other readers and the original trainer.

Out: models with random parameters of every degree, and the splats of a run, opened by plyfile, gsply, trimesh and
Open3D. In: files that torch and plyfile make as gaussian-splatting's ``GaussianModel.save_ply`` does, in three
encodings and shuffled, read here and drawn from several sides.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.harness import ROOT, Letter, egospatial, unseen_seeds
from geo import se3
from geo.cameras import PinholeCamera
from recon.ply import read_splat_file, read_splat_ply, write_splat_ply
from recon.records import SplatModel
from recon.render import render

SCRATCH = ROOT / "out" / "accept"
FIELDS = ("means_in_world", "log_scales", "quats_wxyz", "opacity_logits", "sh_coeffs")
SPLATS = 20_000
VIEWS = 6
CAMERA = PinholeCamera(320, 240, 250.0, 250.0, 157.3, 121.9)
Arrays = dict[str, np.ndarray]


def measure(letter: Letter) -> None:
    """Both directions; every seed is drawn at random."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    (seed,) = unseen_seeds(1)
    letter.note(f"seed {seed}, {SPLATS} splats, {VIEWS} views of {CAMERA.width_px}x{CAMERA.height_px}")
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        folder = Path(scratch)
        models = {f"degree {degree}": cloud(np.random.default_rng([seed, degree]), degree) for degree in range(4)}
        fitted = _fitted(letter, folder, seed)
        if fitted is not None:
            models["a run's splats"] = fitted
        _out(letter, folder, models)
        _in(letter, folder, models["degree 3"], np.random.default_rng(seed))
        _packed(letter, folder, models["degree 3"])


def cloud(rng: np.random.Generator, degree: int) -> SplatModel:
    """Splats of every shape and opacity around (0, 0, 3); some opacities are exactly 1 in float32."""
    shape = (SPLATS, (degree + 1) ** 2, 3)
    arrays = (
        rng.normal((0, 0, 3), (0.9, 0.7, 0.5), (SPLATS, 3)),
        rng.uniform(-6, -3, (SPLATS, 3)),
        rng.normal(size=(SPLATS, 4)),
        np.where(rng.random(SPLATS) < 0.01, 40.0, rng.normal(0, 3, SPLATS)),
        rng.normal(0, 0.3, shape),
    )
    return SplatModel(*(array.astype(np.float32) for array in arrays))


def _fitted(letter: Letter, folder: Path, seed: int) -> SplatModel | None:
    """The splats that a small run writes."""
    made = egospatial("simulate", folder / "sim", "--preset", "small", "--seed", seed, "--quiet")
    settings = ["reconstruct.iterations=60", "reconstruct.max_gaussians=8000", "reconstruct.width_px=96"]
    words = [word for text in settings for word in ("--set", text)]
    source = folder / "sim" / f"small_{seed}"
    ran = egospatial(
        "run", source, "--out", folder / "run", "--end", 3, "--stages", "rectify,reconstruct", "--quiet", *words
    )
    ended = made.status == 0 and ran.status == 0
    trouble = "" if ended else (made.stderr + ran.stderr)[-200:].strip()
    letter.true("a small run ends", ended, f"status {made.status}, {ran.status} {trouble}".strip())
    return read_splat_ply(folder / "run" / f"small_{seed}" / "splats.ply") if ended else None


def _out(letter: Letter, folder: Path, models: dict[str, SplatModel]) -> None:
    readers: dict[str, Callable[[Path], Arrays]] = {
        "plyfile": _by_plyfile, "gsply": _by_gsply, "trimesh": _by_trimesh, "Open3D": _by_open3d,
    }  # fmt: skip
    counts: dict[str, int] = dict.fromkeys(readers, 0)
    again, numbers = True, 0
    for model in models.values():
        path = folder / "ours.ply"
        write_splat_ply(path, model)
        for name, reader in readers.items():
            counts[name] += _differing(reader(path), model)
        numbers += sum(getattr(model, field).size for field in FIELDS)
        write_splat_ply(folder / "again.ply", read_splat_ply(path))
        again &= path.read_bytes() == (folder / "again.ply").read_bytes()
    letter.note(f"{numbers} parameters: {', '.join(models)}")
    for name, count in counts.items():
        letter.at_most(f"parameters that {name} reads differently", count, 0)
    letter.true("write, read, write gives the same bytes", again)


def _differing(found: Arrays, model: SplatModel) -> int:
    """Parameters that are not the same number (Open3D's scales: not the same to 1e-6, they come as metres)."""
    return sum(int((found[name] != getattr(model, name)).sum()) if found[name].shape == getattr(model, name).shape
               else getattr(model, name).size for name in FIELDS)  # fmt: skip


def _columns(rows: Any, names: list[str]) -> Arrays:
    """Named columns as the trainer's own load_ply puts them together: f_rest as (N, 3, K - 1) first."""
    rest = [name for name in names if name.startswith("f_rest_")]
    count, per_channel = len(rows["x"]), len(rest) // 3
    sh = np.zeros((count, per_channel + 1, 3), dtype=np.float32)
    for channel in range(3):
        sh[:, 0, channel] = rows[f"f_dc_{channel}"]
    flat = np.stack([rows[f"f_rest_{i}"] for i in range(len(rest))], axis=1) if rest else np.zeros((count, 0))
    sh[:, 1:] = flat.reshape(count, 3, per_channel).transpose(0, 2, 1)
    stack = {"means_in_world": "xyz", "log_scales": [f"scale_{i}" for i in range(3)],
             "quats_wxyz": [f"rot_{i}" for i in range(4)]}  # fmt: skip
    arrays = {name: np.stack([rows[column] for column in columns], axis=1) for name, columns in stack.items()}
    return {**arrays, "opacity_logits": np.asarray(rows["opacity"]), "sh_coeffs": sh}


def _by_plyfile(path: Path) -> Arrays:
    import plyfile

    vertex = plyfile.PlyData.read(path)["vertex"]
    return _columns(vertex, [item.name for item in vertex.properties])


def _by_trimesh(path: Path) -> Arrays:
    import trimesh

    data = trimesh.load(path).metadata["_ply_raw"]["vertex"]["data"]
    return _columns(data, list(data.dtype.names))


def _by_gsply(path: Path) -> Arrays:
    import gsply

    import cuda_kernels.jit  # noqa: F401  (threads of numba, which gsply uses too)

    data = gsply.plyread(path)
    sh = np.concatenate([data.sh0[:, None], data.shN.reshape(len(data.means), -1, 3)], axis=1)
    return dict(zip(FIELDS, (data.means, data.scales, data.quats, data.opacities, sh), strict=True))


def _by_open3d(path: Path) -> Arrays:
    import open3d as o3d

    point = o3d.t.io.read_point_cloud(str(path)).point
    sh = point["f_dc"].numpy()[:, None]
    if "f_rest" in point:
        sh = np.concatenate([sh, point["f_rest"].numpy().reshape(len(sh), -1, 3)], axis=1)
    scales, model = point["scale"].numpy(), read_splat_ply(path)
    same = np.abs(scales / np.exp(model.log_scales.astype(np.float64)) - 1) < 1e-6  # it hands out metres
    log_scales = np.where(same, model.log_scales, np.nan)
    opacity = point["opacity"].numpy()[:, 0]
    return dict(zip(FIELDS, (point["positions"].numpy(), log_scales, point["rot"].numpy(), opacity, sh), strict=True))


def trainer_rows(model: SplatModel) -> np.ndarray:
    """The trainer's table, by torch as in its ``save_ply``: transpose(1, 2), flatten, concatenate, describe."""
    import torch

    xyz, features = torch.from_numpy(model.means_in_world), torch.from_numpy(model.sh_coeffs)
    dc = features[:, :1].transpose(1, 2).flatten(start_dim=1).contiguous()
    rest = features[:, 1:].transpose(1, 2).flatten(start_dim=1).contiguous()
    names = ["x", "y", "z", "nx", "ny", "nz", *(f"f_dc_{i}" for i in range(dc.shape[1]))]
    names += [*(f"f_rest_{i}" for i in range(rest.shape[1])), "opacity"]
    names += [*(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    opacity, scale, rotation = (
        torch.from_numpy(getattr(model, name)) for name in ("opacity_logits", "log_scales", "quats_wxyz")
    )
    table = torch.cat([xyz, torch.zeros_like(xyz), dc, rest, opacity[:, None], scale, rotation], dim=1).numpy()
    rows = np.empty(len(table), dtype=[(name, "f4") for name in names])
    rows[:] = list(map(tuple, table))
    return rows


def _in(letter: Letter, folder: Path, model: SplatModel, rng: np.random.Generator) -> None:
    import plyfile

    rows = trainer_rows(model)
    shuffled = rows[list(rng.permutation(rows.dtype.names))]
    plain = np.empty(len(rows), dtype=[(name, "f8") for name in shuffled.dtype.names if name not in ("nx", "ny", "nz")])
    for name in plain.dtype.names:
        plain[name] = shuffled[name]
    files = {"as it is": (rows, False, "<"), "big-endian": (rows, False, ">"), "text": (rows, True, "="),
             "shuffled float64 without normals": (plain, False, "<")}  # fmt: skip
    pixels = parameters = 0
    direct = [render(model, CAMERA, pose) for pose in poses()]
    for name, (table, text, order) in files.items():
        path = folder / "theirs.ply"
        plyfile.PlyData([plyfile.PlyElement.describe(table, "vertex")], text=text, byte_order=order).write(path)
        found = read_splat_file(path)
        wrong = _differing({field: getattr(found.model, field) for field in FIELDS}, model)
        drawn = sum(
            _pixels_apart(render(found.model, CAMERA, pose), view) for pose, view in zip(poses(), direct, strict=True)
        )
        letter.note(
            f"trainer's file, {name}: {wrong} parameters and {drawn} pixels differ, {found.dropped} rows dropped"
        )
        pixels, parameters = pixels + drawn, parameters + wrong
    letter.at_most("parameters read differently from the trainer's files", parameters, 0)
    letter.at_most("pixels drawn differently (colour, alpha, depth)", pixels, 0)
    letter.at_most("colour of a direction, against gsplat's", _colour_error(model, rng), 1e-5)
    _can_fail(letter, model, direct)


def _colour_error(model: SplatModel, rng: np.random.Generator) -> float:
    """Largest difference of a colour channel to gsplat's own harmonics, one random direction a splat."""
    import torch
    from gsplat.cuda._torch_impl import _spherical_harmonics

    from cuda_kernels.splat import eval_sh

    directions = rng.normal(size=(len(model.sh_coeffs), 3))
    theirs = _spherical_harmonics(3, torch.from_numpy(directions), torch.from_numpy(model.sh_coeffs.astype(np.float64)))
    ours = eval_sh(model.sh_coeffs, directions)
    return float(np.abs(ours - np.maximum(theirs.numpy() + 0.5, 0)).max())


def _can_fail(letter: Letter, model: SplatModel, direct: list[Any]) -> None:
    """What the comparison would show if the order of f_rest, or the direction, were mistaken."""
    count, coefficients = model.sh_coeffs.shape[:2]
    mixed = model.sh_coeffs.copy()
    mixed[:, 1:] = mixed[:, 1:].transpose(0, 2, 1).reshape(count, coefficients - 1, 3)
    arrays = [getattr(model, name) for name in FIELDS[:4]]
    views = [render(SplatModel(*arrays, mixed), CAMERA, pose) for pose in poses()]
    apart = min(float(np.abs(a.rgb - b.rgb).mean()) for a, b in zip(views, direct, strict=True))
    flat = SplatModel(*arrays, np.ascontiguousarray(model.sh_coeffs[:, :1]))
    turned = min(
        float(np.abs(render(flat, CAMERA, p).rgb - b.rgb).mean()) for p, b in zip(poses(), direct, strict=True)
    )
    letter.at_least("mean colour difference had f_rest the other order", apart, 0.01)
    letter.at_least("mean colour that depends on the direction", turned, 0.01)


def poses() -> list[np.ndarray]:
    """Cameras on three quarters of a circle around (0, 0, 3), looking at it from 3 m, up and down."""
    found = []
    for i, angle in enumerate(np.linspace(-0.75 * np.pi, 0.75 * np.pi, VIEWS)):
        rotation = se3.rotation_from_axis_angle(np.array([0.0, angle, 0.0]))
        rotation = rotation @ se3.rotation_from_axis_angle(np.array([0.3 * (-1) ** i, 0.0, 0.0]))
        found.append(se3.from_rotation_translation(rotation, np.array([0.0, 0.0, 3.0]) - rotation @ [0.0, 0.0, 3.0]))
    return found


def _pixels_apart(a: Any, b: Any) -> int:
    """Pixels in which any of two drawings' images differ by a bit; unknown depth equals unknown depth."""
    apart = (a.rgb != b.rgb).any(axis=-1) | (a.alpha != b.alpha)
    for name in ("expected_z_m", "median_z_m"):
        one, two = getattr(a, name), getattr(b, name)
        apart |= ~((one == two) | (np.isnan(one) & np.isnan(two)))
    return int(apart.sum())


def _packed(letter: Letter, folder: Path, model: SplatModel) -> None:
    """Beside the letter: what the compressed format costs in size and likeness."""
    from recon.compressed import compressed_bytes

    path = folder / "packed.ply"
    path.write_bytes(compressed_bytes(model))
    write_splat_ply(folder / "ours.ply", model)
    packed = read_splat_file(path).model
    psnr = []
    for pose in poses():
        error = render(packed, CAMERA, pose).rgb - render(model, CAMERA, pose).rgb
        psnr.append(-10 * np.log10(float(np.square(error, dtype=np.float64).mean())))
    share = path.stat().st_size / (folder / "ours.ply").stat().st_size
    letter.note(f"compressed by gsply: {share:.1%} of the size, {min(psnr):.1f} dB or more against the model")
