package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// CapacityScheduling over kube-scheduler's own framework, written from the rules in docs/quotas.md and not from
// any implementation. Where scheduler-plugins' is at fault, it does what docs/quotas.md says.

const quotaPluginName = "CapacityScheduling"

// elasticQuota is the ElasticQuota of scheduling.x-k8s.io. Lists that are absent are nil, lists without entries are not.
type elasticQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Min v1.ResourceList `json:"min"`
		Max v1.ResourceList `json:"max"`
	} `json:"spec"`
}

func (q *elasticQuota) DeepCopyObject() runtime.Object {
	return &elasticQuota{TypeMeta: q.TypeMeta, ObjectMeta: *q.ObjectMeta.DeepCopy(), Spec: q.Spec}
}

func init() {
	version := schema.GroupVersion{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}
	example := &elasticQuota{}
	example.SetGroupVersionKind(version.WithKind("ElasticQuota"))
	legacyscheme.Scheme.AddKnownTypeWithName(version.WithKind("ElasticQuota"), &elasticQuota{})
	kinds["ElasticQuota"] = kind{example, true}
}

// amounts are milli-CPU, bytes or counts by resource.
type amounts map[v1.ResourceName]int64

var alwaysCompared = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

func amountsOf(list v1.ResourceList) amounts {
	counted := amounts{}
	for name, quantity := range list {
		switch {
		case name == v1.ResourceCPU:
			counted[name] = quantity.MilliValue()
		case slices.Contains(alwaysCompared, name), schedutil.IsScalarResourceName(name):
			counted[name] = quantity.Value()
		}
	}
	return counted
}

func (a amounts) plus(b amounts, sign int64) amounts {
	sum := maps.Clone(a)
	for name, amount := range b {
		sum[name] += sign * amount
	}
	return sum
}

// exceeds compares what alwaysCompared names and what `named` has. A resource of the latter that the limit does not have
// has the limit `otherwise`.
func (a amounts) exceeds(limit, named amounts, otherwise int64) bool {
	for _, name := range alwaysCompared {
		if a[name] > limit[name] {
			return true
		}
	}
	for name := range named {
		bound, ok := limit[name]
		if !ok && !slices.Contains(alwaysCompared, name) {
			bound = otherwise
		}
		if a[name] > bound {
			return true
		}
	}
	return false
}

func quotaRequest(pod *v1.Pod) amounts {
	total := amounts{}
	for _, container := range pod.Spec.Containers {
		total = total.plus(amountsOf(container.Resources.Requests), 1)
	}
	for _, container := range pod.Spec.InitContainers {
		for name, amount := range amountsOf(container.Resources.Requests) {
			total[name] = max(total[name], amount)
		}
	}
	return total.plus(amountsOf(pod.Spec.Overhead), 1)
}

// ledger is what every namespace with a quota is guaranteed, may use and uses.
type ledger map[string]*account

type account struct{ minimum, maximum, used amounts }

func (l ledger) clone() ledger {
	copied := ledger{}
	for namespace, of := range l {
		copied[namespace] = &account{of.minimum, of.maximum, maps.Clone(of.used)}
	}
	return copied
}

func (l ledger) count(pod *v1.Pod, sign int64) {
	if of := l[pod.Namespace]; of != nil {
		of.used = of.used.plus(quotaRequest(pod), sign)
	}
}

func (a *account) aboveMinimum() bool { return a.used.exceeds(a.minimum, a.used, 0) }

func (a *account) aboveMinimumWith(more amounts) bool {
	return a.used.plus(more, 1).exceeds(a.minimum, more, 0)
}

func (a *account) aboveMaximumWith(more amounts) bool {
	return a.used.plus(more, 1).exceeds(a.maximum, more, math.MaxInt64)
}

func (l ledger) aboveTotalWith(more amounts) bool {
	used, guaranteed := maps.Clone(more), amounts{}
	for _, of := range l {
		used, guaranteed = used.plus(of.used, 1), guaranteed.plus(of.minimum, 1)
	}
	return used.exceeds(guaranteed, used, 0)
}

// quotaPlugin judges Pods by the quotas of the cluster file.
type quotaPlugin struct {
	handle    fwk.Handle
	ledger    ledger
	evaluator *preemption.Evaluator
	eviction  *quotaPreemption
}

// quotaPlugins makes the plugin for every profile that enables it, and remembers it.
type quotaPlugins struct {
	cluster *cluster
	made    map[fwk.Handle]*quotaPlugin
}

func (q *quotaPlugins) registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{quotaPluginName: q.make}
}

