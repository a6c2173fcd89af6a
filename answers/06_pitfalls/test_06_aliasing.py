"""Aliasing: two names for one memory, and right shapes over mixed samples."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    see="torch.Tensor.float",
    hint=[
        "from_numpy looks at the array's memory. The camera writes into the same memory again.",
        "float() promises a dtype. For which of the two buffers has it something to do?",
    ],
    why=(
        "float() copies only if it must change the dtype. So the program is right with a float64 "
        "camera, and the day a float32 one is bought, all frames are the last frame. Whoever keeps "
        "a frame of a reused buffer should say clone()."
    ),
    wrong={
        "[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]": (
            "Some say a conversion always copies. Compare the data_ptr() before and after float()."
        ),
        "[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]": (
            "This is right for from_numpy alone. But there is a conversion after it."
        ),
        "[[3.0, 3.0, 3.0], [1.0, 2.0, 3.0]]": "Which dtype is the one that float() stands for?",
    },
)
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
    assert seen == answer([[1.0, 2.0, 3.0], [3.0, 3.0, 3.0]])


@koan(
    see="torch.from_numpy",
    hint=[
        "The first blank: how many copies of the four bytes are there? Does data_ptr() change with "
        "from_numpy?",
        "The second blank: somebody else reads these bytes, so Python refuses to give them back. "
        "Its documentation has a list of all built-in exceptions; which of them fits?",
    ],
    why=(
        "Nothing was copied, so the tensor reads each new byte. numpy borrows the bytes through "
        "Python's buffer protocol, and the tensor keeps the array alive. While they are lent, a "
        "bytearray may be written, but not resized: BufferError. torch.frombuffer is less careful: "
        "nobody stops you, and the tensor reads freed memory."
    ),
    wrong={
        ("[0, 0, 0, 0]", "BufferError"): (
            "Some say that from_numpy copies. torch.tensor does; this one looks at the memory that "
            "is there."
        ),
        ("[7, 7, 7, 7]", "BufferError"): "One byte was written. The others are what they were.",
        ("[7, 0, 0, 0]", "MemoryError"): (
            "This one is for memory that cannot be had. Here it cannot be given back."
        ),
        ("[7, 0, 0, 0]", "RuntimeError"): (
            "PyTorch does not notice what is done to the bytearray."
        ),
        ("[7, 0, 0, 0]", "ValueError"): (
            "numpy says so when an array in use is resized. This is no array."
        ),
        ("[7, 0, 0, 0]", "TypeError"): "A bytearray can be cleared, on other days.",
        ("[7, 0, 0, 0]", "Exception"): (
            "This is the parent of nearly all. The type itself is asked for."
        ),
    },
    at={
        "message.tolist()": (
            "This line looks at the numbers. How many copies of the four bytes are there? Does "
            "data_ptr() change with from_numpy?"
        ),
        "assert caught.type is": (
            "The tensor is right. The exception is Python's: these bytes are lent to somebody. "
            "Look through its list of built-in exceptions."
        ),
    },
)
def test_a_receiver_that_empties_its_buffer():
    """Bytes from a network arrive in a bytearray, and a tensor is made of it. A byte is written,
    then the receiver clears the bytearray for the next message.

    Predict the tensor after the write, and the exception that clear raises.
    """
    received = bytearray(4)
    message = torch.from_numpy(np.frombuffer(received, dtype=np.uint8))
    received[0] = 7
    assert message.tolist() == answer([7, 0, 0, 0])
    with pytest.raises(Exception) as caught:
        received.clear()
    assert caught.type is answer(BufferError)


@koan(
    see="torch.Tensor.add",
    hint=[
        "How many tensors does torch.zeros make here, and how many entries has the list?",
        "The line with + 5 puts something new into one entry. What do the other two hold?",
    ],
    why=(
        "[x] * 3 is one tensor three times, and += writes into it, so all three grow. An entry "
        "that is assigned a new tensor leaves the others, which stay together. With plain numbers "
        "none of this shows, since a number cannot be written into."
    ),
    wrong={
        ("[1.0, 0.0, 0.0]", "[1.0, 5.0, 1.0]"): (
            "Some say [x] * 3 makes three of them, as [0] * 3 makes three zeros. A zero cannot be "
            "changed, so nobody sees how many there are."
        ),
        ("[1.0, 1.0, 1.0]", "[7.0, 7.0, 7.0]"): (
            "The first write reaches all. But one of the next two lines makes a new tensor."
        ),
        ("[1.0, 1.0, 1.0]", "[1.0, 6.0, 2.0]"): (
            "One entry was given a new tensor. Are the other two separated by that?"
        ),
    },
)
def test_one_bucket_for_each_class():
    """Three classes, a bucket for each. Predict the buckets after the first count, and at the
    end."""
    buckets = [torch.zeros(1)] * 3
    buckets[0] += 1
    assert torch.cat(buckets).tolist() == answer([1.0, 1.0, 1.0])
    buckets[1] = buckets[1] + 5
    buckets[2] += 1
    assert torch.cat(buckets).tolist() == answer([2.0, 6.0, 2.0])


@koan(
    see="torch.Tensor.add_",
    hint=[
        "After the first line there are two names. For how many objects?",
        "Which of the four objects can be written into? The others are replaced.",
        "A scalar of numpy and an array without dimensions are two different types.",
    ],
    why=(
        "+= asks the object to change itself. Python's floats and numpy's scalars cannot, so total "
        "gets a new object and best stays. An array or tensor without dimensions looks like a "
        "number, and is a memory that can be written: best grows with total."
    ),
    wrong={
        "[0.0, 0.0, 0.0, 0.0]": (
            "Some say that a tensor without dimensions is a number. It is a place that holds one."
        ),
        "[0.0, 0.0, 0.0, 2.0]": "numpy has places for one number, too.",
        "[0.0, 2.0, 2.0, 2.0]": "What you get out of an array, as a[0], is a scalar: no place.",
        "[2.0, 2.0, 2.0, 2.0]": "Try the first one in plain Python.",
    },
)
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
    assert ends == answer([0.0, 0.0, 2.0, 2.0])


@koan(
    see="torch.equal",
    hint=[
        "remove walks through the list and compares. It asks `is` before it asks `==`.",
        "For the first frame `is` was enough. What does == give for the frames on the way now?",
        "remove wants a plain yes or no of it. Who cannot give one?",
    ],
    why=(
        "== compares element by element, and a tensor of two elements has no single truth: "
        "RuntimeError. The first removal met its own object at once, so `==` was never asked. "
        "`in` and index() do the same. Search by identity: [f for f in frames if f is not last]."
    ),
    wrong={
        "ValueError": "remove says so when it has found nothing. It did not get that far.",
        "TypeError": "Tensors may be compared with ==. It is the result that makes trouble.",
        "IndexError": "No index is used. remove looks at one entry after the other.",
    },
)
def test_take_one_frame_out_of_a_list():
    """Three frames in a list. Removing the first one works. Removing the last one raises.

    Which exception is it?
    """
    frames = [torch.zeros(2), torch.ones(2), torch.ones(2)]
    first, last = frames[0], frames[2]
    frames.remove(first)
    with pytest.raises(Exception) as caught:
        frames.remove(last)
    assert caught.type is answer(RuntimeError)


@koan(
    see="torch.zeros",
    hint=[
        "When does Python compute a default value: at each call, or once?",
        "Print total.__defaults__ after a call.",
        "Who brings `out` wants it filled. Who brings nothing wants a new one at each call.",
    ],
    why=(
        "A default is computed once, when `def` runs, and += writes into it: it remembers all "
        "calls, and all results are this one tensor. None as default and a new tensor inside is "
        "the usual cure. Zeroing it first only hides it: the earlier result is wiped as well."
    ),
    wrong={
        "def total(parts, out=torch.zeros(2)):\n    out.zero_()\n    for part in parts:\n"
        "        out += part\n    return out": (
            "The second result is right, and the first one has become the second. What a caller "
            "brings is lost, too."
        ),
        "def total(parts, out=torch.zeros(2)):\n    out = out.clone()\n    for part in parts:\n"
        "        out += part\n    return out": (
            "Without `out` it works. But a caller's own tensor is not filled any more."
        ),
        "def total(parts, out=torch.zeros(2)):\n    for part in parts:\n"
        "        out = out + part\n    return out": (
            "No write any more, so no memory of old calls. But `out` was there to be written."
        ),
        "def total(parts, out=torch.zeros(2).clone()):\n    for part in parts:\n"
        "        out += part\n    return out": (
            "Some say the copy is new at each call. The whole expression runs once, with `def`."
        ),
        "def total(parts, out=torch.zeros(2)):\n    for part in parts:\n        out += part\n"
        "    return out.clone()": "The results are separate now. The default still remembers.",
    },
    right=[
        "def total(parts, out=None):\n    out = torch.zeros(2) if out is None else out\n"
        "    for part in parts:\n        out.add_(part)\n    return out",
        "def total(parts, out=None):\n    sums = torch.stack(list(parts)).sum(dim=0)\n"
        "    return sums if out is None else out.add_(sums)",
    ],
    at={
        "first.tolist()": (
            "This line reads the first result after the second call. It should hold the sum of "
            "its own parts."
        ),
        "second.tolist()": (
            "The first result is right. The second one should hold the sum of its own parts, and "
            "nothing from before."
        ),
        "total([b], mine) is mine": (
            "Without `out` both results are right. But who brings a tensor as `out` must get that "
            "very tensor back."
        ),
        "mine.tolist()": (
            "The caller's own tensor comes back. The parts must be added to what it held before."
        ),
        "total([a]).tolist()": (
            "All is right so far. But this last call, without `out`, should know nothing of the "
            "calls before it."
        ),
    },
)
def test_a_sum_that_remembers_other_calls():
    """`total` adds parts into `out`, if a caller brings one, and else into a new tensor. That is
    the plan. But the second call gives too much. Repair it."""

    # answer:
    def total(parts, out=None):
        if out is None:
            out = torch.zeros(2)
        for part in parts:
            out += part
        return out

    # given:
    # def total(parts, out=torch.zeros(2)):
    #     for part in parts:
    #         out += part
    #     return out
    # end

    a, b = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    first, second, mine = total([a, b]), total([a, a]), torch.ones(2)
    assert first.tolist() == [11.0, 22.0]
    assert second.tolist() == [2.0, 4.0]
    assert total([b], mine) is mine
    assert mine.tolist() == [11.0, 21.0]
    assert total([a]).tolist() == [1.0, 2.0]


@koan(
    see="torch.Tensor.__getitem__",
    hint=[
        "Print data.targets after the first epoch.",
        "targets[i] has no dimensions. Is it a number, or a view of one?",
        "The line is meant to make a new value, not to change the old one.",
    ],
    why=(
        "targets[i] is a view, though it looks like a number, and /= writes through it. Each epoch "
        "makes the targets smaller, so the loss falls nicely. With workers forked anew for each "
        "epoch the write stays in the worker, and the fault hides until someone sets num_workers=0."
    ),
    wrong={
        "target = target.detach()\ntarget /= 10": (
            "Some say detach() gives a tensor of its own. It leaves the graph and keeps the memory."
        ),
        "target = target.view_as(target)\ntarget /= 10": "A view of a view: the same memory.",
        "self.targets[i] = target / 10\ntarget = self.targets[i]": (
            "A new value, and then it is written into the data all the same."
        ),
        "target = target.contiguous()\ntarget /= 10": "It is contiguous already, so no copy.",
        "target = target.float()\ntarget /= 10": "float() has nothing to convert: no copy.",
        "pass": "Now nothing is scaled.",
    },
    right=[
        "target = target.clone()\ntarget /= 10",
        "target = target * 0.1",
        "target = torch.div(target, 10)",
        "target = torch.tensor(target.item() / 10)",
    ],
    at={
        "epoch.tolist() ==": (
            "In the first epoch, or in a later one? First: is each target a tenth of its price? "
            "Later: print data.targets as well."
        ),
        "data.targets.tolist() == prices": (
            "Each epoch is right. But the data are not what they were: print data.targets."
        ),
        "epoch = torch.stack": (
            "Here the targets of an epoch are stacked: each one must still be a tensor, all of "
            "one shape."
        ),
    },
)
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
            # answer:
            target = target / 10
            # given:
            # target /= 10
            # end
            return target

    for prices in ([10.0, 30.0], [20.0, 50.0, 70.0]):
        data = Prices(torch.tensor(prices))
        for _ in range(3):
            epoch = torch.stack([data[i] for i in range(len(data))])
            assert epoch.tolist() == pytest.approx([price / 10 for price in prices])
        assert data.targets.tolist() == prices


@koan(
    see="torch.meshgrid",
    hint=[
        "Print the strides of ys. How far is it to the next column?",
        "A stride of 0 never leaves the cell. And whose cell is it?",
    ],
    why=(
        "meshgrid makes its grids with expand, so nothing is copied: a row of ys is one cell of "
        "`ticks`, seen twice. One write changes the row and the source. Some functions return "
        "views without saying it in their name; clone() before you write."
    ),
    wrong={
        ("[[9.0, 0.0], [1.0, 1.0], [2.0, 2.0]]", "[0.0, 1.0, 2.0]"): (
            "Some say a function that builds a larger tensor must copy. Ask it for its strides."
        ),
        ("[[9.0, 9.0], [1.0, 1.0], [2.0, 2.0]]", "[0.0, 1.0, 2.0]"): (
            "The cells of a row are one. But did the grid get memory of its own?"
        ),
        ("[[9.0, 0.0], [1.0, 1.0], [2.0, 2.0]]", "[9.0, 1.0, 2.0]"): (
            "The source was reached. So from where does the neighbour in the row read?"
        ),
    },
    at={
        "ticks.tolist()": (
            "ys is right. Now think of the memory that the write went to: who else reads from it?"
        ),
    },
)
def test_move_one_point_of_a_grid():
    """A grid of points, in three rows and two columns. ys holds the second coordinate of each
    point. One point is moved to 9.

    Predict ys, and then `ticks`, from which it was made.
    """
    ticks = torch.arange(3.0)
    ys, xs = torch.meshgrid(ticks, torch.arange(2.0), indexing="ij")
    ys[0, 0] = 9.0
    assert ys.tolist() == answer([[9.0, 9.0], [1.0, 1.0], [2.0, 2.0]])
    assert ticks.tolist() == answer([9.0, 1.0, 2.0])


@koan(
    see="torch.nn.Module",
    hint=[
        "copy.copy makes a new object with the old one's __dict__ entries. Which are plain values?",
        "Parameters are kept in a dictionary named _parameters. Compare teacher's and student's.",
    ],
    why=(
        "A shallow copy has a __dict__ of its own, so `training` is its own. But the entry "
        "_parameters is one dictionary for both: even a new Parameter assigned to the teacher "
        "lands in the student. Use copy.deepcopy for modules."
    ),
    wrong={
        "[1.0, True]": (
            "Some say a shallow copy shares the old tensors, and new ones are its own. In a module "
            "a Parameter does not lie in __dict__ itself."
        ),
        "[1.0, False]": "It is the other way round: what is a plain value, and what a dictionary?",
        "[9.0, False]": (
            "Were it the same object, this would be right. Is `teacher is student` true?"
        ),
    },
)
def test_a_teacher_copied_from_a_student():
    """The teacher is a copy.copy of the student. Then it gets a new weight and another mode.

    Predict the student's weight and student.training.
    """
    student = nn.Linear(1, 1, bias=False)
    nn.init.ones_(student.weight)
    teacher = copy.copy(student)
    teacher.weight = nn.Parameter(torch.tensor([[9.0]]))
    teacher.eval()
    assert [student.weight.item(), student.training] == answer([9.0, True])


@koan(
    see="torch.Tensor.cpu",
    hint=[
        "A tensor may be on the CPU already. Does cpu(), or what you wrote in its place, make "
        "new memory for it then?",
        "Compare data_ptr() of the weight and of what was kept.",
        "Say that you want a copy, whatever the device.",
    ],
    why=(
        "On a GPU cpu() has to copy, so this line keeps the best weights. On the CPU it returns "
        "the very tensor, and the best follows the training: the model of the last epoch is saved "
        "as the best. What must be a copy should say so: clone(), deepcopy or to(..., copy=True)."
    ),
    wrong={
        "return dict(model.state_dict())": "A new dictionary, with the live tensors in it.",
        "return copy.copy(model.state_dict())": (
            "A shallow copy: new dictionary, old tensors. It is one word away."
        ),
        "return {name: value.detach().cpu() for name, value in model.state_dict().items()}": (
            "Some say detach() makes it safe. They are detached already, and share memory."
        ),
        "return {\n"
        "    name: torch.from_numpy(value.cpu().numpy())\n"
        "    for name, value in model.state_dict().items()\n"
        "}": "Some say numpy() copies. There and back, it is still the memory of the model.",
        "return {name: value.clone() for name, value in model.named_parameters()}": (
            "Copies, and they hang on the graph; and the buffers are missing."
        ),
    },
    right=[
        "return copy.deepcopy(model.state_dict())",
        "return {name: value.clone() for name, value in model.state_dict().items()}",
        "return {\n    name: value.to('cpu', copy=True)\n"
        "    for name, value in model.state_dict().items()\n}",
        "return copy.deepcopy(model).cpu().state_dict()",
    ],
    at={
        "== before": (
            "What you kept can be loaded. But its numbers are not those from before the change. "
            "Compare data_ptr() of the model and of what was kept."
        ),
        "not value.requires_grad": (
            "What is kept should be a dictionary of tensors that ask for no gradient. Print what "
            "`keep` returns."
        ),
        "model.load_state_dict(best)": (
            "What you kept goes back into the model here, strictly: each parameter and each "
            "buffer under its own name."
        ),
    },
)
def test_the_best_so_far_is_the_last():
    """On the GPU this kept the best weights. On a laptop the best model is always the last one.

    Repair the marked line.
    """

    def keep(model):
        # answer:
        return {name: value.cpu().clone() for name, value in model.state_dict().items()}
        # given:
        # return {name: value.cpu() for name, value in model.state_dict().items()}
        # end

    for model in (nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1))):
        before = {name: value.tolist() for name, value in model.state_dict().items()}
        best = keep(model)
        for value in model.state_dict().values():
            value.add_(1)
        assert all(not value.requires_grad for value in best.values())
        model.load_state_dict(best)
        assert {name: value.tolist() for name, value in model.state_dict().items()} == before


@koan(
    see="torch.Tensor.mT",
    hint=[
        "For a batch of shape (2, 4, 3): print the shape of x.T, or of what you wrote in its "
        "place.",
        "Only the last two dimensions are those of the matrices. The first one counts samples.",
    ],
    why=(
        ".T reverses all dimensions, so the samples end up last. It warns, and if the sizes "
        "happen to be equal nothing else is heard: the product mixes the samples. .mT turns only "
        "the last two. reshape gives the shape and reads the numbers in the old order."
    ),
    wrong={
        "return x.reshape(len(x), x.shape[2], x.shape[1]) @ x": (
            "Some say a reshape to the turned shape turns. The shape is right, the numbers are not."
        ),
        "return x.permute(2, 1, 0) @ x": "The same mixture as .T, without its warning.",
        "return x.transpose(0, 1) @ x": "Samples and rows have changed places.",
        "return x @ x.mT": "Each sample is alone now, but it compares rows instead of columns.",
    },
    right=[
        "return x.transpose(1, 2) @ x",
        "return x.permute(0, 2, 1) @ x",
        "return torch.stack([sample.T @ sample for sample in x])",
        "return torch.einsum('ntc,ntd->ncd', x, x)",
        "return torch.bmm(x.mT, x)",
    ],
    at={
        "products.shape": (
            "The shape is not right. For each sample there should be one square table: columns "
            "by columns."
        ),
        "assert_close(product": (
            "The shape is right, the numbers are not. Take one sample, and multiply by hand: "
            "which numbers did your line bring together?"
        ),
    },
)
def test_a_product_for_each_sample():
    """For one matrix, x.T @ x compares its columns. With a batch it raises, or worse: it does not,
    and the samples are mixed. Repair the marked line."""

    def compare_columns(x):
        # answer:
        return x.mT @ x
        # given:
        # return x.T @ x
        # end

    for samples, rows, columns in ((2, 4, 3), (3, 3, 3), (5, 2, 1)):
        x = torch.randn(samples, rows, columns)
        products = compare_columns(x)
        assert tuple(products.shape) == (samples, columns, columns)
        for matrix, product in zip(x.unbind(), products.unbind()):
            expected = [[(a * b).sum().item() for a in matrix.T] for b in matrix.T]
            torch.testing.assert_close(product, torch.tensor(expected), rtol=1e-3, atol=1e-4)


@koan(
    see="torch.nn.RNN",
    hint=[
        "By default an RNN puts the steps first and the samples second.",
        "reshape reads in the order of memory: which sample comes after step 0 of sample 0?",
        "Which numbers must be neighbours before anything is cut into rows?",
    ],
    why=(
        "The shape fits, so nothing complains, and the loss even falls a little: each row holds "
        "pieces of several samples. view and reshape cut the line of numbers; only transpose or "
        "permute change what is a neighbour of what."
    ),
    wrong={
        "return out.contiguous().view(out.shape[1], -1)": (
            "Some say contiguous() is the cure. It is contiguous already, and cut at wrong places."
        ),
        "return out.flatten(1).reshape(out.shape[1], -1)": (
            "flatten joins samples and features of one step, and then it is cut again."
        ),
        "return out.permute(1, 2, 0).reshape(out.shape[1], -1)": (
            "Each row is one sample now. But its steps and its features have changed places."
        ),
        "return out.transpose(0, 1).flatten(0, 1)": "One row for each step, not for each sample.",
    },
    right=[
        "return out.transpose(0, 1).flatten(1)",
        "return out.permute(1, 0, 2).reshape(out.shape[1], -1)",
        "return torch.cat(list(out), dim=1)",
        "return torch.stack([sample.flatten() for sample in out.unbind(1)])",
    ],
    at={
        "rows.shape": (
            "The shape is not right. One row for each sample is wanted, with all its steps in "
            "it. Print rows.shape."
        ),
        "torch.equal(piece": (
            "The shape is right. But a row should hold the steps of its own sample, one after the "
            "other, and this piece is another one."
        ),
    },
)
def test_all_steps_of_a_sample_in_one_row():
    """A classifier wants one row for each sample: all its steps, one after the other. The shape is
    right, and it learns almost nothing. Repair the marked line."""

    def rows_of(out):
        # answer:
        return out.transpose(0, 1).reshape(out.shape[1], -1)
        # given:
        # return out.reshape(out.shape[1], -1)
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


@koan(
    see="torch.autograd.grad",
    hint=[
        "If output row i does not depend on a sample, what is its gradient for that sample?",
        "Take the gradient of one row of the output, not of all.",
        "The model and x are not yours: leave the mode, each .grad and x as they are.",
    ],
    why=(
        "A gradient tells who was read. Row i of the output should depend on sample i alone: any "
        "other index means mixed samples, by a wrong reshape or .T, or by a batch norm in train "
        "mode. This small test finds them, whatever the shapes say."
    ),
    wrong={
        "return [i]": "So it should be. The test is there to find models where it is not.",
        "x = x.clone().requires_grad_()\n(grad,) = torch.autograd.grad(model(x).sum(), x)\n"
        "return grad.flatten(1).any(dim=1).nonzero().flatten().tolist()": (
            "This asks for all rows at once. Somebody reads each sample, of course."
        ),
        "x = x.clone().requires_grad_()\nmodel(x)[i].sum().backward()\n"
        "return x.grad.flatten(1).any(dim=1).nonzero().flatten().tolist()": (
            "The indices are right. And the parameters have a .grad now, for the next step to use."
        ),
        "x.requires_grad_()\n(grad,) = torch.autograd.grad(model(x)[i].sum(), x)\n"
        "return grad.flatten(1).any(dim=1).nonzero().flatten().tolist()": (
            "Some say a flag is harmless. From now on the caller's data asks for gradients."
        ),
        "same = torch.allclose(model(x)[i], model(x[i : i + 1])[0])\n"
        "return [i] if same else list(range(len(x)))": (
            "It sees that something is mixed, and not which samples."
        ),
    },
    right=[
        "found = []\n"
        "for j in range(len(x)):\n"
        "    other = x.clone()\n"
        "    other[j] += 1.0\n"
        "    if not torch.equal(model(other)[i], model(x)[i]):\n"
        "        found.append(j)\n"
        "return found",
        "x = x.detach().clone().requires_grad_()\n"
        "grad = torch.autograd.grad(model(x)[i].sum(), x)[0]\n"
        "return [j for j, row in enumerate(grad) if row.abs().sum() > 0]",
    ],
    at={
        "== expected": (
            "Print the indices beside `expected`. Do you ask for row i alone? And does something "
            "of an earlier call still count?"
        ),
        "norm.eval()": (
            "All is right in train mode. Here the norm is in eval mode. Is it still, when "
            "`sources` asks it?"
        ),
        "torch.equal(x, before)": (
            "The indices are right. But x is not as it was: look at its numbers and at its flag."
        ),
        "p.grad is None": (
            "The indices are right, and x is as before. But a parameter has a .grad now, which "
            "the next step would use."
        ),
    },
)
def test_write_a_test_for_mixed_samples():
    """Write `sources`: the sorted indices of the samples (rows of x) on which row i of model(x)
    depends. Leave x, and the .grad of the parameters, as they are."""

    def sources(model, x, i):
        # answer:
        x = x.detach().clone().requires_grad_()
        (grad,) = torch.autograd.grad(model(x)[i].sum(), x)
        return grad.flatten(1).any(dim=1).nonzero().flatten().tolist()
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


@koan(
    see="torch.Tensor.clone",
    hint=[
        "Think of four dangers: a write to the source, a write to a sample that you hand out, the "
        "graph, and a big storage behind a small tensor.",
        "One call leaves the graph, another one takes memory of its own. Which danger needs which?",
        "What you hand out may be written to. What then of your own?",
    ],
    why=(
        "detach() for the graph, clone() for the memory, on the way in and on the way out. A clone "
        "also lets go of a large batch of which only one row is kept, and gives each element of an "
        "expanded tensor a cell of its own."
    ),
    wrong={
        "def push(self, x):\n    self.items.append(x.detach())\n\n"
        "def sample(self, i):\n    return self.items[i].clone()": (
            "Some say detach() makes a tensor independent. The source writes into the same memory."
        ),
        "def push(self, x):\n    self.items.append(x.clone())\n\n"
        "def sample(self, i):\n    return self.items[i].clone()": (
            "A clone is a recorded operation: it keeps the graph of all that led to x."
        ),
        "def push(self, x):\n    self.items.append(x.detach().clone())\n\n"
        "def sample(self, i):\n    return self.items[i]": (
            "The first who scales a sample in place scales it for all who come later."
        ),
        "def push(self, x):\n    self.items.append(x.detach())\n\n"
        "def sample(self, i):\n    return self.items[i]": (
            "Only the graph is gone. The memory is shared, on the way in and on the way out."
        ),
        "def push(self, x):\n    self.items.append(torch.tensor(x.tolist()))\n\n"
        "def sample(self, i):\n    return self.items[i].clone()": (
            "A safe way, but lists know only Python's types: the dtype is lost."
        ),
        "def push(self, x):\n    self.items.append(x.detach().contiguous())\n\n"
        "def sample(self, i):\n    return self.items[i].contiguous()": (
            "What is contiguous already is returned as it is."
        ),
    },
    right=[
        "def push(self, x):\n    self.items.append(x.clone().detach())\n\n"
        "def sample(self, i):\n    return torch.clone(self.items[i])",
        "def push(self, x):\n    with torch.no_grad():\n        self.items.append(x.clone())\n\n"
        "def sample(self, i):\n    return copy.deepcopy(self.items[i])",
    ],
    at={
        "memory.sample(i)[0] = 100": (
            "Here somebody writes into a sample. That must be possible: it is a tensor of its "
            "own, outside of any graph."
        ),
        "found.tolist() == numbers": (
            "The test has written into each source, and then into a sample. What is kept should "
            "not have changed: who shares its memory?"
        ),
        "found.dtype ==": (
            "The numbers are safe. But the dtype is another one, or what lies in self.items still "
            "belongs to a graph."
        ),
        "untyped_storage().nbytes()": (
            "Numbers, dtype and graph are right. But the storage behind a kept tensor is not as "
            "large as its two numbers need."
        ),
    },
)
def test_write_a_memory_for_an_agent():
    """Write `push` and `sample` of a memory that keeps tensors in self.items: no graph, no storage
    larger than needed, the dtype unchanged. No later write, to the source or to a sample, may
    reach what is kept."""

    class Memory:
        def __init__(self):
            self.items = []

        # answer:
        def push(self, x):
            self.items.append(x.detach().clone())

        def sample(self, i):
            return self.items[i].clone()

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
