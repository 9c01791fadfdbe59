package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
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
var groupGates = []string{
	string(features.GenericWorkload), string(features.TopologyAwareWorkloadScheduling), string(features.CompositePodGroup),
}

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

// groupOutcome is what becomes of a PodGroup, or of a CompositePodGroup with its PodGroups: the condition of each by
// its name, as "status reason: message", and whom it evicts.
type groupOutcome struct {
	Name       string            `json:"name"`
	Condition  string            `json:"condition,omitempty"`
	Conditions map[string]string `json:"conditions,omitempty"`
	Victims    []string          `json:"victims,omitempty"`
}

// entitiesOf puts a PodGroup, or the CompositePodGroup at the root of it, in the place of its first Pod.
func (t *trial) entitiesOf(line []*framework.QueuedPodInfo) []framework.QueuedEntityInfo {
	var entities []framework.QueuedEntityInfo
	groups := map[string]*framework.QueuedPodGroupInfo{}
	for _, info := range line {
		root := t.rootOf(t.podGroup(groupKeyOf(info.Pod)))
		if root == nil {
			entities = append(entities, info)
			continue
		}
		entity := groups[root.GetKey()]
		if entity == nil {
			entity = &framework.QueuedPodGroupInfo{
				PodGroupInfo:   root,
				QueueingParams: framework.QueueingParams{Timestamp: info.Timestamp},
				QueuedPodInfos: map[fwk.EntityKey][]*framework.QueuedPodInfo{},
			}
			groups[root.GetKey()] = entity
			entities = append(entities, entity)
		}
		entity.AddPod(info)
	}
	return entities
}

// rootOf is the tree that the PodGroup is in; nil where a group above it is missing.
func (t *trial) rootOf(podGroup *schedulingv1beta1.PodGroup) *framework.PodGroupInfo {
	if podGroup == nil {
		return nil
	}
	parent := podGroup.Spec.ParentCompositePodGroupName
	if parent == nil || !utilfeature.DefaultFeatureGate.Enabled(features.CompositePodGroup) {
		return leafOf(podGroup)
	}
	for depth := 0; ; depth++ {
		above := t.composite(podGroup.Namespace, *parent)
		if above == nil || depth > schedulingv1alpha3.WorkloadMaxTreeDepth {
			return nil
		}
		if parent = above.Spec.ParentCompositePodGroupName; parent == nil {
			return t.treeOf(above)
		}
	}
}

func leafOf(podGroup *schedulingv1beta1.PodGroup) *framework.PodGroupInfo {
	return &framework.PodGroupInfo{Namespace: podGroup.Namespace, Name: podGroup.Name, Type: fwk.PodGroupKeyType, PodGroup: podGroup}
}

func (t *trial) treeOf(group *schedulingv1alpha3.CompositePodGroup) *framework.PodGroupInfo {
	tree := &framework.PodGroupInfo{Namespace: group.Namespace, Name: group.Name, Type: fwk.CompositePodGroupKeyType, CompositePodGroup: group}
	isParent := func(namespace string, parent *string) bool {
		return namespace == group.Namespace && parent != nil && *parent == group.Name
	}
	for _, child := range list[*schedulingv1beta1.PodGroup](t.cluster, "PodGroup") {
		if isParent(child.Namespace, child.Spec.ParentCompositePodGroupName) {
			tree.Children = append(tree.Children, leafOf(child))
		}
	}
	for _, child := range list[*schedulingv1alpha3.CompositePodGroup](t.cluster, "CompositePodGroup") {
		if isParent(child.Namespace, child.Spec.ParentCompositePodGroupName) {
			tree.Children = append(tree.Children, t.treeOf(child))
		}
	}
	return tree
}

func (t *trial) podGroup(key string) *schedulingv1beta1.PodGroup {
	for _, podGroup := range list[*schedulingv1beta1.PodGroup](t.cluster, "PodGroup") {
		if key != "" && keyOf(podGroup) == key {
			return podGroup
		}
	}
	return nil
}

func (t *trial) composite(namespace, name string) *schedulingv1alpha3.CompositePodGroup {
	for _, group := range list[*schedulingv1alpha3.CompositePodGroup](t.cluster, "CompositePodGroup") {
		if group.Namespace == namespace && group.Name == name {
			return group
		}
	}
	return nil
}

