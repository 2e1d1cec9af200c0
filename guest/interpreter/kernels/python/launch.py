"""Starts ipykernel as the interpreter wants it: launch.py -f CONNECTION_FILE."""
import os
import sys

# The directory of the notebook, not of this file, is where modules are looked for first.
sys.path[0] = ""
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

# ipykernel would load a debugger that nobody can reach: time and memory of every kernel.
sys.modules["debugpy"] = None

from ipykernel.kernelapp import IPKernelApp  # noqa: E402
from traitlets.config import Config  # noqa: E402

import mayfly_formats  # noqa: E402
import mayfly_images  # noqa: E402
import mayfly_streams  # noqa: E402

del sys.modules["debugpy"]


def configuration():
    c = Config()
    c.IPKernelApp.log_level = "ERROR"
    c.IPKernelApp.outstream_class = "mayfly_streams.Stream"
    c.HistoryManager.enabled = False  # a database that all kernels would write to at each cell
    c.IPCompleter.use_jedi = False
    c.Session.packer = "mayfly_formats.pack"
    return c


def main():
    app = IPKernelApp.instance(config=configuration())
    app.initialize()
    mayfly_streams.never_drop(app.iopub_thread)
    mayfly_formats.register(app.shell)
    mayfly_images.watch(app.shell)
    app.start()


if __name__ == "__main__":
    main()
