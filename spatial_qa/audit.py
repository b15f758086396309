"""Counts of a set of questions and the checks that need the whole set."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from spatial_qa.options import length_z
from spatial_qa.records import LETTERS, OPTION_COUNT, Question, QuestionSet

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


def audit(found: QuestionSet) -> dict[str, Any]:
    """Counts of questions and refusals, and the checks of the whole set."""
    by_template: dict[str, Counter[str]] = {}
    for refusal in found.refusals:
        by_template.setdefault(refusal.template, Counter())[refusal.reason] += 1
    return {
        "questions": len(found.questions),
        "questions_by_template": _sorted(Counter(q.template for q in found.questions)),
        "checks_passed": _sorted(Counter(check for q in found.questions for check in q.verified_by)),
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
