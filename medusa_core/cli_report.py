"""How the commands print what they know of heads: accuracies, trees beside closed forms, costs, tokens a second.

Knows nothing of how it was measured.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core import hub
from medusa_core.cli_options import defaults, finish
from medusa_core.config import CalibrateConfig

if TYPE_CHECKING:
    from medusa_core.backbone.cost import CostTable
    from medusa_core.calibrate.report import HeadsReport, TreeRow
    from medusa_core.chat import Chat
    from medusa_core.head_statistics import HeadStatistics
    from medusa_core.heads.checkpoint import HeadsCheckpoint
    from medusa_core.heads.medusa import MedusaHeads
    from medusa_core.tree import RankedTree

_SPEED_SIZES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def measured_report(
    chat: Chat, heads: MedusaHeads, statistics: HeadStatistics, tree: RankedTree, context: int
) -> HeadsReport:
    """The report of measured heads on this machine, whose costs are kept in the user's cache."""
    from medusa_core.calibrate.report import make_report
    from medusa_core.heads.cost import heads_costs

    folder = hub.default_cache().parent / "costs"
    cost = finish(heads_costs(chat.backbone, heads, chat.info.dtype, folder))
    return make_report(statistics, tree, cost, context)


def report_lines(report: HeadsReport) -> list[str]:
    """All of it."""
    return [
        *_accuracy_lines(report),
        "",
        *_tree_lines(report),
        "",
        *_cost_lines(report.cost),
        "",
        *_speed_lines(report),
    ]


def training_lines(chat: Chat, checkpoint: HeadsCheckpoint, out: Path, model: str) -> list[str]:
    """The end of a training: the report, and where the heads are."""
    assert checkpoint.statistics is not None, "training ends with calibration"
    context = defaults(CalibrateConfig)["context"]
    report = measured_report(chat, checkpoint.heads, checkpoint.statistics, checkpoint.tree, context)
    vocabulary = f"{checkpoint.heads.shape.draft_vocab_size:,} tokens"
    coverage = checkpoint.training["draft_vocabulary_coverage"]
    command = shlex.join(["python", "-m", "medusa_core", "generate", "--model", model, "--heads", str(out)])
    return [
        "",
        *report_lines(report),
        "",
        f"Draft vocabulary: {vocabulary}, {coverage:.1%} of what the model wrote",
        *_drift_lines(checkpoint.training),
        f"Heads written to {out}; use them with: {command} --prompt ...",
    ]


def _drift_lines(record: Mapping[str, Any]) -> list[str]:
    """How far Medusa-2 moved the model; nothing where the model stayed as it was."""
    if "drift" not in record:
        return []
    drift = record["drift"]
    perplexity = f"{drift['perplexity_before']:.3f} before, {drift['perplexity_after']:.3f} after"
    return [f"The model changed: {drift['kl']:.4f} nats a token from the original, held-out perplexity {perplexity}"]


def share_table(header: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]) -> list[str]:
    """Shares in percent, a row each, under right-aligned columns."""
    width = max(7, *(len(column) + 1 for column in columns))
    first = max(len(header), *(len(name) for name, _ in rows))
    lines = [f"{header:<{first}}" + "".join(f"{column:>{width}}" for column in columns)]
    return lines + [f"{name:>{first}}" + "".join(f"{share:>{width}.1%}" for share in shares) for name, shares in rows]


def _accuracy_lines(report: HeadsReport) -> list[str]:
    count = len(report.top[0]) if report.top else 0
    rows = [(str(number), shares) for number, shares in enumerate(report.top, 1)]
    temperatures = " ".join(f"{temperature:.2f}" for temperature in report.temperatures)
    replies = f"{report.steps:,} tokens, {report.greedy_steps:,} of them greedy; model in {report.precision}"
    return [
        f"On held-out replies ({replies}), the token that came was among a head's first guesses:",
        *share_table("head", [f"top-{rank}" for rank in range(1, count + 1)], rows),
        f"Temperature that makes each head's probabilities fit best: {temperatures}",
    ]


def _tree_lines(report: HeadsReport) -> list[str]:
    columns = f"{'nodes':>5}{'counted':>9}{'greedy':>9}{'sampled':>9}{'dense':>8}{'by ranks':>10}{'by 1-(1-a)^s':>14}"
    return [
        "Expected tokens per step by draft nodes of the tree, counted by paths; beside them the closed forms, as if",
        "heads erred independently: by the accuracy of every rank, and by 1-(1-a)^s for s guesses of accuracy a.",
        f"{columns}  dense tree",
        *(_tree_line(row) for row in report.trees),
        f"A chain of first guesses: counted {report.chain_counted:.2f}, closed form {report.chain_closed_form:.2f}",
    ]


def _tree_line(row: TreeRow) -> str:
    greedy, sampled = (f"{value:.2f}" if value is not None else "-" for value in (row.greedy, row.sampled))
    return (
        f"{row.draft_nodes:>5}{row.counted:>9.2f}{greedy:>9}{sampled:>9}{row.dense:>8.2f}{row.independent:>10.2f}"
        f"{row.closed_form:>14.2f}  {' x '.join(map(str, row.branching))}"
    )


def _cost_lines(cost: CostTable) -> list[str]:
    about = dict(cost.key)
    header = "".join(f"{f'{context} cached':>14}" for context in cost.contexts)
    rows = [
        f"{rows:>5}" + "".join(f"{times[index] * 1e3:>11.2f} ms" for times in cost.passes)
        for index, rows in enumerate(cost.rows)
    ]
    where = ", ".join((about.get("device", ""), f"{about.get('threads', '')} threads", about.get("precision", "")))
    return [
        f"One pass of the model on this machine ({where}), by rows:",
        f"{'rows':>5}{header}",
        *rows,
        f"One draft by the heads: {cost.draft_seconds * 1e3:.2f} ms",
    ]


def _speed_lines(report: HeadsReport) -> list[str]:
    shown = [
        row
        for row in report.speeds
        if row.draft_nodes in _SPEED_SIZES or row.draft_nodes in (report.best_draft_nodes, len(report.speeds) - 1)
    ]
    rows = [
        f"{row.draft_nodes:>5}{row.tokens:>13.2f}{row.seconds * 1e3:>11.2f} ms{row.tokens_per_second:>10.1f}"
        + ("  <- fastest" if row.draft_nodes == report.best_draft_nodes else "")
        for row in shown
    ]
    plain = report.speeds[0].tokens_per_second
    best = report.speeds[report.best_draft_nodes]
    verdict = (
        f"Fastest: {best.draft_nodes} draft nodes, {best.tokens_per_second / plain:.2f} times plain decoding"
        if best.draft_nodes
        else "Fastest: plain decoding; on this machine no tree of these heads pays"
    )
    return [
        f"Expected speed with {report.context} tokens cached, by draft nodes (0: plain decoding):",
        f"{'nodes':>5}{'tokens/step':>13}{'a step':>14}{'tokens/s':>10}",
        *rows,
        verdict,
    ]
