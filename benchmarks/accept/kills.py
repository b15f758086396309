"""Letter C of issue 1: five kills at random moments in one continued run change nothing in the result.

Three moments are drawn over the time to the end of the fit, two over the stages that follow it.
"""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.accept.harness import ROOT, Letter

MEASUREMENTS = {"run.json", "review.sqlite"}
FIT = "reconstruct"
LATER_STAGES = ("track", "lift", "depth", "ask")


def content(folder: Path) -> dict[str, str]:
    """Hash of every file of a finished folder, apart from measurements."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in MEASUREMENTS
    }


def done_stages(folder: Path) -> dict[str, str]:
    """Finished stages with the moment that each was finished."""
    ledger = folder / "run.json"
    if not ledger.exists():
        return {}
    stages = json.loads(ledger.read_text())["stages"]
    return {name: json.dumps(s, sort_keys=True) for name, s in stages.items() if s.get("status") == "done"}


def seconds_of(folder: Path, stage: str) -> float:
    """How long a finished stage took."""
    return float(json.loads((folder / "run.json").read_text())["stages"][stage]["seconds"])


def kill_after(command: list[str], seconds: float, folder: Path | None = None, stage: str = "") -> bool:
    """Start the command in its own process group and kill -9 the group; False if it ended before.

    With ``stage`` the seconds count from the moment when that stage is finished in ``folder``.
    """
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while stage and folder is not None and stage not in done_stages(folder) and process.poll() is None:
        time.sleep(0.1)
    try:
        process.wait(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def random_waits(total_s: float, kills: int, rng: secrets.SystemRandom, share: float = 0.7) -> list[float]:
    """Random moments; the killed runs together are well shorter than a whole one (the machine may be quieter now)."""
    shares = [rng.expovariate(1.0) for _ in range(kills + 1)]
    return [max(1.0, share * total_s * part / sum(shares)) for part in shares[:kills]]


def measure_kills(letter: Letter, command: list[str], killed_dir: Path, whole_dir: Path, kills: int = 5) -> None:
    """``command`` takes the output folder as its last argument."""
    start = time.monotonic()
    whole = subprocess.run([*command, str(whole_dir)], cwd=ROOT, capture_output=True, text=True)
    total = time.monotonic() - start
    letter.true("uninterrupted run ends", whole.returncode == 0, f"status {whole.returncode} in {total:.0f} s")
    folder_name = next(p.name for p in whole_dir.iterdir() if p.is_dir())
    after_fit = sum(seconds_of(whole_dir / folder_name, name) for name in LATER_STAGES)
    rng = secrets.SystemRandom()
    moments = [("", wait) for wait in random_waits(total - after_fit, kills - 2, rng)]
    moments += [(FIT, wait) for wait in random_waits(after_fit, 2, rng)]
    before: dict[str, str] = {}
    recomputed: set[str] = set()
    landed = 0
    for stage, wait in moments:
        landed += kill_after([*command, str(killed_dir)], wait, killed_dir / folder_name, stage)
        now = done_stages(killed_dir / folder_name)
        recomputed |= {name for name, entry in before.items() if now.get(name) != entry}
        letter.note(f"killed {wait:.1f} s after {stage or 'its start'}; finished stages: {', '.join(now) or 'none'}")
        before = now
    last = subprocess.run([*command, str(killed_dir)], cwd=ROOT, capture_output=True, text=True)
    now = done_stages(killed_dir / folder_name)
    recomputed |= {name for name, entry in before.items() if now.get(name) != entry}
    letter.at_least("kills that landed", landed, kills)
    letter.true("continued run ends", last.returncode == 0, f"status {last.returncode}")
    letter.true("finished stages not recomputed", not recomputed, ", ".join(sorted(recomputed)) or "none recomputed")
    one, two = content(whole_dir / folder_name), content(killed_dir / folder_name)
    different = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
    letter.true("same content", not different, ", ".join(different) or f"{len(one)} files equal")
    if last.returncode or whole.returncode:
        print(whole.stderr[-2000:], last.stderr[-2000:], file=sys.stderr)
