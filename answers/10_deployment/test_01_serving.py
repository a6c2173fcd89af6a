"""Serving: what a model owes to a request, and what it must not keep of it.

`pytest --benchmark-only` on this file shows a table of the model that is timed here.

Documents: A 2.3, B 5
"""

import json
import runpy
import statistics
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sensei import answer, koan


@koan(
    claims=["A-2.3-01", "A-2.3-09"],
    see="torch.torch_version.TorchVersion",
    hint=[
        "Print type(torch.__version__): a str, and a little more. What does str() make of it?",
        "Which comes first in a dictionary, '1' or '9'?",
        "The part after + says how a build was made. Is it a part of the version?",
        "As a number, 2.10 and 2.1 are the same. Should a version agree to such a comparison?",
    ],
    why=(
        "torch.__version__ is text that compares like a version, with texts and with tuples. A "
        "bare str compares letter by letter, and +cpu is part of it. A guard like this is worth "
        "its line: Python 3.9 gets 2.8 at most, and the old conda channel ends at 2.5, silently."
    ),
    wrong={
        ("[True, True, True, False]", "TypeError"): (
            "str() takes the extra away. Then '1' against '9' decides."
        ),
        ("[False, False, True, False]", "TypeError"): (
            "So it would be for a plain str. Print the type of torch.__version__."
        ),
        ("[True, False, True, True]", "TypeError"): (
            "What stands after the + is part of the version, and is compared as well."
        ),
        ("[True, False, True, False]", "ValueError"): (
            "It would say: a fine type, a bad value. But a number is not even tried."
        ),
        ("[True, False, True, False]", "AssertionError"): (
            "2.13 against 2.9 as numbers? It does not get as far as being true or false."
        ),
    },
    at={
        "assert found": (
            "This line asks for the four comparisons. For each: is it a version that is "
            "compared, or bare text, and how much of it counts?"
        ),
        "caught.type is": (
            "The four comparisons are right. Here a version is compared with a float, and that "
            "raises. What is the objection?"
        ),
    },
)
def test_is_it_new_enough():
    """A start script wants torch 2.9. Here is what torch.__version__ would be for 2.13.

    Predict the four comparisons, and the exception of the last one.
    """
    version = type(torch.__version__)("2.13.0+cpu")
    found = [version >= "2.9", str(version) >= "2.9", version >= (2, 9), version == "2.13.0"]
    assert found == answer([True, False, True, False])
    with pytest.raises(Exception) as caught:
        assert version >= 2.9
    assert caught.type is answer(TypeError)


@koan(
    claims=["A-2.3-06", "A-2.3-08"],
    see="torch.get_num_threads",
    hint=[
        "Each of the three has its moment: when the wheel was built, when torch was imported, "
        "when it is asked for.",
        "Open the file that torch.version.__file__ names. Is there an if in it?",
        "Which of them is of no use to torch before somebody asks for it?",
    ],
    why=(
        "torch.version.cuda was written down when the wheel was built. A wheel brings its own "
        "CUDA libraries: a toolkit on the machine matters only where extensions are compiled, and "
        "the driver only has to be new enough. OMP_NUM_THREADS is read at the start; afterwards "
        "call torch.set_num_threads. The folder of downloads is looked up each time."
    ),
    wrong={
        "['cuda', 'hub']": (
            "Some say toolkit and build must match exactly. The build does not even look for one."
        ),
        "['threads', 'hub']": "That variable is read once, and torch is running already.",
        "['cuda', 'threads', 'hub']": "When is each of them read? For most of them, long ago.",
        "['cuda']": "Some say the toolkit on the machine decides. What is in torch/version.py?",
        "[]": "Too late for most of them. But not all is read when torch starts.",
    },
    aliases=["test_three_variables_set_too_late"],
)
def test_three_variables_set_at_run_time(monkeypatch):
    """A running service gets three new environment variables: another CUDA toolkit, more threads,
    another folder for downloads. (The file with torch's version is even read anew.)

    Which of the three readings change? Names, in order.
    """
    readings = {"cuda": lambda: runpy.run_path(torch.version.__file__)["cuda"]}
    readings |= {"threads": torch.get_num_threads, "hub": torch.hub.get_dir}
    before = {name: read() for name, read in readings.items()}
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda-11.8")
    monkeypatch.setenv("OMP_NUM_THREADS", str(before["threads"] + 3))
    monkeypatch.setenv("TORCH_HOME", "/opt/downloads")
    assert [name for name in readings if readings[name]() != before[name]] == answer(["hub"])


