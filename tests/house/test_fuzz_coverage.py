"""Every registered reader and every parser of files has a fuzz test of at least 200 mutations."""

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

from geo.readers.registry import READERS

ROOT = Path(__file__).resolve().parents[2]
LEAST = 200
PARAMETERS = {"path", "folder"}
# Steps of a reader rather than readers: what calls them is fuzzed.
STEPS = {"read_text", "read_bytes", "read_rgb", "read_raw", "read_rows", "read_object_poses"}


def fuzzed_text(file: Path, source: str | None = None) -> str:
    """The text of a test file if it has a fuzz of 200 mutations or more, else nothing."""
    text = file.read_text() if source is None else source
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and "fuzz" in node.name:
            numbers = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is int]
            shared = any(isinstance(n, ast.Attribute) and n.attr == "fuzz" for n in ast.walk(node))
            if shared or any(number >= LEAST for number in numbers):
                return text
    return ""


@lru_cache
def fuzz_texts() -> str:
    return "\n".join(fuzzed_text(file) for file in sorted((ROOT / "tests/geo").glob("test_*.py")))


def parsers() -> list[str]:
    """Public functions ``read_...`` of geo.readers that take a path, apart from steps of a registered reader.

    What lies in a registered reader's own package is called by that reader alone, which has to be fuzzed itself.
    """
    names = []
    folder = ROOT / "geo/readers"
    for file in sorted(folder.rglob("*.py")):
        if file.relative_to(folder).parts[0] in READERS:
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("read_") and node.name not in STEPS:
                if node.args.args and node.args.args[0].arg in PARAMETERS:
                    names.append(node.name)
    return sorted(set(names))


@pytest.mark.parametrize("reader", READERS)
def test_every_registered_reader_is_fuzzed(reader):
    assert re.search(rf"\b{reader}\b", fuzz_texts()), (
        f"no test file with a fuzz of {LEAST} mutations speaks of {reader}"
    )


@pytest.mark.parametrize("parser", parsers())
def test_every_parser_is_fuzzed(parser):
    assert re.search(rf"\b{parser}\b", fuzz_texts()), f"no test file with a fuzz of {LEAST} mutations uses {parser}"


def test_a_file_without_a_fuzz_or_with_a_short_one_does_not_count():
    none = "from geo.readers import plain\ndef test_plain(): ..."
    short = "def test_fuzz_of_plain():\n    for _ in range(20): plain"
    assert fuzzed_text(ROOT, none) == fuzzed_text(ROOT, short) == ""
    assert fuzzed_text(ROOT, short.replace("20", "200")) and fuzzed_text(ROOT, "def test_fuzz():\n    fuzzing.fuzz()")
