package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// The roles of this program beside the host, as its first argument.
const (
	waitRole  = "wait"
	probeRole = "probe"
)

// runRole runs the wait or its probe.
func runRole(ctx context.Context, role string, opts options, stdout io.Writer) error {
	if role == waitRole {
		return wait(ctx, opts, stdout)
	}
	return probe(ctx, opts, stdout)
}

// wait returns when the resource is ready. It prints all the time, so that silence cannot end it, and has no time
// limit.
func wait(ctx context.Context, opts options, stdout io.Writer) error {
	for {
		seen, err := opts.resource.get(ctx, opts.server)
		if err != nil {
			return err
		}
		f := newProbeOutput(opts.resource, seen)
		if _, err := fmt.Fprintf(stdout, "waiting: %s\n", f.Summary); err != nil || seen.ready {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(opts.interval):
		}
	}
}

// probe prints the state for package stall. If the API does not answer, or answers nonsense, probe returns an error:
// the progress of the wait is unknown then, which is not the same as a missing resource.
func probe(ctx context.Context, opts options, stdout io.Writer) error {
	seen, err := opts.resource.get(ctx, opts.server)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(newProbeOutput(opts.resource, seen))
}

// A probeOutput is the output of the probe.
type probeOutput struct {
	Class        string   `json:"class"`
	Digest       string   `json:"digest"`
	Fingerprints []string `json:"fingerprints,omitempty"`
	Summary      string   `json:"summary"`
}

// newProbeOutput describes a state. Its digest is the resource's version.
func newProbeOutput(r resource, seen resourceState) probeOutput {
	switch {
	case !seen.there:
		return probeOutput{
			"stalled", "missing", []string{"k8s/" + r.kind + "/missing:" + r.name}, r.String() + " does not exist",
		}
	case !seen.ready:
		return probeOutput{
			"stalled", seen.version, []string{"k8s/" + r.kind + "/not-ready:" + r.name},
			r.String() + " is not ready: " + seen.message,
		}
	default:
		return probeOutput{"progressing", seen.version, nil, r.String() + " is ready"}
	}
}

// self returns the command line of this program in another role.
func self(role string, opts options, flags ...string) ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it in another role: %w", err)
	}
	command := []string{path, role, "-server", opts.server, "-kind", opts.resource.kind, "-name", opts.resource.name}
	return append(command, flags...), nil
}
