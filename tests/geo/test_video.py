"""Videos in and out: every frame is the frame it should be, times are true, audio is copied, files appear whole."""

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from geo.errors import GeoError, RecordingError, ShapeError, TimeError
from geo.video import ImageFrames, VideoFrames, write_video

SIZE = (64, 48)
N = 30


def picture(index: int) -> np.ndarray:
    """A grey picture whose brightness is its number: 20 + 7 * index."""
    return np.full((SIZE[1], SIZE[0], 3), 20 + 7 * index, np.uint8)


def number_of(image: np.ndarray) -> int:
    return round((float(image.mean()) - 20) / 7)


@pytest.fixture(scope="module")
def stamps() -> np.ndarray:
    """A variable rate: 30 to 200 ms between frames."""
    rng = np.random.default_rng(0)
    return np.cumsum(np.r_[0, rng.integers(30_000_000, 200_000_000, N - 1)]).astype(np.int64) + 10**18


@pytest.fixture(scope="module")
def film(tmp_path_factory, stamps) -> Path:
    path = tmp_path_factory.mktemp("film") / "récé 茶.mp4"
    write_video(path, (picture(i) for i in range(N)), timestamps_ns=stamps, preset="veryfast")
    return path


@pytest.fixture(scope="module")
def with_sound(tmp_path_factory) -> Path:
    """3 s of film at 10 fps with one click at 1.5 s."""
    import av

    path = tmp_path_factory.mktemp("sound") / "sound.mp4"
    rate = 48_000
    signal = np.zeros(3 * rate, np.float32)
    signal[int(1.5 * rate) : int(1.5 * rate) + 2400] = 0.5 * np.sin(np.arange(2400) * 0.3)
    with av.open(os.fspath(path), "w") as container:
        video = container.add_stream("libx264", rate=10)
        video.width, video.height, video.pix_fmt = *SIZE, "yuv420p"
        audio = container.add_stream("aac", rate=rate, layout="mono")
        for i in range(N):
            for packet in video.encode(av.VideoFrame.from_ndarray(picture(i), format="rgb24")):
                container.mux(packet)
        for start in range(0, len(signal), 1024):
            frame = av.AudioFrame.from_ndarray(signal[None, start : start + 1024], format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
            for packet in audio.encode(frame):
                container.mux(packet)
        for stream in (video, audio):
            for packet in stream.encode(None):
                container.mux(packet)
    return path


def click_time_s(path: Path) -> float:
    import av

    with av.open(os.fspath(path)) as container:
        frames = list(container.decode(container.streams.audio[0]))
        samples = np.concatenate([frame.to_ndarray()[0] for frame in frames])
        return float(frames[0].pts * frames[0].time_base) + int(np.argmax(np.abs(samples) > 0.2)) / 48_000


def test_frames_come_back_in_order_and_in_any_order(film):
    with VideoFrames(film) as video:
        assert len(video) == N and video.size_wh_px == SIZE
        assert [number_of(video.read(i)) for i in range(N)] == list(range(N))
        jumps = [29, 0, 17, 16, 18, 18, 3, 28]
        assert [number_of(video.read(i)) for i in jumps] == jumps


def test_times_are_kept_to_the_microsecond_with_a_variable_rate(film, stamps):
    with VideoFrames(film) as video:
        assert np.abs(video.timestamps_ns - (stamps - stamps[0])).max() <= 500


def test_colours_survive_writing_and_reading(tmp_path):
    colours = [(200, 30, 30), (30, 200, 30), (30, 30, 200), (250, 250, 250), (5, 5, 5)]
    images = [np.full((48, 64, 3), colour, np.uint8) for colour in colours]
    write_video(tmp_path / "c.mp4", images, rate_hz=10.0, crf=10)
    with VideoFrames(tmp_path / "c.mp4") as video:
        for i, colour in enumerate(colours):
            assert np.abs(video.read(i).mean(axis=(0, 1)) - colour).max() < 4


def test_the_same_frames_give_the_same_bytes(tmp_path):
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (8, 96, 128, 3)).astype(np.uint8)
    for name in ("a.mp4", "b.mp4"):
        write_video(tmp_path / name, iter(images), rate_hz=20.0, preset="veryfast")
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_audio_is_copied_packet_by_packet(with_sound, tmp_path):
    written = write_video(tmp_path / "o.mp4", (picture(i) for i in range(N)), rate_hz=10.0, audio_file=with_sound)
    assert written.frames == N and written.audio_packets > 100
    assert click_time_s(tmp_path / "o.mp4") == pytest.approx(click_time_s(with_sound), abs=1e-6)
    with VideoFrames(tmp_path / "o.mp4") as video:
        assert video.table.has_audio


def test_audio_of_a_slice_starts_where_the_slice_starts(with_sound, tmp_path):
    frames = (picture(i) for i in range(10, 20))
    write_video(tmp_path / "o.mp4", frames, rate_hz=10.0, audio_file=with_sound, audio_offset_ns=1_000_000_000)
    assert click_time_s(tmp_path / "o.mp4") == pytest.approx(0.5, abs=0.002)


