"""What recording.json says of the quality of the rectified views, for the commands that print it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egospatial.store import recording_file
from egospatial.store.recording_file import FurtherView
from geo.rectify_quality import RectifyQuality


@dataclass(frozen=True)
class RectificationFacts:
    """Figures of the canonical view and of the further ones; None: written by a version that had none."""

    canonical: RectifyQuality | None
    views: tuple[FurtherView, ...]
    views_coverage: float | None

    def lines(self) -> list[str]:
        """For people, one line a view."""
        rows = [] if self.canonical is None else [f"canonical view: {self.canonical.text}"]
        rows += [f"view {view.name}: {view.quality.text}" for view in self.views]
        if self.views_coverage is not None:
            rows.append(f"further views together: {100 * self.views_coverage:.2f} % of what the lens sees")
        return rows

    def document(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "canonical": None if self.canonical is None else recording_file.quality_json(self.canonical),
            "views": {view.name: recording_file.quality_json(view.quality) for view in self.views},
            "views_coverage": self.views_coverage,
        }


def rectification_facts(folder: Path) -> RectificationFacts:
    """Read them.

    Raises:
        StoreError: recording.json is missing or damaged.
    """
    document = recording_file.read(folder)
    quality = document.get("rectification")
    return RectificationFacts(
        None if quality is None else recording_file.quality_from_json(quality),
        recording_file.views(folder),
        document.get("views_coverage"),
    )
