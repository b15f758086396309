"""Stage 6: questions that a scene can answer with a margin, and a count of those that it cannot."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from spatial_qa.certificates import letter_of
from spatial_qa.decide import Measurement
from spatial_qa.errors import QuestionError
from spatial_qa.hashing import digest, tidy
from spatial_qa.noise import Floors
from spatial_qa.operations import OPERATIONS, Unmeasured, measure
from spatial_qa.options import NoPlan, lay_out
from spatial_qa.records import Certificate, Question, QuestionScene, QuestionSet, Refusal
from spatial_qa.templates import TEMPLATES, Candidate, Limits, Stage, Template
from spatial_qa.view import SceneView

UNORDERED = ("S5", "S6", "S7", "M1", "O1", "O2")
"""Templates whose objects make one question in any order."""

CHECKS = ("margin", "eight_options", "certificate_replayed")


@dataclass(frozen=True)
class AskConfig:
    """Settings of the ask stage."""

    max_questions: int = 100
    """At most so many questions of one recording."""
    per_template: int = 6
    """At most so many questions of one template."""
    tries_per_template: int = 200
    """So many candidates of a template are computed, in the order of their hash; the rest is counted."""
    pool_per_template: int = 18
    """Computing stops when a template has so many questions to choose from."""
    seed: int = 0
    """Another seed asks other questions and orders options otherwise."""
    templates: tuple[str, ...] = ()
    """Only these templates; empty means all."""
    limits: Limits = field(default_factory=Limits)
    """Moments, windows and visibility."""
    floors: Floors = field(default_factory=Floors)
    """Systematic errors below which no sigma is believed."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("max_questions", "per_template", "tries_per_template", "pool_per_template"):
            if getattr(self, name) < 1:
                raise QuestionError(f"setting ask.{name} = {getattr(self, name)}: expected at least 1.")
        unknown = sorted(set(self.templates) - set(TEMPLATES))
        if unknown:
            raise QuestionError(f"setting ask.templates: {unknown} unknown; there are: {', '.join(TEMPLATES)}.")


@dataclass(frozen=True)
class _Found:
    question: Question
    answer: Any
    subjects: tuple[int, ...]


def ask(scene: QuestionScene, config: AskConfig | None = None) -> QuestionSet:
    """Enumerate, compute, refuse, and choose a balanced set; the same input gives the same bytes.

    Returns:
        Questions in the order of template and time, and one refusal per candidate that was computed in vain
        (or per template that the scene does not allow at all).
    """
    config = config or AskConfig()
    if not len(scene.timestamps_ns):
        return QuestionSet((), (Refusal("all", "no_frames", {}),))
    stage = Stage(SceneView(scene, config.floors), config.limits)
    pools: dict[str, list[_Found]] = {}
    refusals: list[Refusal] = _unnamed(stage)
    for template in TEMPLATES.values():
        if config.templates and template.name not in config.templates:
            continue
        found, refused = _pool(template, stage, config)
        refusals += refused
        if found:
            pools[template.name] = found
    return QuestionSet(tuple(_choose(pools, config)), tuple(refusals))


def _unnamed(stage: Stage) -> list[Refusal]:
    """Objects that no text can point at, because another one has the same label."""
    ids = [i for i in sorted(stage.view.objects) if i not in stage.labels]
    return [Refusal("all", "reference_not_unique", {"object": i, "label": stage.view.objects[i].label}) for i in ids]


def _pool(template: Template, stage: Stage, config: AskConfig) -> tuple[list[_Found], list[Refusal]]:
    reason = _gate(template, stage)
    if reason:
        return [], [Refusal(template.name, reason, {})]
    candidates = list(template.candidates(stage))
    if not candidates:
        return [], [Refusal(template.name, "no_candidates", {})]
    keyed = sorted((digest(config.seed, template.name, *_identity(c)), i) for i, c in enumerate(candidates))
    found: list[_Found] = []
    refused: list[Refusal] = []
    for tried, (_, index) in enumerate(keyed):
        if tried >= config.tries_per_template or len(found) >= config.pool_per_template:
            break
        result = build(template, candidates[index], stage.view, config.seed)
        if isinstance(result, Refusal):
            refused.append(result)
        else:
            found.append(result)
    return found, refused


def _gate(template: Template, stage: Stage) -> str:
    """Why a template cannot be asked at all of a scene, or an empty text."""
    world = stage.view.scene.world
    if template.needs_up and not world.has_up:
        return "gravity_unknown"
    if template.needs_scale and not world.metric:
        return "scale_unknown"
    if template.needs_gaze and stage.view.scene.gaze is None:
        return "no_gaze"
    if template.speaks_of_motion and stage.limits.ask_motion_only_if_moved and not stage.moved:
        return "nothing_moved"
    return ""


