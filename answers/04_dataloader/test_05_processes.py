"""Processes: fork or spawn, what travels, and whose memory it is.

Documents: A 2.2, A 3.4, A 4.4, B 4
"""

import contextlib
import functools
import multiprocessing
import operator
import os
import subprocess
import sys
import tempfile
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader

from sensei import answer, koan


@pytest.mark.slow
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-08", "A-4.4-13"],
    see="torch.utils.data.DataLoader",
    hint=[
        "fork copies this process as it stands now. spawn starts Python again. What is lost?",
        "The default dtype lives in torch's memory. Where does an environment variable live?",
    ],
    why=(
        "A forked worker is a copy of this process as it is now. A spawned one is a new Python "
        "that imports torch anew, so it has a fresh torch's settings; that costs a second or so, "
        "for each worker and each epoch, unless they are persistent. Environment variables, the "
        "working directory and sys.path are passed on in both cases."
    ),
    wrong={
        ("[torch.float64, 'red']", "[torch.float64, 'red']"): (
            "One of the two is no copy. It begins with `import torch`, like any program."
        ),
        ("[torch.float64, 'red']", "[torch.float32, None]"): (
            "Some say spawn inherits nothing of the main process. The system passes some things on."
        ),
        ("[torch.float32, 'red']", "[torch.float32, 'red']"): (
            "One of the two never imports torch: it has it already, with all that was set."
        ),
    },
    right=[("[torch.double, 'red']", "[torch.float, 'red']")],
    at={
        'said["fork"]': (
            "This is the forked worker, a copy of our process as it was at that moment. What had "
            "been set by then?"
        ),
        'said["spawn"]': (
            "The forked worker is right. The spawned one is a new Python: what lives only in "
            "torch's memory, and what does the system hand on?"
        ),
    },
)
def test_what_a_worker_inherits(monkeypatch):
    """Here the samples are functions, and the worker calls them.

    What do a forked and a spawned worker answer?
    """
    monkeypatch.setenv("COLOUR", "red")
    torch.set_default_dtype(torch.float64)
    questions = [torch.get_default_dtype, functools.partial(os.getenv, "COLOUR")]
    options = {"batch_size": None, "collate_fn": operator.methodcaller("__call__")}
    said = {}
    for method in ("fork", "spawn"):
        loader = DataLoader(questions, num_workers=1, multiprocessing_context=method, **options)
        said[method] = list(loader)
    torch.set_default_dtype(torch.float32)
    assert said["fork"] == answer([torch.float64, "red"])
    assert said["spawn"] == answer([torch.float32, "red"])


@koan(
    claims=["A-4.4-08"],
    see="pickle.Pickler",
    hint=[
        "A function travels as two words: its module and its name. The worker imports it by them.",
        "Under which name could the new process find a lambda, or a function inside a function?",
    ],
    why=(
        "Of a function only module and name are sent. A lambda and an inner function have no name "
        "that an import could find, and wrapping does not help. Under fork nothing is sent, so "
        "the same code works there, and fails on the day somebody starts it with spawn."
    ),
    wrong={
        "['lambda', 'inner', 'torch.stack', 'partial lambda', 'partial stack']": (
            "So it seems, as long as workers are forked: then nothing needs to travel."
        ),
        "['inner', 'torch.stack', 'partial stack']": (
            "An inner function has a name, but only inside its parent. Nobody can import it."
        ),
        "['torch.stack', 'partial lambda', 'partial stack']": (
            "A partial is sent with the function in it. That one has the same trouble as before."
        ),
        "['inner', 'partial lambda', 'partial stack']": (
            "The one from C++ has a module and a name as well, and that is all it takes."
        ),
    },
)
def test_which_function_can_travel():
    """A spawned worker gets its collate_fn as a pickle. Which of these five can be pickled?"""

    def inner(batch):
        return batch

    functions = {"lambda": lambda batch: batch, "inner": inner, "torch.stack": torch.stack}
    functions["partial lambda"] = functools.partial(lambda batch, dim: batch, dim=1)
    functions["partial stack"] = functools.partial(torch.stack, dim=1)
    travellers = list(functions)
    for name, function in functions.items():
        try:
            ForkingPickler.dumps(function)
        except Exception:
            travellers.remove(name)
    assert travellers == answer(["torch.stack", "partial stack"])


