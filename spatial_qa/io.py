"""Questions as JSON lines, and the audit summary of a set."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spatial_qa.errors import QuestionFileError
from spatial_qa.options import length_z
from spatial_qa.records import LETTERS, OPTION_COUNT, Certificate, Option, Question, QuestionSet

CHI_SQUARE_LIMIT = 24.32  # p = 0.001 at 7 degrees of freedom
MIN_FOR_CHI_SQUARE = 40  # five expected per position
MAX_MEAN_Z = 0.15
FREE_TEXT = (
    "nearest_object",
    "farthest_object",
    "highest_object",
    "lowest_object",
    "largest_object",
    "smallest_object",
    "object_behind",
    "moved_farthest",
    "event_between",
)


def to_line(question: Question) -> str:
    """A question as one line of JSON with sorted keys; unknown numbers are null."""
    return json.dumps(_null_for_nan(dataclasses.asdict(question)), sort_keys=True, ensure_ascii=False, allow_nan=False)


def from_line(line: str, where: str = "questions") -> Question:
    """Read a line back.

    Raises:
        QuestionFileError: if the line is cut off, lacks a field or has a key that no option carries.
    """
    try:
        row: dict[str, Any] = json.loads(line)
        certificate = dict(row["certificate"])
        for name in ("sigma", "margin", "required_margin"):
            certificate[name] = float("nan") if certificate[name] is None else float(certificate[name])
        pairs = {n: tuple((int(a), int(b)) for a, b in row[n]) for n in ("windows_ns", "windows_frames")}
        options = tuple(Option(**option) for option in row["options"])
        parts = {
            "certificate": Certificate(**certificate),
            "options": options,
            "verified_by": tuple(row["verified_by"]),
        }
        question = Question(**{**row, **pairs, **parts})
    except (ValueError, KeyError, TypeError) as error:
        raise QuestionFileError(f"{where}: no question ({error}). Run the ask stage again to write it anew.") from error
    if len(question.options) != OPTION_COUNT or question.key not in LETTERS:
        raise QuestionFileError(
            f"{where}: {question.qa_id} has {len(options)} options and key {question.key!r}, need 8 and A-H."
        )
    return question


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write one question per line, byte for byte the same for the same questions."""
    path.write_text("".join(to_line(question) + "\n" for question in questions), encoding="utf-8")


def read_questions(path: Path) -> list[Question]:
    """Read a file of questions; blank lines are skipped.

    Raises:
        QuestionFileError: with file and line number.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return [from_line(line, f"{path} line {i}") for i, line in enumerate(lines, 1) if line.strip()]


def audit(found: QuestionSet) -> dict[str, Any]:
    """Counts of questions and refusals, and the checks of the whole set."""
    by_template: dict[str, Counter[str]] = {}
    for refusal in found.refusals:
        by_template.setdefault(refusal.template, Counter())[refusal.reason] += 1
    return {
        "questions": len(found.questions),
        "questions_by_template": _sorted(Counter(q.template for q in found.questions)),
        "refusals": len(found.refusals),
        "refusals_by_reason": _sorted(Counter(r.reason for r in found.refusals)),
        "refusals_by_template": {name: _sorted(by_template[name]) for name in sorted(by_template)},
        "positions": positions(found.questions),
        "length": lengths(found.questions),
    }


def positions(questions: Sequence[Question]) -> dict[str, Any]:
    """How often the key stands at each letter, and whether that is even. Few questions are not enough evidence."""
    count = Counter(question.key for question in questions)
    histogram = {letter: count[letter] for letter in LETTERS}
    expected = len(questions) / OPTION_COUNT
    statistic = sum((n - expected) ** 2 / expected for n in histogram.values()) if questions else 0.0
    verdict = "pass" if statistic < CHI_SQUARE_LIMIT else "fail"
    if len(questions) < MIN_FOR_CHI_SQUARE:
        verdict = "not enough evidence"
    return {"histogram": histogram, "chi_square": round(statistic, 4), "limit": CHI_SQUARE_LIMIT, "verdict": verdict}


def lengths(questions: Sequence[Question]) -> dict[str, Any]:
    """Length of the key against the wrong options, for options in free text only."""
    found = [length_z(q.options) for q in questions if q.certificate.operation in FREE_TEXT]
    mean = sum(found) / len(found) if found else 0.0
    verdict = "pass" if abs(mean) <= MAX_MEAN_Z else "fail"
    if len(found) < MIN_FOR_CHI_SQUARE:
        verdict = "not enough evidence"
    return {"questions": len(found), "mean_z": round(mean, 4), "limit": MAX_MEAN_Z, "verdict": verdict}


def _sorted(counts: "Counter[str]") -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}


def _null_for_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _null_for_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_null_for_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
