package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// groupGates are the feature gates that a request may switch on.
var groupGates = []string{string(features.GenericWorkload), string(features.TopologyAwareWorkloadScheduling)}

// setGates switches on these gates, and off those that it leaves out.
func setGates(on []string) error {
	values := map[string]bool{}
	for _, name := range groupGates {
		values[name] = slices.Contains(on, name)
	}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(values)
}

// groupKeyOf is namespace/name of the PodGroup that the Pod is placed with; "" for none.
func groupKeyOf(pod *v1.Pod) string {
	group := pod.Spec.SchedulingGroup
	if !utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) || group == nil || group.PodGroupName == nil {
		return ""
	}
	return pod.Namespace + "/" + *group.PodGroupName
}

// groupOutcome is what becomes of a PodGroup: its condition as "status reason: message", and whom it evicts.
type groupOutcome struct {
	Name      string   `json:"name"`
	Condition string   `json:"condition,omitempty"`
	Victims   []string `json:"victims,omitempty"`
}

// entitiesOf puts a PodGroup in the place of its first Pod.
func (t *trial) entitiesOf(line []*framework.QueuedPodInfo) []framework.QueuedEntityInfo {
	var entities []framework.QueuedEntityInfo
	groups := map[string]*framework.QueuedPodGroupInfo{}
	for _, info := range line {
		key := groupKeyOf(info.Pod)
		podGroup := t.podGroup(key)
		if podGroup == nil {
			entities = append(entities, info)
			continue
		}
		entity := groups[key]
		if entity == nil {
			entity = newEntity(podGroup, info)
			groups[key] = entity
			entities = append(entities, entity)
		}
		entity.AddPod(info)
	}
	return entities
}

func newEntity(podGroup *schedulingv1beta1.PodGroup, first *framework.QueuedPodInfo) *framework.QueuedPodGroupInfo {
	return &framework.QueuedPodGroupInfo{
		PodGroupInfo: &framework.PodGroupInfo{
			Namespace: podGroup.Namespace, Name: podGroup.Name, Type: fwk.PodGroupKeyType, PodGroup: podGroup,
		},
		QueueingParams: framework.QueueingParams{Timestamp: first.Timestamp},
		QueuedPodInfos: map[fwk.EntityKey][]*framework.QueuedPodInfo{},
	}
}

func (t *trial) podGroup(key string) *schedulingv1beta1.PodGroup {
	for _, podGroup := range list[*schedulingv1beta1.PodGroup](t.cluster, "PodGroup") {
		if key != "" && keyOf(podGroup) == key {
			return podGroup
		}
	}
	return nil
}

// groupCycle records what the scheduler's own cycle of a PodGroup decides. It stands where Pods are chosen nodes
// (the first by name of the best), where they ask Permit (then the cycle is over for them), and where they fail.
// Where the group is tried on several sets of nodes, best has what was as good for each Pod, by the node it was given.
type groupCycle struct {
	*trial
	uid     types.UID
	placed  map[types.UID]*placement
	best    map[types.UID]map[string][]string
	chosen  []*v1.Pod
	mu      sync.Mutex
	victims []string
}

// watchVictims writes down whom the profile's preemption evicts, and keeps it from happening.
func (c *groupCycle) watchVictims(profile framework.Framework) {
	if plugin := preemptionOf(profile); plugin != nil {
		plugin.Executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *v1.Pod, _ string) (bool, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if preemptor.UID() == c.uid {
				c.victims = append(c.victims, keyOf(victim))
			}
			return false, nil
		}
	}
}

// atPermit is a profile whose Pods come no further than to Permit.
type atPermit struct {
	framework.Framework
	cycle *groupCycle
}

// RunPlacementGeneratePlugins has the placements by name: the plugin has them in the order of a Go map.
func (f *atPermit) RunPlacementGeneratePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, nodes []fwk.NodeInfo) ([]*fwk.Placement, *fwk.Status) {
	placements, status := f.Framework.RunPlacementGeneratePlugins(ctx, state, group, nodes)
	slices.SortFunc(placements, func(a, b *fwk.Placement) int { return strings.Compare(a.Name, b.Name) })
	return placements, status
}

// RunPlacementScorePlugins has the first by name of the best placements win, where the scheduler draws lots.
func (f *atPermit) RunPlacementScorePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, assignments []*fwk.PodGroupAssignments, states []fwk.PlacementCycleState) ([]fwk.PlacementPluginScores, *fwk.Status) {
	scores, status := f.Framework.RunPlacementScorePlugins(ctx, state, group, assignments, states)
	slices.SortFunc(scores, func(a, b fwk.PlacementPluginScores) int { return strings.Compare(a.Placement.Name, b.Placement.Name) })
	for i := range scores {
		scores[i].TotalScore = scores[i].TotalScore*int64(len(scores)) - int64(i)
	}
	return scores, status
}

func (f *atPermit) RunPermitPlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (map[string]time.Duration, *fwk.Status) {
	placed := f.cycle.placed[pod.UID]
	placed.Node, placed.Best = &node, f.cycle.best[pod.UID][node]
	f.cycle.chosen = append(f.cycle.chosen, pod)
	return nil, fwk.NewStatus(fwk.Unschedulable, "recorded")
}

