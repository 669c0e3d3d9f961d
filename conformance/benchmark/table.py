"""The table of the benchmark: table.py WORK TIMING

Reads what was measured in WORK, and the lab's table of durations in TIMING."""

import json
import re
import sys
from datetime import datetime

work, timing = sys.argv[1:]


def read(name):
    with open(f"{work}/{name}") as file:
        return json.load(file)


def calls(name):
    before, after = read(f"{name}.before")["calls"], read(f"{name}.after")["calls"]
    return {service: count - before.get(service, 0) for service, count in after.items()}


def chain():
    """The lower bound: Proxmox' tasks for the slowest control plane as long as they really took, then boot, etcd,
    its members one after the other, and the last API server."""
    with open(timing) as file:
        table = {name: int(ms.replace("_", "")) / 1000 for name, ms in re.findall(r"const (\w+): Duration = ms\(([\d_]+)\)", file.read())}
    tasks = read("lab-ours/world.json")["hypervisor"]["tasks"].values()

    def took(task):
        began, ended = (datetime.fromisoformat(task[key].replace("Z", "+00:00")) for key in ("started", "ended"))
        return (ended - began).total_seconds()

    download = max(took(task) for task in tasks if task["kind"] == "download")
    machine = max(sum(took(task) for task in tasks if task["id"] == vmid) for vmid in ("800", "801", "802"))
    once = ("BOOT", "MAINTENANCE_LINGERS", "SWITCH", "CRI", "ETCD_DATA", "ETCD_HEALTHY", "ETCD_PROMOTED_HEALTHY", "API_SERVER")
    joins = 2 * (table["ETCD_JOIN"] + table["ETCD_LEARNER"])
    return download + machine + sum(table[name] for name in once) + joins


print("| | wall clock | processor | memory | calls: Proxmox, factory, Talos, Kubernetes |")
print("| --- | --: | --: | --: | --: |")
for what, title in (("up", "cluster from nothing"), ("plan", "nothing to do")):
    for name, who in (("today", "OpenTofu and talosctl"), ("ours", "talosmith")):
        figures, made = read(f"{name}-{what}.json"), calls(f"{name}-{what}")
        counts = ", ".join(str(made.get(service, 0)) for service in ("proxmox", "factory", "talos", "kubernetes"))
        print(f"| {title}: {who} | {figures['wall']:.2f} s | {figures['cpu']:.2f} s | {figures['memory']:.0f} MiB | {counts} |")
ours, longest = read("ours-up.json")["wall"], chain()
print(f"\nOur cluster took {ours:.1f} s; the longest chain of the lab's own durations is {longest:.1f} s: {ours / longest:.2f} times.")
ratio = read("today-plan.json")["wall"] / read("ours-plan.json")["wall"]
print(f"Nothing to do: {ratio:.1f} times less time than OpenTofu and talosctl.")