@pytest.mark.slow
@koan(
    see="torch.utils.data.DataLoader",
    hint=[
        "The worker is a new Python. It must be able to import collate_fn by module and name.",
        "The line as it was given put one function around another. Is the outer one needed?",
    ],
    why=(
        "A built-in, a function of an installed module, or a partial of one can be found by name. "
        "In a program of your own a function at the top of a module does it, too. On macOS and "
        "Windows, and with Python 3.14 on Linux, workers are not forked by default: there a "
        "lambda fails that worked for years."
    ),
    wrong={
        "def collate(batch):\n    return max(batch)": (
            "It has a name now. But it lives inside the test, where no import can find it."
        ),
        "import functools\ncollate = functools.partial(lambda batch: max(batch))": (
            "The partial travels only as well as the lambda in it."
        ),
        "collate = sorted": "It can travel. But the largest of each batch was asked for.",
        "if __name__ == '__main__':\n    collate = max\nelse:\n    collate = lambda b: max(b)": (
            "Some say the guard is all that spawn needs. It does not make a lambda travel."
        ),
    },
    right=[
        "import builtins\ncollate = builtins.max",
        "import functools\ncollate = functools.partial(max)",
    ],
    at={
        "largest = list(DataLoader": (
            "Either your function could not travel to the worker, or something failed there. The "
            "message tells which."
        ),
        "assert largest": (
            "The worker started, so your function can travel. But it must give the largest sample "
            "of each batch: print `largest`."
        ),
    },
)
def test_a_collate_function_for_spawn():
    """This loader takes the largest sample of each batch. Its worker cannot start.

    Repair the marked line. The worker stays spawned.
    """
    # answer:
    collate = max
    # given:
    # collate = lambda batch: max(batch)
    # end
    options = {"num_workers": 1, "multiprocessing_context": "spawn", "batch_size": 2}
    largest = list(DataLoader([3, 1, 8, 9, 2], collate_fn=collate, **options))
    assert largest == [3, 9, 2]


@koan(
    claims=["A-4.4-06"],
    see="torch.multiprocessing",
    hint=[
        "The method is a setting of the whole program. When is it settled?",
        "A lock for several processes must know how they are started. Can it wait to be told?",
        "Who asks for the method wants an answer: the default, if nobody has chosen. And after it?",
    ],
    why=(
        "The start method is one global, settled once: by the first who chooses, and just as well "
        "by the first who needs it or asks for it (get_start_method(allow_none=True) asks without "
        "settling). After that, 'context has already been set', even for the same method. A loader "
        "does not need it before iter(). force=True overrides it, behind everybody's back."
    ),
    wrong={
        "[]": (
            "Some say: call set_start_method before you make the loader, and that is all. It "
            "depends on what the program did before."
        ),
        "['choose twice']": "Choosing is not the only way in which the method gets settled.",
        "['lock', 'ask']": "It is the same method the second time. But it is a second time.",
        "['loader', 'choose twice', 'lock', 'ask']": (
            "One of these four does not look at the method yet. It only keeps its arguments."
        ),
        "['choose twice', 'lock']": "An answer must be true later on as well. What follows?",
        "['loader', 'choose twice', 'lock']": "A loader that nobody iterates has started nobody.",
    },
)
def test_who_came_before():
    """Five small programs end with the same call: set_start_method("spawn"). Some of them did
    something before it, which their names tell.

    For which is the last call refused? List them in order.
    """
    choose = functools.partial(mp.set_start_method, "spawn")
    before = {"nothing": list, "loader": functools.partial(DataLoader, range(4), num_workers=1)}
    before |= {"choose twice": choose, "lock": mp.Lock, "ask": mp.get_start_method}
    refused = []
    for name, first in before.items():
        mp.set_start_method(None, force=True)  # as in a program that has just begun
        first()
        with contextlib.suppress(RuntimeError):
            choose()
            continue
        refused.append(name)
    assert refused == answer(["choose twice", "lock", "ask"])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-05", "A-4.4-06"],
    see="torch.multiprocessing",
    hint=[
        "torch.multiprocessing is a thin layer over multiprocessing. Has it a setting of its own?",
        "When are processes started, and so when must the method be known?",
    ],
    why=(
        "torch.multiprocessing has no start method of its own; it is the same setting. And the "
        "loader asks for it at iter(), when it starts workers. If nobody sets it, Python decides: "
        "fork on Linux up to 3.13, forkserver from 3.14 on, spawn on macOS and Windows."
    ),
    wrong={
        "'spawn'": (
            "Some think PyTorch has its own setting, or that a loader remembers what it was "
            "made under. It looks later, and elsewhere."
        ),
        "'forkserver'": "That is Python's default on Linux from 3.14 on, if nobody says anything.",
        "'thread'": "A worker is always a process.",
    },
)
def test_who_chooses_the_method():
    """torch chooses one method, the loader is made, then plain Python chooses another.

    The worker tells by which method it was started.
    """
    mp.set_start_method("spawn", force=True)
    ask = operator.methodcaller("__call__")
    questions = [multiprocessing.get_start_method]
    loader = DataLoader(questions, batch_size=None, collate_fn=ask, num_workers=1)
    multiprocessing.set_start_method("fork", force=True)
    (said,) = loader
    assert said == answer("fork")


