#!/usr/bin/env python3
"""Stored answers before a gateway: `ropeway gateway --state-path` owns them, and two `ropeway serve` behind it compute
them. A server, the gateway, and all are killed by SIGKILL in turns, while clients do all that stored_test.py does; then a second
gateway, without that store, knows none of the answers. Last, a gateway's only server is killed while an answer runs on it.

usage: stored_gateway_test.py --ropeway PROGRAM --model TINY.gguf [--least N] [--seed N]
"""
import itertools
import pathlib
import sys
import time

from gateway_server import Gateway, backend
from ropeway_server import RopewayServer, eventually
from stored_client import ENDED, call, path_of, plain, status_of
from stored_jobs import Wrong, check_all, difference, jobs_of, never_killed, refused_with, run
from stored_test import ADMIN_KEY, KEY, SERVE, Killer, check_strangers, keys_file

GATEWAYS_KEY = "key-of-the-gateway-0123"


class Replica(RopewayServer):
    key = GATEWAYS_KEY
    failure = Wrong


class Before(Gateway):
    key, admin_key = KEY, ADMIN_KEY
    failure = Wrong

    def call(self, method, path, body=None, key=KEY):
        return call(self.port, method, path, body, key)


class Fleet:
    """A gateway and servers behind it, which keep their ports: where one dies, its answers go on in another."""

    def __init__(self, args, folder, name, replicas=2):
        self.args, self.folder, self.name = args, pathlib.Path(folder), name
        keys = self.folder / "gateway.toml"
        keys.write_text(f'[[keys]]\nname = "gateway"\nkey = "{GATEWAYS_KEY}"\ngateway = true\n', encoding="utf-8")
        keys.chmod(0o600)
        self.flags = (*SERVE, "--api-keys", keys)
        self.replicas = [self.new_replica(0) for _ in range(replicas)]
        self.gateway = self.new_gateway(name)

    def new_replica(self, port):
        return Replica(self.args.ropeway, self.args.model, *self.flags, port=port)

    def new_gateway(self, name):
        words = [word for i, one in enumerate(self.replicas) for word in backend(
            f"http://127.0.0.1:{one.port}", kind="ropeway", model="ours", upstream="default", name=f"replica-{i}",
            key_env="REPLICA_KEY")]
        return Before(self.args.ropeway, *words, "--state-path", self.folder / name, "--api-keys", keys_file(self.folder),
                      "--admin-key", ADMIN_KEY, "--max-wait", "1h", environment={"REPLICA_KEY": GATEWAYS_KEY})

    def again(self):
        """Starts what was killed."""
        self.replicas = [one if one.process.returncode is None else self.new_replica(one.port) for one in self.replicas]
        if self.gateway.process.returncode is not None:
            self.gateway = self.new_gateway(self.name)
        return self.gateway

    def kill(self, gateway=True, replicas=2):
        """The gateway first: it has no time to see that all its servers have gone."""
        for one in [self.gateway] * gateway + self.replicas[:replicas]:
            one.process.kill()
            one.process.wait()


def check_lone_server(args, folder):
    """An answer whose gateway has one server alone waits for it while it is away, and ends with the text that it would have been:
    that of its seed, which was drawn."""
    fleet = Fleet(args, folder, "a lone server", replicas=1)
    body = {"input": "Where does the cable car go?", "temperature": 0.8, "max_output_tokens": 1500, "ignore_eos": True,
            "background": True}
    ended = {}

    def ask(more):
        return fleet.gateway.call("POST", "/v1/responses", body | more)["id"]

    def wait_for(identifier, states):
        def holds():
            ended[identifier] = fleet.gateway.call("GET", path_of(identifier))
            return status_of(ended[identifier]) in states
        eventually(holds, f"{identifier} is one of {states}")
        return ended[identifier]

    disturbed = ask({})
    wait_for(disturbed, ("in_progress",))
    fleet.kill(gateway=False)
    time.sleep(0.3)
    state = status_of(fleet.gateway.call("GET", path_of(disturbed)))
    if state in ENDED:
        raise Wrong(f"an answer that has lost its only server is {state}")
    fleet.again()
    answer = wait_for(disturbed, ENDED)
    seed = answer["ropeway"]["seed"]
    undisturbed, other = (wait_for(ask({"seed": given}), ENDED) for given in (seed, seed + 1))
    if plain(other["output"]) == plain(undisturbed["output"]):
        raise Wrong("another seed gives the same text, which shows nothing")
    if status_of(answer) != "incomplete" or plain(answer["output"]) != plain(undisturbed["output"]):
        raise Wrong(f"an answer that has lost its only server is {status_of(answer)}: "
                    f"{difference(plain(answer['output']), plain(undisturbed['output']))}")
    fleet.kill()


def test(args, folder):
    jobs = jobs_of(args.seed)
    undisturbed = Fleet(args, folder, "undisturbed")
    wanted = never_killed(undisturbed.gateway.port, jobs, KEY)
    undisturbed.kill()
    fleet = Fleet(args, folder, "killed")
    # Before a gateway hardly anything is queued for long enough to be seen, and what says that a time is over is a matter of
    # timing: the gateway or a server.
    killer = Killer(args, fleet.again, jobs, wanted, ("in_progress", "completed", "incomplete", "cancelled"))
    killer.clients.retries = True
    turns = itertools.cycle((("a server", {"gateway": False, "replicas": 1}), ("the gateway", {"replicas": 0}), ("all", {})))

    def kill(_):
        what, fields = next(turns)
        print(f"killed: {what}", flush=True)
        fleet.kill(**fields)

    gateway = killer.run(kill, at_least=3)
    check_all(gateway.port, killer.clients, ADMIN_KEY)
    check_strangers(gateway, killer.clients)
    second = fleet.new_gateway("second")
    for identifier in sorted(killer.clients.accepted)[:20]:
        refused_with(404, second.call, "GET", path_of(identifier))
    second.process.kill()
    fleet.kill()
    check_lone_server(args, folder)


if __name__ == "__main__":
    sys.exit(run(test, least=1))
