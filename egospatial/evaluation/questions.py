"""Questions answered again on the truth: right, wrong with an explanation, or not decidable there."""

from dataclasses import dataclass, replace
from typing import Any

from egospatial.evaluation.aligned import Aligned
from egospatial.store import questions_file
from egospatial.workbench import question_scene
from geo.world import Gravity
from spatial_qa.records import Question, QuestionScene


@dataclass(frozen=True)
class WrongQuestion:
    """A question whose key is not what the truth says, with what is needed to see why."""

    qa_id: str
    template: str
    text: str
    key_text: str
    truth_text: str
    stored_value: Any
    truth_value: Any
    sigma: float
    margin: float
    operands: dict[str, Any]
    reason: str


@dataclass(frozen=True)
class QuestionScore:
    """``right`` of ``asked``; ``by_template``: name -> (right, asked)."""

    asked: int
    right: int
    by_template: dict[str, tuple[int, int]]
    wrong: tuple[WrongQuestion, ...]

    @property
    def share_right(self) -> float:
        """Share of questions whose key is right."""
        return self.right / self.asked if self.asked else float("nan")


def truth_scene(aligned: Aligned) -> QuestionScene:
    """What questions may be asked about, with everything replaced by the truth (gaze stays as recorded)."""
    stored = question_scene(aligned.folder, aligned.truth_in_world)
    world = stored.world
    turned = world.world_from_source_world @ aligned.truth.world_from_camera[aligned.truth_rows]
    gravity = Gravity.KNOWN if world.has_up else world.gravity
    exact = replace(world, gravity=gravity, up_sigma_rad=0.0 if world.has_up else world.up_sigma_rad)
    return replace(stored, world_from_camera=turned, world=exact)


def question_score(aligned: Aligned) -> QuestionScore:
    """Compare every stored key with the answer on the truth."""
    from spatial_qa.certificates import answer_on

    scene, stored = truth_scene(aligned), questions_file.read(aligned.folder)
    same_ids = {object_id: object_id for object_id in aligned.label_ids.values()}  # the truth scene uses stored ids
    tally: dict[str, list[int]] = {}
    wrong = []
    for question in stored.questions:
        answer = answer_on(question, scene, same_ids)
        row = tally.setdefault(question.template, [0, 0])
        row[1] += 1
        if answer.letter == question.key:
            row[0] += 1
        else:
            wrong.append(_explained(question, answer))
    right = sum(row[0] for row in tally.values())
    return QuestionScore(
        len(stored.questions), right, {name: (tally[name][0], tally[name][1]) for name in sorted(tally)}, tuple(wrong)
    )


def _explained(question: Question, answer: Any) -> WrongQuestion:
    texts = dict(zip("ABCDEFGH", (option.text for option in question.options), strict=False))
    certificate = question.certificate
    return WrongQuestion(
        qa_id=question.qa_id,
        template=question.template,
        text=question.text,
        key_text=texts.get(question.key, ""),
        truth_text=texts.get(answer.letter or "", "none of the options"),
        stored_value=certificate.value,
        truth_value=answer.value,
        sigma=certificate.sigma,
        margin=certificate.margin,
        operands=certificate.operands,
        reason=str(answer.reason),
    )
