"""questions.jsonl (questions with certificates) and audit.json (what was refused, and why)."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egospatial.store import layout
from egospatial.store.atomic import read_json, read_jsonl, write_json, write_jsonl
from spatial_qa.records import Certificate, Option, Question, QuestionSet, Refusal

SCHEMA = "egospatial.questions/1"
AUDIT_SCHEMA = "egospatial.audit/1"


def write(folder: Path, questions: QuestionSet) -> None:
    """Write both files."""
    rows = [asdict(question) for question in questions.questions]
    write_jsonl(folder / layout.QUESTIONS, [{"schema": SCHEMA, "rows": len(rows)}, *rows])
    write_json(folder / layout.AUDIT, audit(questions))


def audit(questions: QuestionSet) -> dict[str, Any]:
    """Counts of questions and refusals by template, reason and check, and the refusals themselves."""
    asked, refused = questions.questions, questions.refusals
    checks = Counter(check for question in asked for check in question.verified_by)
    by_reason: dict[str, Counter[str]] = {}
    for refusal in refused:
        by_reason.setdefault(refusal.template, Counter())[refusal.reason] += 1
    return {
        "schema": AUDIT_SCHEMA,
        "questions": len(asked),
        "questions_by_template": _sorted(Counter(question.template for question in asked)),
        "keys": _sorted(Counter(question.key for question in asked)),
        "checks_passed": _sorted(checks),
        "refusals": len(refused),
        "refusals_by_reason": _sorted(Counter(refusal.reason for refusal in refused)),
        "refusals_by_template": {name: _sorted(by_reason[name]) for name in sorted(by_reason)},
        "refused": [asdict(refusal) for refusal in refused],
    }


def read(folder: Path) -> QuestionSet:
    """Read both files."""
    rows = read_jsonl(folder / layout.QUESTIONS, SCHEMA)
    document = read_json(folder / layout.AUDIT, AUDIT_SCHEMA)
    return QuestionSet(tuple(_question(row) for row in rows), tuple(_refusal(row) for row in document["refused"]))


def _question(row: dict[str, Any]) -> Question:
    certificate = dict(row["certificate"])
    for name in ("sigma", "margin", "required_margin"):
        certificate[name] = float("nan") if certificate[name] is None else certificate[name]
    pairs = {name: tuple((int(a), int(b)) for a, b in row[name]) for name in ("windows_ns", "windows_frames")}
    return Question(
        **{
            **row,
            **pairs,
            "options": tuple(Option(**option) for option in row["options"]),
            "certificate": Certificate(**certificate),
            "verified_by": tuple(row["verified_by"]),
        }
    )


def _refusal(row: dict[str, Any]) -> Refusal:
    numbers = {name: float("nan") if row[name] is None else row[name] for name in ("measured", "required")}
    return Refusal(**{**row, **numbers})


def _sorted(counts: "Counter[str]") -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
