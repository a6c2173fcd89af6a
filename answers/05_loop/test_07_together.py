"""Together: several processes, one model, and at the end the whole loop.

Documents: B 3
"""

import multiprocessing
import traceback
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from sensei import answer, koan


def in_two_processes(work, folder):
    """Fork two processes that know each other; return what work(0) and work(1) return there."""

    def child(rank, pipe):
        torch.set_num_threads(1)
        meeting = f"file://{folder}/meeting"
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
        pipe.send(work(rank))
        dist.barrier()
        dist.destroy_process_group()

    import torch._dynamo

    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    children = [
        context.Process(target=child, args=(rank, pipes[rank][1]), daemon=True) for rank in range(2)
    ]
    try:
        for process in children:
            process.start()
        for _, sender in pipes:
            sender.close()
        return [receiver.recv() for receiver, _ in pipes]
    finally:
        for process in children:
            process.join(timeout=3)
            process.kill()
            process.join()


def alone(work):
    """Run work() in a process group with one member: enough to see what is sent, and when."""
    # DDP imports it; if that happened within work, it would keep the wrapper alive.
    import torch._dynamo  # noqa: F401

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        return work()
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # no wrapper may outlive its group
        raise
    finally:
        dist.destroy_process_group()


def two_parts():
    """Batches to learn from, and batches to judge by. The last one of these is short."""
    x = torch.randn(100, 2)
    y = x @ torch.tensor([[1.0], [-0.5]]) + 3
    x = x * 20 + 100
    train = list(zip(x[:80].split(16), y[:80].split(16)))
    return train, list(zip(x[80:].split(15), y[80:].split(15)))


def done(buffer):
    """What a communication hook returns: a promise that is kept already."""
    future = torch.futures.Future()
    future.set_result(buffer)
    return future


def note_send(diary, bucket):
    """A communication hook that notes each bucket that would be sent."""
    diary.append("send")
    return done(bucket.buffer())


@pytest.mark.timeout(30)
@pytest.mark.needs(fork=True)
@koan(
    claims=["B-3-32"],
    see="torch.distributed.all_reduce",
    hint=[
        "y is 3·x from here plus 3·x from there, in both processes.",
        "Your x goes into two results: yours and the neighbour's. Both of them run backward.",
    ],
    why=(
        "The engine itself works in one process, but its nodes may talk. This all_reduce brings "
        "a node whose backward is again an all_reduce: the two gradients of 1 are added, and then "
        "comes the factor 3. Each x learns what it did to both results."
    ),
    wrong={
        "[3.0, 3.0]": (
            "Some say autograd does not support distributed training: each process sees its own "
            "result only. What does the node of this all_reduce do on the way back?"
        ),
        "[None, None]": "Some say communication cuts the graph. This function brings a node.",
        "[3.0, 6.0]": "The two processes do the very same.",
        "[9.0, 9.0]": "There are two of them, and the factor is used once on the way back.",
    },
)
def test_a_sum_over_two_processes(tmp_path):
    """Each process has its own x, and y is a sum over both processes. Both call backward.

    Predict x.grad in the two processes.
    """

    def work(rank):
        x = torch.ones((), requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.distributed.nn.functional import all_reduce

            y = all_reduce(x * 3)
        y.backward()
        return x.grad.item()

    assert in_two_processes(work, tmp_path) == answer([6.0, 6.0])


@pytest.mark.timeout(30)
@pytest.mark.needs(fork=True)
@koan(
    see="torch.nn.parallel.DistributedDataParallel",
    hint=[
        "DDP only keeps models alike that are alike. How does it begin?",
        "One rank is asked, and the others listen. Which one would you ask?",
    ],
    why=(
        "The constructor sends the parameters and buffers of rank 0 to all. So the seeds of the "
        "processes may differ; and a checkpoint may be loaded on rank 0 alone, if that happens "
        "before the wrapping. Later only gradients are exchanged (and buffers)."
    ),
    wrong={
        "[5.0, 6.0]": "Some say you must seed all processes alike. Wrapping is not that passive.",
        "[5.5, 5.5]": "Gradients are averaged. With weights it is simpler than that.",
        "[6.0, 6.0]": "It is not the last one that is asked.",
        "[11.0, 11.0]": "Nobody adds the weights.",
    },
)
def test_two_models_that_begin_apart(tmp_path):
    """The weight is 5 in one process and 6 in the other. Then both are wrapped.

    Predict the two weights after it.
    """

    def work(rank):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 5.0 + rank)
        DDP(model)
        return model.weight.item()

    assert in_two_processes(work, tmp_path) == answer([5.0, 5.0])


