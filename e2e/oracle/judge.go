package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// verdict is all that can be said about one pending Pod. Fields that have nothing to say are left out.
type verdict struct {
	Pod        string                      `json:"pod"`
	PreEnqueue *outcome                    `json:"preEnqueue,omitempty"`
	PreFilter  *outcome                    `json:"preFilter,omitempty"`
	Nodes      map[string]*outcome         `json:"nodes,omitempty"`
	Scores     map[string]map[string]int64 `json:"scores,omitempty"`
	Totals     map[string]int64            `json:"totals,omitempty"`
	Best       []string                    `json:"best,omitempty"`
	Nominated  string                      `json:"nominated,omitempty"`
	Message    string                      `json:"message,omitempty"`
	PostFilter *preemptionOutcome          `json:"postFilter,omitempty"`
}

// outcome is a framework status.
type outcome struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
}

func outcomeOf(status *fwk.Status) *outcome {
	if status.IsSuccess() {
		return &outcome{Code: fwk.Success.String()}
	}
	return &outcome{Code: status.Code().String(), Plugin: status.Plugin(), Reasons: status.Reasons()}
}

// judge runs a scheduling cycle for the Pod on the snapshot as it is. The scheduler's own SchedulePod
// has the last word on where the Pod fits and on why not; the steps are repeated one by one only for the
// details that it does not tell, and the two must agree.
func (t *trial) judge(pod *v1.Pod) (*verdict, error) {
	v := &verdict{Pod: keyOf(pod)}
	profile := t.scheduler.Profiles[pod.Spec.SchedulerName]
	for _, plugin := range profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(t.ctx, pod); !status.IsSuccess() {
			status.SetPlugin(plugin.Name())
			v.PreEnqueue = outcomeOf(status)
			return v, nil
		}
	}
	if pod.DeletionTimestamp != nil {
		v.Message = fmt.Sprintf("skip schedule deleting pod: %s", v.Pod)
		return v, nil
	}
	state := newCycleState()
	decision, err := t.scheduler.SchedulePod(t.ctx, profile, state, queued(pod, time.Now()))
	var fitError *framework.FitError
	switch {
	case err == nil:
		return v, t.describePlacement(v, profile, pod, decision)
	case errors.As(err, &fitError):
		t.describeMisfit(v, profile, state, pod, fitError)
		return v, nil
	default:
		v.Message = truncate(err.Error())
		if !errors.Is(err, scheduler.ErrNoNodesAvailable) {
			t.describeFault(v, profile, pod)
		}
		return v, nil
	}
}

func newCycleState() fwk.CycleState {
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	return state
}

// queued wraps the Pod as the queue would. It has no signature, so results of earlier Pods are not reused.
func queued(pod *v1.Pod, since time.Time) *framework.QueuedPodInfo {
	// An unparsable affinity term is left out by NewPodInfo, as it is in the scheduler's queue.
	info, _ := framework.NewPodInfo(pod)
	return &framework.QueuedPodInfo{PodInfo: info, QueueingParams: framework.QueueingParams{Timestamp: since}}
}

// describeMisfit tells why no node fits, and what PostFilter would do about it.
func (t *trial) describeMisfit(v *verdict, profile framework.Framework, state fwk.CycleState, pod *v1.Pod, fitError *framework.FitError) {
	statuses := fitError.Diagnosis.NodeToStatus
	if fitError.Diagnosis.PreFilterMsg != "" {
		v.PreFilter = outcomeOf(statuses.AbsentNodesStatus())
	} else {
		v.Nodes = map[string]*outcome{}
		for _, node := range t.nodes() {
			v.Nodes[node.Node().Name] = outcomeOf(statuses.Get(node.Node().Name))
		}
	}
	if profile.HasPostFilterPlugins() {
		recorded := t.dryRuns[pod.Spec.SchedulerName]
		recorded.reset()
		result, status := profile.RunPostFilterPlugins(t.ctx, state, pod, statuses)
		v.PostFilter = recorded.outcome(result, status)
		fitError.Diagnosis.PostFilterMsg = v.PostFilter.Message
	}
	v.Message = truncate(fitError.Error())
}

