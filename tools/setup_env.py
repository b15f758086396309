"""Create .venv with everything the project needs. Standard library only; idempotent; seconds when done before.

    python3 tools/setup_env.py [--venv .venv] [--no-system]

System packages are installed where apt-get and root are at hand; elsewhere the missing ones are named. sam2 is built
after torch, without build isolation and without its CUDA extension: in isolation its build pulls a second torch.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Debian package -> a shared library that shows it is there (None: a program in PATH)
SYSTEM_PACKAGES = {
    "libusb-1.0-0": "libusb-1.0.so.0",
    "libvulkan1": "libvulkan.so.1",
    "mesa-vulkan-drivers": "libvulkan_lvp.so",
    "libegl1": "libEGL.so.1",
    "libgl1": "libGL.so.1",
    "libx11-6": "libX11.so.6",
    "libidn2-0": "libidn2.so.0",
    "libudev1": "libudev.so.1",
    "libgomp1": "libgomp.so.1",
}
MIN_PYTHON = (3, 11)


def main() -> int:
    """Parse the command line and set up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--no-system", action="store_true", help="do not touch system packages")
    args = parser.parse_args()
    if sys.version_info < MIN_PYTHON:
        sys.exit(f"python {sys.version.split()[0]} is too old: need >= 3.11; call `make setup PYTHON=python3.11`")
    if not args.no_system:
        _system_packages()
    _python_packages(args.venv)
    return 0


def _system_packages() -> None:
    missing = [name for name, library in SYSTEM_PACKAGES.items() if not _has_library(library)]
    if not missing:
        return
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        _say(f"installing system packages: {' '.join(missing)}")
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=env, stdout=sys.stderr)
        done = subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
            check=False,
            env=env,
            stdout=sys.stderr,
        )
        if done.returncode == 0:
            return
    _say(
        f"missing system packages: {' '.join(missing)}. open3d needs libusb to import; the others draw pictures.\n"
        f"  as root: apt-get install {' '.join(missing)}   (going on without)"
    )


def _has_library(name: str) -> bool:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    if not Path(ldconfig).exists():
        return True  # not a glibc system: nothing to look up here, imports will tell
    listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    if name in listing:
        return True
    folders = ("/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib/x86_64-linux-gnu")
    return any((Path(folder) / name).exists() for folder in folders)


def _python_packages(venv: Path) -> None:
    stamp = venv / "egospatial-setup.txt"
    wanted = _fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    python = venv / "bin" / "python"
    if not python.exists():
        _say(f"creating {venv}")
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    _say("installing packages (some 8 GB, several minutes the first time)")
    _pip(python, "install", "--upgrade", "pip", "setuptools", "wheel")
    pinned = _constraints()
    names = _dependencies(python)
    _pip(python, "install", *pinned, *[name for name in names if not name.startswith("sam2")])
    sam2 = [name for name in names if name.startswith("sam2")]
    _pip(python, "install", *pinned, "--no-build-isolation", *sam2, env={"SAM2_BUILD_CUDA": "0"})
    _pip(python, "install", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    stamp.write_text(wanted)


def _constraints() -> list[str]:
    if platform.system() == "Linux" and platform.machine() == "x86_64" and sys.version_info[:2] == (3, 11):
        return ["-c", str(ROOT / "constraints.txt")]
    _say("constraints.txt was made on Linux x86_64 with python 3.11; here the newest versions in range are taken")
    return []


def _dependencies(python: Path) -> list[str]:
    code = (
        "import tomllib, sys\n"
        "project = tomllib.load(open(sys.argv[1], 'rb'))['project']\n"
        "print('\\n'.join(project['dependencies'] + project['optional-dependencies']['dev']))"
    )
    done = subprocess.run(
        [str(python), "-c", code, str(ROOT / "pyproject.toml")], capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[:-1]


def _pip(python: Path, *args: str, env: dict[str, str] | None = None) -> None:
    command = [str(python), "-m", "pip", args[0], "-q", "--disable-pip-version-check", *args[1:]]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        sys.exit(f"set-up failed: pip {' '.join(args[:6])} ... ended with status {done.returncode} (see above)")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt", "setup.py", "tools/setup_env.py"):
        digest.update((ROOT / name).read_bytes())
    return f"{digest.hexdigest()} {ROOT} python {sys.version.split()[0]}\n"


def _say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
