"""Letter E of issue 1: bad input ends in one clear line and status 2, or in a warning where work can go on."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accept.harness import Letter, Ran, egospatial, samples

FRAMES = 10
QUICK = ("--set", "reconstruct.iterations=40", "--set", "reconstruct.max_gaussians=8000")


@dataclass(frozen=True)
class Case:
    """A way to break a copy of the kitchen; ``words`` must stand in the message; ``goes_on``: a warning, status 0."""

    name: str
    damage: Callable[[Path], None]
    words: tuple[str, ...]
    goes_on: bool | None = None  # None: either will do


def kitchen_copy(folder: Path) -> Path:
    """The first frames of the kitchen as files of our own (small ones copied, never the sample itself touched)."""
    source = samples() / "sevenscenes_redkitchen"
    folder.mkdir(parents=True)
    colours = sorted(source.glob("frame-*.color.jpg"))[:FRAMES]
    for colour in colours:
        stem = colour.name.removesuffix(".color.jpg")
        for ending in (".color.jpg", ".depth.png", ".pose.txt"):
            shutil.copyfile(source / f"{stem}{ending}", folder / f"{stem}{ending}")
    for name in ("camera-intrinsics.txt", "calibration.json"):
        shutil.copyfile(source / name, folder / name)
    point = {"object": "white mug", "frame": 0, "point_xy": [381, 181], "view": "source"}
    _narrations(folder, [point])
    return folder


def _narrations(folder: Path, points: list[dict[str, object]]) -> None:
    line = {"id": "n0", "start_s": 0.0, "end_s": 1.0, "text": "I am using the white mug.", "language": "en"}
    (folder / "narrations.jsonl").write_text(json.dumps({**line, "groundings": points}) + "\n")


def _nth(folder: Path, ending: str, position: int) -> Path:
    return sorted(folder.glob(f"*{ending}"))[position]


def _no_recording(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    (folder / "notes.txt").write_text("shopping list")


def _missing_image(folder: Path) -> None:
    _nth(folder, ".color.jpg", 4).unlink()


def _nan_pose(folder: Path) -> None:
    _nth(folder, ".pose.txt", 4).write_text("\n".join(["nan nan nan nan"] * 4) + "\n")


def _truncated_depth(folder: Path) -> None:
    path = _nth(folder, ".depth.png", 4)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _point_outside(folder: Path) -> None:
    inside = {"object": "white mug", "frame": 0, "point_xy": [381, 181], "view": "source"}
    _narrations(folder, [inside, {"object": "white mug", "frame": 3, "point_xy": [4000, -50], "view": "source"}])


def _empty_narrations(folder: Path) -> None:
    (folder / "narrations.jsonl").write_text("")


CASES = (
    Case("no recording", _no_recording, (), goes_on=False),
    Case("missing image", _missing_image, ("frame-000020",)),
    Case("NaN pose", _nan_pose, ("pose",)),
    Case("truncated depth", _truncated_depth, ("frame-000020.depth.png",)),
    Case("point outside the image", _point_outside, ("white mug",), goes_on=True),
    Case("empty narrations", _empty_narrations, ("narration",), goes_on=True),
)


def measure(letter: Letter) -> None:
    """Every case in a folder of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            root = Path(scratch) / case.name.replace(" ", "_")
            recording = kitchen_copy(root / "kitchen")
            case.damage(recording)
            done = egospatial("run", recording, "--out", root / "out", "--quiet", *QUICK)
            problem = _problem(case, done, root / "out")
            said = _last_line(done.stderr) if done.status else _warning(done.stderr, case.words)
            letter.note(f"{case.name}: status {done.status}: {said[:220].replace(str(root), '...')}")
            letter.true(case.name, not problem, problem or ("warning" if done.status == 0 else "status 2, one line"))


def _problem(case: Case, done: Ran, out: Path) -> str:
    if done.status not in (0, 2):
        return f"status {done.status}: {done.stderr[-300:]}"
    if case.goes_on is not None and case.goes_on != (done.status == 0):
        return f"status {done.status}"
    if "Traceback" in done.stderr:
        return "a trace instead of a line"
    missing = [word for word in case.words if word not in done.stderr]
    if missing:
        return f"stderr does not name {missing}: {done.stderr[-300:]}"
    if done.status == 2 and len([line for line in done.stderr.splitlines() if line.strip()]) > 4:
        return "more than a line"
    return _half_written(out, done.status)


def _half_written(out: Path, status: int) -> str:
    files = [path for path in out.rglob("*") if path.is_file()] if out.exists() else []
    loose = [path.name for path in files if path.suffix in (".tmp", ".part") or ".tmp" in path.name]
    if loose:
        return f"half-written: {loose}"
    if status == 0:
        folder = next(path for path in out.iterdir() if path.is_dir())
        checked = egospatial("check", folder)
        return "" if checked.status == 0 else f"check: {checked.stdout[-200:]}{checked.stderr[-200:]}"
    return ""


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _warning(text: str, words: tuple[str, ...]) -> str:
    lines = [line for line in text.splitlines() if all(word in line for word in words)]
    return lines[0] if lines else _last_line(text)