@koan(
    claims=["A-4.4-06"],
    see="torch.utils.data.DataLoader",
    hint=[
        "One loader wants another method. Need the whole program know of it?",
        "Look through the arguments of DataLoader for a word that this file has used before.",
    ],
    why=(
        "multiprocessing_context takes a name or a context of multiprocessing.get_context, for "
        "this loader alone. Everybody else keeps what they had."
    ),
    wrong={
        "mp.get_context('spawn')\nloader = DataLoader(range(4), num_workers=1)": (
            "get_context changes nothing. It hands you a context, and here nobody takes it."
        ),
        "loader = DataLoader(range(4), multiprocessing_context='spawn')": (
            "Near. But a loader without workers refuses to hear of a start method."
        ),
        "loader = DataLoader(range(4), num_workers=1)\nloader.multiprocessing_context = 'fork'": (
            "The right place, the other method."
        ),
    },
    right=[
        "context = mp.get_context('spawn')\n"
        "loader = DataLoader(range(4), num_workers=1, multiprocessing_context=context)",
        "loader = DataLoader(range(4), num_workers=1)\nloader.multiprocessing_context = 'spawn'",
    ],
    at={
        "assert mp.get_start_method": (
            "The setting of the whole program is not what it was before your lines. Which of them "
            "reaches that far?"
        ),
        "loader.num_workers": (
            "The setting of the program is as it was. But there must be a loader with its worker."
        ),
        "loader.multiprocessing_context": (
            "The setting of the program is as it was. But this loader does not spawn yet: print "
            "the context that it holds."
        ),
    },
)
def test_for_this_loader_only():
    """This loader must spawn its worker. The setting of the program is none of its business.

    Repair the marked lines.
    """
    before = mp.get_start_method(allow_none=True)
    # answer:
    loader = DataLoader(range(4), num_workers=1, multiprocessing_context="spawn")
    # given:
    # mp.set_start_method("spawn", force=True)
    # loader = DataLoader(range(4), num_workers=1)
    # end
    assert mp.get_start_method(allow_none=True) == before
    assert loader.num_workers == 1
    assert loader.multiprocessing_context.get_start_method() == "spawn"


