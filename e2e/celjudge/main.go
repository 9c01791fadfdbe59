// Command celjudge says what Kubernetes' own CEL for devices makes of selectors.
//
// It reads JSON lines {"expression": ..., "devices": [...]} and answers each with one line:
// {"compileError": ...}, or {"results": [{"match": ...} or {"error": ...}, ...]}, one a device.
// Error texts are those that kube-scheduler shows, advice on missing keys included.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expression string   `json:"expression"`
	Devices    []device `json:"devices"`
}

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	CompileError string   `json:"compileError,omitempty"`
	Results      []result `json:"results,omitempty"`
}

type result struct {
	Match bool   `json:"match"`
	Error string `json:"error,omitempty"`
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 {
			break
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			fmt.Fprintln(os.Stderr, "celjudge:", err)
			os.Exit(2)
		}
		if err := encoder.Encode(judge(q)); err != nil {
			os.Exit(1)
		}
		if in.Buffered() == 0 {
			out.Flush()
		}
		if err != nil {
			break
		}
	}
	out.Flush()
}

func judge(q question) (a answer) {
	defer func() {
		if r := recover(); r != nil { // constants are folded without a net
			a = answer{CompileError: fmt.Sprintf("panic: %v", r)}
		}
	}()
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	program := compiler.CompileCELExpression(q.Expression, cel.Options{DisableCostEstimation: true})
	if program.Error != nil {
		return answer{CompileError: program.Error.Error()}
	}
	for _, d := range q.Devices {
		match, _, err := program.DeviceMatches(context.Background(), cel.Device{
			Driver:                   d.Driver,
			AllowMultipleAllocations: d.AllowMultipleAllocations,
			Attributes:               d.Attributes,
			Capacity:                 d.Capacity,
		})
		r := result{Match: match}
		if err != nil {
			r = result{Error: cel.EnhanceRuntimeError(err).Error()}
		}
		a.Results = append(a.Results, r)
	}
	return a
}
