"""Makers of small scenes (``splat_scenes``) are importable by name from every test of this room."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