@pytest.mark.timeout(30)
@pytest.mark.needs(fork=True)
@koan(
    claims=["B-3-34"],
    see="torch.nn.parallel.DistributedDataParallel",
    hint=[
        "Alone, the first process would find 1 and the second 3.",
        "The gradients are added over all processes, and then one thing more is done.",
    ],
    why=(
        "An all_reduce adds the gradients, and DDP divides by the number of processes: both hold "
        "the average, and take the same step. So the learning rate means what it means for one "
        "process with a batch twice as large, if the loss is a mean and all batches are equal."
    ),
    wrong={
        "[4.0, 4.0]": "The sum is on the way. It is divided before you see it.",
        "[1.0, 3.0]": "Then the two models would go apart at the first step.",
        "[1.0, 1.0]": "Rank 0 decides how the weights begin. Gradients come from everybody.",
        "[3.0, 3.0]": "Nobody asks for the largest.",
    },
)
def test_two_processes_with_their_own_data(tmp_path):
    """The data is 1 in one process and 3 in the other. Which gradient do they find after
    backward?"""

    def step(net, x):
        net(x).sum().backward()

    def work(rank):
        model = nn.Linear(1, 1, bias=False)
        step(DDP(model), torch.tensor([[1.0 + 2.0 * rank]]))
        return model.weight.grad.item()

    assert in_two_processes(work, tmp_path) == answer([2.0, 2.0])


@pytest.mark.timeout(30)
@pytest.mark.needs(fork=True)
@koan(
    see="torch.nn.parallel.DistributedDataParallel",
    hint=[
        "The hooks that exchange gradients belong to the wrapper. How long does it live here?",
        "Python frees what has no name. When does backward begin?",
        "Backward must come while the wrapper is alive, and forward must go through it.",
    ],
    why=(
        "The graph does not hold the wrapper. As soon as forward has returned, nobody does, and "
        "it takes its hooks along: each process keeps its own gradient, without a word. Give the "
        "wrapper a name that lives as long as the training."
    ),
    wrong={
        "loss = DDP(model)(x).sum()\nloss.backward()": (
            "The loss has a name now. Who keeps the wrapper?"
        ),
        "net = DDP(model)\nmodel(x).sum().backward()": (
            "The wrapper lives, but nobody goes through it: it is not ready to exchange."
        ),
        "net = DDP(model)\nloss = net(x).sum()\ndel net\nloss.backward()": (
            "It is let go just before it is needed."
        ),
        "model(x).sum().backward()\nnet = DDP(model)": "It comes when everything is over.",
    },
    right=[
        "net = DDP(model)\nloss = net(x).sum()\nloss.backward()",
        "nets = [DDP(model)]\nnets[0](x).sum().backward()",
    ],
)
def test_a_wrapper_that_nobody_holds(tmp_path):
    """No error, and yet the two gradients differ: 2 and 10. Repair the marked line."""

    def work(rank):
        model = nn.Linear(1, 1, bias=False)
        x = torch.tensor([[2.0 + 8.0 * rank]])
        # answer:
        net = DDP(model)
        net(x).sum().backward()
        # given:
        # DDP(model)(x).sum().backward()
        # end
        return model.weight.grad.item()

    assert in_two_processes(work, tmp_path) == [6.0, 6.0]


