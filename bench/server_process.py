"""A server that a benchmark starts and asks."""
import time
import urllib.request


def llama_command(program, model, threads, port):
    """llama-server with 16 slots of 1,024 tokens."""
    return [program, "-m", model, "-np", "16", "-c", "16384", "-t", str(threads), "--port", str(port)]


def wait_healthy(process, port, seconds=120):
    """Returns when the server says that it is healthy. RuntimeError where it ends, or takes longer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode} before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
                if reply.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the server was not ready in time")
