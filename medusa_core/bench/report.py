"""What came out, in figures: medians with their spread, ratios prompt by prompt, replies that loop apart.

Everything as plain data, the same for the terminal and for JSON. Knows nothing of how anything was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from medusa_core.bench.records import Reply

FORMAT, VERSION = "medusa-bench", 1


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, the middle half and the middle four fifths, over `count` values."""

    median: float
    p10: float
    p25: float
    p75: float
    p90: float
    count: int


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of the values that are there; None where none is."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    p10, p25, p75, p90 = (_percentile(known, share) for share in (0.1, 0.25, 0.75, 0.9))
    return Spread(statistics.median(known), p10, p25, p75, p90, len(known))


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Linear between the two values beside it."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def figures(replies: Sequence[Reply]) -> dict[str, Any]:
    """Of a set of replies: medians over replies, and all of them pooled."""
    decoded, steps = sum(reply.decoded for reply in replies), sum(reply.steps for reply in replies)
    seconds = sum(reply.seconds for reply in replies)
    compared = [reply.identical_to_plain for reply in replies if reply.identical_to_plain is not None]
    return {
        "count": len(replies),
        "tokens": sum(reply.tokens for reply in replies),
        "tokens_per_second": _data(spread(reply.tokens_per_second for reply in replies)),
        "tokens_per_step": _data(spread(reply.tokens_per_step for reply in replies)),
        "time_to_first_token": _data(spread(reply.time_to_first_token for reply in replies)),
        "pooled_tokens_per_second": decoded / seconds if decoded and seconds else None,
        "pooled_tokens_per_step": decoded / steps if steps else None,
        "identical_to_plain": sum(compared) if compared else None,
        "compared_with_plain": len(compared),
    }


def system_report(replies: Sequence[Reply], about: Mapping[str, str]) -> dict[str, Any]:
    """Everything about one system."""
    return {
        "about": dict(about),
        **figures(replies),
        "looping": figures([reply for reply in replies if reply.looping]),
        "not_looping": figures([reply for reply in replies if not reply.looping]),
        "replies": [asdict(reply) for reply in replies],
    }


def ratios(replies: Mapping[str, Sequence[Reply]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Tokens a second of each system in multiples of each other one's, on the same prompt in the same run."""
    return {
        name: {other: _ratio(mine, theirs) for other, theirs in replies.items() if other != name}
        for name, mine in replies.items()
    }


def _ratio(mine: Sequence[Reply], theirs: Sequence[Reply]) -> dict[str, Any]:
    rates = {(reply.prompt, reply.run): reply.tokens_per_second for reply in theirs}
    pairs = [
        (reply.looping, reply.tokens_per_second / other)
        for reply in mine
        if (other := rates.get((reply.prompt, reply.run))) and reply.tokens_per_second
    ]
    return {
        "all": _data(spread(ratio for _, ratio in pairs)),
        "looping": _data(spread(ratio for looping, ratio in pairs if looping)),
        "not_looping": _data(spread(ratio for looping, ratio in pairs if not looping)),
    }


def bench_report(
    replies: Mapping[str, Sequence[Reply]],
    about: Mapping[str, Mapping[str, str]],
    *,
    complete: bool,
    config: Mapping[str, Any],
    machine: Mapping[str, Any],
    notes: Sequence[str],
) -> dict[str, Any]:
    """The whole file, but for ablations."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "complete": complete,
        "config": dict(config),
        "machine": dict(machine),
        "notes": list(notes),
        "systems": {name: system_report(found, about.get(name, {})) for name, found in replies.items()},
        "ratios": ratios(replies),
    }


def table(report: Mapping[str, Any], versus: str) -> list[str]:
    """The terminal's table; the last columns are ratios to the system `versus`."""
    systems = report["systems"]
    width = max(len("system"), *(len(name) for name in systems))
    header = f"{'system':<{width}}{'tokens/s (10-90%)':>23}{'tokens/step':>13}{'first token':>13}"
    shown = versus if versus in systems and len(systems) > 1 else ""
    lines = [header + (f"{f'times {shown} (10-90%)':>28}" if shown else "") + f"{'as plain':>10}{'loops':>7}"]
    for name, system in systems.items():
        cells = f"{_range(system['tokens_per_second'], 1):>23}{_median(system['tokens_per_step'], 2):>13}"
        cells += f"{_milliseconds(system['time_to_first_token']):>13}"
        if shown:
            ratio = report["ratios"].get(name, {}).get(shown, {}).get("all")
            cells += f"{_range(ratio, 2) if name != shown else '1':>28}"
        same, compared = system["identical_to_plain"], system["compared_with_plain"]
        cells += f"{f'{same}/{compared}' if compared else '-':>10}{system['looping']['count']:>7}"
        lines.append(f"{name:<{width}}{cells}")
    return lines


def looping_table(report: Mapping[str, Any], versus: str) -> list[str]:
    """Replies that loop and those that do not, apart; nothing where none loops."""
    systems = report["systems"]
    if not any(system["looping"]["count"] for system in systems.values()):
        return []
    width = max(len("system"), *(len(name) for name in systems))
    columns = f"{'replies':>9}{'tokens/s (10-90%)':>23}{'tokens/step':>13}{f'times {versus}':>20}"
    lines = [f"{'system':<{width}}{'':>14}{columns}"]
    for name, system in systems.items():
        for part, words in (("not_looping", "not looping"), ("looping", "looping")):
            found = system[part]
            ratio = report["ratios"].get(name, {}).get(versus, {}).get(part)
            lines.append(
                f"{name:<{width}}{words:>14}{found['count']:>9}{_range(found['tokens_per_second'], 1):>23}"
                f"{_median(found['tokens_per_step'], 2):>13}{_median(ratio, 2):>20}"
            )
    return lines


def _data(found: Spread | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _range(found: Mapping[str, Any] | None, digits: int) -> str:
    if found is None:
        return "-"
    return f"{found['median']:.{digits}f} ({found['p10']:.{digits}f}-{found['p90']:.{digits}f})"


def _median(found: Mapping[str, Any] | None, digits: int) -> str:
    return "-" if found is None else f"{found['median']:.{digits}f}"


def _milliseconds(found: Mapping[str, Any] | None) -> str:
    return "-" if found is None else f"{found['median'] * 1e3:.0f} ms"
