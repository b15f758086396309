"""Videos in and out: every frame is the frame it should be, times are true, audio is copied, files appear whole."""

import os
import time
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


def copied(source: Path, target: Path, **options: str) -> Path:
    """The same packets in another container."""
    import av

    with av.open(os.fspath(source)) as film, av.open(os.fspath(target), "w", options=options) as out:
        stream = out.add_stream_from_template(film.streams.video[0])
        for packet in film.demux(film.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    return target


@pytest.fixture(scope="module")
def noisy(tmp_path_factory) -> Path:
    """60 frames of noise: a file long enough to be cut anywhere."""
    rng = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("noisy") / "noisy.mp4"
    frames = (rng.integers(0, 256, (SIZE[1], SIZE[0], 3)).astype(np.uint8) for _ in range(60))
    write_video(path, frames, rate_hz=10.0, preset="veryfast")
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("index_at_the_end.mp4", {}),
        ("index_at_the_head.mp4", {"movflags": "faststart"}),
        ("fragments.mp4", {"movflags": "frag_keyframe+empty_moov"}),
        ("matroska.mkv", {}),
    ],
)
@pytest.mark.parametrize("part", [0.9, 0.5, 0.2])
def test_a_film_that_is_cut_off_is_told_when_it_is_opened(noisy, tmp_path, name, options, part):
    """Not half-way through hours of work, and never read as a shorter film."""
    whole = copied(noisy, tmp_path / name, **options)
    with VideoFrames(whole) as video:
        assert len(video) == 60
    cut = tmp_path / ("cut_" + name)
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * part)])
    with pytest.raises(RecordingError, match=r"cut_.*cut off"):
        VideoFrames(cut)


def test_a_cut_between_two_frames_is_told_by_their_number(noisy, tmp_path):
    """The index at the head goes on listing 60 frames; the file ends exactly where frame 40 of the file begins."""
    import av

    whole = copied(noisy, tmp_path / "whole.mp4", movflags="faststart")
    with av.open(os.fspath(whole)) as container:
        starts = [packet.pos for packet in container.demux(container.streams.video[0]) if packet.size]
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole.read_bytes()[: starts[40]])
    with pytest.raises(RecordingError, match=r"cut\.mp4 is cut off: 40 of its 60 frames are there; fetch it anew"):
        VideoFrames(cut)


def test_damaged_films_end_in_a_clean_error_or_in_frames(noisy, tmp_path):
    """Bytes flipped, runs overwritten, parts left out, tails cut: 200 films from two containers, each within seconds."""
    sources = [noisy.read_bytes(), copied(noisy, tmp_path / "m.mkv").read_bytes()]
    path, read, refused = tmp_path / "film.bin", 0, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        data = bytearray(sources[seed % 2])
        at, length = int(rng.integers(len(data))), int(rng.integers(1, 200))
        kind = seed // 2 % 4
        if kind == 0:
            # Containers keep their tables in the first and last kilobytes: there a flip tells most.
            places = [int(k) for k in rng.integers(0, min(3000, len(data)), 6)]
            for k in places + [len(data) - 1 - k for k in places]:
                data[k] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at : at + length] = rng.integers(0, 256, length).astype(np.uint8).tobytes()
        elif kind == 2:
            del data[at : at + length]
        else:
            del data[at:]
        path.write_bytes(data)
        start = time.monotonic()
        try:
            with VideoFrames(path) as video:
                assert (np.diff(video.timestamps_ns) > 0).all()
                for k in {0, len(video) // 2, len(video) - 1}:
                    width, height = video.size_wh_px
                    assert video.read(k).shape == (height, width, 3)
            read += 1
        except GeoError:
            refused += 1
        assert time.monotonic() - start < 30
    assert read > 20 and refused > 40


def test_times_are_exact_for_any_time_base(tmp_path, film):
    """1001/30000 s a frame: the nanoseconds are the rounded fractions, worked out in whole numbers here."""
    import av

    path = tmp_path / "ntsc.mkv"
    with av.open(os.fspath(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(30000, 1001))
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for i in range(50):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(i % 30), format="rgb24")))
        container.mux(stream.encode(None))
    with VideoFrames(path) as video:
        base = video._stream.time_base
        ticks = Fraction(1001, 30000) / base
        assert ticks.denominator == 1
        wanted = [(2 * k * 1001 * 10**9 + 30000) // 60000 for k in range(50)]
        assert video.timestamps_ns.tolist() == wanted


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
