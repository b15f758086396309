"""Scenes that several tests of lifting share (ray-cast once per session)."""

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("lifting_scene", Path(__file__).parent / "scene.py")
assert _spec is not None and _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
sys.modules["lifting_scene"] = _module
_spec.loader.exec_module(_module)


@pytest.fixture(scope="session")
def kit():
    """The module with the ray-cast kitchen."""
    return _module