@koan(
    claims=["B-3-33"],
    see="torch.nn.parallel.DistributedDataParallel.register_comm_hook",
    hint=[
        "backward begins at the last layer. Whose gradient is ready first?",
        "A bucket here holds one weight, and is sent as soon as it is full. Must it wait?",
        "What is left to do when backward returns?",
    ],
    why=(
        "Each bucket leaves as soon as its gradients are there, while the engine still works on "
        "earlier layers: communication hides behind computation. When backward returns, all is "
        "reduced already. A real bucket has about 25 MB."
    ),
    wrong={
        "['first layer', 'returned', 'send', 'send']": (
            "Some say DDP synchronises after backward has finished. When could an optimizer step "
            "then? Nobody calls DDP in between."
        ),
        "['first layer', 'send', 'send', 'returned']": (
            "Inside backward, yes. But the last layer's bucket is full long before that."
        ),
        "['send', 'send', 'first layer', 'returned']": (
            "Before the first layer's gradient is there, how could its bucket be full?"
        ),
        "['send', 'first layer', 'returned']": "There are two weights, and each fills a bucket.",
    },
)
def test_a_diary_of_backward():
    """Two layers, and a bucket for each. Write what the diary holds after the third backward.

    (DDP arranges its buckets anew after the first.)
    """
    diary = []

    def work():
        model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        net = DDP(model, bucket_cap_mb=1e-5)
        net.register_comm_hook(diary, note_send)
        model[0].weight.register_hook(lambda _: diary.append("first layer"))
        for _ in range(3):
            diary.clear()
            net(torch.ones(1, 2)).sum().backward()
            diary.append("returned")

    alone(work)
    assert diary == answer(["send", "first layer", "send", "returned"])


@koan(
    claims=["B-3-36"],
    see="torch.nn.parallel.DistributedDataParallel.register_comm_hook",
    hint=[
        "Alone and without the hook, the gradient would be the input.",
        "The hook returns a buffer. Does DDP look at it, or does it only wait for it?",
    ],
    why=(
        "The hook takes the place of the all_reduce: what it promises becomes .grad. Compression "
        "and exchanges of your own are built so, and no CUDA stream is needed for it."
    ),
    wrong={
        "[[2.0, 4.0]]": (
            "Some say that to have a say in the synchronisation, you need CUDA streams. The hook "
            "is no mere listener."
        ),
        "[[1.0, 1.0]]": "The buffer holds the gradient, not the weight.",
        "[[0.0, 0.0]]": "Someone does deliver the gradient: you do.",
        "None": "Nothing is sent, but something is returned.",
    },
)
def test_a_hook_in_place_of_the_exchange():
    """DDP calls this hook with a bucket of gradients. The hook sends nothing, and returns half of
    them. Which gradient does the weight get?"""

    def work():
        net = DDP(nn.Linear(2, 1, bias=False))
        net.register_comm_hook(None, lambda state, bucket: done(bucket.buffer() / 2))
        net(torch.tensor([[2.0, 4.0]])).sum().backward()
        return net.module.weight.grad.tolist()

    assert alone(work) == answer([[1.0, 2.0]])


