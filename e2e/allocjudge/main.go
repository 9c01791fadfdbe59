// Command allocjudge tells how kube-scheduler's allocator would allocate devices.
//
// It reads one problem a line from standard input: classes, slices, what is allocated already, claims and
// nodes. For each it prints a line with one answer a node: the allocation of every claim, or the error, or
// neither where the claims do not fit. Share ids are random, so they are replaced by "share".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

// timeout ends hopeless searches, which are exponential.
const timeout = 250 * time.Millisecond

type problem struct {
	Nodes     []*v1.Node                                  `json:"nodes"`
	Classes   []*resourceapi.DeviceClass                  `json:"classes"`
	Slices    []*resourceapi.ResourceSlice                `json:"slices"`
	Allocated []resourceapi.DeviceRequestAllocationResult `json:"allocated"`
	Claims    []*resourceapi.ResourceClaim                `json:"claims"`
}

type answer struct {
	Results []resourceapi.AllocationResult `json:"results"`
	Error   string                         `json:"error,omitempty"`
	// OnNode is true for an error that concerns this node only.
	OnNode  bool `json:"onNode,omitempty"`
	Timeout bool `json:"timeout,omitempty"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return nil, errors.New("not needed")
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

// features are those that are on by default in kube-scheduler.
var features = structured.Features{
	AdminAccess:            true,
	ConsumableCapacity:     true,
	DeviceBindingAndStatus: true,
	DeviceTaints:           true,
	PartitionableDevices:   true,
	PrioritizedList:        true,
}

// state does what the plugin does with the allocations of claims.
func state(allocated []resourceapi.DeviceRequestAllocationResult) structured.AllocatedState {
	result := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, device := range allocated {
		id := structured.MakeDeviceID(device.Driver, device.Pool, device.Device)
		switch {
		case device.AdminAccess != nil && *device.AdminAccess:
		case device.ShareID == nil:
			result.AllocatedDevices.Insert(id)
		default:
			result.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, device.ShareID))
			if device.ConsumedCapacity != nil {
				result.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
			}
		}
	}
	return result
}

func judge(p problem) ([]answer, error) {
	byName := classes{}
	for _, class := range p.Classes {
		byName[class.Name] = class
	}
	celCache := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true})
	allocator, err := structured.NewAllocator(
		context.Background(), features, state(p.Allocated), byName, p.Slices, celCache)
	if err != nil {
		return nil, err
	}
	answers := make([]answer, 0, len(p.Nodes))
	for _, node := range p.Nodes {
		answers = append(answers, allocate(allocator, node, p.Claims))
	}
	return answers, nil
}

func allocate(allocator structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim) (result answer) {
	defer func() {
		if fault := recover(); fault != nil {
			result = answer{Error: fmt.Sprintf("panic: %v", fault)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	results, err := allocator.Allocate(ctx, node, claims)
	if err != nil {
		return answer{
			Error:   err.Error(),
			OnNode:  errors.Is(err, structured.ErrFailedAllocationOnNode),
			Timeout: ctx.Err() != nil,
		}
	}
	share := types.UID("share")
	for i := range results {
		for j := range results[i].Devices.Results {
			if results[i].Devices.Results[j].ShareID != nil {
				results[i].Devices.Results[j].ShareID = &share
			}
		}
	}
	return answer{Results: results}
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		var p problem
		var answers []answer
		err = json.Unmarshal(line, &p)
		if err == nil {
			answers, err = judge(p)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := out.Encode(answers); err != nil {
			os.Exit(1)
		}
	}
}