// leaves are the PodGroups of a tree in the order in which they are tried.
func leaves(tree *framework.PodGroupInfo) []*framework.PodGroupInfo {
	if tree.CompositePodGroup == nil {
		return []*framework.PodGroupInfo{tree}
	}
	var found []*framework.PodGroupInfo
	for _, child := range tree.GetChildGroups() {
		found = append(found, leaves(child)...)
	}
	return found
}

// members are the Pods of the entity in the order in which they are tried.
func members(entity *framework.QueuedPodGroupInfo) []*framework.QueuedPodInfo {
	var infos []*framework.QueuedPodInfo
	for _, leaf := range leaves(entity.PodGroupInfo) {
		infos = append(infos, entity.QueuedPodInfos[fwk.PodGroupKey(leaf.Namespace, leaf.Name)]...)
	}
	return infos
}

func uidOf(tree *framework.PodGroupInfo) types.UID {
	if tree.CompositePodGroup != nil {
		return tree.CompositePodGroup.UID
	}
	return tree.PodGroup.UID
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
	// reserved are the Pods that count on nodes at the moment, settled those that did when the last one of them came.
	reserved, settled map[types.UID]bool
	order             []types.UID
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

func (f *atPermit) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	status := f.Framework.RunReservePluginsReserve(ctx, state, pod, node)
	if status.IsSuccess() {
		f.cycle.reserved[pod.UID] = true
		f.cycle.settled = maps.Clone(f.cycle.reserved)
	}
	return status
}

func (f *atPermit) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	delete(f.cycle.reserved, pod.UID)
	f.Framework.RunReservePluginsUnreserve(ctx, state, pod, node)
}

// RunPodGroupPostFilterPlugins repairs what preemption for a CompositePodGroup is tried with: it has the Pods of groups
// that failed as well, and the groups in the order of a Go map.
func (f *atPermit) RunPodGroupPostFilterPlugins(ctx context.Context, state *framework.CycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	repaired := func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		assignments, status := schedule(ctx)
		if group.GetCompositePodGroup() != nil {
			assigned := slices.DeleteFunc(assignments.ProposedAssignments, func(one fwk.ProposedAssignment) bool {
				return !f.cycle.settled[one.GetPod().UID]
			})
			slices.SortFunc(assigned, func(a, b fwk.ProposedAssignment) int {
				return slices.Index(f.cycle.order, a.GetPod().UID) - slices.Index(f.cycle.order, b.GetPod().UID)
			})
			assignments.ProposedAssignments = assigned
		}
		return assignments, status
	}
	return f.Framework.RunPodGroupPostFilterPlugins(ctx, state, group, repaired)
}

func (f *atPermit) RunPermitPlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (map[string]time.Duration, *fwk.Status) {
	placed := f.cycle.placed[pod.UID]
	placed.Node, placed.Best = &node, f.cycle.best[pod.UID][node]
	f.cycle.chosen = append(f.cycle.chosen, pod)
	return nil, fwk.NewStatus(fwk.Unschedulable, "recorded")
}

// placeGroup runs the scheduler's cycle for the group, and has the Pods that got nodes count on them.
func (t *trial) placeGroup(entity *framework.QueuedPodGroupInfo) ([]*placement, error) {
	cycle := &groupCycle{
		trial: t, uid: uidOf(entity.PodGroupInfo), placed: map[types.UID]*placement{}, best: map[types.UID]map[string][]string{},
		reserved: map[types.UID]bool{},
	}
	var result []*placement
	var pods []*v1.Pod
	held := false
	for _, info := range members(entity) {
		placed := &placement{Pod: keyOf(info.Pod)}
		if info.Pod.DeletionTimestamp != nil {
			placed.Message = fmt.Sprintf("skip schedule deleting pod: %s", placed.Pod)
		}
		held = held || t.isHeld(info.Pod)
		cycle.placed[info.Pod.UID] = placed
		result = append(result, placed)
		pods = append(pods, info.Pod)
		cycle.order = append(cycle.order, info.Pod.UID)
	}
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
	outcome := &groupOutcome{Name: entity.Namespace + "/" + entity.Name}
	if entity.CompositePodGroup == nil {
		outcome.Condition = c.conditions()[outcome.Name]
	} else {
		outcome.Conditions = c.conditions()
	}
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

// conditions are what the cycle has written on PodGroups last, by their names.
func (c *groupCycle) conditions() map[string]string {
	said := map[string]string{}
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
			key := patch.GetNamespace() + "/" + patch.GetName()
			said[key] = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
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
