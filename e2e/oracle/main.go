// Command oracle says what kube-scheduler decides about a cluster that is given as a file.
//
// It builds the scheduler of k8s.io/kubernetes with informers that hold the objects of the file, runs
// its scheduling cycle for each pending Pod, and prints what happened as JSON. Nothing is bound, nobody
// is evicted.
//
//	oracle explain  -f cluster.yaml [--config scheduler.yaml] [--pod namespace/name]
//	oracle simulate -f cluster.yaml [--config scheduler.yaml]
//	oracle validate -f cluster.yaml           what the API server would object to
//	oracle serve    < requests > answers      one JSON document a line, both ways
//
// Exit codes: 0, or 2 where the input makes no sense.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"k8s.io/klog/v2"
)

// request is one question; on the command line it comes from flags, in serve from a line of stdin.
type request struct {
	Mode    string `json:"mode"`
	Cluster string `json:"cluster"`
	Config  string `json:"config,omitempty"`
	Pod     string `json:"pod,omitempty"`
	Gates   string `json:"gates,omitempty"`
}

// answer is what serve prints for one request: a result with notes on what was left out, or an error.
type answer struct {
	Result any      `json:"result,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Error  string   `json:"error,omitempty"`
}

func main() {
	silenceLog()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
}

// silenceLog drops what the scheduler logs: the answer says all that matters.
func silenceLog() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
	klog.SetOutput(io.Discard)
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: oracle explain|simulate|validate|serve")
	}
	if args[0] == "serve" {
		return serve(os.Stdin, os.Stdout)
	}
	asked := request{Mode: args[0]}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&asked.Cluster, "f", "", "cluster file: YAML documents or a JSON list")
	flags.StringVar(&asked.Config, "config", "", "KubeSchedulerConfiguration file")
	flags.StringVar(&asked.Pod, "pod", "", "namespace/name of the only Pod to explain")
	flags.StringVar(&asked.Gates, "gates", "", "feature gates to switch on: GenericWorkload,TopologyAwareWorkloadScheduling,CompositePodGroup")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	result, notes, err := respond(asked)
	for _, note := range notes {
		fmt.Fprintln(os.Stderr, "note:", note)
	}
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(result)
}

func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		if err := encoder.Encode(respondToLine(lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// respondToLine turns a panic of the framework into an error, so that the next request is still answered.
func respondToLine(line []byte) (reply answer) {
	defer func() {
		if cause := recover(); cause != nil {
			reply = answer{Error: fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
		}
	}()
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	result, notes, err := respond(asked)
	if err != nil {
		return answer{Notes: notes, Error: err.Error()}
	}
	return answer{Result: result, Notes: notes}
}

func respond(asked request) (any, []string, error) {
	if err := setGates(strings.Split(asked.Gates, ",")); err != nil {
		return nil, nil, err
	}
	state, err := loadCluster(asked.Cluster)
	if err != nil {
		return nil, nil, err
	}
	state.takeOffItsNode(asked.Pod)
	config, err := loadConfig(asked.Config)
	if err != nil {
		return nil, state.notes, err
	}
	if asked.Config == "" {
		state.adoptPendingPods()
	}
	state.admit()
	if asked.Mode == "validate" {
		complaints, err := state.validate()
		return complaints, state.notes, err
	}
	trial, err := newTrial(state, config)
	if err != nil {
		return nil, state.notes, err
	}
	defer trial.close()
	switch asked.Mode {
	case "explain":
		result, err := trial.explain(asked.Pod)
		return result, state.notes, err
	case "simulate":
		result, err := trial.simulate()
		return result, state.notes, err
	}
	return nil, state.notes, fmt.Errorf("unknown mode %q", asked.Mode)
}
