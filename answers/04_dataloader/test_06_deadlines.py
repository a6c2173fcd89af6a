"""Deadlines: programs that wait and wait, and how to be told.

Every koan has a deadline. If yours hangs, it is ended, and you read where it stood.

Documents: A 4.4
"""

import contextlib
import multiprocessing
import os
import pickle
import sys
import threading
import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from sensei import answer, koan


@contextlib.contextmanager
def held_by_a_thread(lock):
    """For the time of a block, another thread holds the lock: two seconds at most."""
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            let_go.wait(2)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside a thread
        yield
    let_go.set()
    holder.join()


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-02", "A-4.4-12"],
    see="threading.Lock",
    hint=[
        "fork copies memory. A lock is memory too: it is open or closed at that moment.",
        "A thread of the main process opens its lock again. Whose lock is that?",
        "fork copies one thread only, the one that forks. Who could open the worker's copy?",
    ],
    why=(
        "The second worker got a copy of a closed lock, and no copy of the thread that would open "
        "it: it stays closed as long as the worker lives. Libraries that run threads of their own "
        "have such locks, and whether one is closed at the fork is chance: so this hang comes "
        "'now and then'. There is no CUDA anywhere in it."
    ),
    wrong={
        "[['open'], ['open']]": (
            "Some say that only a copied CUDA context can hang a forked worker. No CUDA here; "
            "and the lock was opened again, but on which side?"
        ),
        "[['closed'], ['closed']]": "The first worker was forked while nobody held the lock.",
        "[['open'], []]": "The second worker answers, too: it stops waiting after a while.",
    },
)
def test_a_lock_and_a_fork():
    """Some say that forked workers hang because of CUDA. Here is a lock only.

    Two workers try it: one is forked while it is free, one while a thread of the main process
    holds it for a moment. A real one would wait on and on; this one gives up. What do the two
    report?
    """
    lock = threading.Lock()

    def attempt(batch):
        return "open" if lock.acquire(timeout=0.5) else "closed"

    loader = DataLoader(range(1), collate_fn=attempt, num_workers=1, multiprocessing_context="fork")
    first = list(loader)
    with held_by_a_thread(lock):
        batches = iter(loader)  # this forks
    assert not lock.locked()
    second = list(batches)
    assert [first, second] == answer([["open"], ["closed"]])


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-01"],
    see="torch.utils.data.DataLoader",
    hint=[
        "The samples are dealt out in turn: 0 and 2 to one worker, 1 and 3 to the other.",
        "The other worker goes on. Does the loader give you sample 3 before sample 2?",
        "The wait for sample 2 ends, after a second. Does the loader go on without it?",
    ],
    why=(
        "Batches come in order, so the loader waits for sample 2 alone, and then gives up: "
        "RuntimeError, 'DataLoader timed out after 1 seconds'. What the others have ready is lost. "
        "The limit is for each wait, not for the epoch. timeout=0, the default, means no limit: "
        "the main process would stand at this line, at the result queue, until you end it."
    ),
    wrong={
        "[[0, 1, 3], []]": "That would be out of order. A loader does not do so by itself.",
        "[[0, 1], []]": "One worker is stuck. Has the other one reason to stop?",
        "[[0, 1], [2, 3]]": "Sample 2 is the one that its worker waits with.",
        "[[], [0, 1, 3]]": "Before the wait there was something to give, in the right order.",
        "[[0, 1, 2, 3], []]": "Nobody gave the signal, and a second is not that long.",
    },
)
def test_a_worker_in_deep_thought():
    """Two workers read four samples. At sample 2 a worker waits for a signal that does not come;
    after a second the loader gives up.

    Which samples did you get, and which others had been read by then?
    """
    wake_up = multiprocessing.get_context("fork").Event()
    read, got = torch.zeros(4).share_memory_(), []

    def load(samples):
        assert samples != [2] or wake_up.wait(10)
        read[samples] = 1
        return samples

    options = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": 1}
    batches = iter(DataLoader(range(4), collate_fn=load, **options))
    with pytest.raises(RuntimeError, match="timed out"):
        for batch in batches:
            got += batch
    others = [sample for sample in range(4) if read[sample] and sample not in got]
    wake_up.set()
    assert [got, others] == answer([[0, 1], [3]])


