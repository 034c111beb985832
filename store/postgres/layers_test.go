package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestLayers(t *testing.T) {
	t.Parallel()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) { findsLayers(t, open(t)) })
	}
	t.Run("without the index", func(t *testing.T) {
		s := setups[opened](t)
		mustExec(t, s.pool, "DROP INDEX watchdog_events_parent")
		findsLayers(t, s)
	})
}

func findsLayers(t *testing.T, s putter) {
	t.Helper()
	long := strings.Repeat("ü", 255)
	var events []watchdog.Event
	for i, payload := range []string{
		`{"parent":"run"}`, `{"a":1, "parent" : "run"}`, `{"parent":"r\u0075n"}`, `{"parent":"run","a":"\u0000\ud800"}`,
		`{"parent":"other","parent":"run"}`, `{"parent":"ru\/n"}`, `{"parent":5}`, `{"parent":null}`, `{"parent":["run"]}`,
		`{"a":{"parent":"run"}}`, `{"Parent":"run"}`, `{"a":"\"parent\":\"run\""}`, `{"parent":"run\u0000"}`, `{"parent":""}`,
		`{"parent":"` + long + `"}`, `{"parent":"` + long + `x"}`, `{"parent":"` + strings.Repeat(long, 100) + `"}`,
		`{"parent":"\\u"}`, `{"parent":"run/a"}`, `{"parent":"%"}`,
	} {
		e := numbered(int64(i))
		e.AggregateID, e.Payload = fmt.Sprintf("layer-%02d", i), []byte(payload)
		events = append(events, e)
	}
	again, theirs := events[0], events[0]
	again.ID, theirs.ID, theirs.AggregateType, theirs.AggregateID = "again", "theirs", "theirs", "theirs"
	require.NoError(t, s.Append(t.Context(), append(events, again, theirs)...))
	for parent, want := range map[string]string{
		"run": "00 01 02 03 04", "ru/n": "05", "5": "", "": "", long: "14", long + "x": "15", `\u`: "17",
		"run/a": "18", "%": "19", "missing": "", "other": "", strings.Repeat(long, 100): "16",
	} {
		layers, err := s.Layers(t.Context(), parent)
		require.NoError(t, err, parent)
		assert.Equal(t, want, strings.ReplaceAll(strings.Join(layers, " "), "layer-", ""), "the layers of %.20s", parent)
	}
}
