"""Robustness per template, as in docs/questions.md: questions from noisy copies, answered on the exact scenes.

python tests/spatial_qa/measure.py [SCENES]
"""

import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]


def main(scenes: int) -> None:
    from scenes import asked_scenes

    from spatial_qa import answer_on
    from spatial_qa.templates import TEMPLATES

    right, total = Counter(), Counter()
    for scene, _, found in asked_scenes(range(scenes)):
        for question in found.questions:
            total[question.template] += 1
            right[question.template] += answer_on(question, scene, {i: i for i in range(20)}).letter == question.key
    for name in TEMPLATES:
        print(f"| {name} | {TEMPLATES[name].subtrack} | {right[name]}/{total[name]} |")  # noqa: T201
    print(f"{right.total()}/{total.total()} = {right.total() / total.total():.4f}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
