"""questions.jsonl (questions with certificates) and audit.json (what was refused, and why)."""

from pathlib import Path

from egospatial.store import layout
from egospatial.store.atomic import read_json, read_jsonl, write_json, write_jsonl
from spatial_qa.audit import audit
from spatial_qa.records import QuestionSet
from spatial_qa.rows import question_from_row, question_to_row, refusal_from_row, refusal_to_row

SCHEMA = "egospatial.questions/1"
AUDIT_SCHEMA = "egospatial.audit/1"


def write(folder: Path, questions: QuestionSet) -> None:
    """Write both files."""
    rows = [question_to_row(question) for question in questions.questions]
    write_jsonl(folder / layout.QUESTIONS, [{"schema": SCHEMA, "rows": len(rows)}, *rows])
    refused = [refusal_to_row(refusal) for refusal in questions.refusals]
    write_json(folder / layout.AUDIT, {"schema": AUDIT_SCHEMA, **audit(questions), "refused": refused})


def read(folder: Path) -> QuestionSet:
    """Read both files."""
    rows = read_jsonl(folder / layout.QUESTIONS, SCHEMA)
    document = read_json(folder / layout.AUDIT, AUDIT_SCHEMA)
    where = str(folder / layout.QUESTIONS)
    return QuestionSet(
        tuple(question_from_row(row, f"{where} line {number}") for number, row in enumerate(rows, start=2)),
        tuple(refusal_from_row(row, str(folder / layout.AUDIT)) for row in document.get("refused", [])),
    )
