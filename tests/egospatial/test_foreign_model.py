"""``reconstruct.model``: a splat file of another trainer goes through the front door."""

import pytest
import splat_makers as scene

from egospatial.config import resolve
from egospatial.errors import FrontDoorError
from egospatial.runner import RunRequest, run_recording
from egospatial.selection import Selection
from egospatial.store import splats_file
from recon.ply import read_splat_ply, write_splat_ply

pytestmark = pytest.mark.slow


@pytest.fixture
def run(simulated_small, tmp_path):
    def inner(dry_run=False):
        words = ("rectify.width_px=96", "reconstruct.width_px=48", f"reconstruct.model={tmp_path / 'theirs.ply'}")
        return run_recording(
            RunRequest(
                simulated_small.recording_dir, tmp_path / "out", resolve(None, words),
                selection=Selection(0.0, 0.6, 1), stages=("rectify", "reconstruct"), dry_run=dry_run,
            )
        )  # fmt: skip

    return inner


def test_the_model_is_stored_as_it_is_and_its_content_decides_whether_to_run_again(run, tmp_path):
    model = scene.box(0.2)
    write_splat_ply(tmp_path / "theirs.ply", model)
    done = run()
    stored = splats_file.read(done.folder)
    assert (stored.model.means_in_world == model.means_in_world).all()  # the simulator's world is the recording's own
    assert (read_splat_ply(done.folder / "splats.ply").quats_wxyz == model.quats_wxyz).all()
    assert any("not fitted" in text for text in done.warnings) and not stored.report.iterations
    assert run(dry_run=True).plan.to_run == ()
    model.opacity_logits[:] += 1
    write_splat_ply(tmp_path / "theirs.ply", model)
    assert run(dry_run=True).plan.to_run == ("reconstruct",)


def test_a_model_that_is_not_there_is_refused_before_anything_is_written(run, tmp_path):
    with pytest.raises(FrontDoorError, match=r"theirs\.ply: cannot be read"):
        run()
    assert not (tmp_path / "out").exists()