func (q *quotaPlugins) make(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	plugin := &quotaPlugin{handle: handle, ledger: ledger{}}
	for _, quota := range oldestFirst(list[*elasticQuota](q.cluster, "ElasticQuota")) {
		if plugin.ledger[quota.Namespace] != nil {
			continue
		}
		of := &account{amountsOf(quota.Spec.Min), amountsOf(quota.Spec.Max), amounts{}}
		if quota.Spec.Max == nil {
			for _, name := range alwaysCompared {
				of.maximum[name] = math.MaxInt64
			}
		}
		plugin.ledger[quota.Namespace] = of
	}
	for _, pod := range list[*v1.Pod](q.cluster, "Pod") {
		if pod.Spec.NodeName != "" && !isTerminal(pod) {
			plugin.ledger.count(pod, 1)
		}
	}
	executor := preemption.NewExecutor(handle, feature.Features{})
	executor.PreemptPod = evictNobody
	plugin.eviction = &quotaPreemption{plugin: plugin}
	plugin.evaluator = preemption.NewEvaluator(quotaPluginName, handle, plugin.eviction, executor)
	q.made[handle] = plugin
	return plugin, nil
}

func oldestFirst(quotas []*elasticQuota) []*elasticQuota {
	slices.SortStableFunc(quotas, func(a, b *elasticQuota) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return slices.Compare([]byte(a.Name), []byte(b.Name))
	})
	return quotas
}

func (p *quotaPlugin) Name() string { return quotaPluginName }

// judgement is what the cycle knows of the Pod: the ledger as if victims were gone, what the Pod requests, and that
// together with the nominated Pods that count in its own quota, or in the sum of all.
type judgement struct {
	ledger              ledger
	request, own, total amounts
}

func (j *judgement) Clone() fwk.StateData {
	return &judgement{j.ledger.clone(), j.request, j.own, j.total}
}

func judgementIn(state fwk.CycleState) *judgement {
	if data, err := state.Read(quotaPluginName); err == nil {
		return data.(*judgement)
	}
	return nil
}

func (p *quotaPlugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	request := quotaRequest(pod)
	j := &judgement{p.ledger.clone(), request, request, request}
	state.Write(quotaPluginName, j)
	mine := j.ledger[pod.Namespace]
	if mine == nil {
		return nil, nil
	}
	for _, node := range nodes {
		for _, nominated := range p.handle.NominatedPodsForNode(node.Node().Name) {
			j.addNominated(pod, nominated.GetPod())
		}
	}
	if mine.aboveMaximumWith(j.own) {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("Pod %s is rejected in PreFilter because ElasticQuota %s is more than Max", keyOf(pod), pod.Namespace))
	}
	if j.ledger.aboveTotalWith(j.total) {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("Pod %s is rejected in PreFilter because total ElasticQuota used is more than min", keyOf(pod)))
	}
	return nil, nil
}

func (j *judgement) addNominated(pod, nominated *v1.Pod) {
	of := j.ledger[nominated.Namespace]
	if of == nil || nominated.UID == pod.UID {
		return
	}
	if nominated.Namespace != pod.Namespace {
		if !of.aboveMinimum() {
			j.total = j.total.plus(quotaRequest(nominated), 1)
		}
	} else if corev1helpers.PodPriority(nominated) >= corev1helpers.PodPriority(pod) {
		j.own = j.own.plus(quotaRequest(nominated), 1)
		j.total = j.total.plus(quotaRequest(nominated), 1)
	}
}

func (p *quotaPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (p *quotaPlugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	judgementIn(state).ledger.count(added.GetPod(), 1)
	return nil
}

func (p *quotaPlugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	judgementIn(state).ledger.count(removed.GetPod(), -1)
	return nil
}

func (p *quotaPlugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.eviction.state = state
	result, status := p.evaluator.Preempt(ctx, state, pod, statuses)
	if message := status.Message(); message != "" {
		status = fwk.NewStatus(status.Code(), "preemption: "+message)
	}
	return result, status
}

func (p *quotaPlugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	p.ledger.count(pod, 1)
	return nil
}

func (p *quotaPlugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.ledger.count(pod, -1)
}

// quotaPreemption says who may be evicted for whom, in the cycle of `state`.
type quotaPreemption struct {
	plugin *quotaPlugin
	state  fwk.CycleState
}

func (q *quotaPreemption) GetOffsetAndNumCandidates(nodes int32) (int32, int32) { return 0, nodes }

func (q *quotaPreemption) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	victims := map[string]*extenderv1.Victims{}
	for _, candidate := range candidates {
		victims[candidate.Name()] = candidate.Victims()
	}
	return victims
}

func (q *quotaPreemption) OrderedScoreFuncs(context.Context, map[string]*extenderv1.Victims) []func(string) int64 {
	return nil
}

// aboveMinimum says whether the namespace would be above its minimum with the Pod.
func (j *judgement) aboveMinimum(pod *v1.Pod) bool {
	mine := j.ledger[pod.Namespace]
	return mine != nil && mine.aboveMinimumWith(j.own)
}

