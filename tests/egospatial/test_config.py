"""Settings: typed, from defaults, a file and words; a mistake is named with its near matches."""

import dataclasses
import enum
import json
from pathlib import Path
from typing import Literal

import pytest

from egospatial.errors import ConfigError
from egospatial.hashing import digest_of
from egospatial.settings import all_keys, converted, parse_assignments, read_config_file, updated


class Colour(enum.StrEnum):
    RED = "red"
    GREEN = "green"


@dataclasses.dataclass(frozen=True)
class Inner:
    width_px: int = 10
    rate_hz: float = 2.0
    on: bool = True
    size_wh_px: tuple[int, int] = (4, 3)
    stops: tuple[float, ...] = ()
    note: str | None = None
    colour: Colour = Colour.RED
    mode: Literal["fast", "slow"] = "fast"
    weights: Path | None = None

    def __post_init__(self):
        if self.width_px < 0:
            raise ValueError("width_px must not be negative")


@dataclasses.dataclass(frozen=True)
class Outer:
    rectify: Inner = dataclasses.field(default_factory=Inner)
    track: Inner = dataclasses.field(default_factory=Inner)


def test_later_words_win_and_each_goes_to_its_stage():
    words = parse_assignments(["rectify.width_px=1", "track.width_px=2", "rectify.width_px=3"])
    config = updated(Outer(), words)
    assert (config.rectify.width_px, config.track.width_px) == (3, 2)


@pytest.mark.parametrize(
    ("word", "field", "value"),
    [
        ("rate_hz=3", "rate_hz", 3.0),
        ("on=false", "on", False),
        ("size_wh_px=[8, 6]", "size_wh_px", (8, 6)),
        ("stops=[1, 2.5]", "stops", (1.0, 2.5)),
        ("note=null", "note", None),
        ("note=two words", "note", "two words"),
        ("note=a=b", "note", "a=b"),
        ("colour=green", "colour", Colour.GREEN),
        ("mode=slow", "mode", "slow"),
        ("weights=/data/é weights.pt", "weights", Path("/data/é weights.pt")),
    ],
)
def test_a_word_becomes_a_value_of_the_fields_type(word, field, value):
    got = getattr(updated(Outer(), parse_assignments([f"rectify.{word}"])).rectify, field)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rectify.widht_px=5", r"'rectify\.widht_px' is not known\. Did you mean rectify\.width_px"),
        ("rectfy.width_px=5", r"'rectfy' is not known\. Did you mean rectify\?"),
        ("zebra=1", r"'zebra' is not known\. Known here: rectify, track"),
        ("rectify.width_px=5.5", r"rectify\.width_px = 5\.5: expected int, got float"),
        ("rectify.width_px=true", r"expected int, got bool"),
        ("rectify.on=1", r"expected bool, got int"),
        ("rectify.size_wh_px=[1]", r"expected 2 values, got 1"),
        ("rectify.stops=[1, x]", r"expected a list, got str"),
        ("rectify.mode=slwo", r"expected one of fast, slow\. Did you mean slow\?"),
        ("rectify.colour=blue", r"expected one of red, green"),
        ("rectify.width_px=-1", r"rectify: width_px must not be negative"),
        ("rectify=5", r"rectify = 5: expected Inner, got int"),
        ("rectify.width_px", r"expected stage\.key=value"),
        ("=5", r"expected stage\.key=value"),
    ],
)
def test_a_mistake_is_one_clear_error(word, message):
    with pytest.raises(ConfigError, match=message):
        updated(Outer(), parse_assignments([word]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", "[rectify]\nwidth_px = 7\n"),
        ("a.yaml", "rectify:\n  width_px: 7\n"),
        ("a.json", '{"rectify": {"width_px": 7}}'),
    ],
)
def test_toml_yaml_and_json_say_the_same(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert updated(Outer(), read_config_file(tmp_path / name)).rectify.width_px == 7


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "[rectify\n", "not well-formed"),
        ("a.json", "{", "not well-formed"),
        ("a.yaml", "a: [1", "not well-formed"),
        ("a.ini", "", r"end in \.toml"),
        ("a.json", "[1]", "expected a table"),
        ("missing.toml", None, "cannot be read"),
        ("a.yaml", "!!python/object/apply:os.mkdir [{mark}]", "not well-formed"),
    ],
)
def test_a_bad_config_file_is_one_clear_error_and_runs_nothing(tmp_path, name, text, message):
    mark = tmp_path / "RAN"
    if text is not None:
        (tmp_path / name).write_text(text.replace("{mark}", str(mark)))
    with pytest.raises(ConfigError, match=message):
        read_config_file(tmp_path / name)
    assert not mark.exists()


def test_an_empty_config_file_changes_nothing(tmp_path):
    (tmp_path / "a.yaml").write_text("")
    assert updated(Outer(), read_config_file(tmp_path / "a.yaml")) == Outer()


def test_all_keys_are_listed_with_dots():
    assert "track.size_wh_px" in all_keys(Outer()) and len(all_keys(Outer())) == 18


def test_a_value_of_no_allowed_type_is_refused():
    with pytest.raises(ConfigError, match="expected int, got str"):
        converted("x", int | None, "k")


# -- the real configuration ----------------------------------------------------------------------------------


def test_the_saved_configuration_read_back_is_the_same(tmp_path):
    from egospatial.config import document_of, resolve

    config = resolve(None, ("rectify.width_px=512", "depth.width_px=100", "ask.templates=[]"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document_of(config)))
    assert resolve(path) == config and config.rectify.width_px == 512


def test_every_setting_is_changed_by_its_own_key():
    """Setting each scalar to what it is must be accepted and change nothing: names and types agree everywhere."""
    from egospatial.config import RunConfig, document_of

    config = RunConfig()
    document = document_of(config)
    document.pop("schema")
    assert updated(config, document) == config
    assert len(all_keys(config)) > 80


def test_a_stages_hash_depends_on_its_own_settings_only():
    from egospatial.config import resolve

    base, other = resolve(), resolve(None, ("reconstruct.iterations=7",))
    changed = {
        name
        for name in ("rectify", "reconstruct", "track", "lift", "depth", "ask")
        if digest_of(base.of_stage(name)) != digest_of(other.of_stage(name))
    }
    assert changed == {"reconstruct"}


def test_the_segment_length_changes_no_hash():
    from egospatial.config import resolve

    base, other = resolve(), resolve(None, ("store.depth_frames_per_segment=3",))
    assert base.of_stage("depth") == other.of_stage("depth")


def test_a_setting_that_a_stage_refuses_is_named():
    from cuda_kernels.errors import InputError
    from egospatial.config import resolve

    with pytest.raises(InputError, match="held_out_every"):
        resolve(None, ("reconstruct.held_out_every=1",))
    with pytest.raises(InputError, match=r"Did you mean reconstruct\.iterations"):
        resolve(None, ("reconstruct.iteration=1",))
