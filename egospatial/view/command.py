"""``egospatial view``."""

from pathlib import Path

from egospatial.errors import FrontDoorError
from egospatial.quality import quality_sheet, say_quality
from egospatial.reporting import Reporter
from egospatial.store import layout
from egospatial.view.child import has_display, picture_in_child, window_in_child
from egospatial.view.finished import Finished
from egospatial.view.images import write_image
from egospatial.view.plain import draw_scene
from egospatial.view.scene import scene_of
from egospatial.view.sheet import contact_sheet, depth_view

KINDS = ("scene", "points", "overlay", "depth", "sheet", "quality")


def make_picture(finished: Finished, what: str, frame: int | None, path: Path) -> str:
    """Write one picture; gives a note (empty if there is nothing to say).

    ``scene`` is drawn by the project's own splat rasteriser, ``points`` by Open3D in a child process; where
    Open3D cannot draw, ``points`` falls back to ``scene`` and the note says why. ``quality`` puts the pictures of the
    quality report under one another.

    Raises:
        FrontDoorError: an unknown kind, a frame that does not exist, or a quality report without pictures.
    """
    if what not in KINDS:
        raise FrontDoorError(f"--what {what!r}: expected one of {', '.join(KINDS)}.")
    number, note = finished.frame_or_middle(frame), ""
    if what == "overlay":
        write_image(path, finished.overlay(number))
    elif what == "depth":
        write_image(path, depth_view(finished, number))
    elif what == "sheet":
        write_image(path, contact_sheet(finished))
    elif what == "quality":
        write_image(path, quality_sheet(finished.folder))
    else:
        scene = scene_of(finished, number)
        if what == "points":
            path.parent.mkdir(parents=True, exist_ok=True)
            result = picture_in_child(scene, path)
            if not result.problem:
                return ""
            note = f"drawn without Open3D ({result.problem})"
        write_image(path, draw_scene(scene, finished.splats))
    return note


def view_command(reporter: Reporter, folder: Path, screenshot: Path | None, frame: int | None, what: str) -> None:
    """Body of the command: a picture, or a window where there is a screen; without one, a picture and a note.

    ``quality`` without a picture asked for prints the figures and names the page with the pictures.
    """
    if what == "quality" and screenshot is None:
        say_quality(reporter, folder)
        return
    finished = Finished(folder)
    note = ""
    if screenshot is None and what in ("scene", "points"):
        note = "no display: drawing a picture instead of opening a window"
        if has_display():
            problem = window_in_child(scene_of(finished, finished.frame_or_middle(frame))).problem
            if not problem:
                reporter.result({"window": "closed", "note": ""})
                return
            note = f"no window ({problem}): drawing a picture instead"
    path = screenshot or folder / layout.PREVIEW / f"{what}.png"
    note = "; ".join(text for text in (note, make_picture(finished, what, frame, path)) if text)
    if note:
        reporter.note(note)
    reporter.text(str(path))
    reporter.result({"picture": str(path), "note": note})
