"""``egospatial verify``: every certificate executed again, from the stored files alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egospatial.reporting import Reporter
from egospatial.store import questions_file
from egospatial.workbench import question_scene

if TYPE_CHECKING:
    from spatial_qa.certificates import Verification


@dataclass(frozen=True)
class Verified:
    """Outcome for one question."""

    qa_id: str
    template: str
    holds: bool
    reason: str


def verify_folder(folder: Path) -> list[Verified]:
    """Replay the certificate of every question of a finished folder.

    Raises:
        StoreError: a file is missing or damaged.
    """
    from spatial_qa.certificates import verify_all

    stored = questions_file.read(folder).questions
    results = verify_all(stored, question_scene(folder))
    return [
        Verified(question.qa_id, question.template, result.holds and result.value_matches, _why_not(result))
        for question, result in zip(stored, results, strict=True)
    ]


def _why_not(result: "Verification") -> str:
    if result.holds:
        return "" if result.value_matches else f"value is {result.value}, another one was recorded"
    return result.reason


def verify_command(reporter: Reporter, folder: Path) -> bool:
    """Body of the command; True if every certificate holds."""
    outcomes = verify_folder(folder)
    failed = [item for item in outcomes if not item.holds]
    document: dict[str, Any] = {
        "questions": len(outcomes),
        "verified": len(outcomes) - len(failed),
        "failed": [vars(item) for item in failed],
    }
    for item in failed:
        reporter.text(f"{item.qa_id} ({item.template}): {item.reason}")
    reporter.text(f"{document['verified']} of {document['questions']} questions verified")
    reporter.result(document)
    return not failed
