// The oracle answers, with Talos' own library, what Talos would do with a machine configuration.
//
// It reads one JSON request a line on stdin and writes one JSON answer a line on stdout, so that a thousand questions cost one
// start. A question that makes the library panic is answered as an error: that is what a user of the library sees, too.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/configpatcher"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

type request struct {
	Op     string   `json:"op"`
	Config string   `json:"config"`
	Patch  string   `json:"patch"`
	Mode   string   `json:"mode"`
	Kinds  []string `json:"kinds"`
	Texts  []string `json:"texts"`
	Input  input    `json:"input"`
}

// input holds the options of the generator, as strings and numbers.
type input struct {
	Contract        string              `json:"contract"`
	ControlPlane    bool                `json:"controlPlane"`
	Cluster         string              `json:"cluster"`
	Endpoint        string              `json:"endpoint"`
	Kubernetes      string              `json:"kubernetes"`
	Secrets         string              `json:"secrets"`
	InstallDisk     string              `json:"installDisk"`
	InstallImage    string              `json:"installImage"`
	KernelArgs      []string            `json:"kernelArgs"`
	SANs            []string            `json:"sans"`
	DNSDomain       string              `json:"dnsDomain"`
	Mirrors         map[string][]string `json:"mirrors"`
	Sysctls         map[string]string   `json:"sysctls"`
	NoDiscovery     bool                `json:"noDiscovery"`
	AllowScheduling bool                `json:"allowScheduling"`
	LocalAPIPort    int                 `json:"localAPIPort"`
	CustomCNI       string              `json:"customCNI"`
}

type answer struct {
	Error  string `json:"error,omitempty"`
	Config string `json:"config,omitempty"`
	Schema any    `json:"schema,omitempty"`
}

type mode struct{ name string }

func (m mode) String() string        { return m.name }
func (m mode) RequiresInstall() bool { return m.name == "metal" }
func (m mode) InContainer() bool     { return m.name == "container" }

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()

	for lines.Scan() {
		var req request

		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			fmt.Fprintln(os.Stderr, "unreadable request:", err)
			os.Exit(1)
		}

		text, err := json.Marshal(handle(req))
		if err != nil {
			fmt.Fprintln(os.Stderr, "unwritable answer:", err)
			os.Exit(1)
		}

		out.Write(append(text, '\n'))
		out.Flush()
	}
}

func handle(req request) (result answer) {
	defer func() {
		if p := recover(); p != nil {
			result = answer{Error: fmt.Sprintf("panic: %v", p)}
		}
	}()

	var (
		text string
		err  error
	)

	switch req.Op {
	case "generate":
		text, err = generated(req.Input)
	case "normal":
		text, err = normal(req.Config)
	case "validate":
		err = validate(req.Config, mode{req.Mode})
	case "patch":
		text, err = patched(req.Config, req.Patch)
	case "bundle":
		text, err = bundle(req.Config)
	case "new-bundle":
		text, err = newBundle(req.Input.Contract)
	case "texts":
		text, err = written(req.Texts)
	case "schema":
		return answer{Schema: schema(req.Kinds)}
	default:
		err = fmt.Errorf("unknown operation %q", req.Op)
	}

	if err != nil {
		return answer{Error: err.Error()}
	}

	return answer{Config: text}
}

func encoded(cfg config.Provider) (string, error) {
	text, err := cfg.EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))

	return string(text), err
}

// normal reads strictly and writes again, so that two texts that mean the same become equal.
func normal(text string) (string, error) {
	cfg, err := configloader.NewFromBytes([]byte(text))
	if err != nil {
		return "", err
	}

	return encoded(cfg.Clone())
}

func validate(text string, in mode) error {
	cfg, err := configloader.NewFromBytes([]byte(text))
	if err != nil {
		return err
	}

	_, err = cfg.Validate(in)

	return err
}

