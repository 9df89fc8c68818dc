"""Child processes that cannot outlive the test that started them."""
import subprocess


def start(command, **options):
    """subprocess.Popen of `command`, which the kernel kills when the thread that calls this ends, so also when
    the test itself is killed. Call it from the main thread."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], **options)
