"""What this machine is, and how it is placed just now."""
import os
import pathlib
import platform
import re
import subprocess

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


def barrier_ns(step_bench, threads):
    """The machine's barrier time just now: host placements differ, and so do all measurements."""
    reply = subprocess.run([step_bench, "steps", "--barrier", "--threads", str(threads)],
                           capture_output=True, text=True, check=True)
    return round(float(reply.stdout.split()[0]))
