"""Letter D of issue 4: pictures and poses alone, no depth, no scale (ngp_fox at quarter size).

Held-out PSNR is the library's own ``picture_psnr_held_out_db``: every static pixel of every held-out picture, covered
by the model or not, against the rendering in an exposure interpolated between the neighbours in time that the fit
saw; nothing is taken from the held-out picture. Beside it are printed the PSNR without any exposure and with the best
affine exposure per picture.
"""

import json
import math
import tempfile
from pathlib import Path

from benchmarks.accept.harness import ROOT, Letter, egospatial, samples

RECIPE = (
    "reconstruct.from_pictures=true",
    "reconstruct.width_px=270",
    "reconstruct.iterations=2000",
    "reconstruct.sh_degree=2",
    "reconstruct.max_gaussians=60000",
)
"""A quarter of 1080 x 1920; the recipe of docs/reconstruction.md for recordings without a depth sensor."""
SCRATCH = ROOT / "out" / "accept"


def measure(letter: Letter) -> None:
    """Rectify, reconstruct and ask from scratch; judge what the folder says."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        settings = [part for setting in RECIPE for part in ("--set", setting)]
        source = samples() / "ngp_fox"
        done = egospatial(
            "run", source, "--out", scratch, "--quiet", "--stages", "rectify,reconstruct", *settings, timeout_s=7200
        )
        letter.true("run ends", done.status == 0, f"status {done.status} {done.stderr[-200:].strip()}")
        letter.note(f"rectify and reconstruct: wall {done.wall_s:.0f} s, CPU {done.cpu_s:.0f} s ({done.cpu_s / 2:.0f})")
        letter.at_most("minutes (wall, or CPU/2 where loaded)", done.judged_s / 60, 8)
        folder = next(path for path in Path(scratch).iterdir() if path.is_dir())
        _quality(letter, folder)
        _not_metric(letter, folder, settings)


def _quality(letter: Letter, folder: Path) -> None:
    from egospatial.store import splats_file

    report = splats_file.read(folder).report
    letter.note(f"frames: {len(report.keyframes)} fitted, {len(report.held_out_frames)} held out")
    letter.note(f"{report.gaussians} splats, {report.iterations} iterations; " + "; ".join(report.notes))
    letter.note(
        f"covered, after the best affine exposure: {report.psnr_held_out_db:.2f} dB; "
        f"covered: {report.picture_coverage:.1%} of the picture"
    )
    letter.at_least("held-out PSNR, whole pictures, no fit to them", report.picture_psnr_held_out_db, 24, " dB")
    letter.at_least("frames held out", len(report.held_out_frames), 5)
    letter.true("no depth error is claimed", math.isnan(report.depth_abs_rel_held_out))
    letter.true("report says not metric", any("not metric" in note for note in report.notes))


def _not_metric(letter: Letter, folder: Path, settings: list[str]) -> None:
    """Everything after it: no number in metres is given, and the world says why."""
    done = egospatial("run", samples() / "ngp_fox", "--out", folder.parent, "--quiet", *settings, timeout_s=7200)
    letter.true("later stages end", done.status == 0, f"status {done.status} {done.stderr[-200:].strip()}")
    document = json.loads((folder / "recording.json").read_text())
    letter.true("world is not metric", document["world"]["metric"] is False)
    asked = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    refused = {row["template"]: row["reason"] for row in json.loads((folder / "audit.json").read_text())["refused"]}
    from spatial_qa.templates import TEMPLATES

    metric = sorted(name for name, template in TEMPLATES.items() if template.needs_scale)
    without = [name for name in metric if refused.get(name) not in ("scale_unknown", "gravity_unknown")]
    letter.true("metric questions refused", not without, f"all but {without} of {len(metric)} templates")
    answered = [row["qa_id"] for row in asked if row.get("template") in metric]
    letter.true("metric questions asked", not answered, f"{len(answered)}")


if __name__ == "__main__":
    import sys

    judged = Letter("D")
    measure(judged)
    print(judged.line())
    sys.exit(0 if judged.passed else 1)
