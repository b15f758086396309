"""The natural eights in words. Left and right are those of whoever the question names."""

AROUND = (
    "straight ahead",
    "ahead and to the right",
    "to the right",
    "behind and to the right",
    "straight behind",
    "behind and to the left",
    "to the left",
    "ahead and to the left",
)
HEADING = (
    "about the same way",
    "about 45° further to the right",
    "about 90° further to the right",
    "about 135° further to the right",
    "about the opposite way",
    "about 135° further to the left",
    "about 90° further to the left",
    "about 45° further to the left",
)
TOWARD = (
    "away from the wearer, straight ahead",
    "away and to the right",
    "to the right",
    "back toward the wearer's side and to the right",
    "straight back toward the wearer's side",
    "back toward the wearer's side and to the left",
    "to the left",
    "away and to the left",
)
TURNS = (
    "to the left by 135° to 180°",
    "to the left by 90° to 135°",
    "to the left by 45° to 90°",
    "to the left by less than 45°",
    "to the right by less than 45°",
    "to the right by 45° to 90°",
    "to the right by 90° to 135°",
    "to the right by 135° to 180°",
)
ELEVATIONS = (
    "more than 60° below eye level",
    "45° to 60° below eye level",
    "30° to 45° below eye level",
    "15° to 30° below eye level",
    "0° to 15° below eye level",
    "0° to 15° above eye level",
    "15° to 30° above eye level",
    "more than 30° above eye level",
)
PICTURE = (
    "above it",
    "above it and to the right",
    "to the right of it",
    "below it and to the right",
    "below it",
    "below it and to the left",
    "to the left of it",
    "above it and to the left",
)
CAMERA_MOTION = (
    "it moved to the right",
    "it moved to the left",
    "it moved up",
    "it moved down",
    "it moved forward",
    "it moved backward",
    "it turned to the right on the spot",
    "it turned to the left on the spot",
)
HISTORIES = (
    "it stayed where it was the whole time",
    "it was moved once and lies somewhere else",
    "it was moved more than once and lies somewhere else",
    "it was moved and lies where it was before",
    "it was put into a container",
    "it was taken out of a container",
    "it lay still before and is in the wearer's hand now",
    "it was in the wearer's hand before and lies still now",
)
EVENTS = {
    "pick_up": "the wearer picks up {}",
    "put_down": "the wearer puts down {}",
    "take_out": "the wearer takes {} out of a container",
    "put_into": "the wearer puts {} into a container",
}
# In this order no two neighbours (cyclic) are the same act in other words: taking out is also picking up.
EVENT_RING = ("pick_up", "put_down", "take_out", "put_into")
