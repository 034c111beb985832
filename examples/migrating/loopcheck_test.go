package migrating_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/examples/migrating"
)

// call is the same one each time.
func call(tool, input, outcome string) func(int) migrating.Call {
	return func(int) migrating.Call {
		return migrating.Call{Tool: tool, Input: []byte(input), Outcome: []byte(outcome)}
	}
}

// numbered has the number of the call for each N.
func numbered(tool, input, outcome string) func(int) migrating.Call {
	return func(i int) migrating.Call {
		number := strings.NewReplacer("N", fmt.Sprint(i+1))
		return call(tool, number.Replace(input), number.Replace(outcome))(i)
	}
}

// TestLoopCheck gives a hook a run of forty calls, one more each time, and says after which it stops; 0 is never.
func TestLoopCheck(t *testing.T) {
	read := call("view", `{"path":"a.go"}`, "package a")
	list := call("bash", `{"command":"ls"}`, "a.go")
	for _, c := range []struct {
		name          string
		calls         []func(int) migrating.Call // in turns
		before, after int
	}{
		{"the same call", []func(int) migrating.Call{read}, 10, 5},
		{"two calls in turns", []func(int) migrating.Call{read, list}, 0, 9},
		{"the same input as other JSON", []func(int) migrating.Call{
			call("view", `{"path":"a.go","limit":10}`, "package a"),
			call("view", `{"limit": 10, "path": "a.go"}`, "package a"),
		}, 0, 5},
		{"a failing test that takes other times", []func(int) migrating.Call{
			numbered("bash", `{"command":"go test"}`, "FAIL a 0.0Ns"),
		}, 0, 5},
		{"a wait", []func(int) migrating.Call{call("bash", `{"command":"sleep 1"}`, "")}, 10, 10},
		{"pages of a file", []func(int) migrating.Call{
			numbered("view", `{"path":"a.go","offset":N00}`, "line N00"),
		}, 0, 0},
		{"an edit and the same test", []func(int) migrating.Call{
			numbered("edit", `{"path":"a.go","new":"N"}`, "ok"), call("bash", `{"command":"go test"}`, "FAIL a"),
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.before, stopsAfter(migrating.LoopCheckBefore, c.calls), "before")
			require.Equal(t, c.after, stopsAfter(migrating.LoopCheckAfter, c.calls), "after")
			row := fmt.Sprintf("\n| %s | %d | %d |\n", c.name, c.before, c.after)
			require.Contains(t, readDocument(t), strings.ReplaceAll(row, " 0 ", " never "))
		})
	}
}

func stopsAfter(hook func([]migrating.Call) bool, turns []func(int) migrating.Call) int {
	var calls []migrating.Call
	for i := range 40 {
		calls = append(calls, turns[i%len(turns)](i))
		if hook(calls) {
			return len(calls)
		}
	}
	return 0
}
