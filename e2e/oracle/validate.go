package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
)

// validate tells what the API server would object to in the cluster: a generated one has to be valid.
func (c *cluster) validate() ([]string, error) {
	complaints := []string{}
	for _, kindName := range []string{"Pod", "Node", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode",
		"ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule"} {
		for _, obj := range c.objects[kindName] {
			found, err := validateObject(obj)
			if err != nil {
				return nil, err
			}
			for _, complaint := range found {
				complaints = append(complaints, fmt.Sprintf("%s %s: %s", kindName, keyOf(obj), complaint))
			}
		}
	}
	return complaints, nil
}

func validateObject(obj object) (field.ErrorList, error) {
	convert := func(out any) error { return legacyscheme.Scheme.Convert(obj.DeepCopyObject(), out, nil) }
	switch obj.(type) {
	case *v1.Pod:
		pod := &core.Pod{}
		if err := convert(pod); err != nil {
			return nil, err
		}
		return validation.ValidatePodCreate(pod, podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)), nil
	case *v1.Node:
		node := &core.Node{}
		if err := convert(node); err != nil {
			return nil, err
		}
		return validation.ValidateNode(node), nil
	case *v1.PersistentVolume:
		volume := &core.PersistentVolume{}
		if err := convert(volume); err != nil {
			return nil, err
		}
		return validation.ValidatePersistentVolume(volume, validation.ValidationOptionsForPersistentVolume(volume, nil)), nil
	case *v1.PersistentVolumeClaim:
		claim := &core.PersistentVolumeClaim{}
		if err := convert(claim); err != nil {
			return nil, err
		}
		return validation.ValidatePersistentVolumeClaim(claim, validation.ValidationOptionsForPersistentVolumeClaimCreate()), nil
	case *storagev1.StorageClass:
		class := &storage.StorageClass{}
		if err := convert(class); err != nil {
			return nil, err
		}
		return storagevalidation.ValidateStorageClass(class), nil
	case *storagev1.CSINode:
		node := &storage.CSINode{}
		if err := convert(node); err != nil {
			return nil, err
		}
		return storagevalidation.ValidateCSINode(node), nil
	}
	return validateDevices(obj, convert)
}
