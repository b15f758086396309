"""The parts of a template sentence: tool, alternative, action, target, reason."""

import re
from dataclasses import dataclass

_TEMPLATE = re.compile(
    r"^\s*I(?:\s+am|'m)\s+using\s+(?P<tool>.+?)(?:\s+(?:rather\s+than|instead\s+of)\s+(?P<alternative>.+?))?"
    r"\s+to\s+(?P<action>.+?)(?:\s+on\s+(?P<target>.+?))?(?:\s+because\s+(?P<reason>.+?))?\s*[.!]?\s*$",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class SentenceParts:
    """What "I am using [tool] rather than [alternative] to [action] on [target] because [reason]" names."""

    tool: str
    alternative: str | None
    action: str
    target: str | None
    reason: str | None


def parse_sentence(text: str) -> SentenceParts | None:
    """The parts where the sentence follows the template; None for a free sentence, which stays whole."""
    match = _TEMPLATE.match(text)
    if match is None:
        return None
    parts = match.groupdict()
    return SentenceParts(parts["tool"], parts["alternative"], parts["action"], parts["target"], parts["reason"])
