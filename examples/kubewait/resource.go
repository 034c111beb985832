package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A resource is the resource to wait for.
type resource struct{ kind, name string }

func (r resource) String() string { return r.kind + " " + r.name }

// A kind has the path of its resources and the condition of a ready one.
type kind struct{ path, condition string }

var kinds = map[string]kind{
	"crd":        {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/", "Established"},
	"deployment": {"/apis/apps/v1/namespaces/default/deployments/", "Available"},
}

// names matches the object names that this program supports.
var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,98}[a-z0-9])?$`)

func (r resource) check() error {
	if _, known := kinds[r.kind]; !known {
		return fmt.Errorf("-kind %q: use %s", r.kind, kindNames())
	}
	if !names.MatchString(r.name) {
		return fmt.Errorf("-name %q: use at most 100 lower-case letters, digits, dots and hyphens", r.name)
	}
	return nil
}

// A resourceState is the state of a resource in the API.
type resourceState struct {
	there, ready bool
	version      string
	message      string // of the condition for readiness
}

// limit is the timeout of a request.
const limit = 3 * time.Second

// get asks the API. Any answer but the resource or NotFound is an error.
func (r resource) get(ctx context.Context, server string) (resourceState, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+kinds[r.kind].path+r.name, nil)
	if err != nil {
		return resourceState{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return resourceState{}, fmt.Errorf("ask for %v: %w", r, err)
	}
	defer resp.Body.Close() //nolint:errcheck // an error after reading changes nothing
	seen, err := r.read(resp)
	if err != nil {
		return resourceState{}, fmt.Errorf("ask for %v: the answer %s: %w", r, resp.Status, err)
	}
	return seen, nil
}

// maxAnswer is the most bytes read of an answer.
const maxAnswer = 1 << 20

func (r resource) read(resp *http.Response) (resourceState, error) {
	var answer struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Reason string          `json:"reason"`
		Status json.RawMessage `json:"status"` // a text in an error response
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return resourceState{}, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return resourceState{}, fmt.Errorf("it is not an object of the API: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && answer.Reason == "NotFound":
		return resourceState{}, nil
	case resp.StatusCode != http.StatusOK:
		return resourceState{}, fmt.Errorf("its reason is %q", answer.Reason)
	}
	return r.readStatus(answer.Metadata.ResourceVersion, answer.Status)
}

func (r resource) readStatus(version string, text json.RawMessage) (resourceState, error) {
	var status struct {
		Conditions []struct{ Type, Status, Message string } `json:"conditions"`
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return resourceState{}, fmt.Errorf("its status: %w", err)
	}
	seen := resourceState{there: true, version: version}
	for _, c := range status.Conditions {
		if c.Type == kinds[r.kind].condition {
			seen.ready, seen.message = c.Status == "True", c.Message
		}
	}
	return seen, nil
}

// kindNames lists the kinds.
func kindNames() string {
	var all []string
	for name := range kinds {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " or ")
}
