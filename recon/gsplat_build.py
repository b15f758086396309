"""gsplat builds its CUDA code at first use: for this device alone and on all cores, a matter of two minutes."""

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

_TOOLKITS = (Path("/usr/local/cuda"), Path("/opt/cuda"))


def build_settings(
    capability: tuple[int, int],
    cores: int,
    nvcc: Path | None,
    header_folders: Sequence[Path],
    given: Mapping[str, str],
    toolkits: Sequence[Path] = _TOOLKITS,
) -> dict[str, str]:
    """Environment variables that the build needs and that nobody has set.

    * TORCH_CUDA_ARCH_LIST: the device's own architecture; all of torch's would take ten times as long.
    * MAX_JOBS: one compiler a core.
    * CUDA_HOME: the toolkit itself. torch takes the folder above ``nvcc``'s, which is wrong if that is a wrapper.
    * CPATH: where torch's wheels bring headers (cusparse and the like) that a small toolkit lacks.

    Args:
        capability: Compute capability of the device, as (9, 0).
        cores: How many compilers may run.
        nvcc: The compiler on the path, None if there is none.
        header_folders: Folders of headers that came with torch.
        given: The environment.
        toolkits: Where else a toolkit may lie.
    """
    found = {"TORCH_CUDA_ARCH_LIST": f"{capability[0]}.{capability[1]}", "MAX_JOBS": str(max(1, cores))}
    places = ([nvcc.resolve().parent.parent] if nvcc else []) + list(toolkits)
    homes = [place for place in places if (place / "bin" / "nvcc").exists() and _has(place, "cuda_runtime.h")]
    if homes:
        found["CUDA_HOME"] = str(homes[0])
    home = given.get("CUDA_HOME") or given.get("CUDA_PATH") or found.get("CUDA_HOME")
    settings = {name: value for name, value in found.items() if name not in given}
    if "CUDA_PATH" in given:
        settings.pop("CUDA_HOME", None)
    extra = [str(folder) for folder in header_folders if (folder / "cusparse.h").exists()]
    if home and not _has(Path(home), "cusparse.h") and extra:
        already = [part for part in given.get("CPATH", "").split(os.pathsep) if part]
        settings["CPATH"] = os.pathsep.join(dict.fromkeys([*already, *extra]))
    return settings


def why_no_build(
    built: bool, nvcc: Path | None, given: Mapping[str, str], toolkits: Sequence[Path] = _TOOLKITS
) -> str | None:
    """Why gsplat's CUDA code can be neither loaded nor built, or None if it can.

    Args:
        built: Whether gsplat brings its code built (a wheel for one torch and CUDA).
        nvcc: The compiler on the path, None if there is none.
        given: The environment.
        toolkits: Where else a toolkit may lie.
    """
    if built or nvcc is not None:
        return None
    homes = [Path(given[name]) for name in ("CUDA_HOME", "CUDA_PATH") if given.get(name)] + list(toolkits)
    if any((home / "bin" / "nvcc").exists() for home in homes):
        return None
    return "gsplat's CUDA code is not built and there is no CUDA compiler (nvcc) to build it"


def no_build_here() -> str | None:
    """``why_no_build`` of this machine. Imports gsplat, builds nothing."""
    nvcc = shutil.which("nvcc")
    built = importlib.util.find_spec("gsplat.csrc") is not None
    return why_no_build(built, Path(nvcc) if nvcc else None, os.environ)


def prepare_build() -> None:
    """Set these variables for this process. Needs a CUDA device."""
    import torch

    nvcc = shutil.which("nvcc")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    folders: list[Path] = []
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or [] if spec else []:
        folders += sorted(Path(root).glob("*/include"))
    capability = torch.cuda.get_device_capability()
    os.environ.update(build_settings(capability, cores, Path(nvcc) if nvcc else None, folders, os.environ))


def _has(toolkit: Path, header: str) -> bool:
    return any((toolkit / place / header).exists() for place in ("include", "targets/x86_64-linux/include"))
