package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// preemptionOutcome is what PostFilter would do. NominatedNode is the first by name of the nodes
// that kube-scheduler's criteria prefer alike; Tied names them all where there are several.
type preemptionOutcome struct {
	NominatedNode string               `json:"nominatedNode,omitempty"`
	Victims       []string             `json:"victims,omitempty"`
	Message       string               `json:"message,omitempty"`
	Tied          []string             `json:"tied,omitempty"`
	Candidates    map[string]candidate `json:"candidates,omitempty"`
}

type candidate struct {
	Victims       []string `json:"victims"`
	PDBViolations int      `json:"pdbViolations,omitempty"`
}

// dryRun stands between the preemption evaluator and DefaultPreemption: it lets every node be tried,
// writes down the victims found on each, and keeps the eviction from happening.
type dryRun struct {
	preemption.Interface
	mu         sync.Mutex
	victims    map[string][]*v1.Pod
	violations map[string]int
}

// watchPreemption returns a dryRun for every profile; without a plugin that evicts it stays empty.
func watchPreemption(profile framework.Framework, quotas *quotaPlugins) *dryRun {
	recorded := &dryRun{}
	recorded.reset()
	if plugin := quotas.made[profile]; plugin != nil {
		recorded.watch(plugin.evaluator)
	} else if plugin := preemptionOf(profile); plugin != nil {
		recorded.watch(plugin.Evaluator)
		plugin.Executor.PreemptPod = evictNobody
	}
	return recorded
}

func (d *dryRun) watch(evaluator *preemption.Evaluator) {
	d.Interface = evaluator.Interface
	evaluator.Interface = d
	evaluator.PdbLister = byName{evaluator.PdbLister}
}

func evictNobody(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error) {
	return false, nil
}

// byName lists budgets by name. kube-scheduler takes them in the order of a Go map, which matters where one Pod
// has several.
type byName struct {
	policylisters.PodDisruptionBudgetLister
}

func (l byName) List(selector labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	budgets, err := l.PodDisruptionBudgetLister.List(selector)
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return budgets, err
}

func (d *dryRun) reset() {
	d.victims, d.violations = map[string][]*v1.Pod{}, map[string]int{}
}

// GetOffsetAndNumCandidates has all nodes tried. kube-scheduler stops after a tenth of them or 100,
// from a random offset, whichever is more.
func (d *dryRun) GetOffsetAndNumCandidates(nodes int32) (int32, int32) { return 0, nodes }

func (d *dryRun) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, possible []*preemption.DomainVictim, pdbs []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, status := d.Interface.SelectVictimsOnNode(ctx, state, pod, node, possible, pdbs)
	if status.IsSuccess() && len(victims) > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.victims[node.Node().Name], d.violations[node.Node().Name] = victims, violations
	}
	return victims, violations, status
}

func (d *dryRun) outcome(result *fwk.PostFilterResult, status *fwk.Status) *preemptionOutcome {
	told := &preemptionOutcome{Message: status.Message(), Candidates: map[string]candidate{}}
	for node, victims := range d.victims {
		told.Candidates[node] = candidate{Victims: podNames(victims), PDBViolations: d.violations[node]}
	}
	if !status.IsSuccess() || result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" {
		return told
	}
	tied := d.preferred()
	if !slices.Contains(tied, result.NominatedNodeName) {
		panic("kube-scheduler nominates " + result.NominatedNodeName + ", which is none of the preferred candidates")
	}
	told.NominatedNode = tied[0]
	told.Message = strings.Replace(told.Message, "on node "+result.NominatedNodeName+",", "on node "+tied[0]+",", 1)
	told.Victims = told.Candidates[tied[0]].Victims
	if len(tied) > 1 {
		told.Tied = tied
	}
	return told
}

func podNames(pods []*v1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, keyOf(pod))
	}
	return sorted(names)
}

// preferred applies the documented criteria for the best candidate, one after the other, and returns all
// nodes that are left. kube-scheduler takes whichever of them its map yields first.
func (d *dryRun) preferred() []string {
	now := time.Now()
	var left []string
	for node := range d.victims {
		left = append(left, node)
	}
	for _, criterion := range []func(string) int64{
		func(node string) int64 { return -int64(d.violations[node]) },
		func(node string) int64 { return -int64(highestPriority(d.victims[node])) },
		func(node string) int64 { return -sumOfPriorities(d.victims[node]) },
		func(node string) int64 { return -int64(len(d.victims[node])) },
		func(node string) int64 { return earliestStart(d.victims[node], now).UnixNano() },
	} {
		values := map[string]int64{}
		for _, node := range left {
			values[node] = criterion(node)
		}
		left = bestOf(values)
	}
	return left
}

func highestPriority(victims []*v1.Pod) int32 {
	highest := int32(math.MinInt32)
	for _, pod := range victims {
		highest = max(highest, corev1helpers.PodPriority(pod))
	}
	return highest
}

// sumOfPriorities shifts every priority above zero, so that fewer victims of negative priority are better.
func sumOfPriorities(victims []*v1.Pod) int64 {
	sum := int64(0)
	for _, pod := range victims {
		sum += int64(corev1helpers.PodPriority(pod)) + math.MaxInt32 + 1
	}
	return sum
}

// earliestStart is the earliest start among the victims of highest priority; one not started counts as now.
func earliestStart(victims []*v1.Pod, now time.Time) time.Time {
	earliest := now
	for _, pod := range victims {
		start := pod.Status.StartTime
		if corev1helpers.PodPriority(pod) == highestPriority(victims) && start != nil && start.Time.Before(earliest) {
			earliest = start.Time
		}
	}
	return earliest
}