@pytest.mark.slow
@koan(
    claims=["A-4.4-07"],
    see="torch.multiprocessing",
    hint=[
        "To find your functions, the new process imports this very script. What runs then?",
        "As given, the worker came by the line that starts a worker, before it was one itself.",
        "Python tells a script whether it is the program or only imported: __name__.",
    ],
    why=(
        "A spawned worker imports the main script, under the name __mp_main__. Without the guard "
        "it would start workers of its own while it is still being born; Python stops it, and "
        "the parent only hears that a worker died. Under fork nothing is imported again, so "
        "the guard seems superfluous."
    ),
    wrong={
        "last = ['import time', 'time.sleep(1)', 'main()']": (
            "Waiting changes nothing. The worker runs the same line, only later."
        ),
        "last = ['import multiprocessing', 'multiprocessing.freeze_support()', 'main()']": (
            "The error message mentions it. It is for frozen programs, on Windows."
        ),
        "last = ['import torch.multiprocessing as mp', "
        "'mp.set_start_method(\"spawn\")', 'main()']": (
            "Some say these lines may stand at the top of a script. The worker comes by there, too."
        ),
        "last = ['if __name__ == \"__mp_main__\":', '    main()']": (
            "That is the name in the worker. Who should call main, and who should not?"
        ),
        "last = ['def run():', '    main()']": "Now the worker does not call it. Nor does anybody.",
        "last = ['print(6)']": "It is the worker that should read the numbers, whichever they are.",
    },
    right=[
        "last = ['if __name__ == \"__main__\": main()']",
        "last = ['if __name__ != \"__mp_main__\":', '    main()']",
    ],
    at={
        "script.write_text": (
            "Here the script is put together: `last` should be a list of lines, each of them a "
            "text."
        ),
        "done.returncode": (
            "The script ended with an error; the end of its story is in the message. Who comes by "
            "your lines: the program, the worker, or both?"
        ),
        "done.stdout.split()": (
            "The script ends without an error. But it should print the sum, once, and nothing "
            "else: print `done.stdout`."
        ),
    },
)
def test_a_script_that_starts_itself(tmp_path):
    """This script should print the sum of its arguments, which its worker reads, and nothing
    else. It ends with an error instead.

    Repair the marked line: the end of the script. The worker stays spawned.
    """
    lines = [
        "import sys",
        "from torch.utils.data import DataLoader, get_worker_info",
        "def number(words):",
        "    return int(words[0]) * get_worker_info().num_workers",
        "def main():",
        "    options = {'num_workers': 1, 'multiprocessing_context': 'spawn'}",
        "    print(sum(DataLoader(sys.argv[1:], collate_fn=number, **options)))",
    ]
    # answer:
    last = ["if __name__ == '__main__':", "    main()"]
    # given:
    # last = ["main()"]
    # end
    script = tmp_path / "train.py"
    script.write_text("\n".join([*lines, *last]))
    numbers = torch.randint(1000, (3,)).tolist()
    command = [sys.executable, script, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr.strip().split("\n")[-1]
    assert done.stdout.split() == [str(sum(numbers))]


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-3.4-01", "A-3.4-11"],
    see="torch.multiprocessing",
    hint=[
        "ForkingPickler writes what goes through the queue. It knows special ways for some types.",
        "If both sides can look at the same memory, what is left to be told?",
    ],
    why=(
        "Of a tensor only a handle is sent, some 350 bytes whatever its size: its storage has "
        "moved to shared memory. Lists, strings and NumPy arrays are pickled byte by byte: about "
        "9 kB and 80 kB here. The copying between processes that some blame for everything "
        "does not even happen to tensors."
    ),
    wrong={
        "['list of 1000', 'array of 10000', 'tensor of 1000000']": (
            "Some say the copying between processes is always the bottleneck. These would be "
            "4 MB for the tensor. Are they copied?"
        ),
        "['array of 10000', 'tensor of 1000000', 'list of 1000']": (
            "A list is heavy in memory, but a thousand floats are not much as a pickle."
        ),
        "['tensor of 1000000', 'array of 10000', 'list of 1000']": (
            "An array looks much like a tensor. But who taught the pickler about arrays?"
        ),
    },
)
def test_how_long_is_the_message():
    """What does a worker send for each of these? Order the three, shortest message first."""

    def lengths(_):
        things = {
            "list of 1000": [0.5] * 1000,
            "array of 10000": np.zeros(10_000),
            "tensor of 1000000": torch.zeros(1000, 1000),
        }
        return {name: len(ForkingPickler.dumps(thing)) for name, thing in things.items()}

    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    (length,) = DataLoader(range(1), collate_fn=lengths, **options)
    assert sorted(length, key=length.get) == answer(
        ["tensor of 1000000", "list of 1000", "array of 10000"]
    )


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-2.2-17", "A-2.2-90", "A-3.4-05", "B-4-24"],
    see="torch.Tensor.is_shared",
    hint=[
        "Without workers, is there anybody to share with?",
        "You know the length of the message for a tensor and for an array. Where were the bytes?",
        "Python's shared_memory has been taken away here. Did torch ever use it?",
    ],
    why=(
        "A worker's tensor is sent in a shared segment (default_collate builds it there at once), "
        "and the main process maps that: no second copy. torch has segments of its own and does "
        "without Python's shared_memory. The array was pickled. Without workers nothing is shared."
    ),
    wrong={
        ("[]", "[]"): (
            "It was unpickled, but only a handle was in the pickle. And Python's module is not "
            "what torch uses."
        ),
        ("['tensor', 'array']", "['tensor', 'array']"): (
            "Some say a DataLoader always uses shared memory. There must be two processes."
        ),
        ("[]", "['tensor', 'array']"): "The queue treats the two in different ways.",
        ("['tensor']", "['tensor']"): "Before a tensor is shared, somebody must want to see it.",
    },
    at={
        "shared(num_workers=0": (
            "This loader has no workers. Who makes its batch, and who else would have to see it?"
        ),
        "shared(num_workers=1": (
            "Without workers you are right. With one, both parts must travel to this process: how "
            "does each of them get here?"
        ),
    },
)
def test_where_a_batch_lives(monkeypatch):
    """Each batch is a tensor and an array. Which of them lie in shared memory?

    First without, then with a worker. Python's own shared_memory is out of order today.
    """
    monkeypatch.setitem(sys.modules, "multiprocessing.shared_memory", None)

    def shared(**options):
        loader = DataLoader(
            range(4), collate_fn=lambda batch: (torch.tensor(batch), np.array(batch)), **options
        )
        tensor, array = next(iter(loader))
        homes = {"tensor": tensor, "array": torch.from_numpy(array)}
        return [name for name, home in homes.items() if home.is_shared()]

    assert shared(num_workers=0) == answer([])
    assert shared(num_workers=1, multiprocessing_context="fork") == answer(["tensor"])


