"""Replaying certificates: in the scene that they were made from, in a changed one, or in the exact truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spatial_qa.decide import Measurement
from spatial_qa.hashing import tidy
from spatial_qa.noise import Floors
from spatial_qa.operations import ID_OPERANDS, OPERATIONS, Unmeasured, measure
from spatial_qa.records import LETTERS, OPTION_COUNT, Certificate, Option, Question, QuestionScene
from spatial_qa.view import SceneView

SLACK_SIGMAS = 1.0
"""A question that was asked with its margin is withdrawn when the margin has shrunk by more than this."""
EQUAL = 1e-6


@dataclass(frozen=True)
class Verification:
    """A replay. ``holds``: the operation still chooses the key and the margin is still met (to one sigma)."""

    qa_id: str
    holds: bool
    reason: str  # "" if it holds; else why not
    letter: str | None
    value: Any
    sigma: float
    margin: float
    required_margin: float
    value_matches: bool  # the recomputed value is the recorded one


@dataclass(frozen=True)
class OtherAnswer:
    """What the same operation says in another scene: a letter, or None with the reason."""

    letter: str | None
    reason: str
    value: Any = None
    margin: float = float("nan")


def letter_of(options: Sequence[Option], operation: str, operands: Mapping[str, Any], found: Measurement) -> str | None:
    """The option that states a measurement's answer, or None."""
    value = said(operation, operands, found)
    if value is None:
        return None
    matches = [letter for letter, option in zip(LETTERS, options, strict=False) if tidy(option.value) == value]
    return matches[0] if len(matches) == 1 else None


def said(operation: str, operands: Mapping[str, Any], found: Measurement) -> Any:
    """A measurement's answer in the words of the options' values."""
    kind, answer = OPERATIONS[operation].kind, found.answer
    if answer is None:
        return None
    if kind == "ladder":
        return tidy(operands["rungs"][answer])
    if "cells" in operands:
        act, position = operands["cells"][answer]
        return [act, operands["labels"][position]]
    if kind == "object":
        return operands["labels"][answer]
    if kind == "objects":
        return [operands["labels"][i] for i in answer]
    return answer


def view_for(certificate: Certificate, scene: QuestionScene) -> SceneView:
    """A view of a scene with the floors that a certificate names."""
    return SceneView(scene, Floors(**certificate.operands.get("floors", {})))


def verify(question: Question, scene: QuestionScene, view: SceneView | None = None) -> Verification:
    """Re-execute a question's certificate.

    Args:
        question: The question as asked or as read from a file.
        scene: The scene it is about; it may have changed since.
        view: A view of the scene with the certificate's floors, to share its caches between questions.
    """
    broken = _structure(question)
    if broken:
        return _failed(question, broken)
    certificate = question.certificate
    if question.recording_id != scene.recording_id:
        return _failed(question, "other_recording")
    found = measure(view or view_for(certificate, scene), certificate.operation, certificate.operands)
    if isinstance(found, Unmeasured):
        return _failed(question, found.reason)
    letter = letter_of(question.options, certificate.operation, certificate.operands, found)
    reason = ""
    if letter != question.key:
        reason = "answer_changed"
    elif not found.margin >= found.required_margin - SLACK_SIGMAS * found.sigma:
        reason = "margin_lost"
    return Verification(
        question.qa_id,
        not reason,
        reason,
        letter,
        found.value,
        found.sigma,
        found.margin,
        found.required_margin,
        _equal(tidy(found.value), certificate.value),
    )


def verify_all(questions: Sequence[Question], scene: QuestionScene) -> list[Verification]:
    """Re-execute all certificates of a recording."""
    views: dict[str, SceneView] = {}
    out = []
    for question in questions:
        key = repr(sorted(question.certificate.operands.get("floors", {}).items()))
        if key not in views:
            views[key] = view_for(question.certificate, scene)
        out.append(verify(question, scene, views[key]))
    return out


def answer_on(question: Question, other_scene: QuestionScene, object_id_map: Mapping[int, int]) -> OtherAnswer:
    """The option that the question's operation gives in another scene, for example the exact truth.

    Margins are not asked for: the truth has an answer even where it is close.

    Args:
        question: A question about a lifted scene.
        other_scene: Another account of the same recording, on the same clock.
        object_id_map: Object ids of the question's scene -> ids of ``other_scene``.
    """
    certificate = question.certificate
    operands = dict(certificate.operands)
    for name in ID_OPERANDS:
        if name not in operands:
            continue
        ids = operands[name] if isinstance(operands[name], list) else [operands[name]]
        if any(i not in object_id_map for i in ids):
            return OtherAnswer(None, "object_not_mapped")
        mapped = [int(object_id_map[i]) for i in ids]
        operands[name] = mapped if isinstance(operands[name], list) else mapped[0]
    found = measure(view_for(certificate, other_scene), certificate.operation, operands)
    if isinstance(found, Unmeasured):
        return OtherAnswer(None, found.reason)
    letter = letter_of(question.options, certificate.operation, operands, found)
    return OtherAnswer(letter, "" if letter else "no_option_says_this", tidy(found.value), float(found.margin))


def _structure(question: Question) -> str:
    if len(question.options) != OPTION_COUNT or len({option.text for option in question.options}) != OPTION_COUNT:
        return "not_eight_options"
    if question.key not in LETTERS or question.certificate.operation not in OPERATIONS:
        return "key_or_operation_unknown"
    keys = [letter for letter, option in zip(LETTERS, question.options, strict=True) if option.origin == "key"]
    return "" if keys == [question.key] else "key_misplaced"


def _failed(question: Question, reason: str) -> Verification:
    nan = float("nan")
    return Verification(question.qa_id, False, reason, None, None, nan, nan, nan, False)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(_equal(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, (int, float)) and isinstance(second, (int, float)):
        return abs(first - second) <= EQUAL * max(1.0, abs(second))
    return bool(first == second)