func patched(text, patch string) (string, error) {
	cfg, err := configloader.NewFromBytes([]byte(text))
	if err != nil {
		return "", fmt.Errorf("the configuration itself: %w", err)
	}

	loaded, err := configpatcher.LoadPatch([]byte(patch))
	if err != nil {
		return "", err
	}

	result, err := configpatcher.Apply(configpatcher.WithConfig(cfg), []configpatcher.Patch{loaded})
	if err != nil {
		return "", err
	}

	bytes, err := result.Bytes()
	if err != nil {
		return "", err
	}

	return normal(string(bytes))
}

func contract(text string) (*config.VersionContract, error) {
	return config.ParseContractFromVersion(text)
}

func readBundle(text string) (*secrets.Bundle, error) {
	file, err := os.CreateTemp("", "bundle")
	if err != nil {
		return nil, err
	}

	defer os.Remove(file.Name())

	if _, err = file.WriteString(text); err != nil {
		return nil, err
	}

	if err = file.Close(); err != nil {
		return nil, err
	}

	return secrets.LoadBundle(file.Name())
}

func bundle(text string) (string, error) {
	loaded, err := readBundle(text)
	if err != nil {
		return "", err
	}

	out, err := encoder.NewEncoder(loaded, encoder.WithComments(encoder.CommentsDisabled)).Encode()

	return string(out), err
}

// written shows how Go's YAML writer writes texts, which decides the ids of schematics.
func written(texts []string) (string, error) {
	out, err := encoder.NewEncoder(texts, encoder.WithComments(encoder.CommentsDisabled)).Encode()

	return string(out), err
}

func newBundle(version string) (string, error) {
	parsed, err := contract(version)
	if err != nil {
		return "", err
	}

	made, err := secrets.NewBundle(secrets.NewClock(), parsed)
	if err != nil {
		return "", err
	}

	out, err := encoder.NewEncoder(made, encoder.WithComments(encoder.CommentsDisabled)).Encode()

	return string(out), err
}

func generated(in input) (string, error) {
	parsed, err := contract(in.Contract)
	if err != nil {
		return "", err
	}

	loaded, err := readBundle(in.Secrets)
	if err != nil {
		return "", err
	}

	loaded.Clock = secrets.NewClock()

	options := []generate.Option{
		generate.WithVersionContract(parsed),
		generate.WithSecretsBundle(loaded),
		generate.WithInstallDisk(in.InstallDisk),
		generate.WithInstallImage(in.InstallImage),
		generate.WithInstallExtraKernelArgs(in.KernelArgs),
		generate.WithAdditionalSubjectAltNames(in.SANs),
		generate.WithSysctls(in.Sysctls),
		generate.WithClusterDiscovery(!in.NoDiscovery),
		generate.WithAllowSchedulingOnControlPlanes(in.AllowScheduling),
		generate.WithLocalAPIServerPort(in.LocalAPIPort),
	}

	if in.DNSDomain != "" {
		options = append(options, generate.WithDNSDomain(in.DNSDomain))
	}

	if in.CustomCNI != "" {
		options = append(options, customCNI(in.CustomCNI))
	}

	for host, endpoints := range in.Mirrors {
		options = append(options, generate.WithRegistryMirror(host, endpoints...))
	}

	made, err := generate.NewInput(in.Cluster, in.Endpoint, in.Kubernetes, options...)
	if err != nil {
		return "", err
	}

	kind := machine.TypeWorker
	if in.ControlPlane {
		kind = machine.TypeControlPlane
	}

	cfg, err := made.Config(kind)
	if err != nil {
		return "", err
	}

	return encoded(cfg)
}

// customCNI sets the manifest of a network plugin. The library renamed the option in 1.14, so it is found by name.
func customCNI(url string) generate.Option {
	return func(options *generate.Options) error {
		fields := reflect.ValueOf(options).Elem()

		if field := fields.FieldByName("CNICustomURL"); field.IsValid() {
			field.SetString(url)

			return nil
		}

		cni := &v1alpha1.CNIConfig{CNIName: "custom", CNIUrls: []string{url}}
		fields.FieldByName("CNIConfig").Set(reflect.ValueOf(cni))

		return nil
	}
}