@koan(
    see="torch.nn.GRU",
    hint=[
        "Along which dimension does each part look? And along which do the requests lie?",
        "Some modules put time first unless they are told otherwise.",
        "What does batch norm use in eval mode: the batch, or what it remembers?",
    ],
    why=(
        "eval() stops what is random and what learns from the batch. It cannot know which "
        "dimension your requests lie in: softmax got the wrong one, and GRU and "
        "TransformerEncoderLayer expect time first unless batch_first=True. The shapes fit, and "
        "each request reads its neighbours."
    ),
    wrong={
        "[]": "Some say that in eval mode each answer is its own. eval() knows no dimensions.",
        "['norm']": "In eval mode it uses what it remembers. Look at the others.",
        "['softmax']": "That one is plain to see. Which others look along dimension 0?",
        "['softmax', 'gru', 'gru, batch first', 'encoder']": (
            "All of these look along one dimension. For one of them it is the right one."
        ),
        "['softmax', 'gru']": "One more of them puts time first by default.",
        "['gru', 'encoder']": "Which module names the dimension that it works along? Which one?",
    },
)
def test_three_requests_in_one_batch():
    """A service joins three requests: (request, time, feature). Each part is in eval mode. (The
    norm takes the five times for its channels.)

    For which parts does the LAST request get another answer than if it came alone? In order.
    """
    parts = {"norm": nn.BatchNorm1d(5), "softmax": nn.Softmax(dim=0), "gru": nn.GRU(8, 8)}
    parts |= {"gru, batch first": nn.GRU(8, 8, batch_first=True)}
    parts |= {"encoder": nn.TransformerEncoderLayer(8, nhead=1, dim_feedforward=4)}
    batch, found = torch.randn(3, 5, 8), []
    for name, part in parts.items():
        with torch.inference_mode():
            both, alone = part.eval()(batch), part(batch[-1:])
        both, alone = [y[0] if isinstance(y, tuple) else y for y in (both, alone)]
        if not torch.allclose(both[-1], alone[-1], atol=1e-4):
            found.append(name)
    assert found == answer(["softmax", "gru", "encoder"])


@koan(
    claims=["B-5-10"],
    see="torch.inference_mode",
    hint=[
        "One of the two switches is an attribute of the model. Where is the other one kept?",
        "While the block is open here, another thread may be training. Should it be disturbed?",
    ],
    why=(
        "eval() writes into the model, and all threads have the same model. Grad mode and "
        "inference mode belong to the thread that opened the block. A web server answers in "
        "other threads: so the block stands in the handler, not around the server."
    ),
    wrong={
        "[(False, False), (False, False)]": (
            "So it looks in the code: all is inside the block. Is a thread inside of a block?"
        ),
        "[(False, True), (False, True)]": (
            "Some say that eval() is what saves the graph. It says nothing about graphs."
        ),
        "[(False, False), (True, True)]": (
            "The other thread starts without the block. But it has no model of its own."
        ),
        "[(False, False), (True, False)]": "Which of the two switches is kept in the model?",
    },
)
def test_a_block_around_the_server():
    """A server opens inference_mode once and for all. One request is answered here, one in a
    thread. For each: is dropout in training mode, and does its answer require a gradient?
    """
    net, x, seen = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), torch.ones(1, 2), []

    def handle():
        seen.append((net[1].training, net(x).requires_grad))

    net.eval()
    with torch.inference_mode():
        handle()
        worker = threading.Thread(target=handle)
        worker.start()
        worker.join()
    assert seen == answer([(False, False), (False, True)])