def _identity(candidate: Candidate) -> tuple[Any, ...]:
    """What a question is about: not the numbers of its scene, which may be measured anew."""
    return candidate.operation, candidate.text, candidate.operands.get("labels", [])


def build(template: Template, candidate: Candidate, view: SceneView, seed: int) -> _Found | Refusal:
    """Compute a candidate's answer, make its options, and replay its certificate; or say why not."""
    operands = tidy(candidate.operands)
    scene = view.scene
    qa_id = f"{template.name}-{digest(scene.recording_id, seed, template.name, *_identity(candidate)):016x}"

    def refuse(reason: str, measured: float = float("nan"), required: float = float("nan")) -> Refusal:
        return Refusal(template.name, reason, operands, float(measured), float(required))

    found = measure(view, candidate.operation, operands)
    if isinstance(found, Unmeasured):
        return refuse(found.reason)
    if OPERATIONS[candidate.operation].kind != "ladder":
        if found.answer is None:
            return refuse("no_answer")
        if not found.decided:
            return refuse("margin_not_met", found.margin, found.required_margin)
    plan = candidate.options(found, operands, qa_id)
    if isinstance(plan, NoPlan):
        return refuse(plan.reason, plan.measured, plan.required)
    operands = {**operands, **tidy(plan.extra)}
    final = measure(view, candidate.operation, operands)
    if isinstance(final, Unmeasured) or not final.decided:
        return refuse("margin_not_met", getattr(final, "margin", float("nan")), getattr(final, "required_margin", 0.0))
    options, key = lay_out(plan, qa_id)
    if letter_of(options, candidate.operation, operands, final) != key:
        return refuse("certificate_not_replayed")
    operands.pop("asides", None)
    question = Question(
        qa_id,
        template.name,
        template.track,
        template.subtrack,
        scene.recording_id,
        tuple((int(a), int(b)) for a, b in candidate.windows_ns),
        tuple((view.frame(a), view.frame(b)) for a, b in candidate.windows_ns),
        {name: value for name, value in operands.items() if name not in ("rungs", "ratio", "cells")},
        candidate.text,
        options,
        key,
        _certificate(candidate.operation, operands, final, view.floors),
        CHECKS,
    )
    return _Found(question, tidy(final.answer), candidate.subjects)


def _certificate(name: str, operands: dict[str, Any], found: Measurement, floors: Floors) -> Certificate:
    return Certificate(
        name,
        {**operands, "floors": tidy(dataclasses.asdict(floors))},
        tidy(found.value),
        tidy(float(found.sigma)),
        tidy(float(found.margin)),
        tidy(float(found.required_margin)),
    )


def _choose(pools: dict[str, list[_Found]], config: AskConfig) -> list[Question]:
    """Round robin over templates; within one, the question whose answer and objects were asked for least.

    Two questions of a template about the same objects with the same answer are one question.
    """
    chosen: list[Question] = []
    answers: Counter[str] = Counter()
    subjects: Counter[int] = Counter()
    letters: Counter[str] = Counter()
    told: set[str] = set()
    for _ in range(config.per_template):
        for name, pool in pools.items():
            if len(chosen) >= config.max_questions:
                break
            fresh = [found for found in pool if _story(name, found) not in told]
            if not fresh:
                continue

            def cost(found: _Found, name: str = name) -> tuple[int, int, int, str]:
                used = sum(subjects[i] for i in found.subjects)
                return answers[_answer(name, found)], used, letters[found.question.key], found.question.qa_id

            best = min(fresh, key=cost)
            pool.remove(best)
            told.add(_story(name, best))
            answers[_answer(name, best)] += 1
            letters[best.question.key] += 1
            subjects.update(best.subjects)
            chosen.append(best.question)
    rank = {name: i for i, name in enumerate(TEMPLATES)}
    return sorted(chosen, key=lambda q: (rank[q.template], q.windows_ns, q.qa_id))


def _answer(name: str, found: _Found) -> str:
    key = next(option for option in found.question.options if option.origin == "key")
    return f"{name}|{found.answer if 'rungs' in found.question.certificate.operands else key.value}"


def _story(name: str, found: _Found) -> str:
    """What makes two questions of a template one and the same."""
    question = found.question
    key = next(option.value for option in question.options if option.origin == "key")
    ladder = "rungs" in question.certificate.operands
    if name == "M4":  # what stands on one table has one height: asked once
        return f"{name}|{question.certificate.value:.1f}"
    if not found.subjects:
        return f"{name}|{question.text}|{key}"
    about = sorted(found.subjects) if name in UNORDERED else list(found.subjects)
    when = question.operands["time_ns"] if name == "M3" else 0  # the wearer moves: another distance
    return f"{name}|{about}|{'' if ladder else key}|{when}"


__all__ = ["AskConfig", "Floors", "Limits", "ask"]
