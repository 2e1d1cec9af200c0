"""New seeds after a restore or fork, so that no two siblings draw the same numbers.

What the kernel of the operating system gives (os.urandom, secrets, uuid4) needs nothing: the agent
has reseeded it. Here is what lives in this process. Generators that a program made itself
(numpy.random.default_rng(), random.Random()) are the program's, with the state it gave them."""
import os
import sys


def _seed_numpy(numpy):
    numpy.random.seed(int.from_bytes(os.urandom(4), "little"))


def _seed_ssl(ssl):
    ssl.RAND_add(os.urandom(48), 48)  # OpenSSL's generators reseed from the pool this stirs


def _seed_tempfile(tempfile):
    tempfile._name_sequence = None  # made anew at its next use


def _seed_uuid(uuid):
    uuid._last_timestamp = None
    uuid._node = None


def _seed_torch(torch):
    torch.seed()


def _seed_processes(process):
    process.current_process().authkey = os.urandom(32)


_SEEDERS = {
    "random": lambda random: random.seed(),
    "numpy": _seed_numpy,
    "_ssl": _seed_ssl,
    "tempfile": _seed_tempfile,
    "uuid": _seed_uuid,
    "torch": _seed_torch,
    "multiprocessing.process": _seed_processes,
}


def reseed():
    for name, seed in _SEEDERS.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            seed(module)
        except Exception as error:  # a user's module of that name: the others count
            print(f"mayfly: {name} is not reseeded: {error}", file=sys.__stderr__)