@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-01"],
    see="torch.utils.data.DataLoader",
    hint=[
        "No timeout is set, so a silent worker would be waited for. Is a dead one silent?",
        "The worker catches Exception, to send it home. Is SystemExit an Exception?",
        "The system tells a parent that a child has died. What can the parent say about why?",
    ],
    why=(
        "An Exception comes home, and if it can, with its type. sys.exit raises SystemExit, which "
        "is none: the worker just ends, as with os._exit. A dead worker is noticed within "
        "seconds, even without a timeout: 'DataLoader worker (pid ...) exited unexpectedly'. "
        "Only one that is alive and stuck is waited for."
    ),
    wrong={
        "['ZeroDivisionError', 'SystemExit', 'RuntimeError']": (
            "sys.exit does raise it, in the worker. Who would catch it there and send it on?"
        ),
        "['RuntimeError', 'RuntimeError', 'RuntimeError']": (
            "The first worker is alive and well enough to tell which error it met."
        ),
        "['ZeroDivisionError', 'SystemExit', 'SystemExit']": (
            "_exit leaves no time for a last word. Only the loader can speak."
        ),
        "['ZeroDivisionError', 'TimeoutError', 'TimeoutError']": (
            "No limit was set. And a dead process is not waited for."
        ),
    },
)
def test_three_ways_to_go():
    """Three workers: one divides by zero, one calls sys.exit, one os._exit. No timeout is set.

    Write the names of the three exceptions in the main process.
    """
    ends = [lambda batch: 1 / 0, lambda batch: sys.exit(3), lambda batch: os._exit(3)]
    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    names = []
    for end in ends:
        try:
            list(DataLoader(range(1), collate_fn=end, **options))
        except BaseException as error:
            names.append(type(error).__name__)
    assert names == answer(["ZeroDivisionError", "RuntimeError", "RuntimeError"])


@koan(
    claims=["A-4.4-11"],
    see="torch.utils.data.DataLoader",
    hint=[
        "Without workers there is nobody to wait for. The constructor does not look, iter() does.",
        "prefetch_factor=2 without workers raises ValueError. Is this check as polite?",
    ],
    why=(
        "An assert in the iterator. Without workers nothing can hang this way, and nothing runs "
        "ahead either: num_workers=0 is the safe way to see an ordinary traceback. The other "
        "worker options are refused by the constructor, with a ValueError."
    ),
    wrong={
        "ValueError": "So it is with prefetch_factor, persistent_workers and the start method.",
        "RuntimeError": "That one is for workers that failed. There are none.",
        "TypeError": "The type of the argument is fine.",
    },
)
def test_a_deadline_for_nobody():
    """A timeout, and no worker. It is not ignored: which exception comes?"""
    with pytest.raises(Exception) as caught:
        list(DataLoader(range(2), timeout=5))
    assert caught.type is answer(AssertionError)


@koan(
    claims=["A-4.4-08"],
    see="pickle.Pickler",
    hint=[
        "What would a pickled lock be, on the other side: open or closed? And for whom?",
        "pickle can write most things. What is wrong with this one is what it is.",
    ],
    why=(
        "cannot pickle '_thread.lock' object. So with spawn the hang cannot even begin: a dataset "
        "that holds a lock, an open file or a database connection is refused when the worker "
        "is started. Open such things in the worker."
    ),
    wrong={
        "pickle.PicklingError": "So it says of a function that it cannot find by name.",
        "AttributeError": "It looks for no attribute. The object is there, and cannot be written.",
        "RuntimeError": "Nothing has been started yet, so nothing can fail in it.",
    },
)
def test_a_lock_in_the_luggage():
    """A spawned worker gets a pickle of its dataset. This one holds a lock. Name the exception."""
    dataset = {"items": [1, 2, 3], "lock": threading.Lock()}
    with pytest.raises(Exception) as caught:
        pickle.dumps(dataset)
    assert caught.type is answer(TypeError)


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-02"],
    see="torch.utils.data.get_worker_info",
    hint=[
        "worker_init_fn runs in the worker, before the first sample. What could it change there?",
        "The closed lock is of no use to anybody in the worker. Does it need that very one?",
        "get_worker_info() knows the worker's own dataset.",
    ],
    why=(
        "The worker's lock protects the worker's own copy of the dataset, so it may be a new one. "
        "To release the inherited one is no cure: if it happened to be open, that fails; and "
        "what it protects may be half done."
    ),
    wrong={
        "from torch.utils.data import get_worker_info\nget_worker_info().dataset.lock.release()": (
            "It opens the one that was closed. In the other round it is open, and refuses."
        ),
        "lock = threading.Lock()": "A new lock, in a local name. The dataset has its old one.",
        "from torch.utils.data import get_worker_info\n"
        "get_worker_info().dataset.lock.acquire(timeout=1)": (
            "Nobody can open that one. And in the other round it is closed by you."
        ),
    },
    right=[
        "dataset.lock = threading.Lock()",
        "from torch.utils.data import get_worker_info\n"
        "get_worker_info().dataset.lock = threading.RLock()",
        "dataset.__init__()",
    ],
    at={
        "list(batches)": (
            "Each round should bring three squares. A worker that was late or failed tells so in "
            "the message: what was it busy with?"
        ),
    },
)
def test_a_lock_for_each_worker():
    """In one of two rounds a thread of the main process holds the dataset's lock when the worker is
    forked.

    Repair the marked line, so that the worker never waits for it.
    """

    class Squares:
        def __init__(self):
            self.lock = threading.Lock()

        def __len__(self):
            return 3

        def __getitem__(self, i):
            with self.lock:
                return i * i

    def init(worker_id):
        # answer:
        from torch.utils.data import get_worker_info

        get_worker_info().dataset.lock = threading.Lock()
        # given:
        # pass
        # end

    dataset = Squares()
    options = {"num_workers": 1, "multiprocessing_context": "fork", "worker_init_fn": init}
    for holder in (held_by_a_thread(dataset.lock), contextlib.nullcontext()):
        with holder:
            batches = iter(DataLoader(dataset, batch_size=None, timeout=5, **options))
        assert list(batches) == [0, 1, 4]


