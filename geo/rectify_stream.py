"""A recording to its canonical video, in constant memory however long it is.

    thread of its own:  decode frame k+1, remap it    -> at most AHEAD frames wait ->    caller: encode frame k

Decoder, remap kernel and encoder work at once (all of them let go of Python's lock), each in its own order: the same
recording gives the same bytes. Nothing is kept of a frame that is written. What grows with the length: poses and time
stamps, and the packet lists that MP4 has at its head (about 50 bytes a packet where it is read, 100 where it is
written).
"""

import contextlib
import ctypes
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import UInt8

from geo.recording import CanonicalRecording
from geo.video_writer import WrittenVideo, write_video

T = TypeVar("T")
AHEAD = 2
_END = object()


def write_canonical_video(
    path: Path | str,
    canonical: CanonicalRecording,
    *,
    progress: Callable[[int, int], None] | None = None,
    crf: int = 18,
    preset: str = "medium",
    threads: int = 2,
) -> WrittenVideo:
    """Write the canonical view as H.264: the recording's own times, its audio copied from where the frames begin.

    An odd width or height is made even by doubling the last column or row, see ``even_sized``.

    Args:
        path: Final name; complete or not there.
        canonical: What ``geo.rectify.rectify`` gives, whole or cut to some frames.
        progress: Called after each frame with the number written and the number in all.
        crf: Quality, 0 best, 51 worst.
        preset: x264 preset.
        threads: Encoder threads; another number gives other bytes.

    Raises:
        GeoError, RecordingError, ShapeError, TimeError: a frame that cannot be read, or as ``write_video``.
    """
    count = len(canonical.timestamps_ns)
    _give_back_freed_memory()

    def frames() -> Iterator[UInt8[np.ndarray, "H W 3"]]:
        for index in range(count):
            yield even_sized(canonical.frames.read(index))

    with closing(ahead(frames())) as ready:
        written = write_video(
            path,
            _counted(ready, count, progress),
            timestamps_ns=canonical.timestamps_ns,
            audio_file=canonical.audio_file,
            audio_offset_ns=canonical.audio_offset_ns,
            crf=crf,
            preset=preset,
            threads=threads,
        )
    _give_back_freed_memory()
    return written


def _give_back_freed_memory() -> None:
    """What reading long tables, or an encoder, left free in the C library's heap goes back to the system (glibc).

    Unused holes would count as this process's memory for as long as it lives: 15 MB after half an hour's poses.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def even_sized(image: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "h w 3"]:
    """The image with its last row and column doubled where its size is odd: H.264 stores even sizes only."""
    height, width = image.shape[:2]
    if height % 2 == 0 and width % 2 == 0:
        return image
    return np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def ahead(items: Iterable[T], waiting: int = AHEAD) -> Generator[T, None, None]:
    """The items in their order, made in a thread while the caller works on earlier ones.

    At most ``waiting`` finished items wait, and one more is being made. An error of the maker is raised at its place.
    Whoever leaves early closes the generator: the thread then ends after the item that it is making.
    """
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=waiting)
    stop = threading.Event()

    def put(entry: tuple[Any, BaseException | None]) -> None:
        while not stop.is_set():
            try:
                return ready.put(entry, timeout=0.1)
            except queue.Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put((item, None))
                if stop.is_set():
                    return
            put((_END, None))
        except BaseException as error:  # handed to the caller, whatever it is
            put((_END, error))

    worker = threading.Thread(target=make, name="frames-ahead", daemon=True)
    worker.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
            del item
    finally:
        stop.set()
        worker.join()


def _counted(items: Iterable[T], count: int, progress: Callable[[int, int], None] | None) -> Iterator[T]:
    """Say after each item that it has been taken and worked on."""
    for done, item in enumerate(items, start=1):
        yield item
        del item
        if progress is not None:
            progress(done, count)
