package main

import (
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// placement is where a Pod came to be in a simulation; Node is nil where it fits nowhere.
type placement struct {
	Pod     string        `json:"pod"`
	Node    *string       `json:"node"`
	Best    []string      `json:"best,omitempty"`
	Message string        `json:"message"`
	Group   *groupOutcome `json:"podGroup,omitempty"`
}

// simulate places the pending Pods one after the other, each on the first by name of its best nodes.
func (t *trial) simulate() ([]*placement, error) {
	result := []*placement{}
	for _, entity := range t.inQueueOrder(t.judged()) {
		if err := t.refresh(); err != nil {
			return nil, err
		}
		if group, ok := entity.(*framework.QueuedPodGroupInfo); ok {
			placed, err := t.placeGroup(group)
			if err != nil {
				return nil, err
			}
			result = append(result, placed...)
			continue
		}
		pod := entity.(*framework.QueuedPodInfo).Pod
		judgement, err := t.judge(pod)
		if err != nil {
			return nil, err
		}
		placed := &placement{Pod: judgement.Pod, Best: judgement.Best, Message: judgement.Message}
		if len(judgement.Best) > 0 {
			if err := t.assume(pod, judgement.Best[0]); err != nil {
				placed.Message = truncate(err.Error())
			} else {
				placed.Node = &judgement.Best[0]
			}
		}
		result = append(result, placed)
	}
	return result, nil
}

// inQueueOrder puts groups in the place of their Pods and sorts by the QueueSort plugin; Pods that it holds equal, by creation, then by the file.
func (t *trial) inQueueOrder(pods []*v1.Pod) []framework.QueuedEntityInfo {
	sort.SliceStable(pods, func(i, j int) bool {
		return pods[i].CreationTimestamp.Before(&pods[j].CreationTimestamp)
	})
	line := make([]*framework.QueuedPodInfo, len(pods))
	start := time.Now()
	for i, pod := range pods {
		line[i] = queued(pod, start.Add(time.Duration(i)*time.Millisecond))
	}
	entities := t.entitiesOf(line)
	if len(pods) > 0 {
		less := t.scheduler.Profiles[pods[0].Spec.SchedulerName].QueueSortFunc()
		sort.SliceStable(entities, func(i, j int) bool { return less(entities[i], entities[j]) })
	}
	return entities
}

// assume puts the Pod on the node as the scheduler does before it binds: in the cache, reserved by the
// plugins (a reservation needs the state of the cycle, which is run up to there again), its claims written.
func (t *trial) assume(pod *v1.Pod, node string) error {
	logger := klog.FromContext(t.ctx)
	profile := t.scheduler.Profiles[pod.Spec.SchedulerName]
	state := newCycleState()
	t.describeNodes(&verdict{}, profile, state, pod)
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	if err := t.scheduler.Cache.AssumePod(logger, assumed); err != nil {
		return err
	}
	t.scheduler.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	if status := profile.RunReservePluginsReserve(t.ctx, state, assumed, node); !status.IsSuccess() {
		profile.RunReservePluginsUnreserve(t.ctx, state, assumed, node)
		if err := t.scheduler.Cache.ForgetPod(logger, assumed); err != nil {
			return err
		}
		return status.AsError()
	}
	return bindClaims(profile.SharedDRAManager().ResourceClaims(), assumed)
}