@pytest.mark.slow
@pytest.mark.benchmark(group="warm-up")
@koan(
    claims=["B-5-35"],
    see="torch.compile",
    hint=[
        "What is there to do in the first call that is not there in the second?",
        "One of ten values is a thousand times larger. Which of the three statistics feel it?",
        "The tenth call has the shape of the first. Is there anything new to compile?",
    ],
    why=(
        "One program for one shape, made during the first call: it waits for the compiler, the "
        "others do not. Ten calls hide that in a mean that no user ever meets. Warm a service up "
        "before it is asked, and report a median and a high percentile. The module was not "
        "rewritten for any of this."
    ),
    wrong={
        ("1", "['max']"): "A tenth of a very large number is still large.",
        ("10", "[]"): "Then compiling would never pay. The program is kept.",
        ("0", "[]"): (
            "Some say that a model must be rewritten before it can be compiled and served. It is "
            "done behind the call."
        ),
        ("1", "['median', 'mean', 'max']"): "Sort the ten times. Which one is in the middle?",
    },
    at={
        "len(programs)": (
            "This line counts the programs that were made in ten calls. What would a call have "
            "to bring, so that a new one is needed?"
        ),
        "assert far ==": (
            "The count is right. Now put the ten times in order, in your mind: which statistics "
            "feel it when a single call is very slow?"
        ),
    },
)
def test_the_latency_of_ten_calls(benchmark):
    """A model is compiled (the backend only counts) and called ten times, each with a clock.

    How many programs were made? Which of the three statistics lie more than ten times above the
    fastest call? The table shows the model when it is warm.
    """
    programs, times, x = [], [], torch.ones(1, 4)

    def backend(graph, example_inputs):
        programs.append(graph)
        return graph.forward

    model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), backend=backend)
    with torch.inference_mode():
        for _ in range(10):
            start = time.perf_counter()
            model(x)
            times.append(time.perf_counter() - start)
        benchmark.pedantic(model, args=(x,), rounds=20)
    statistic = {"median": statistics.median, "mean": statistics.mean, "max": max}
    far = [name for name, of in statistic.items() if of(times) > 10 * min(times)]
    assert len(programs) == answer(1)
    assert far == answer(["mean", "max"])


@koan(
    claims=["B-5-33", "B-5-34"],
    see="torch.cuda.current_device",
    hint=[
        "Four workers, each with its device beside it in the list. Which one did not get it?",
        "A worker without a GPU has no number. Which device is left for it?",
        "Card number 0 is a card too. Is your condition true for it?",
    ],
    why=(
        "A fixed cuda:0 sends all workers to one card. A worker without a GPU is told None: "
        "'cuda:None' is no device, ('cuda', None) is whatever card is current, and `if gpu_id` "
        "takes card 0 for no card. So ask `is None`."
    ),
    wrong={
        "return torch.device(f'cuda:{gpu_id}')": (
            "One of the workers has no number. Some say PyTorch then falls back to the CPU."
        ),
        "return torch.device(f'cuda:{gpu_id}' if gpu_id else 'cpu')": (
            "One of the numbers counts as false. Its card stays idle."
        ),
        "return torch.device('cuda', gpu_id) if gpu_id else torch.device('cpu')": (
            "One of the numbers counts as false. Its card stays idle."
        ),
        "if gpu_id:\n    return torch.device('cuda', gpu_id)\nreturn torch.device('cpu')": (
            "One of the numbers counts as false. Its card stays idle."
        ),
        "if not gpu_id:\n    return torch.device('cpu')\nreturn torch.device('cuda', gpu_id)": (
            "One of the numbers counts as false. Its card stays idle."
        ),
        "return torch.device(gpu_id)": (
            "A bare number asks for a card of this machine. Name the kind of device as well."
        ),
        "return torch.device('cuda', gpu_id)": (
            "No error, but a worker without a GPU gets one: the current one."
        ),
        "return torch.device('cuda' if gpu_id is not None else 'cpu')": (
            "Without a number it is the current card, the same for all workers."
        ),
    },
    right=[
        "return torch.device(f'cuda:{gpu_id}' if gpu_id is not None else 'cpu')",
        "if gpu_id is not None and torch.cuda.is_available():\n"
        "    return torch.device(f'cuda:{gpu_id}')\n"
        "return torch.device('cpu')",
    ],
)
def test_a_server_with_four_workers(monkeypatch):
    """A server tells each of its workers, in a context, which GPU to use. But one card does all
    the work. Repair the marked line, for all four workers.

    (No card is needed here: a kind of device and a number are only a name.)
    """
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def device_of(context):
        gpu_id = context.system_properties["gpu_id"]
        # answer:
        return torch.device("cpu") if gpu_id is None else torch.device("cuda", gpu_id)
        # given:
        # return torch.device("cuda:0")
        # end

    for gpu_id, device in ((3, "cuda:3"), (0, "cuda:0"), (None, "cpu"), (1, "cuda:1")):
        context = SimpleNamespace(system_properties={"gpu_id": gpu_id})
        assert str(device_of(context)) == device, f"the worker with gpu_id {gpu_id}"


