"""What this machine is, and how it is placed just now."""
import os
import pathlib
import platform
import re
import subprocess
import time

ISA_TITLES = {"avx512vnni": "AVX-512 VNNI", "avx2": "AVX2", "reference": "no vectors"}


def instruction_set(cpuinfo, environment):
    """The kernels that ropeway chooses: those of ROPEWAY_ISA, else by the CPU's flags."""
    if environment.get("ROPEWAY_ISA"):
        return environment["ROPEWAY_ISA"]
    flags = re.search(r"flags\s*:\s*(.*)", cpuinfo).group(1).split()
    return "avx512vnni" if "avx512_vnni" in flags else "avx2" if "avx2" in flags else "reference"


def describe():
    """{machine, isa}: a sentence on the CPU, and ropeway's instruction set."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"model name\s*:\s*(.*)", cpuinfo).group(1)
    own = instruction_set(cpuinfo, {})
    isa = instruction_set(cpuinfo, os.environ)
    text = f"{model}, {os.cpu_count()} CPUs, {ISA_TITLES[own]}, Linux {platform.release()}"
    if isa != own:
        text += f"; ropeway restricted to {isa}, the others not"
    return {"machine": text, "isa": isa}


def busy_seconds():
    """CPU seconds of all processes since the start of the machine."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n", maxsplit=1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """CPU seconds of this process and of all its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Others:
    """How much of the machine other processes (and the host: stolen time) took, from the making of
    this object on."""

    def __init__(self):
        self.begin = time.monotonic(), busy_seconds(), own_seconds()

    def share(self):
        """Of all CPUs, at least 0. REQUIRES: the children that worked have ended."""
        seconds, busy, own = (now - then for now, then in zip(
            (time.monotonic(), busy_seconds(), own_seconds()), self.begin))
        return max(0.0, busy - own) / (seconds * os.cpu_count())


def barrier_ns(step_bench, threads):
    """The machine's barrier time just now: host placements differ, and so do all figures."""
    reply = subprocess.run([step_bench, "steps", "--barrier", "--threads", str(threads)],
                           capture_output=True, text=True, check=True)
    return round(float(reply.stdout.split()[0]))


def version_of(*words):
    """The first line of a program's --version that names one (llama-server prints others before)."""
    reply = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False)
    lines = (reply.stdout + reply.stderr).splitlines()
    return next((line for line in lines if re.search(r"\d", line) and "version" in line),
                lines[0] if lines else "unknown version")


def command_text(command):
    """Without the folders, which are of one machine only."""
    return " ".join(pathlib.Path(w).name if w.startswith("/") or "build/" in w else w
                    for w in command)
