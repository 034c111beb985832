package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// The roles that this program has beside the host's, as its first argument.
const (
	waitRole  = "wait"
	probeRole = "probe"
)

// playRole is the command that is watched, or its probe.
func playRole(ctx context.Context, role string, opts options, stdout io.Writer) error {
	if role == waitRole {
		return wait(ctx, opts, stdout)
	}
	return probe(ctx, opts, stdout)
}

// wait returns when the resource is ready. It prints on and on, so that its silence is no signal, and has no limit of its own.
func wait(ctx context.Context, opts options, stdout io.Writer) error {
	for {
		seen, err := opts.resource.look(ctx, opts.server)
		if err != nil {
			return err
		}
		f := found(opts.resource, seen)
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

// probe prints what it sees as package stall reads it. An API that does not answer, or not as one does, is an error: then nobody knows whether the wait gets
// anywhere, which is not the same as a resource that is missing.
func probe(ctx context.Context, opts options, stdout io.Writer) error {
	seen, err := opts.resource.look(ctx, opts.server)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(found(opts.resource, seen))
}

// A finding is what the probe prints.
type finding struct {
	Class        string   `json:"class"`
	Digest       string   `json:"digest"`
	Fingerprints []string `json:"fingerprints,omitempty"`
	Summary      string   `json:"summary"`
}

// found words what was seen. The digest is what the API has for one: the version of the resource.
func found(r resource, seen sight) finding {
	switch {
	case !seen.there:
		return finding{"stalled", "missing", []string{"k8s/" + r.kind + "/missing:" + r.name}, r.String() + " does not exist"}
	case !seen.ready:
		return finding{"stalled", seen.version, []string{"k8s/" + r.kind + "/not-ready:" + r.name}, r.String() + " is not ready: " + seen.message}
	default:
		return finding{"progressing", seen.version, nil, r.String() + " is ready"}
	}
}

// self is this program, to be started in another role.
func self(role string, opts options, flags ...string) ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it in another role: %w", err)
	}
	return append([]string{path, role, "-server", opts.server, "-kind", opts.resource.kind, "-name", opts.resource.name}, flags...), nil
}
