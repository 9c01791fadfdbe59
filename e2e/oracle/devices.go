package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/resource"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/utils/ptr"
)

// makeClaims does for pending Pods what the resourceclaim controller does: each claim that a Pod names
// by template is made and noted in the Pod's status. Its name has no random end: POD-CLAIM.
func (c *cluster) makeClaims() {
	templates := map[string]*resourcev1.ResourceClaimTemplate{}
	for _, template := range list[*resourcev1.ResourceClaimTemplate](c, "ResourceClaimTemplate") {
		templates[keyOf(template)] = template
	}
	for _, pod := range c.pendingPods() {
		for _, wanted := range pod.Spec.ResourceClaims {
			if wanted.ResourceClaimTemplateName == nil || pod.DeletionTimestamp != nil {
				continue
			}
			template := templates[pod.Namespace+"/"+*wanted.ResourceClaimTemplateName]
			if template != nil && !hasClaim(pod, wanted.Name) {
				c.makeClaim(pod, wanted.Name, template)
			}
		}
	}
}

func hasClaim(pod *v1.Pod, name string) bool {
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == name {
			return true
		}
	}
	return false
}

func (c *cluster) makeClaim(pod *v1.Pod, name string, template *resourcev1.ResourceClaimTemplate) {
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:      pod.Name + "-" + name,
			Namespace: pod.Namespace,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true),
			}},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{
		Name: name, ResourceClaimName: &claim.Name,
	})
	if !c.names.Has("ResourceClaim " + keyOf(claim)) {
		must(c.add("ResourceClaim", claim))
	}
}

// storeDevices gives claims and slices the quantities that a client reads.
func (c *cluster) storeDevices() {
	for _, slice := range list[*resourcev1.ResourceSlice](c, "ResourceSlice") {
		asStored(slice)
	}
	for _, claim := range list[*resourcev1.ResourceClaim](c, "ResourceClaim") {
		asStored(claim)
	}
}

// bindClaims writes the claims of a Pod that has been reserved a node, as PreBind does: what was in
// flight is their allocation from now on, and they are reserved for the Pod.
func bindClaims(claims fwk.ResourceClaimTracker, pod *v1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := claims.Get(pod.Namespace, *name)
		if err != nil {
			continue // Nobody asks for the claim where the plugin is disabled.
		}
		bound := claim.DeepCopy()
		if pending := claims.GetPendingAllocation(claim.UID); pending != nil {
			bound.Status.Allocation = pending.DeepCopy()
			bound.Status.Allocation.AllocationTimestamp = ptr.To(metav1.Now())
		}
		if bound.Status.Allocation == nil || resourceclaim.IsReservedForPod(pod, bound, false) {
			continue
		}
		bound.Status.ReservedFor = append(bound.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: "pods", Name: pod.Name, UID: pod.UID,
		})
		if err := claims.AssumeClaimAfterAPICall(bound); err != nil {
			return err
		}
		claims.MaybeRemoveClaimPendingAllocation(claim.UID, true)
	}
	return nil
}

func validateDevices(obj object, convert func(any) error) (field.ErrorList, error) {
	switch obj.(type) {
	case *resourcev1.ResourceSlice:
		slice := &resource.ResourceSlice{}
		if err := convert(slice); err != nil {
			return nil, err
		}
		return resourcevalidation.ValidateResourceSlice(slice), nil
	case *resourcev1.ResourceClaim:
		claim := &resource.ResourceClaim{}
		if err := convert(claim); err != nil {
			return nil, err
		}
		created := claim.DeepCopy()
		created.Status = resource.ResourceClaimStatus{}
		return append(resourcevalidation.ValidateResourceClaim(created),
			resourcevalidation.ValidateResourceClaimStatusUpdate(claim, created)...), nil
	case *resourcev1.ResourceClaimTemplate:
		template := &resource.ResourceClaimTemplate{}
		if err := convert(template); err != nil {
			return nil, err
		}
		return resourcevalidation.ValidateResourceClaimTemplate(template), nil
	case *resourcev1.DeviceClass:
		class := &resource.DeviceClass{}
		if err := convert(class); err != nil {
			return nil, err
		}
		return resourcevalidation.ValidateDeviceClass(class), nil
	case *resourcev1.DeviceTaintRule:
		rule := &resource.DeviceTaintRule{}
		if err := convert(rule); err != nil {
			return nil, err
		}
		return resourcevalidation.ValidateDeviceTaintRule(rule), nil
	}
	return nil, fmt.Errorf("no validation for %T", obj)
}
