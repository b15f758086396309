"""The house's own rules: direction of imports, light imports, set-up recipe, package metadata."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ORDER = ["cuda_kernels", "geo", "recon", "tracking", "lifting", "spatial_qa", "egospatial"]
HEAVY = {"torch", "open3d", "sam2", "gsplat", "kornia", "torchvision", "projectaria_tools"}


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a module imports anywhere, in functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names & set(ORDER)


def violations(room: str, path: Path) -> set[str]:
    """Rooms to the right of ``room`` that the file imports."""
    return {other for other in imported_rooms(path) if ORDER.index(other) > ORDER.index(room)}


@pytest.mark.parametrize("room", ORDER)
def test_a_room_imports_only_rooms_to_its_left(room):
    bad = {str(p.relative_to(ROOT)): v for p in (ROOT / room).rglob("*.py") if (v := violations(room, p))}
    assert bad == {}


def test_an_import_to_the_right_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    from lifting.records import Event\n    return Event\n")
    assert violations("geo", wrong) == {"lifting"}


def loaded_after(code: str) -> set[str]:
    """Heavy packages that a fresh interpreter has loaded after running the code."""
    probe = f"{code}\nimport sys\nprint(' '.join(sorted(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split("\n")[-2].split()) & HEAVY


@pytest.mark.parametrize("room", ORDER)
def test_importing_a_room_loads_no_heavy_package(room):
    assert loaded_after(f"import {room}") == set()


def test_a_heavy_import_would_be_found():
    assert "kornia" in loaded_after("import sys, types; sys.modules['kornia'] = types.ModuleType('kornia')")


def test_ranges_not_pins_in_the_package_and_pins_in_the_constraints():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if "==" in name]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines and all("==" in line for line in lines)


def test_required_packages_are_declared():
    names = " ".join(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    required = "gsplat torch sam2 open3d projectaria-tools scipy trimesh kornia numba h5py".split()
    assert [name for name in required if name not in names] == []


def test_no_machine_path_and_no_pickle_in_the_tree():
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    banned = ("/wo" + "rk/", "allow_pickle=Tr" + "ue", "weights_only=Fal" + "se", "import pick" + "le")
    found = [
        (name, word)
        for name in listing.splitlines()
        if (path := ROOT / name).suffix in {".py", ".md", ".toml", ".txt", ".yaml", ".json", ""} and path.is_file()
        for word in banned
        if word in path.read_text(errors="ignore")
    ]
    allowed = [(n, w) for n, w in found if n.startswith("tests/") and "pick" in w]  # attack files made in tests
    assert [hit for hit in found if hit not in allowed] == []
