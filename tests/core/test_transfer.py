"""Numbers that arrive later are the numbers that were sent."""

from __future__ import annotations

import torch

from medusa_core.transfer import Arriving, download, upload


def test_uploaded_numbers_are_whole() -> None:
    tensor = upload([3, 1, 2**40], torch.device("cpu"))
    assert tensor.dtype == torch.long
    assert tensor.tolist() == [3, 1, 2**40]


def test_on_the_cpu_numbers_are_there_at_once() -> None:
    assert download(torch.tensor([5, 6])) == (5, 6)
    assert download(torch.tensor([0.5]), (None,)) == (None, 0.5)


def test_arriving_numbers_read_as_a_sequence() -> None:
    numbers = Arriving(torch.tensor([0.25, 0.5]), (None,))
    assert len(numbers) == 3
    assert list(numbers) == [None, 0.25, 0.5]
    assert numbers[1:] == (0.25, 0.5)
    assert numbers[-1] == 0.5


def test_arriving_token_ids_become_tensors_again() -> None:
    numbers = Arriving(torch.tensor([7, 8]))
    assert torch.tensor(numbers).tolist() == [7, 8]
    assert numbers.tensor.tolist() == [7, 8]
