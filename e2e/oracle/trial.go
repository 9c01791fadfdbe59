package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
)

// trial is a scheduler over one cluster. It has never been started: its cache and queue were filled by
// its own event handlers, and cycles are run by hand.
type trial struct {
	ctx       context.Context
	close     context.CancelFunc
	cluster   *cluster
	client    *fake.Clientset
	scheduler *scheduler.Scheduler
	snapshot  *internalcache.Snapshot
	dryRuns   map[string]*dryRun
}

// loadConfig reads a configuration as kube-scheduler's --config does; without a path, the defaults.
func loadConfig(path string) (*config.KubeSchedulerConfiguration, error) {
	if path == "" {
		return latest.Default()
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoded, gvk, err := configscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	loaded, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: not a KubeSchedulerConfiguration but a %s", path, gvk)
	}
	loaded.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(loaded); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return loaded, nil
}

func newTrial(c *cluster, loaded *config.KubeSchedulerConfiguration) (*trial, error) {
	if len(loaded.Extenders) > 0 {
		c.note("the extenders of the configuration are left out")
	}
	for i := range loaded.Profiles {
		loaded.Profiles[i].PercentageOfNodesToScore = nil
	}
	t, err := buildTrial(c, loaded)
	if err != nil {
		return nil, err
	}
	if revealPreemption(t.scheduler, loaded) {
		t.close()
		return buildTrial(c, loaded)
	}
	return t, nil
}

func buildTrial(c *cluster, loaded *config.KubeSchedulerConfiguration) (*trial, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	client := fake.NewClientset()
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, apiruntime.Object, error) { return true, nil, nil })
	live := *c
	live.objects = map[string][]object{}
	for name, objects := range c.objects {
		live.objects[name] = slices.DeleteFunc(slices.Clone(objects), func(obj object) bool {
			pod, isPod := obj.(*v1.Pod)
			return isPod && isTerminal(pod)
		})
	}
	var factory informers.SharedInformerFactory = newInformerFactory(client, &live)
	quotas := &quotaPlugins{cluster: c, made: map[fwk.Handle]*quotaPlugin{}}
	made, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithComponentConfigVersion(configv1.SchemeGroupVersion.String()),
		scheduler.WithFrameworkOutOfTreeRegistry(quotas.registry()),
		scheduler.WithProfiles(loaded.Profiles...),
		scheduler.WithPercentageOfNodesToScore(ptr.To[int32](100)),
		scheduler.WithParallelism(int32(runtime.GOMAXPROCS(0))),
	)
	if err != nil {
		cancel()
		return nil, err
	}
	t := &trial{ctx: ctx, close: cancel, cluster: c, client: client, scheduler: made, dryRuns: map[string]*dryRun{}}
	for name, profile := range made.Profiles {
		t.snapshot = profile.SnapshotSharedLister().(*internalcache.Snapshot)
		t.dryRuns[name] = watchPreemption(profile, quotas)
	}
	return t, nil
}

// revealPreemption makes DefaultPreemption reachable in profiles that have it at PostFilter alone: it
// is enabled at PreEnqueue too, where it never rejects anybody here. It says whether it changed anything.
func revealPreemption(made *scheduler.Scheduler, loaded *config.KubeSchedulerConfiguration) bool {
	changed := false
	for i := range loaded.Profiles {
		profile := made.Profiles[loaded.Profiles[i].SchedulerName]
		isPreemption := func(p config.Plugin) bool { return p.Name == names.DefaultPreemption }
		if slices.ContainsFunc(profile.ListPlugins().PostFilter.Enabled, isPreemption) && preemptionOf(profile) == nil {
			set := &loaded.Profiles[i].Plugins.PreEnqueue
			set.Disabled = slices.DeleteFunc(set.Disabled, isPreemption)
			set.Enabled = append(set.Enabled, config.Plugin{Name: names.DefaultPreemption})
			changed = true
		}
	}
	return changed
}

func preemptionOf(profile framework.Framework) *defaultpreemption.DefaultPreemption {
	for _, plugin := range profile.PreEnqueuePlugins() {
		if found, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
			return found
		}
	}
	return nil
}

// judged are the pending Pods that a profile of the configuration is responsible for.
func (t *trial) judged() []*v1.Pod {
	return slices.DeleteFunc(t.cluster.pendingPods(), func(pod *v1.Pod) bool {
		if t.scheduler.Profiles.HandlesSchedulerName(pod.Spec.SchedulerName) {
			return false
		}
		t.cluster.note("Pod %s is not judged: no profile %q", keyOf(pod), pod.Spec.SchedulerName)
		return true
	})
}

func (t *trial) refresh() error {
	return t.scheduler.Cache.UpdateSnapshot(klog.FromContext(t.ctx), t.snapshot)
}

func (t *trial) explain(only string) ([]*verdict, error) {
	result := []*verdict{}
	if err := t.refresh(); err != nil {
		return nil, err
	}
	for _, pod := range t.judged() {
		if only != "" && only != keyOf(pod) {
			continue
		}
		judgement, err := t.judge(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", keyOf(pod), err)
		}
		result = append(result, judgement)
	}
	if only != "" && len(result) == 0 {
		return nil, errors.New("no Pod to judge is called " + only)
	}
	return result, nil
}
