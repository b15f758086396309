"""splats.ply (standard 3DGS) and reconstruction.h5 (what may move, and the report of the fit)."""

from dataclasses import asdict, replace
from pathlib import Path

from egospatial.errors import StoreError
from egospatial.store import hdf5, layout
from egospatial.store.atomic import atomic_path
from recon.records import DynamicMasks, PackedMasks, ReconReport, Reconstruction

SCHEMA = "egospatial.reconstruction/1"


def write(folder: Path, reconstruction: Reconstruction) -> None:
    """Write both files. ``fit_seconds`` is a measurement of the run and goes to run.json, not here."""
    from recon.ply import write_splat_ply

    with atomic_path(folder / layout.SPLATS) as temporary:
        write_splat_ply(temporary, reconstruction.model)
    with hdf5.create(folder / layout.RECONSTRUCTION, SCHEMA) as file:
        given = reconstruction.dynamic.masks
        masks = given if isinstance(given, PackedMasks) else PackedMasks.of(given)
        node = hdf5.put(file, "dynamic_masks", masks.packed, compress=True)
        node.attrs["width"] = masks.width_px
        node.attrs["meaning"] = "1 bit a pixel, rows padded to bytes, first pixel in the highest bit; 1 = may move"
        file.attrs["gaussians"] = len(reconstruction.model.means_in_world)
        hdf5.put_json(file, "report", asdict(replace(reconstruction.report, fit_seconds=float("nan"))))


def read(folder: Path) -> Reconstruction:
    """Read both files.

    Raises:
        StoreError: missing, truncated, of another version, or the two files do not belong together.
    """
    with hdf5.opened(folder / layout.RECONSTRUCTION, SCHEMA) as file:
        packed, width = hdf5.get(file, "dynamic_masks"), int(file["dynamic_masks"].attrs["width"])
        document, count = hdf5.get_json(file, "report"), int(file.attrs["gaussians"])
    model = read_splats(folder)
    if len(model.means_in_world) != count:
        raise StoreError(
            f"{folder / layout.SPLATS}: {len(model.means_in_world)} splats, reconstruction.h5 belongs to {count}. "
            "Run the reconstruct stage again."
        )
    return Reconstruction(model, DynamicMasks(PackedMasks(packed, width)), _report(document))


def read_splats(folder: Path):  # type: ignore[no-untyped-def]
    """The splat model alone."""
    from recon.ply import read_splat_ply

    path = folder / layout.SPLATS
    if not path.is_file():
        raise StoreError(f"{path}: not there. Run the reconstruct stage first.")
    return read_splat_ply(path)


def _report(document: dict[str, object]) -> ReconReport:
    known = {name: document[name] for name in ReconReport.__dataclass_fields__ if name in document}
    values = {
        name: tuple(value) if isinstance(value, list) else float("nan") if value is None else value
        for name, value in known.items()
    }
    return ReconReport(**values)  # type: ignore[arg-type]
