"""Two processes that share every batch give the losses of one, and only the first of them reports and writes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core.train.shards import Reply, write_shard

V, H = 40, 16
# Batches of seven positions do not divide by two processes with two parts each.
SOURCE = """
import json, sys
from pathlib import Path
import torch
from medusa_core.config import TrainConfig
from medusa_core.heads.medusa import HeadsShape
from medusa_core.heads.rooted import RootedHeads
from medusa_core.train import loop, processes
from medusa_core.train.corpus import load
from medusa_core.train.loop import Batches, fit
from medusa_core.train.medusa1 import HeadsObjective

torch.set_num_threads(1)
folder, out, accumulate, soft = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "soft"
config = TrainConfig(num_heads=2, batch_positions=7, epochs=2, learning_rate=0.01, draft_vocab_size=0,
                     accumulate=accumulate, mixed_precision="no", soft_labels=soft)
generator = torch.Generator().manual_seed(0)
weight, embedding = (torch.randn({V}, {H}, generator=generator) for _ in range(2))
shape = HeadsShape(num_heads=2, num_layers=2, hidden_size={H}, vocab_size={V}, draft_vocab_size={V},
                   shared_output=False)
heads = RootedHeads(shape, weight, embedding)
training, _ = load(folder, 0.1)
losses = []
accelerator = processes.join(torch.device("cpu"), config.mixed_precision)
inner = loop._gradients
def watch(*arguments):
    losses.append(inner(*arguments))
    return losses[-1]
loop._gradients = watch
def unmeasured():
    yield from ()
    return ()
objective = HeadsObjective(heads, training, weight, config)
events = list(fit(objective, unmeasured, Batches(len(training.tokens), 7, 1, run=4), config, out, accelerator))
report = {{"losses": losses, "events": len(events), "world": accelerator.num_processes, "main": processes.is_main(),
          "sum": float(sum(p.detach().double().abs().sum() for p in heads.parameters()))}}
(out / f"report-{{accelerator.process_index}}.json").write_text(json.dumps(report))
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def start(folder: Path, out: Path, world: int, accumulate: int, labels: str) -> list[subprocess.Popen[str]]:
    """The processes as a launcher starts them: each is told its place by environment variables."""
    out.mkdir()
    script = out / "script.py"
    script.write_text(SOURCE.format(V=V, H=H), encoding="utf-8")
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    children = []
    for rank in range(world):
        mine = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(world),
            "ACCELERATE_USE_CPU": "true",
        }
        several = {**place, **mine} if world > 1 else {}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)} | several
        command = [sys.executable, str(script), str(folder), str(out), str(accumulate), labels]
        children.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    return children


def reports(out: Path, children: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    for child in children:
        output, _ = child.communicate(timeout=240)
        assert child.returncode == 0, output
    return [json.loads((out / f"report-{rank}.json").read_text(encoding="utf-8")) for rank in range(len(children))]


def test_two_processes_give_the_losses_of_one(tmp_path: Path) -> None:
    folder = tmp_path / "replies"
    generator = torch.Generator().manual_seed(1)
    for job in range(24):
        tokens = torch.randint(V, (2 + job % 5,), generator=generator).tolist()
        write_shard(folder, [Reply(job, 0.0, [1], tokens, torch.randn(len(tokens), H, generator=generator))])
    runs = {
        (world, accumulate): start(folder, tmp_path / f"{world}-{accumulate}", world, accumulate, "soft")
        for world, accumulate in ((1, 1), (2, 2))
    }
    (alone,) = reports(tmp_path / "1-1", runs[1, 1])
    first, second = reports(tmp_path / "2-2", runs[2, 2])
    assert (alone["world"], first["world"], second["world"]) == (1, 2, 2)
    assert len(alone["losses"]) > 10
    assert first["losses"] == second["losses"]
    assert first["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    assert first["sum"] == second["sum"] == pytest.approx(alone["sum"], rel=1e-5)
    assert alone["losses"][-1] < alone["losses"][0]
    assert (first["main"], second["main"]) == (True, False)
    assert first["events"] == alone["events"] > 0
    assert second["events"] == 0, "only the first process reports"