@koan(
    claims=["A-2.2-17"],
    see="torch.Tensor.share_memory_",
    hint=[
        "A tensor is a window on a storage. Which of the two is moved?",
        "Which of these operations make a storage of their own?",
    ],
    why=(
        "share_memory_ moves the whole storage, so every window on it has moved along: the "
        "original, other slices, detach(). What has a storage of its own, a clone or the result "
        "of an operation, is private again."
    ),
    wrong={
        "['slice']": "Only the slice was asked. But its storage is not its own.",
        "['slice', 'detached']": "One more tensor looks at the same storage: the oldest one.",
        "['whole', 'slice', 'copy', 'detached', 'doubled']": (
            "Being shared is a fact about memory. New memory starts without it."
        ),
        "['whole', 'slice', 'copy', 'detached']": "A copy is a copy, of the numbers only.",
    },
)
def test_one_slice_is_shared():
    """Only a slice is told to share its memory. Which of the five are shared then?"""
    whole = torch.arange(6.0)
    part = whole[2:]
    part.share_memory_()
    tensors = {"whole": whole, "slice": part, "copy": part.clone(), "detached": part.detach()}
    tensors["doubled"] = part * 2
    assert [name for name, t in tensors.items() if t.is_shared()] == answer(
        ["whole", "slice", "detached"]
    )


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-03", "A-4.4-04", "A-4.4-09"],
    see="torch.cuda.init",
    hint=[
        "The flag lets PyTorch know that it sits in such a child. What may it do with that?",
        "worker_init_fn runs in the worker. Is that before or after the fork?",
        "A worker that only touches CPU tensors does not ask CUDA for anything.",
    ],
    why=(
        "Nobody waits. A worker that stays on the CPU works, as in every ordinary GPU training; "
        "one that touches CUDA is refused at once ('Cannot re-initialize CUDA in forked "
        "subprocess'), and the main process raises it. worker_init_fn runs after the fork, so a "
        "CUDA call there, set_device say, brings about the very error it should prevent."
    ),
    wrong={
        "['waited', 'waited', 'waited']": (
            "Some say the fork after CUDA has started is what deadlocks. But then nearly every "
            "training on a GPU would hang."
        ),
        "['batch', 'batch', 'waited']": (
            "Some say a CUDA call in worker_init_fn keeps the context from being inherited. "
            "It comes too late, and is a CUDA call itself."
        ),
        "['batch', 'waited', 'waited']": (
            "Some say the worker finds a broken CUDA and never answers. PyTorch looks at the flag."
        ),
        "['refused', 'refused', 'refused']": "What should a worker without CUDA be refused for?",
    },
)
def test_forked_after_cuda_was_started(monkeypatch):
    """PyTorch's flag says: forked from a process that uses CUDA. Does the loader give a batch, is
    it refused, or does it wait?

    Three workers: without CUDA, with CUDA in worker_init_fn, with CUDA in collate_fn.
    """
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)

    def outcome(**where):
        options = {"num_workers": 1, "multiprocessing_context": "fork", "timeout": 30}
        try:
            next(iter(DataLoader(range(1), **options, **where)))
        except RuntimeError as error:
            return "waited" if "timed out" in str(error) else "refused"
        return "batch"

    def start(_):
        torch.cuda.init()

    outcomes = [outcome(), outcome(worker_init_fn=start), outcome(collate_fn=start)]
    assert outcomes == answer(["batch", "refused", "refused"])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-10"],
    see="torch.cuda.is_initialized",
    hint=[
        "is_initialized() says whether this process can use CUDA now. What of a forked child?",
        "Its source is two lines. One of the two things it looks at you have seen above.",
    ],
    why=(
        "is_initialized() is `_initialized and not _is_in_bad_fork()`: in the child it is False, "
        "so `if is_initialized(): empty_cache()` never gets to its second half. And empty_cache "
        "repairs nothing: it only gives unused blocks back."
    ),
    wrong={
        "['main process', 'worker_init_fn', 'collate_fn']": (
            "Some say the worker inherits an initialized CUDA, and should empty its cache there. "
            "Does that `if` ever let it in?"
        ),
        "['main process', 'worker_init_fn']": (
            "Between worker_init_fn and collate_fn nothing happens to CUDA."
        ),
        "['main process', 'collate_fn']": "worker_init_fn runs in the same process as collate_fn.",
        "[]": "The main process has CUDA, and has not been forked from anything.",
    },
)
def test_who_sees_cuda_initialized(monkeypatch):
    """Some say a worker must clean up the CUDA it inherits, `if torch.cuda.is_initialized()`.

    Two patches make this a process that uses CUDA. It asks is_initialized(); then its forked
    worker does, in worker_init_fn and in collate_fn. Who of the three hears True?
    """
    parent = os.getpid()
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: os.getpid() != parent)
    heard_true = []

    def ask(who):
        heard_true.extend([who] if torch.cuda.is_initialized() else [])
        return list(heard_true)

    ask("main process")
    hooks = {"worker_init_fn": lambda _: ask("worker_init_fn")}
    hooks["collate_fn"] = lambda _: ask("collate_fn")
    (heard,) = DataLoader(range(1), num_workers=1, multiprocessing_context="fork", **hooks)
    assert heard == answer(["main process"])