@koan(
    claims=["B-3-35"],
    see="torch.nn.parallel.DistributedDataParallel.no_sync",
    hint=[
        "By default every backward sends. Which of them should?",
        "DDP has a context manager for silence. It is read in forward, not in backward.",
        "What was added up in silence goes along with the next one that is not silent.",
    ],
    why=(
        "Computing and synchronising are one act, unless you ask for two. If forward runs inside "
        "no_sync(), its backward only adds up, wherever that runs; the first whose forward ran "
        "outside sends all of it. So accumulation costs one exchange per step."
    ),
    wrong={
        "for batch in batches:\n    net(batch).sum().backward()": (
            "Some say that in DDP computing gradients and synchronising them are two separate "
            "steps. Count: every one of these backwards has sent its buckets."
        ),
        "for batch in batches[:-1]:\n"
        "    loss = net(batch).sum()\n"
        "    with net.no_sync():\n"
        "        loss.backward()\n"
        "net(batches[-1]).sum().backward()": "Whether a backward sends is settled before it runs.",
        "with net.no_sync():\n    for batch in batches:\n        net(batch).sum().backward()": (
            "Now nothing is ever sent, and the models go apart."
        ),
        "net(batches[-1]).sum().backward()\n"
        "with net.no_sync():\n"
        "    for batch in batches[:-1]:\n"
        "        net(batch).sum().backward()": "What comes after the exchange stays at home.",
    },
    right=[
        "from contextlib import nullcontext\n"
        "for i, batch in enumerate(batches, start=1):\n"
        "    with net.no_sync() if i < len(batches) else nullcontext():\n"
        "        net(batch).sum().backward()",
        "with net.no_sync():\n"
        "    for batch in batches[:-1]:\n"
        "        net(batch).sum().backward()\n"
        "net(batches[-1]).sum().backward()",
        "for batch in batches[:-1]:\n"
        "    with net.no_sync():\n"
        "        loss = net(batch).sum()\n"
        "    loss.backward()\n"
        "net(batches[-1]).sum().backward()",
    ],
    at={
        "assert sent": (
            "This is what DDP has sent: it should be once in each round, the sum over all "
            "batches. Print `sent`: how often, and how much?"
        ),
        "assert walks": (
            "What was sent is right. But each batch should have a backward of its own: print "
            "`walks`."
        ),
    },
)
def test_many_batches_and_one_exchange():
    """The loss of a batch is `net(batch).sum()`, and each batch gets a backward of its own. DDP is
    to send only once: at the last batch, the sum of all their gradients.

    Write the loop.
    """
    sent, walks = [], []

    def note_content(state, bucket):
        sent.append(bucket.buffer().tolist())
        return done(bucket.buffer())

    def work():
        net = DDP(nn.Linear(2, 1, bias=False))
        net.register_comm_hook(None, note_content)
        net.module.weight.register_hook(lambda gradient: walks.append(gradient.tolist()))
        for number in (2, 4):
            net.zero_grad()
            batches = torch.ones(number, 1, 2)
            # answer:
            for batch in batches[:-1]:
                with net.no_sync():
                    net(batch).sum().backward()
            net(batches[-1]).sum().backward()
            # end

    alone(work)
    assert sent == [[2.0, 2.0], [4.0, 4.0]]
    assert walks == [[[1.0, 1.0]]] * 6


@koan(
    see="torch.nn.parallel.DistributedDataParallel",
    hint=[
        "DDP waits for a gradient of every parameter. Which ones get none?",
        "The round is not finished when backward returns. Who will notice, and when?",
    ],
    why=(
        "The bucket of the unused layer never fills, and other processes would wait for it. DDP "
        "finds out when the next forward begins: the round before was not finished. Use all "
        "parameters, freeze the others, or ask for find_unused_parameters=True, which costs a "
        "walk through each graph."
    ),
    wrong={
        ("RuntimeError", "['forward']"): "backward is patient: it cannot know what will come.",
        ("RuntimeError", "[]"): "The first forward does not know yet which layers count.",
        ("RuntimeError", "['forward', 'backward', 'forward']"): (
            "Two backwards are one too many. Something asks earlier than that."
        ),
        ("TimeoutError", "['forward', 'backward']"): (
            "With other processes one may wait long. Here DDP asks itself first."
        ),
        ("ValueError", "['forward', 'backward']"): "The input is fine. The state of DDP is not.",
    },
    at={
        "caught.type": (
            "This looks at the exception. DDP complains about its own state, not about what it "
            "was given: how does PyTorch mostly complain?"
        ),
        "assert steps": (
            "The exception is right. Now go through the loop: when can DDP know that a round was "
            "not finished?"
        ),
    },
)
def test_a_layer_that_is_not_used():
    """This model has a layer that takes no part in the loss. Which exception ends the loop?

    And what was done before it?
    """

    model, steps = nn.Linear(1, 1), []
    model.idle = nn.Linear(1, 1)
    model.register_forward_hook(lambda *_: steps.append("forward"))

    def work():
        net = DDP(model)
        for _ in range(3):
            net(torch.ones(1, 1)).backward()
            steps.append("backward")

    with pytest.raises(Exception) as caught:
        alone(work)
    assert caught.type is answer(RuntimeError)
    assert steps == answer(["forward", "backward"])


