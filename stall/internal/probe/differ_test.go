package probe_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

func TestDiffer(t *testing.T) {
	for _, c := range []struct{ name, older, newer, fields string }{
		{"equal outputs", `{"a": 1}`, `{ "a": 1.0 }`, ""},
		{"one field", `{"a": 1, "at": "10:00"}`, `{"a": 1, "at": "10:01"}`, "at"},
		{"a nested one", `{"state": {"a": 1, "updated_at": 1}}`, `{"state": {"updated_at": 2, "a": 1}}`, "state.updated_at"},
		{"an element", `{"pods": [{"age": 1}, {"age": 2}]}`, `{"pods": [{"age": 1}, {"age": 3}]}`, "pods.1.age"},
		{"an array of another length", `{"pods": [1]}`, `{"pods": [1, 2]}`, "pods"},
		{"one more, one less", `{"a": 1, "b": 1}`, `{"b": 1, "c": null}`, "a c"},
		{"another type", `{"a": {"b": 1}}`, `{"a": [1]}`, "a"},
		{"a name that may be data", `{"secret words": 1}`, `{"secret words": 2}`, "?"},
		{"a long name", `{"` + strings.Repeat("a", 41) + `": 1}`, `{}`, "?"},
		{"a digest of its own", `{"a": 1, "digest": "x"}`, `{"a": 2, "digest": "x"}`, ""},
		{"no observation", `{"a": 1}`, `none`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.fields, strings.Join(probe.Differ([]byte(c.older), []byte(c.newer)), " "))
			require.Equal(t, c.fields, strings.Join(probe.Differ([]byte(c.newer), []byte(c.older)), " "))
		})
	}
}