@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-02"],
    see="os.register_at_fork",
    hint=[
        "Python itself can call you back at each fork, before it and after it, on either side.",
        "Look at what the module os offers: its name begins with `register`.",
        "On which of the two sides is the lock of no use to anybody?",
    ],
    why=(
        "Whoever owns a lock can mend it after each fork, and the forking program need not know. "
        "Python's own logging does so; many libraries do not. To take the lock before "
        "the fork and release it on both sides is better still: then what it guards is not half "
        "done either."
    ),
    wrong={
        "os.register_at_fork(after_in_parent=lambda: setattr(Library, 'lock', threading.Lock()))": (
            "A new lock for the side that still has the thread to open its old one."
        ),
        "os.register_at_fork(before=lambda: setattr(Library, 'lock', threading.Lock()))": (
            "The worker is fine. But this process has lost the lock that its thread still holds."
        ),
        "Library.lock = threading.Lock()": (
            "It is new, but for both sides. And at the fork it will be held like the old one."
        ),
        "Library.lock = threading.RLock()": (
            "The thread that holds it may take it again. That thread is not in the worker."
        ),
        "Library.lock = multiprocessing.get_context('fork').Lock()": (
            "One lock for all processes: while a thread of this one holds it, nobody else can."
        ),
        "if multiprocessing.parent_process() is not None:\n    Library.lock = threading.Lock()": (
            "A forked worker does not come by here again. It goes on from the line of the fork."
        ),
    },
    right=[
        "import multiprocessing.util\n"
        "multiprocessing.util.register_after_fork("
        "Library, lambda it: setattr(it, 'lock', threading.Lock()))",
        "os.register_at_fork(after_in_child=Library.lock._at_fork_reinit)",
        "lock = Library.lock\n"
        "os.register_at_fork(\n"
        "    before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release\n"
        ")",
    ],
    at={
        'list(batches) == ["open"]': (
            "Each worker is forked while a thread here holds the lock, and should find its own "
            "open. When do your lines act, and on which side?"
        ),
        "is old_lock": (
            "Every worker began with an open lock. But this process no longer has the one it had: "
            "on which side do your lines act?"
        ),
    },
)
def test_a_lock_after_each_fork():
    """A library does not know who will fork, nor when: a thread may hold its lock then. See to it
    that every forked worker begins with an open lock. This process keeps the one it has.

    Write what the library does once, when it is imported.
    """

    class Library:
        lock = threading.Lock()

    old_lock = Library.lock
    # answer:
    os.register_at_fork(after_in_child=lambda: setattr(Library, "lock", threading.Lock()))
    # end

    def attempt(batch):
        return "open" if Library.lock.acquire(timeout=0.5) else "closed"

    loader = DataLoader(range(1), collate_fn=attempt, num_workers=1, multiprocessing_context="fork")
    for _ in range(2):
        with held_by_a_thread(Library.lock):
            batches = iter(loader)  # this forks
        assert list(batches) == ["open"]
    assert Library.lock is old_lock


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
@koan(
    see="multiprocessing.Process.join",
    hint=[
        "A queue is a pipe with a thread that fills it. A pipe holds some 64 kB. And then?",
        "A process ends when all it has to send is in the pipe. exitcode is None until it ends.",
        "How long was the message for a large tensor?",
    ],
    why=(
        "The list is 900 kB of pickle: the pipe is full, nobody reads, and the process cannot end; "
        "a join without a limit never returns. Of the tensor only a handle is sent, and that "
        "fits. Read first, then join."
    ),
    wrong={
        "[0, 0]": "A queue has no limit, but the pipe behind it has.",
        "[None, None]": "The same numbers. But do they take the same way?",
        "[0, None]": "A tensor looks heavier. What of it goes through the pipe?",
        "[1, 0]": "The first does not fail. It would go on, if only somebody read.",
    },
)
def test_join_before_reading():
    """Two processes each put 100,000 numbers into a queue: a list, and a tensor.

    Nobody reads. What are their exit codes after a while? None means: not ended.
    """
    fork = multiprocessing.get_context("fork")

    def send(cargo):
        line = fork.Queue()
        line.put(cargo)
        line.close()
        line.join_thread()  # at its end, a process does this by itself

    codes = []
    for cargo, patience in [([0.5] * 100_000, 1), (torch.zeros(100_000), 10)]:
        sender = fork.Process(target=send, args=(cargo,))
        sender.start()
        sender.join(patience)
        codes.append(sender.exitcode)
        sender.kill()
        sender.join()
    assert codes == answer([None, 0])


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.needs(fork=True)
@koan(
    claims=["A-4.4-01"],
    see="multiprocessing.process.BaseProcess.join",
    hint=[
        "The process puts work()'s result into a queue. What must come first, join or get?",
        "get takes a timeout, and raises queue.Empty when it is over.",
        "Whatever happened: nobody may be left behind. kill() asks nobody, join() cleans up.",
    ],
    why=(
        "Read with a limit, then kill, then join: in this order nothing can wait without end. "
        "This is how a DataLoader with timeout= works, and how these koans are run."
    ),
    wrong={
        "replies = fork.Queue()\n"
        "child = fork.Process(target=lambda: replies.put(work()))\n"
        "child.start()\n"
        "child.join(seconds)\n"
        "if child.exitcode is None:\n"
        "    child.kill()\n"
        "    child.join()\n"
        "    return 'late'\n"
        "return replies.get()": (
            "Joined before it was read: with much to say, the child cannot end, and seems late."
        ),
        "import queue\n"
        "replies = fork.Queue()\n"
        "child = fork.Process(target=lambda: replies.put(work()))\n"
        "child.start()\n"
        "try:\n"
        "    return replies.get(timeout=seconds)\n"
        "except queue.Empty:\n"
        "    return 'late'": "Whoever is late is left behind, and waits on.",
        "import queue\n"
        "replies = queue.Queue()\n"
        "threading.Thread(target=lambda: replies.put(work()), daemon=True).start()\n"
        "try:\n"
        "    return replies.get(timeout=seconds)\n"
        "except queue.Empty:\n"
        "    return 'late'": "A thread, and in this very process: nobody can end it from outside.",
        "return work()": (
            "It runs right here, in the process that asks. The third question has no end."
        ),
        "with fork.Pool(1) as pool:\n"
        "    try:\n"
        "        return pool.apply_async(work).get(seconds)\n"
        "    except multiprocessing.TimeoutError:\n"
        "        return 'late'": (
            "A Pool forks first, and then sends the function to its process as a pickle. Can a "
            "lambda travel?"
        ),
        "with fork.Pool(1) as pool:\n"
        "    try:\n"
        "        return pool.apply_async(lambda: work()).get(seconds)\n"
        "    except multiprocessing.TimeoutError:\n"
        "        return 'late'": (
            "A Pool forks first, and then sends the function to its process as a pickle. Can a "
            "lambda travel?"
        ),
    },
    right=[
        "reader, writer = fork.Pipe(duplex=False)\n"
        "child = fork.Process(target=lambda: writer.send(work()))\n"
        "child.start()\n"
        "result = reader.recv() if reader.poll(seconds) else 'late'\n"
        "child.kill()\n"
        "child.join()\n"
        "return result",
    ],
    at={
        "ask(os.getpid, 5)": (
            "The first question is easy. Its work must run in a process of its own, and the "
            "result must come back to you."
        ),
        "100_000, 5)": (
            "A short result comes back. This one is longer than a pipe can hold at once: when is "
            "it read?"
        ),
        "threading.Event().wait": (
            "Results come back, short and long. But this work never ends: what does ask return "
            "when the time is over?"
        ),
        "active_children()": (
            "All three replies are right. But a process is still there: after which of the "
            "questions, and who cleans up?"
        ),
    },
)
def test_ask_with_a_deadline():
    """Write ask: it runs work() in a forked process and returns its result.

    If there is none after `seconds`, it returns "late". No process may be left.
    """

    fork = multiprocessing.get_context("fork")

    def ask(work, seconds):
        # answer:
        import queue

        replies = fork.Queue()
        child = fork.Process(target=lambda: replies.put(work()))
        child.start()
        try:
            return replies.get(timeout=seconds)
        except queue.Empty:
            return "late"
        finally:
            child.kill()
            child.join()
        # end

    assert ask(os.getpid, 5) not in (os.getpid(), "late")
    assert ask(lambda: [0.5] * 100_000, 5) == [0.5] * 100_000
    assert ask(threading.Event().wait, 0.5) == "late"
    assert multiprocessing.active_children() == []
