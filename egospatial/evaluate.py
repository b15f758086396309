"""A finished folder against exact truth: one record with every figure, and its table."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egospatial.evaluation.aligned import align
from egospatial.evaluation.depth import DepthErrors, depth_errors
from egospatial.evaluation.events import EventScore, event_score
from egospatial.evaluation.masks import MaskScore, mask_scores
from egospatial.evaluation.places import RestScore, rest_scores
from egospatial.evaluation.questions import QuestionScore, question_score
from egospatial.reporting import Reporter


@dataclass(frozen=True)
class Evaluation:
    """All figures of one recording. Objects are matched by label; a missing object counts against."""

    recording_id: str
    static_depth: DepthErrors
    carried_depth: DepthErrors
    masks: tuple[MaskScore, ...]
    rests: tuple[RestScore, ...]
    events: EventScore
    questions: QuestionScore

    @property
    def mean_j_compact(self) -> float:
        """Mean over compact (not thin) objects of each one's mean J while visible."""
        values = [item.mean_j for item in self.masks if not item.thin and item.frames_visible]
        return float(np.mean(values)) if values else float("nan")

    @property
    def rest_errors_m(self) -> np.ndarray:
        """Errors of box centres over the rest intervals whose place is known."""
        errors = np.array([item.error_m for item in self.rests], dtype=np.float64)
        return errors[np.isfinite(errors)]

    @property
    def rest_missing(self) -> int:
        """Rest intervals at whose middle the stored trajectory knows no place."""
        return len(self.rests) - len(self.rest_errors_m)

    def document(self) -> dict[str, Any]:
        """JSON-able: headline figures first, then everything they come from."""
        errors = self.rest_errors_m
        return {
            "recording_id": self.recording_id,
            "static_depth_abs_rel_median": self.static_depth.abs_rel_median,
            "carried_depth_abs_rel_median": self.carried_depth.abs_rel_median,
            "mean_j_compact": self.mean_j_compact,
            "rest_error_median_m": quantile(errors, 0.5),
            "rest_error_p95_m": quantile(errors, 0.95),
            "rest_intervals": len(self.rests),
            "rest_missing": self.rest_missing,
            "event_recall": self.events.recall,
            "event_precision": self.events.precision,
            "questions": self.questions.asked,
            "questions_right": self.questions.right,
            "questions_share_right": self.questions.share_right,
            "static_depth": asdict(self.static_depth),
            "carried_depth": asdict(self.carried_depth),
            "masks": [asdict(item) for item in self.masks],
            "rests": [asdict(item) for item in self.rests],
            "events": asdict(self.events),
            "questions_by_template": {name: list(row) for name, row in self.questions.by_template.items()},
            "questions_wrong": [asdict(item) for item in self.questions.wrong],
        }


def quantile(values: np.ndarray, share: float) -> float:
    """A quantile, NaN of nothing."""
    return float(np.quantile(values, share)) if len(values) else float("nan")


def evaluate(out_dir: Path, truth_dir: Path) -> Evaluation:
    """Compare a finished folder with a truth folder.

    Raises:
        FrontDoorError: no truth folder, or of another recording or view.
        StoreError: a stage has not run yet, or its file is damaged.
    """
    aligned = align(out_dir, truth_dir)
    static, carried = depth_errors(aligned)
    return Evaluation(
        aligned.truth.recording_id,
        static,
        carried,
        tuple(mask_scores(aligned)),
        tuple(rest_scores(aligned)),
        event_score(aligned),
        question_score(aligned),
    )


# What acceptance asks for: name, threshold, True if the figure may be at most that.
_WANTED: dict[str, tuple[float, bool]] = {
    "static_depth_abs_rel_median": (0.02, True),
    "carried_depth_abs_rel_median": (0.04, True),
    "mean_j_compact": (0.70, False),
    "rest_error_median_m": (0.025, True),
    "rest_error_p95_m": (0.08, True),
    "event_recall": (0.90, False),
    "event_precision": (0.90, False),
    "questions_share_right": (0.97, False),
}


def print_evaluation(reporter: Reporter, evaluation: Evaluation) -> None:
    """The table against truth, objects one by one, and every wrong question."""
    document = evaluation.document()
    rows = []
    for name, (threshold, at_most) in _WANTED.items():
        value = document[name]
        good = value <= threshold if at_most else value >= threshold
        verdict = "-" if value != value else "ok" if good else "off"
        rows.append([name, f"{value:.4g}", f"{'<=' if at_most else '>='} {threshold:g}", verdict])
    rows.append(["rest intervals without a place", f"{evaluation.rest_missing} of {len(evaluation.rests)}", "", ""])
    rows.append(["questions right", f"{evaluation.questions.right} of {evaluation.questions.asked}", "", ""])
    reporter.table(f"{evaluation.recording_id} against exact truth", ["figure", "value", "wanted", ""], rows)
    reporter.table(
        "objects", ["label", "J", "mask in visible frames", "false masks", "rest errors"], _objects(evaluation)
    )
    for text in (*(f"missed {t}" for t in evaluation.events.missed), *(f"extra {t}" for t in evaluation.events.extra)):
        reporter.text(text)
    for item in evaluation.questions.wrong:
        reporter.text(
            f"wrong {item.qa_id} ({item.template}): {item.text} key: {item.key_text}; truth: {item.truth_text} "
            f"(stored {item.stored_value}, true {item.truth_value}, sigma {item.sigma:.3g}, margin {item.margin:.3g}) "
            f"{item.reason}"
        )


def _objects(evaluation: Evaluation) -> list[list[str]]:
    rows = []
    for item in evaluation.masks:
        errors = [rest.error_m for rest in evaluation.rests if rest.label == item.label]
        label = f"{item.label}{' (thin)' if item.thin else ''}{'' if item.tracked else ' NOT TRACKED'}"
        places = ", ".join("none" if error != error else f"{100 * error:.1f} cm" for error in errors)
        rows.append(
            [
                label,
                f"{item.mean_j:.2f}",
                f"{item.frames_with_mask}/{item.frames_visible}",
                str(item.false_masks),
                places,
            ]
        )
    return rows


def evaluate_command(reporter: Reporter, out_dir: Path, truth_dir: Path) -> None:
    """Body of the command."""
    evaluation = evaluate(out_dir, truth_dir)
    print_evaluation(reporter, evaluation)
    reporter.result(evaluation.document())
