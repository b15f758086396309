"""The reconstruct stage with a model that another trainer made: it is moved into the world and drawn, never fitted.

What a run needs besides the splats is made as ever: masks of what may move, keyframes, and the report, measured on
the frames that a fit would have held out.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geo.recording import CanonicalRecording
from recon.align import PosePrior, align_views
from recon.backend import choose_renderer
from recon.config import ReconstructConfig
from recon.dynamic import PromptRegion, estimate_dynamic
from recon.errors import ReconError
from recon.ply import SplatFile, read_splat_file
from recon.records import Reconstruction
from recon.report import Quality, measure, recon_report
from recon.sensor import SensorNoise, has_sensor
from recon.survey import Progress, choose_keyframes, survey
from recon.transform import transform_model
from recon.views import load_views, mean_colour

_HARDLY_COVERED = 0.2


def reconstruct_from_model(
    canonical: CanonicalRecording,
    path: Path,
    config: ReconstructConfig | None = None,
    progress: Progress | None = None,
    prompts: Sequence[PromptRegion] | None = None,
    source_from_model: Float[np.ndarray, "4 4"] | None = None,
) -> Reconstruction:
    """Take a splat file for the static scene.

    The file is taken to be told in the world of the recording's own files, in its unit; nobody but the user can know
    whether it is. ``report.notes`` says how many rows were dropped, which properties are ignored, and if hardly
    anything of the pictures is covered, which is what a model in another world looks like. Quality is measured on the
    frames that a fit here would have held out; the model's own trainer may have seen them.

    Args:
        canonical: Rectified recording.
        path: 3DGS PLY, or a compressed one; see ``recon.ply.read_splat_file``.
        config: Settings; of the fit's none has an effect.
        progress: Called as ``progress(done, total, what)``.
        prompts: Neighbourhoods that somebody pointed at as movable.
        source_from_model: Similarity that takes the file's coordinates to the recording's own; None: they are the
            same.

    Raises:
        ReconError: the file cannot be read or holds nothing that can be drawn; the matrix is no similarity.
    """
    config = config or ReconstructConfig()
    started = time.monotonic()
    renderer = choose_renderer(config.device)
    read = read_splat_file(path)
    if not len(read.model.means_in_world):
        raise ReconError(
            f"{path}: none of its {read.dropped} splats can be drawn, so there is no scene to take from it"
        )
    model = transform_model(read.model, _world_from_model(canonical, source_from_model))
    small = survey(canonical, config, progress)
    dynamic = estimate_dynamic(canonical, small, config, tuple(prompts or ()), SensorNoise())
    keyframes = choose_keyframes(canonical, small, dynamic, config)
    looked_at = (keyframes.held_out if len(keyframes.held_out) else keyframes.fit).tolist()
    views = load_views(canonical, looked_at, dynamic, config, progress)
    if has_sensor(canonical):
        views = align_views(views, model, PosePrior.of(config), SensorNoise(), renderer)
    quality = measure(model, views, renderer, mean_colour(views)) if views else None
    notes = (f"rasteriser: {renderer.name}", *_notes(path, read, source_from_model, quality))
    report = recon_report(keyframes, model, quality, time.monotonic() - started, notes)
    report = replace(report, picture_psnr_held_out_db=float("nan"))  # exposures come from a fit
    return Reconstruction(model, dynamic, report)


def matrix_of(numbers: Sequence[float]) -> Float[np.ndarray, "4 4"] | None:
    """A setting's 12 or 16 numbers, row by row, as a 4x4 matrix; none at all is None.

    Raises:
        ReconError: another count, or a last row that is not 0 0 0 1.
    """
    if not numbers:
        return None
    if len(numbers) not in (12, 16):
        raise ReconError(f"reconstruct.model_transform has {len(numbers)} numbers; expected 12 or 16, row by row")
    matrix = np.eye(4)
    matrix[: len(numbers) // 4] = np.reshape(np.asarray(numbers, dtype=np.float64), (-1, 4))
    if (matrix[3] != [0, 0, 0, 1]).any():
        raise ReconError(f"reconstruct.model_transform has {matrix[3].tolist()} as last row; expected 0 0 0 1")
    return matrix


def _world_from_model(
    canonical: CanonicalRecording, source_from_model: Float[np.ndarray, "4 4"] | None
) -> Float[np.ndarray, "4 4"]:
    world_from_source = np.asarray(canonical.world.world_from_source_world, dtype=np.float64)
    return world_from_source if source_from_model is None else world_from_source @ source_from_model


def _notes(
    path: Path, read: SplatFile, source_from_model: Float[np.ndarray, "4 4"] | None, quality: Quality | None
) -> list[str]:
    world = "the recording's own files" if source_from_model is None else "reconstruct.model_transform's result"
    degree = round(read.model.sh_coeffs.shape[1] ** 0.5) - 1
    notes = [
        f"model taken from {path.name} (degree {degree}), not fitted: it is believed to be in the world of {world}",
        "quality is measured on frames that the model's own trainer may have seen",
    ]
    if read.dropped:
        notes.append(f"{read.dropped} splats of {path.name} cannot be drawn and were dropped")
    if read.ignored:
        notes.append(f"not known here, and without effect: {', '.join(read.ignored)}")
    if quality is None:
        notes.append("no frame has a pose, so the model is not seen by any")
    elif not quality.picture_coverage >= _HARDLY_COVERED:
        notes.append(
            f"the model covers {quality.picture_coverage:.0%} of the static pixels: is it in another world or unit "
            "than the recording's own files? Give reconstruct.model_transform"
        )
    return notes