// placeGroup runs the scheduler's cycle for the group, and has the Pods that got nodes count on them.
func (t *trial) placeGroup(entity *framework.QueuedPodGroupInfo) ([]*placement, error) {
	cycle := &groupCycle{trial: t, uid: entity.PodGroup.UID, placed: map[types.UID]*placement{}, best: map[types.UID]map[string][]string{}}
	var result []*placement
	var pods []*v1.Pod
	held := false
	entity.ForEachPodInfo(func(info *framework.QueuedPodInfo) bool {
		placed := &placement{Pod: keyOf(info.Pod)}
		if info.Pod.DeletionTimestamp != nil {
			placed.Message = fmt.Sprintf("skip schedule deleting pod: %s", placed.Pod)
		}
		held = held || t.isHeld(info.Pod)
		cycle.placed[info.Pod.UID] = placed
		result = append(result, placed)
		pods = append(pods, info.Pod)
		return true
	})
	if held {
		return result, nil
	}
	outcome := cycle.run(entity)
	for _, placed := range result {
		placed.Group = outcome
	}
	for _, pod := range cycle.chosen {
		if err := t.refresh(); err != nil {
			return nil, err
		}
		if err := t.assume(byUID(pods, pod.UID), *cycle.placed[pod.UID].Node); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func byUID(pods []*v1.Pod, uid types.UID) *v1.Pod {
	return pods[slices.IndexFunc(pods, func(pod *v1.Pod) bool { return pod.UID == uid })]
}

func (t *trial) isHeld(pod *v1.Pod) bool {
	for _, plugin := range t.scheduler.Profiles[pod.Spec.SchedulerName].PreEnqueuePlugins() {
		if !plugin.PreEnqueue(t.ctx, pod).IsSuccess() {
			return true
		}
	}
	return false
}

func (c *groupCycle) run(entity *framework.QueuedPodGroupInfo) *groupOutcome {
	made := c.scheduler
	nextEntity, schedulePod, failureHandler := made.NextEntity, made.SchedulePod, made.FailureHandler
	profiles := made.Profiles
	defer func() {
		made.NextEntity, made.SchedulePod, made.FailureHandler = nextEntity, schedulePod, failureHandler
		made.Profiles = profiles
	}()
	made.Profiles = map[string]framework.Framework{}
	for name, profile := range profiles {
		made.Profiles[name] = &atPermit{profile, c}
		c.watchVictims(profile)
	}
	made.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) { return entity, nil }
	made.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		c.countImages()
		result, err := schedulePod(ctx, profile, state, info)
		if err == nil {
			best := c.bestNodes(profile, state, info.Pod, result)
			result.SuggestedHost = best[0]
			if c.best[info.Pod.UID] == nil {
				c.best[info.Pod.UID] = map[string][]string{}
			}
			c.best[info.Pod.UID][best[0]] = best
		}
		return result, err
	}
	made.FailureHandler = func(_ context.Context, _ framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		if placed := c.placed[info.Pod.UID]; placed.Node == nil {
			placed.Message = truncate(status.Message())
		}
	}
	c.client.ClearActions()
	made.ScheduleOne(c.ctx)
	outcome := &groupOutcome{Name: keyOf(entity.PodGroup), Condition: c.condition()}
	c.awaitVictims(outcome)
	return outcome
}

// countImages repairs the nodes that preemption for a group is tried on. They are copies of copies, and in these no
// image is on any node, so that ImageLocality scores nothing: see ImageStateSummary.Snapshot of kube-scheduler.
func (c *groupCycle) countImages() {
	nodes, err := c.snapshot.NodeInfos().List()
	must(err)
	counts := map[string]int{}
	for _, node := range nodes {
		for name := range node.GetImageStates() {
			counts[name]++
		}
	}
	for _, node := range nodes {
		for name, state := range node.GetImageStates() {
			if state.NumNodes == 0 {
				state.NumNodes = counts[name]
			}
		}
	}
}

// bestNodes are all nodes that the scheduler might have chosen.
func (c *groupCycle) bestNodes(profile framework.Framework, state fwk.CycleState, pod *v1.Pod, result scheduler.ScheduleResult) []string {
	if result.EvaluatedNodes == 1 || result.FeasibleNodes == 1 {
		return []string{result.SuggestedHost}
	}
	again := framework.NewCycleState()
	again.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	again.SetPodGroupSchedulingCycle(state.GetPodGroupSchedulingCycle())
	again.SetPlacementCycleState(state.GetPlacementCycleState())
	v := &verdict{}
	feasible := c.describeNodes(v, profile, again, pod)
	if err := c.describeScores(v, profile, again, pod, feasible); err != nil || len(v.Best) == 0 {
		return []string{result.SuggestedHost}
	}
	return v.Best
}

// condition is what the cycle has written on the PodGroup last.
func (c *groupCycle) condition() string {
	said := ""
	for _, action := range c.client.Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok || action.GetResource().Resource != "podgroups" {
			continue
		}
		var body struct {
			Status schedulingv1beta1.PodGroupStatus `json:"status"`
		}
		must(json.Unmarshal(patch.GetPatch(), &body))
		for _, condition := range body.Status.Conditions {
			said = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
		}
	}
	return said
}

// awaitVictims fills in whom the group evicts, which kube-scheduler does in the background.
func (c *groupCycle) awaitVictims(outcome *groupOutcome) {
	for _, profile := range c.scheduler.Profiles {
		plugin := preemptionOf(profile)
		for plugin != nil && plugin.Executor.IsPodGroupRunningPreemption(c.uid) {
			time.Sleep(time.Millisecond)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	outcome.Victims = sorted(c.victims)
}
