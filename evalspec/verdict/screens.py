"""Effect of screens on a verdict, by the policy: none, or each of them blocks."""

from __future__ import annotations

from collections.abc import Iterator

from evalspec.evidence.record import Record
from evalspec.evidence.screens import Suspicion
from evalspec.evidence.verdict import Decision


def name_of(one: Suspicion) -> str:
    """Name of a suspicion that blocks, among requirements."""
    return f"screens/{one.screen}({one.subject})"


def blocked(record: Record) -> Iterator[Decision]:
    """Under ``screens: block`` each suspicion is a failure, and a screen that could not look leaves it undecided."""
    if record.policy.screens != "block" or record.screens is None:
        return
    for one in record.screens.suspicions:
        reason = "policy.screens is `block`"
        yield Decision(name=name_of(one), status="FAIL", blocking=True, sentence=one.sentence, reason=reason)
    for screen, why in record.screens.blind.items():
        sentence = f"the screen {screen} could not run: {why}"
        yield Decision(name=f"screens/{screen}", status="NOT_RUN", blocking=True, sentence=sentence, reason=why)


def cautions(record: Record) -> list[str]:
    """Cautions that nobody looked for what nobody asked, that some could not, and what is certain of what they saw."""
    if record.policy.screens == "off":
        return ["no screens were run: policy.screens is `off`"]
    if record.screens is None or record.policy.screens == "block":
        return []
    certain = [one.sentence for one in record.screens.suspicions if one.weakens]
    return certain + [f"the screen {screen} could not run: {why}" for screen, why in record.screens.blind.items()]
