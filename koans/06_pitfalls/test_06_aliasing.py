"""Aliasing: two names for one memory, and right shapes over mixed samples."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from sensei import __


def test_two_cameras_with_one_buffer_each():
    """Each camera writes its frames 1, 2 and 3 into one buffer, and each frame is put in a list.

    Predict what the list holds in the end, for the float64 camera and for the float32 camera.
    """
    seen = []
    for dtype in (np.float64, np.float32):
        buffer, kept = np.zeros(2, dtype=dtype), []
        for number in (1, 2, 3):
            buffer[:] = number
            kept.append(torch.from_numpy(buffer).float())
        seen.append([frame[0].item() for frame in kept])
    assert seen == __


def test_a_receiver_that_empties_its_buffer():
    """Bytes from a network arrive in a bytearray, and a tensor is made of it. A byte is written,
    then the receiver clears the bytearray for the next message.

    Predict the tensor after the write, and the exception that clear raises.
    """
    received = bytearray(4)
    message = torch.from_numpy(np.frombuffer(received, dtype=np.uint8))
    received[0] = 7
    assert message.tolist() == __
    with pytest.raises(Exception) as caught:
        received.clear()
    assert caught.type is __


def test_one_bucket_for_each_class():
    """Three classes, a bucket for each. Predict the buckets after the first count, and at the
    end."""
    buckets = [torch.zeros(1)] * 3
    buckets[0] += 1
    assert torch.cat(buckets).tolist() == __
    buckets[1] = buckets[1] + 5
    buckets[2] += 1
    assert torch.cat(buckets).tolist() == __


def test_a_total_and_a_best_from_one_zero():
    """A report begins with total = best = zero, for four kinds of zero: a float, a scalar, an array
    and a tensor. Then total grows by 2.

    Predict what best is, for each.
    """
    ends = []
    for zero in (0.0, np.float64(0.0), np.array(0.0), torch.tensor(0.0)):
        total = best = zero
        total += 2.0
        ends.append(float(best))
    assert ends == __


def test_take_one_frame_out_of_a_list():
    """Three frames in a list. Removing the first one works. Removing the last one raises.

    Which exception is it?
    """
    frames = [torch.zeros(2), torch.ones(2), torch.ones(2)]
    first, last = frames[0], frames[2]
    frames.remove(first)
    with pytest.raises(Exception) as caught:
        frames.remove(last)
    assert caught.type is __


def test_a_sum_that_remembers_other_calls():
    """`total` adds parts into `out`, if a caller brings one, and else into a new tensor. That is
    the plan. But the second call gives too much. Repair it."""

    # your turn:
    def total(parts, out=torch.zeros(2)):
        for part in parts:
            out += part
        return out

    # end

    a, b = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    first, second, mine = total([a, b]), total([a, a]), torch.ones(2)
    assert first.tolist() == [11.0, 22.0]
    assert second.tolist() == [2.0, 4.0]
    assert total([b], mine) is mine
    assert mine.tolist() == [11.0, 21.0]
    assert total([a]).tolist() == [1.0, 2.0]


def test_the_second_epoch_is_easier():
    """A price is divided by 10 to suit the model. Epoch by epoch the loss falls, and yet the model
    is useless. Repair the marked line."""

    class Prices(torch.utils.data.Dataset):
        def __init__(self, targets):
            self.targets = targets

        def __len__(self):
            return len(self.targets)

        def __getitem__(self, i):
            target = self.targets[i]
            # your turn:
            target /= 10
            # end
            return target

    for prices in ([10.0, 30.0], [20.0, 50.0, 70.0]):
        data = Prices(torch.tensor(prices))
        for _ in range(3):
            epoch = torch.stack([data[i] for i in range(len(data))])
            assert epoch.tolist() == pytest.approx([price / 10 for price in prices])
        assert data.targets.tolist() == prices


def test_move_one_point_of_a_grid():
    """A grid of points, in three rows and two columns. ys holds the second coordinate of each
    point. One point is moved to 9.

    Predict ys, and then `ticks`, from which it was made.
    """
    ticks = torch.arange(3.0)
    ys, xs = torch.meshgrid(ticks, torch.arange(2.0), indexing="ij")
    ys[0, 0] = 9.0
    assert ys.tolist() == __
    assert ticks.tolist() == __


def test_a_teacher_copied_from_a_student():
    """The teacher is a copy.copy of the student. Then it gets a new weight and another mode.

    Predict the student's weight and student.training.
    """
    student = nn.Linear(1, 1, bias=False)
    nn.init.ones_(student.weight)
    teacher = copy.copy(student)
    teacher.weight = nn.Parameter(torch.tensor([[9.0]]))
    teacher.eval()
    assert [student.weight.item(), student.training] == __


def test_the_best_so_far_is_the_last():
    """On the GPU this kept the best weights. On a laptop the best model is always the last one.

    Repair the marked line.
    """

    def keep(model):
        # your turn:
        return {name: value.cpu() for name, value in model.state_dict().items()}
        # end

    for model in (nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1))):
        before = {name: value.tolist() for name, value in model.state_dict().items()}
        best = keep(model)
        for value in model.state_dict().values():
            value.add_(1)
        assert all(not value.requires_grad for value in best.values())
        model.load_state_dict(best)
        assert {name: value.tolist() for name, value in model.state_dict().items()} == before


def test_a_product_for_each_sample():
    """For one matrix, x.T @ x compares its columns. With a batch it raises, or worse: it does not,
    and the samples are mixed. Repair the marked line."""

    def compare_columns(x):
        # your turn:
        return x.T @ x
        # end

    for samples, rows, columns in ((2, 4, 3), (3, 3, 3), (5, 2, 1)):
        x = torch.randn(samples, rows, columns)
        products = compare_columns(x)
        assert tuple(products.shape) == (samples, columns, columns)
        for matrix, product in zip(x.unbind(), products.unbind()):
            expected = [[(a * b).sum().item() for a in matrix.T] for b in matrix.T]
            torch.testing.assert_close(product, torch.tensor(expected), rtol=1e-3, atol=1e-4)


def test_all_steps_of_a_sample_in_one_row():
    """A classifier wants one row for each sample: all its steps, one after the other. The shape is
    right, and it learns almost nothing. Repair the marked line."""

    def rows_of(out):
        # your turn:
        return out.reshape(out.shape[1], -1)
        # end

    rnn = nn.RNN(1, 3)
    for steps, samples in ((5, 2), (4, 4)):
        x = torch.randn(steps, samples, 1)
        out, _ = rnn(x)
        rows = rows_of(out)
        assert tuple(rows.shape) == (samples, 3 * steps)
        for sample in range(samples):
            for step in range(steps):
                piece = rows[sample, 3 * step : 3 * step + 3]
                assert torch.equal(piece, out[step, sample])


def test_write_a_test_for_mixed_samples():
    """Write `sources`: the sorted indices of the samples (rows of x) on which row i of model(x)
    depends. Leave x, and the .grad of the parameters, as they are."""

    def sources(model, x, i):
        # your turn:
        __
        # end

    class Turned(nn.Module):
        def forward(self, x):
            return x.t().reshape(x.shape)

    linear, norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
    reverse = nn.Sequential(linear, Turned(), nn.Flatten())
    cases = [
        (linear, [[0], [1], [2]]),
        (norm, [[0, 1, 2]] * 3),
        (reverse, [[0, 1], [0, 2], [1, 2]]),
    ]
    for model, expected in cases:
        x = torch.randn(3, 2)
        before = x.clone()
        assert [sources(model, x, i) for i in range(3)] == expected
        assert torch.equal(x, before) and not x.requires_grad
        assert all(p.grad is None for p in model.parameters())
    assert [sources(norm.eval(), x, i) for i in range(3)] == [[0], [1], [2]]


def test_write_a_memory_for_an_agent():
    """Write `push` and `sample` of a memory that keeps tensors in self.items: no graph, no storage
    larger than needed, the dtype unchanged. No later write, to the source or to a sample, may
    reach what is kept."""

    class Memory:
        def __init__(self):
            self.items = []

        # your turn:
        __
        # end

    weight, buffer = torch.ones(2, requires_grad=True), np.full(2, 7, dtype=np.int16)
    sources = [torch.from_numpy(buffer), weight * 3, torch.zeros(50, 2)[4], torch.ones(1).expand(2)]
    memory = Memory()
    for source in sources:
        memory.push(source)
        source.detach().view(2, 1)[0] = 5
    for i, numbers in enumerate(([7, 7], [3.0, 3.0], [0.0, 0.0], [1.0, 1.0])):
        memory.sample(i)[0] = 100
        found = memory.sample(i)
        assert found.tolist() == numbers
        assert found.dtype == sources[i].dtype and not memory.items[i].requires_grad
        assert memory.items[i].untyped_storage().nbytes() == 2 * found.element_size()
