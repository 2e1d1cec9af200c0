"""What bench/load measures the daemon beside: nginx, and a container of runc with this machine's
programs. Both end with their `with` block; what they need lies in a directory of the caller's."""
import json
import os
import shutil
import subprocess
import time

from served import ask, eventually

NGINX = """
daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log {dir}/nginx.log;
events {{}}
http {{
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000;
	client_max_body_size 0;
	client_body_temp_path {dir}/body;
	proxy_temp_path {dir}/unused;
	fastcgi_temp_path {dir}/unused;
	uwsgi_temp_path {dir}/unused;
	scgi_temp_path {dir}/unused;
	server {{
		listen 127.0.0.1:{port};
		root {dir}/files;
		dav_methods PUT;
	}}
}}
"""


class Nginx:
    """One worker, serving and taking files in `DIR/files`, which `path()` names."""

    def __init__(self, directory, port):
        self.dir, self.port, self.process = os.path.join(directory, "nginx"), port, None
        os.makedirs(os.path.join(self.dir, "files"))
        os.chmod(directory, 0o755)  # its worker is another user
        for name in ("files", "."):
            os.chmod(os.path.join(self.dir, name), 0o777)

    def path(self, name):
        return os.path.join(self.dir, "files", name)

    def __enter__(self):
        config = os.path.join(self.dir, "nginx.conf")
        with open(config, "w") as f:
            f.write(NGINX.format(dir=self.dir, port=self.port))
        with open(self.path("small"), "w") as f:
            f.write("x" * 100 + "\n")
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        if not os.access(program, os.X_OK):
            raise RuntimeError("nginx is missing: tools/setup bench")
        self.process = subprocess.Popen([program, "-c", config], stderr=subprocess.DEVNULL)
        if not eventually(self.serves, 10):
            raise RuntimeError("nginx does not start: " + self.log())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)

    def serves(self):
        try:
            return ask(self.port, "GET", "/small", raw=True)[0] == 200
        except OSError:
            time.sleep(0.05)
            return False

    def log(self):
        try:
            with open(os.path.join(self.dir, "nginx.log")) as f:
                return f.read()[-500:]
        except OSError:
            return "no log"

    def worker(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            return int(f.read().split()[0])


class Container:
    """Idle, with this machine's /usr and /etc, no network and no limits."""

    def __init__(self, directory):
        self.dir, self.name = os.path.join(directory, "container"), f"bench-{os.getpid()}"
        self.state = os.path.join(self.dir, "state")
        self.log = os.path.join(self.dir, "log")

    def runc(self, *args):
        return ["/usr/sbin/runc", "--root", self.state, *args]

    def bundle(self):
        root = os.path.join(self.dir, "rootfs")
        for name in ("usr", "etc", "proc", "dev", "tmp"):
            os.makedirs(os.path.join(root, name))
        for name in ("bin", "lib", "lib64"):
            os.symlink("usr/" + name, os.path.join(root, name))
        subprocess.run(self.runc("spec"), cwd=self.dir, check=True)
        path = os.path.join(self.dir, "config.json")
        with open(path) as f:
            config = json.load(f)
        config["process"].update(terminal=False, args=["sleep", "1000"])
        config["mounts"] += [
            {"destination": "/" + name, "type": "bind", "source": "/" + name,
             "options": ["rbind", "ro"]} for name in ("usr", "etc")]
        with open(path, "w") as f:
            json.dump(config, f)

    def start(self):
        """Why not, or None."""
        if not os.access("/usr/sbin/runc", os.X_OK):
            return "runc is not installed"
        self.bundle()
        with open(self.log, "w") as log:
            done = subprocess.run(self.runc("run", "--detach", self.name), cwd=self.dir,
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60)
        if done.returncode == 0:
            return None
        with open(self.log) as f:
            return "runc cannot run here: " + f.read().strip()[-200:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if os.path.exists(self.state):
            subprocess.run(self.runc("delete", "--force", self.name), timeout=60,
                           stderr=subprocess.DEVNULL)

    def exec(self, *command):
        """Runs it inside and waits."""
        args = self.runc("exec", self.name, *command)
        pid = os.posix_spawn(args[0], args, os.environ)
        assert os.waitpid(pid, 0)[1] == 0, command
