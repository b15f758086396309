"""Questions and refusals as rows that JSON can hold, and back. Files are the front door's business."""

import dataclasses
from typing import Any

from spatial_qa.errors import QuestionFileError
from spatial_qa.records import LETTERS, OPTION_COUNT, Certificate, Option, Question, Refusal


def question_to_row(question: Question) -> dict[str, Any]:
    """A question as nested dicts and lists; unknown numbers are None."""
    row: dict[str, Any] = _none_for_nan(dataclasses.asdict(question))
    return row


def question_from_row(row: dict[str, Any], where: str = "questions") -> Question:
    """The question of a row.

    Raises:
        QuestionFileError: a field is missing or unknown, not eight options, or a key that is no letter of theirs.
    """
    try:
        certificate = dict(row["certificate"])
        for name in ("sigma", "margin", "required_margin"):
            certificate[name] = _nan_for_none(certificate[name])
        pairs = {n: tuple((int(a), int(b)) for a, b in row[n]) for n in ("windows_ns", "windows_frames")}
        parts = {
            "certificate": Certificate(**certificate),
            "options": tuple(Option(**option) for option in row["options"]),
            "verified_by": tuple(row["verified_by"]),
        }
        question = Question(**{**row, **pairs, **parts})
    except (ValueError, KeyError, TypeError) as error:
        raise QuestionFileError(f"{where}: no question ({error}). Run the ask stage again to write it anew.") from error
    if len(question.options) != OPTION_COUNT or question.key not in LETTERS:
        raise QuestionFileError(
            f"{where}: {question.qa_id} has {len(question.options)} options and key {question.key!r}, need 8 and A-H."
        )
    return question


def refusal_to_row(refusal: Refusal) -> dict[str, Any]:
    """A refusal as a dict; unknown numbers are None."""
    row: dict[str, Any] = _none_for_nan(dataclasses.asdict(refusal))
    return row


def refusal_from_row(row: dict[str, Any], where: str = "refusals") -> Refusal:
    """The refusal of a row.

    Raises:
        QuestionFileError: a field is missing or unknown.
    """
    try:
        return Refusal(
            **{**row, "measured": _nan_for_none(row["measured"]), "required": _nan_for_none(row["required"])}
        )
    except (ValueError, KeyError, TypeError) as error:
        raise QuestionFileError(f"{where}: no refusal ({error}). Run the ask stage again to write it anew.") from error


def _nan_for_none(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _none_for_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _none_for_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_none_for_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
