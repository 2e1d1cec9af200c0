"""Standard output and error of a kernel, with nothing lost.

ipykernel's own streams drop what a slow client does not take, grow without bounds, and lose what
child processes print at the very end of a cell or in bytes that are not UTF-8."""
import codecs
import os
import select
import threading

import zmq
from ipykernel.iostream import OutStream

PIECE = 1 << 18  # characters of one message, about
WAITING = 1 << 20  # characters that wait to be sent


def never_drop(iopub_thread):
    """A full PUB socket makes its thread wait instead of dropping. For connections to come."""
    iopub_thread.socket.setsockopt(zmq.XPUB_NODROP, 1)
    iopub_thread.socket.setsockopt(zmq.SNDHWM, 64)


class Stream(OutStream):
    flush_interval = 0.02

    def __init__(self, *args, **kwargs):
        self._unsent = 0
        self._pipe_lock = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        super().__init__(*args, **kwargs)

    def write(self, string):
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if not string.isascii():
            # What cannot be encoded would be lost in the sending thread.
            string = string.encode("utf-8", "replace").decode("utf-8")
        for at in range(0, len(string), PIECE):
            piece = string[at : at + PIECE]
            super().write(piece)
            self._unsent += len(piece)
            if self._unsent >= WAITING:
                self._await_sent()
        return len(string)

    def flush(self):
        if self._is_master_process() and hasattr(self, "_fid"):
            self._take_pipe()
        super().flush()

    def _await_sent(self):
        """Waits, without a time limit, until all that was written is with ZeroMQ."""
        self._unsent = 0
        thread = self.pub_thread.thread
        if (
            not thread.is_alive()
            or thread is threading.current_thread()
            or not self._is_master_process()
        ):
            return
        sent = threading.Event()
        self.pub_thread.schedule(self._flush)
        self.pub_thread.schedule(sent.set)
        sent.wait()

    # What is written to the descriptor itself, by C code and child processes, comes through a pipe.

    def _watch_pipe_fd(self):
        os.set_blocking(self._fid, False)
        poll = select.poll()
        poll.register(self._fid, select.POLLIN)
        while self._should_watch:
            poll.poll()
            self._take_pipe()

    def _take_pipe(self):
        with self._pipe_lock:
            while True:
                try:
                    data = os.read(self._fid, 1 << 16)
                except BlockingIOError:
                    return
                self.write(self._decoder.decode(data))