@pytest.mark.gpu
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-04"],
    see="torch.utils.data.DataLoader",
    hint=[
        "The worker was forked from a process that uses CUDA. What may it touch?",
        "Somebody moves the batch afterwards anyway. Who, and where?",
    ],
    why=(
        "Workers deliver CPU tensors, the main process moves whole batches: one copy per batch "
        "instead of one per sample, and no CUDA in a worker. Add pin_memory=True and "
        "non_blocking=True when it should overlap."
    ),
    wrong={
        "torch.cuda.empty_cache()\nreturn table[i].cuda()": (
            "There is nothing to clean up, and the call after it is refused all the same."
        ),
        "torch.cuda.set_device(0)\nreturn table[i].cuda()": (
            "Some say set_device in the worker cures it. It is the first CUDA call, and refused."
        ),
        "return table[i].to('cuda', non_blocking=True)": "Another name for the same CUDA call.",
    },
    right=["return table[i].clone()"],
    at={
        "batches = [batch.cuda()": (
            "The batches did not come through. If a worker failed, its own traceback is in the "
            "message: what may a forked worker touch?"
        ),
        "torch.cat(batches)": (
            "No worker was refused, and the batches are on the GPU. But they should hold the "
            "numbers of the table: print them."
        ),
    },
)
def test_who_moves_the_batch():
    """The main process uses the GPU, and forks two workers. They are refused.

    Repair the marked line.
    """
    table = torch.arange(6.0)
    assert table.cuda().is_cuda

    class Rows:
        def __len__(self):
            return 6

        def __getitem__(self, i):
            # answer:
            return table[i]
            # given:
            # return table[i].cuda()
            # end

    options = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": 30}
    batches = [batch.cuda() for batch in DataLoader(Rows(), batch_size=3, **options)]
    assert torch.cat(batches).tolist() == table.tolist()


