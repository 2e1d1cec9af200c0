"""What Jupyter kernels share whose language runs in a process of its own, with pipes of ours as its
standard output and error."""
import codecs
import os
import sys

sys.modules["debugpy"] = None  # a debugger that nobody can reach

from ipykernel.kernelapp import IPKernelApp  # noqa: E402
from ipykernel.kernelbase import Kernel  # noqa: E402
from traitlets.config import Config  # noqa: E402

import zmq  # noqa: E402

READ_BYTES = 1 << 16


class Output:
    """The reading ends of both pipes, which do not block."""

    def __init__(self, output, errors):
        self.decoders = {}
        for fd, name in ((output, "stdout"), (errors, "stderr")):
            os.set_blocking(fd, False)
            self.decoders[fd] = name, codecs.getincrementaldecoder("utf-8")("replace")

    def close(self):
        for fd in self.decoders:
            os.close(fd)

    def read(self, show):
        """Calls show(stream, text) for all that is there."""
        for fd in self.decoders:
            self._read(fd, show)

    def _read(self, fd, show):
        name, decoder = self.decoders[fd]
        while True:
            try:
                data = os.read(fd, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                return
            show(name, decoder.decode(data))


class ProcessKernel(Kernel):
    """make_process() starts the process, which has close(); self.process is the present one."""
    implementation_version = "1"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.process = self.make_process()

    def new_process(self):
        self.process.close()
        self.process = self.make_process()

    def show(self, name, text):
        if text:
            self.send_response(self.iopub_socket, "stream", {"name": name, "text": text})

    def succeed(self):
        return {"status": "ok", "execution_count": self.execution_count, "payload": [],
                "user_expressions": {}}

    def fail(self, name, value, traceback):
        error = {"ename": name, "evalue": value, "traceback": traceback}
        self.send_response(self.iopub_socket, "error", error)
        return {"status": "error", "execution_count": self.execution_count, **error}

    def do_shutdown(self, restart):
        self.process.close()
        return {"status": "ok", "restart": restart}


def launch(kernel_class):
    c = Config()
    c.IPKernelApp.log_level = "ERROR"
    c.IPKernelApp.kernel_class = kernel_class
    c.IPKernelApp.capture_fd_output = False
    del sys.modules["debugpy"]
    app = IPKernelApp.instance(config=c)
    app.initialize()
    # a full PUB socket makes the kernel wait instead of dropping lines
    app.iopub_thread.socket.setsockopt(zmq.XPUB_NODROP, 1)
    app.iopub_thread.socket.setsockopt(zmq.SNDHWM, 64)
    app.start()