@pytest.mark.gpu
@koan(
    claims=["B-3-37"],
    see="torch.cuda.Stream",
    hint=[
        "Each node of the graph was made at a certain place and time. Does it remember the stream?",
        "Who starts the kernels of backward: your thread, or the engine?",
    ],
    why=(
        "The engine runs each node on the stream on which its forward ran, whatever stream stands "
        "around the call of backward, and orders the streams for you. So a stream of its own for "
        "backward does nothing; and backward needs what forward made, so they cannot overlap."
    ),
    wrong={
        "['second']": (
            "Some say backward gets faster on a stream of its own. The block around the call does "
            "not decide where its kernels go."
        ),
        "['default']": "It was not on the default stream that y came to be.",
        "['first', 'second']": "One hook, called once.",
    },
)
def test_on_which_stream_backward_runs():
    """forward runs on one stream, and backward is called on another. On which of them is the
    hook called, in the middle of backward?"""
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    seen = []
    x = torch.ones((), device="cuda", requires_grad=True)
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        y = x * 2
        y.register_hook(lambda _: seen.append(torch.cuda.current_stream().cuda_stream))
    torch.cuda.synchronize()
    with torch.cuda.stream(second):
        y.backward()
    names = {first.cuda_stream: "first", second.cuda_stream: "second"}
    assert [names.get(stream, "default") for stream in seen] == answer(["first"])


