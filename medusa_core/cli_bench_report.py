"""How `bench` shows what came out: tables for the terminal, plots beside the file. Knows nothing of measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PLOTS = {
    "tree": ("Trees by draft nodes", "draft nodes"),
    "heads": ("By number of heads", "heads"),
    "epsilon": ("Typical acceptance by epsilon", "epsilon (0: greedy)"),
}
_MEASURES = (
    ("tokens_per_step", "pooled_tokens_per_step", "tokens a step"),
    ("tokens_per_second", "pooled_tokens_per_second", "tokens a second"),
)


def comparison_lines(report: Mapping[str, Any]) -> list[str]:
    """The tables of a comparison."""
    from medusa_core.bench.report import looping_table, table

    systems = list(report["systems"])
    versus = "plain" if "plain" in systems else systems[-1]
    apart = looping_table(report, versus)
    return [
        *system_lines(report),
        "",
        *table(report, versus),
        *(["", "Replies that loop, apart:", *apart] if apart else []),
        "",
        *_against_all(report),
    ]


def system_lines(report: Mapping[str, Any]) -> list[str]:
    """What ran, and where."""
    machine, config = report["machine"], report["config"]
    memory = machine["ram_bytes"] / 2**30
    asked = f"prompts: {config['prompts_count']}, runs: {config['runs']}, at most {config['max_new_tokens']} new tokens"
    lines = [
        f"{machine['cpu']}, {machine['threads']} threads, {memory:.0f} GiB, {machine['os']}",
        f"{config['model']} in {machine['dtype']} on {machine['device']}, heads {config['heads']}; {asked}",
    ]
    for name, system in report["systems"].items():
        about = ", ".join(f"{key} {value}" for key, value in system["about"].items())
        lines.append(f"{name}: {about}")
    return lines if report["complete"] else [*lines, "INCOMPLETE: not every system answered every prompt."]


def _against_all(report: Mapping[str, Any]) -> list[str]:
    """The first system against each other one."""
    first, *rest = report["systems"]
    lines = []
    for other in rest:
        ratio = report["ratios"][first][other]["all"]
        if ratio is not None:
            lines.append(
                f"{first} is {ratio['median']:.2f} times as fast as {other} "
                f"(10-90%: {ratio['p10']:.2f}-{ratio['p90']:.2f}, {ratio['count']} pairs of replies)"
            )
    return lines


def ablation_lines(ablations: Mapping[str, Any]) -> list[str]:
    """One table an ablation."""
    lines: list[str] = []
    for name, found in ablations.items():
        lines += ["", f"{name}:", *(_batch_lines(found) if name == "batch" else _setting_lines(found))]
    return lines[1:]


def _setting_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    drifting = any("mean_log_probability" in row for row in rows)
    header = f"{'':<14}{'':>10}{'nodes':>7}{'tokens/step':>13}{'tokens/s':>10}"
    lines = [header + (f"{'mean log p':>12}{'below first':>13}" if drifting else "")]
    for row in rows:
        value = row["value"] if isinstance(row["value"], str) else f"{row['value']:g}"
        cells = f"{row['draft_nodes'] or '-':>7}{_number(row['pooled_tokens_per_step'], 2):>13}"
        cells += f"{_number(row['pooled_tokens_per_second'], 1):>10}"
        if drifting:
            cells += f"{_number(row['mean_log_probability'], 3):>12}"
            cells += f"{_number(row['mean_nats_below_first_choice'], 3):>13}"
        lines.append(f"{row['series']:<14}{value:>10}{cells}")
    return lines


def _batch_lines(found: Mapping[str, Any]) -> list[str]:
    gains = found["gains"]
    batches = sorted({row["batch"] for row in gains})
    by_place = {(row["draft_nodes"], row["batch"]): row["gain"] for row in gains}
    lines = ["Tokens a second of trees in multiples of plain decoding, by sequences that share a pass:"]
    lines.append(f"{'nodes':>7}" + "".join(f"{batch:>8}" for batch in batches))
    for nodes in sorted({row["draft_nodes"] for row in gains}):
        cells = (by_place.get((nodes, batch)) for batch in batches)
        lines.append(f"{nodes:>7}" + "".join(f"{_number(gain, 2):>8}" for gain in cells))
    ends = found["gain_ends_at"]
    return [*lines, f"Trees still gain with {ends} sequences at once." if ends else "No tree gains here."]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def write_plots(ablations: Mapping[str, Any], beside: Path) -> list[Path]:
    """One SVG a plot, named after the file they stand beside."""
    from medusa_core.bench.plots import line_chart

    written = []
    for name, chart in _charts(ablations):
        path = beside.with_name(f"{beside.stem}-{name}.svg")
        path.write_text(line_chart(**chart), encoding="utf-8")
        written.append(path)
    return written


def _charts(ablations: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    charts: list[tuple[str, dict[str, Any]]] = []
    for name, (title, label) in _PLOTS.items():
        for measure, key, words in _MEASURES:
            series = _series(ablations.get(name, ()), "value", key)
            charts.append((f"{name}-{measure}", _chart(title, label, words, series, doubling=name == "tree")))
    drift = _series(ablations.get("epsilon", ()), "mean_nats_below_first_choice", "pooled_tokens_per_second")
    words = "nats a token below the model's first choice"
    charts.append(("epsilon-drift", _chart("Speed against drift", words, "tokens a second", drift)))
    if "batch" in ablations:
        gains = [{**row, "series": f"{row['draft_nodes']} nodes"} for row in ablations["batch"]["gains"]]
        series = _series(gains, "batch", "gain")
        chart = _chart("Gain by batch size", "sequences", "times plain decoding", series, doubling=True)
        charts.append(("batch-gain", chart))
    return [(name, chart) for name, chart in charts if chart["series"]]


def _chart(title: str, x: str, y: str, series: list[Any], *, doubling: bool = False) -> dict[str, Any]:
    return {"title": title, "x_label": x, "y_label": y, "series": series, "doubling": doubling}


def _series(rows: Sequence[Mapping[str, Any]], x: str, y: str) -> list[Any]:
    """One line for each series of the rows, points without a value left out."""
    from medusa_core.bench.plots import Series

    names = dict.fromkeys(row["series"] for row in rows)
    lines = []
    for name in names:
        points = [(row[x], row[y]) for row in rows if row["series"] == name and row[y] is not None]
        if points:
            lines.append(Series(str(name), tuple(sorted((x, y) for x, y in points if x is not None))))
    return lines
