"""Serving: what a model owes to a request, and what it must not keep of it.

`pytest --benchmark-only` on this file shows a table of the model that is timed here."""

import json
import runpy
import statistics
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sensei import __


def test_is_it_new_enough():
    """A start script wants torch 2.9. Here is what torch.__version__ would be for 2.13.

    Predict the four comparisons, and the exception of the last one.
    """
    version = type(torch.__version__)("2.13.0+cpu")
    found = [version >= "2.9", str(version) >= "2.9", version >= (2, 9), version == "2.13.0"]
    assert found == __
    with pytest.raises(Exception) as caught:
        assert version >= 2.9
    assert caught.type is __


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
    assert [name for name in readings if readings[name]() != before[name]] == __


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
    assert found == __


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
    assert seen == __


@pytest.mark.slow
@pytest.mark.benchmark(group="warm-up")
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
    assert len(programs) == __
    assert far == __


def test_a_server_with_four_workers(monkeypatch):
    """A server tells each of its workers, in a context, which GPU to use. But one card does all
    the work. Repair the marked line, for all four workers.

    (No card is needed here: a kind of device and a number are only a name.)
    """
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def device_of(context):
        gpu_id = context.system_properties["gpu_id"]
        # your turn:
        return torch.device("cuda:0")
        # end

    for gpu_id, device in ((3, "cuda:3"), (0, "cuda:0"), (None, "cpu"), (1, "cuda:1")):
        context = SimpleNamespace(system_properties={"gpu_id": gpu_id})
        assert str(device_of(context)) == device, f"the worker with gpu_id {gpu_id}"


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
        # your turn:
        __
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