// describePlacement tells the status of every node and the scores of those that fit.
func (t *trial) describePlacement(v *verdict, profile framework.Framework, pod *v1.Pod, decision scheduler.ScheduleResult) error {
	state := newCycleState()
	feasible := t.describeNodes(v, profile, state, pod)
	if nominated := pod.Status.NominatedNodeName; nominated != "" && decision.EvaluatedNodes == 1 && decision.SuggestedHost == nominated {
		v.Nodes[nominated] = &outcome{Code: fwk.Success.String()}
		v.Nominated, v.Best = nominated, []string{nominated}
		return nil
	}
	if len(feasible) > 1 {
		if err := t.describeScores(v, profile, state, pod, feasible); err != nil {
			return err
		}
	} else {
		v.Best = namesOf(feasible)
	}
	if !slices.Contains(v.Best, decision.SuggestedHost) {
		return fmt.Errorf("the scheduler chose %s, the oracle's best nodes are %v", decision.SuggestedHost, v.Best)
	}
	return nil
}

// describeNodes fills in the nodes of the verdict and returns those that fit.
func (t *trial) describeNodes(v *verdict, profile framework.Framework, state fwk.CycleState, pod *v1.Pod) []fwk.NodeInfo {
	restriction, status, plugins := profile.RunPreFilterPlugins(t.ctx, state, pod)
	if !status.IsSuccess() {
		v.PreFilter = outcomeOf(status)
		return nil
	}
	excluded := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sorted(plugins.UnsortedList())))
	v.Nodes = map[string]*outcome{}
	var feasible []fwk.NodeInfo
	for _, node := range t.nodes() {
		name := node.Node().Name
		if !restriction.AllNodes() && !restriction.NodeNames.Has(name) {
			v.Nodes[name] = outcomeOf(excluded)
			continue
		}
		status := profile.RunFilterPluginsWithNominatedPods(t.ctx, state, pod, node)
		v.Nodes[name] = outcomeOf(status)
		if status.IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	return feasible
}

func (t *trial) describeScores(v *verdict, profile framework.Framework, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) error {
	if !profile.HasScorePlugins() {
		v.Best = namesOf(feasible)
		return nil
	}
	if status := profile.RunPreScorePlugins(t.ctx, state, pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scored, status := profile.RunScorePlugins(t.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	v.Scores, v.Totals = map[string]map[string]int64{}, map[string]int64{}
	for _, node := range scored {
		v.Totals[node.Name] = node.TotalScore
		v.Scores[node.Name] = map[string]int64{}
		for _, score := range node.Scores {
			v.Scores[node.Name][score.Name] = score.Score
		}
	}
	v.Best = bestOf(v.Totals)
	return nil
}

// describeFault finds out how far an attempt came that ended in an error. Where several nodes have one,
// the message is that of the first by name: the scheduler reports whichever came first.
func (t *trial) describeFault(v *verdict, profile framework.Framework, pod *v1.Pod) {
	t.describeNodes(v, profile, newCycleState(), pod)
	var faulty []string
	for name, result := range v.Nodes {
		if result.Code == fwk.Error.String() {
			faulty = append(faulty, name)
		}
	}
	if len(faulty) > 0 {
		v.Message = truncate(v.Nodes[sorted(faulty)[0]].Reasons[0])
	}
}

// nodes lists the nodes of the snapshot, or of the placement that is tried, which the scheduler keeps in an order of its own.
func (t *trial) nodes() []fwk.NodeInfo {
	nodes, err := t.snapshot.ListNodesInPlacement()
	if err != nil {
		klog.FromContext(t.ctx).Error(err, "a snapshot has no reason to fail")
	}
	return nodes
}

func namesOf(nodes []fwk.NodeInfo) []string {
	var names []string
	for _, node := range nodes {
		names = append(names, node.Node().Name)
	}
	return sorted(names)
}

// bestOf names everybody who has the highest value.
func bestOf(totals map[string]int64) []string {
	var best []string
	for name, total := range totals {
		if len(best) > 0 && total > totals[best[0]] {
			best = nil
		}
		if len(best) == 0 || total == totals[best[0]] {
			best = append(best, name)
		}
	}
	return sorted(best)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// truncate cuts a message to the length of an event's note.
func truncate(message string) string {
	const ellipsis = " ..."
	if len(message) <= validation.NoteLengthLimit {
		return message
	}
	return message[:validation.NoteLengthLimit-len(ellipsis)] + ellipsis
}
