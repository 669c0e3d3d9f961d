// A thousand machine configurations with Talos' own library, in a loop in one process: the same work as crates/talos/benches/config.rs.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configpatcher"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
)

const nodes = 1000

func cpuSeconds() float64 {
	var usage syscall.Rusage

	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}

	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func peak() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}

	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(strings.TrimSuffix(rest, " kB"))
		}
	}

	return "0"
}

func one(bundle *secrets.Bundle, contract *config.VersionContract, number int) int {
	input, err := generate.NewInput("home", "https://10.25.150.10:6443", "1.35.4",
		generate.WithVersionContract(contract),
		generate.WithSecretsBundle(bundle),
		generate.WithInstallDisk("/dev/sda"),
	)
	if err != nil {
		panic(err)
	}

	kind := machine.TypeControlPlane
	if number%2 == 1 {
		kind = machine.TypeWorker
	}

	cfg, err := input.Config(kind)
	if err != nil {
		panic(err)
	}

	patch, err := configpatcher.LoadPatch([]byte(fmt.Sprintf(
		"apiVersion: v1alpha1\nkind: HostnameConfig\nauto: off\nhostname: node-%d\n---\nmachine: {sysctls: {a.b: '1'}, certSANs: [c.example]}\n", number)))
	if err != nil {
		panic(err)
	}

	patched, err := configpatcher.Apply(configpatcher.WithConfig(cfg), []configpatcher.Patch{patch})
	if err != nil {
		panic(err)
	}

	result, err := patched.Config()
	if err != nil {
		panic(err)
	}

	text, err := result.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
	if err != nil {
		panic(err)
	}

	return len(text)
}

func main() {
	contract, err := config.ParseContractFromVersion("v1.13")
	if err != nil {
		panic(err)
	}

	bundle, err := secrets.NewBundle(secrets.NewClock(), contract)
	if err != nil {
		panic(err)
	}

	before := cpuSeconds()
	bytes := 0

	for number := range nodes {
		bytes += one(bundle, contract, number)
	}

	fmt.Printf("{\"configurations\":%d,\"cpu_seconds\":%.3f,\"peak_kib\":%s,\"bytes\":%d}\n", nodes, cpuSeconds()-before, peak(), bytes)
}