@koan(
    claims=["B-5-30", "B-5-31", "B-5-32", "B-5-35"],
    see="torch.Tensor.tolist",
    hint=[
        "Five steps: read the requests, make one tensor, set the model, ask it, make a list. "
        "Which one does the message speak of?",
        "The model comes straight from training. What must be said to it, and what to autograd?",
        "How does a tensor of shape (n, 1) become a list of n plain numbers? json takes no others.",
    ],
    why=(
        "A list of requests in, a list of the same length out, plain numbers, in eval mode, "
        "without a graph. The model knows nothing of it. TorchServe, which made this form known, "
        "takes any such function; it is no part of torch, and is not maintained any more."
    ),
    wrong={
        "x = torch.tensor([row['body'] for row in data])\n"
        "with torch.inference_mode():\n"
        "    return model(x).flatten().tolist()": (
            "The model is in the mode in which training left it."
        ),
        "x = torch.tensor([row['body'] for row in data])\n"
        "return model.eval()(x).flatten().tolist()": (
            "eval() is for the layers. Each answer still records a graph, only to drop it."
        ),
        "x = torch.tensor(data[0]['body'])\n"
        "with torch.inference_mode():\n"
        "    return model.eval()(x[None]).flatten().tolist()": (
            "Some take data for one request. It is a list, even when only one has come."
        ),
        "x = torch.tensor([row['body'] for row in data])\n"
        "with torch.inference_mode():\n"
        "    return list(model.eval()(x).flatten())": "A list of tensors cannot be sent as text.",
        "with torch.inference_mode():\n"
        "    return [model.eval()(torch.tensor([row['body']])).item() for row in data]": (
            "Right numbers, one call for each. The server collected them to make one call enough."
        ),
        "x = torch.tensor([row['body'] for row in data])\n"
        "def serve(data, context):\n"
        "    with torch.inference_mode():\n"
        "        return model.eval()(x).flatten().tolist()\n"
        "model.handle = serve\n"
        "return model.handle(data, context)": (
            "Some say that the server forces a `handle` on the model. It wants a function, and "
            "the model stays as it is."
        ),
        "x = torch.tensor([row['body'] for row in data])\n"
        "program = torch.export.export(model.eval(), (torch.ones(4, 3),)).module()\n"
        "with torch.inference_mode():\n"
        "    return program(x).flatten().tolist()": (
            "Some say that only a rewritten model can be served. It is a choice; and this program "
            "takes one size of batch only."
        ),
    },
    at={
        "json.loads(json.dumps": (
            "This line sends the answers as text. json takes lists and plain numbers: what does "
            "`handle` give back?"
        ),
        "torch.allclose(": (
            "One call, the right mode, no graph. Now each answer should be the one that its "
            "request gets alone. Is there one for each, in their order?"
        ),
        "len(set(answers))": (
            "The values agree. This line wants plain numbers, and for each of the different "
            "requests an answer of its own. Print the answers."
        ),
    },
)
def test_write_a_handler_for_a_plain_module():
    """Write `handle`: `data` is a list of requests like {"body": [1.0, 2.0, 3.0]}. Ask the model
    once, and give back a list with one plain number for each request. The model comes fresh from
    training; add nothing to it, and record no graph."""
    states = []

    class Model(nn.Sequential):
        def forward(self, x):
            states.append((self.training, torch.is_grad_enabled()))
            return super().forward(x)

    def handle(data, context):
        # answer:
        x = torch.tensor([row["body"] for row in data])
        with torch.inference_mode():
            return model.eval()(x).flatten().tolist()
        # end

    model = Model(nn.BatchNorm1d(3), nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    names, context = dir(model), SimpleNamespace(system_properties={"gpu_id": None})
    data = [{"body": torch.randn(3).tolist()} for _ in range(5)]
    for n in (1, 4, 5):
        states.clear()
        answers = json.loads(json.dumps(handle(data[:n], context)))
        assert len(states) == 1, f"the model was called {len(states)} times"
        assert not states[0][0], "the model was asked in train mode"
        assert not states[0][1], "a graph was recorded"
        alone = [handle([row], context)[0] for row in data[:n]]
        assert torch.allclose(torch.tensor(answers), torch.tensor(alone), atol=1e-5)
        assert len(set(answers)) == n, f"{n} different requests got {answers}"
    assert dir(model) == names, "something was added to the model"
