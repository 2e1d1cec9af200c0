"""A Jupyter kernel for Java: launch.py -f CONNECTION_FILE.

A Java machine of its own keeps the state and runs cells with JShell (Cells.java has the protocol). Its
standard output and error are pipes of ours; requests and replies have two others."""
import os
import select
import signal
import struct
import subprocess
import sys
import time

sys.path[0] = ""
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../shared"))

from mayfly_process import Output, ProcessKernel, READ_BYTES, launch  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STOP_S = 5  # after which a cell that does not stop costs its machine
REPLY_MAX = 64 << 20  # bytes of a text


def command():
    """Compiled when the template was built; else the compiler runs first."""
    if os.path.exists(os.path.join(HERE, "Cells.class")):
        return ["-cp", HERE, "Cells"]
    return [os.path.join(HERE, "Cells.java")]


class Machine:
    """The process: run() gives output as it comes and returns a reply's texts, or None at its end."""

    def __init__(self):
        requests, self.requests = os.pipe()
        self.replies, replies = os.pipe()
        printed, output = os.pipe()
        reported, errors = os.pipe()
        self.process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *command(),
             str(requests), str(replies)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=errors, pass_fds=[requests, replies],
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        for fd in (requests, replies, output, errors):
            os.close(fd)
        os.set_blocking(self.replies, False)
        self.output = Output(printed, reported)
        self.data = b""  # of a reply

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.output.close()
        for fd in (self.requests, self.replies):
            os.close(fd)

    def status(self):
        """None while it runs; its pipes close a moment before it ends."""
        try:
            return self.process.wait(1)
        except subprocess.TimeoutExpired:
            return None

    def run(self, code, show):
        try:
            self._send(code.encode("utf-8", "replace"))
            return self._await_reply(show)
        except KeyboardInterrupt:
            return self._stop(show)

    def _send(self, text):
        try:
            data = struct.pack(">i", len(text)) + text
            while data:
                data = data[os.write(self.requests, data):]
        except BrokenPipeError:
            pass  # its end shows in the pipes

    def _stop(self, show):
        deadline = time.monotonic() + STOP_S
        while time.monotonic() < deadline:
            try:
                self._send(b"")
                return self._await_reply(show, deadline)
            except KeyboardInterrupt:
                pass  # once more
        return None

    def _await_reply(self, show, deadline=None):
        poll = select.poll()
        for fd in (*self.output.decoders, self.replies):
            poll.register(fd, select.POLLIN)
        while deadline is None or time.monotonic() < deadline:
            ready = [fd for fd, _ in poll.poll(None if deadline is None else 100)]
            # what was printed before the reply is in the pipes when the reply is
            ended = self.replies in ready and not self._read_reply()
            self.output.read(show)
            reply = self._take_reply()
            if ended or reply is not None:
                return reply
        return None

    def _read_reply(self):
        """False at the machine's end."""
        try:
            data = os.read(self.replies, READ_BYTES)
        except BlockingIOError:
            return True
        self.data += data
        return bool(data)

    def _take_reply(self):
        at, texts = 1, []
        for _ in range(self.data[0] if self.data else 0):
            if len(self.data) < at + 4:
                return None
            size = struct.unpack_from(">i", self.data, at)[0]
            if size > REPLY_MAX:
                raise ValueError("the value is too large")
            if len(self.data) < at + 4 + size:
                return None
            texts.append(self.data[at + 4:at + 4 + size].decode("utf-8", "replace"))
            at += 4 + size
        if texts:
            self.data = self.data[at:]
        return texts or None


class JavaKernel(ProcessKernel):
    implementation = "mayfly-java"
    language = "java"
    language_info = {"name": "java", "mimetype": "text/x-java-source", "file_extension": ".java"}
    banner = "Java"
    make_process = Machine

    def show(self, name, text):
        """The end of a line comes apart, as from println in E2B's kernel: clients compare the first text."""
        line = text.removesuffix("\n")
        super().show(name, line)
        super().show(name, text[len(line):])

    def do_execute(self, code, silent, store_history=True, user_expressions=None,
                   allow_stdin=False, **_):
        reply = ["ok"]
        if code.strip():
            reply = self.process.run(code, (lambda *_: None) if silent else self.show)
        if reply is None:
            return self._restart()
        if reply[0] == "error":
            return self.fail(reply[1], reply[2], reply[3].split("\n"))
        if len(reply) > 1 and not silent:
            self.send_response(self.iopub_socket, "execute_result", {
                "data": {"text/plain": reply[1]}, "metadata": {},
                "execution_count": self.execution_count})
        return self.succeed()

    def _restart(self):
        ended = self.process.status()
        self.new_process()
        why = "the cell did not stop" if ended is None else f"Java ended with status {ended}"
        return self.fail("MachineEnded", why, [f"{why}; it was started anew"])


if __name__ == "__main__":
    launch(JavaKernel)