// mayEvict is the table of docs/quotas.md for one Pod, as the ledger stands.
func (j *judgement) mayEvict(pod, victim *v1.Pod, aboveMinimum bool) bool {
	mine, theirs := j.ledger[pod.Namespace], j.ledger[victim.Namespace]
	isLower := corev1helpers.PodPriority(victim) < corev1helpers.PodPriority(pod)
	switch {
	case (mine == nil) != (theirs == nil):
		return false
	case mine == nil:
		return isLower
	case aboveMinimum:
		return pod.Namespace == victim.Namespace && isLower
	default:
		return pod.Namespace != victim.Namespace && theirs.aboveMinimum()
	}
}

func (q *quotaPreemption) PodEligibleToPreemptOthers(_ context.Context, pod *v1.Pod, onNominated *fwk.Status) (bool, string) {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return false, "not eligible due to preemptionPolicy=Never."
	}
	nominated := pod.Status.NominatedNodeName
	if nominated == "" || onNominated.Code() == fwk.UnschedulableAndUnresolvable {
		return true, ""
	}
	node, err := q.plugin.handle.SnapshotSharedLister().NodeInfos().Get(nominated)
	if err != nil {
		return true, ""
	}
	for _, on := range node.GetPods() {
		if on.GetPod().DeletionTimestamp != nil && q.isAwaited(pod, on.GetPod()) {
			return false, "not eligible due to a terminating pod on the nominated node."
		}
	}
	return true, ""
}

// isAwaited: a Pod that could have been evicted, and one of lower priority in the same namespace in any case.
func (q *quotaPreemption) isAwaited(pod, leaving *v1.Pod) bool {
	if pod.Namespace == leaving.Namespace {
		return corev1helpers.PodPriority(leaving) < corev1helpers.PodPriority(pod)
	}
	j := judgementIn(q.state)
	return j.mayEvict(pod, leaving, j.aboveMinimum(pod))
}

func (q *quotaPreemption) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, _ []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	j, handle := judgementIn(state), q.plugin.handle
	move := func(info fwk.PodInfo, back bool) {
		if back {
			node.AddPodInfo(info)
			must(handle.RunPreFilterExtensionAddPod(ctx, state, pod, info, node).AsError())
		} else {
			must(node.RemovePod(klog.FromContext(ctx), info.GetPod()))
			must(handle.RunPreFilterExtensionRemovePod(ctx, state, pod, info, node).AsError())
		}
	}
	mine, aboveMinimum := j.ledger[pod.Namespace], j.aboveMinimum(pod)
	var possible []fwk.PodInfo
	for _, info := range leastImportantFirst(node.GetPods()) {
		if j.mayEvict(pod, info.GetPod(), aboveMinimum) {
			move(info, false)
			possible = append(possible, info)
		}
	}
	if len(possible) == 0 {
		return nil, 0, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")
	}
	if status := handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); !status.IsSuccess() {
		return nil, 0, status
	}
	if mine != nil && (mine.aboveMaximumWith(j.request) || j.ledger.aboveTotalWith(j.request)) {
		return nil, 0, fwk.NewStatus(fwk.Unschedulable, "global quota max exceeded")
	}
	protected, free := splitByBudget(possible, budgets)
	var victims []*v1.Pod
	stays := func(info fwk.PodInfo) bool {
		move(info, true)
		fits := handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess()
		if fits && mine != nil {
			fits = !mine.aboveMaximumWith(j.own) && !j.ledger.aboveTotalWith(j.total)
		}
		if !fits {
			move(info, false)
			victims = append(victims, info.GetPod())
		}
		return fits
	}
	violations := 0
	for _, info := range protected {
		if !stays(info) {
			violations++
		}
	}
	for _, info := range free {
		stays(info)
	}
	slices.SortFunc(victims, byImportance)
	return victims, violations, nil
}

func byImportance(a, b *v1.Pod) int {
	if schedutil.MoreImportantPod(a, b) {
		return -1
	}
	return 1
}

func leastImportantFirst(infos []fwk.PodInfo) []fwk.PodInfo {
	return slices.SortedFunc(slices.Values(infos), func(a, b fwk.PodInfo) int { return -byImportance(a.GetPod(), b.GetPod()) })
}

// splitByBudget asks kube-scheduler which of the Pods violate a budget if they are evicted, the most important first.
func splitByBudget(leastFirst []fwk.PodInfo, budgets []*policyv1.PodDisruptionBudget) (protected, free []fwk.PodInfo) {
	var victims []preemption.Victim
	for _, info := range slices.Backward(leastFirst) {
		victim, err := preemption.NewVictim([]fwk.PodInfo{info}, corev1helpers.PodPriority(info.GetPod()), fwk.PodKeyType)
		must(err)
		victims = append(victims, victim)
	}
	violating, others := preemption.FilterVictimsWithPDBViolation(victims, budgets)
	for _, victim := range violating {
		protected = append(protected, victim.Victim.Pods()...)
	}
	for _, victim := range others {
		free = append(free, victim.Pods()...)
	}
	return protected, free
}