def test_a_container_without_audio_gives_a_silent_video(film, tmp_path):
    assert write_video(tmp_path / "o.mp4", [picture(0)], rate_hz=10.0, audio_file=film).audio_packets == 0


def test_a_failure_leaves_the_old_file_and_no_scrap(tmp_path):
    target = tmp_path / "o.mp4"
    target.write_bytes(b"old")

    def frames():
        yield picture(0)
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_video(target, frames(), rate_hz=10.0)
    assert target.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["o.mp4"]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, GeoError, "either rate_hz or timestamps_ns"),
        ({"rate_hz": -5.0}, GeoError, "must be positive"),
        ({"timestamps_ns": np.array([0, 0], np.int64)}, TimeError, "must rise"),
        ({"timestamps_ns": np.array([0, 10**8, 2 * 10**8], np.int64)}, TimeError, "2 frames for 3 time stamps"),
        ({"timestamps_ns": np.array([0], np.int64)}, TimeError, "more frames than the 1"),
    ],
)
def test_times_that_do_not_fit_are_refused(tmp_path, arguments, error, text):
    with pytest.raises(error, match=text):
        write_video(tmp_path / "o.mp4", [picture(0), picture(1)], **arguments)
    assert not list(tmp_path.iterdir())


def test_frames_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(GeoError, match="even size, got 63x48"):
        write_video(tmp_path / "o.mp4", [picture(0)[:, :63]], rate_hz=10.0)
    with pytest.raises(ShapeError, match="frame 1 is uint8"):
        write_video(tmp_path / "o.mp4", [picture(0), picture(1)[:40]], rate_hz=10.0)
    with pytest.raises(GeoError, match="without a single frame"):
        write_video(tmp_path / "o.mp4", [], rate_hz=10.0)
    assert not list(tmp_path.iterdir())


def test_missing_foreign_and_cut_off_files_are_named(film, tmp_path):
    with pytest.raises(RecordingError, match=r"video .*nowhere\.mp4 does not exist"):
        VideoFrames(tmp_path / "nowhere.mp4")
    (tmp_path / "text.mp4").write_text("no video at all")
    with pytest.raises(RecordingError, match=r"text\.mp4 is no video"):
        VideoFrames(tmp_path / "text.mp4")
    (tmp_path / "cut.mp4").write_bytes(film.read_bytes()[:700])
    with pytest.raises(RecordingError, match=r"cut\.mp4"):
        VideoFrames(tmp_path / "cut.mp4")


def test_frames_beyond_the_end_are_an_index_error(film):
    with VideoFrames(film) as video, pytest.raises(IndexError, match="has 30 frames, frame 30"):
        video.read(30)


# --- folders of images --------------------------------------------------------------------------------------------


def test_a_missing_image_is_named_with_its_full_path(tmp_path, png_writer):
    png_writer(tmp_path / "1.png", picture(1))
    missing = tmp_path / "récé (1) & 茶.png"
    with pytest.raises(RecordingError) as caught:
        ImageFrames([tmp_path / "1.png", missing], SIZE)
    assert str(missing) in str(caught.value)


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_cut_off_image_is_an_error_and_not_grey(tmp_path, png_writer, suffix):
    path = tmp_path / f"it's $HOME{suffix}"
    png_writer(path, np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8))
    frames = ImageFrames([path], SIZE)
    assert frames.read(0).shape == (48, 64, 3)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RecordingError, match="cut off") as caught:
        frames.read(0)
    assert str(path) in str(caught.value)


def test_an_image_of_another_size_contradicts_its_camera(tmp_path, png_writer):
    png_writer(tmp_path / "1.png", picture(1))
    with pytest.raises(RecordingError, match="is 64x48, but its camera is calibrated for 640x480"):
        ImageFrames([tmp_path / "1.png"], (640, 480)).read(0)


def test_red_is_red(tmp_path, png_writer):
    png_writer(tmp_path / "1.png", np.full((48, 64, 3), (250, 10, 20), np.uint8))
    assert ImageFrames([tmp_path / "1.png"], SIZE).read(0)[0, 0].tolist() == [250, 10, 20]


def test_audio_that_mp4_does_not_take_is_one_clear_error(tmp_path):
    """PCM from Matroska cannot be copied into MP4: said with the file's name, and no scrap is left."""
    import av

    source = tmp_path / "pcm.mkv"
    with av.open(os.fspath(source), "w") as container:
        audio = container.add_stream("pcm_s16le", rate=48_000, layout="stereo")
        for start in range(0, 48_000, 960):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1920), np.int16), format="s16", layout="stereo")
            frame.sample_rate, frame.pts, frame.time_base = 48_000, start, Fraction(1, 48_000)
            for packet in audio.encode(frame):
                container.mux(packet)
        for packet in audio.encode(None):
            container.mux(packet)
    with pytest.raises(GeoError, match=r"could not be written.*pcm\.mkv: convert it to AAC"):
        write_video(tmp_path / "o.mp4", (picture(i) for i in range(N)), rate_hz=10.0, audio_file=source)
    assert [p.name for p in tmp_path.iterdir()] == ["pcm.mkv"]
