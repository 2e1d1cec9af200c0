"""A Jupyter kernel for Bash: launch.py -f CONNECTION_FILE.

One interactive bash keeps the state. Its standard output and error are pipes of ours, and a third
one tells when a cell is over and with which status. Each cell is a file that bash sources, so that
a syntax error, an `exit` or an interrupt ends that cell and not the reading of the next.

Interactive, because only then does an interrupt end the whole cell and not just the command it
runs; without job control, so that commands are in bash's process group and get the interrupt."""
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path[0] = ""
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../shared"))

from mayfly_process import Output, ProcessKernel, launch  # noqa: E402

INTERRUPT_S = 5  # after which a bash that does not come back is given up
STATUS_FD = 250  # in bash: none that scripts use


def default_interrupt():
    """ipykernel ignores interrupts between cells, and what is ignored is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Shell:
    """The process: run() gives output as it comes and returns the status, or None at its end."""

    def __init__(self):
        self.number = 0  # of the cell
        # beside the connection file: the interpreter removes what is there, also after a SIGKILL
        self.directory = tempfile.mkdtemp(
            prefix="bash-", dir=os.path.dirname(sys.argv[sys.argv.index("-f") + 1]))
        printed, output = os.pipe()
        reported, errors = os.pipe()
        self.statuses, statuses = os.pipe()
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f"exec {STATUS_FD}>&{statuses} {statuses}>&-; "
             "exec bash --norc --noprofile --noediting +m -i"],
            stdin=subprocess.PIPE, stdout=output, stderr=errors, pass_fds=[statuses],
            start_new_session=True, preexec_fn=default_interrupt, env={**os.environ, "PS1": "", "PS2": ""},
        )
        for fd in (output, errors, statuses):
            os.close(fd)
        os.set_blocking(self.statuses, False)
        self.output = Output(printed, reported)
        self.run("unset HISTFILE; set +o history; PS1= PS2= PROMPT_COMMAND=", lambda *_: None)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.stdin.close()
        self.process.wait()
        self.output.close()
        os.close(self.statuses)
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, code, show):
        path = os.path.join(self.directory, "cell")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(code + "\n")
        self.number += 1
        try:
            self._send(f". {path} </dev/null")  # there is no input
            return self._await_status(show)
        except KeyboardInterrupt:
            return self._interrupt(show)

    def _send(self, command):
        """The command, and the line that tells the number of the cell and how it ended."""
        try:
            self.process.stdin.write(
                f"{command}; builtin echo {self.number} $? >&{STATUS_FD}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its end shows in the pipes

    def _interrupt(self, show):
        """The line that was read is thrown away with the cell: asks anew for a status."""
        deadline = time.monotonic() + INTERRUPT_S
        while time.monotonic() < deadline:
            try:
                os.killpg(self.process.pid, signal.SIGINT)
                time.sleep(0.02)
                self._send("(exit 130)")
                return self._await_status(show, deadline)
            except KeyboardInterrupt:
                pass  # once more
        return None

    def _await_status(self, show, deadline=None):
        poll = select.poll()
        for fd in (*self.output.decoders, self.statuses):
            poll.register(fd, select.POLLIN)
        while deadline is None or time.monotonic() < deadline:
            ready = [fd for fd, _ in poll.poll(None if deadline is None else 100)]
            # what was printed before the status is in the pipes when the status is
            ended, status = self._read_status() if self.statuses in ready else (False, None)
            self.output.read(show)
            if ended or status is not None:
                return status
        return None

    def _read_status(self):
        """(bash is gone, status of this cell or None)"""
        try:
            data = os.read(self.statuses, 4096).decode()
        except BlockingIOError:
            return False, None
        for line in data.splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == str(self.number) and words[1].isdigit():
                return False, int(words[1])
        return not data, None


class BashKernel(ProcessKernel):
    implementation = "mayfly-bash"
    language = "bash"
    language_info = {"name": "bash", "mimetype": "text/x-sh", "file_extension": ".sh"}
    banner = "Bash"
    make_process = Shell

    def do_execute(self, code, silent, store_history=True, user_expressions=None,
                   allow_stdin=False, **_):
        status = self.process.run(code, (lambda *_: None) if silent else self.show)
        if status is None:
            return self._restart(silent)
        if status and not silent:
            return self.fail("ExitStatus", str(status), [f"exit status {status}"])
        return self.succeed()

    def _restart(self, silent):
        ended = self.process.process.poll()
        self.new_process()
        if ended == 0 or silent:
            return self.succeed()
        why = f"bash ended with status {ended}" if ended is not None else "bash did not stop"
        return self.fail("ShellEnded", str(ended), [f"{why}; it was started anew"])


if __name__ == "__main__":
    launch(BashKernel)