@pytest.mark.needs(fork=True, platform="linux")
@koan(
    claims=["B-4-28"],
    see="torch.multiprocessing.set_sharing_strategy",
    hint=[
        "40 batches of 250 float32 are kept. How many bytes must that be, whatever the strategy?",
        "A strategy says how the other side finds the memory: by an open file, or by a name.",
        "The names tell which of the two keeps descriptors open.",
    ],
    why=(
        "The strategy decides how a segment is found, not how large it is: the same bytes. "
        "file_descriptor (Linux's default) keeps one descriptor open for each tensor that lives; "
        "file_system keeps names. It cures 'Too many open files', not a lack of memory, and "
        "can leave segments behind when a process dies."
    ),
    wrong={
        "[(40000, 40), (0, 0)]": (
            "Some say file_system solves the lack of memory. Then where would the numbers be?"
        ),
        "[(40000, 0), (40000, 0)]": (
            "Some believe a descriptor is closed as soon as the batch has been handed out. "
            "One of the strategies needs it as long as the tensor lives."
        ),
        "[(40000, 40), (40000, 40)]": "A name on a file system need not be kept open.",
        "[(40000, 0), (40000, 40)]": "It is the other way round: read the two names again.",
    },
)
def test_another_way_of_sharing(monkeypatch):
    """Some say set_sharing_strategy('file_system') helps when memory runs out.

    All 40 batches are kept, under either strategy. How many bytes are they, and how many
    descriptors do they hold (to the nearest ten)?
    """

    def cost(strategy):
        mp.set_sharing_strategy(strategy)
        before = len(os.listdir("/dev/fd"))
        data = torch.zeros(40, 250)
        kept = list(DataLoader(data, num_workers=1, multiprocessing_context="fork"))
        held = len(os.listdir("/dev/fd")) - before
        return sum(batch.untyped_storage().nbytes() for batch in kept), round(held, -1)

    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)  # for what file_system's helper process leaves
        costs = [cost("file_descriptor"), cost("file_system")]
    mp.set_sharing_strategy("file_descriptor")
    assert costs == answer([(40_000, 40), (40_000, 0)])


@pytest.mark.needs(fork=True, platform="linux")
@koan(
    see="torch.Tensor.is_shared",
    hint=[
        "Each batch from a worker holds a descriptor, as long as its storage lives.",
        "Keep the numbers, not the storage they came in.",
        "Which of the tensors in the slice koan had left the shared storage?",
    ],
    why=(
        "A copy in ordinary memory lets the shared storage go, and with it the descriptor. "
        "Keep hundreds of batches as they come and you get 'Too many open files', or "
        "'received 0 items of ancdata', far from the line that caused it. "
        "set_sharing_strategy('file_system') helps, too, if it is called before the workers "
        "start; but the memory stays shared, and a crash can leave it behind."
    ),
    wrong={
        "kept.append(batch.detach())": "Detached from the graph, but still the same storage.",
        "kept.append(batch[:])": "Of a list this is a copy. Of a tensor it is one more window.",
        "kept.append(batch)\ndel batch": "One name is gone. The list still holds the tensor.",
        "kept.append(batch.contiguous())": "It is contiguous already, so you get it back.",
        "mp.set_sharing_strategy('file_system')\nkept.append(batch)": (
            "It is the worker that sends, and it was started before, with the old strategy."
        ),
        "kept.append(torch.rand(1))": "The right form. But whose numbers are these?",
    },
    right=[
        "import copy\nkept.append(copy.deepcopy(batch))",
        "kept.append(batch + 0)",
        "kept.append(torch.tensor(batch.tolist()))",
    ],
    at={
        "torch.cat(kept)": (
            "This joins all that you kept, and compares it with the numbers that came. Print the "
            "length of `kept`, and its first entry."
        ),
        "- before < 30": (
            "The numbers are right. But too many descriptors are still open: what do the kept "
            "tensors hold on to?"
        ),
    },
)
def test_keep_the_batches():
    """The worker draws a random number for each of 60 batches. All are kept, and with each one a
    file descriptor. Programs have few of them.

    Keep the batches' numbers without the descriptors. Repair the marked line.
    """
    before = len(os.listdir("/dev/fd"))
    kept, numbers = [], []
    options = {"collate_fn": lambda _: torch.rand(1), "num_workers": 1}
    for batch in DataLoader(range(60), multiprocessing_context="fork", **options):
        numbers += batch.tolist()
        # answer:
        kept.append(batch.clone())
        # given:
        # kept.append(batch)
        # end
    assert torch.cat(kept).tolist() == numbers
    assert len(os.listdir("/dev/fd")) - before < 30
