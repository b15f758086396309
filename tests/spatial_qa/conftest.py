"""Questions from noisy copies of synthetic scenes, made once for all tests that look at many."""

import importlib.util
import sys
from pathlib import Path

import pytest

for _name in ("scenes", "changes"):  # helpers beside the tests; importlib mode puts no folder on the path
    _spec = importlib.util.spec_from_file_location(f"spatial_qa_{_name}", Path(__file__).with_name(f"{_name}.py"))
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[f"spatial_qa_{_name}"] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture(scope="session")
def asked():
    """(exact scene, noisy scene, questions asked of the noisy one), seven times; more than 2000 questions."""
    from spatial_qa_scenes import make_scene, noisy

    from spatial_qa import AskConfig, ask

    config = AskConfig(max_questions=1000, per_template=14, tries_per_template=150)
    out = []
    for seed in range(7):
        scene = make_scene(seed, moves=(4, 5, 6, 4)[seed % 4], seconds=(20.0, 26.0)[seed % 2])
        lifted = noisy(scene, 500 + seed)
        out.append((scene, lifted, ask(lifted, config)))
    return out
