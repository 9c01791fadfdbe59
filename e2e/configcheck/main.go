// Command configcheck tells what kube-scheduler makes of configuration files.
//
// For every file named on the command line it prints one line of JSON: the errors of loading, validating and
// building the scheduler, or, when there are none, the plugins of every profile at each extension point.
// "configcheck gates" prints the feature gates that kube-scheduler takes, "configcheck set VALUE" what it says of a
// value of --feature-gates.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// plugin is one entry of an extension point, in the order in which it runs.
type plugin struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"`
}

// resolved is one profile after defaulting and multiPoint expansion.
type resolved struct {
	SchedulerName string              `json:"schedulerName"`
	Plugins       map[string][]plugin `json:"plugins"`
	Args          map[string]any      `json:"args"`
}

type verdict struct {
	File     string     `json:"file"`
	Stage    string     `json:"stage,omitempty"`
	Errors   []string   `json:"errors,omitempty"`
	Profiles []resolved `json:"profiles,omitempty"`
	Config   any        `json:"config,omitempty"`
}

func messages(err error) []string {
	if aggregate, ok := err.(utilerrors.Aggregate); ok {
		var lines []string
		for _, e := range aggregate.Errors() {
			lines = append(lines, e.Error())
		}
		return lines
	}
	return []string{err.Error()}
}

func list(set schedulerconfig.PluginSet) []plugin {
	entries := []plugin{}
	for _, p := range set.Enabled {
		entries = append(entries, plugin{p.Name, p.Weight})
	}
	return entries
}

func points(p *schedulerconfig.Plugins) map[string][]plugin {
	return map[string][]plugin{
		"preEnqueue": list(p.PreEnqueue), "queueSort": list(p.QueueSort), "preFilter": list(p.PreFilter),
		"filter": list(p.Filter), "postFilter": list(p.PostFilter), "preScore": list(p.PreScore),
		"score": list(p.Score), "reserve": list(p.Reserve), "permit": list(p.Permit), "preBind": list(p.PreBind),
		"bind": list(p.Bind), "postBind": list(p.PostBind), "placementGenerate": list(p.PlacementGenerate),
		"placementScore": list(p.PlacementScore), "podGroupPostFilter": list(p.PodGroupPostFilter),
	}
}

// build makes a scheduler of the configuration against an empty cluster. A panic counts as a refusal: kube-scheduler
// would not have started either.
func build(cfg *schedulerconfig.KubeSchedulerConfiguration) (profiles []resolved, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			profiles, err = nil, fmt.Errorf("panic: %v", r)
		}
	}()
	client := fake.NewClientset()
	dynamicClient := dynamicfake.NewSimpleDynamicClient(clientscheme.Scheme)
	captured := map[string]map[string]any{}
	sched, err := scheduler.New(ctx, client,
		scheduler.NewInformerFactory(client, 0, nil),
		dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0),
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(p schedulerconfig.KubeSchedulerProfile) {
			args := map[string]any{}
			for _, c := range p.PluginConfig {
				args[c.Name] = c.Args
			}
			captured[p.SchedulerName] = args
		}))
	if err != nil {
		return nil, err
	}
	for _, p := range cfg.Profiles {
		profiles = append(profiles, resolved{
			SchedulerName: p.SchedulerName,
			Plugins:       points(sched.Profiles[p.SchedulerName].ListPlugins()),
			Args:          captured[p.SchedulerName],
		})
	}
	return profiles, nil
}

func check(file string) verdict {
	cfg, err := options.LoadConfigFromFile(klog.Background(), file)
	if err != nil {
		return verdict{File: file, Stage: "load", Errors: messages(err)}
	}
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return verdict{File: file, Stage: "validate", Errors: messages(err)}
	}
	settings := *cfg
	profiles, err := build(cfg)
	if err != nil {
		return verdict{File: file, Stage: "build", Errors: messages(err)}
	}
	settings.Profiles = nil
	return verdict{File: file, Profiles: profiles, Config: settings}
}

// gate is one feature gate as kube-scheduler knows it.
type gate struct {
	Name    string   `json:"name"`
	Stage   string   `json:"stage"`
	Default bool     `json:"default"`
	Locked  bool     `json:"locked"`
	Needs   []string `json:"needs,omitempty"`
}

func gates() []gate {
	var found []gate
	needs := utilfeature.DefaultMutableFeatureGate.Dependencies()
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		one := gate{Name: string(name), Stage: string(spec.PreRelease), Default: spec.Default, Locked: spec.LockToDefault}
		for _, needed := range needs[name] {
			one.Needs = append(one.Needs, string(needed))
		}
		slices.Sort(one.Needs)
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b gate) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// set says what is wrong with a value of --feature-gates, or which gates it leaves on.
func set(value string) verdict {
	flags := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	err := flags.Set(value)
	if err == nil {
		err = utilerrors.NewAggregate(flags.Validate())
	}
	if err != nil {
		return verdict{Errors: messages(err)}
	}
	on := []string{}
	for name := range flags.GetAll() {
		if flags.Enabled(name) {
			on = append(on, string(name))
		}
	}
	slices.Sort(on)
	return verdict{Config: on}
}

func main() {
	klog.SetOutput(os.Stderr)
	out := json.NewEncoder(os.Stdout)
	if len(os.Args) > 1 && os.Args[1] == "gates" {
		_ = out.Encode(gates())
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "set" {
		for _, value := range os.Args[2:] {
			_ = out.Encode(set(value))
		}
		return
	}
	for _, file := range os.Args[1:] {
		if err := out.Encode(check(file)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