@koan(
    see="torch.nn.Module.train",
    hint=[
        "Begin with the four lines, and put the two modes around them: one for each half.",
        "The model comes in eval mode, and the data is far from 0. What does the norm need first?",
        "The batches of `valid` are not of one size: add sums, and divide once.",
        "Go through net, wrapped as it is: DDP must see each forward.",
    ],
    why=(
        "Train mode; clear, forward, backward, step; eval mode without recording; one number for "
        "all samples; and then the question whether to go on. It does not matter whether the "
        "model is wrapped: this is the loop, in one process or in a thousand."
    ),
    wrong={
        "history = []\n"
        "while len(history) < epochs:\n"
        "    for x, y in train:\n"
        "        optimizer.zero_grad()\n"
        "        F.mse_loss(net(x), y).backward()\n"
        "        optimizer.step()\n"
        "    with torch.no_grad():\n"
        "        sums = [F.mse_loss(net(x), y, reduction='sum').item() for x, y in valid]\n"
        "    history.append(sum(sums) / sum(len(y) for _, y in valid))\n"
        "    if history[-1] < goal:\n"
        "        break\n"
        "return history": "It came in eval mode, and so it stays. The norm learns nothing.",
        "history = []\n"
        "net.train()\n"
        "while len(history) < epochs:\n"
        "    for x, y in train:\n"
        "        optimizer.zero_grad()\n"
        "        F.mse_loss(net(x), y).backward()\n"
        "        optimizer.step()\n"
        "    with torch.no_grad():\n"
        "        sums = [F.mse_loss(net(x), y, reduction='sum').item() for x, y in valid]\n"
        "    history.append(sum(sums) / sum(len(y) for _, y in valid))\n"
        "    if history[-1] < goal:\n"
        "        break\n"
        "return history": "Measured in train mode: the norm learns from what it should only judge.",
        "history = []\n"
        "while len(history) < epochs:\n"
        "    net.train()\n"
        "    for x, y in train:\n"
        "        optimizer.zero_grad()\n"
        "        F.mse_loss(net(x), y).backward()\n"
        "        optimizer.step()\n"
        "    net.eval()\n"
        "    with torch.no_grad():\n"
        "        means = [F.mse_loss(net(x), y).item() for x, y in valid]\n"
        "    history.append(sum(means) / len(means))\n"
        "    if history[-1] < goal:\n"
        "        break\n"
        "return history": "The last batch of `valid` is short, and has too much to say.",
        "history = []\n"
        "while len(history) < epochs:\n"
        "    net.train()\n"
        "    for x, y in train:\n"
        "        F.mse_loss(net(x), y).backward()\n"
        "        optimizer.zero_grad()\n"
        "        optimizer.step()\n"
        "    net.eval()\n"
        "    with torch.no_grad():\n"
        "        sums = [F.mse_loss(net(x), y, reduction='sum').item() for x, y in valid]\n"
        "    history.append(sum(sums) / sum(len(y) for _, y in valid))\n"
        "    if history[-1] < goal:\n"
        "        break\n"
        "return history": "Cleared just before it is used: nothing is ever learned.",
        "model = getattr(net, 'module', net)\n"
        "history = []\n"
        "while len(history) < epochs:\n"
        "    model.train()\n"
        "    for x, y in train:\n"
        "        optimizer.zero_grad()\n"
        "        F.mse_loss(model(x), y).backward()\n"
        "        optimizer.step()\n"
        "    model.eval()\n"
        "    with torch.no_grad():\n"
        "        sums = [F.mse_loss(model(x), y, reduction='sum').item() for x, y in valid]\n"
        "    history.append(sum(sums) / sum(len(y) for _, y in valid))\n"
        "    if history[-1] < goal:\n"
        "        break\n"
        "return history": "It goes past the wrapper, so no gradient is ever exchanged.",
        "history = []\n"
        "while len(history) < 200:\n"
        "    net.train()\n"
        "    for x, y in train:\n"
        "        optimizer.zero_grad()\n"
        "        F.mse_loss(net(x), y).backward()\n"
        "        optimizer.step()\n"
        "    net.eval()\n"
        "    with torch.no_grad():\n"
        "        sums = [F.mse_loss(net(x), y, reduction='sum').item() for x, y in valid]\n"
        "    history.append(sum(sums) / sum(len(y) for _, y in valid))\n"
        "    if history[-1] < goal:\n"
        "        break\n"
        "return history": "It never looks at `epochs`, and somebody wants fewer.",
    },
    right=[
        "count = sum(len(y) for _, y in valid)\n"
        "history = []\n"
        "for _ in range(epochs):\n"
        "    net.train()\n"
        "    for x, y in train:\n"
        "        loss = F.mse_loss(net(x), y)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
        "    net.eval()\n"
        "    with torch.inference_mode():\n"
        "        total = sum(F.mse_loss(net(x), y, reduction='sum') for x, y in valid)\n"
        "    history.append(float(total / count))\n"
        "    if history[-1] < goal:\n"
        "        return history\n"
        "return history",
    ],
    at={
        "F.mse_loss(net.eval()(x), y)": (
            "Here your last error is measured again: in eval mode, over all samples of `valid`. "
            "Print it beside yours."
        ),
        "history[-1] < 0.2": (
            "The last error is measured well. But it should be below the goal, and all before it "
            "should not: print the history."
        ),
        "len(sent) == net.module[0]": (
            "The history is right. Now we count exchanges and what the norm has seen: one for "
            "each training batch. Print all three numbers."
        ),
        "goal=0.0": (
            "All is right so far. Here the goal cannot be reached, and two epochs are allowed: "
            "what ends your loop?"
        ),
    },
)
def test_a_whole_training_from_first_to_last():
    """Write `fit` for a model with a batch norm, wrapped in DDP. An epoch is one step per batch of
    `train`, in train mode, then in eval mode the mean squared error over all samples of `valid`.
    Return these errors as floats, one per epoch. The first below `goal` is the last; there are at
    most `epochs`."""

    def fit(net, optimizer, train, valid, goal, epochs):
        # answer:
        history = []
        while len(history) < epochs and min(history, default=goal) >= goal:
            net.train()
            for x, y in train:
                optimizer.zero_grad()
                F.mse_loss(net(x), y).backward()
                optimizer.step()
            net.eval()
            with torch.no_grad():
                sums = [F.mse_loss(net(x), y, reduction="sum").item() for x, y in valid]
            history.append(sum(sums) / sum(len(y) for _, y in valid))
        return history
        # end

    sent, (train, valid) = [], two_parts()

    def work():
        net = DDP(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))).eval()
        net.register_comm_hook(sent, note_send)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
        history = fit(net, optimizer, train, valid, goal=0.2, epochs=200)
        x, y = (torch.cat(parts) for parts in zip(*valid))
        assert F.mse_loss(net.eval()(x), y).item() == pytest.approx(history[-1], abs=1e-4)
        assert history[-1] < 0.2 <= min(history[:-1])
        assert len(sent) == net.module[0].num_batches_tracked == len(train) * len(history)
        assert len(fit(net, optimizer, train, valid, goal=0.0, epochs=2)) == 2

    alone(work)
