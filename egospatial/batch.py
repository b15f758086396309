"""Several recordings: one that fails stops no other."""

import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_kernels.errors import InputError
from egospatial.reporting import UNUSABLE_PATH

DONE, FAILED, WRONG_INPUT = 0, 1, 2


@dataclass(frozen=True)
class Result:
    """What came of one recording: its summary, or what went wrong."""

    source: Path
    status: int
    document: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    trace: str = ""


def exit_status(results: Sequence[Result]) -> int:
    """0 all done; 2 if the input was wrong and nothing was done; 1 if some failed or the fault is ours."""
    failed = [result for result in results if result.status != DONE]
    if not failed:
        return DONE
    nothing_done = len(failed) == len(results)
    return WRONG_INPUT if nothing_done and all(result.status == WRONG_INPUT for result in failed) else FAILED


def run_here(sources: Sequence[Path], run_one: Callable[[Path], dict[str, Any]]) -> list[Result]:
    """One after the other in this process."""
    return [_guarded(source, run_one) for source in sources]


def _guarded(source: Path, run_one: Callable[[Path], dict[str, Any]]) -> Result:
    try:
        return Result(source, DONE, run_one(source))
    except InputError as error:
        return Result(source, WRONG_INPUT, error=one_line(error))
    except OSError as error:
        if error.errno in UNUSABLE_PATH:
            return Result(source, WRONG_INPUT, error=one_line(error))
        return _failed(source, error)
    except Exception as error:
        return _failed(source, error)


def _failed(source: Path, error: Exception) -> Result:
    return Result(source, FAILED, error=f"{type(error).__name__}: {one_line(error)}", trace=traceback.format_exc())


def run_in_processes(
    sources: Sequence[Path], arguments: Sequence[str], jobs: int, say: Callable[[str], None]
) -> list[Result]:
    """Each recording in a process of its own, ``jobs`` at a time; even a crash of one stops no other.

    Args:
        sources: The recordings.
        arguments: Options of ``egospatial run`` that all share.
        jobs: How many at a time.
        say: Told a line when a recording ends.
    """

    def one(source: Path) -> Result:
        command = [sys.executable, "-m", "egospatial", "run", str(source), "--json", "--quiet", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        result = _result_of(source, ended)
        say(f"{source}: {'done' if result.status == DONE else result.error}")
        return result

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(one, sources))


def _result_of(source: Path, ended: "subprocess.CompletedProcess[str]") -> Result:
    try:
        document = json.loads(ended.stdout)["recordings"][0]
    except (ValueError, KeyError, IndexError):
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        status = WRONG_INPUT if ended.returncode == WRONG_INPUT else FAILED
        how = f"process ended by signal {-ended.returncode}: " if ended.returncode < 0 else ""
        return Result(source, status, error=f"{how}{last}", trace=ended.stderr)
    if ended.returncode == DONE:
        return Result(source, DONE, document)
    return Result(source, ended.returncode, error=str(document.get("error", "")), trace=str(document.get("trace", "")))


def one_line(error: BaseException) -> str:
    """An error's text on one line."""
    return " ".join(str(error).split())
